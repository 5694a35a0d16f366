"""Scenarios 1 to 5 of the policy, by their names and with its numbers."""

from __future__ import annotations

from dataclasses import asdict
from decimal import Decimal

import pytest

from ebbtide.core.consolidation.evaluate import evaluation_fact
from ebbtide.model.check import NodeCause
from ebbtide.model.pod import PodPhase
from tests.builders import NOW, make_pod
from tests.unit.consolidation.builders import (
    cluster,
    fate,
    idle,
    node,
    refusal,
    removed,
    report_on,
    rules,
    settings_with,
)


def test_scenario_1_fresh_node_provisioning() -> None:
    fresh = node("a1", created_at=NOW - 300)
    report = report_on(cluster([fresh]), idle(fresh, seconds=300))
    says = "a1: it is 5 min old, at least 30 min required; 1 ready worker, at least 2 required"
    assert refusal(report) == ("enough nodes", False, 1, 2, "")
    assert evaluation_fact(report).reason == says, "the log gives the reason of the document: too young"
    assert fate(report, "a1") is NodeCause.TOO_YOUNG


def test_scenario_1_fresh_node_next_to_an_older_one_is_left_alone() -> None:
    fresh, old = node("a1", "cpx62", created_at=NOW - 300), node("a2")
    report = report_on(cluster([fresh, old]), idle(fresh, old))
    assert fate(report, "a1") is NodeCause.TOO_YOUNG
    assert report.candidate is not None
    assert [removal.node_name for removal in report.candidate.empties] == ["a2"]


def test_scenario_2_container_just_removed() -> None:
    emptied = node("a1", created_at=NOW - 3600)
    other = node("a2", "cpx62", created_at=NOW - 3600)
    report = report_on(cluster([emptied, other]), idle(emptied, other, seconds=120))
    why = "a1: it has been empty for 2 min, at least 15 min required"
    assert refusal(report) == ("nodes to remove", False, 0, 1, "")
    assert evaluation_fact(report).reason == f"{why}; 0 of 2 workers could be removed"
    alone = report_on(cluster([emptied]), idle(emptied, seconds=120))
    assert evaluation_fact(alone).reason.startswith(why), "also where it is the only node"
    assert fate(report, "a1") is NodeCause.NOT_IDLE


def test_scenario_3_queue_has_servers() -> None:
    nodes = [node("a1"), node("a2", "cpx62")]
    waiting = make_pod("server", phase=PodPhase.PENDING)
    report = report_on(cluster(nodes, [waiting]), idle(*nodes, seconds=1000))
    assert refusal(report) == ("queue empty", False, 1, 0, "default/server")


def test_scenario_4_valid_consolidation() -> None:
    small, middle, large = node("a789", "cpx32"), node("a123", "cpx42"), node("a456", "cpx62")
    nodes = [small, middle, large]
    report = report_on(cluster(nodes), idle(*nodes, seconds=1000))
    assert removed(report) == ["a123", "a456"]
    assert report.plan is not None
    assert report.plan.savings_per_hour == Decimal("0.1368")
    assert asdict(evaluation_fact(report)) == {
        "event": "consolidation.evaluated",
        "nodes_before": 3,
        "nodes_after": 1,
        "nodes_removed": ("a456", "a123"),
        "nodes_kept": ("a789",),
        "cost_savings_per_hour": 0.1368,
        "cost_savings_per_month": 99.86,
        "containers_migrated": 0,
        "reason": "2 nodes idle >15min, savings significant",
    }


@pytest.mark.parametrize("min_workers", [0, 1])
def test_scenario_5_always_keep_1_node(min_workers: int) -> None:
    nodes = [node("a1", "cpx62"), node("a2", "cpx62")]
    report = report_on(cluster(nodes), idle(*nodes), settings_with(min_workers=min_workers))
    assert removed(report) == ["a1"]
    assert fate(report, "a2") is NodeCause.MINIMUM


def test_scenario_5_a_pool_that_may_go_to_zero_keeps_none() -> None:
    nodes = [node("a1", "cpx62"), node("a2", "cpx62")]
    report = report_on(cluster(nodes), idle(*nodes), settings_with(rules(min_nodes=0), min_workers=0))
    assert removed(report) == ["a1", "a2"]


def test_thirty_minutes_of_age_and_fifteen_of_idleness_are_enough() -> None:
    nodes = [node("a1", "cpx62", created_at=NOW - 1800), node("a2", created_at=NOW - 1800)]
    assert removed(report_on(cluster(nodes), idle(*nodes, seconds=900))) == ["a1"]


def test_savings_of_exactly_the_threshold_are_enough() -> None:
    nodes = [node("a1", "cpx62"), node("a2", "cpx62")]
    exact = settings_with(rules(min_savings_per_hour=Decimal("0.1056")))
    assert removed(report_on(cluster(nodes), idle(*nodes), exact)) == ["a1"]


def test_a_small_fleet_is_told_by_how_much_it_falls_short() -> None:
    nodes = [node("a1"), node("a2")]
    report = report_on(cluster(nodes), idle(*nodes))
    assert refusal(report) == ("savings", False, 0.0168, 0.1, "")
    assert evaluation_fact(report).reason == "savings 0.0168 EUR/h fall short of 0.10 by 0.0832"
    assert evaluation_fact(report).nodes_after == 2
