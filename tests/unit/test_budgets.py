"""Budgets: the most restrictive that applies counts, for every reason, and again before a termination."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.drain import allowed, applies, described, is_active, limit_of
from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.operations import spot
from ebbtide.core.operations.situation import Situation
from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.decision import Action
from ebbtide.model.operation import (
    Consolidate,
    RemovalCause,
    RemovalState,
    SlotState,
    Source,
    SourceState,
    Spot,
    SpotKind,
)
from ebbtide.model.pool import Allowance, CronWindow, RemovalBudget, RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from tests.builders import (
    NOW,
    CheckValues,
    make_node,
    make_nodes,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
    values_of,
)
from tests.unit.operations.builders import advance_removal, cordoned, fleet, make_situation, with_work

IDLE, EMPTY, REBALANCE = RemovalReason.IDLE, RemovalReason.EMPTY, RemovalReason.REBALANCE
NONE = RemovalBudget(0)
OFFICE = CronWindow("0 9 * * mon-fri", "Europe/Berlin", 8 * 3600)
TEN = make_nodes(*(f"a{n}" for n in range(5)), *(f"b{n}" for n in range(5)))


def at(text: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo("Europe/Berlin")).timestamp())


@pytest.mark.parametrize(
    ("budget", "workers", "limit"),
    [
        (RemovalBudget(2), 1, 2),
        (RemovalBudget(10, percent=True), 1, 1),
        (RemovalBudget(10, percent=True), 10, 1),
        (RemovalBudget(10, percent=True), 11, 2),
        (RemovalBudget(0, percent=True), 50, 0),
        (RemovalBudget(100, percent=True), 7, 7),
        (RemovalBudget(50, percent=True), 202, 101),
    ],
)
def test_a_share_is_rounded_up_and_a_count_is_a_count(
    budget: RemovalBudget, workers: int, limit: int
) -> None:
    assert limit_of(budget, workers) == limit


def test_the_most_restrictive_budget_that_applies_is_the_one_that_is_named() -> None:
    budgets = (RemovalBudget(5), RemovalBudget(20, percent=True), RemovalBudget(1, reasons=(REBALANCE,)))
    assert allowed(budgets, "", IDLE, 20, 1, NOW) == Allowance(
        3, "1 of at most 4 are leaving; budget of the cluster: 20%"
    )
    assert allowed(budgets, "gpu", REBALANCE, 20, 1, NOW) == Allowance(
        0, "1 of at most 1 are leaving; budget of pool gpu: 1 nodes for rebalance"
    )


def test_without_a_budget_that_applies_all_that_are_left_may_go() -> None:
    says = "no budget of the cluster limits it now"
    assert allowed((), "", IDLE, 5, 2, NOW) == Allowance(3, says)
    assert allowed((replace(NONE, reasons=(EMPTY,)),), "", IDLE, 2, 5, NOW) == Allowance(0, says)


def test_a_budget_holds_from_its_time_for_its_duration_in_its_zone() -> None:
    office = RemovalBudget(0, window=OFFICE)
    assert not is_active(office, at("2026-06-01T08:59:59"))
    assert is_active(office, at("2026-06-01T09:00"))
    assert is_active(office, at("2026-06-01T16:59:59"))
    assert not is_active(office, at("2026-06-01T17:00"))
    assert not is_active(office, at("2026-06-06T12:00")), "a Saturday"
    assert allowed((office,), "", IDLE, 5, 0, int(at("2026-06-01T12:00"))).count == 0
    assert allowed((office,), "", IDLE, 5, 0, int(at("2026-06-06T12:00"))).count == 5
    assert is_active(NONE, NOW)


def test_a_budget_is_told_as_it_was_written() -> None:
    window = CronWindow("@daily", "UTC", 5430)
    assert described(RemovalBudget(10, True, (IDLE, EMPTY), window)) == (
        "10% for idle, empty from '@daily' in UTC for 1h30m30s"
    )
    assert described(RemovalBudget(2)) == "2 nodes"


some_budgets = st.lists(
    st.builds(
        RemovalBudget,
        nodes=st.integers(0, 100),
        percent=st.booleans(),
        reasons=st.lists(st.sampled_from(RemovalReason), unique=True).map(tuple),
        window=st.none()
        | st.builds(CronWindow, st.just("0 */4 * * *"), st.just("UTC"), st.integers(0, 14400)),
    ),
    max_size=4,
)


@given(
    some_budgets,
    st.sampled_from(RemovalReason),
    st.integers(0, 300),
    st.integers(0, 300),
    st.integers(0, 10**9),
)
@settings(deadline=None)
def test_never_more_may_go_than_any_budget_allows_and_the_tightest_is_used_up(
    budgets: list[RemovalBudget], reason: RemovalReason, workers: int, leaving: int, now: int
) -> None:
    found = allowed(budgets, "", reason, workers, leaving, now)
    applying = [limit_of(budget, workers) for budget in budgets if applies(budget, reason, now)]
    assert found.count == max(0, min([workers, *applying]) - leaving)
    for budget in budgets:
        assert allowed([budget], "", reason, workers, leaving, now).count >= found.count
    assert allowed([*budgets, NONE], "", reason, workers, leaving, now).count == 0


def calm(**overrides: Any) -> Record:
    return make_record(**{"idle_since": NOW - 600, "worker_count": 10, "pod_count": 10, **overrides})


def failed_check(settings: Settings) -> CheckValues:
    decision = decide(make_snapshot(TEN), calm(), settings, NOW, "d1")
    assert decision.action is Action.NOTHING
    (verdict,) = [verdict for verdict in decision.verdicts if verdict.action is Action.SCALE_DOWN]
    return values_of(verdict.failed)


def test_a_scale_down_is_not_decided_where_the_cluster_has_no_budget_left() -> None:
    closed = make_settings(budgets=(RemovalBudget(0, reasons=(IDLE,)),))
    assert failed_check(closed) == ("budget left", False, 0, 1, "")


def test_nodes_of_a_pool_without_budget_are_skipped_with_the_reason() -> None:
    closed = make_pool(budgets=(NONE,))
    assert failed_check(make_settings(pools=(closed,))) == ("a node can go", False, 0, 1, "a0")


def test_a_pool_without_budget_does_not_keep_another_from_shrinking() -> None:
    pools = (make_pool("workers", budgets=(NONE,)), make_pool("batch"))
    nodes = (*make_nodes("a1", "a2", "a3"), *make_nodes("b1", "b2", pool="batch"))
    decision = decide(
        make_snapshot(nodes), calm(worker_count=5, pod_count=5), make_settings(pools=pools), NOW, "d1"
    )
    assert decision.action is Action.SCALE_DOWN
    assert [removal.node_name for removal in decision.removals] == ["b1"]


def test_no_more_are_chosen_from_a_pool_than_its_budget_allows() -> None:
    pools = (make_pool(budgets=(RemovalBudget(2),)),)
    chosen, refusals = choose_targets(make_snapshot(TEN), calm(), make_settings(pools=pools), NOW, 5)
    assert len(chosen) == 2
    assert {refusal.cause for refusal in refusals} == {NodeCause.BUDGET}


def test_what_leaves_for_one_reason_uses_up_the_budget_of_another() -> None:
    under_way = make_record(operation=make_scale_down(make_removal("a1")))
    wide = make_settings(budget_fraction=1.0, budgets=(RemovalBudget(1, reasons=(REBALANCE,)),))
    asked = [make_removal("a2")]
    assert not gates.within_budget(make_snapshot(TEN), under_way, wide, asked, REBALANCE).passed
    assert gates.within_budget(make_snapshot(TEN), under_way, wide, asked, IDLE).passed


def test_nodes_that_consolidation_is_emptying_count_as_leaving_until_they_are_settled() -> None:
    sources = (
        Source("i-a1", "a1", "uid-a1", pool="workers"),
        Source("i-a2", "a2", "uid-a2", pool="workers", state=SourceState.RELEASED),
    )
    record = make_record(operation=Consolidate("op", NOW, sources=sources))
    assert [going.node_name for going in gates.in_disruption(record)] == ["a1"]
    assert gates.in_disruption(record, {"i-a1"}) == ()


def test_a_worker_that_went_already_still_counts_into_the_share_while_it_is_leaving() -> None:
    gone = make_removal("z1", state=RemovalState.TERMINATING)
    wide = make_settings(budget_fraction=1.0, budgets=(RemovalBudget(20, percent=True),))
    room = gates.cluster_room(
        make_snapshot(TEN[:9]), make_record(operation=make_scale_down(gone)), wide, IDLE
    )
    assert room.count == 1, "one of at most two is leaving"


def test_the_share_of_the_cluster_holds_whatever_budgets_allow() -> None:
    generous = make_settings(budgets=(RemovalBudget(100, percent=True),))
    assert gates.cluster_room(make_snapshot(TEN), make_record(), generous, IDLE).count == 1


@pytest.mark.parametrize("only_empty", [False, True])
def test_a_budget_that_closes_while_a_node_is_drained_gives_the_node_back(only_empty: bool) -> None:
    drained = make_removal(state=RemovalState.DRAINED, since=NOW - 10)
    record = with_work(make_scale_down(drained, only_empty=only_empty), worker_count=4, pod_count=3)
    closed = RemovalBudget(0, reasons=(EMPTY,))
    situation = make_situation(fleet(cordoned()), record=record, settings=make_settings(budgets=(closed,)))
    after, effects = advance_removal(drained, situation)
    if only_empty:
        assert (after.state, effects) == (RemovalState.RELEASING, ())
        assert (after.why, after.about) == (RemovalCause.CHECK, Gate.WITHIN_BUDGET)
    else:
        assert after.state is RemovalState.TERMINATING


def test_a_rebalance_recommendation_waits_for_its_budget_and_is_terminated_by_it_too() -> None:
    ready = make_slot("s", state=SlotState.READY, node_name="b9", instance_id="i-b9")
    notice = make_spot("a1", kind=SpotKind.REBALANCE, deadline=NOW + 600, slot=ready)
    closed = make_settings(pools=(make_pool(budgets=(RemovalBudget(0, reasons=(REBALANCE,)),)),))

    def situation(settings: Settings, now: int = NOW) -> Situation:
        record = make_record(spots=(notice,))
        return make_situation(fleet(TEN[1]), record=record, settings=settings, now=now)

    def advanced(settings: Settings, now: int = NOW) -> Spot:
        return spot.advance(notice, situation(settings, now)).state

    assert advanced(make_settings()).removal is not None
    assert advanced(closed).removal is None
    why = spot.why_ended(advanced(closed, NOW + 900), situation(closed, NOW + 900))
    assert why.about == Gate.WITHIN_BUDGET

    drained = make_removal(state=RemovalState.DRAINED, since=NOW - 10)
    under_way = make_record(spots=(replace(notice, removal=drained),))
    assert gates.reason_of(drained, under_way) is REBALANCE
    failed = gates.may_terminate(drained, fleet(cordoned()), under_way, closed)
    assert failed is not None
    assert failed.name == "within budget"


@pytest.mark.parametrize("shut", [0, 1, 2])
def test_the_budget_of_every_pool_concerned_is_asked(shut: int) -> None:
    """Not only that of the pool that the settings name first."""
    names = ("p0", "p1", "p2")
    nodes = tuple(make_node(f"a{n}", pool=names[n % 3]) for n in range(30))
    pools = tuple(make_pool(name, budgets=(NONE,) if n == shut else ()) for n, name in enumerate(names))
    wide = make_settings(pools=pools, budget_fraction=1.0)
    asked = [make_removal(f"a{n}", pool=names[n]) for n in range(3)]
    others = [removal for n, removal in enumerate(asked) if n != shut]
    snapshot, record = make_snapshot(nodes), make_record()
    refused = gates.within_budget(snapshot, record, wide, asked, IDLE)
    assert values_of(refused) == ("within budget", False, 1, 0, "")
    found = gates.within_budget(snapshot, record, wide, others, IDLE)
    name, passed, asked_of_last, _, _ = values_of(found)
    assert (name, passed, asked_of_last) == ("within budget", True, 1), "of the last pool that is concerned"
