"""A recording of what Prometheus has kept: asked part by part, with a bar, and taken up again where it was
cut off."""

from __future__ import annotations

import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import Progress

from ebbtide.adapters.prometheus.asking import Prometheus, Source, Unknown, number
from ebbtide.adapters.prometheus.history import History, Span
from ebbtide.config import Config
from ebbtide.core.words import a_while, count_of
from ebbtide.errors import EbbtideError, Usage
from ebbtide.simulator.recording.file import Recording
from ebbtide.simulator.recording.from_metrics import Past, record_metrics
from ebbtide.simulator.recording.state_metrics import queries

SKEW_SECONDS = 60
"""By more than this the clock of Prometheus differs from ours."""


@dataclass(frozen=True, slots=True)
class Wanted:
    days: int
    step: int
    until: int | None
    """None: up to now, by the clock of Prometheus."""
    output: Path


@dataclass(frozen=True, slots=True)
class Found:
    recording: Recording
    notes: list[str]
    history: History


def record_prometheus(source: Source, wanted: Wanted, written: Mapping[str, Any], config: Config) -> Found:
    server = Prometheus(source)
    kept = wanted.output.with_name(f"{wanted.output.name}.part")
    notes: list[str] = []
    try:
        end = _now(server, notes) if wanted.until is None else wanted.until
        end -= end % wanted.step
        history = History(server, Span(source.url, end - wanted.days * 86_400, end), kept)
        if history.resumed:
            notes.append(f"{count_of(history.resumed, 'part')} of an earlier run in {kept} are used again")
        span = history.span
        past = Past(span.start, span.end, wanted.step, _read(history, wanted.step), notes)
        return Found(record_metrics(past, written, config), notes, history)
    except Unknown as why:
        raise EbbtideError(  # nothing but reading: there is nothing that may have been carried out
            f"{why}; nothing was written to {wanted.output}. Run the same command again: what was read is in "
            f"{kept} and is not asked for again."
            if kept.exists()
            else f"{why}; nothing was written to {wanted.output}. Correct the address, or try again."
        ) from why
    except Usage:
        kept.unlink(missing_ok=True)  # it says nothing that another run could use
        raise
    finally:
        server.close()


def _now(server: Prometheus, notes: list[str]) -> int:
    samples = server.ask("vector(time())")
    theirs = number(samples[0].value[1], "the time") if samples else time.time()
    ahead = round(theirs - time.time())
    if abs(ahead) > SKEW_SECONDS:
        notes.append(
            f"the clock of Prometheus is {a_while(abs(ahead))} {'ahead of' if ahead > 0 else 'behind'} this "
            "machine's: its own time is used"
        )
    return int(theirs)


def _read(history: History, step: int) -> dict[str, Any]:
    asked = queries(step)
    total = sum(1 for one in asked for _ in history.parts(one))
    shown = sys.stderr.isatty()
    with Progress(console=Console(file=sys.stderr), disable=not shown, transient=True) as bar:
        task = bar.add_task("reading", total=total)
        found = {}
        for one in asked:
            bar.update(task, description=one.name)
            found[one.name] = history.read(one, lambda: bar.advance(task))
        return found
