"""A forecast as lines for a terminal and as a JSON object: what is expected, and how good that was before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from math import ceil
from typing import Any

from rich.text import Text

from ebbtide.core.forecast.combine import (
    HIGH,
    LEAST_DAYS,
    LEVELS,
    MEDIAN,
    NINETY,
    Errors,
    Quantiles,
    forecast,
    judged_origins,
    least_values,
    past_errors,
)
from ebbtide.core.forecast.members import Floats
from ebbtide.core.words import a_while
from ebbtide.errors import Usage

DAY = 86_400
MOST_SHOWN = 1000
COLUMNS = ("", "now", "p50", "p90", "p95", "highest at", "error", "a day before", "last value", "p95 covered")
NOTE = (
    "p50, p90 and p95 at the time of the highest p95. error: mean error over the past; 1 is that of the same "
    "time a day before, over the whole past. Next to it the same of two naive forecasts."
)


@dataclass(frozen=True, slots=True)
class Expected:
    """One series: its last value, what is expected, and how wrong that was; no errors after a short past."""

    name: str
    now: float
    quantiles: Quantiles
    errors: Mapping[str, Errors]


def expected(demand: Mapping[str, Floats], step_seconds: int, horizon_seconds: int) -> list[Expected]:
    per_day, horizon = DAY // step_seconds, horizon_seconds // step_seconds
    least = least_values(per_day, horizon)
    found = []
    for name, values in demand.items():
        if len(values) < least:
            raise Usage(
                f"the recording holds {a_while(len(values) * step_seconds)}; nothing was forecast. To look "
                f"{a_while(horizon_seconds)} ahead takes {LEAST_DAYS} days more than that: record at least "
                f"{a_while(least * step_seconds)}."
            )
        origins = judged_origins(len(values), per_day, horizon)
        errors = past_errors(values, per_day, horizon, origins) if len(origins) else {}
        found.append(Expected(name, float(values[-1]), forecast(values, per_day, horizon), errors))
    return found


def forecast_lines(found: list[Expected], begins: float, step_seconds: int) -> list[Text | str]:
    cells = [COLUMNS, *(_cells(one, begins, step_seconds) for one in found)]
    widths = [max(len(row[column]) for row in cells) for column in range(len(COLUMNS))]
    lines: list[Text | str] = []
    for number, row in enumerate(cells):
        rest = (cell.rjust(width) for cell, width in zip(row[1:], widths[1:], strict=True))
        lines.append(Text("  ".join([row[0].ljust(widths[0]), *rest]).rstrip(), "" if number else "bold"))
    return [*lines, NOTE]


def forecast_json(found: list[Expected], begins: float, step_seconds: int) -> dict[str, Any]:
    return {
        "begins": _moment(begins),
        "step_seconds": step_seconds,
        "series": [
            {
                "name": one.name,
                "now": round(one.now, 3),
                **{f"p{level:.0%}"[:-1]: one.quantiles[level].round(3).tolist() for level in LEVELS},
                "errors": {name: asdict(error) for name, error in one.errors.items()},
            }
            for one in found
        ],
    }


def _cells(one: Expected, begins: float, step_seconds: int) -> tuple[str, ...]:
    # Rounded: of steps that differ only by the last bit, the first is named.
    peak = int(one.quantiles[HIGH].round(6).argmax())
    levels = (str(ceil(one.quantiles[level][peak] - 1e-9)) for level in (MEDIAN, NINETY, HIGH))
    errors = [_error(error.mase) for error in one.errors.values()] or ["-", "-", "-"]
    covered = f"{one.errors['forecast'].coverage:.1%}" if one.errors else "-"
    at = _moment(begins + peak * step_seconds)[:16].replace("T", " ")
    return (one.name, f"{one.now:g}", *levels, at, *errors, covered)


def _error(mase: float) -> str:
    """Where each day repeats the one before exactly, any other error is many times as large."""
    return f"{mase:.2f}" if mase < MOST_SHOWN else f">{MOST_SHOWN - 1}"


def _moment(epoch: float) -> str:
    return datetime.fromtimestamp(epoch, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
