"""`ebbtide simulate`: play a story file or a scenario with the real engine; and `ebbtide
record`: what was asked of a cluster, as one file that plays as a story.
"""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebbtide.entrypoints.cli.options import AsJson
from ebbtide.entrypoints.views.terminal import write_lines
from ebbtide.errors import Usage

if TYPE_CHECKING:
    from ebbtide.adapters.prometheus import PrometheusSource
    from ebbtide.config import Config
    from ebbtide.model.snapshot import ClusterView
    from ebbtide.simulator.recording.file import Recording

OF_SCENARIOS = ("scenario", "seed", "faults", "recording", "days", "compare")


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
    from ebbtide.simulator.world.rules import read_recording

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
    other = simulated(without_consolidation(told())) if compare else None
    if as_json:
        print(result.to_json() if other is None else compared(result, other))
    else:
        from ebbtide.entrypoints.views.simulations import result_lines

        write_lines(result_lines(result, other))
    if result.violations or (other and other.violations):
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
        from ebbtide.entrypoints.views.simulations import story_lines

        write_lines(story_lines(result))
    if not result.ok:
        raise typer.Exit(1)


def fault_names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


START = "2026-01-01T00:00:00Z"
TIMEOUT_SECONDS = 120.0
"""Of one answer of Prometheus: a part of a month takes it longer than the CPU of now."""


def record(  # noqa: PLR0913, PLR0917 - one for each option
    output: Annotated[Path, typer.Option("--output", "-o", help="The file to write, such as month.ebb.")],
    csv: Annotated[
        Path | None,
        typer.Option(help="A CSV trace: seconds in the first column, then one column per workload."),
    ] = None,
    log: Annotated[
        bool, typer.Option("--log", help="Read Ebbtide's own log, in the store of the configuration.")
    ] = False,
    prometheus: Annotated[
        str, typer.Option(help="Address of a Prometheus that scrapes kube-state-metrics.")
    ] = "",
    days: Annotated[
        int, typer.Option(min=1, max=366, help="How many days to read from the log or from Prometheus.")
    ] = 30,
    until: Annotated[
        str,
        typer.Option(help="Where those days end in Prometheus, such as 2026-01-31T00:00:00Z. Default: now."),
    ] = "",
    step: Annotated[
        int, typer.Option(min=15, max=300, help="Seconds between two samples of Prometheus.")
    ] = 60,
    token_file: Annotated[
        Path | None, typer.Option(help="File with the bearer token for Prometheus.")
    ] = None,
    dump: Annotated[
        str | None,
        typer.Option(
            metavar="FILE",
            help="With --prometheus: what `kubectl get nodes,pods,pdb,pv,pvc -A -o json` printed (- for "
            "standard input), for what no metric says. Default: asks the cluster of the configuration.",
        ),
    ] = None,
    config: Annotated[
        Path | None,
        typer.Option("--config", "-c", help="Configuration with the pools. Default: ebbtide.yaml."),
    ] = None,
    cpu: Annotated[str, typer.Option(help="CPU that each pod of a trace requests, such as 500m.")] = "",
    memory: Annotated[
        str, typer.Option(help="Memory that each pod of a trace requests, such as 512Mi.")
    ] = "",
    per_pod: Annotated[
        float, typer.Option(min=0.000001, help="How many units of the trace one pod handles.")
    ] = 1.0,
    start: Annotated[str, typer.Option(help="The time at second 0 of the trace.")] = START,
    anonymise: Annotated[
        bool,
        typer.Option(
            "--anonymise", help="Replace the names of workloads, namespaces and nodes with numbers."
        ),
    ] = False,
) -> None:
    """Record the demand on a cluster as one file, for `simulate`, `backtest`, `tune` and `forecast`."""
    from ebbtide.config.document import Read, read_document
    from ebbtide.config.load import FILE_NAME, build_config
    from ebbtide.config.section import read_cpu_milli, read_memory_mib
    from ebbtide.entrypoints.recordings import RecordingRequest, record_prometheus
    from ebbtide.entrypoints.views.foresight import said_of, without_file
    from ebbtide.simulator.recording.file import anonymised, settings_of, with_first_nodes, write_recording
    from ebbtide.simulator.recording.trace import TracePods, record_trace
    from ebbtide.simulator.story.parse import story_of

    if (csv is not None) + log + bool(prometheus) != 1:
        raise Usage(
            "name one source to record from; nothing was written. Give a trace with --csv, a "
            "Prometheus with --prometheus, or Ebbtide's own log with --log."
        )
    if dump is not None and not prometheus:
        raise Usage(
            "--dump goes with --prometheus; nothing was written. A trace has no pods that it could be about, "
            "and the log says itself where pods may run."
        )
    file = config or (Path(FILE_NAME) if Path(FILE_NAME).exists() else None)
    read = read_document(file) if file is not None else Read()
    built = build_config(read, os.environ)
    written = settings_of(read.values, built)
    history = None
    if prometheus:
        wanted = RecordingRequest(days, step, _epoch(until), output, *_objects(built, dump))
        found = record_prometheus(_source(built, prometheus, token_file), wanted, written, built)
        recording, history = found.recording, found.history
        for note in found.notes:
            print(f"{note}.", file=sys.stderr)
    elif csv is None:
        recording = _from_log(built, written, days)
    elif cpu and memory:
        _checked("--cpu", cpu, read_cpu_milli)
        _checked("--memory", memory, read_memory_mib)
        trace = record_trace(
            csv,
            TracePods(cpu, memory, per_pod),
            written,
            start,
            lambda said: print(f"{said}.", file=sys.stderr),
        )
        recording = with_first_nodes(trace, built)
    else:
        raise Usage(
            "a trace does not say what its pods request, and without memory requests nothing can be planned; "
            "nothing was written. Give --cpu and --memory, such as --cpu 500m --memory 512Mi."
        )
    recording = anonymised(recording) if anonymise else recording
    story_of(recording, str(output))  # what would not play is not written
    size = write_recording(output, recording)
    if history is not None:
        history.done()
    seconds, workloads = recording.story["until"], len(recording.demand)
    print(f"{output}: {said_of(recording.recorded, seconds, workloads, size)}")
    if file is None:
        print(without_file(built.settings), file=sys.stderr)


