"""A month that the demo's cluster has behind it, as entries of its log: what it cost, what was done, who
slept.

The file was made by `scripts/make_demo_history.py`, which plays the month with the real engine. It is laid
before any start that has the same time of day and day of the week: all times in it move by the same number of
weeks. The ledger is not in the file; it is built from the stretches in the log, as `ebbtide savings rebuild`
does. Nor are the states of the policies: their last wakes, from which the next one is estimated, and which of
them the month left asleep, are read from the log.
"""

from __future__ import annotations

import gzip
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import resources
from typing import Any

import msgspec

from ebbtide import typed
from ebbtide.core.scale_to_zero.wake import KEPT_WAKES
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import StoreCause, StoreUnusable
from ebbtide.model.events import FACTS, Event, PolicyStep, StretchClosed
from ebbtide.model.idle import IdleState, Phase, Rate, Remembered, Stretch, WakeReason, WakeTime
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.narrate import entry_of, fact_in
from ebbtide.ports import Store

FILE = "history.json.gz"
FORMAT = 1
WEEK_SECONDS = 7 * 86_400
KEPT = (
    LogKind.COST,
    LogKind.STRETCH,
    LogKind.OPERATION_BEGUN,
    LogKind.OPERATION_CLOSED,
    LogKind.SPOT_EVENT,
    LogKind.WAKE,
    LogKind.IDLE,
)
RECENT = (LogKind.OPERATION_BEGUN, LogKind.SPOT_EVENT, LogKind.WAKE, LogKind.IDLE)
"""Only shown, and not counted: these are kept for the last days alone."""
RECENT_SECONDS = 8 * 86_400
TIMES = frozenset({"started_at", "noticed_at", "deadline", "since", "until"})
"""Fields of facts that are moments."""
COST_SECONDS = 900
"""Costs are kept no more often than this: a month of them is read for every chart."""
AT_ONCE = 500


class RememberedDay(msgspec.Struct, array_like=True):
    at: int
    kind: LogKind
    subject: str
    data: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Asleep:
    at: int
    idle_since: int
    rate: Rate | None


class History(msgspec.Struct):
    format: int
    end: int
    """The moment at which the month ended."""
    entries: list[RememberedDay]


def read_history() -> History:
    data = (resources.files(__package__) / FILE).read_bytes()
    found = typed.decode(gzip.decompress(data), History)
    if found.format != FORMAT:
        raise StoreUnusable(
            StoreCause.NEW_SCHEMA,
            f"the demo's history has format {found.format}, this version knows {FORMAT}",
        )
    return found


def start_before(history: History, now: float) -> float:
    """The latest start of a demo that the month leads up to, at least a day before now."""
    day = 86_400
    return history.end + (now - day - history.end) // WEEK_SECONDS * WEEK_SECONDS


def remember(history: History, store: Store, scaling: Scaling, start: float) -> None:
    """Write the month before `start` into the log, and build the ledger and the last wakes from it."""
    entries = list(_entries(history, int(start) - history.end))
    for number in range(0, len(entries), AT_ONCE):
        store.append(entries[number : number + AT_ONCE])
    scaling.rebuild()
    policies, known, asleep = scaling.ports.policies, wakes_in(entries), asleep_in(entries)
    states = [state for state in policies.list_states() if state.policy_id in known]
    states = [_with_wakes(state, known[state.policy_id]) for state in states]
    policies.write_states([_sleeping(scaling, state, asleep.get(state.policy_id)) for state in states])


def _sleeping(scaling: Scaling, state: IdleState, asleep: Asleep | None) -> IdleState:
    """What the month left asleep sleeps on: a workload that was up again would have been woken by nobody."""
    policy = scaling.ports.policies.find_policy(state.policy_id)
    if asleep is None or policy is None:
        return state
    remembered = []
    for ref in policy.target.workloads:
        seen = scaling.ports.workloads.read(ref)
        remembered.append(Remembered(ref, seen.replicas))
        scaling.ports.workloads.scale(seen, 0, "asleep since before the demo began")
    return replace(
        state,
        phase=Phase.ZERO,
        last_activity_at=asleep.idle_since,
        idle_since=asleep.idle_since,
        scaled_to_zero_at=asleep.at,
        remembered=tuple(remembered),
        rate=asleep.rate,
        stretch_since=asleep.at,
    )


