"""`ebbtide backtest`, `tune` and `forecast`: what other settings would have cost on a recording, a search
for better ones, and what to expect next.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from ebbtide.core.words import count_of
from ebbtide.entrypoints.cli.options import AsJson
from ebbtide.entrypoints.views.terminal import write_json, write_lines
from ebbtide.errors import ConfigError, Usage
from ebbtide.extras import how_to_add

if TYPE_CHECKING:
    from rich.progress import Progress

    from ebbtide.model.events import BacktestPublished
    from ebbtide.ports import Store
    from ebbtide.simulator.backtest.runs import Results
    from ebbtide.simulator.backtest.sweep import Sweep
    from ebbtide.simulator.recording.file import Recording
    from ebbtide.simulator.tuning.tune import Asked, Tuned

RecordingPath = Annotated[Path, typer.Argument(help="A recording, made by `ebbtide record`.")]
Workers = Annotated[int, typer.Option(min=1, max=10_000, help="How many runs are played at the same time.")]
Backend = Annotated[
    str, typer.Option(help="Where to play them: loky (processes on this machine), dask or ray (a cluster).")
]
Address = Annotated[str, typer.Option(help="Address of the Dask or Ray cluster.")]
KeptRuns = Annotated[
    Path | None, typer.Option("--keep", help="Where to keep finished runs. Default: next to the recording.")
]
STOPPED = 130
"""What a shell expects of a command that ended by Ctrl-C."""
UNITS = {"m": 60, "h": 3600, "d": 86_400}
LONGEST_SECONDS = 7 * 86_400
WELL_KNOWN = 0.95
"""A share of the time below which gaps in a recording are said wherever it is used."""


def backtest(  # noqa: PLR0913, PLR0917 - one for each option
    recording: RecordingPath,
    config: Annotated[
        list[Path] | None, typer.Option("--config", "-c", help="A configuration to try; may be repeated.")
    ] = None,
    change: Annotated[
        list[str] | None,
        typer.Option("--set", help="Replace a recorded setting, as key=value; may be repeated."),
    ] = None,
    profile: Annotated[
        list[str] | None, typer.Option(help="Apply a profile to the recorded settings; may be repeated.")
    ] = None,
    seeds: Annotated[
        int, typer.Option(min=1, max=1000, help="How many times to play each, with different random seeds.")
    ] = 1,
    html: Annotated[Path | None, typer.Option(help="Write one HTML file with a chart.")] = None,
    publish: Annotated[
        Path | None,
        typer.Option(
            help="Configuration of a cluster: try its settings too, and show the result on its Money page."
        ),
    ] = None,
    keep: KeptRuns = None,
    workers: Workers = 1,
    backend: Backend = "loky",
    address: Address = "",
    as_json: AsJson = False,
) -> None:
    """Play a recording with other settings and show what each would have cost.

    Exit code 1 when a safety rule was violated.
    """
    from ebbtide.entrypoints.published import page_of
    from ebbtide.entrypoints.views.foresight import backtest_fact, backtest_json, backtest_lines
    from ebbtide.simulator.backtest.runs import Results, Work, candidates, story_for, with_today
    from ebbtide.simulator.backtest.sweep import Machines, Sweep, agreements, rows_of

    machines = Machines(workers, backend, address)
    if html is not None and not html.parent.is_dir():
        raise Usage(
            f"there is no folder {html.parent}; nothing ran. Make it, or name another file with --html."
        )
    found = _read(recording)
    tried = candidates(found.story.get("settings", {}), config or [], profile or [], change or [])
    today = ""
    if publish is not None:
        _publishing_store(publish).close()  # fails before the first run if nothing can be published
        tried, today = with_today(tried, publish)
    works = [Work(found, recording.name, one, 1 + seed) for one in tried for seed in range(seeds)]
    for work in works[::seeds]:
        story_for(work)  # reports what is wrong with any of them before the first one runs
    results = Results(keep or recording.with_name(f"{recording.name}.runs"))
    with (
        _told_if_stopped(results),
        progress_bar("playing", len(works)) as bar,
        Sweep(results, machines, advancing(bar)) as sweep,
    ):
        runs = sweep.play(works)
    rows = rows_of(runs)
    agreed = agreements(found.recorded, rows)
    if html is not None:
        _write(html, page_of(recording.name, rows, agreed))
    if as_json:
        write_json(backtest_json(rows, agreed, found.recorded))
    else:
        write_lines(backtest_lines(rows, agreed, found.recorded))
    if any(row.violations for row in rows):
        raise typer.Exit(1)
    if publish is not None:
        seconds = float(found.story["until"])
        _publish(publish, backtest_fact(recording.name, seconds, rows, agreed, today))


def _read(path: Path) -> Recording:
    """Says on stderr what is not known of it."""
    from ebbtide.simulator.recording.file import read_recording

    found = read_recording(path)
    known = found.recorded.coverage.get("demand", 1.0)
    if known < WELL_KNOWN:
        print(
            f"{path.name}: demand is known for {known:.1%} of the time; elsewhere the value before holds. "
            "Take the result with care, or record a time without gaps.",
            file=sys.stderr,
        )
    return found


def _publishing_store(path: Path) -> Store:
    from ebbtide.config import load
    from ebbtide.entrypoints.cli.options import existing_store

    config = load(path, os.environ)
    store = existing_store(config)
    if store is None:
        raise Usage(
            f"there is no store at {config.store_url}, so no page would show a backtest; nothing ran. "
            "Name the configuration that Ebbtide runs with in --publish."
        )
    return store


def _publish(path: Path, fact: BacktestPublished) -> None:
    from ebbtide.bootstrap import SystemClock, TimeOrderedIds
    from ebbtide.entrypoints.published import publish

    store = _publishing_store(path)
    try:
        publish(store, TimeOrderedIds()(), int(SystemClock().now()), fact)
    finally:
        store.close()
    print("Published: the Money page shows it.", file=sys.stderr)


@contextmanager
def progress_bar(says: str, total: int) -> Iterator[Progress]:
    """On stderr, where that is a terminal."""
    from rich.console import Console
    from rich.progress import Progress

    with Progress(console=Console(file=sys.stderr), disable=not sys.stderr.isatty(), transient=True) as bar:
        bar.add_task(says, total=total)
        yield bar


@contextmanager
def _told_if_stopped(results: Results) -> Iterator[None]:
    """Ctrl-C loses nothing but the runs that are being played."""
    from ebbtide.simulator.backtest.runs import Results

    try:
        yield
    except KeyboardInterrupt:
        # By the file: it may have come between a run and the line that is written of it.
        found = count_of(Results(results.path).kept, "finished run")
        print(
            f"ebbtide: stopped. {found} in {results.path}: the same command continues there.",
            file=sys.stderr,
        )
        raise typer.Exit(STOPPED) from None


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ConfigError(
            f"{path} cannot be written: {error.strerror}; the results are kept. Name another file and run "
            "the same command again."
        ) from error


def forecast(
    recording: RecordingPath,
    horizon: Annotated[str, typer.Option(help="How far to look ahead, such as 90m, 24h or 3d.")] = "24h",
    as_json: AsJson = False,
) -> None:
    """Forecast the demand after a recording, and show how wrong such forecasts were on its past."""
    from ebbtide.core.words import a_while
    from ebbtide.simulator.story.schemas import START, epoch_of

    seconds = _seconds(horizon)
    try:
        from ebbtide.entrypoints.views.forecasts import expected, forecast_json, forecast_lines
        from ebbtide.simulator.recording.demand import STEP_SECONDS, demand_of
    except ModuleNotFoundError as error:
        raise Usage(
            f"a forecast needs numpy; nothing was forecast. Install it: `{how_to_add('foresight')}`."
        ) from error
    if not STEP_SECONDS <= seconds <= LONGEST_SECONDS:
        raise Usage(
            f"--horizon {horizon} is {a_while(seconds)}; nothing was forecast. Allowed: "
            f"{a_while(STEP_SECONDS)} to {a_while(LONGEST_SECONDS)}."
        )
    found = _read(recording)
    demand = demand_of(found, recording.name)
    begins = epoch_of(found.story.get("start", START)) + len(next(iter(demand.values()))) * STEP_SECONDS
    told = expected(demand, STEP_SECONDS, seconds)
    if as_json:
        write_json(forecast_json(told, begins, STEP_SECONDS))
    else:
        write_lines(forecast_lines(told, begins, STEP_SECONDS))


def _seconds(text: str) -> int:
    number, unit = text[:-1], text[-1:]
    if not number.isdecimal() or unit not in UNITS:
        raise Usage(
            f"--horizon {text!r} is not a duration; nothing was forecast. Write it as 90m, 24h or 3d."
        )
    return int(number) * UNITS[unit]


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
    workers: Workers = 1,
    backend: Backend = "loky",
    address: Address = "",
    keep: KeptRuns = None,
    as_json: AsJson = False,
) -> None:
    """Search for better settings on the first two thirds of a recording, and measure them on the last third.

    Changes nothing. Exit code 1 when a safety rule was violated.
    """
    from ebbtide.entrypoints.views.foresight import tuning_json, tuning_lines
    from ebbtide.simulator.backtest.runs import Results
    from ebbtide.simulator.backtest.sweep import Machines, Sweep
    from ebbtide.simulator.tuning.search import Plan
    from ebbtide.simulator.tuning.tune import Asked

    asked = Asked(Plan(evals, seed, _objectives(objective or [])), cost_limit / 100, seeds)
    machines = Machines(workers, backend, address)
    found = _read(recording)
    results = Results(keep or recording.with_name(f"{recording.name}.runs"))
    with _told_if_stopped(results), progress_bar("learning", evals) as bar:
        tuned = tuned_with(found, recording.name, asked, Sweep(results, machines, advancing(bar)), bar)
    if as_json:
        write_json(tuning_json(tuned))
    else:
        write_lines(tuning_lines(tuned, recording.name))
    if tuned.violations:
        raise typer.Exit(1)


def advancing(bar: Progress) -> Callable[[object], None]:
    """One step for each run that is finished: a batch of a search takes minutes."""
    return lambda _: bar.advance(bar.task_ids[0])


def tuned_with(found: Recording, name: str, asked: Asked, sweep: Sweep, bar: Progress) -> Tuned:
    from ebbtide.simulator.tuning.tune import tune as tuned_for

    def tell(says: str, done: int, total: int) -> None:
        bar.update(bar.task_ids[0], description=says, completed=done, total=total)

    with sweep:
        return tuned_for(found, name, asked, sweep, tell)


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
