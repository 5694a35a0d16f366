"""Consolidation: empty some nodes onto others, so they can be removed.

launch   cheaper nodes that the plan asks for are launched and seen to be Ready   (`slots`)
mark     every source gets a soft taint                                           (`sources`)
move     a few pods at a time; room, budgets and rules are asked before each      (`moves`)
close    what is empty keeps its mark and is noted as leaving: once idle for long enough it is removed
         by a scale-down, through all gates
abort    a node that did not come, a pod that is not ready in time or has no place, a pod that came,
         paused, pods pending for too long, a spot notice: nothing more is moved, what is not empty is
         given back; once set, the abort is never taken back

A state is written before its effect. Whether an eviction was sent shows in whether the pod is still there.
Pods are never deleted by force.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.core.consolidation import pace, realised
from ebbtide.core.consolidation.emptied_nodes import note_leaving
from ebbtide.core.nodes import gates
from ebbtide.core.operations import moves, scale_down, slots
from ebbtide.core.operations.situation import Closed, Situation, handed_over, rest_offers, stubborn_rests
from ebbtide.core.operations.stopping import why_stop
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.decision import Decision
from ebbtide.model.effect import Breach, Broken, Effect, Evict, Outcome, OutcomeKind, SoftTaint, Step
from ebbtide.model.operation import (
    AbortCause,
    Consolidate,
    Move,
    MoveState,
    Slot,
    SlotState,
    Source,
    SourceState,
    Stop,
)
from ebbtide.model.record import Record, closed
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


def start(
    record: Record, decision: Decision, operation_id: str, settings: Settings, snapshot: Snapshot
) -> Record:
    """The record with this consolidation begun; its cooldown counts from now, however it ends, and
    it counts as fruitless until its nodes have gone.

    Empty nodes are removed at once, as many as may go; the others leave after them under the same id. So
    do those that an earlier consolidation has emptied, of which only that one may lift the mark.
    """
    plan = decision.consolidation.plan if decision.consolidation is not None else None
    if plan is None:
        same = record.leaving[0].operation_id
        return replace(record, removing=scale_down.begin(decision, same, only_empty=True))
    record = pace.charge_cooldown(record, plan, decision.at)
    record = realised.promised(record, plan, snapshot, settings)
    if plan.sources:
        return replace(record, removing=begin(plan, operation_id, decision.at, decision.reason))
    record = note_leaving(record, plan.empties, operation_id, settings, decision.at)
    return replace(record, removing=scale_down.begin(decision, operation_id, only_empty=True))


def begin(plan: ConsolidationPlan, operation_id: str, now: int, reason: str) -> Consolidate:
    """What is empty already needs no move, and leaves with the others."""
    leaving = (*plan.sources, *plan.empties)
    return Consolidate(
        id=operation_id,
        started_at=now,
        slots=plan.slots,
        sources=tuple(
            Source(one.instance_id, one.node_name, one.node_uid, one.zone, one.pool, since=now)
            for one in leaving
        ),
        moves=tuple(replace(move, since=now) for move in plan.moves),
        savings_per_hour=plan.savings_per_hour,
        currency=plan.currency,
        reason=reason,
    )


def advance(operation: Consolidate, situation: Situation) -> Step[Consolidate, Effect]:
    if situation.snapshot.problems:
        return Step(operation)
    stop = None if operation.abort_reason else why_stop(operation, situation)
    if stop is not None:
        return Step(give_up(operation, situation, stop))
    advanced = [slots.advance_slot(slot, operation.id, situation) for slot in operation.slots]
    followed = replace(operation, slots=tuple(slot for slot, _ in advanced))
    effects: tuple[Effect, ...] = tuple(effect for _, wanted in advanced for effect in wanted)
    if operation.abort_reason:
        return _release(followed, effects, situation)
    if followed != operation or not all(slot.settled for slot in followed.slots):
        return Step(followed, effects)
    return _empty(operation, situation)


def _release(
    operation: Consolidate, effects: tuple[Effect, ...], situation: Situation
) -> Step[Consolidate, Effect]:
    released = [moves.advance_release(source, operation.id, situation) for source in operation.sources]
    lifted = tuple(effect for _, wanted in released for effect in wanted)
    return Step(replace(operation, sources=tuple(source for source, _ in released)), effects + lifted)


def _empty(operation: Consolidate, situation: Situation) -> Step[Consolidate, Effect]:
    """Every node that was to be launched is ready. On a look that cannot be believed nothing is taken as
    gone, moved or empty."""
    if not gates.plausible(situation.snapshot, situation.record, situation.settings).passed:
        return Step(operation)
    marked = [_marked(source, operation.id, situation) for source in operation.sources]
    wanted = tuple(effect for _, effects in marked for effect in effects)
    if wanted:
        return Step(replace(operation, sources=tuple(source for source, _ in marked)), wanted)
    settled = moves.settle(operation, situation)
    if settled != operation:
        return Step(settled)
    following = moves.next_moves(operation, situation)
    if following.forbids is not None:
        return Step(give_up(operation, situation, following.forbids))
    return _move(operation, following, situation)


def _marked(source: Source, operation_id: str, situation: Situation) -> moves.Advance:
    return (source, ()) if source.settled else moves.mark(source, operation_id, situation)


def _move(operation: Consolidate, following: moves.Next, situation: Situation) -> Step[Consolidate, Effect]:
    started = {move.pod_uid: move for move, _ in following.started}
    nodes = {move.from_node for move in started.values()}
    effects = tuple(moves.eviction(pod) for _, pod in following.started)
    return Step(
        replace(
            operation,
            moves=tuple(started.get(move.pod_uid, move) for move in operation.moves),
            sources=tuple(
                moves.fence(source, situation) if source.node_name in nodes else source
                for source in operation.sources
            ),
        ),
        effects,
    )


def give_up(operation: Consolidate, situation: Situation, stop: Stop) -> Consolidate:
    """Nothing more is moved; slots that were not requested yet are dropped."""
    return replace(
        operation,
        abort_reason=stop.says,
        abort_cause=stop.cause,
        slots=tuple(_without(slot, stop.says) for slot in operation.slots),
        sources=tuple(moves.release(source, situation, stop.says) for source in operation.sources),
        moves=tuple(
            move if move.settled else moves.to(move, MoveState.LEFT, situation, stop.says)
            for move in operation.moves
        ),
    )


def _without(slot: Slot, reason: str) -> Slot:
    return replace(slot, state=SlotState.FAILED, reason=reason) if slot.state is SlotState.RESERVED else slot


def absorb(operation: Consolidate, outcomes: Sequence[Outcome], situation: Situation) -> Consolidate:
    """Take in what cannot be learned by looking: answers of the cloud, and definite refusals."""
    for outcome in outcomes:
        operation = replace(
            operation,
            slots=tuple(
                slots.absorb_slot(slot, outcome, situation.settings, situation.now)
                for slot in operation.slots
            ),
            sources=tuple(moves.absorb_source(one, outcome, situation) for one in operation.sources),
            moves=_told(operation.moves, outcome),
        )
        stops = isinstance(outcome.effect, SoftTaint | Evict) and outcome.kind is OutcomeKind.REFUSED
        if stops and not operation.abort_reason:
            operation = give_up(operation, situation, Stop(AbortCause.OTHER, outcome.detail))
    return operation


def _told(moves: tuple[Move, ...], outcome: Outcome) -> tuple[Move, ...]:
    """Why an eviction is put off shows where it is waited for."""
    if not isinstance(outcome.effect, Evict):
        return moves
    uid = outcome.effect.uid
    return tuple(
        replace(move, reason=outcome.detail)
        if move.pod_uid == uid and move.state is MoveState.EVICTING
        else move
        for move in moves
    )


def is_settled(operation: Consolidate) -> bool:
    parts: tuple[Slot | Source | Move, ...] = (*operation.slots, *operation.sources, *operation.moves)
    return all(part.settled for part in parts)


def close(record: Record, operation: Consolidate, settings: Settings, now: int) -> Closed:
    emptied = [source for source in operation.sources if source.state is SourceState.EMPTIED]
    rests = record.rests + stubborn_rests(operation.slots, settings, now)
    record = replace(closed(record, operation), rests=rests)
    record = replace(record, refused=record.refused + handed_over(operation.slots, operation.id, now))
    record = note_leaving(record, emptied, operation.id, settings, now)
    record = rest_offers(record, operation.slots, settings, now)
    return Closed(record, not operation.abort_reason)


def check_invariants(before: Consolidate, after: Consolidate) -> tuple[Broken, ...]:
    if _names(before) != _names(after):
        return (Broken(Breach.IDENTITY, before.id, f"consolidation {before.id} changed its plan"),)
    broken = [
        each for pair in zip(before.slots, after.slots, strict=True) for each in slots.check_invariants(*pair)
    ]
    broken += [
        each for pair in zip(before.sources, after.sources, strict=True) for each in moves.check_source(*pair)
    ]
    broken += [
        each for pair in zip(before.moves, after.moves, strict=True) for each in moves.check_invariants(*pair)
    ]
    if before.abort_reason and after.abort_reason != before.abort_reason:
        broken.append(Broken(Breach.TAKEN_BACK, before.id, f"consolidation {before.id} took its abort back"))
    return (*broken, *_too_early(before, after))


def _names(operation: Consolidate) -> tuple[object, ...]:
    return (
        len(operation.slots),
        [source.instance_id for source in operation.sources],
        [move.pod_uid for move in operation.moves],
    )


def _too_early(before: Consolidate, after: Consolidate) -> list[Broken]:
    """No pod is moved before every new node is ready and its own node is marked, nor after the abort."""
    marked = {source.node_name for source in before.sources if source.state is SourceState.MARKED}
    sound = all(slot.state is SlotState.READY for slot in after.slots) and not after.abort_reason
    return [
        Broken(
            Breach.TOO_EARLY, new.pod_name, f"{new.pod_name} was to be moved although nothing may be moved"
        )
        for old, new in zip(before.moves, after.moves, strict=True)
        if new.state is MoveState.EVICTING
        and old.state is MoveState.PLANNED
        and not (sound and new.from_node in marked)
    ]
