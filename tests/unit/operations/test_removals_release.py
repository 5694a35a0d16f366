"""Giving a removal up: only our own cordon is lifted, and only once no stalled runner can still evict."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.operations.removals import absorb_removal, release
from ebbtide.model.effect import Outcome, OutcomeKind, Uncordon
from ebbtide.model.operation import NO_OBSTACLE, Obstacle, RemovalCause, RemovalState
from ebbtide.model.snapshot import Ownership
from tests.builders import NOW, make_node, make_nodes, make_removal, make_snapshot
from tests.unit.operations.builders import (
    TOKEN,
    advance_removal,
    cordoned,
    fleet,
    make_situation,
    without_instance,
)

RELEASING = make_removal(
    state=RemovalState.RELEASING, fence_token=TOKEN, fence_until=NOW + 60, reason="paused"
)
UNCORDON = Uncordon("a1", "uid-a1", "op", TOKEN)


def test_giving_up_keeps_the_reason_and_whether_the_node_is_to_blame() -> None:
    after = release(
        make_removal(state=RemovalState.DRAINING),
        make_situation(),
        Obstacle(RemovalCause.ABORTED, "stuck"),
        blamed=True,
    )
    assert (after.state, after.blamed, after.since) == (RemovalState.RELEASING, True, NOW)
    assert after.obstacle == Obstacle(RemovalCause.ABORTED, "stuck")
    assert release(after, make_situation(), NO_OBSTACLE) == after


def test_the_runner_that_sent_the_last_effects_uncordons_at_once() -> None:
    assert advance_removal(RELEASING, make_situation(fleet(cordoned()))) == (RELEASING, (UNCORDON,))


def test_uncordon_on_abort_waits_out_a_stalled_run_that_may_still_evict() -> None:
    seen = fleet(cordoned())
    assert advance_removal(RELEASING, make_situation(seen, token=9, now=NOW + 89)) == (RELEASING, ())
    assert advance_removal(RELEASING, make_situation(seen, token=9, now=NOW + 90)) == (RELEASING, (UNCORDON,))


def test_a_removal_is_released_only_once_our_cordon_is_seen_lifted() -> None:
    after, effects = advance_removal(RELEASING, make_situation(fleet(make_node("a1"))))
    assert (after.state, after.obstacle, effects) == (RemovalState.RELEASED, RELEASING.obstacle, ())


def test_a_signature_without_a_cordon_is_cleaned_up_too() -> None:
    signed = make_node("a1", owner=Ownership("op", TOKEN))
    assert advance_removal(RELEASING, make_situation(fleet(signed)))[1] == (UNCORDON,)


def test_crash_between_taint_and_cordon_is_cleaned_up_too() -> None:
    tainted = make_node("a1", owner=Ownership("op", TOKEN, cordoned=False))
    planned = make_removal(fence_token=TOKEN, fence_until=NOW + 60)
    given_up = release(planned, make_situation(), Obstacle(RemovalCause.ABORTED, "paused"))
    assert advance_removal(given_up, make_situation(fleet(tainted)))[1] == (UNCORDON,)
    assert advance_removal(given_up, make_situation(fleet(tainted), token=9, now=NOW + 89))[1] == ()


def test_crash_after_cordon_never_lifts_the_cordon_of_a_person_or_of_another_operation() -> None:
    for node in (make_node("a1", unschedulable=True), cordoned(operation_id="another")):
        after, effects = advance_removal(RELEASING, make_situation(fleet(node)))
        assert (after.state, effects) == (RemovalState.RELEASED, ())


def test_a_node_that_left_the_cluster_has_nothing_to_lift() -> None:
    seen = replace(fleet(make_node("a1")), cluster=make_snapshot(make_nodes("a2", "b1")).cluster)
    after, effects = advance_removal(RELEASING, make_situation(seen))
    assert (after.state, effects) == (RemovalState.RELEASED, ())


def test_a_node_that_is_given_up_is_not_deleted_because_its_instance_is_not_listed() -> None:
    missing = without_instance(fleet(cordoned(ready=False)), "i-a1")
    removal = replace(RELEASING, missing_since=NOW)
    assert advance_removal(removal, make_situation(missing, now=NOW + 600)) == (removal, (UNCORDON,))


def test_a_cordon_signed_under_another_lease_is_lifted_under_the_token_it_was_signed_with() -> None:
    signed = cordoned(token=40)
    _, effects = advance_removal(RELEASING, make_situation(fleet(signed)))
    assert effects == (Uncordon("a1", "uid-a1", "op", 40),)


def test_an_uncordon_that_is_refused_leaves_the_node_to_its_owner() -> None:
    refused = Outcome(UNCORDON, OutcomeKind.REFUSED, "signed with a higher token")
    after = absorb_removal(RELEASING, refused, make_situation())
    assert (after.state, after.why) == (RemovalState.RELEASED, RemovalCause.REFUSED)
    draining = replace(RELEASING, state=RemovalState.DRAINING)
    assert absorb_removal(draining, refused, make_situation()) == draining
