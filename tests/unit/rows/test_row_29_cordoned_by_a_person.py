"""Row 29: what a person cordoned is no capacity, but counts towards the maximum."""

from __future__ import annotations

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import enlisted, standing, total
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.nodes.timers import track
from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.decision import Action
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node
from tests.builders import (
    NOW,
    CheckValues,
    kept_by,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_settings,
    make_snapshot,
    values_of,
)
from tests.unit.operations.builders import cordoned

SETTINGS = make_settings(idle_down_seconds=0, cooldown_down_seconds=0)


def by_person(name: str) -> Node:
    return make_node(name, unschedulable=True)


def idle(nodes: tuple[Node, ...]) -> Record:
    return make_record(idle_since=1, ticked_at=NOW - 60, worker_count=len(nodes))


def failed(nodes: tuple[Node, ...], cpu: float = 0.10, settings: Settings = SETTINGS) -> CheckValues:
    decision = decide(make_snapshot(nodes, cpu=cpu), idle(nodes), settings, NOW, "d")
    assert decision.action is Action.NOTHING
    return values_of(next(v.failed for v in decision.verdicts if v.action is Action.SCALE_DOWN))


def test_the_minimum_counts_only_what_is_ready_and_schedulable() -> None:
    nodes = (*make_nodes("a1", "b1"), by_person("a2"))
    assert failed(nodes) == ("above minimum", False, 2, 2, "")
    check = gates.keeps_minimum(make_snapshot(nodes), make_record(), SETTINGS, (make_removal("a1"),))
    assert values_of(check) == ("minimum kept", False, 1, 2, "")


def test_a_zone_is_not_kept_by_a_worker_that_takes_no_pod() -> None:
    nodes = (*make_nodes("a1", "b1", "b2"), by_person("a2"))
    check = gates.keeps_zones(make_snapshot(nodes), make_record(), SETTINGS, (make_removal("a1"),))
    assert values_of(check) == ("zone kept", False, 0, 1, "a")
    removals, refusals = choose_targets(make_snapshot(nodes), make_record(), SETTINGS, NOW, 3)
    assert [removal.node_name for removal in removals] == ["b1"]
    kept = kept_by(refusals)
    assert (kept["a1"], kept["a2"]) == ((NodeCause.LAST_IN_ZONE, "a"), (NodeCause.CORDONED, ""))


def test_the_load_of_all_must_fit_on_what_is_schedulable() -> None:
    """Five Ready workers at 0.29; two of the three that are schedulable would have to carry all of it."""
    nodes = (*make_nodes("a1", "a2", "b1"), by_person("a3"), by_person("b2"))
    assert failed(nodes, 0.29) == (Gate.LOAD_FITS, False, 0.725, 0.7, "")


def test_a_cluster_is_short_of_workers_when_a_person_cordons_them_but_not_when_we_do() -> None:
    nodes = (*make_nodes("b1"), by_person("a1"))
    record, _ = track(make_snapshot(nodes), make_record(ticked_at=NOW - 60), SETTINGS, NOW)
    assert record.short_since == NOW
    ours = (*make_nodes("b1"), cordoned("a1"))
    record, _ = track(make_snapshot(ours), make_record(ticked_at=NOW - 60), SETTINGS, NOW)
    assert record.short_since == 0, "it is about to be given back"
    assert [node.name for node in enlisted(make_snapshot(ours), make_record())] == ["b1", "a1"]


def test_the_cordoned_ones_count_towards_the_maximum() -> None:
    nodes = (*make_nodes("a1", "b1"), by_person("a2"))
    snapshot = make_snapshot(nodes, [make_pod("web", node_name="a1")], cpu=0.9)
    assert (len(standing(snapshot, make_record())), total(snapshot, make_record())) == (2, 3)
    decision = decide(snapshot, make_record(), make_settings(max_workers=3), NOW, "d")
    assert decision.action is Action.NOTHING
    up = next(v.failed for v in decision.verdicts if v.action is Action.SCALE_UP)
    assert values_of(up) == ("below maximum", False, 3, 3, "")
