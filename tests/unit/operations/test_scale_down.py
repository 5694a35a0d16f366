"""Scale-down: plan, execute, resume, abort, complete, and never stuck."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide import narrate
from ebbtide.core.operations import facts, scale_down
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Breach, Cordon, Evict, Outcome, OutcomeKind
from ebbtide.model.operation import AbortCause, RemovalState, ScaleDown
from ebbtide.model.record import DrainBackoff, DrainFailures, Record, Refused
from tests.builders import (
    NOW,
    lanes,
    make_budget,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import breaches, cordoned, fleet, make_situation, with_work

DRAINING, TERMINATING, GONE = RemovalState.DRAINING, RemovalState.TERMINATING, RemovalState.GONE
RELEASING, RELEASED = RemovalState.RELEASING, RemovalState.RELEASED
TWO = make_scale_down(
    make_removal("a1", state=DRAINING, attempts=1, drain_deadline=NOW + 300),
    make_removal("a2", state=TERMINATING),
)
NODES = (cordoned("a1"), cordoned("a2"), *make_nodes("a3", "b1", "b2"))
SEEN = make_snapshot(NODES, [make_pod("web", node_name="a1"), make_pod("other", node_name="b1")])


def states(operation: ScaleDown) -> list[RemovalState]:
    return [removal.state for removal in operation.removals]


def test_the_plan_is_written_before_any_node_is_touched() -> None:
    decision = Decision("d", NOW, Action.SCALE_DOWN, "idle", (), removals=(make_removal(since=0),))
    started = scale_down.begin(decision, "op")
    assert started == make_scale_down(make_removal(since=NOW), reason="idle")


def test_every_target_is_advanced_on_its_own() -> None:
    step = scale_down.advance(TWO, make_situation(SEEN, record=with_work(TWO)))
    assert states(step.state) == [DRAINING, TERMINATING]
    assert [type(effect).__name__ for effect in step.effects] == ["Evict", "Terminate"]


def test_disruption_budgets_are_shared_by_all_that_is_drained_at_once() -> None:
    both = make_scale_down(*(replace(r, state=DRAINING, drain_deadline=NOW + 300) for r in TWO.removals))
    pods = [make_pod(f"db-{n}", node_name=n, labels=(("app", "db"),)) for n in ("a1", "a2")]
    seen = make_snapshot(NODES, pods, budgets=[make_budget(1, app="db")])
    effects = scale_down.advance(both, make_situation(seen)).effects
    assert [effect.name for effect in effects if isinstance(effect, Evict)] == ["db-a1"]


def test_an_observation_that_is_partial_moves_nothing() -> None:
    seen = replace(SEEN, problems=("the cluster could not be read",))
    step = scale_down.advance(TWO, make_situation(seen, record=make_record(paused=True), now=NOW + 9999))
    assert (step.state, step.effects) == (TWO, ())


@pytest.mark.parametrize(
    ("record", "now", "cause", "blamed"),
    [
        (make_record(paused=True), NOW, AbortCause.PAUSED, False),
        (make_record(), NOW + 900, AbortCause.TOO_LONG, True),
    ],
)
def test_an_abort_releases_what_is_not_terminating_and_rolls_the_rest_forward(
    record: Record, now: int, cause: AbortCause, blamed: bool
) -> None:
    operation = replace(TWO, removals=(TWO.removals[0], replace(TWO.removals[1], since=now)))
    step = scale_down.advance(
        operation, make_situation(SEEN, record=replace(record, **lanes(operation)), now=now)
    )
    assert not step.state.excused
    assert (states(step.state), step.state.abort_cause) == ([RELEASING, TERMINATING], cause)
    released = step.state.removals[0]
    assert (released.reason, released.blamed) == (step.state.abort_reason, blamed)


def test_a_node_that_will_not_drain_aborts_the_whole_operation() -> None:
    given_up = replace(TWO.removals[1], state=RELEASING, reason="it holds a bare pod", blamed=True)
    operation = replace(TWO, removals=(TWO.removals[0], given_up))
    step = scale_down.advance(operation, make_situation(SEEN))
    assert (step.state.abort_cause, step.state.abort_reason) == (AbortCause.NODE_KEPT, given_up.reason)
    assert step.state.removals[0].state is RELEASING
    nameless = make_scale_down(make_removal("a1", state=RELEASED))
    assert scale_down.advance(nameless, make_situation(SEEN)).state.abort_cause is AbortCause.NODE_KEPT


def test_an_abort_is_never_taken_back() -> None:
    aborted = replace(TWO, abort_reason="why", abort_cause=AbortCause.PAUSED)
    step = scale_down.advance(aborted, make_situation(SEEN))
    given_up = step.state
    assert (given_up.abort_reason, given_up.abort_cause) == ("why", AbortCause.PAUSED)
    assert states(given_up)[0] is RELEASING
    assert breaches(scale_down.check_invariants(aborted, replace(aborted, abort_reason=""))) == [
        (Breach.TAKEN_BACK, "op")
    ]


def test_a_node_about_to_be_lost_is_hurried_along_and_not_released() -> None:
    record = make_record(operation=TWO, spots=(make_spot("a1"),), paused=True)
    step = scale_down.advance(TWO, make_situation(SEEN, record=record, now=NOW + 60))
    assert states(step.state) == [DRAINING, TERMINATING]


def test_an_interruption_that_never_comes_does_not_keep_the_operation_open_forever() -> None:
    record = make_record(operation=TWO, spots=(make_spot("a1"),))
    step = scale_down.advance(TWO, make_situation(SEEN, record=record, now=NOW + 900))
    assert states(step.state)[0] is RELEASING


def test_pending_pods_do_not_stop_the_forgetting_of_a_node_that_is_dead() -> None:
    dead = make_snapshot([make_node("a1", ready=False)], instances=[])
    operation = make_scale_down(make_removal("a1", state=RemovalState.PLANNED))
    record = with_work(operation, pending_since=NOW - 9000)
    after = scale_down.advance(operation, make_situation(dead, record=record)).state
    assert after.abort_reason == ""


def test_outcomes_are_taken_in_by_the_removal_they_are_about() -> None:
    situation = make_situation(SEEN)
    outcome = Outcome(Cordon("a1", "uid-a1", "op"), OutcomeKind.REFUSED, "a person cordoned it")
    after = scale_down.absorb(TWO, [outcome], situation)
    assert states(after) == [RELEASING, TERMINATING]


def test_it_is_settled_once_every_removal_is() -> None:
    assert scale_down.is_settled(make_scale_down(make_removal(state=GONE), make_removal(state=RELEASED)))
    assert not scale_down.is_settled(TWO)


def test_any_node_removed_starts_the_cooldown_even_when_others_were_kept() -> None:
    kept = make_removal("a2", state=RELEASED, reason="it holds a bare pod", blamed=True)
    operation = make_scale_down(make_removal("a1", state=GONE, terminated=True), kept)
    closed = scale_down.close(with_work(operation, removal_failures=2), operation, make_settings(), NOW)
    assert closed.succeeded
    rest = DrainBackoff("i-a2", NOW + 3600, "it holds a bare pod")
    assert closed.record == make_record(last_scale_at=NOW, rests=(rest,))


def test_a_node_that_was_lost_and_not_removed_by_us_starts_no_cooldown() -> None:
    operation = make_scale_down(make_removal("a1", state=GONE))
    closed = scale_down.close(with_work(operation, last_scale_at=7), operation, make_settings(), NOW)
    assert closed.record == make_record(last_scale_at=7)


def test_a_node_that_the_cloud_took_in_the_middle_of_its_drain_starts_the_cooldown() -> None:
    """`completed: a1 removed` used to leave `lastScaleEpoch` as it was, so the next removal came at once."""
    operation = make_scale_down(make_removal("a1", state=GONE, attempts=1))
    closed = scale_down.close(with_work(operation, last_scale_at=7), operation, make_settings(), NOW)
    assert facts.closed(operation, closed.succeeded).removed == ("a1",)
    assert closed.record == make_record(last_scale_at=NOW)


def test_what_was_gone_before_anything_was_done_to_it_was_not_removed() -> None:
    fact = facts.closed(make_scale_down(make_removal("a1", state=GONE)), succeeded=True)
    assert (fact.removed, fact.gone_already) == ((), ("a1",))


def test_a_failure_with_none_removed_starts_a_back_off_and_lets_the_node_rest() -> None:
    operation = make_scale_down(make_removal("a1", state=RELEASED, reason="stuck", blamed=True))
    closed = scale_down.close(with_work(operation, removal_failures=1), operation, make_settings(), NOW)
    assert not closed.succeeded
    assert (closed.record.removal_failures, closed.record.removal_backoff_until) == (2, NOW + 120)
    assert (closed.record.last_scale_at, closed.record.rests[0].instance_id) == (0, "i-a1")


@pytest.mark.parametrize(
    ("failures", "rest"), [(1, 3600), (2, 7200), (3, 14400), (5, 57600), (6, 86400), (900, 86400)]
)
def test_a_node_that_fails_to_drain_again_and_again_is_skipped_longer_each_time_up_to_a_day(
    failures: int, rest: int
) -> None:
    removal = make_removal("a1", state=RELEASED, reason="stuck", blamed=True, attempts=3)
    operation = make_scale_down(removal)
    before = (DrainFailures("i-a1", failures - 1, 0, NOW + 5),) if failures > 1 else ()
    other = DrainFailures("i-b1", 2, 0, NOW + 7)
    record = with_work(operation, drain_failures=(*before, other))
    after = scale_down.close(record, operation, make_settings(), NOW).record
    assert [(one.instance_id, one.until) for one in after.rests] == [("i-a1", NOW + 3600)]
    mine = DrainFailures("i-a1", failures, NOW + rest, NOW + 2 * rest, "stuck")
    assert set(after.drain_failures) == {mine, other}
    assert after.skipped == (DrainBackoff("i-a1", NOW + rest, "stuck"),)


def test_a_node_of_which_nothing_was_asked_yet_has_not_failed_to_drain() -> None:
    operation = make_scale_down(make_removal("a1", state=RELEASED, reason="not finished", blamed=True))
    after = scale_down.close(with_work(operation), operation, make_settings(), NOW).record
    assert (after.drain_failures, len(after.rests)) == ((), 1)


def test_a_longer_rest_of_the_configuration_than_a_day_is_kept_as_it_is() -> None:
    settings = make_settings(node_rest_seconds=90_000)
    assert [settings.rest_seconds(times) for times in (0, 1, 2, 9)] == [90_000] * 4


def test_an_operation_that_removed_nothing_backs_off_for_every_cause() -> None:
    operation = make_scale_down(make_removal("a1", state=RELEASED, reason="removals were paused"))
    record = with_work(operation, unclean_removal_runs=1)
    closed = scale_down.close(record, operation, make_settings(), NOW).record
    assert closed == make_record(removal_failures=1, removal_backoff_until=NOW + 60)


def test_one_that_demand_or_load_ended_costs_neither_rest_nor_back_off() -> None:
    operation = make_scale_down(make_removal("a1", state=RELEASED, reason="CPU is high"), excused=True)
    record = with_work(operation, unclean_removal_runs=1)
    assert scale_down.close(record, operation, make_settings(), NOW).record == make_record()


def test_what_was_set_aside_is_kept_in_the_record_and_no_cooldown_begins() -> None:
    aside = make_removal("a1", state=RemovalState.SET_ASIDE, reason="the cloud refuses it")
    operation = make_scale_down(aside)
    closed = scale_down.close(with_work(operation), operation, make_settings(), NOW)
    assert not closed.succeeded
    kept = replace(aside, state=TERMINATING)
    assert closed.record.refused == (Refused("op", kept, NOW + 900),)
    assert (closed.record.last_scale_at, closed.record.removal_failures) == (0, 1)


def test_invariants_hold_for_the_targets_and_for_each_removal() -> None:
    other = make_scale_down(make_removal("b1"), make_removal("a2"))
    assert breaches(scale_down.check_invariants(TWO, other)) == [(Breach.IDENTITY, "op")]
    back = replace(TWO, removals=(TWO.removals[0], replace(TWO.removals[1], state=RELEASED)))
    assert breaches(scale_down.check_invariants(TWO, back)) == [(Breach.STATE, "i-a2")]


def test_every_runner_computes_the_same_step_from_what_is_written() -> None:
    seen = fleet(cordoned())
    once = scale_down.advance(make_scale_down(make_removal()), make_situation(seen, token=5))
    again = scale_down.advance(make_scale_down(make_removal()), make_situation(seen, token=6))
    assert once.effects == again.effects
    assert states(once.state) == states(again.state)


def test_what_was_set_aside_is_told_apart_from_what_was_kept() -> None:
    aside = make_removal("a1", state=RemovalState.SET_ASIDE, reason="the cloud refuses it")
    fact = facts.closed(make_scale_down(aside, make_removal("b1", state=RELEASED, reason="busy")), False)
    assert [one.name for one in fact.kept] == ["b1"]
    assert narrate.says(fact).startswith(
        "scale-down given up: b1 kept: busy; a1 set aside, it stays cordoned: the cloud refuses it"
    )
