"""Backtests, searches for better settings and forecasts: as lines for a terminal, as a JSON object, and as
the fact that the pages show.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rich.text import Text

from ebbtide.core.words import a_while, count_of
from ebbtide.model.events import BacktestPublished, TriedSettings
from ebbtide.model.settings import Settings
from ebbtide.simulator.backtest.runs import AS_RECORDED
from ebbtide.simulator.backtest.sweep import Agreement, Row
from ebbtide.simulator.recording.file import Recorded
from ebbtide.simulator.tuning.search import named, shown
from ebbtide.simulator.tuning.tune import DAY_SECONDS, Change, Tuned

COUNTS = ("evictions", "launches", "spot losses", "asleep", "wakes")
HEAD = ("", "cost", "node-hours", "waiting", "p95", "p99", *COUNTS)
MARK = "* no other row is as good in cost, waiting and evictions and better in one of them"
MOST_TRIED = 60
"""That one entry of a log holds."""
LONGEST_NAME = 200
NO_CALIBRATION = (
    "calibration: not possible, the recording has no data on nodes and waiting; one made with --prometheus "
    "or --log does"
)


def calibration(found: Sequence[Agreement]) -> str:
    """The first line: how far the simulation is from what happened."""
    if not found:
        return NO_CALIBRATION
    parts = [
        f"{one.what} {one.simulated:.0f} simulated, {one.recorded:.0f} recorded ({_off(one)})"
        for one in found
    ]
    doubtful = [one.what for one in found if one.doubtful]
    warns = f"; more than 10% off in {' and '.join(doubtful)}: take the rows with care" if doubtful else ""
    return f"calibration: {', '.join(parts)}{warns}"


def backtest_lines(rows: Sequence[Row], found: Sequence[Agreement], recorded: Recorded) -> list[Text | str]:
    doubtful = any(one.doubtful for one in found)
    lines: list[Text | str] = [Text(calibration(found), "yellow" if doubtful else "")]
    lines += table([HEAD, *([_recorded_cells(recorded)] if found else []), *map(cells_of, rows)])
    lines.append(MARK)
    for row in rows:
        lines += [Text(f"violated by {row.name}: {said}", "red") for said in row.violations]
    return lines


def table(cells: Sequence[tuple[str, ...]]) -> list[Text]:
    """In columns, the first row in bold."""
    widths = [max(map(len, column)) for column in zip(*cells, strict=True)]
    lines = []
    for number, row in enumerate(cells):
        text = "  ".join(
            cell.ljust(width) if not place else cell.rjust(width)
            for place, (cell, width) in enumerate(zip(row, widths, strict=True))
        )
        lines.append(Text(text.rstrip(), "bold" if not number else ""))
    return lines


def row_json(row: Row) -> dict[str, Any]:
    texts = {"cost": str(row.cost), "cost_low": str(row.cost_low), "cost_high": str(row.cost_high)}
    return {name: getattr(row, name) for name in Row.__slots__} | texts


def backtest_json(rows: Sequence[Row], found: Sequence[Agreement], recorded: Recorded) -> dict[str, Any]:
    return {
        "calibration": [
            {
                "what": one.what,
                "recorded": one.recorded,
                "simulated": one.simulated,
                "off": None if one.off == float("inf") else round(one.off, 4),
                "doubtful": one.doubtful,
            }
            for one in found
        ],
        "recorded": {
            "source": recorded.source,
            "coverage": recorded.coverage,
            "cost": recorded.cost,
            "node_hours": recorded.node_hours,
            "pending_pod_seconds": recorded.pending_pod_seconds,
            "evictions": recorded.evictions,
            "launched": recorded.launched,
            "interruptions": recorded.interruptions,
        },
        "candidates": [row_json(row) for row in rows],
    }


def backtest_fact(
    recording: str, seconds: float, rows: Sequence[Row], found: Sequence[Agreement], today: str
) -> BacktestPublished:
    """Today's settings and the front come first: what is left out of a long list nobody would choose."""
    kept = sorted(rows, key=lambda row: (row.name != today, not row.best, row.cost))[:MOST_TRIED]
    tried = tuple(_tried(row, row.name == today) for row in kept)
    return BacktestPublished(recording, seconds, kept[0].currency, calibration(found), tried)


def _tried(row: Row, today: bool) -> TriedSettings:
    name = row.name if len(row.name) <= LONGEST_NAME else f"{row.name[: LONGEST_NAME - 3]}..."
    pending = row.pending_pod_seconds
    return TriedSettings(name, str(row.cost), pending, row.wait_p95, row.evictions, row.best, today)


def _off(one: Agreement) -> str:
    return "nothing to compare with" if one.off == float("inf") else f"{one.off:+.1%}"


def _recorded_cells(recorded: Recorded) -> tuple[str, ...]:
    def shown(value: float | None) -> str:
        return "-" if value is None else f"{value:g}"

    waiting = "-" if recorded.pending_pod_seconds is None else a_while(round(recorded.pending_pod_seconds))
    cost = f"{recorded.cost} {recorded.currency}" if recorded.cost is not None else "-"
    hours = "-" if recorded.node_hours is None else f"{recorded.node_hours:.0f}"
    counts = map(shown, (recorded.evictions, recorded.launched, recorded.interruptions))
    return ("what happened", cost, hours, waiting, "-", "-", *counts, "-", "-")


