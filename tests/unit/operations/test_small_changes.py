"""What small changes of the machines would get wrong, as `python -m tests.mutation` found."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.nodes.drain import (
    DrainPlan,
    DrainReason,
    Judgement,
    Treatment,
    put_off,
)
from ebbtide.core.operations import consolidate, machine, moves, scale_down, scale_up, spot
from ebbtide.core.operations.spot import check_invariants, take_in
from ebbtide.core.operations.stopping import why_yield
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Breach, Cordon, Evict
from ebbtide.model.events import SpotAnswer
from ebbtide.model.operation import (
    AbortCause,
    RemovalState,
    SlotState,
    SourceState,
    SpotEnd,
    SpotKind,
    SpotNotice,
    Stop,
)
from ebbtide.model.pod import Resources
from tests.builders import (
    NOW,
    make_consolidate,
    make_instance,
    make_node,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
    make_source,
    make_spot,
)
from tests.unit.operations.builders import (
    advance_removal,
    advance_slot,
    breaches,
    cordoned,
    fleet,
    make_situation,
    with_work,
)
from tests.unit.operations.test_only_empty import DRAINING, after
from tests.unit.operations.test_slots_join import TERMINATING
from tests.unit.operations.test_slots_join import seen as joined
from tests.unit.operations.test_yielding import ONE, pending, seen


def test_a_recommendation_that_is_repeated_changes_nothing() -> None:
    known = make_spot("a1", kind=SpotKind.REBALANCE, noticed_at=NOW - 60, deadline=NOW + 540)
    record = make_record(spots=(known,))
    again = SpotNotice("i-a1", SpotKind.REBALANCE, NOW, NOW + 600)
    assert take_in(record, again, fleet(make_node("a1")), make_settings(), NOW) == (record, SpotAnswer.KNOWN)


def test_a_recommendation_may_become_an_interruption_and_never_the_other_way_round() -> None:
    recommended, interrupted = (
        make_spot("a1", kind=kind) for kind in (SpotKind.REBALANCE, SpotKind.INTERRUPTION)
    )
    assert breaches(check_invariants(recommended, interrupted)) == []
    assert breaches(check_invariants(interrupted, recommended)) == [(Breach.TAKEN_BACK, interrupted.id)]


@pytest.mark.parametrize(("wanted", "end"), [(True, SpotEnd.OPEN), (False, SpotEnd.ANSWERED)])
def test_an_answer_is_over_once_the_node_is_gone_unless_a_replacement_is_still_wanted(
    wanted: bool, end: SpotEnd
) -> None:
    gone = make_removal("a1", state=RemovalState.GONE)
    answered = make_spot("a1", removal=gone, replace=wanted)
    assert spot._ended_removal(answered, gone, make_situation()).closing is end


def test_load_that_is_not_known_gives_no_drained_node_back() -> None:
    """Whether it may go without knowing the load is asked by the last gate, which waits."""
    drained = make_scale_down(make_removal("a1", state=RemovalState.DRAINED, attempts=1))
    nodes = (cordoned("a1"),)
    settings = make_settings(min_workers=0)
    situation = make_situation(make_snapshot(nodes, cpu=None), record=with_work(drained), settings=settings)
    assert scale_down.advance(drained, situation).state.abort_reason == ""


def test_pods_that_cannot_be_judged_or_do_not_fit_do_not_hide_one_that_does() -> None:
    for first in (
        pending("agent", 1000, controller="DaemonSet"),
        pending("unknown", 0, requests=Resources(0, 0)),
        pending("too-large", 5000),
    ):
        stop = why_yield(ONE, make_situation(seen(first, pending("second")), record=with_work(ONE)))
        assert stop is not None
        assert stop.about == "default/second"


@pytest.mark.parametrize(("only_empty", "owes"), [(True, 2), (False, 3)])
def test_only_what_consolidation_had_emptied_is_counted_as_its_own(only_empty: bool, owes: int) -> None:
    operation = make_scale_down(make_removal("a1", state=RemovalState.GONE), only_empty=only_empty)
    record = with_work(operation, consolidation_owes=3)
    assert scale_down.close(record, operation, make_settings(), NOW).record.consolidation_owes == owes


def test_a_removal_keeps_the_pool_and_zone_it_was_decided_for() -> None:
    node = make_node("a1", pool="other", zone="z")
    known = make_removal("a1", pool="workers", zone="a")
    after, _ = advance_removal(known, make_situation(fleet(node)))
    assert (after.pool, after.zone) == ("workers", "a")
    unknown = make_removal("a1", pool="", zone="")
    after, _ = advance_removal(unknown, make_situation(fleet(node)))
    assert (after.pool, after.zone) == ("other", "z")


def test_what_is_adopted_was_not_asked_for() -> None:
    slots = (make_slot("op-0"), make_slot("op-1", state=SlotState.LAUNCHED, instance_id="i-1"))
    decision = Decision(id="d", at=NOW, action=Action.SCALE_UP, reason="why", verdicts=(), slots=slots)
    assert scale_up.begin(decision, "op").requested == 1


def test_a_source_whose_node_is_gone_is_released_from_that_moment() -> None:
    source = make_source("a1", state=SourceState.RELEASING, since=NOW - 500, reason="why")
    after, effects = moves.advance_release(source, "op", make_situation(token=source.fence_token))
    assert (after.state, after.since, after.reason, effects) == (SourceState.RELEASED, NOW, "why", ())


def test_a_machine_that_was_uncordoned_by_a_person_settles_again_from_the_start() -> None:
    settled = replace(TERMINATING, shut_since=NOW)
    after, effects = advance_slot(settled, make_situation(joined(make_node("a1")), now=NOW + 60))
    assert (after.shut_since, effects) == (0, (Cordon("a1", "uid-a1", "op"),))


def test_what_the_server_said_of_an_eviction_is_the_obstacle_only_where_nothing_worse_is_known() -> None:
    pods = [make_pod(name, node_name="a1") for name in ("asked", "blocked", "waits")]
    asked, blocked, waits = (
        Judgement(pod, treatment, DrainReason.MOVABLE, f"{pod.name} says")
        for pod, treatment in zip(pods, (Treatment.EVICT, Treatment.BLOCK, Treatment.WAIT), strict=True)
    )
    said = put_off(Evict("default", "asked", "uid-asked", "a1", 0), "the budget is used up")
    assert DrainPlan((asked,), ()).obstacle_after(said) == said
    assert DrainPlan((asked, blocked), ()).obstacle_after(said).about == "default/blocked"
    assert DrainPlan((asked, waits), ()).obstacle_after(said).about == "default/waits"


def test_a_node_that_pods_need_again_costs_no_back_off() -> None:
    came, _ = after(make_scale_down(DRAINING, only_empty=True), make_pod(node_name="a1"))
    assert (came.abort_cause, came.excused) == (AbortCause.CHANGED, True)


def test_a_node_of_the_same_second_as_the_launch_may_be_its_own() -> None:
    launched = make_slot(state=SlotState.LAUNCHED, instance_id="i-a9", since=NOW - 600)
    nobodys = make_node("stranger", provider_id="", private_ip="", created_at=NOW - 600)
    snapshot = make_snapshot([nobodys], instances=[make_instance("i-a9", key=launched.key)])
    assert advance_slot(launched, make_situation(snapshot))[0].state is SlotState.LAUNCHED


def test_a_slot_whose_own_node_is_there_is_not_kept_open_by_a_stranger() -> None:
    launched = make_slot(state=SlotState.LAUNCHED, instance_id="i-a1", since=NOW - 60)
    mine = make_node("a1", ready=False, instance_id="i-a1")
    stranger = make_node("stranger", provider_id="", private_ip="", created_at=NOW)
    snapshot = make_snapshot([mine, stranger], instances=[make_instance("i-a1", key=launched.key)])
    slot, _ = advance_slot(launched, make_situation(snapshot))
    assert (slot.state, slot.node_name, slot.reason) == (SlotState.JOINED, "a1", "")


def test_what_a_consolidation_cannot_terminate_continues_as_a_removal() -> None:
    handed = replace(TERMINATING, state=SlotState.FAILED)
    operation = make_consolidate([], [], slots=(handed,))
    closed = machine.close(operation, make_situation(record=with_work(operation)))
    assert [one.operation_id for one in closed.record.refused] == ["op"]


def test_a_launch_that_was_not_asked_for_yet_says_why_it_was_given_up() -> None:
    operation = make_consolidate(
        [], [], slots=(make_slot("op-0"), make_slot("op-1", state=SlotState.LAUNCHED))
    )
    stopped = consolidate.give_up(operation, make_situation(), Stop(AbortCause.OTHER, "demand rose"))
    assert [(slot.state, slot.reason) for slot in stopped.slots] == [
        (SlotState.FAILED, "demand rose"),
        (SlotState.LAUNCHED, ""),
    ]
