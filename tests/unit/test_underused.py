"""Nodes judged one by one: underused for long enough, drainable, and their pods fit elsewhere together."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.timers import TimerTrouble, track
from ebbtide.core.nodes.underused import choose_underused, track_underused, used_share
from ebbtide.model.check import NodeCause
from ebbtide.model.decision import Action
from ebbtide.model.pod import Pod
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import JudgedBy
from ebbtide.model.snapshot import Load, Node, Reading
from tests.builders import (
    NOW,
    kept_by,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
)

ONE_BY_ONE = {"scale_down_by": JudgedBy.NODE, "idle_down_seconds": 300}


def long_underused(*names: str, seconds: int = 300) -> Record:
    return make_record(underused=tuple(Emptied(f"uid-{name}", NOW - seconds) for name in names))


def choose(
    nodes: tuple[Node, ...], pods: list[Pod] | None = None, *, record: Record, limit: int = 9, **settings: Any
) -> tuple[list[str], dict[str, tuple[NodeCause, str]]]:
    found = make_settings(**ONE_BY_ONE, **settings)
    removals, refusals = choose_underused(make_snapshot(nodes, pods), record, found, NOW, limit)
    return [r.node_name for r in removals], kept_by(refusals)


def on(node_name: str, cpu_milli: int, **overrides: Any) -> Pod:
    return make_pod(f"p-{node_name}-{cpu_milli}", cpu_milli, 100, node_name=node_name, **overrides)


def test_the_share_is_the_scarcer_resource_without_what_every_node_carries() -> None:
    daemon = on("a1", 2000, controller="DaemonSet")
    assert used_share(make_node(), Load((on("a1", 1000), daemon))) == 0.25
    assert used_share(make_node(), Load((make_pod("m", 100, 4096),))) == 0.5


def test_a_node_is_tracked_as_underused_from_when_it_was_first_seen_so() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2"), [on("a1", 2000), on("a2", 1999)])
    settings = make_settings(**ONE_BY_ONE)
    before = (Emptied("uid-a2", NOW - 50), Emptied("uid-gone", 7))
    assert track_underused(snapshot, before, settings, NOW) == (Emptied("uid-a2", NOW - 50),)
    assert track_underused(snapshot, before, make_settings(), NOW) == ()


def test_time_that_nobody_saw_is_not_counted_against_a_node() -> None:
    settings = make_settings(**ONE_BY_ONE)
    snapshot = make_snapshot(make_nodes("a1"), [on("a1", 100)])
    old = make_record(underused=(Emptied("uid-a1", NOW - 9000),), ticked_at=NOW - 4000)
    record, warnings = track(snapshot, old, settings, NOW)
    assert record.underused == (Emptied("uid-a1", NOW),)
    assert [warning.trouble for warning in warnings] == [TimerTrouble.NOT_TICKED]
    early = make_record(underused=(Emptied("uid-a1", NOW + 60),), ticked_at=NOW - 60)
    assert track(snapshot, early, settings, NOW)[0].underused == (Emptied("uid-a1", NOW),)


def test_the_least_used_goes_first_and_only_once_it_was_underused_for_long_enough() -> None:
    nodes = make_nodes("a1", "a2", "a3", "b1")
    pods = [on("a1", 1500), on("a2", 500), on("a3", 3000), on("b1", 3000)]
    record = make_record(underused=(Emptied("uid-a1", NOW - 299), Emptied("uid-a2", NOW - 300)))
    chosen, refusals = choose(nodes, pods, record=record)
    assert chosen == ["a2"]
    assert refusals["a1"] == (NodeCause.NOT_IDLE, "")
    assert refusals["a3"] == (NodeCause.IN_USE, "")


@pytest.mark.parametrize("underused", [(), ("a1",), ("a2", "a3"), ("a1", "a2", "a3", "b1")])
@pytest.mark.parametrize("names", [("a1", "a2", "a3", "b1"), ()])
def test_in_brief_the_same_workers_go_and_the_first_that_stays_says_why(
    underused: tuple[str, ...], names: tuple[str, ...]
) -> None:
    pods = [on(name, 400 + 900 * number) for number, name in enumerate(names)]
    snapshot, record = make_snapshot(make_nodes(*names), pods), long_underused(*underused)
    settings = make_settings(**ONE_BY_ONE)
    removals, refusals = choose_underused(snapshot, record, settings, NOW, 9)
    shortly, told = choose_underused(snapshot, record, settings, NOW, 9, brief=True)
    assert shortly == removals
    assert set(told) <= set(refusals)
    if not removals:
        assert told[:1] == refusals[:1]


def test_pods_of_all_that_go_must_fit_together_on_what_stays() -> None:
    nodes = make_nodes("a1", "a2", "a3", "b1", "b2")
    pods = [on(name, 1500) for name in ("a1", "a2", "a3", "b1", "b2")]
    chosen, refusals = choose(nodes, pods, record=long_underused("a1", "a2", "a3", "b1", "b2"))
    assert len(chosen) == 2, "two fit on each of the others, so three nodes hold all five"
    assert sum(cause is NodeCause.NO_PLACE for cause, _ in refusals.values()) >= 2


def test_zones_pools_batches_and_drain_rules_hold_as_for_every_scale_down() -> None:
    names = ("a1", "a2", "b1")
    empty = long_underused(*names)
    assert choose(make_nodes(*names), record=empty)[0] == ["a1"], "the last of a zone stays"
    assert choose(make_nodes("a1", "a2", "a3"), record=long_underused("a1", "a2", "a3"), limit=2)[0] == [
        "a1",
        "a2",
    ]
    kept = (make_pool(min_workers=3),)
    assert choose(make_nodes("a1", "a2", "a3"), record=long_underused("a1", "a2", "a3"), pools=kept)[0] == []
    bare = [on("a1", 100, controller="")]
    chosen, refusals = choose(make_nodes("a1", "a2", "a3"), bare, record=long_underused("a1"))
    assert chosen == []
    assert refusals["a1"] == (NodeCause.POD_BLOCKS, bare[0].full_name)


def test_a_cordoned_node_is_no_place_for_pods_and_no_target() -> None:
    nodes = (*make_nodes("a1", "a2"), make_node("a3", unschedulable=True))
    pods = [on("a1", 1500), on("a2", 3000)]
    chosen, refusals = choose(nodes, pods, record=long_underused("a1", "a2", "a3"))
    assert chosen == []
    assert "a3" not in refusals


def test_a_decision_removes_a_batch_by_share_although_the_cluster_is_busy() -> None:
    nodes = make_nodes(*(f"a{n}" for n in range(10)), *(f"b{n}" for n in range(10)))
    busy = [on(f"b{n}", 3000) for n in range(10)]
    names = [f"a{n}" for n in range(10)]
    record = make_record(
        underused=tuple(Emptied(f"uid-{name}", NOW - 300) for name in names), worker_count=20, pod_count=10
    )
    settings = make_settings(**ONE_BY_ONE, batch_down_fraction=0.20, budget_fraction=0.50, max_workers=30)
    snapshot = make_snapshot(nodes, busy, cpu=Reading(0.35, NOW))
    decision = decide(snapshot, record, settings, NOW, "d")
    assert decision.action is Action.SCALE_DOWN, decision.reason
    assert len(decision.removals) == 4
    assert decision.reason.endswith("empty or underused for at least 5 min")
    assert decide(snapshot, record, make_settings(max_workers=30), NOW, "d").action is Action.NOTHING