def cells_of(row: Row) -> tuple[str, ...]:
    mark = " *" if row.best else ""
    low, high = f"{row.cost_low:.2f}", f"{row.cost_high:.2f}"
    spread = f" ({low}-{high})" if low != high else ""
    name = f"{row.name}{mark}" if row.name != AS_RECORDED else f"{row.name}, simulated{mark}"
    return (
        name,
        f"{row.cost}{spread} {row.currency}",
        f"{row.node_hours:.0f}",
        a_while(round(row.pending_pod_seconds)),
        a_while(round(row.wait_p95)),
        a_while(round(row.wait_p99)),
        f"{row.evictions:g}",
        f"{row.launched:g}",
        f"{row.interruptions:g}",
        f"{row.hours_asleep:g} h",
        f"{row.wakes:g}",
    )


def said_of(recorded: Recorded, seconds: float, workloads: int, size: int) -> str:
    """What a recording holds, in a sentence."""
    parts = ", ".join(
        f"{name} {share:.1%}" + " of the time" * (name == "demand")
        for name, share in recorded.coverage.items()
    )
    known = f"; known: {parts}" if parts else ""
    return f"{count_of(workloads, 'workload')} over {a_while(round(seconds))}, {size:,} bytes{known}"


def without_file(settings: Settings) -> str:
    """Where a recording has its settings from, if nobody wrote any."""
    pools = " and ".join(
        f"pool {pool.name} ({', '.join(one.name for one in pool.types)})" for pool in settings.pools
    )
    return (
        f"There is no ebbtide.yaml here. The recording has the default settings: {pools}, at most "
        f"{count_of(settings.max_workers, 'worker')}. Record again with --config to use yours."
    )


def tuning_lines(tuned: Tuned, recording: str) -> list[Text | str]:
    learned, held_out = a_while(tuned.learn_seconds), a_while(tuned.held_out_seconds)
    lines: list[Text | str] = [
        f"{count_of(tuned.tried, 'setting')} tried on the first {learned}. All values below are of the "
        f"last {held_out}, which the search did not see."
    ]
    if tuned.held_out_seconds < DAY_SECONDS:
        lines.append(Text("That is less than a day: record more, and take this with care.", "yellow"))
    front = [replace(row, name=f"front {number}") for number, (_, row) in enumerate(tuned.front, start=1)]
    proposed = [tuned.proposal] if tuned.changes else []
    lines += table([HEAD, *map(cells_of, (tuned.today, *proposed, *front))])
    lines.append(MARK)
    lines += [f"front {number}: {named(one)}" for number, (one, _) in enumerate(tuned.front, start=1)]
    lines += [Text(f"violated: {said}", "red") for said in tuned.violations]
    lines.append("")
    lines += _proposal_lines(tuned, recording)
    return lines


def _proposal_lines(tuned: Tuned, recording: str) -> list[Text | str]:
    if not tuned.changes:
        return ["No other settings were better within the limit of cost: keep the ones of today."]
    today, proposal = tuned.today, tuned.proposal
    lines: list[Text | str] = [f"The proposal against today: {difference(today, proposal)}."]
    if not _is_better(today, proposal):
        lines.append(
            Text(
                "It does not hold on what was held out: keep the settings of today, or record more.", "yellow"
            )
        )
    lines += ["It would change in ebbtide.yaml (after each line: the result without it):", ""]
    for change in tuned.changes:
        without = difference(proposal, change.without)
        if change.today != []:
            lines.append(Text(f"-{change.key}: {shown(change.today)}", "red"))
        lines.append(Text(f"+{change.key}: {shown(change.proposed)}  # without it: {without}", "green"))
    sets = " ".join(f"--set '{one.key}={shown(one.proposed)}'" for one in tuned.changes)
    lines += ["", "Nothing was changed. To look at it on all of the recording:"]
    lines.append(f"  ebbtide backtest {recording} {sets}")
    return lines


def _is_better(today: Row, proposal: Row) -> bool:
    return any(one < other for one, other in zip(_values(proposal), _values(today), strict=True))


def difference(before: Row, after: Row) -> str:
    """In cost, waiting and evictions; in one sentence without its stop."""
    if _values(before) == _values(after):
        return "no difference"
    cost = after.cost - before.cost
    parts = [f"cost {cost:+.2f} {after.currency}{_share(float(before.cost), float(after.cost))}"]
    waited = after.pending_pod_seconds - before.pending_pod_seconds
    sign = "+" if waited >= 0 else "-"
    share = _share(before.pending_pod_seconds, after.pending_pod_seconds)
    parts.append(f"waiting {sign}{a_while(round(abs(waited)))}{share}")
    parts.append(f"evictions {after.evictions - before.evictions:+g}")
    return ", ".join(parts)


def _values(row: Row) -> tuple[float, ...]:
    return float(row.cost), row.pending_pod_seconds, row.evictions


def _share(before: float, after: float) -> str:
    return f" ({(after - before) / before:+.1%})" if before else ""


def tuning_json(tuned: Tuned) -> dict[str, Any]:
    return {
        "learned_on_seconds": tuned.learn_seconds,
        "held_out_seconds": tuned.held_out_seconds,
        "tried": tuned.tried,
        "today": row_json(tuned.today),
        "proposal": {
            **row_json(tuned.proposal),
            "settings": {change.key: change.proposed for change in tuned.changes},
            "changes": [_change_json(change, tuned.proposal) for change in tuned.changes],
        },
        "front": [{**row_json(row), "settings": lines} for lines, row in tuned.front],
    }


def _change_json(change: Change, proposal: Row) -> dict[str, Any]:
    without = change.without
    return {
        "key": change.key,
        "today": change.today,
        "proposed": change.proposed,
        "without": {
            "cost": str(without.cost - proposal.cost),
            "pending_pod_seconds": round(without.pending_pod_seconds - proposal.pending_pod_seconds, 3),
            "evictions": round(without.evictions - proposal.evictions, 3),
        },
    }
