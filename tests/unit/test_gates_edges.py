"""The safety gates at their edges: what is not concerned is not asked, what is not known is not made up."""

from __future__ import annotations

import pytest

from ebbtide.core.nodes import gates
from ebbtide.model.check import Gate
from ebbtide.model.pod import PodPhase
from ebbtide.model.pool import Pool, RemovalBudget, RemovalReason
from tests.builders import (
    make_daemon,
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
    values_of,
)

IDLE = RemovalReason.IDLE


def test_a_cluster_without_nodes_is_no_cluster_that_lost_its_pods() -> None:
    check = gates.plausible(make_snapshot(), make_record(), make_settings())
    assert values_of(check) == (Gate.PLAUSIBLE, True, 0, 0, "workers")


def test_load_is_high_above_cpu_up() -> None:
    settings = make_settings(cpu_up=0.7)
    calm, busy = make_snapshot(cpu=0.7), make_snapshot(cpu=0.71)
    assert gates.load_known(calm).passed
    assert gates.load_is_high(calm, settings) == ""
    assert values_of(gates.load_not_high(calm, settings)) == (Gate.LOAD_NOT_HIGH, True, 0.7, 0.7, "")
    assert values_of(gates.load_not_high(busy, settings)) == (Gate.LOAD_NOT_HIGH, False, 0.71, 0.7, "")


def test_load_that_is_not_known_is_not_taken_for_high() -> None:
    """Whether it is known is a gate of its own."""
    settings = make_settings(cpu_up=0.7)
    snapshot = make_snapshot(make_nodes("a1", "a2"), cpu=None)
    assert gates.load_is_high(snapshot, settings) == ""
    assert gates.load_on(1, snapshot, settings).passed


def test_one_worker_that_is_left_may_carry_all() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2"), cpu=0.2)
    check = gates.load_on(1, snapshot, make_settings(cpu_up=0.7))
    assert values_of(check) == ("load fits the rest", True, 0.4, 0.7, "")


@pytest.mark.parametrize(
    ("pools", "passed"),
    [
        ((), False),
        ((make_pool("p1", may_be_empty=True),), True),
        ((make_pool("p1", may_be_empty=True), make_pool("p2")), False),
    ],
)
def test_no_worker_may_be_left_only_where_every_pool_sleeps(pools: tuple[Pool, ...], passed: bool) -> None:
    check = gates.load_on(0, make_snapshot(cpu=0.0), make_settings(pools=pools))
    assert check.passed is passed


def test_a_pool_below_its_minimum_keeps_no_other_pool_and_any_pool_concerned_counts() -> None:
    nodes = (*make_nodes("a1", "a2", "a3"), make_node("b1", pool="batch"))
    pools = (make_pool(min_workers=1), make_pool("batch", min_workers=2))
    settings = make_settings(pools=pools, min_workers=1)
    mine, theirs = make_removal("a1"), make_removal("b1", pool="batch")
    snapshot, record = make_snapshot(nodes), make_record()
    assert gates.keeps_minimum(snapshot, record, settings, (mine,)).passed
    assert not gates.keeps_minimum(snapshot, record, settings, (mine, theirs)).passed


def test_what_leaves_another_pool_is_not_counted_against_the_budget_of_this_one() -> None:
    nodes = (*make_nodes("a1", "a2"), *(make_node(f"b{n}", pool="batch") for n in range(8)))
    leaving = make_record(operation=make_scale_down(make_removal("b1", pool="batch")))
    pool = make_pool(budgets=(RemovalBudget(50, percent=True),))
    room = gates.pool_room(make_snapshot(nodes), leaving, pool, IDLE)
    assert room.count == 1, "half of the two of this pool, of which none leaves"
    mine = make_record(operation=make_scale_down(make_removal("a1")))
    assert gates.pool_room(make_snapshot(nodes), mine, pool, IDLE).count == 0


def test_a_removal_is_a_rebalance_only_where_the_notice_is_for_its_own_instance() -> None:
    spot = make_spot("i-b1", removal=make_removal("b1"))
    record = make_record(spots=(spot,), operation=make_scale_down(make_removal("a1")))
    assert gates.reason_of(make_removal("b1"), record) is RemovalReason.REBALANCE
    assert gates.reason_of(make_removal("a1"), record) is IDLE


def test_pods_that_are_pending_keep_an_idle_node_that_is_not_ready_but_not_one_that_is_repaired() -> None:
    nodes = (make_node("a1", ready=False), *make_nodes("a2", "a3", "b1", "b2"))
    pods = [*(make_daemon(node.name) for node in nodes), make_pod("waits", phase=PodPhase.PENDING)]
    snapshot = make_snapshot(nodes, pods)
    settings = make_settings(min_workers=1)
    for unhealthy, expected in ((False, Gate.NO_POD_PENDING), (True, None)):
        removal = make_removal("a1", unhealthy=unhealthy)
        cause = RemovalReason.UNHEALTHY if unhealthy else IDLE
        record = make_record(
            operation=make_scale_down(removal, cause=cause), worker_count=5, pod_count=len(nodes)
        )
        found = gates.may_terminate(removal, snapshot, record, settings)
        assert (found.name if found else None) is expected


def test_a_node_that_is_gone_in_the_middle_of_its_repair_is_asked_about_like_any_other() -> None:
    nodes = make_nodes("a2", "a3", "b1", "b2")
    removal = make_removal("a1", unhealthy=True)
    record = make_record(
        operation=make_scale_down(removal, cause=RemovalReason.UNHEALTHY), worker_count=4, pod_count=4
    )
    assert gates.may_terminate(removal, make_snapshot(nodes), record, make_settings(min_workers=1)) is None
