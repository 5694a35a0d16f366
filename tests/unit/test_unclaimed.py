"""Nodes that no pool claims: which there are, and that the minimum alone launches nothing in their place."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.orphans import claimable, says_uncounted, uncounted
from ebbtide.model.decision import Action, Decision
from ebbtide.model.pod import PodPhase
from ebbtide.model.snapshot import ClusterView, Market, Node
from tests.builders import (
    NOW,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
    make_type,
)


def loose(name: str, **overrides: Any) -> Node:
    """A worker that was there before Ebbtide."""
    return make_node(name, **{"pool": "", **overrides})


def short(*nodes: Node, **settings: Any) -> Decision:
    """Below the minimum for long enough."""
    record = make_record(short_since=NOW - 3600)
    return decide(make_snapshot(nodes), record, make_settings(min_workers=2, **settings), NOW, "d1")


def test_control_plane_and_system_nodes_are_not_meant_and_workers_are_counted() -> None:
    nodes = (make_node("a1"), loose("a2"), loose("a3", control_plane=True), loose("a4", system=True))
    assert [node.name for node in uncounted(ClusterView(nodes))] == ["a2"]


@pytest.mark.parametrize(
    ("node", "pool"),
    [
        (loose("a1"), "workers"),
        (loose("a1", zone="a-dc14"), "workers"),
        (loose("a1", zone="c"), None),
        (loose("a1", zone="ab"), None),
        (loose("a1", instance_type="large"), None),
        (loose("a1", market=Market.SPOT), None),
        (loose("a1", ready=False), None),
        (loose("a1", unschedulable=True), None),
        (make_node("a1"), None),
    ],
)
def test_a_pool_could_claim_what_has_its_type_zone_and_market_and_works(node: Node, pool: str | None) -> None:
    assert claimable(ClusterView((node,)), (make_pool(),)).get("a1") == pool


def test_the_first_pool_that_fits_claims_a_node() -> None:
    pools = (make_pool("big", types=(make_type("large"),)), make_pool("one"), make_pool("two"))
    assert claimable(ClusterView((loose("a1"),)), pools) == {"a1": "one"}


def test_the_minimum_launches_nothing_in_the_place_of_nodes_that_could_be_adopted() -> None:
    decision = short(loose("a1"), loose("b1"))
    assert decision.action is Action.NOTHING
    assert (
        "no scale-up: 2 nodes that no pool claims are not counted (a1, b1): "
        "take them over with `ebbtide adopt`, or label them ebbtide.dev/system=true"
    ) in decision.reason


def test_neither_does_the_minimum_of_a_pool() -> None:
    pool = make_pool(min_workers=2)
    assert short(loose("a1"), loose("b1"), pools=(pool,)).action is Action.NOTHING


def test_what_is_missing_beyond_them_is_launched() -> None:
    decision = short(loose("a1"))
    assert decision.action is Action.SCALE_UP
    assert len(decision.slots) == 1


def test_of_a_half_adopted_pool_nothing_is_launched_either() -> None:
    assert short(make_node("a1"), loose("b1")).action is Action.NOTHING


def test_nodes_that_are_marked_or_that_no_pool_could_claim_count_for_nothing() -> None:
    for nodes in (
        (loose("a1", system=True), loose("b1", system=True)),
        (loose("a1", instance_type="large"), loose("b1", zone="z")),
    ):
        decision = short(*nodes)
        assert decision.action is Action.SCALE_UP
        assert len(decision.slots) == 2


def test_pods_that_are_pending_get_a_node_all_the_same() -> None:
    nodes = (loose("a1"), loose("b1"))
    full = [make_pod(f"full-{node.name}", 4000, node_name=node.name) for node in nodes]
    snapshot = make_snapshot(nodes, [*full, make_pod("web", 1000, phase=PodPhase.PENDING)])
    record = make_record(short_since=NOW - 3600, pending_since=NOW - 3600)
    decision = decide(snapshot, record, make_settings(min_workers=2), NOW, "d1")
    assert decision.action is Action.SCALE_UP
    assert len(decision.slots) == 1
    assert "MIN_WORKERS" not in decision.reason


@pytest.mark.parametrize(
    ("names", "says"),
    [
        (["b", "a"], "2 nodes that no pool claims are not counted (a, b): take them over"),
        (["a"], "1 node that no pool claims is not counted (a): take it over"),
        (list("abcde"), "5 nodes that no pool claims are not counted (a, b, c and 2 more): take them over"),
    ],
)
def test_the_sentence_names_some_and_counts_the_rest(names: list[str], says: str) -> None:
    assert says_uncounted(names).startswith(says)