def asleep_in(entries: Iterable[LogEntry]) -> dict[str, Asleep]:
    """The policies that were at zero at the end, by id, since when, and how the idle time before began."""
    found: dict[str, Asleep] = {}
    idle: dict[str, Stretch] = {}
    for entry in entries:
        step, closed = fact_in(entry, PolicyStep), fact_in(entry, StretchClosed)
        if closed is not None and closed.stretch.phase is Phase.IDLE:
            idle[entry.subject] = closed.stretch
        elif step is not None and step.phase is Phase.ZERO and entry.subject in idle:
            found[entry.subject] = Asleep(entry.at, idle[entry.subject].since, idle[entry.subject].rate)
        elif step is not None:
            found.pop(entry.subject, None)
    return found


def _with_wakes(state: IdleState, wakes: Sequence[WakeTime]) -> IdleState:
    last = wakes[-1]
    active_at = max(state.last_activity_at, int(last.at + last.seconds))
    kept = tuple(wakes[-KEPT_WAKES:])
    return replace(state, wakes=kept, last_wake_at=last.at, last_activity_at=active_at)


def wakes_in(entries: Iterable[LogEntry]) -> dict[str, list[WakeTime]]:
    """The wakes of each policy that ended, by its id, oldest first. A wake is logged when it begins and when
    it is ready; how long the target slept before is known from when it was put to zero."""
    found: dict[str, list[WakeTime]] = {}
    zero_at: dict[str, int] = {}
    began_at: dict[str, int] = {}
    for entry in entries:
        step = fact_in(entry, PolicyStep)
        if step is None:
            continue
        if step.phase is Phase.ZERO:
            zero_at[entry.subject] = entry.at
        elif step.wake_id is not None and step.seconds is None:
            began_at[step.wake_id] = entry.at
        elif step.wake_id is not None and step.seconds is not None and step.wake_id in began_at:
            at = began_at[step.wake_id]
            slept = float(at - zero_at.get(entry.subject, at))
            reason = step.wake_reason or WakeReason.MANUAL
            one = WakeTime(at, step.seconds, step.node_seconds or 0.0, reason, slept)
            found.setdefault(entry.subject, []).append(one)
    return found


def _entries(history: History, later: int) -> Iterator[LogEntry]:
    for number, one in enumerate(history.entries):
        at = one.at + later
        data = _moved(one.data, later)
        if one.kind is LogKind.COST:
            # Only some of the costs are kept: how long the pods of one were pending is not known from them.
            data = {**data, "pending": None}
        fact = _fact(one.kind, data)
        if fact is not None:
            yield entry_of(f"{at * 1000:014d}-{number:08d}", at, fact, one.subject, one.kind)


def _fact(kind: LogKind, data: Mapping[str, Any]) -> Event | None:
    for shape in FACTS[kind]:
        try:
            return typed.convert(data, shape)
        except msgspec.ValidationError:
            continue
    return None


def _moved(value: Any, later: int) -> Any:
    if isinstance(value, dict):
        return {
            name: each + later if name in TIMES and isinstance(each, int) and each else _moved(each, later)
            for name, each in value.items()
        }
    return value


def written(entries: Iterable[LogEntry], end: int) -> bytes:
    """The file's bytes for these entries, which are in the order of time."""
    kept: list[RememberedDay] = []
    noted_at = 0
    for entry in entries:
        if entry.kind is LogKind.COST:
            if entry.at - noted_at < COST_SECONDS:
                continue
            noted_at = entry.at
        recent = entry.at >= end - RECENT_SECONDS or entry.kind not in RECENT
        if entry.kind in KEPT and recent:
            kept.append(RememberedDay(entry.at, entry.kind, entry.subject, dict(entry.data)))
    return gzip.compress(msgspec.json.encode(History(FORMAT, end, kept)), 9, mtime=0)
