"""`ebbtide record`: what was asked of a cluster, as one file."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from ebbtide.errors import Usage

if TYPE_CHECKING:
    from ebbtide.adapters.prometheus import Source
    from ebbtide.config import Config
    from ebbtide.simulator.recording.file import Recording

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
    """Record the demand on a cluster as one file, for `simulate`, `backtest` and `forecast`."""
    from ebbtide.config.document import Read, read_document
    from ebbtide.config.load import FILE_NAME, build_config
    from ebbtide.entrypoints.past_metrics import Wanted, record_prometheus
    from ebbtide.entrypoints.views.backtests import said_of
    from ebbtide.simulator.recording.anonymous import anonymised
    from ebbtide.simulator.recording.file import write_recording
    from ebbtide.simulator.recording.scope import settings_of
    from ebbtide.simulator.recording.start import with_first_nodes
    from ebbtide.simulator.recording.trace import Pods, record_trace
    from ebbtide.simulator.story.parse import story_of

    if (csv is not None) + log + bool(prometheus) != 1:
        raise Usage(
            "name one source to record from; nothing was written. Give a trace with --csv, a "
            "Prometheus with --prometheus, or Ebbtide's own log with --log."
        )
    file = config or (Path(FILE_NAME) if Path(FILE_NAME).exists() else None)
    read = read_document(file) if file is not None else Read()
    built = build_config(read, os.environ)
    written = settings_of(read.values, built)
    history = None
    if prometheus:
        wanted = Wanted(days, step, _epoch(until), output)
        found = record_prometheus(_source(built, prometheus, token_file), wanted, written, built)
        recording, history = found.recording, found.history
        for note in found.notes:
            print(f"{note}.", file=sys.stderr)
    elif csv is None:
        recording = _from_log(built, written, days)
    elif cpu and memory:
        trace = record_trace(
            csv, Pods(cpu, memory, per_pod), written, start, lambda said: print(f"{said}.", file=sys.stderr)
        )
        recording = with_first_nodes(trace, built)
    else:
        raise Usage(
            "a trace does not say what its pods request, and without memory requests no packing is right; "
            "nothing was written. Give --cpu and --memory, such as --cpu 500m --memory 512Mi."
        )
    recording = anonymised(recording) if anonymise else recording
    story_of(recording, str(output))  # what would not play is not written
    size = write_recording(output, recording)
    if history is not None:
        history.done()
    seconds, workloads = recording.story["until"], len(recording.demand)
    print(f"{output}: {said_of(recording.recorded, seconds, workloads, size)}")


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


def _source(config: Config, url: str, token_file: Path | None) -> Source:
    """The token of the configuration goes only to the address that it is for."""
    from ebbtide.adapters.prometheus import Source

    keys = config.adapters.metrics
    own = keys.token_file if url == keys.prometheus_url else ""
    file = token_file or (Path(own).expanduser() if own else None)
    return Source(url, token_file=file, timeout_seconds=TIMEOUT_SECONDS)


def _from_log(config: Config, written: Mapping[str, Any], days: int) -> Recording:
    from ebbtide.entrypoints.cli.options import existing_store
    from ebbtide.entrypoints.own_log import record_log
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
