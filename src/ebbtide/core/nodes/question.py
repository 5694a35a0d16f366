"""What every strategy of a decision is asked and what it fills in, and when an open launch may be extended.

An open launch is extended, so pods do not wait for an instance that never joins. The cooldown still applies
between two requests. It counts from the last node that became Ready, or from the last request if that is
later; slots that fail do not prolong it. Failures since the last node became Ready start the growing back-off
while the operation is still open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.core.operations.situation import backoff_until
from ebbtide.core.words import a_while, count_of, short_id
from ebbtide.model.check import Check, Refusal, Values
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.operation import Consolidate, Operation, Removal, ScaleUp, Slot, SlotCause, SlotState
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Question:
    snapshot: Snapshot
    record: Record
    settings: Settings
    now: int
    operation_id: str
    brief: bool = False
    """Whether what is not done for want of a simple precondition need not be looked into: the decision and
    its reason are the same, the report on it says less."""


@dataclass(slots=True)
class Answer:
    """Filled by a strategy while its checks are asked one after the other."""

    reason: str = ""
    slots: tuple[Slot, ...] = ()
    removals: tuple[Removal, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    consolidation: ConsolidationReport | None = None
    cause: RemovalReason = RemovalReason.IDLE


Strategy = Callable[[Question, Answer], Iterator[Check]]


def backed_off(failures: int, until: int, now: int) -> Check:
    left = until - now
    says = "no back-off"
    if left > 0:
        says = f"{count_of(failures, 'failure')} in a row, {a_while(left)} of back-off left"
    return Check("back-off over", left <= 0, says, Values(max(0, left), 0))


def no_operation(q: Question) -> Check:
    """No other scaling in progress, in either lane: asked before nodes are chosen to be removed."""
    return none_in_progress(q.record.operation)


def no_removal(q: Question) -> Check:
    """Asked before something is cleared up in the lane of removals: a launch does not stand in its way."""
    return none_in_progress(q.record.removing)


def none_in_progress(operation: Operation | None) -> Check:
    says = in_progress(operation) if operation else "no operation is in progress"
    return Check(
        "no operation in progress", operation is None, says, Values(about=operation.id if operation else "")
    )


def in_progress(operation: Operation) -> str:
    """What it does says more than its id, which comes last."""
    adds, packs = isinstance(operation, ScaleUp), isinstance(operation, Consolidate)
    kind = "scale-up" if adds else "consolidation" if packs else "scale-down"
    return f"a {kind} is in progress (operation {short_id(operation.id)})"


MOST_SLOTS = 500
"""An operation with more slots than this is not extended until it is closed: its record must stay small
enough for every store."""
NEVER_JOINED = (SlotState.RECLAIMING, SlotState.TERMINATING, SlotState.RECLAIMED)
MISSED = (*NEVER_JOINED, SlotState.FAILED)


def can_launch(q: Question) -> Check:
    name, operation = "launch possible", q.record.launching
    if operation is None:
        return Check(name, True, "no launch is in progress")
    slots = len(operation.slots)
    says = f"a scale-up of {slots} nodes is in progress; one of fewer than {MOST_SLOTS} can be extended"
    return Check(name, slots < MOST_SLOTS, says, Values(slots, MOST_SLOTS, operation.id))


def last_scaling(record: Record) -> int:
    """From when a cooldown counts."""
    operation = record.launching
    if operation is None:
        return record.last_scale_at
    asked_at = operation.asked_at if operation.requested else 0
    return max(record.last_scale_at, asked_at, operation.ready_at)


def nothing_leaves(q: Question) -> Check:
    """What consolidation has emptied goes first: draining another node would only fill it again."""
    names = [one.node_name for one in q.record.leaving]
    are = "is" if len(names) == 1 else "are"
    says = f"{', '.join(names)} {are} leaving" if names else "no node is leaving"
    return Check("nothing leaves", not names, says, Values(len(names), 0, names[0] if names else ""))


def cooled_down(q: Question, seconds: int, name: str, excuse: str = "") -> Check:
    last = last_scaling(q.record)
    since = q.now - last
    if excuse:
        return Check("cooldown over", True, f"{excuse}: the cooldown is skipped", Values(limit=0))
    if not last:
        return Check("cooldown over", True, "nothing has been scaled yet")
    values = Values(since, seconds)
    if since >= seconds:
        return Check("cooldown over", True, f"{name} ({a_while(seconds)}) is over", values)
    says = f"the last scaling was {a_while(since)} ago, {name} is {a_while(seconds)}"
    return Check("cooldown over", False, says, values)


def _asked_at(slot: Slot, settings: Settings) -> int:
    """At the latest. One that never joined was launched long before it was given up: a node that became
    Ready meanwhile shows that launches work."""
    return slot.since - (settings.join_timeout_seconds if slot.state in NEVER_JOINED else 0)


@dataclass(frozen=True, slots=True)
class LaunchBackoff:
    """Failures in a row, and until when launches wait for them. What fails at the same time failed once."""

    failures: int
    until: int
    about: tuple[str, ...] = ()
    """Offers that had no capacity, and pools whose launches failed otherwise: a pool that is sold out for
    hours, or whose nodes never join, must not hold up the others. None: every launch waits."""


def launch_backoff(record: Record, settings: Settings) -> LaunchBackoff:
    before = LaunchBackoff(record.launch_failures, record.launch_backoff_until, record.launch_backoff_offers)
    operation = record.launching
    if operation is None:
        return before
    missed = [
        slot
        for slot in operation.slots
        if slot.state in MISSED and _asked_at(slot, settings) > operation.ready_at
    ]
    if not missed:
        return before
    times = {slot.since for slot in missed}
    failures, latest = before.failures + len(times), max(times)
    until = max(before.until, backoff_until(failures, settings, latest))
    return LaunchBackoff(failures, until, _held_up(missed, before, latest))


def _held_up(missed: Sequence[Slot], before: LaunchBackoff, now: int) -> tuple[str, ...]:
    """What launches wait for already, and what these slots show: of a pool where only capacity is missing,
    the other offers may do; where anything else is wrong, as a rule all of its nodes fail. Where a second
    pool fails like that, all of them do: otherwise each would be tried in turn, all night."""
    sold_out, still = SlotCause.NO_CAPACITY, before.until > now
    broken = {slot.pool for slot in missed if slot.why is not sold_out}
    unknown = bool(before.failures) and not before.about
    if (unknown and (still or broken)) or len(broken | pools_in(before.about)) > 1:
        return ()
    shown = (each for slot in missed for each in (slot.refused if slot.why is sold_out else (slot.pool,)))
    return tuple(dict.fromkeys([*(before.about if still else ()), *shown]))


def pools_in(about: Sequence[str]) -> frozenset[str]:
    """The names of pools among what a back-off is about; all others are offers."""
    return frozenset(each for each in about if "/" not in each)
