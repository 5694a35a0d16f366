"""One interface for the four state machines, so the engine runs them all in the same way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import assert_never

from ebbtide.core.consolidation import pace
from ebbtide.core.operations import consolidate, scale_down, scale_up, spot
from ebbtide.core.operations.situation import Closed, Situation
from ebbtide.model.effect import Breach, Broken, Effect, Outcome, Step
from ebbtide.model.operation import Consolidate, Removing, ScaleDown, ScaleUp, Spot
from ebbtide.model.record import Record, in_lane

Work = ScaleUp | ScaleDown | Consolidate | Spot
Advanced = Step[ScaleUp, Effect] | Step[ScaleDown, Effect] | Step[Consolidate, Effect] | Step[Spot, Effect]


def advance(work: Work, situation: Situation) -> Advanced:
    match work:
        case ScaleUp():
            return scale_up.advance(work, situation)
        case ScaleDown():
            return scale_down.advance(work, situation)
        case Consolidate():
            return consolidate.advance(work, situation)
        case Spot():
            return spot.advance(work, situation)
        case _:
            assert_never(work)


def gives_way(removing: Removing | None, situation: Situation) -> bool:
    """Whether nodes on their way out are needed after all, or are just being given back."""
    return isinstance(removing, ScaleDown) and scale_down.gives_way(removing, situation)


def absorb(work: Work, outcomes: Sequence[Outcome], situation: Situation) -> Work:
    match work:
        case ScaleUp():
            return scale_up.absorb(work, outcomes, situation)
        case ScaleDown():
            return scale_down.absorb(work, outcomes, situation)
        case Consolidate():
            return consolidate.absorb(work, outcomes, situation)
        case Spot():
            return spot.absorb(work, outcomes, situation)
        case _:
            assert_never(work)


def is_settled(work: Work) -> bool:
    match work:
        case ScaleUp():
            return scale_up.is_settled(work)
        case ScaleDown():
            return scale_down.is_settled(work)
        case Consolidate():
            return consolidate.is_settled(work)
        case Spot():
            return spot.is_settled(work)
        case _:
            assert_never(work)


def close(work: Work, situation: Situation) -> Closed:
    match work:
        case ScaleUp():
            return scale_up.close(situation.record, work, situation.settings, situation.now)
        case ScaleDown():
            return scale_down.close(situation.record, work, situation.settings, situation.now)
        case Consolidate():
            return consolidate.close(situation.record, work, situation.settings, situation.now)
        case Spot():
            closed = spot.close(situation.record, work, situation.settings, situation.now)
            return replace(closed, reason=spot.why_ended(work, situation).says)
        case _:
            assert_never(work)


def check_invariants(before: Work, after: Work) -> tuple[Broken, ...]:
    """What a step must never do, whatever was seen; asked before every write."""
    match before, after:
        case ScaleUp(), ScaleUp():
            return scale_up.check_invariants(before, after)
        case ScaleDown(), ScaleDown():
            return scale_down.check_invariants(before, after)
        case Consolidate(), Consolidate():
            return consolidate.check_invariants(before, after)
        case Spot(), Spot():
            return spot.check_invariants(before, after)
        case _:
            return (Broken(Breach.IDENTITY, before.id, f"{before.id} changed its kind"),)


def written(record: Record, work: Work) -> Record:
    """The record with this work in its place."""
    if isinstance(work, Spot):
        return spot.with_spot(record, work)
    if isinstance(work, Consolidate):
        return pace.written(record, work)
    return in_lane(record, work)
