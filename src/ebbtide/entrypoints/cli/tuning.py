"""`ebbtide tune`: a search for better settings on a recording. It proposes, and applies nothing."""

from __future__ import annotations

from typing import Annotated

import typer

from ebbtide.entrypoints.cli.foresight import Address, Backend, KeptRuns, RecordingPath, Workers, progress_bar
from ebbtide.entrypoints.cli.options import AsJson
from ebbtide.entrypoints.cli.writing import write_json, write_lines
from ebbtide.errors import Usage

DEFAULT_OBJECTIVES = ("cost", "waiting")


def tune(  # noqa: PLR0913, PLR0917 - one for each option
    recording: RecordingPath,
    evals: Annotated[int, typer.Option(min=1, max=100_000, help="How many settings are tried.")] = 80,
    objective: Annotated[
        list[str] | None,
        typer.Option(
            help="What to minimise: cost, waiting, p95, evictions or launches; may be repeated. "
            "Default: cost and waiting."
        ),
    ] = None,
    cost_limit: Annotated[
        float,
        typer.Option(min=0, max=1000, help="Most that the proposed settings may cost more, in per cent."),
    ] = 3.0,
    seed: Annotated[int, typer.Option(min=0, max=2**31, help="The same seed tries the same settings.")] = 1,
    seeds: Annotated[
        int,
        typer.Option(
            min=1, max=1000, help="How many times to play the held-out third, with different random seeds."
        ),
    ] = 1,
    keep: KeptRuns = None,
    workers: Workers = 1,
    backend: Backend = "loky",
    address: Address = "",
    as_json: AsJson = False,
) -> None:
    """Search for better settings on the first two thirds of a recording, and measure them on the last third.

    Changes nothing. Exit code 1 when a safety rule was violated.
    """
    from ebbtide.entrypoints.views.tunings import tuning_json, tuning_lines
    from ebbtide.simulator.backtest.runs import Results
    from ebbtide.simulator.backtest.sweep import Machines, Sweep
    from ebbtide.simulator.recording.file import read_recording
    from ebbtide.simulator.tuning.search import Plan
    from ebbtide.simulator.tuning.tune import Asked
    from ebbtide.simulator.tuning.tune import tune as tuned_for

    asked = Asked(Plan(evals, seed, _objectives(objective or [])), cost_limit / 100, seeds)
    machines = Machines(workers, backend, address)
    found = read_recording(recording)
    results = Results(keep or recording.with_name(f"{recording.name}.runs"))
    with progress_bar("learning", evals) as bar, Sweep(results, machines) as sweep:
        tuned = tuned_for(
            found,
            recording.name,
            asked,
            sweep,
            lambda says, done, total: bar.update(
                bar.task_ids[0], description=says, completed=done, total=total
            ),
        )
    if as_json:
        write_json(tuning_json(tuned))
    else:
        write_lines(tuning_lines(tuned, recording.name))
    if tuned.violations:
        raise typer.Exit(1)


def _objectives(asked: list[str]) -> tuple[str, ...]:
    from ebbtide.simulator.tuning.search import OBJECTIVES

    names = tuple(dict.fromkeys(asked)) or DEFAULT_OBJECTIVES
    for name in names:
        if name not in OBJECTIVES:
            raise Usage(
                f"there is no objective {name!r}; nothing ran. Allowed: {', '.join(OBJECTIVES)}, each with "
                "an --objective of its own."
            )
    return names
