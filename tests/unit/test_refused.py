"""Removals that the cloud refuses: kept, tried again at a slow pace, never released."""

from __future__ import annotations

from typing import Any

from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.orphans import dead_nodes, stray_cordons, taken_up_again
from ebbtide.model.decision import Action, Decision
from ebbtide.model.operation import RemovalState, ScaleDown
from ebbtide.model.record import Record, Refused
from ebbtide.model.snapshot import InstanceState, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_snapshot,
)
from tests.unit.operations.builders import cordoned

KEPT = make_removal(
    "a1", state=RemovalState.TERMINATING, refused_since=NOW - 900, terminated=True, reason="no"
)
OTHERS = make_nodes("a2", "b1", "b2")
PODS = [make_pod(f"web-{node.name}", node_name=node.name) for node in OTHERS]
SEEN = make_snapshot((cordoned("a1"), *OTHERS), PODS, cpu=0.5)


def record_with(retry_at: int, **overrides: Any) -> Record:
    return make_record(refused=(Refused("op", KEPT, retry_at),), **overrides)


def decided(record: Record, snapshot: Snapshot = SEEN) -> Decision:
    return decide(snapshot, record, make_settings(), NOW, "d1")


def test_it_is_asked_for_again_when_its_time_has_come_and_not_before() -> None:
    assert decided(record_with(NOW + 1)).action is Action.NOTHING
    decision = decided(record_with(NOW))
    assert decision.action is Action.RETRY
    after = taken_up_again(record_with(NOW), decision)
    assert after.refused == ()
    assert isinstance(after.removing, ScaleDown)
    assert (after.removing.id, after.removing.excused) == ("op", True)
    assert [removal.state for removal in after.removing.removals] == [RemovalState.TERMINATING]


def test_it_is_finished_at_once_when_its_instance_is_gone() -> None:
    gone = make_instance("i-a1", state=InstanceState.GONE)
    instances = [gone, *(make_instance(f"i-{node.name}") for node in OTHERS)]
    snapshot = make_snapshot(SEEN.cluster.nodes, PODS, instances=instances, cpu=0.5)
    assert decided(record_with(NOW + 900), snapshot).action is Action.RETRY


def test_it_waits_for_a_removal_and_a_pause_but_not_for_a_launch() -> None:
    assert decided(record_with(NOW, removing=make_scale_down(id="other"))).action is Action.NOTHING
    assert decided(record_with(NOW, paused=True)).action is Action.NOTHING
    assert decided(record_with(NOW, launching=make_scale_up())).action is Action.RETRY


def test_others_of_another_operation_stay_as_they_are() -> None:
    other = Refused("other", make_removal("b1", state=RemovalState.TERMINATING), NOW)
    record = make_record(refused=(Refused("op", KEPT, NOW), other))
    decision = decided(record)
    assert [removal.node_name for removal in decision.removals] == ["a1"]
    assert taken_up_again(record, decision).refused == (other,)


def test_its_node_is_neither_a_stray_cordon_nor_a_dead_node() -> None:
    record = record_with(NOW + 900)
    assert stray_cordons(SEEN, record) == ()
    dead = make_snapshot((cordoned("a1", ready=False, instance_id="i-a1"), *OTHERS), PODS, instances=[])
    assert dead_nodes(dead, record) == ()
