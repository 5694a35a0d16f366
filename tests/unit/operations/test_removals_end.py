"""A removal from DRAINED to its end: irrevocable once TERMINATING, released only by our own uncordon."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations.removals import ALLOWED, absorb_removal, check_invariants, release
from ebbtide.model.check import Gate
from ebbtide.model.effect import Breach, Cordon, DeleteNode, Evict, Outcome, OutcomeKind, Terminate
from ebbtide.model.operation import NO_OBSTACLE, Removal, RemovalCause, RemovalState
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import InstanceState, Snapshot
from tests.builders import (
    NOW,
    asides,
    make_instance,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import (
    advance_removal,
    breaches,
    cordoned,
    fleet,
    make_situation,
    with_instance,
    with_pods,
    with_work,
    without_instance,
)

DRAINED = make_removal(state=RemovalState.DRAINED, since=NOW - 10)
TERMINATING = make_removal(state=RemovalState.TERMINATING)
TERMINATE = Terminate("i-a1", "a1", "uid-a1", "op")
WEB = make_pod("web", node_name="a1")
OPEN = with_work(make_scale_down(DRAINED), worker_count=4, pod_count=3)
HURRIED = replace(OPEN, spots=(make_spot("a1"),))


def test_a_drained_node_is_written_as_terminating_before_the_cloud_is_asked() -> None:
    after, effects = advance_removal(DRAINED, make_situation(fleet(cordoned()), record=OPEN))
    assert (after.state, effects) == (RemovalState.TERMINATING, (TERMINATE,))


def test_a_node_that_was_drained_only_just_now_may_still_get_a_pod_that_was_being_bound() -> None:
    fresh = replace(DRAINED, since=NOW - 9)
    situation = make_situation(fleet(cordoned()), record=OPEN)
    assert advance_removal(fresh, situation) == (fresh, ())


@pytest.mark.parametrize(
    ("record", "settings", "gate"),
    [
        (replace(OPEN, paused=True), make_settings(), Gate.NOT_PAUSED),
        (OPEN, make_settings(min_workers=4), Gate.MINIMUM_KEPT),
        (OPEN, make_settings(pools=(make_pool(min_workers=4),)), Gate.MINIMUM_KEPT),
        (
            replace(OPEN, **asides(make_scale_down(make_removal("a2"), id="other"))),
            make_settings(),
            Gate.NOT_PAUSED,
        ),
    ],
)
def test_gates_are_asked_again_when_terminating_is_entered(
    record: Record, settings: Settings, gate: Gate
) -> None:
    after, effects = advance_removal(
        DRAINED, make_situation(fleet(cordoned()), record=record, settings=settings)
    )
    assert (after.state, after.why, after.about) == (RemovalState.RELEASING, RemovalCause.CHECK, gate)
    assert effects == ()


def test_the_last_ready_worker_of_a_zone_is_released() -> None:
    after, effects = advance_removal(
        DRAINED, make_situation(fleet(cordoned(), "b1", "b2", "b3"), record=OPEN)
    )
    assert (after.state, effects) == (RemovalState.RELEASING, ())
    assert (after.why, after.about) == (RemovalCause.CHECK, Gate.ZONE_KEPT)


def test_what_may_pass_by_itself_is_waited_for() -> None:
    implausible = replace(OPEN, worker_count=40)
    after, effects = advance_removal(DRAINED, make_situation(fleet(cordoned()), record=implausible))
    assert (after.state, effects) == (RemovalState.DRAINED, ())
    assert (after.why, after.about) == (RemovalCause.CHECK, Gate.PLAUSIBLE)


def test_a_node_about_to_be_lost_is_not_released_by_a_gate() -> None:
    situation = make_situation(fleet(cordoned()), record=replace(HURRIED, paused=True))
    after, effects = advance_removal(DRAINED, situation)
    assert (after.state, after.about, effects) == (RemovalState.DRAINED, Gate.NOT_PAUSED, ())


def test_an_interruption_that_did_not_come_no_longer_holds_a_gate_off() -> None:
    situation = make_situation(fleet(cordoned()), record=replace(HURRIED, paused=True), now=NOW + 180)
    assert advance_removal(DRAINED, situation)[0].state is RemovalState.RELEASING


def test_an_interrupted_node_that_somebody_else_cordoned_is_emptied_but_not_terminated() -> None:
    seen = fleet(make_node("a1", unschedulable=True))
    assert advance_removal(DRAINED, make_situation(seen, record=HURRIED)) == (DRAINED, ())


def test_a_pod_that_binds_after_the_drain_check_takes_the_node_back_to_draining() -> None:
    after, effects = advance_removal(DRAINED, make_situation(with_pods(fleet(cordoned()), WEB), record=OPEN))
    assert (after.state, effects) == (RemovalState.DRAINING, ())


def test_a_cordon_that_was_lifted_takes_the_node_back_to_draining() -> None:
    after, effects = advance_removal(DRAINED, make_situation(fleet(make_node("a1")), record=OPEN))
    assert (after.state, effects) == (RemovalState.DRAINING, ())


def test_crash_between_terminate_and_record_terminates_again() -> None:
    assert advance_removal(TERMINATING, make_situation(fleet(cordoned()))) == (TERMINATING, (TERMINATE,))


def test_an_accepted_terminate_is_repeated_only_after_a_calls_timeout() -> None:
    situation = make_situation(fleet(cordoned()))
    asked = absorb_removal(TERMINATING, Outcome(TERMINATE, OutcomeKind.DONE), situation)
    assert asked.retry_at == NOW + 30
    assert advance_removal(asked, make_situation(fleet(cordoned()), now=NOW + 29)) == (asked, ())
    assert advance_removal(asked, make_situation(fleet(cordoned()), now=NOW + 30)) == (asked, (TERMINATE,))
    assert absorb_removal(TERMINATING, Outcome(TERMINATE, OutcomeKind.UNKNOWN), situation) == TERMINATING


def test_a_pod_that_came_after_the_intent_is_evicted_and_the_node_not_terminated_over_it() -> None:
    after, effects = advance_removal(TERMINATING, make_situation(with_pods(fleet(cordoned()), WEB)))
    assert after.state is RemovalState.TERMINATING
    assert effects == (Evict("default", "web", "uid-web", "a1", 30),)


def test_a_terminating_node_that_a_person_uncordoned_is_cordoned_again() -> None:
    _, effects = advance_removal(TERMINATING, make_situation(with_pods(fleet(make_node("a1")), WEB)))
    assert effects[0] == Cordon("a1", "uid-a1", "op")


def test_terminating_is_never_released() -> None:
    assert ALLOWED[RemovalState.TERMINATING] == {RemovalState.GONE, RemovalState.SET_ASIDE}
    assert ALLOWED[RemovalState.SET_ASIDE] == set()
    situation = make_situation(fleet(cordoned()), record=make_record(paused=True), now=NOW + 899)
    assert release(TERMINATING, situation, NO_OBSTACLE) == TERMINATING
    assert advance_removal(TERMINATING, situation)[0].state is RemovalState.TERMINATING


def test_what_does_not_go_is_set_aside_and_is_then_left_alone() -> None:
    late = make_situation(fleet(cordoned()), now=NOW + 900)
    aside, effects = advance_removal(TERMINATING, late)
    assert (aside.state, aside.why, effects) == (RemovalState.SET_ASIDE, RemovalCause.NOT_GONE, ())
    assert advance_removal(aside, late) == (aside, ())
    assert release(aside, late, NO_OBSTACLE) == aside


def refuse(removal: Removal, now: int) -> Removal:
    refused = Outcome(Terminate("i-a1", "a1", "uid-a1", "op"), OutcomeKind.REFUSED, "it is protected")
    return absorb_removal(removal, refused, make_situation(fleet(cordoned()), now=now))


def test_a_refusal_to_terminate_is_remembered_and_set_aside_when_it_lasts() -> None:
    first = refuse(TERMINATING, NOW + 10)
    assert (first.refused_since, first.state) == (NOW + 10, RemovalState.TERMINATING)
    assert first.why is RemovalCause.CLOUD_REFUSES
    assert first.reason.endswith("it is protected"), "with what the cloud said"
    again = refuse(first, NOW + 909)
    assert again == first
    aside = refuse(first, NOW + 910)
    assert (aside.state, aside.obstacle) == (RemovalState.SET_ASIDE, first.obstacle)
    accepted = Outcome(Terminate("i-a1", "a1", "uid-a1", "op"), OutcomeKind.DONE)
    after = absorb_removal(first, accepted, make_situation(fleet(cordoned()), now=NOW + 60))
    assert (after.refused_since, after.obstacle) == (0, NO_OBSTACLE)


def test_the_refusal_of_what_is_over_changes_nothing() -> None:
    gone = make_removal(state=RemovalState.GONE)
    assert refuse(gone, NOW) == gone


def test_a_terminating_instance_whose_node_is_gone_is_still_terminated() -> None:
    seen = replace(fleet(make_node("a1")), cluster=make_snapshot(make_nodes("a2", "b1")).cluster)
    _, effects = advance_removal(TERMINATING, make_situation(seen))
    assert effects == (Terminate("i-a1", "", "", "op"),)


def test_nothing_more_is_asked_of_an_instance_that_is_going() -> None:
    going = with_instance(fleet(cordoned()), "i-a1", state=InstanceState.TERMINATING)
    for removal in (TERMINATING, DRAINED, make_removal()):
        assert advance_removal(removal, make_situation(going)) == (removal, ())


def gone(seen: Snapshot) -> Snapshot:
    return with_instance(seen, "i-a1", state=InstanceState.GONE)


@pytest.mark.parametrize("state", [state for state in RemovalState if ALLOWED[state]])
def test_from_every_open_state_an_instance_that_is_gone_ends_it_once_its_node_object_is_deleted(
    state: RemovalState,
) -> None:
    removal = make_removal(state=state)
    with_node = gone(fleet(cordoned(ready=False)))
    assert advance_removal(removal, make_situation(with_node)) == (removal, (DeleteNode("a1", "uid-a1"),))
    without = replace(with_node, cluster=make_snapshot(make_nodes("a2", "b1")).cluster)
    after, effects = advance_removal(removal, make_situation(without))
    assert (after.state, effects) == (RemovalState.GONE, ())


@pytest.mark.parametrize("state", [RemovalState.GONE, RemovalState.RELEASED])
def test_a_settled_removal_stays_as_it_is(state: RemovalState) -> None:
    removal = make_removal(state=state)
    situation = make_situation(gone(fleet(cordoned())))
    assert advance_removal(removal, situation) == (removal, ())
    assert release(removal, situation, NO_OBSTACLE) == removal


def test_no_removal_moves_on_an_observation_with_a_problem() -> None:
    seen = replace(fleet(make_node("a1")), problems=("the cloud could not be read",))
    assert advance_removal(make_removal(), make_situation(seen)) == (make_removal(), ())


def test_a_missing_instance_is_believed_gone_only_after_the_grace() -> None:
    missing = without_instance(fleet(cordoned(ready=False)), "i-a1")
    noticed, effects = advance_removal(TERMINATING, make_situation(missing))
    assert (noticed.missing_since, effects) == (NOW, ())
    assert advance_removal(noticed, make_situation(missing, now=NOW + 59)) == (noticed, ())
    _, effects = advance_removal(noticed, make_situation(missing, now=NOW + 60))
    assert effects == (DeleteNode("a1", "uid-a1"),)


def test_a_missing_instance_is_never_believed_gone_while_its_node_is_ready() -> None:
    missing = without_instance(fleet(cordoned()), "i-a1")
    removal = replace(TERMINATING, missing_since=NOW)
    assert advance_removal(removal, make_situation(missing, now=NOW + 899)) == (removal, ())


def test_an_instance_that_is_listed_again_was_never_missing() -> None:
    after, _ = advance_removal(
        replace(TERMINATING, missing_since=NOW), make_situation(fleet(cordoned()), now=NOW + 60)
    )
    assert after.missing_since == 0


def test_node_name_of_a_reused_ip_is_not_taken_for_the_node_of_the_removal() -> None:
    successor = make_node("a1", uid="uid-of-its-successor", provider_id="sim://i-again")
    instances = [make_instance("i-again"), make_instance("i-a1", state=InstanceState.GONE)]
    seen = make_snapshot([successor, *make_nodes("a2", "b1")], instances=instances)
    after, effects = advance_removal(TERMINATING, make_situation(seen))
    assert (after.state, effects) == (RemovalState.GONE, ())


def test_a_node_that_was_marked_as_system_meanwhile_is_left_alone() -> None:
    seen = fleet(make_node("a1", system=True))
    after, effects = advance_removal(make_removal(), make_situation(seen))
    assert (after.state, effects) == (RemovalState.RELEASED, ())


def test_invariants_name_what_a_removal_must_never_do() -> None:
    released = replace(TERMINATING, state=RemovalState.RELEASING)
    assert breaches(check_invariants(TERMINATING, released)) == [(Breach.STATE, "i-a1")]
    assert breaches(check_invariants(DRAINED, replace(DRAINED, instance_id="i-b1"))) == [
        (Breach.IDENTITY, "i-a1")
    ]
    assert breaches(check_invariants(DRAINED, replace(DRAINED, node_uid="x"))) == [(Breach.IDENTITY, "i-a1")]
    assert breaches(check_invariants(make_removal(node_uid=""), make_removal())) == []
