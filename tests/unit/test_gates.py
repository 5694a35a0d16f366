"""The safety gates that every voluntary removal passes."""

from __future__ import annotations

import pytest

from ebbtide.core.nodes import gates
from ebbtide.model.check import Gate
from ebbtide.model.operation import RemovalState
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import Missing, Record, Refused
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import (
    NOW,
    make_daemon,
    make_node,
    make_nodes,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_snapshot,
    values_of,
)

SETTINGS = make_settings()
IDLE = RemovalReason.IDLE


def names(count: int, zone: str = "a") -> list[str]:
    return [f"{zone}{number}" for number in range(count)]


def with_unready(count: int, unready: int) -> Snapshot:
    nodes: list[Node] = [make_node(name, ready=n >= unready) for n, name in enumerate(names(count))]
    return make_snapshot(nodes)


def test_one_switch_pauses_all_removals_and_gives_the_reason() -> None:
    assert gates.not_paused(make_record()).passed
    assert not gates.not_paused(make_record(paused=True)).passed
    why = gates.not_paused(make_record(paused=True, pause_reason="freeze"))
    assert values_of(why) == (Gate.NOT_PAUSED, False, None, None, "freeze")


def test_an_operation_that_was_set_aside_stops_removals_until_a_person_resumes() -> None:
    check = gates.not_paused(make_record(set_aside=make_scale_down(id="op-7")))
    assert values_of(check) == (Gate.NOT_PAUSED, False, None, None, "op-7")


def test_a_partial_observation_is_no_ground_for_a_removal() -> None:
    check = gates.complete(make_snapshot(problems=("the cloud could not be read",)))
    assert values_of(check) == (Gate.COMPLETE, False, 1, 0, "")
    assert gates.complete(make_snapshot()).passed


def test_nodes_without_any_pod_are_not_believed() -> None:
    check = gates.plausible(make_snapshot(make_nodes("a1", "a2"), pods=[]), make_record(), SETTINGS)
    assert values_of(check) == (Gate.PLAUSIBLE, False, 0, 0, "pods")


@pytest.mark.parametrize(
    ("before", "seen", "believed"), [(8, 4, False), (7, 4, True), (9, 5, True), (4, 1, True), (20, 11, True)]
)
def test_a_cluster_is_implausibly_smaller_when_more_than_45_percent_and_more_than_3_workers_are_missing(
    before: int, seen: int, believed: bool
) -> None:
    snapshot = make_snapshot(make_nodes(*names(seen)))
    check = gates.plausible(snapshot, make_record(worker_count=before), SETTINGS)
    assert check.passed is believed
    if not believed:
        assert values_of(check) == (Gate.PLAUSIBLE, False, seen, before, "workers")


def test_a_cluster_that_lost_half_of_its_pods_at_once_is_not_believed_either() -> None:
    snapshot = make_snapshot(make_nodes(*names(4)))
    check = gates.plausible(snapshot, make_record(worker_count=4, pod_count=40), SETTINGS)
    assert values_of(check) == (Gate.PLAUSIBLE, False, 4, 40, "pods")


@pytest.mark.parametrize(
    ("workers", "unready", "healthy"),
    [(4, 4, False), (3, 3, True), (20, 9, True), (20, 10, False), (100, 45, True), (100, 46, False)],
)
def test_removals_stop_when_more_than_45_percent_and_more_than_3_nodes_are_unready(
    workers: int, unready: int, healthy: bool
) -> None:
    check = gates.healthy(with_unready(workers, unready), make_record(), SETTINGS)
    assert values_of(check) == (Gate.HEALTHY, healthy, unready, max(3, 0.45 * workers), "")


def test_machines_that_are_gone_are_not_sick() -> None:
    seen = with_unready(8, 5)
    dead = [node.uid for node in seen.cluster.workers if not node.ready]
    record = make_record(orphans=tuple(Missing(uid, 0, gone=True) for uid in dead))
    assert not gates.healthy(seen, make_record(), SETTINGS).passed
    check = gates.healthy(seen, record, SETTINGS)
    assert values_of(check) == (Gate.HEALTHY, True, 0, 3, "")


def test_a_ready_worker_without_a_known_instance_makes_every_lone_instance_doubtful() -> None:
    nodes = make_nodes("a1", "a2")
    assert gates.all_matched(make_snapshot(nodes)).passed
    check = gates.all_matched(make_snapshot(nodes, instances=[]))
    assert values_of(check) == (Gate.WORKERS_MATCHED, False, 0, 2, "a1")


