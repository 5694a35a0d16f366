"""Scale-up: begin, record, verify, then complete or fail.

begin     slots are written (RESERVED) before the cloud is asked
record    an answered launch writes its instance id
verify    each instance is followed until its node is Ready
reclaim   what has not joined in time is terminated
complete  at least one node became Ready: the cooldown starts
fail      none did: a growing back-off starts, for launches alone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.core.operations import slots
from ebbtide.core.operations.closing import Closed, backoff_until, handed_over, rest_offers, stubborn_rests
from ebbtide.core.operations.situation import Situation, Step
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Effect, Outcome
from ebbtide.model.operation import ScaleUp, SlotState
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings


def begin(decision: Decision, operation_id: str) -> ScaleUp:
    """What is adopted was launched before: it is followed, but was not asked for by this operation."""
    return ScaleUp(
        id=operation_id,
        started_at=decision.at,
        requested=sum(1 for slot in decision.slots if slot.state is SlotState.RESERVED),
        slots=decision.slots,
        reason=decision.reason,
    )


def advance(operation: ScaleUp, situation: Situation) -> Step[ScaleUp]:
    advanced = [slots.advance_slot(slot, operation.id, situation) for slot in operation.slots]
    effects: tuple[Effect, ...] = tuple(effect for _, wanted in advanced for effect in wanted)
    return Step(replace(operation, slots=tuple(slot for slot, _ in advanced)), effects)


def absorb(operation: ScaleUp, outcomes: Sequence[Outcome], situation: Situation) -> ScaleUp:
    followed = operation.slots
    for outcome in outcomes:
        followed = tuple(
            slots.absorb_slot(slot, outcome, situation.settings, situation.now) for slot in followed
        )
    return replace(operation, slots=followed)


def is_settled(operation: ScaleUp) -> bool:
    return all(slot.settled for slot in operation.slots)


def close(record: Record, operation: ScaleUp, settings: Settings, now: int) -> Closed:
    """`completeScaleUp` or `failScaleUp`, by whether any node became ready."""
    missed = [slot for slot in operation.slots if slot.state is not SlotState.READY]
    rests = record.rests + stubborn_rests(missed, settings, now)
    follows = handed_over(operation.slots, operation.id, now)
    record = replace(record, operation=follows, unclean_runs=0, rests=rests)
    record = rest_offers(record, operation.slots, settings, now)
    if len(missed) < len(operation.slots):
        record = replace(record, last_scale_at=now, launch_failures=0, launch_backoff_until=0)
        return Closed(record, True)
    if operation.requested:
        failures = record.launch_failures + 1
        until = backoff_until(failures, settings, now)
        record = replace(record, launch_failures=failures, launch_backoff_until=until)
    return Closed(record, False)


def check_invariants(before: ScaleUp, after: ScaleUp) -> tuple[str, ...]:
    if len(before.slots) != len(after.slots):
        return (f"scale-up {before.id} changed its number of slots",)
    return tuple(
        broken
        for old, new in zip(before.slots, after.slots, strict=True)
        for broken in slots.check_invariants(old, new)
    )
