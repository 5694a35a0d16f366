"""A recording of a CSV file: a line for each moment and a column for each series, or a line for each change.

    seconds,web,api              seconds,replicas,workload
    0,120,40                     0,4,web
    300,180,35                   300,7,web

The first column is `seconds` from the start. A value is a number of replicas, or with `per_pod` something of
which one pod handles so many. How much a pod requests does not stand in such a file: it must be said.
"""

from __future__ import annotations

import csv
import gzip
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from math import ceil, isfinite
from pathlib import Path
from statistics import median
from typing import Any

from ebbtide.core.words import a_while
from ebbtide.errors import ConfigError
from ebbtide.simulator.recording.file import VERSION, Recorded, Recording, Series
from ebbtide.simulator.story.schemas import MOST_PODS

GAP_STEPS = 1.5
"""A step longer than so many usual ones is a gap."""


@dataclass(frozen=True, slots=True)
class TracePods:
    """What each pod of a trace requests, and how much of a value one handles."""

    cpu: str
    memory: str
    per_pod: float = 1.0
    cpu_use: float = 0.5


@dataclass(slots=True)
class _Column:
    at: list[float]
    value: list[float]
    by_change: bool = False
    """A line for each change: where there is none, nothing changed."""


def record_trace(
    path: Path,
    pods: TracePods,
    settings: Mapping[str, Any],
    start: str,
    tell: Callable[[str], None] = lambda _: None,
) -> Recording:
    """What is missing in the trace is told, and what is taken instead."""
    columns = _read(path)
    end = max(column.at[-1] for column in columns.values())
    steps = [after - before for c in columns.values() for before, after in zip(c.at, c.at[1:], strict=False)]
    step = median(steps) if steps else 0.0
    until = end + step
    demand = {f"default/{name}": _series(column, pods.per_pod) for name, column in columns.items()}
    _refuse_too_many(path, demand)
    missing = sum(_missing(column, step) for column in columns.values())
    for name, column in columns.items():
        if said := _gap(name, column, step):
            tell(said)
    coverage = 1 - missing / max(until * len(columns), 1.0)
    story: dict[str, Any] = {
        "name": f"recorded from {path.name}",
        "start": start,
        "until": until,
        "settings": dict(settings),
        "workloads": [
            {"name": name, "cpu": pods.cpu, "memory": pods.memory, "cpu_use": pods.cpu_use}
            for name in columns
        ],
    }
    recorded = Recorded(source=f"CSV {path.name}", coverage={"demand": round(max(coverage, 0.0), 4)})
    return Recording(VERSION, story, demand, recorded)


def _refuse_too_many(path: Path, demand: Mapping[str, Series]) -> None:
    for key, series in demand.items():
        if (most := max(series.replicas)) > MOST_PODS:
            raise ConfigError(
                f"the trace {path} asks for {most:.3g} pods of {key.partition('/')[2]} at once, at most "
                f"{MOST_PODS:,} can be played; nothing was recorded. If its values are not replicas, say "
                "with --per-pod how much of them one pod handles."
            )


def _series(column: _Column, per_pod: float) -> Series:
    """Only the changes. What comes before the first value is taken to be that."""
    at: list[float] = []
    replicas: list[int] = []
    for seconds, value in zip(column.at, column.value, strict=True):
        wanted = ceil(value / per_pod - 1e-9)
        if not replicas or replicas[-1] != wanted:
            at.append(seconds if replicas else 0.0)
            replicas.append(wanted)
    return Series(at, replicas)


def _missing(column: _Column, step: float) -> float:
    """Where a step is much longer than usual, all but a usual one of it is a gap."""
    if column.by_change:
        return column.at[0]
    steps = (after - before for before, after in zip(column.at, column.at[1:], strict=False))
    return column.at[0] + sum(one - step for one in steps if step and one > GAP_STEPS * step)


def _gap(name: str, column: _Column, step: float) -> str:
    missing = _missing(column, step)
    if not missing:
        return ""
    steps = [(0.0, column.at[0]), *zip(column.at, column.at[1:], strict=False)]
    begin, end = max(steps, key=lambda one: one[1] - one[0])
    return (
        f"{name} is not known for {a_while(round(missing))}, the longest from second {begin:g} to {end:g}: "
        "the value before holds there. Fill it in the trace, or record a time without gaps"
    )


def _read(path: Path) -> dict[str, _Column]:
    try:
        with gzip.open(path, "rt") if path.suffix == ".gz" else path.open(newline="") as lines:
            reader = csv.reader(lines)
            names = [name.strip() for name in next(reader, [])]
            rows = _rows(reader, names, str(path))
            columns = _long(rows) if names[1:] == ["replicas", "workload"] else _wide(rows, names[1:])
    except (OSError, UnicodeDecodeError, EOFError, zlib.error, csv.Error) as error:
        says = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"the trace {path} cannot be read: {says}; nothing was recorded. Name a CSV file."
        ) from error
    columns = {name: column for name, column in columns.items() if column.at}
    if not columns:
        raise ConfigError(f"the trace {path} holds no value after its header; nothing was recorded")
    return columns


def _rows(reader: Iterator[list[str]], names: list[str], path: str) -> Iterator[tuple[float, list[str]]]:
    if len(names) < 2 or names[0] != "seconds" or len(set(names)) != len(names):  # noqa: PLR2004
        raise ConfigError(
            f"{path} line 1: the first line must name the columns, seconds first, such as seconds,web,api; "
            "nothing was recorded"
        )
    before = 0.0
    for number, row in enumerate(reader, start=2):
        if not row:
            continue
        at = _number(row[0], f"{path} line {number}, seconds")
        if at < before or len(row) != len(names):
            wrong = f"{row[0]} goes back" if at < before else f"{len(row)} columns instead of {len(names)}"
            raise ConfigError(f"{path} line {number}: {wrong}; nothing was recorded. Sort it, or repair it.")
        before = at
        yield at, [f"{path} line {number}", *row[1:]]


def _wide(rows: Iterator[tuple[float, list[str]]], names: list[str]) -> dict[str, _Column]:
    columns = {name: _Column([], []) for name in names}
    for at, (where, *values) in rows:
        for name, text in zip(names, values, strict=True):
            if text.strip():
                columns[name].at.append(at)
                columns[name].value.append(_number(text, f"{where}, {name}"))
    named: dict[str, _Column] = {}
    for name, column in columns.items():
        if workload_name(name) in named:
            raise ConfigError(
                f"two columns are both a workload named {workload_name(name)!r}, {name!r} among them; "
                "nothing was recorded. Give them names that differ in letters or digits."
            )
        named[workload_name(name)] = column
    return named


def _long(rows: Iterator[tuple[float, list[str]]]) -> dict[str, _Column]:
    columns: dict[str, _Column] = {}
    for at, (where, text, name) in rows:
        column = columns.setdefault(workload_name(name or "web"), _Column([], [], by_change=True))
        column.at.append(at)
        column.value.append(_number(text, f"{where}, replicas"))
    return columns


def _number(text: str, where: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = float("nan")
    if not isfinite(value) or value < 0:
        raise ConfigError(
            f"{where}: {text!r} is not a number of at least 0; nothing was recorded. Leave the place of a "
            "value that is not known empty."
        )
    return value


def workload_name(text: str) -> str:
    """A name that a workload may have."""
    kept = "".join(one if one.isascii() and one.isalnum() else "-" for one in text.lower()).strip("-")
    return kept[:63].strip("-") or "workload"
