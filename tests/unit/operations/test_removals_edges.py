"""The edges of a removal: whose node, whose answer, and what is written at its end."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import removals, scale_down, spot
from ebbtide.core.operations.removals import absorb_removal
from ebbtide.core.operations.situation import Closed, backoff_until, rest_nodes
from ebbtide.model.effect import Breach, Evict, Outcome, OutcomeKind, SoftTaint, Uncordon
from ebbtide.model.operation import (
    AbortCause,
    Removal,
    RemovalCause,
    RemovalState,
    SlotCause,
    SlotState,
    SpotEnd,
)
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import DrainBackoff
from ebbtide.model.snapshot import InstanceState
from tests.builders import (
    NOW,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import (
    TOKEN,
    advance_removal,
    breaches,
    cordoned,
    fleet,
    make_situation,
    with_instance,
    with_work,
    without_instance,
)

PLANNED = make_removal("a1")
DRAINING = make_removal("a1", state=RemovalState.DRAINING, attempts=1, drain_deadline=NOW + 300)
DRAINED = make_removal("a1", state=RemovalState.DRAINED, attempts=1, since=NOW - 600)
RELEASING = make_removal("a1", state=RemovalState.RELEASING, fence_token=TOKEN - 1, fence_until=NOW + 50)
NOTICED = make_record(spots=(make_spot("a1"),))


def test_an_absence_that_nobody_has_noted_proves_nothing() -> None:
    unlisted = make_situation(without_instance(fleet(cordoned("a1", ready=False)), "i-a1"))
    assert not removals.is_gone(DRAINING, None, unlisted)
    noted = replace(DRAINING, missing_since=NOW - make_settings().gone_grace_seconds)
    assert removals.is_gone(noted, None, unlisted)


def test_what_is_gone_is_gone_from_now_on() -> None:
    gone = make_snapshot(make_nodes("a2", "b1"), instances=())
    since = NOW - make_settings().gone_grace_seconds
    terminating = replace(DRAINED, state=RemovalState.TERMINATING, missing_since=since)
    after, _ = advance_removal(terminating, make_situation(gone))
    assert (after.state, after.since) == (RemovalState.GONE, NOW)


def test_the_intent_to_terminate_is_written_as_irrevocable() -> None:
    after, _ = advance_removal(DRAINED, make_situation(fleet(cordoned("a1"))))
    assert (after.state, after.terminated) == (RemovalState.TERMINATING, True)


def test_a_volume_of_a_node_that_reports_again_is_waited_for() -> None:
    """Only a silent kubelet detaches nothing; one that is Ready does."""
    draining = replace(DRAINING, unhealthy=True)
    for ready, state in ((True, RemovalState.DRAINING), (False, RemovalState.DRAINED)):
        node = cordoned("a1", ready=ready, volumes_attached=("vol-1",))
        after, _ = advance_removal(draining, make_situation(fleet(node)))
        assert after.state is state


def test_a_node_that_the_cloud_takes_is_passed_on_at_once_to_the_answer_to_its_notice() -> None:
    """A runner that stalled may still evict: that is what the cloud is about to do anyway."""
    situation = make_situation(fleet(cordoned("a1")), record=NOTICED)
    _, effects = advance_removal(RELEASING, situation)
    assert effects == (Uncordon("a1", "uid-a1", "op", TOKEN),)
    answer = make_spot("a1").id
    own = make_situation(fleet(cordoned("a1", answer)), record=NOTICED)
    assert advance_removal(RELEASING, own, answer) == (RELEASING, ())
    without_notice = make_situation(fleet(cordoned("a1")))
    assert advance_removal(RELEASING, without_notice) == (RELEASING, ())


@pytest.mark.parametrize(
    ("removal", "effect"),
    [
        (PLANNED, SoftTaint("a1", "another", "op")),
        (RELEASING, Uncordon("a1", "another", "op", TOKEN)),
    ],
)
def test_a_refusal_about_another_node_of_that_name_changes_nothing(
    removal: Removal, effect: SoftTaint | Uncordon
) -> None:
    situation = make_situation(fleet(cordoned("a1")))
    refused = Outcome(effect, OutcomeKind.REFUSED, "no")
    assert absorb_removal(removal, refused, situation) == removal
    own = Outcome(replace(effect, node_uid="uid-a1"), OutcomeKind.REFUSED, "no")
    assert absorb_removal(removal, own, situation) != removal


def test_a_cordon_that_was_lifted_is_seen_and_not_believed() -> None:
    lifted = Outcome(Uncordon("a1", "uid-a1", "op", TOKEN), OutcomeKind.DONE)
    assert absorb_removal(RELEASING, lifted, make_situation(fleet(cordoned("a1")))) == RELEASING


def test_an_eviction_that_is_refused_is_remembered_as_that() -> None:
    refused = Outcome(Evict("default", "web", "uid-web", "a1", 30), OutcomeKind.REFUSED, "several budgets")
    after = absorb_removal(DRAINING, refused, make_situation(fleet(cordoned("a1"))))
    assert (after.state, after.why, after.reason) == (
        RemovalState.PLANNED,
        RemovalCause.REFUSED,
        "several budgets",
    )


def test_a_launch_that_was_not_asked_for_yet_is_dropped_with_the_reason_of_the_abort() -> None:
    operation = make_scale_down(PLANNED, replacements=(make_slot(),))
    paused = replace(with_work(operation), paused=True)
    after = scale_down.advance(operation, make_situation(fleet(cordoned("a1")), record=paused)).state
    (slot,) = after.slots
    assert (slot.state, slot.why, slot.reason) == (SlotState.FAILED, SlotCause.ABORTED, after.abort_reason)
    assert after.abort_cause is AbortCause.PAUSED


def test_a_pod_that_is_pending_excuses_a_removal_of_what_was_empty() -> None:
    operation = make_scale_down(DRAINING, only_empty=True)
    waiting = make_pod("other", phase=PodPhase.PENDING, ready=False)
    snapshot = make_snapshot((cordoned("a1"), *make_nodes("a2", "b1", "b2")), [waiting])
    after = scale_down.advance(operation, make_situation(snapshot, record=with_work(operation))).state
    assert (after.abort_cause, after.excused) == (AbortCause.PODS_WAITING, True)


def test_a_pause_does_not_give_way_to_a_launch() -> None:
    operation = make_scale_down(DRAINING)
    paused = replace(with_work(operation), paused=True)
    assert not scale_down.gives_way(operation, make_situation(fleet(cordoned("a1")), record=paused))


def test_a_node_that_was_given_up_is_named_also_where_only_its_instance_is_known() -> None:
    released = replace(PLANNED, node_name="", state=RemovalState.RELEASED)
    operation = make_scale_down(released)
    after = scale_down.advance(operation, make_situation(fleet(cordoned("a1")), record=with_work(operation)))
    assert after.state.abort_cause is AbortCause.NODE_KEPT
    assert "i-a1" in after.state.abort_reason


def test_what_an_operation_replaces_is_its_identity() -> None:
    before = make_scale_down(PLANNED, replacements=(make_slot(),))
    after = replace(before, replacements=())
    assert breaches(scale_down.check_invariants(before, after)) == [(Breach.IDENTITY, "op")]


def closed(*parts: Removal, **more: object) -> Closed:
    operation = make_scale_down(*parts, **more)
    failed = {"removal_failures": 3, "removal_backoff_until": NOW + 900}
    return scale_down.close(with_work(operation, **failed), operation, make_settings(), NOW)


def test_a_node_that_went_after_all_is_not_left_alone() -> None:
    gone = replace(DRAINED, state=RemovalState.GONE, blamed=True)
    assert closed(gone).record.rests == ()
    kept = replace(DRAINED, state=RemovalState.RELEASED, blamed=True, reason="it would not go")
    until = NOW + make_settings().node_rest_seconds
    assert closed(kept).record.rests == (DrainBackoff("i-a1", until, "it would not go"),)


def test_a_node_that_went_ends_the_wait_after_failures() -> None:
    record = closed(replace(DRAINED, state=RemovalState.GONE)).record
    assert (record.last_scale_at, record.removal_failures, record.removal_backoff_until) == (NOW, 0, 0)


def test_replacements_that_did_not_go_rest_or_are_handed_over() -> None:
    stuck = make_slot("op-0", state=SlotState.FAILED, instance_id="i-a8", reason="it does not go")
    refused = replace(stuck, key="op-1", instance_id="i-a9", terminated=True)
    record = closed(replace(DRAINED, state=RemovalState.RELEASED), replacements=(stuck, refused)).record
    assert [rest.instance_id for rest in record.rests] == ["i-a8"]
    assert [one.removal.instance_id for one in record.refused] == ["i-a9"]


def test_each_node_that_would_not_go_counts_whatever_stands_before_it() -> None:
    untouched = make_removal("a1", state=RemovalState.RELEASED)
    tried = make_removal("a2", state=RemovalState.RELEASED, attempts=3)
    record = rest_nodes(make_record(), [untouched, tried], make_settings(), NOW)
    assert [rest.instance_id for rest in record.rests] == ["i-a1", "i-a2"]
    assert [one.instance_id for one in record.drain_failures] == ["i-a2"]


def test_the_wait_after_failures_doubles_up_to_the_longest_that_a_setting_allows() -> None:
    a_year = 365 * 86_400
    settings = make_settings(backoff_seconds=1, backoff_max_seconds=a_year)
    waits = [backoff_until(failures, settings, NOW) - NOW for failures in (1, 2, 3, 25, 26, 1000)]
    assert waits == [1, 2, 4, 2**24, a_year, a_year]


def test_an_instance_that_is_going_is_not_given_back_when_its_notice_lapses() -> None:
    noticed = make_spot("a1", removal=DRAINING, noticed_at=NOW - 900, deadline=NOW - 780, replace=False)
    going = with_instance(fleet(cordoned("a1", noticed.id)), "i-a1", state=InstanceState.TERMINATING)
    after = spot.advance(noticed, make_situation(going, record=with_work(noticed))).state
    assert after.removal is not None
    assert after.removal.state is not RemovalState.RELEASING


def test_a_drain_that_nobody_followed_begins_its_time_again_and_loses_none() -> None:
    settings = make_settings(drain_timeout_seconds=300)
    late = replace(DRAINING, drain_deadline=NOW - 50)
    assert removals.with_time_again(late, settings, NOW).drain_deadline == NOW + 300
    longer = replace(DRAINING, drain_deadline=NOW + 900)
    assert removals.with_time_again(longer, settings, NOW) == longer
    for other in (PLANNED, DRAINED, RELEASING):
        assert removals.with_time_again(other, settings, NOW) == other


def test_a_node_that_an_answer_gave_back_is_not_taken_again_by_the_same_answer() -> None:
    given_back = replace(DRAINING, state=RemovalState.RELEASED)
    noticed = make_spot("a1", removal=given_back, replace=False)
    situation = make_situation(fleet(make_node("a1")), record=with_work(noticed))
    after = spot.advance(noticed, situation).state
    assert (after.removal, after.closing) == (given_back, SpotEnd.NODE_STAYS)
