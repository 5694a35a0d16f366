"""What a search for better settings found, as lines for a terminal and as a JSON object."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rich.text import Text

from ebbtide.core.words import a_while, count_of
from ebbtide.entrypoints.views.backtests import HEAD, MARK, cells_of, row_json, table
from ebbtide.simulator.backtest.compare import Row
from ebbtide.simulator.recording.parts import DAY_SECONDS
from ebbtide.simulator.tuning.space import named, shown
from ebbtide.simulator.tuning.tune import Change, Tuned


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
    lines += ["It would change in ebbtide.yaml (behind each line: what came of the rest without it):", ""]
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
