"""The safety gates at their edges: what is not concerned is not asked, what is not known is not made up."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes import gates
from ebbtide.model.check import Gate
from ebbtide.model.pod import NOTHING, Pod, PodPhase, Scheduling
from ebbtide.model.pool import Pool, RemovalBudget, RemovalReason
from ebbtide.model.record import Missing
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Node
from tests.builders import (
    CheckValues,
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


def test_what_was_seen_is_compared_with_what_was_there() -> None:
    nobody = gates.plausible(make_snapshot(make_nodes("a1"), []), make_record(pod_count=7), make_settings())
    assert values_of(nobody) == (Gate.PLAUSIBLE, False, 0, 7, "pods")
    usual = gates.plausible(make_snapshot(make_nodes("a1")), make_record(worker_count=2), make_settings())
    assert values_of(usual) == (Gate.PLAUSIBLE, True, 1, 2, "workers")


def test_the_load_is_what_the_ready_workers_carry_on_those_that_are_left_and_come() -> None:
    nodes = (*make_nodes("a1", "a2", "b1"), make_node("b2", ready=False))
    snapshot, settings = make_snapshot(nodes, cpu=0.3), make_settings(cpu_up=0.7)
    going = (make_removal("a1"),)

    def after(joining: int) -> float | None:
        values = gates.load_fits(snapshot, make_record(), settings, going, joining).values
        return values.found if values else None

    assert after(0) == pytest.approx(0.45)
    assert after(1) == pytest.approx(0.3)


def test_load_that_would_reach_the_limit_does_not_fit() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2"), cpu=0.35)
    assert not gates.load_on(1, snapshot, make_settings(cpu_up=0.7)).passed
    assert gates.load_on(1, snapshot, make_settings(cpu_up=0.71)).passed


def pending(name: str, cpu_milli: int = 1000, **overrides: Any) -> Pod:
    return make_pod(name, cpu_milli, phase=PodPhase.PENDING, **overrides)


EMPTY = make_node("a1")
BY_NODE = make_settings(scale_down_by=JudgedBy.NODE)


def asked(*pods: Pod, settings: Settings = BY_NODE, node: Node | None = EMPTY) -> CheckValues:
    nodes = (EMPTY, make_node("b1"))
    everywhere = [make_daemon(each.name) for each in nodes]
    return values_of(gates.none_pending_for(node, make_snapshot(nodes, [*everywhere, *pods]), settings))


FREE: CheckValues = (Gate.NO_POD_PENDING, True, 0, 0, "")


def test_how_many_pods_are_pending_is_told_with_the_first() -> None:
    both = make_snapshot(make_nodes("a1"), [pending("one"), pending("two")])
    assert values_of(gates.no_pod_pending(both)) == (Gate.NO_POD_PENDING, False, 2, 0, "default/one")
    assert values_of(gates.no_pod_pending(make_snapshot(make_nodes("a1")))) == FREE


def test_a_pod_that_may_go_onto_an_empty_node_keeps_it_and_is_named() -> None:
    """Judged one by one: also where others that are pending have no use for it, before it or alike."""
    large, fits = pending("large", 9000), pending("fits")
    assert asked(fits) == (Gate.NO_POD_PENDING, False, 1, 0, "default/fits")
    assert asked(large, fits) == (Gate.NO_POD_PENDING, False, 1, 0, "default/fits")
    own = pending("agent", 9000, controller="DaemonSet")
    assert asked(own, large, fits)[4] == "default/fits"
    assert asked(large, replace(large, name="alike", uid="alike"), fits)[4] == "default/fits"


def test_a_pod_that_can_never_go_onto_an_empty_node_does_not_keep_it() -> None:
    elsewhere = Scheduling(node_selector=(("disk", "ssd"),))
    assert asked(pending("large", 9000)) == FREE
    assert asked(pending("elsewhere", scheduling=elsewhere)) == FREE
    assert asked(pending("agent", 100, controller="DaemonSet")) == FREE, "it comes and goes with its node"
    assert asked() == FREE


@pytest.mark.parametrize(
    "unknown",
    [
        pending("no-requests", requests=NOTHING, scheduling=Scheduling(node_selector=(("disk", "ssd"),))),
        pending("strange", 9000, scheduling=Scheduling(unsupported=("something",))),
    ],
    ids=lambda pod: pod.name,
)
def test_a_pod_whose_needs_nobody_knows_may_go_anywhere(unknown: Pod) -> None:
    assert asked(unknown) == (Gate.NO_POD_PENDING, False, 1, 0, unknown.full_name)


def test_any_pending_pod_keeps_a_node_that_is_not_judged_by_itself_or_carries_something() -> None:
    large = pending("large", 9000)
    kept: CheckValues = (Gate.NO_POD_PENDING, False, 1, 0, "default/large")
    assert asked(large, settings=make_settings(scale_down_by=JudgedBy.AVERAGE)) == kept
    assert asked(large, node=None) == kept
    assert asked(large, make_pod("web", node_name="a1")) == kept


def test_what_passes_is_told_with_its_numbers_too() -> None:
    snapshot, settings = make_snapshot(make_nodes("a1", "a2", "b1")), make_settings(min_workers=1)
    removing = (make_removal("a1"),)
    minimum = gates.keeps_minimum(snapshot, make_record(), settings, removing)
    assert values_of(minimum) == (Gate.MINIMUM_KEPT, True, 2, 1, "")
    for check, name in (
        (gates.keeps_zones(snapshot, make_record(), settings, removing), Gate.ZONE_KEPT),
        (gates.not_paused(make_record()), Gate.NOT_PAUSED),
        (gates.load_known(snapshot), Gate.CPU_KNOWN),
    ):
        assert (check.name, check.passed) == (name, True)


def test_nodes_that_leave_another_pool_use_up_no_budget_of_this_one() -> None:
    nodes = (*make_nodes("a1", "a2"), *(make_node(f"b{n}", pool="batch") for n in range(8)))
    leaving = make_record(operation=make_scale_down(make_removal("b1", pool="batch")))
    pool = make_pool(budgets=(RemovalBudget(1),))
    assert gates.pool_room(make_snapshot(nodes), leaving, pool, IDLE).count == 1


@pytest.mark.parametrize(
    ("cpu", "only_empty", "failed"),
    [
        (None, True, None),
        (None, False, Gate.CPU_KNOWN),
        (0.95, True, Gate.LOAD_FITS),
        (0.95, False, Gate.LOAD_FITS),
        (0.1, True, None),
    ],
)
def test_unknown_load_keeps_all_but_a_node_that_was_found_empty(
    cpu: float | None, only_empty: bool, failed: Gate | None
) -> None:
    nodes = make_nodes("a1", "a2", "b1", "b2")
    removal = make_removal("a1")
    record = make_record(
        operation=make_scale_down(removal, only_empty=only_empty), worker_count=4, pod_count=4
    )
    found = gates.may_terminate(removal, make_snapshot(nodes, cpu=cpu), record, make_settings(min_workers=1))
    assert (found.name if found else None) == failed


def test_each_worker_that_is_left_after_a_loss_counts_once() -> None:
    nodes = (*make_nodes("a1", "a2", "b1"), make_node("b2", ready=False), make_node("b3", ready=False))
    lost = make_record(orphans=(Missing("uid-b3", 0, gone=True),))
    check = gates.healthy(make_snapshot(nodes), lost, make_settings(unready_count=0, unready_fraction=0.5))
    assert values_of(check) == (Gate.HEALTHY, True, 1, 2, "")


def test_a_pool_that_sleeps_needs_no_minimum_of_the_others_and_takes_none_of_them_along() -> None:
    pools = (make_pool(), make_pool("gpu", may_be_empty=True))
    settings = make_settings(pools=pools, min_workers=1, awake_min_workers=2)
    snapshot = make_snapshot((make_node("a1"), make_node("b1", pool="gpu")))
    asleep, awake = make_removal("b1", pool="gpu"), make_removal("a1")
    assert gates.keeps_awake(snapshot, make_record(), settings, [asleep]).passed, "there is one already"
    assert not gates.keeps_awake(snapshot, make_record(), settings, [asleep, awake]).passed
