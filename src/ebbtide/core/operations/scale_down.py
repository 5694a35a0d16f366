"""Scale-down: plan, execute, resume, complete, and never stuck.

plan      the removals are written (PLANNED) before any node is touched
replace   what is to take their place is launched first, and no node is touched before it is Ready
execute   each node is drained, then terminated, by `removals`
resume    the holder of the lease continues from what is written
abort     paused, stuck, or a node will not drain: what is not TERMINATING is released, what is
          rolls forward; once set, the abort is never taken back
yield     an abort because pods or load need its nodes
aside     what the cloud refuses to terminate is set aside, so its operation can end
complete  any node removed by us starts the cooldown; one that removed none starts a growing back-off, for
          removals alone, unless it gave way to demand or load
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ebbtide.core.consolidation import pace
from ebbtide.core.consolidation.emptied_nodes import why_not_idle
from ebbtide.core.nodes import orphans
from ebbtide.core.nodes.drain import Disruptions
from ebbtide.core.nodes.offers import Serves
from ebbtide.core.nodes.replacing import StandIns
from ebbtide.core.operations import removals, slots
from ebbtide.core.operations.situation import (
    Closed,
    Situation,
    backoff_until,
    handed_over,
    rest_nodes,
    rest_offers,
    stubborn_rests,
)
from ebbtide.core.operations.stopping import REVOCABLE, why_may_not_go, why_not_replaced, why_yield
from ebbtide.core.words import a_while
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Breach, Broken, Effect, Outcome, Step
from ebbtide.model.operation import (
    AbortCause,
    Obstacle,
    Removal,
    RemovalCause,
    RemovalState,
    ScaleDown,
    Slot,
    SlotCause,
    SlotState,
    Stop,
)
from ebbtide.model.record import Record, closed
from ebbtide.model.settings import Settings

GIVEN_BACK = (AbortCause.NOT_ALLOWED, AbortCause.HEADROOM)
"""Causes for which its nodes are needed as they are, next to those that excuse it."""


@dataclass(frozen=True, slots=True)
class Abort:
    """Why it is given up; `blamed` where its nodes would not go, `excused` where that is no failure."""

    stop: Stop
    blamed: bool = False
    excused: bool = False


def begin(
    decision: Decision, operation_id: str, only_empty: bool = False, excused: bool = False
) -> ScaleDown:
    planned = tuple(replace(removal, since=decision.at) for removal in decision.removals)
    return ScaleDown(
        operation_id,
        decision.at,
        planned,
        decision.reason,
        only_empty=only_empty,
        excused=excused,
        cause=decision.cause,
        replacements=() if only_empty else tuple(replace(slot, since=decision.at) for slot in decision.slots),
    )


def gives_way(operation: ScaleDown, situation: Situation) -> bool:
    """Whether it is to run before anything is launched: what it gives back may be enough."""
    if situation.snapshot.problems:
        return False
    if operation.abort_reason:
        return any(removal.state is RemovalState.RELEASING for removal in operation.removals)
    abort = _why_abort(operation, situation)
    return abort is not None and (abort.excused or abort.stop.cause in GIVEN_BACK)


def advance(operation: ScaleDown, situation: Situation) -> Step[ScaleDown, Effect]:
    if situation.snapshot.problems:
        return Step(operation)
    asked = operation.removals
    operation = _abort_if_needed(operation, situation)
    held = not operation.abort_reason and not operation.replaced
    operation, effects = _follow_slots(operation, situation)
    disruptions = Disruptions(situation.snapshot.cluster.budgets)
    after: list[Removal] = []
    for before, removal in zip(asked, operation.removals, strict=True):
        waits = held and situation.notice_for(removal.instance_id) is None
        if removal != before or waits:
            after.append(removal)  # just released: one state a step, so each is written
            continue
        changed, wanted = removals.advance_removal(removal, operation.id, situation, disruptions)
        after.append(changed)
        effects += wanted
    return Step(replace(operation, removals=tuple(after)), effects)


def _follow_slots(operation: ScaleDown, situation: Situation) -> tuple[ScaleDown, tuple[Effect, ...]]:
    """What was launched is followed to its end, also where the removal was given up: it is a worker then."""
    advanced = [slots.advance_slot(slot, operation.id, situation) for slot in operation.slots]
    effects = tuple(effect for _, wanted in advanced for effect in wanted)
    return replace(operation, replacements=tuple(slot for slot, _ in advanced)), effects


def _abort_if_needed(operation: ScaleDown, situation: Situation) -> ScaleDown:
    abort = _aborted(operation) if operation.abort_reason else _why_abort(operation, situation)
    if abort is None:
        return operation
    released = tuple(
        removal
        if situation.notice_for(removal.instance_id)
        else removals.release(removal, situation, _obstacle(abort, removal), abort.blamed)
        for removal in operation.removals
    )
    held = next((removal for removal in operation.removals if removal.state in REVOCABLE), None)
    says = abort.stop.says if held is None else _with_obstacle(abort, held)
    excused = operation.excused or abort.excused
    kept = tuple(_without(slot, says) for slot in operation.slots)
    given_up = replace(operation, abort_reason=says, abort_cause=abort.stop.cause, excused=excused)
    return replace(given_up, removals=released, replacements=kept)


def _aborted(operation: ScaleDown) -> Abort:
    return Abort(Stop(operation.abort_cause, operation.abort_reason), excused=operation.excused)


def _without(slot: Slot, reason: str) -> Slot:
    """Slots that were not requested from the cloud yet are dropped."""
    if slot.state is not SlotState.RESERVED:
        return slot
    return replace(slot, state=SlotState.FAILED, reason=reason, why=SlotCause.ABORTED)


def _obstacle(abort: Abort, removal: Removal) -> Obstacle:
    return Obstacle(RemovalCause.ABORTED, _with_obstacle(abort, removal), abort.stop.cause.value)


def _with_obstacle(abort: Abort, removal: Removal) -> str:
    """A timeout alone is not a reason that anyone can act on: the obstacle is named with it (row 36)."""
    return f"{abort.stop.says}: {removals.obstacle(removal)}" if abort.blamed else abort.stop.says


def _why_abort(operation: ScaleDown, situation: Situation) -> Abort | None:
    record, settings, now = situation.record, situation.settings, situation.now
    if record.paused:
        return Abort(Stop(AbortCause.PAUSED, "removals were paused"))
    replaces = why_not_replaced(operation, situation)
    if replaces is not None:
        return Abort(replaces.stop, replaces.blamed, replaces.excused)
    needed = why_yield(operation, situation) if operation.replaced else None
    if needed is not None:
        # The pods that it moved may have taken that headroom: the scheduler need not put them where the plan
        # did. The next drain would move them again.
        moved = any(removal.started for removal in operation.removals)
        return Abort(needed, excused=needed.cause is not AbortCause.HEADROOM or not moved)
    kept = why_may_not_go(operation, situation) if operation.replaced else None
    if kept is not None:
        return Abort(kept)
    # Crash table: too-long. An open removal blocks other removals.
    if operation.replaced and now - operation.removes_from >= settings.stuck_seconds:
        says = f"not finished after {a_while(settings.stuck_seconds)}"
        return Abort(Stop(AbortCause.TOO_LONG, says), blamed=True)
    in_use = _why_in_use(operation, situation) if operation.only_empty else None
    if in_use is not None:
        return in_use
    for removal in operation.removals:
        if removal.state in (RemovalState.RELEASING, RemovalState.RELEASED):
            name = removal.node_name or removal.instance_id
            return Abort(Stop(AbortCause.NODE_KEPT, removal.reason or f"{name} was given up", name))
    return None


def _why_in_use(operation: ScaleDown, situation: Situation) -> Abort | None:
    """Consolidation takes what is empty: a pod that came, or is pending, is worth more than that."""
    waiting = situation.snapshot.cluster.waiting_pods
    if waiting:
        name = waiting[0].full_name
        return Abort(Stop(AbortCause.PODS_WAITING, f"{name} is pending", name), excused=True)
    for removal in operation.removals:
        pods = situation.snapshot.cluster.pods_on.get(removal.node_name, ())
        came = next((pod for pod in pods if not pod.tied_to_node), None)
        if came is not None and removal.dooms:
            says = f"{came.full_name} came onto {removal.node_name}"
            return Abort(Stop(AbortCause.CHANGED, says, came.full_name), excused=True)
        if removal.state in REVOCABLE:
            # A list that was old or empty breaks what was seen; whatever came meanwhile may still be hidden.
            why = why_not_idle(removal.node_uid, situation.record, situation.settings, situation.now)
            if why:
                says = f"{removal.node_name} cannot go: {why}"
                return Abort(Stop(AbortCause.NOT_IDLE, says, removal.node_name))
    return None


def absorb(operation: ScaleDown, outcomes: Sequence[Outcome], situation: Situation) -> ScaleDown:
    followed, launched = operation.removals, operation.slots
    serves: Serves | None = None
    if slots.without_capacity(outcomes):
        serves = StandIns(situation.snapshot, situation.record, situation.settings, operation.removals).serve
    for outcome in outcomes:
        followed = tuple(removals.absorb_removal(r, outcome, situation) for r in followed)
        launched = tuple(
            slots.absorb_slot(slot, outcome, situation.settings, situation.now, serves) for slot in launched
        )
    return replace(operation, removals=followed, replacements=launched)


def is_settled(operation: ScaleDown) -> bool:
    parts: tuple[Removal | Slot, ...] = (*operation.removals, *operation.slots)
    return all(part.settled for part in parts)


def close(record: Record, operation: ScaleDown, settings: Settings, now: int) -> Closed:
    """`completeScaleDown` or `failScaleDown`."""
    gone = [r for r in operation.removals if r.state is RemovalState.GONE]
    kept = [r for r in operation.removals if r.state is RemovalState.RELEASED]
    record = rest_nodes(closed(record, operation), [r for r in kept if r.blamed], settings, now)
    record = replace(record, rests=record.rests + stubborn_rests(operation.slots, settings, now))
    record = orphans.set_aside(record, operation.removals, operation.id, settings, now)
    record = replace(record, refused=record.refused + handed_over(operation.slots, operation.id, now))
    record = rest_offers(record, operation.slots, settings, now)
    if operation.only_empty:
        record = pace.removed(record, len(gone))
    if any(r.started for r in gone):
        # Also one that the cloud took in the middle of its drain: there is a node fewer, and load has moved.
        record = replace(record, last_scale_at=now, removal_failures=0, removal_backoff_until=0)
    if gone:
        return Closed(record, True)
    if not operation.excused:
        # Also where somebody else's reason ended it: the same would be repeated every few minutes.
        failures = record.removal_failures + 1
        until = backoff_until(failures, settings, now)
        record = replace(record, removal_failures=failures, removal_backoff_until=until)
    return Closed(record, False)


def check_invariants(before: ScaleDown, after: ScaleDown) -> tuple[Broken, ...]:
    if [r.instance_id for r in before.removals] != [r.instance_id for r in after.removals]:
        return (Broken(Breach.IDENTITY, before.id, f"scale-down {before.id} changed its targets"),)
    if len(before.slots) != len(after.slots) or before.cause is not after.cause:
        return (Broken(Breach.IDENTITY, before.id, f"scale-down {before.id} changed what it replaces"),)
    broken = [
        each for pair in zip(before.slots, after.slots, strict=True) for each in slots.check_invariants(*pair)
    ]
    broken += [
        each
        for old, new in zip(before.removals, after.removals, strict=True)
        for each in removals.check_invariants(old, new)
    ]
    if before.abort_reason and after.abort_reason != before.abort_reason:
        broken.append(Broken(Breach.TAKEN_BACK, before.id, f"scale-down {before.id} took its abort back"))
    return tuple(broken)
