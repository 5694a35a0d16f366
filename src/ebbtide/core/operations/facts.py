"""The facts of operations: what began, changed its state, was done, and ended. `narrate` turns them into
sentences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import assert_never

from ebbtide.core.nodes.gates import REPLACED
from ebbtide.core.operations.machine import Work
from ebbtide.model import effect as effects
from ebbtide.model.decision import Decision
from ebbtide.model.events import (
    Alarm,
    AlarmKind,
    DrainResult,
    EffectDone,
    EffectKind,
    Kept,
    OperationBegun,
    OperationClosed,
    OperationKind,
    PartKind,
    Transition,
)
from ebbtide.model.operation import (
    AbortCause,
    Consolidate,
    Move,
    MoveState,
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Source,
    SourceState,
    Spot,
    SpotEnd,
    SpotKind,
)

Part = Slot | Removal | Source | Move


def parts(work: Work) -> Iterator[Part]:
    match work:
        case ScaleUp():
            yield from work.slots
        case ScaleDown():
            yield from work.slots
            yield from work.removals
        case Consolidate():
            yield from work.slots
            yield from work.sources
            yield from work.moves
        case Spot():
            yield from (part for part in (work.removal, work.slot) if part is not None)
        case _:
            assert_never(work)


def part_name(part: Part) -> str:
    if isinstance(part, Move):
        return part.pod_name
    if isinstance(part, Slot):
        return part.node_name or part.instance_id or part.key
    return part.node_name or part.instance_id


def kind_of(work: Work) -> OperationKind:
    match work:
        case ScaleUp():
            return OperationKind.SCALE_UP
        case ScaleDown():
            return OperationKind.REPLACEMENT if work.cause in REPLACED else OperationKind.SCALE_DOWN
        case Consolidate():
            return OperationKind.CONSOLIDATION
        case Spot():
            rebalance = work.kind is SpotKind.REBALANCE
            return OperationKind.REBALANCE if rebalance else OperationKind.INTERRUPTION
        case _:
            assert_never(work)


def part_kind_of(part: Part) -> PartKind:
    match part:
        case Slot():
            return PartKind.LAUNCH
        case Removal():
            return PartKind.REMOVAL
        case Source():
            return PartKind.EMPTYING
        case Move():
            return PartKind.MOVE
        case _:
            assert_never(part)


def started(decision: Decision, operation: Operation) -> OperationBegun:
    found = tuple(parts(operation))
    return OperationBegun(
        operation_id=operation.id,
        operation=kind_of(operation),
        action=decision.action,
        decision_id=decision.id,
        launches=sum(isinstance(part, Slot) for part in found),
        nodes=tuple(part_name(part) for part in found if isinstance(part, Removal | Source)),
        moves=sum(isinstance(part, Move) for part in found),
        reason=operation.reason,
    )


def transitions(before: Work, after: Work) -> Iterator[Transition]:
    """One for every part that changed its state."""
    old = {_identity(part): part.state for part in parts(before)}
    for part in parts(after):
        was = old.get(_identity(part), "new")
        if was != part.state:
            yield _transition(part, str(was), after)


def _transition(part: Part, was: str, work: Work) -> Transition:
    changed = Transition(
        operation_id=work.id,
        operation=kind_of(work),
        part=part_kind_of(part),
        name=part_name(part),
        before=was,
        after=str(part.state),
        reason=part.reason,
        instance_id="" if isinstance(part, Move) else part.instance_id,
        node_name=part.from_node if isinstance(part, Move) else part.node_name,
        pool=part.pool if isinstance(part, Slot) else "",
        key=_launch_key(part) if isinstance(part, Slot) else "",
    )
    if not isinstance(part, Removal) or was != RemovalState.DRAINING:
        return changed
    fields = {name: getattr(changed, name) for name in Transition.__dataclass_fields__}
    return DrainResult(**fields, attempts=part.attempts)


def alarms(before: Work, after: Work) -> Iterator[tuple[str, Alarm]]:
    """What a person should know at once, with its subject: the cloud refuses to terminate, for the first
    time, or refuses an offer for what it is."""
    known = {part.instance_id for part in parts(before) if isinstance(part, Removal) and part.refused_since}
    for part in parts(after):
        if isinstance(part, Removal) and part.refused_since and part.instance_id not in known:
            what = f"{part_name(part)} ({part.instance_id}): {part.reason}"
            yield part.instance_id, Alarm(AlarmKind.TERMINATE_REFUSED, what, after.id)
    told = {offer for part in parts(before) if isinstance(part, Slot) for offer in part.unfit}
    for slot in (part for part in parts(after) if isinstance(part, Slot)):
        for offer in slot.unfit:
            if offer not in told:
                told.add(offer)
                yield offer, Alarm(AlarmKind.OBSERVATION, _refusal(offer, slot), after.id)


def _refusal(offer: str, slot: Slot) -> str:
    return (
        f"the cloud refuses {offer} of pool {slot.pool} for what it is ({slot.reason}): it is skipped for a "
        "time that grows up to a day, and what else fits is launched. Take the type out of the pool, or "
        "correct what it does not go with, such as the image"
    )


def _identity(part: Part) -> str:
    if isinstance(part, Move):
        return f"pod {part.pod_uid}"
    if isinstance(part, Removal | Source):
        return part.instance_id
    return f"slot {_launch_key(part)}"


def _launch_key(slot: Slot) -> str:
    """Without what each refused offer added to it."""
    return slot.key.rpartition("r")[0] if slot.refused else slot.key


def effect_done(outcome: effects.Outcome, work: Work) -> EffectDone:
    effect = outcome.effect
    kind, name = _effect(effect)
    slot = effect.slot if isinstance(effect, effects.Launch) else None
    made = outcome.instance.id if outcome.instance is not None else ""
    return EffectDone(
        operation_id=work.id,
        operation=kind_of(work),
        effect=kind,
        outcome=outcome.kind,
        name=name,
        detail=outcome.detail,
        pod=f"{effect.namespace}/{effect.name}" if isinstance(effect, effects.Evict) else "",
        instance_id=effect.instance_id if isinstance(effect, effects.Terminate) else made,
        instance_type=slot.instance_type if slot else "",
        market=str(slot.market) if slot else "",
        zone=slot.zone if slot else "",
    )


def _effect(effect: effects.Effect) -> tuple[EffectKind, str]:
    """What it is, and what it is done to."""
    match effect:
        case effects.Launch():
            return EffectKind.LAUNCH, effect.slot.key
        case effects.Terminate():
            return EffectKind.TERMINATE, effect.instance_id
        case effects.Evict():
            return EffectKind.EVICT, effect.node_name
        case effects.Cordon():
            return EffectKind.CORDON, effect.node_name
        case effects.Uncordon():
            return EffectKind.UNCORDON, effect.node_name
        case effects.SoftTaint():
            return EffectKind.SOFT_TAINT, effect.node_name
        case effects.DeleteNode():
            return EffectKind.DELETE_NODE, effect.node_name
        case _:
            assert_never(effect)


def closed(work: Work, succeeded: bool, reason: str = "") -> OperationClosed:
    found = tuple(parts(work))
    spot = work if isinstance(work, Spot) else None
    return OperationClosed(
        operation_id=work.id,
        operation=kind_of(work),
        succeeded=succeeded,
        started_at=work.noticed_at if isinstance(work, Spot) else work.started_at,
        ready=_names(found, SlotState.READY),
        removed=_gone(found, started=True),
        gone_already=_gone(found, started=False),
        emptied=_names(found, SourceState.EMPTIED),
        moved=sum(part.state is MoveState.MOVED for part in found),
        kept=tuple(_kept(part) for part in found if _came_to_nothing(part)),
        set_aside=tuple(_kept(part) for part in found if part.state is RemovalState.SET_ASIDE),
        abort_reason=work.abort_reason if isinstance(work, ScaleDown | Consolidate) else "",
        abort_cause=work.abort_cause if isinstance(work, ScaleDown | Consolidate) else AbortCause.NONE,
        instance_id=spot.instance_id if spot else "",
        end=spot.closing if spot else SpotEnd.OPEN,
        reason=reason,
    )


def _names(found: tuple[Part, ...], state: SlotState | SourceState) -> tuple[str, ...]:
    return tuple(part_name(part) for part in found if part.state is state)


def _gone(found: tuple[Part, ...], started: bool) -> tuple[str, ...]:
    gone = (part for part in found if isinstance(part, Removal) and part.state is RemovalState.GONE)
    return tuple(part_name(part) for part in gone if part.started is started)


def _came_to_nothing(part: Part) -> bool:
    match part:
        case Slot():
            return part.state is not SlotState.READY
        case Removal():
            return part.state not in (RemovalState.GONE, RemovalState.SET_ASIDE)
        case Source():
            return part.state is not SourceState.EMPTIED
        case Move():
            return False
        case _:
            assert_never(part)


def _kept(part: Part) -> Kept:
    name = part.instance_id or part.key if isinstance(part, Slot) else part_name(part)
    return Kept(name, part.reason)
