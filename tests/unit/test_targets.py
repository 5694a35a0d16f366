"""Which nodes go: fullest zone first, oldest first, and every node skipped is named."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.prices import CATALOGUE
from ebbtide.model.check import NodeCause
from ebbtide.model.pod import Budget, Pod, Resources
from ebbtide.model.record import DrainBackoff, Record
from ebbtide.model.snapshot import Node, Ownership
from tests.builders import (
    A_DAY_AGO,
    NOW,
    kept_by,
    make_budget,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
    make_spot,
)


def choose(
    nodes: tuple[Node, ...],
    pods: list[Pod] | None = None,
    *,
    limit: int = 1,
    record: Record | None = None,
    budgets: tuple[Budget, ...] = (),
    **settings: Any,
) -> tuple[list[str], dict[str, tuple[NodeCause, str]]]:
    """Names of the nodes chosen, and the cause for each node skipped."""
    snapshot = make_snapshot(nodes, pods, budgets=budgets)
    removals, refusals = choose_targets(
        snapshot, record or make_record(), make_settings(**settings), NOW, limit
    )
    return [r.node_name for r in removals], kept_by(refusals)


def aged(name: str, days: int, **overrides: Any) -> Node:
    return make_node(name, created_at=NOW - days * 86_400, **overrides)


def test_the_fullest_zone_comes_first() -> None:
    nodes = (aged("a1", 9), aged("a2", 9), aged("b1", 1), aged("b2", 1), aged("b3", 1))
    assert choose(nodes)[0] == ["b1"], "although the nodes in a are older"


def test_in_a_zone_the_oldest_node_goes_first() -> None:
    assert choose((aged("a1", 1), aged("a2", 3), aged("a3", 2)))[0] == ["a2"]


def test_of_equally_full_zones_the_oldest_node_goes_first() -> None:
    nodes = (aged("a1", 1), aged("a2", 3), aged("b1", 9), aged("b2", 2))
    assert choose(nodes)[0] == ["b1"]
    assert choose(nodes, preferred_zones=("b",))[0] == ["b1"], "a preferred zone is the last tie-break"


def test_of_equally_old_nodes_the_most_expensive_goes_first() -> None:
    pools = (make_pool(types=(CATALOGUE["cpx32"], CATALOGUE["cpx62"])),)
    nodes = (make_node("a1", instance_type="cpx32"), make_node("a2", instance_type="cpx62"))
    assert choose(nodes, pools=pools)[0] == ["a2"]
    unknown = make_node("a0", instance_type="other")
    assert choose((unknown, *nodes), pools=pools, limit=3)[0] == ["a2", "a1", "a0"]


def test_zones_are_counted_again_after_each_choice() -> None:
    nodes = make_nodes("a1", "a2", "a3", "b1", "b2", "b3")
    assert choose(nodes, limit=4)[0] == ["a1", "b1", "a2", "b2"]


def test_a_node_with_a_birthday_in_the_future_counts_as_new() -> None:
    nodes = (aged("a1", -5), aged("a2", 0), aged("a3", -9))
    assert choose(nodes, limit=3)[0] == ["a1", "a2", "a3"]


def test_the_last_ready_worker_of_a_zone_stays_when_several_zones_exist() -> None:
    """Reading 9: avoiding to empty a zone can leave no target; then nothing is chosen, with the reason."""
    chosen, refusals = choose(make_nodes("a1", "b1", "c1"), limit=3)
    assert chosen == []
    assert refusals == {f"{z}1": (NodeCause.LAST_IN_ZONE, z) for z in "abc"}


def test_a_pool_that_sleeps_gives_up_its_zones_and_another_keeps_its_own() -> None:
    pools = (make_pool(), make_pool("gpu", may_be_empty=True))
    nodes = (*make_nodes("a1", "b1"), make_node("b2", pool="gpu"), make_node("c1", pool="gpu"))
    chosen, refusals = choose(nodes, limit=4, pools=pools)
    assert chosen == ["b2", "c1"]
    assert refusals == {f"{z}1": (NodeCause.LAST_IN_ZONE, z) for z in "ab"}


def test_a_pool_that_is_awake_keeps_the_minimum_of_the_cluster_while_another_sleeps() -> None:
    """`workerCount - toRemove >= minWorkers`: what sleeps may go, and nothing else because of it."""
    pools = (make_pool(), make_pool("gpu", may_be_empty=True))
    asleep: dict[str, Any] = {"pools": pools, "min_workers": 1, "awake_min_workers": 2}
    nodes = (*make_nodes("a1", "a2"), make_node("a3", pool="gpu"), make_node("a4", pool="gpu"))
    chosen, refusals = choose(nodes, limit=4, **asleep)
    assert chosen == ["a3", "a4"]
    assert refusals == dict.fromkeys(("a1", "a2"), (NodeCause.POOL_MINIMUM, "workers"))
    chosen, _ = choose((*nodes, make_node("a5")), limit=4, **asleep)
    assert chosen == ["a1", "a3", "a4"]


def test_an_unready_worker_does_not_make_a_node_expendable() -> None:
    nodes = (*make_nodes("a1", "b1"), make_node("b2", ready=False))
    assert choose(nodes, limit=3)[0] == []


def test_a_single_zone_may_shrink() -> None:
    assert choose(make_nodes("a1", "a2"), limit=2)[0] == ["a1", "a2"]


def test_a_removal_knows_instance_node_zone_and_pool() -> None:
    removals, _ = choose_targets(make_snapshot(make_nodes("a1")), make_record(), make_settings(), NOW, 1)
    (removal,) = removals
    assert (removal.instance_id, removal.node_name, removal.node_uid) == ("i-a1", "a1", "uid-a1")
    assert (removal.zone, removal.pool) == ("a", "workers")


@pytest.mark.parametrize(
    ("overrides", "cause"),
    [
        ({"provider_id": ""}, (NodeCause.NO_INSTANCE, "")),
        ({"unschedulable": True}, (NodeCause.CORDONED, "")),
        ({"owner": Ownership("op", 1, cordoned=False)}, (NodeCause.MARKED, "op")),
        ({"pool": "old"}, (NodeCause.NO_POOL, "old")),
    ],
)
def test_a_node_that_is_not_ours_to_remove_is_skipped_with_the_reason(
    overrides: dict[str, object], cause: tuple[NodeCause, str]
) -> None:
    nodes = (aged("a1", 9, **overrides), aged("a2", 1))
    assert choose(nodes) == (["a2"], {"a1": cause})


def test_reading_4_a_node_that_would_not_drain_rests_before_it_is_chosen_again() -> None:
    record = make_record(
        rests=(DrainBackoff("i-b7", NOW, "?"), DrainBackoff("i-a1", NOW + 60, "it would not drain"))
    )
    rests = {"a1": (NodeCause.BACKED_OFF, "")}
    assert choose(make_nodes("a1", "a2"), record=record) == (["a2"], rests)


def test_a_pool_at_its_minimum_is_skipped_and_another_pool_serves() -> None:
    pools = (make_pool(), make_pool("gpu", min_workers=2))
    nodes = (*make_nodes("a1", "a2", "a3", pool="gpu", created_at=A_DAY_AGO - 9), make_node("a4"))
    chosen, refusals = choose(nodes, limit=2, pools=pools)
    assert chosen == ["a1", "a4"]
    assert refusals == dict.fromkeys(("a2", "a3"), (NodeCause.POOL_MINIMUM, "gpu"))


def test_a_node_with_a_pod_that_cannot_be_evicted_is_skipped_and_the_pod_named() -> None:
    pods = [make_pod("bare", node_name="a1", controller=""), make_pod("web", node_name="a2")]
    chosen, refusals = choose(make_nodes("a1", "a2"), pods)
    assert chosen == ["a2"]
    assert refusals == {"a1": (NodeCause.POD_BLOCKS, "default/bare")}


def test_a_node_whose_pod_is_leaving_by_itself_is_left_in_peace() -> None:
    pods = [make_pod("web", node_name="a1", terminating=True)]
    assert choose(make_nodes("a1", "a2"), pods)[1] == {"a1": (NodeCause.POD_WAITS, "default/web")}


def test_a_used_up_disruption_budget_keeps_a_node() -> None:
    pods = [make_pod("web", node_name="a1", labels=(("app", "web"),))]
    chosen, refusals = choose(make_nodes("a1", "a2"), pods, budgets=(make_budget(0, app="web"),))
    assert chosen == ["a2"]
    assert refusals == {"a1": (NodeCause.POD_WAITS, "default/web")}


def test_a_node_that_is_skipped_uses_up_no_disruption_budget_of_others() -> None:
    labels = (("app", "web"),)
    pods = [
        make_pod("web-1", node_name="a1", labels=labels),
        make_pod("bare", node_name="a1", controller=""),
        make_pod("web-2", node_name="a2", labels=labels),
    ]
    assert choose(make_nodes("a1", "a2"), pods, budgets=(make_budget(1, app="web"),))[0] == ["a2"]


def test_the_pods_of_a_node_must_fit_elsewhere() -> None:
    pods = [make_pod(f"p-{name}", cpu_milli=2500, node_name=name) for name in ("a1", "a2", "a3")]
    chosen, refusals = choose(make_nodes("a1", "a2", "a3"), pods)
    assert chosen == []
    assert refusals["a1"] == (NodeCause.NO_PLACE, "default/p-a1")


def test_the_pods_of_all_nodes_that_go_together_must_fit_on_what_is_left() -> None:
    pods = [make_pod(f"p-{name}", cpu_milli=2000, node_name=name) for name in ("a1", "a2", "a3")]
    chosen, refusals = choose(make_nodes("a1", "a2", "a3"), pods, limit=2)
    assert chosen == ["a1"]
    assert refusals == {
        "a2": (NodeCause.NO_PLACE, "default/p-a2"),
        "a3": (NodeCause.NO_PLACE, "default/p-a3"),
    }


def test_daemonset_and_mirror_pods_need_no_other_node() -> None:
    heavy = Resources(4000, 8192)
    pods = [
        make_pod("agent", node_name="a1", controller="DaemonSet", requests=heavy),
        make_pod("static", node_name="a1", mirror=True, requests=heavy),
        make_pod("web", node_name="a2", cpu_milli=4000),
    ]
    assert choose(make_nodes("a1", "a2"), pods)[0] == ["a1"]


def test_nothing_is_placed_on_a_node_that_is_itself_about_to_go() -> None:
    pods = [make_pod("web", node_name="a1", cpu_milli=2500), make_pod("db", node_name="a2", cpu_milli=2500)]
    record = make_record(spots=(make_spot("a3"),))
    assert choose(make_nodes("a1", "a2", "a3"), pods, record=record)[0] == []


def test_a_node_that_was_skipped_is_not_asked_again_for_the_same_batch() -> None:
    pods = [make_pod("bare", node_name="a1", controller="")]
    chosen, refusals = choose(make_nodes("a1", "a2", "a3"), pods, limit=2)
    assert chosen == ["a2", "a3"]
    assert list(refusals) == ["a1"]


def test_a_try_that_fails_leaves_no_trace_for_the_next_node() -> None:
    """The first pod of a1 finds the only GPU elsewhere, its second does not; a2 then needs that GPU."""
    gpu = Resources(100, 100, (("nvidia.com/gpu", 1),))
    nodes = [
        make_node("a1", created_at=1, allocatable=Resources(2000, 4096, (("nvidia.com/gpu", 2),))),
        make_node("a2", created_at=2, allocatable=Resources(2000, 4096, (("nvidia.com/gpu", 1),))),
        make_node("a3", created_at=3, allocatable=Resources(2000, 4096, (("nvidia.com/gpu", 1),))),
    ]
    pods = [
        make_pod("one", node_name="a1", requests=gpu),
        make_pod("two", node_name="a1", requests=gpu),
        make_pod("three", node_name="a2", requests=gpu),
    ]
    removals, refusals = choose_targets(make_snapshot(nodes, pods), make_record(), make_settings(), NOW, 1)
    assert [removal.node_name for removal in removals] == ["a2"]
    assert [refusal.node_name for refusal in refusals] == ["a1"]
