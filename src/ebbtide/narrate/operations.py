"""Operations as sentences: how they ended, what was done, what became of a spot notice."""

from __future__ import annotations

from typing import assert_never

from ebbtide.core.words import count_of, names_of, short_id, time_of_day
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import EffectDone, EffectKind, OperationClosed, OperationKind, SpotAnswer, SpotEvent
from ebbtide.model.operation import SpotEnd, SpotKind


def operation_tail(operation_id: str) -> str:
    return f" (operation {short_id(operation_id)})"


def closed(fact: OperationClosed) -> str:
    match fact.operation:
        case OperationKind.SCALE_UP:
            told = _scale_up(fact)
        case OperationKind.SCALE_DOWN:
            told = _scale_down(fact)
        case OperationKind.REPLACEMENT:
            by = f"; {names_of(fact.ready)} ready" if fact.ready else ""
            told = f"{_scale_down(fact)}{by}"
        case OperationKind.CONSOLIDATION:
            told = _consolidation(fact)
        case OperationKind.INTERRUPTION | OperationKind.REBALANCE:
            return f"{fact.operation} of {fact.instance_id} {_spot_end(fact)}"
        case _:
            assert_never(fact.operation)
    return f"{fact.operation} {told}{operation_tail(fact.operation_id)}"


def _scale_up(fact: OperationClosed) -> str:
    why = "; ".join(f"{one.name}: {one.reason}" for one in fact.kept)
    if fact.succeeded:
        return f"completed: {names_of(fact.ready)} ready" + (f"; without {why}" if why else "")
    return f"failed: {why or 'nothing was to be launched'}"


def _scale_down(fact: OperationClosed) -> str:
    why = "; ".join(
        [f"{one.name} kept: {one.reason}" for one in fact.kept]
        + [f"{one.name} set aside, it stays cordoned: {one.reason}" for one in fact.set_aside]
    )
    if fact.succeeded:
        did = [f"{names_of(fact.removed)} removed"] if fact.removed else []
        did += [f"{names_of(fact.gone_already)} gone already"] if fact.gone_already else []
        return f"completed: {'; '.join([*did, why] if why else did)}"
    return f"given up: {why}"


def _consolidation(fact: OperationClosed) -> str:
    did = f"{count_of(fact.moved, 'pod')} moved, {names_of(fact.emptied) or 'no node'} emptied"
    return f"completed: {did}" if fact.succeeded else f"given up: {fact.abort_reason}; {did}"


def _spot_end(fact: OperationClosed) -> str:
    match fact.end:
        case SpotEnd.ANSWERED:
            replaced = f"{fact.ready[0]} replaces it" if fact.ready else "nothing replaces it"
            return f"answered: {names_of(fact.removed + fact.gone_already)} is gone, {replaced}"
        case SpotEnd.REMOVED_MEANWHILE:
            return "answered: it was removed meanwhile"
        case SpotEnd.SET_ASIDE:
            return f"ended: its removal was set aside ({fact.reason})"
        case SpotEnd.NODE_STAYS:
            return f"ended: the node stays ({fact.reason})"
        case SpotEnd.NEVER_JOINED:
            return "ended: it never joined"
        case SpotEnd.NOT_LISTED:
            return "ended: it is not listed any more"
        case SpotEnd.NO_REPLACEMENT:
            return f"not followed: no replacement came ({fact.reason})"
        case SpotEnd.LAPSED:
            return f"lapsed: {fact.reason}"
        case SpotEnd.OPEN:
            return "ended"
        case _:
            assert_never(fact.end)


def effect(fact: EffectDone) -> str:
    detail = f" ({fact.detail})" if fact.detail else ""
    result = "no capacity" if fact.outcome is OutcomeKind.NO_CAPACITY else str(fact.outcome)
    return f"{_effect_name(fact)}: {result}{detail}"


def _effect_name(fact: EffectDone) -> str:
    match fact.effect:
        case EffectKind.LAUNCH:
            return f"launch {fact.name} ({fact.instance_type}, {fact.market}, {fact.zone})"
        case EffectKind.EVICT:
            return f"evict {fact.pod} from {fact.name}"
        case EffectKind.DELETE_NODE:
            return f"delete node {fact.name}"
        case EffectKind.SOFT_TAINT:
            return f"taint {fact.name} softly"
        case EffectKind.TERMINATE | EffectKind.CORDON | EffectKind.UNCORDON:
            return f"{fact.effect} {fact.name}"
        case _:
            assert_never(fact.effect)


def spot(fact: SpotEvent) -> str:
    about = f"{fact.notice} of {fact.instance_id}"
    match fact.answer:
        case SpotAnswer.TAKEN_IN if fact.notice is SpotKind.INTERRUPTION:
            return f"{about} taken in: it will be gone at {time_of_day(fact.deadline)}"
        case SpotAnswer.TAKEN_IN:
            return f"{about} taken in"
        case SpotAnswer.UPGRADED:
            gone = time_of_day(fact.deadline)
            return f"rebalance of {fact.instance_id} became an interruption: it will be gone at {gone}"
        case SpotAnswer.KNOWN:
            return f"{about} is known already"
        case SpotAnswer.NOT_OURS:
            return f"{about} ignored: not an instance of ours"
        case SpotAnswer.ALREADY_GOING:
            return f"{about} ignored: it is already going"
        case SpotAnswer.TOO_OLD:
            return f"{about} ignored: too old"
        case _:
            assert_never(fact.answer)