def test_without_any_ready_worker_this_may_be_quite_another_cluster() -> None:
    check = gates.all_matched(make_snapshot([make_node(ready=False)], instances=[]))
    assert values_of(check) == (Gate.WORKERS_MATCHED, False, 0, 0, "")


def test_the_minimum_counts_what_stays_after_everything_in_progress() -> None:
    """`workerCount - toRemove >= minWorkers`."""
    snapshot = make_snapshot(make_nodes("a1", "a2", "a3", "a4"))
    busy = make_record(operation=make_scale_down(make_removal("a1")))
    assert gates.keeps_minimum(snapshot, busy, SETTINGS, [make_removal("a2")]).passed
    check = gates.keeps_minimum(snapshot, busy, SETTINGS, [make_removal("a2"), make_removal("a3")])
    assert values_of(check) == (Gate.MINIMUM_KEPT, False, 1, 2, "")


def test_the_minimum_of_a_pool_is_kept_as_well() -> None:
    pools = (make_pool(), make_pool("gpu", min_workers=1))
    nodes = [*make_nodes("a1", "a2", "a3"), make_node("b1", pool="gpu")]
    settings, snapshot = make_settings(pools=pools), make_snapshot(nodes)
    check = gates.keeps_minimum(snapshot, make_record(), settings, [make_removal("b1", pool="gpu")])
    assert values_of(check) == (Gate.MINIMUM_KEPT, False, 0, 1, "gpu")
    assert gates.keeps_minimum(snapshot, make_record(), settings, [make_removal("a1")]).passed
    two = make_snapshot([*nodes, make_node("b2", pool="gpu")])
    assert gates.keeps_minimum(two, make_record(), settings, [make_removal("b1", pool="gpu")]).passed


def test_while_a_pool_sleeps_the_others_keep_the_minimum_of_the_cluster_by_themselves() -> None:
    pools = (make_pool(), make_pool("gpu", may_be_empty=True))
    settings = make_settings(pools=pools, min_workers=1, awake_min_workers=2)
    snapshot = make_snapshot([*make_nodes("a1", "a2"), make_node("g1", pool="gpu")])
    check = gates.keeps_awake(snapshot, make_record(), settings, [make_removal("a1")])
    assert values_of(check) == (Gate.MINIMUM_KEPT, False, 1, 2, "")
    assert gates.keeps_awake(snapshot, make_record(), settings, [make_removal("g1", pool="gpu")]).passed
    three = make_snapshot(make_nodes("a1", "a2", "a3"))
    assert gates.keeps_awake(three, make_record(), settings, [make_removal("a1")]).passed


@pytest.mark.parametrize(("reason", "goes"), [(RemovalReason.IDLE, False), (RemovalReason.DRIFTED, True)])
def test_what_is_replaced_goes_also_while_a_pool_sleeps(reason: RemovalReason, goes: bool) -> None:
    """Its successor takes its place, so the pools that are awake have no fewer workers than before."""
    removal = make_removal("a1", state=RemovalState.DRAINED)
    record = make_record(operation=make_scale_down(removal, cause=reason), worker_count=2, pod_count=2)
    settings = make_settings(min_workers=1, awake_min_workers=2)
    held = gates.may_terminate(removal, make_snapshot(make_nodes("a1", "a2")), record, settings)
    assert (held is None) is goes
    assert held is None or held.name == Gate.MINIMUM_KEPT


def test_a_zone_is_never_drained_to_zero_when_several_zones_exist() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2", "b1"))
    assert gates.keeps_zones(snapshot, make_record(), SETTINGS, [make_removal("a1")]).passed
    check = gates.keeps_zones(snapshot, make_record(), SETTINGS, [make_removal("b1")])
    assert values_of(check) == (Gate.ZONE_KEPT, False, 0, 1, "b")
    assert not gates.keeps_zones(
        snapshot, make_record(), SETTINGS, [make_removal("a1"), make_removal("a2")]
    ).passed


def test_the_only_zone_there_is_may_lose_a_worker_even_its_last() -> None:
    assert gates.keeps_zones(
        make_snapshot(make_nodes("a1")), make_record(), SETTINGS, [make_removal("a1")]
    ).passed


def test_an_unready_worker_does_not_keep_a_zone() -> None:
    nodes = [*make_nodes("a1", "b1"), make_node("b2", ready=False)]
    assert not gates.keeps_zones(make_snapshot(nodes), make_record(), SETTINGS, [make_removal("b1")]).passed


