"""`ebbtide simulate`: a story file or a scenario with the real engine, and what came of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.text import Text

from ebbtide.entrypoints.cli.options import AsJson
from ebbtide.entrypoints.cli.writing import BAD, GOOD, STRONG, rows, write_lines
from ebbtide.errors import Usage

OF_SCENARIOS = ("scenario", "seed", "faults", "recording", "days", "compare")
NAMES = {"node_hours": "node-hours", "pending_pod_seconds": "pod-seconds waited"}


def simulate(  # noqa: PLR0913, PLR0917 - one for each option
    ctx: typer.Context,
    story: Annotated[
        Path | None, typer.Argument(help="A story file: a cluster, what happens, what must follow.")
    ] = None,
    scenario: Annotated[str, typer.Option(help="Name of the scenario; a wrong name lists them all.")] = "day",
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same run.")] = 1,
    faults: Annotated[str, typer.Option(help="Faults to inject, separated by commas.")] = "",
    recording: Annotated[
        Path | None, typer.Option(help="CSV of seconds,replicas[,workload] that the workloads follow.")
    ] = None,
    days: Annotated[
        float | None,
        typer.Option(min=0.01, max=366, help="How many days to play. Default: what the scenario says."),
    ] = None,
    compare: Annotated[
        bool, typer.Option("--compare", help="Play it again without consolidation, and show what that costs.")
    ] = False,
    schema: Annotated[
        bool, typer.Option("--schema", help="Print the JSON schema of story files, for editors.")
    ] = False,
    skip: Annotated[
        bool,
        typer.Option(
            "--skip/--no-skip",
            help="Reuse the last decision where it provably comes out the same.",
        ),
    ] = True,
    as_json: AsJson = False,
) -> None:
    """Play a story or a scenario on a virtual clock.

    Exit code 1 when an expectation does not hold or a safety rule was violated, 2 when the file is wrong.
    """
    if schema:
        from ebbtide.simulator.story.schemas import schema_text

        print(schema_text())
        return
    if story is not None:
        refuse_others(ctx)
        play_story(story, as_json, skip)
        return
    from ebbtide.engine.ports import Always
    from ebbtide.engine.steady import Steady
    from ebbtide.simulator.faults.catalogue import check_names
    from ebbtide.simulator.run.scenarios import Scenario, build, play
    from ebbtide.simulator.run.simulate import (
        Result,
        Simulation,
        compared,
        needs_consolidation,
        without_consolidation,
    )
    from ebbtide.simulator.world.workload import read_recording

    named = fault_names(faults)
    check_names(named)
    demands = {} if recording is None else read_recording(recording)

    def told() -> Scenario:
        built = build(scenario, seed)
        play(built, demands)
        return built if days is None else replace(built, duration_seconds=round(days * 86_400))

    def simulated(scenario: Scenario) -> Result:
        simulation = Simulation(scenario, named)
        simulation.stage.think = Steady if skip else Always
        return simulation.run()

    first = told()
    if compare:
        needs_consolidation(first)
    result = simulated(first)
    violations, text = result.violations, result.to_json()
    if compare:
        other = simulated(without_consolidation(told()))
        violations, text = violations + other.violations, compared(result, other)
    if as_json:
        print(text)
    else:
        write_lines(result_lines(text))
    if violations:
        raise typer.Exit(1)


def refuse_others(ctx: typer.Context) -> None:
    """A story sets these itself: accepting and ignoring them would mislead."""
    sources = {name: ctx.get_parameter_source(name) for name in OF_SCENARIOS}
    given = [f"--{name}" for name, source in sources.items() if source and source.name != "DEFAULT"]
    if given:
        raise Usage(
            f"{' and '.join(given)} cannot be given with a story file, which says that itself; nothing ran. "
            "Change the story, or leave the file out to play a scenario."
        )


def play_story(path: Path, as_json: bool, skip: bool = True) -> None:
    from ebbtide.engine.ports import Always
    from ebbtide.engine.steady import Steady
    from ebbtide.simulator.story import play, read_story

    result = play(read_story(path), Steady if skip else Always)
    if as_json:
        print(result.to_json())
    else:
        from ebbtide.entrypoints.views.stories import story_lines

        write_lines(story_lines(result))
    if not result.ok:
        raise typer.Exit(1)


def fault_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def result_lines(result_json: str) -> list[Text]:
    import json

    result: dict[str, Any] = json.loads(result_json)
    violations = result.pop("violations")
    lines = [Text(f"{result.pop('scenario')}, seed {result.pop('seed')}", STRONG)]
    lines += rows((NAMES.get(name, name.replace("_", " ")), _shown(value)) for name, value in result.items())
    lines += [Text(f"violated: {said}", BAD) for said in violations]
    return lines if violations else [*lines, Text("No safety rule was violated.", GOOD)]


def _shown(value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{name} {_shown(part)}" for name, part in value.items()) or "none"
    if isinstance(value, list):
        return ", ".join(map(str, value)) or "none"
    return f"{value:g}" if isinstance(value, float) else str(value)