def _objects(config: Config, dump: str | None) -> tuple[ClusterView | None, tuple[str, ...]]:
    """The cluster as it is now, and what could not be read of it."""
    from ebbtide.bootstrap.kubernetes import read_cluster
    from ebbtide.entrypoints.cli.options import dump_from
    from ebbtide.errors import EbbtideError

    if dump is not None:
        found = dump_from(dump)
        return found.view, found.notes
    if config.cluster_kind != "kubernetes":
        return None, ()
    try:
        return read_cluster(config), ()
    except EbbtideError as why:
        return None, (f"the cluster could not be read ({why})",)


def _checked(option: str, value: str, read: Callable[[str], int]) -> None:
    try:
        read(value)
    except ValueError as error:
        raise Usage(f"{option} {value!r} is {error}; nothing was written.") from error


def _epoch(until: str) -> int | None:
    if not until:
        return None
    from ebbtide.simulator.story.schemas import epoch_of

    try:
        return epoch_of(until)
    except ValueError as error:
        raise Usage(
            f"--until {until!r} is not a time; nothing was written. Write it as 2026-01-31T00:00:00Z."
        ) from error


def _source(config: Config, url: str, token_file: Path | None) -> PrometheusSource:
    """The token of the configuration goes only to the address that it is for."""
    from ebbtide.adapters.prometheus import PrometheusSource

    keys = config.adapters.metrics
    own = keys.token_file if url == keys.prometheus_url else ""
    file = token_file or (Path(own).expanduser() if own else None)
    return PrometheusSource(url, token_file=file, timeout_seconds=TIMEOUT_SECONDS)


def _from_log(config: Config, written: Mapping[str, Any], days: int) -> Recording:
    from ebbtide.entrypoints.cli.options import existing_store
    from ebbtide.entrypoints.recordings import record_log
    from ebbtide.entrypoints.report.collect import Period

    store = existing_store(config)
    if store is None:
        raise Usage(
            f"there is no store at {config.store_url}, so there is no log; nothing was written. Name the "
            "configuration that Ebbtide runs with in --config."
        )
    now = int(time.time())
    first, last = (datetime.fromtimestamp(at, UTC).date().isoformat() for at in (now - days * 86_400, now))
    try:
        return record_log(store, config.settings, written, Period(first, last, now - days * 86_400, now))
    finally:
        store.close()
