"""How a consolidation ends that was given up, and what no step of it may ever do."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import consolidate, machine
from ebbtide.model.effect import Breach, Broken, Outcome, OutcomeKind, Uncordon
from ebbtide.model.operation import Consolidate, MoveState, SlotState, SourceState
from tests.builders import NOW, make_consolidate, make_scale_down, make_slot, make_source, make_spot
from tests.unit.operations.builders import TOKEN, breaches
from tests.unit.operations.test_consolidate import MARKED, at, planned, pods_of, seen
from tests.unit.operations.test_consolidate_abort import PLAIN_SOURCE, stopped


def releasing(token: int = TOKEN, until: int = NOW) -> Consolidate:
    source = make_source(
        "a1", state=SourceState.RELEASING, fence_token=token, fence_until=until, reason="why"
    )
    return make_consolidate([source], [], abort_reason="why")


def test_the_mark_is_lifted_and_then_it_is_over() -> None:
    operation = releasing()
    step = consolidate.advance(operation, at(seen(), operation))
    assert step.effects == (Uncordon("a1", "uid-a1", "op", TOKEN),)
    lifted = consolidate.advance(operation, at(seen(source=PLAIN_SOURCE), operation))
    assert lifted.state.sources[0].state is SourceState.RELEASED
    assert machine.is_settled(lifted.state)


def test_the_mark_is_lifted_only_when_a_stalled_runner_can_no_longer_evict() -> None:
    operation = releasing(token=TOKEN - 1, until=NOW + 20)
    waits = consolidate.advance(operation, at(seen(), operation, NOW + 49))
    assert (waits.state, waits.effects) == (operation, ())
    assert consolidate.advance(operation, at(seen(), operation, NOW + 50)).effects != ()


def test_a_node_that_the_cloud_takes_is_passed_on_at_once() -> None:
    operation = releasing(token=TOKEN - 1, until=NOW + 20)
    step = consolidate.advance(operation, at(seen(), operation, spots=(make_spot("a1"),)))
    assert step.effects == (Uncordon("a1", "uid-a1", "op", TOKEN),)


def test_a_node_that_is_another_by_now_is_left_alone() -> None:
    operation = releasing()
    another = replace(MARKED, uid="another")
    step = consolidate.advance(operation, at(seen(source=another), operation))
    assert (step.effects, step.state.sources[0].state) == ((), SourceState.RELEASED)


@pytest.mark.parametrize("uid", ["uid-a1", "uid-b9"])
def test_a_mark_that_is_somebody_elses_by_now_does_not_hold_it_open(uid: str) -> None:
    operation = releasing()
    refused = Outcome(Uncordon("a1", uid, "op"), OutcomeKind.REFUSED, "theirs")
    after = consolidate.absorb(operation, [refused], at(seen(), operation))
    expected = SourceState.RELEASED if uid == "uid-a1" else SourceState.RELEASING
    assert after.sources[0].state is expected
    done = Outcome(Uncordon("a1", uid, "op"), OutcomeKind.DONE)
    assert consolidate.absorb(operation, [done], at(seen(), operation)) == operation


def test_what_is_empty_already_leaves_although_the_rest_was_given_up() -> None:
    (pod,) = pods_of("web")
    empty = make_source("b1", state=SourceState.EMPTIED)
    operation = replace(planned(pod), sources=(*planned(pod).sources, empty))
    after = stopped(operation, seen(pod), paused=True)
    assert [source.state for source in after.sources] == [SourceState.RELEASING, SourceState.EMPTIED]
    released = replace(after, sources=(replace(after.sources[0], state=SourceState.RELEASED), empty))
    closed = machine.close(released, at(seen(pod), released))
    assert [one.node_name for one in closed.record.leaving] == ["b1"]


def broken(before: Consolidate, after: Consolidate) -> tuple[Broken, ...]:
    return machine.check_invariants(before, after)


def test_a_step_never_does_what_it_must_not() -> None:
    (pod,) = pods_of("web")
    operation = planned(pod, slots=(make_slot("op-0", state=SlotState.READY),))
    source, move = operation.sources[0], operation.moves[0]
    started = (replace(move, state=MoveState.EVICTING),)
    assert breaches(broken(operation, replace(operation, moves=started))) == []
    assert breaches(broken(operation, replace(operation, moves=()))) == [(Breach.IDENTITY, "op")]
    launching = replace(operation, slots=(make_slot("op-0", state=SlotState.LAUNCHING),))
    too_early = [(Breach.TOO_EARLY, "default/web-0")]
    assert breaches(broken(launching, replace(launching, moves=started))) == too_early
    unmarked = replace(operation, sources=(replace(source, state=SourceState.PLANNED),))
    assert breaches(broken(unmarked, replace(operation, moves=started))) == too_early
    aborted = replace(operation, abort_reason="why")
    assert breaches(broken(aborted, replace(aborted, moves=started))) == too_early
    assert breaches(broken(aborted, operation)) == [(Breach.TAKEN_BACK, "op")]
    left = replace(operation, moves=(replace(move, state=MoveState.LEFT),))
    assert breaches(broken(left, operation)) == [(Breach.STATE, "default/web-0")]
    assert breaches(broken(operation, replace(operation, moves=(replace(move, from_node="b1"),)))) == [
        (Breach.IDENTITY, "default/web-0")
    ]
    emptied = replace(operation, sources=(replace(source, state=SourceState.EMPTIED),))
    assert breaches(broken(emptied, operation)) == [(Breach.STATE, "a1")]
    assert breaches(broken(operation, replace(operation, sources=(replace(source, node_uid="x"),)))) == [
        (Breach.IDENTITY, "a1")
    ]
    slot = replace(operation, slots=(make_slot("op-0", state=SlotState.RESERVED),))
    assert breaches(broken(operation, slot)) == [(Breach.STATE, "op-0")]
    assert breaches(machine.check_invariants(operation, make_scale_down())) == [(Breach.IDENTITY, "op")]
