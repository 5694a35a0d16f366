"""Scale-down happens only when every precondition holds; the first that fails is given with its values."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide
from ebbtide.model.check import Gate, NodeCause, Values
from ebbtide.model.decision import Action, Check, Decision, Verdict
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import (
    NOW,
    kept_by,
    make_daemon,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_scale_down,
    make_settings,
    make_snapshot,
    make_spot,
    values_of,
)

NODES = make_nodes("a1", "a2", "b1")


def calm(**overrides: Any) -> Record:
    """A record under which the idle cluster of `NODES` may shrink."""
    return make_record(**{"idle_since": NOW - 600, "worker_count": 3, "pod_count": 3, **overrides})


def decided(snapshot: Snapshot, record: Record | None = None, settings: Settings | None = None) -> Decision:
    return decide(snapshot, record or calm(), settings or make_settings(), NOW, "d1")


def verdict(decision: Decision, action: Action = Action.SCALE_DOWN) -> Verdict:
    return next(v for v in decision.verdicts if v.action is action)


def failed(decision: Decision) -> Check:
    assert decision.action is Action.NOTHING
    check = verdict(decision).failed
    assert check is not None
    assert f"no scale-down: {check.says}" in decision.reason, "what is not done is said with its reason"
    return check


def with_pod(*pods: Pod, nodes: tuple[Node, ...] = NODES) -> Snapshot:
    return make_snapshot(nodes, [*(make_daemon(node.name) for node in nodes), *pods])


def test_an_idle_cluster_above_its_minimum_loses_one_node() -> None:
    decision = decided(make_snapshot(NODES))
    assert decision.action is Action.SCALE_DOWN
    assert [r.node_name for r in decision.removals] == ["a1"]
    assert all(check.passed for check in verdict(decision).checks)


@pytest.mark.parametrize(("cpu", "low"), [(0.29, True), (0.30, False), (0.41, False), (float("nan"), False)])
def test_precondition_1_average_cpu_is_strictly_below_cpu_down(cpu: float, low: bool) -> None:
    decision = decided(make_snapshot(NODES, cpu=cpu))
    assert (decision.action is Action.SCALE_DOWN) is low
    if not low:
        check = failed(decision)
        assert (check.name, check.values) == ("CPU low", Values(cpu, 0.30))


def test_unknown_cpu_is_not_idle() -> None:
    check = failed(decided(make_snapshot(NODES, cpu=None)))
    assert (check.name, check.passed) == (Gate.CPU_KNOWN, False)


def test_precondition_1_no_pod_is_pending() -> None:
    check = failed(decided(with_pod(make_pod("web", phase=PodPhase.PENDING))))
    assert values_of(check) == (Gate.NO_POD_PENDING, False, 1, 0, "default/web")


@pytest.mark.parametrize(("since", "idle"), [(NOW - 599, 599), (0, 0)])
def test_precondition_1_the_cluster_has_been_idle_for_idle_down_sec(since: int, idle: int) -> None:
    check = failed(decided(make_snapshot(NODES), calm(idle_since=since)))
    assert values_of(check) == ("idle long enough", False, idle, 600, "")


def test_precondition_2_the_cooldown_is_satisfied() -> None:
    check = failed(decided(make_snapshot(NODES), calm(last_scale_at=NOW - 599)))
    assert values_of(check) == ("cooldown over", False, 599, 600, "")
    assert decided(make_snapshot(NODES), calm(last_scale_at=NOW - 600)).action is Action.SCALE_DOWN


def test_a_cluster_that_was_never_scaled_has_no_cooldown_even_when_its_clock_starts_at_zero() -> None:
    record = calm(idle_since=1)
    decision = decide(make_snapshot(NODES), record, make_settings(idle_down_seconds=10), 20, "d1")
    assert decision.action is Action.SCALE_DOWN


def test_precondition_3_the_minimum_is_preserved() -> None:
    check = failed(decided(make_snapshot(make_nodes("a1", "a2"))))
    assert values_of(check) == ("above minimum", False, 2, 2, "")


def test_an_unready_worker_is_none_to_count_on() -> None:
    nodes = (*make_nodes("a1", "a2"), make_node("a3", ready=False))
    assert failed(decided(make_snapshot(nodes))).name == "above minimum"


@pytest.mark.parametrize("strange", [{"control_plane": True}, {"system": True}, {"pool": ""}])
def test_reading_26_control_plane_system_and_foreign_nodes_are_neither_counted_nor_touched(
    strange: dict[str, object],
) -> None:
    outsiders = make_nodes("a1", "a2", "a3", **strange)
    assert failed(decided(make_snapshot((*outsiders, *make_nodes("b1", "b2"))))).name == "above minimum"
    decision = decided(make_snapshot((*outsiders, *make_nodes("b1", "b2", "b3"))))
    assert [r.node_name for r in decision.removals] == ["b1"]


def test_precondition_4_no_other_scaling_is_in_progress() -> None:
    check = failed(decided(make_snapshot(NODES), calm(operation=make_scale_down(id="op-7"))))
    assert values_of(check) == ("no operation in progress", False, None, None, "op-7")


def test_a_scale_down_never_races_a_spot_notice() -> None:
    check = failed(decided(make_snapshot(NODES), calm(spots=(make_spot("b1"),))))
    assert values_of(check) == ("no spot notice open", False, 1, 0, "")


def test_the_pause_switch_stops_removals() -> None:
    assert failed(decided(make_snapshot(NODES), calm(paused=True))).name == Gate.NOT_PAUSED


def test_an_incomplete_observation_is_no_ground_for_a_removal() -> None:
    check = failed(decided(make_snapshot(NODES, problems=("the cloud could not be read",))))
    assert values_of(check) == (Gate.COMPLETE, False, 1, 0, "")


def test_an_implausibly_smaller_cluster_is_not_shrunk_further() -> None:
    assert failed(decided(make_snapshot(NODES), calm(worker_count=9))).name == "plausible"


def test_removals_stop_when_more_than_45_percent_and_3_nodes_are_unready() -> None:
    nodes = (*NODES, *make_nodes("c1", "c2", "c3", "c4", ready=False))
    assert failed(decided(make_snapshot(nodes))).name == Gate.HEALTHY
    assert decided(make_snapshot(nodes[:-1])).action is Action.SCALE_DOWN, "3 are not more than 3"


def test_after_failures_a_growing_back_off_is_waited_out() -> None:
    check = failed(decided(make_snapshot(NODES), calm(removal_failures=2, removal_backoff_until=NOW + 30)))
    assert values_of(check) == ("back-off over", False, 30, 0, "")
    assert (
        decided(make_snapshot(NODES), calm(removal_failures=2, removal_backoff_until=NOW)).action
        is Action.SCALE_DOWN
    )


def test_no_node_goes_where_the_load_would_bring_it_back() -> None:
    settings = make_settings(cpu_down=0.60, cpu_up=0.70)
    check = failed(decided(make_snapshot(NODES, cpu=0.55), settings=settings))
    assert values_of(check) == ("load fits the rest", False, 0.825, 0.70, "")


def test_a_batch_is_only_as_large_as_the_load_allows() -> None:
    nodes = make_nodes(*(f"a{n}" for n in range(30)))
    settings = make_settings(max_batch_down=9, budget_fraction=0.5, max_workers=50, cpu_up=0.31)
    record = calm(worker_count=30, pod_count=30)
    decision = decide(make_snapshot(nodes, cpu=0.29), record, settings, NOW, "d1")
    assert len(decision.removals) == 1, "0.29 on 30 workers is 0.31 on 28"


@pytest.mark.parametrize(("batch", "minimum", "removed"), [(1, 2, 1), (9, 2, 3), (9, 28, 2)])
def test_at_most_a_batch_a_tenth_and_what_the_minimum_spares_go_at_once(
    batch: int, minimum: int, removed: int
) -> None:
    nodes = make_nodes(*(f"a{n}" for n in range(30)))
    settings = make_settings(max_batch_down=batch, min_workers=minimum, max_workers=50)
    decision = decided(make_snapshot(nodes), calm(worker_count=30, pod_count=30), settings)
    assert len(decision.removals) == removed


def test_reading_9_where_no_zone_may_be_emptied_nothing_is_done_and_the_first_node_is_named() -> None:
    check = failed(decided(make_snapshot(make_nodes("a1", "b1", "c1"))))
    assert values_of(check) == ("a node can go", False, 0, 1, "a1")


def test_every_node_that_was_skipped_is_named_with_its_reason() -> None:
    decision = decided(with_pod(make_pod("bare", node_name="a1", controller="")))
    assert [r.node_name for r in decision.removals] == ["a2"]
    (refusal,) = verdict(decision).refusals
    assert kept_by([refusal]) == {"a1": (NodeCause.POD_BLOCKS, "default/bare")}


def test_reading_25_a_worker_that_coredns_landed_on_stays_and_pod_and_setting_are_named() -> None:
    nodes = make_nodes("a1", "a2", "a3")
    dns = [make_pod(f"coredns-{n}", node_name=n, namespace="kube-system") for n in ("a1", "a2", "a3")]
    says = failed(decided(with_pod(*dns, nodes=nodes))).says
    assert "kube-system/coredns-a1" in says
    assert "movable_system_workloads" in says
    freed = decided(
        with_pod(*dns, nodes=nodes), settings=make_settings(movable_system_workloads=("coredns",))
    )
    assert freed.action is Action.SCALE_DOWN


def test_checks_are_asked_in_order_and_none_after_the_first_that_failed() -> None:
    checks = verdict(decided(make_snapshot(NODES, cpu=0.5))).checks
    assert [check.passed for check in checks] == [True] * (len(checks) - 1) + [False]
    assert checks[-1].name == "CPU low"