def test_a_pool_that_sleeps_may_empty_a_zone_and_keeps_none_for_the_others() -> None:
    pools = (make_pool(), make_pool("gpu", may_be_empty=True))
    settings = make_settings(pools=pools)
    nodes = [*make_nodes("a1", "b1"), make_node("b2", zone="b", pool="gpu"), make_node("c1", pool="gpu")]
    snapshot = make_snapshot(nodes)
    sleepers = [make_removal("c1", pool="gpu"), make_removal("b2", pool="gpu")]
    assert gates.keeps_zones(snapshot, make_record(), settings, sleepers).passed
    check = gates.keeps_zones(snapshot, make_record(), settings, [make_removal("b1")])
    assert values_of(check) == (Gate.ZONE_KEPT, False, 0, 1, "b")
    assert not gates.keeps_zones(snapshot, make_record(), SETTINGS, sleepers[:1]).passed


@pytest.mark.parametrize(("workers", "allowed"), [(1, 1), (9, 1), (19, 1), (20, 2), (100, 10)])
def test_at_most_a_tenth_of_the_workers_or_one_go_at_the_same_time(workers: int, allowed: int) -> None:
    snapshot = make_snapshot(make_nodes(*names(workers)))
    going = [make_removal(name) for name in names(workers)] + [make_removal("extra")]
    assert gates.cluster_room(snapshot, make_record(), SETTINGS, IDLE).count == allowed
    assert gates.within_budget(snapshot, make_record(), SETTINGS, going[:allowed], IDLE).passed
    assert not gates.within_budget(snapshot, make_record(), SETTINGS, going[: allowed + 1], IDLE).passed


def test_removals_in_progress_use_up_the_budget() -> None:
    snapshot = make_snapshot(make_nodes(*names(10)))
    busy = make_record(operation=make_scale_down(make_removal("a1")))
    check = gates.within_budget(snapshot, busy, SETTINGS, [make_removal("a2")], IDLE)
    assert values_of(check) == (Gate.WITHIN_BUDGET, False, 1, 0, "")
    left = gates.budget_left(snapshot, busy, SETTINGS, IDLE)
    assert values_of(left) == (Gate.BUDGET_LEFT, False, 0, 1, "")


DRAINED = make_removal("a1", state=RemovalState.DRAINED)


def draining(**overrides: object) -> Record:
    return make_record(operation=make_scale_down(DRAINED), **overrides)


def test_a_drained_node_may_be_terminated_when_every_gate_still_holds() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2", "a3"))
    assert gates.may_terminate(DRAINED, snapshot, draining(), SETTINGS) is None


@pytest.mark.parametrize(
    ("gate", "snapshot", "record"),
    [
        ("observation complete", make_snapshot(make_nodes("a1", "a2", "a3"), problems=("?",)), draining()),
        ("plausible", make_snapshot(make_nodes("a1", "a2", "a3"), pods=[]), draining()),
        ("cluster healthy", with_unready(9, 5), draining()),
        ("not paused", make_snapshot(make_nodes("a1", "a2", "a3")), draining(paused=True)),
        ("minimum kept", make_snapshot(make_nodes("a1", "a2")), draining()),
        ("zone kept", make_snapshot(make_nodes("a1", "b1", "b2")), draining()),
        (
            "within budget",
            make_snapshot(make_nodes("a1", "a2", "a3", "a4")),
            make_record(operation=make_scale_down(DRAINED, make_removal("a2"))),
        ),
    ],
)
def test_every_gate_is_asked_again_before_a_termination(
    gate: str, snapshot: Snapshot, record: Record
) -> None:
    failed = gates.may_terminate(DRAINED, snapshot, record, SETTINGS)
    assert failed is not None
    assert failed.name == gate


def test_only_gates_that_look_at_the_moment_are_waited_for() -> None:
    passing = {
        "observation complete",
        "plausible",
        "cluster healthy",
        "CPU known",
        "no pod pending",
        "pool well",
    }
    assert passing == gates.TRANSIENT


def test_placed_pods_are_those_on_nodes() -> None:
    assert gates.placed_pods(make_snapshot([make_node()], [make_daemon("a1"), make_daemon("")])) == 1


def test_what_the_cloud_refuses_holds_up_no_budget() -> None:
    kept = make_removal("a1", state=RemovalState.TERMINATING)
    assert gates.in_disruption(make_record(refused=(Refused("op", kept, NOW),))) == ()
    assert len(gates.in_disruption(make_record(operation=make_scale_down(kept)))) == 1


def test_a_removal_that_no_operation_has_any_more_counts_against_the_budget_for_idle_nodes() -> None:
    assert gates.reason_of(make_removal(), make_record()) is IDLE
