"""A removal from PLANNED to DRAINED: cordon, evict, look again, and a bounded number of attempts."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.operations.removals import absorb_removal
from ebbtide.model.effect import Cordon, Effect, Evict, Outcome, OutcomeKind, SoftTaint
from ebbtide.model.operation import Removal, RemovalCause, RemovalState
from ebbtide.model.snapshot import Node, Ownership
from tests.builders import (
    NOW,
    make_budget,
    make_daemon,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import TOKEN, advance_removal, cordoned, fleet, make_situation, with_pods

TAINT, CORDON = SoftTaint("a1", "uid-a1", "op"), Cordon("a1", "uid-a1", "op")
DRAINING = make_removal(
    state=RemovalState.DRAINING, attempts=1, drain_deadline=NOW + 300, fence_token=TOKEN, fence_until=NOW + 60
)
WEB = make_pod("web", node_name="a1")
EVICT_WEB = Evict("default", "web", "uid-web", "a1", 30)
HURRIED = make_record(spots=(make_spot("a1"),))


def tainted(operation_id: str = "op", **overrides: Any) -> Node:
    return make_node("a1", owner=Ownership(operation_id, TOKEN, cordoned=False), **overrides)


def test_a_planned_removal_first_taints_its_node_softly_and_fences_that() -> None:
    after, effects = advance_removal(make_removal(since=NOW - 60), make_situation(fleet(make_node("a1"))))
    assert (after.state, after.attempts, after.since) == (RemovalState.PLANNED, 0, NOW - 60)
    assert (after.fence_token, after.fence_until) == (TOKEN, NOW + 60)
    assert effects == (TAINT,)


def test_the_mark_of_another_operation_is_not_taken_for_ours() -> None:
    after, effects = advance_removal(make_removal(), make_situation(fleet(tainted("another"))))
    assert (after.state, effects) == (RemovalState.PLANNED, (TAINT,))


def test_a_refused_taint_gives_the_removal_up_unless_the_node_is_lost_anyway() -> None:
    refused = Outcome(TAINT, OutcomeKind.REFUSED, "cordoned by a person")
    after = absorb_removal(make_removal(), refused, make_situation())
    assert (after.state, after.why, after.blamed) == (RemovalState.RELEASING, RemovalCause.REFUSED, True)
    assert absorb_removal(make_removal(), refused, make_situation(record=HURRIED)) == make_removal()
    assert absorb_removal(DRAINING, refused, make_situation()) == DRAINING
    for kind in (OutcomeKind.DONE, OutcomeKind.UNKNOWN, OutcomeKind.LATER):
        assert absorb_removal(make_removal(), Outcome(TAINT, kind), make_situation()) == make_removal()


def test_a_persons_cordon_of_a_tainted_node_is_not_ours_to_drain_under() -> None:
    after, effects = advance_removal(DRAINING, make_situation(fleet(tainted(unschedulable=True))))
    assert (after.state, effects) == (RemovalState.DRAINING, (CORDON,))


def test_a_planned_removal_is_written_as_draining_before_its_node_is_cordoned() -> None:
    after, effects = advance_removal(make_removal(since=NOW - 60), make_situation(fleet(tainted())))
    assert (after.state, after.attempts, after.since) == (RemovalState.DRAINING, 1, NOW)
    assert after.drain_deadline == NOW + 300
    assert (after.fence_token, after.fence_until) == (TOKEN, NOW + 60)
    assert effects == (CORDON,)


def test_a_plan_that_names_only_the_instance_learns_its_node() -> None:
    after, effects = advance_removal(Removal("i-a1"), make_situation(fleet(make_node("a1"))))
    assert (after.node_name, after.node_uid, after.zone, after.pool) == ("a1", "uid-a1", "a", "workers")
    assert effects == (TAINT,)


def test_a_planned_removal_whose_node_is_not_in_the_cluster_is_released_at_once() -> None:
    seen = replace(fleet(make_node("a1")), cluster=make_snapshot(make_nodes("a2", "b1")).cluster)
    after, effects = advance_removal(make_removal(), make_situation(seen))
    assert (after.state, after.why, effects) == (RemovalState.RELEASED, RemovalCause.NO_NODE, ())


def test_between_two_attempts_nothing_is_done_until_the_retry_is_due() -> None:
    waiting = make_removal(attempts=1, retry_at=NOW + 30)
    situation = make_situation(fleet(cordoned()), now=NOW + 29)
    assert advance_removal(waiting, situation) == (waiting, ())
    after, _ = advance_removal(waiting, make_situation(fleet(cordoned()), now=NOW + 30))
    assert (after.state, after.attempts) == (RemovalState.DRAINING, 2)


def test_an_interruption_does_not_wait_for_a_soft_taint() -> None:
    after, effects = advance_removal(make_removal(), make_situation(fleet(make_node("a1")), record=HURRIED))
    assert (after.state, effects) == (RemovalState.DRAINING, (CORDON,))


def test_an_interruption_does_not_wait_for_the_next_attempt() -> None:
    waiting = make_removal(attempts=1, retry_at=NOW + 30)
    after, effects = advance_removal(waiting, make_situation(fleet(cordoned()), record=HURRIED))
    assert (after.state, effects) == (RemovalState.DRAINING, (CORDON,))
    assert after.drain_deadline == NOW + 110


def test_crash_before_the_cordon_is_answered_by_cordoning_again() -> None:
    situation = make_situation(fleet(make_node("a1")), token=9, now=NOW + 10)
    after, effects = advance_removal(DRAINING, situation)
    assert effects == (CORDON,)
    assert (after.state, after.fence_token, after.fence_until) == (RemovalState.DRAINING, 9, NOW + 70)


@pytest.mark.parametrize(
    "node",
    [
        make_node("a1", unschedulable=True),
        cordoned(operation_id="another"),
        make_node("a1", owner=Ownership("op", TOKEN)),
    ],
    ids=["a person's cordon", "another operation's cordon", "signed but schedulable"],
)
def test_no_pod_is_evicted_before_our_own_cordon_is_seen(node: object) -> None:
    assert isinstance(node, type(make_node()))
    _, effects = advance_removal(DRAINING, make_situation(with_pods(fleet(node), WEB)))
    assert effects == (CORDON,)


def test_pods_are_evicted_by_uid_and_the_fence_is_moved() -> None:
    seen = with_pods(fleet(cordoned()), WEB, make_daemon("a1"))
    after, effects = advance_removal(DRAINING, make_situation(seen, token=9, now=NOW + 10))
    assert effects == (EVICT_WEB,)
    assert (after.fence_token, after.fence_until) == (9, NOW + 70)
    assert (after.why, after.about) == (RemovalCause.POD_LEAVES, "default/web")


def test_what_a_disruption_budget_does_not_allow_is_waited_for() -> None:
    covered = [make_pod(f"db-{n}", node_name="a1", labels=(("app", "db"),)) for n in (1, 2)]
    seen = make_snapshot([cordoned(), *make_nodes("a2", "b1")], covered, budgets=[make_budget(1, app="db")])
    after, effects = advance_removal(DRAINING, make_situation(seen))
    assert [effect.name for effect in effects if isinstance(effect, Evict)] == ["db-1"]
    assert after.state is RemovalState.DRAINING
    assert (after.why, after.about) == (RemovalCause.POD_WAITS, "default/db-2")


def test_pods_still_terminating_are_not_drained_yet() -> None:
    seen = with_pods(fleet(cordoned()), replace(WEB, terminating=True))
    after, effects = advance_removal(DRAINING, make_situation(seen))
    assert (after.state, effects) == (RemovalState.DRAINING, ())
    assert (after.why, after.about) == (RemovalCause.POD_WAITS, "default/web")


def test_volumes_still_attached_are_not_drained_yet() -> None:
    after, effects = advance_removal(DRAINING, make_situation(fleet(cordoned(volumes_attached=("pvc-1",)))))
    assert (after.state, effects) == (RemovalState.DRAINING, ())
    assert (after.why, after.about) == (RemovalCause.VOLUME, "pvc-1")


def test_a_node_with_nothing_left_but_daemons_is_drained() -> None:
    after, effects = advance_removal(
        DRAINING, make_situation(with_pods(fleet(cordoned()), make_daemon("a1")))
    )
    assert (after.state, after.reason, effects) == (RemovalState.DRAINED, "", ())


@pytest.mark.parametrize(
    ("pods", "now", "cause"),
    [
        ((replace(WEB, controller=""),), NOW + 1, RemovalCause.POD_BLOCKS),
        ((replace(WEB, terminating=True),), NOW + 300, RemovalCause.TOO_LONG),
    ],
)
def test_an_attempt_that_fails_is_repeated_later(
    pods: tuple[object, ...], now: int, cause: RemovalCause
) -> None:
    after, effects = advance_removal(DRAINING, make_situation(with_pods(fleet(cordoned()), *pods), now=now))
    assert (after.state, after.retry_at) == (RemovalState.PLANNED, now + 30)
    assert (after.why, after.about) == (cause, "default/web")
    assert (after.blamed, effects) == (False, ())


def test_a_node_that_cannot_be_cordoned_in_time_fails_the_attempt() -> None:
    after, effects = advance_removal(DRAINING, make_situation(fleet(make_node("a1")), now=NOW + 300))
    assert (after.state, after.why, effects) == (RemovalState.PLANNED, RemovalCause.NOT_CORDONED, ())


def test_after_three_attempts_the_node_is_released_and_blamed() -> None:
    seen = with_pods(fleet(cordoned()), replace(WEB, controller=""))
    removal, attempts, now = make_removal(), 0, NOW
    while removal.state is not RemovalState.RELEASING:
        now = max(now, removal.retry_at)
        before, (removal, _) = removal, advance_removal(removal, make_situation(seen, now=now))
        attempts += before.state is RemovalState.PLANNED
    assert (attempts, removal.attempts, removal.blamed) == (3, 3, True)
    assert now - NOW < 900


def test_a_node_that_left_the_cluster_while_draining_is_given_up() -> None:
    for state in (RemovalState.DRAINING, RemovalState.DRAINED):
        seen = replace(fleet(make_node("a1")), cluster=make_snapshot(make_nodes("a2", "b1")).cluster)
        after, effects = advance_removal(replace(DRAINING, state=state), make_situation(seen))
        assert (after.state, after.why, effects) == (RemovalState.RELEASING, RemovalCause.NO_NODE, ())


def test_an_interrupted_node_that_is_not_listed_is_waited_for_by_who_answers_the_notice() -> None:
    gone = replace(fleet(make_node("a1")), cluster=make_snapshot(make_nodes("a2", "b1")).cluster)
    situation = make_situation(gone, record=HURRIED)
    for state in (RemovalState.PLANNED, RemovalState.DRAINING, RemovalState.DRAINED):
        removal = make_removal(state=state)
        assert advance_removal(removal, situation, "spot:i-a1") == (removal, ())
        ours, _ = advance_removal(removal, situation)
        assert ours.state in (RemovalState.RELEASED, RemovalState.RELEASING)


def test_an_interrupted_node_that_is_uncordoned_again_and_again_is_not_given_up() -> None:
    late = replace(DRAINING, drain_deadline=NOW, attempts=3)
    situation = make_situation(fleet(make_node("a1")), record=HURRIED)
    after, effects = advance_removal(late, situation, "spot:i-a1")
    assert (after.state, effects) == (RemovalState.DRAINING, (Cordon("a1", "uid-a1", "spot:i-a1"),))
    assert advance_removal(late, situation)[0].state is RemovalState.RELEASING


def test_an_interrupted_node_is_emptied_even_if_a_person_cordoned_it() -> None:
    seen = with_pods(fleet(make_node("a1", unschedulable=True)), WEB)
    after, effects = advance_removal(DRAINING, make_situation(seen, record=HURRIED))
    assert (after.state, effects) == (RemovalState.DRAINING, (EVICT_WEB,))


def test_an_interrupted_node_is_evicted_from_past_its_deadline_and_past_what_blocks() -> None:
    seen = with_pods(fleet(cordoned()), WEB, make_pod("bare", controller="", node_name="a1"))
    late = replace(DRAINING, drain_deadline=NOW, attempts=3)
    after, effects = advance_removal(late, make_situation(seen, record=HURRIED, now=NOW + 20))
    assert (after.state, effects) == (RemovalState.DRAINING, (EVICT_WEB,))


def test_a_drain_under_an_interruption_ends_no_later_than_the_cloud_does() -> None:
    record = make_record(spots=(make_spot("a1", noticed_at=NOW - 30, deadline=NOW + 40),))
    after, _ = advance_removal(make_removal(), make_situation(fleet(make_node("a1")), record=record))
    assert after.drain_deadline == NOW + 40


def refused(effect: Effect) -> Outcome:
    return Outcome(effect, OutcomeKind.REFUSED, "a person cordoned it")


def test_a_refused_cordon_releases_the_node_and_blames_it() -> None:
    after = absorb_removal(DRAINING, refused(CORDON), make_situation(fleet(make_node("a1"))))
    assert (after.state, after.why, after.blamed) == (RemovalState.RELEASING, RemovalCause.REFUSED, True)


def test_a_refused_cordon_does_not_keep_an_interrupted_node_from_being_emptied() -> None:
    situation = make_situation(fleet(make_node("a1", unschedulable=True)), record=HURRIED)
    assert absorb_removal(DRAINING, refused(CORDON), situation) == DRAINING


def test_a_refused_eviction_fails_the_attempt_but_never_that_of_an_interrupted_node() -> None:
    situation = make_situation(with_pods(fleet(cordoned()), WEB))
    assert absorb_removal(DRAINING, refused(EVICT_WEB), situation).state is RemovalState.PLANNED
    hurried = replace(situation, record=HURRIED)
    assert absorb_removal(DRAINING, refused(EVICT_WEB), hurried) == DRAINING


def test_outcomes_that_are_about_another_node_or_say_nothing_new_are_not_taken() -> None:
    situation = make_situation(fleet(cordoned()))
    for outcome in (
        refused(Cordon("a1", "uid-of-its-successor", "op")),
        refused(replace(EVICT_WEB, node_name="b1")),
        Outcome(CORDON, OutcomeKind.DONE),
        Outcome(EVICT_WEB, OutcomeKind.UNKNOWN),
    ):
        assert absorb_removal(DRAINING, outcome, situation) == DRAINING
    planned = replace(DRAINING, state=RemovalState.PLANNED)
    assert absorb_removal(planned, refused(CORDON), situation) == planned
    assert absorb_removal(planned, refused(EVICT_WEB), situation) == planned


def test_row_36_what_the_api_server_said_about_a_put_off_eviction_is_kept_as_the_obstacle() -> None:
    """The list read before still shows a disruption left; the server, asked at that moment, says no."""
    seen = with_pods(fleet(cordoned()), WEB)
    situation = make_situation(seen)
    said = "the budget web allows no disruption now"
    put_off = absorb_removal(DRAINING, Outcome(EVICT_WEB, OutcomeKind.LATER, said), situation)
    assert (put_off.why, put_off.about) == (RemovalCause.PUT_OFF, "default/web")
    again, effects = advance_removal(put_off, situation)
    assert (again.obstacle, len(effects)) == (put_off.obstacle, 1)
    failed, _ = advance_removal(put_off, make_situation(seen, now=DRAINING.drain_deadline))
    assert (failed.why, failed.about) == (RemovalCause.TOO_LONG, "default/web")
    assert failed.reason.endswith(said), "a person can act on what the server said"


PLAYED = make_pod(
    "server",
    memory_mib=4096,
    node_name="a1",
    annotations=(("ebbtide.dev/plan", "payperplay"), ("ebbtide.dev/tier", "small")),
)


@pytest.mark.parametrize(
    ("players", "interrupted", "evicted"), [(3, False, 0), (0, False, 1), (3, True, 1), (0, True, 1)]
)
def test_a_server_on_which_somebody_plays_is_evicted_only_where_the_cloud_takes_its_node(
    players: int, interrupted: bool, evicted: int
) -> None:
    snapshot = with_pods(fleet(cordoned()), PLAYED)
    snapshot = replace(snapshot, players=((PLAYED.full_name, players),))
    record = HURRIED if interrupted else make_record()
    _, effects = advance_removal(DRAINING, make_situation(snapshot, record=record))
    assert [type(effect) for effect in effects] == [Evict] * evicted
