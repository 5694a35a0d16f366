"""The checks before anything is looked for, each with both numbers."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.consolidation.evaluate import explore
from ebbtide.core.consolidation.game_servers import STATUS
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.question import Question
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Record
from tests.builders import (
    NOW,
    CheckValues,
    lanes,
    make_pod,
    make_scale_up,
    make_spot,
    values_of,
)
from tests.unit.consolidation.builders import (
    HOUR,
    cluster,
    idle,
    node,
    pod,
    refusal,
    removed,
    report_on,
    rules,
    settings_with,
)

NODES = (node("a1"), node("a2", "cpx62"))


def test_nothing_is_looked_at_while_it_is_off() -> None:
    report = report_on(cluster(NODES), idle(*NODES), settings_with(rules(enabled=False)))
    assert report.failed is not None
    assert report.failed.name == "enabled"
    assert report.nodes == ()


@pytest.mark.parametrize(
    ("record", "expected"),
    [
        ({"last_consolidation_at": NOW - 7199}, ("cooled down", False, 7199, 7200, "")),
        (lanes(make_scale_up(id="up-1")), ("stable", False, None, None, "up-1")),
        ({"spots": (make_spot("a1"),)}, ("stable", False, 1, 0, "")),
        ({"paused": True, "pause_reason": "freeze"}, ("not paused", False, None, None, "freeze")),
        ({"worker_count": 20}, ("plausible", False, 2, 20, "workers")),
    ],
)
def test_a_record_that_forbids_it(record: dict[str, Any], expected: CheckValues) -> None:
    assert refusal(report_on(cluster(NODES), idle(*NODES, **record))) == expected


@pytest.mark.parametrize("since", [7199, 7200])
def test_a_brief_decision_is_the_same_and_only_leaves_out_what_it_need_not_look_at(since: int) -> None:
    snapshot, record = cluster(NODES), idle(*NODES, last_consolidation_at=NOW - since)
    settings = settings_with(scale_down_by="node", idle_down_seconds=9 * HOUR)
    whole, brief = (decide(snapshot, record, settings, NOW, "d", brief=short) for short in (False, True))
    assert whole.consolidation is not None
    assert brief.consolidation is not None
    assert whole.consolidation.nodes
    assert bool(brief.consolidation.nodes) == (since == 7200)
    assert (brief.action, brief.reason, brief.key) == (whole.action, whole.reason, whole.key)
    assert brief.consolidation.checks == whole.consolidation.checks
    assert brief.removals == whole.removals


def test_a_brief_decision_does_not_say_why_nodes_stay_where_the_savings_are_too_small() -> None:
    snapshot, record = cluster(NODES), idle(*NODES)
    dear = rules(min_savings_per_hour=Decimal(9))
    settings = settings_with(dear, scale_down_by="node", idle_down_seconds=9 * HOUR)
    whole, brief = (decide(snapshot, record, settings, NOW, "d", brief=short) for short in (False, True))
    assert whole.consolidation is not None
    assert brief.consolidation is not None
    assert whole.consolidation.failed is not None
    assert whole.consolidation.failed.name == "savings"
    assert {node.node_name for node in whole.consolidation.nodes} == {"a1", "a2"}
    assert brief.consolidation.nodes == ()
    assert (brief.action, brief.reason, brief.key) == (whole.action, whole.reason, whole.key)
    assert brief.consolidation.checks == whole.consolidation.checks


def test_two_hours_are_cooldown_enough() -> None:
    assert removed(report_on(cluster(NODES), idle(*NODES, last_consolidation_at=NOW - 7200))) == ["a2"]


def test_an_incomplete_look_forbids_it() -> None:
    report = report_on(cluster(NODES, problems=("the cloud did not answer",)), idle(*NODES))
    assert refusal(report) == ("observation complete", False, 1, 0, "")


@pytest.mark.parametrize(
    ("given", "starts"),
    [
        ({"phase": PodPhase.PENDING}, True),
        ({"ready": False, "created_at": NOW - 299}, True),
        ({"ready": False, "created_at": NOW - 300}, False),
        ({"labels": ((STATUS, "starting"),)}, True),
        ({"annotations": ((STATUS, "starting"),)}, True),
        ({"phase": PodPhase.PENDING, "terminating": True}, False),
        ({"phase": PodPhase.PENDING, "controller": "DaemonSet"}, False),
        ({"phase": PodPhase.SUCCEEDED, "labels": ((STATUS, "starting"),)}, False),
    ],
)
def test_a_pod_that_is_starting_forbids_it(given: dict[str, Any], starts: bool) -> None:
    report = report_on(cluster(NODES, [pod("new", NODES[0], **given)]), idle(NODES[1]))
    check = next(check for check in report.checks if check.name == "queue empty")
    found = (1, 0, "default/new") if starts else (0, 0, "")
    assert values_of(check) == ("queue empty", not starts, *found)


def test_a_daemon_that_waits_for_its_node_does_not_forbid_it() -> None:
    waiting = make_pod("agent", phase=PodPhase.PENDING, controller="DaemonSet")
    assert removed(report_on(cluster(NODES, [waiting]), idle(*NODES))) == ["a2"]


def test_exploring_shows_what_could_be_saved_although_it_is_off() -> None:
    seconds = iter(range(1000))
    question = Question(
        cluster(NODES), idle(*NODES), settings_with(rules(enabled=False, plan_seconds=HOUR)), NOW, "op"
    )
    report = explore(question, {}, lambda: float(next(seconds)))
    assert report.plan is None
    assert report.candidate is not None
    assert [removal.node_name for removal in report.candidate.empties] == ["a2"]
    assert report.failed is not None
    assert report.failed.name == "enabled"


def test_a_cluster_without_workers_is_no_reason_to_fail() -> None:
    report = report_on(cluster([]), Record())
    assert refusal(report) == ("enough nodes", False, 0, 2, "")
