"""What a sleeping or waking pool asks of the nodes."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ebbtide.core.scale_to_zero.node_first import NeededByWakes, needed_by_wakes, ready_nodes, settings_for
from ebbtide.model.idle import Phase
from ebbtide.model.pod import PodPhase
from ebbtide.model.policy import Policy, Target
from ebbtide.model.snapshot import ClusterView
from tests.builders import make_node, make_pod, make_pool, make_record, make_settings, make_snapshot
from tests.policy_harness import make_policy, make_ref, make_state

SETTINGS = make_settings(pools=(make_pool("a", min_workers=2, max_workers=5), make_pool("b")), min_workers=3)


def of_pool(name: str = "a", **overrides: Any) -> Policy:
    return make_policy(target=Target(pool=name), **overrides)


def test_without_policies_of_pools_nothing_changes() -> None:
    assert settings_for(SETTINGS, []) is SETTINGS
    assert settings_for(SETTINGS, [(of_pool("gone"), make_state())]) is SETTINGS


def test_a_pool_that_was_asleep_when_it_was_taken_out_of_the_configuration_lowers_no_minimum() -> None:
    """Its policy and its state stay."""
    assert settings_for(SETTINGS, [(of_pool("gone"), make_state(Phase.ZERO))]) is SETTINGS


def test_a_pool_that_sleeps_may_be_empty_and_the_others_keep_their_minimum() -> None:
    found = settings_for(SETTINGS, [(of_pool(), make_state(Phase.ZERO))])
    assert [pool.min_workers for pool in found.pools] == [0, 0]
    assert (found.min_workers, found.awake_min_workers) == (1, 3)


def test_where_every_pool_sleeps_the_cluster_may_be_empty() -> None:
    both = [(of_pool(name), make_state(Phase.ZERO)) for name in ("a", "b")]
    found = settings_for(SETTINGS, both)
    assert (found.min_workers, found.awake_min_workers) == (0, 3)


def test_a_pool_that_is_awake_keeps_what_its_policy_asks_for() -> None:
    waking = [
        (of_pool("b", min_replicas=2), make_state(Phase.WAKING)),
        (of_pool(min_replicas=9), make_state()),
    ]
    found = settings_for(SETTINGS, waking)
    assert [pool.min_workers for pool in found.pools] == [5, 2]
    assert found.min_workers == 3


def test_a_disabled_policy_asks_for_nothing() -> None:
    idle = (of_pool("b", enabled=False), make_state())
    assert settings_for(SETTINGS, [idle]) is SETTINGS


def test_a_workload_that_wakes_is_named_and_nothing_else_changes() -> None:
    found = settings_for(SETTINGS, [(make_policy(), make_state(Phase.WAKING))])
    assert found == replace(SETTINGS, waking=(make_ref(),))
    assert settings_for(SETTINGS, [(make_policy(), make_state(Phase.IDLE))]) is SETTINGS


def test_a_pool_that_wakes_is_marked_also_where_its_policy_is_switched_off() -> None:
    for enabled in (True, False):
        woken = (of_pool("b", enabled=enabled), make_state(Phase.WAKING))
        found = settings_for(SETTINGS, [woken])
        assert [(pool.min_workers, pool.waking) for pool in found.pools] == [(2, False), (1, True)]


def test_a_pod_of_a_woken_workload_and_a_pool_that_lacks_nodes_do_not_wait() -> None:
    pod = make_pod("web-7d-x", node_name="", phase=PodPhase.PENDING, controller="ReplicaSet")
    snapshot = make_snapshot(nodes=[], pods=[pod])
    waking = make_pool("b", min_workers=2, waking=True)
    assert needed_by_wakes(snapshot, make_record(), SETTINGS) == NeededByWakes()
    woken = replace(SETTINGS, waking=(make_ref(),))
    assert needed_by_wakes(snapshot, make_record(), woken) == NeededByWakes((), "default/web-7d-x")
    both = replace(woken, pools=(waking,))
    found = needed_by_wakes(snapshot, make_record(), both)
    assert found == NeededByWakes((("b", 2),), "default/web-7d-x")
    other = replace(SETTINGS, waking=(make_ref("other"),))
    assert needed_by_wakes(snapshot, make_record(), other) == NeededByWakes()


def test_nodes_that_take_no_pods_do_not_make_a_pool_awake() -> None:
    nodes = (make_node("a1", ready=False), make_node("a2", unschedulable=True), make_node("a3", pool="x"))
    assert ready_nodes(ClusterView(nodes), "workers") == 0
    assert ready_nodes(ClusterView((*nodes, make_node("a4"))), "workers") == 1
