"""Scale-up: begin, record, verify, then complete or fail.

begin     slots are written (RESERVED) before the cloud is asked
record    an answered launch writes its instance id
verify    each instance is followed until its node is Ready
extend    slots are appended while it is open, for demand that what is on its way does not cover
reclaim   what has not joined in time is terminated
complete  at least one node became Ready: the cooldown starts, counted from when the last one did
fail      none did: a growing back-off starts, for launches alone
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.core.nodes.offers import Serves
from ebbtide.core.nodes.question import launch_backoff, pools_in
from ebbtide.core.nodes.substitutes import Substitutes
from ebbtide.core.operations import slots
from ebbtide.core.operations.situation import Closed, Situation, handed_over, rest_offers, stubborn_rests
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Breach, Broken, Effect, Outcome, Step
from ebbtide.model.operation import ScaleUp, SlotState
from ebbtide.model.record import Record, closed
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


def extend(operation: ScaleUp, decision: Decision) -> ScaleUp:
    """Add slots while it is open, so an instance that never joins delays no other pod."""
    asked = sum(1 for slot in decision.slots if slot.state is SlotState.RESERVED)
    return replace(
        operation,
        requested=operation.requested + asked,
        slots=operation.slots + decision.slots,
        extended_at=decision.at if asked else operation.extended_at,
    )


def advance(operation: ScaleUp, situation: Situation) -> Step[ScaleUp, Effect]:
    advanced = [slots.advance_slot(slot, operation.id, situation) for slot in operation.slots]
    effects: tuple[Effect, ...] = tuple(effect for _, wanted in advanced for effect in wanted)
    return Step(replace(operation, slots=tuple(slot for slot, _ in advanced)), effects)


def absorb(operation: ScaleUp, outcomes: Sequence[Outcome], situation: Situation) -> ScaleUp:
    followed, settings, now = operation.slots, situation.settings, situation.now
    lost = slots.without_capacity(outcomes)
    serves: Serves | None = None
    if lost:
        serves = Substitutes(situation.snapshot, situation.record, operation, settings, lost).serve
    for outcome in outcomes:
        followed = tuple(slots.absorb_slot(slot, outcome, settings, now, serves) for slot in followed)
    return replace(operation, slots=followed)


def is_settled(operation: ScaleUp) -> bool:
    return all(slot.settled for slot in operation.slots)


def close(record: Record, operation: ScaleUp, settings: Settings, now: int) -> Closed:
    """`completeScaleUp` or `failScaleUp`, by whether any node became ready."""
    missed = [slot for slot in operation.slots if slot.state is not SlotState.READY]
    rests = record.rests + stubborn_rests(missed, settings, now)
    record = replace(closed(record, operation), rests=rests)
    record = replace(record, refused=record.refused + handed_over(operation.slots, operation.id, now))
    record = rest_offers(record, operation.slots, settings, now)
    if len(missed) < len(operation.slots):
        # Not from now: the last slot may be one that never joined, and its time is over already.
        ready_at = max(record.last_scale_at, operation.ready_at)
        record = replace(record, last_scale_at=ready_at)
        # A node of another pool says nothing about a pool that is broken.
        ready = {slot.pool for slot in operation.slots if slot.state is SlotState.READY}
        broken = pools_in(record.launch_backoff_offers) - ready
        if broken and record.launch_backoff_until > now:
            return Closed(replace(record, launch_backoff_offers=tuple(sorted(broken))), True)
        record = replace(record, launch_failures=0, launch_backoff_until=0, launch_backoff_offers=())
        return Closed(record, True)
    if operation.requested:
        # Each time that it failed while it was open counts: it may have been extended all night.
        backoff = launch_backoff(replace(record, launching=operation), settings)
        record = replace(record, launch_failures=backoff.failures, launch_backoff_until=backoff.until)
        record = replace(record, launch_backoff_offers=backoff.about)
    return Closed(record, False)


def check_invariants(before: ScaleUp, after: ScaleUp) -> tuple[Broken, ...]:
    if len(before.slots) > len(after.slots):
        return (Broken(Breach.LOST, before.id, f"scale-up {before.id} lost slots"),)
    added = after.slots[len(before.slots) :]
    known = {slot.key for slot in before.slots}
    broken = [
        Broken(Breach.APPENDED, slot.key, f"slot {slot.key} was appended twice")
        for slot in added
        if slot.key in known
    ]
    broken += [
        Broken(Breach.APPENDED, slot.key, f"slot {slot.key} was appended as {slot.state}")
        for slot in added
        if slot.state not in (SlotState.RESERVED, SlotState.LAUNCHED)
    ]
    if after.requested < before.requested:
        broken.append(
            Broken(Breach.TAKEN_BACK, before.id, f"scale-up {before.id} asked for fewer nodes than before")
        )
    for old, new in zip(before.slots, after.slots, strict=False):
        broken += slots.check_invariants(old, new)
    return tuple(broken)
