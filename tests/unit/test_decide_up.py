"""Scale-up: hot CPU, pending pods, or too few workers; within cooldown, back-off and maximum."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide
from ebbtide.model.decision import Action, Check, Decision
from ebbtide.model.operation import SlotState
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import Counted, Record
from ebbtide.model.snapshot import Market, Snapshot
from tests.builders import (
    NOW,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
    make_type,
    values_of,
)

NODES = make_nodes("a1", "b1")
FULL = [make_pod(f"full-{node.name}", 4000, node_name=node.name) for node in NODES]


def waiting(name: str = "web", cpu_milli: int = 1000) -> Pod:
    return make_pod(name, cpu_milli, phase=PodPhase.PENDING)


QUEUE = make_snapshot(NODES, [*FULL, waiting()])
HOT = make_snapshot(NODES, cpu=0.90)
NOTHING_TO_LAUNCH = ("something to launch", False, 0, 1, "")


def decided(snapshot: Snapshot, record: Record | None = None, **settings: Any) -> Decision:
    return decide(snapshot, record or make_record(), make_settings(**settings), NOW, "d1")


def waited(seconds: int, **overrides: Any) -> Record:
    return make_record(pending_since=NOW - seconds, **overrides)


def failed(decision: Decision) -> Check:
    assert decision.action is Action.NOTHING
    check = next(v.failed for v in decision.verdicts if v.action is Action.SCALE_UP)
    assert check is not None
    said = next(part for part in decision.reason.split("; ") if part.startswith("no scale-up"))
    assert said.endswith(f": {check.says}")
    return check


@pytest.mark.parametrize(("cpu", "hot"), [(0.71, True), (0.70, False), (0.5, False)])
def test_cpu_strictly_above_cpu_up_asks_for_a_node(cpu: float, hot: bool) -> None:
    decision = decided(make_snapshot(NODES, cpu=cpu))
    assert (decision.action is Action.SCALE_UP) is hot
    if hot:
        assert [(slot.instance_type, slot.zone) for slot in decision.slots] == [("small", "a")]
    else:
        assert values_of(failed(decision)) == ("pressure", False, cpu, 0.70, "")


def test_pods_that_have_been_pending_for_pending_up_sec_ask_for_a_node() -> None:
    decision = decided(QUEUE, waited(180))
    assert decision.action is Action.SCALE_UP
    pressure = next(check for check in decision.verdicts[-1].checks if check.name == "pressure")
    assert values_of(pressure) == ("pressure", True, 180, 180, "default/web")


def test_pods_that_have_not_waited_long_enough_are_given_both_values() -> None:
    check = failed(decided(QUEUE, waited(179)))
    assert values_of(check) == ("pressure", False, 179, 180, "default/web")
    assert values_of(failed(decided(QUEUE))) == ("pressure", False, 0, 180, "default/web")


def test_unknown_cpu_is_no_pressure() -> None:
    check = failed(decided(make_snapshot(NODES, cpu=None)))
    assert values_of(check) == ("pressure", False, None, 0.70, "")


def test_pending_pods_get_a_node_although_cpu_is_unknown() -> None:
    snapshot = make_snapshot(NODES, [*FULL, waiting()], cpu=None)
    assert decided(snapshot, waited(180)).action is Action.SCALE_UP


def test_very_hot_workers_get_as_many_nodes_as_it_takes_up_to_a_batch() -> None:
    hot = make_snapshot(make_nodes("a1", "a2", "b1", "b2"), cpu=1.0)
    assert [slot.zone for slot in decided(hot).slots] == ["a", "b"]
    assert len(decided(hot, max_batch_up=1).slots) == 1


def test_fewer_ready_workers_than_the_minimum_are_made_up_for() -> None:
    alone = make_snapshot(make_nodes("a1"))
    assert failed(decided(alone, make_record(short_since=NOW - 179))).name == "pressure"
    decision = decided(alone, make_record(short_since=NOW - 180))
    assert [(slot.instance_type, slot.zone) for slot in decision.slots] == [("small", "b")]


def test_a_pool_below_its_own_minimum_is_made_up_for_in_that_pool() -> None:
    expensive = make_type("dear", price="9")
    pools = (
        make_pool(),
        make_pool("gpu", types=(expensive,), min_workers=2),
        make_pool("third", min_workers=1),
    )
    record = make_record(short_since=NOW - 180)
    decision = decided(make_snapshot(NODES), record, pools=pools, max_batch_up=5)
    assert sorted(slot.pool for slot in decision.slots) == ["gpu", "gpu", "third"]
    assert decision.reason.endswith(
        ": pool gpu lacks 2 workers of its minimum; pool third lacks 1 workers of its minimum"
    )
    there = make_snapshot((*NODES, *make_nodes("a2", "b2", pool="gpu")))
    spots = (make_spot("b1", slot=make_slot("spot-0", pool="third")),)
    satisfied = make_record(short_since=NOW - 180, spots=spots)
    assert {slot.pool for slot in decided(there, satisfied, pools=pools, min_workers=9).slots} == {"workers"}


def test_workers_on_their_way_are_not_made_up_for_twice() -> None:
    spots = (make_spot("b1", slot=make_slot("spot-0", zone="b")),)
    record = make_record(short_since=NOW - 180, spots=spots)
    decision = decided(make_snapshot(make_nodes("a1")), record, min_workers=3, max_batch_up=5)
    assert len(decision.slots) == 1, "one stands, one is expected, one is missing"


def test_a_scale_up_waits_for_its_own_cooldown() -> None:
    check = failed(decided(HOT, make_record(last_scale_at=NOW - 299)))
    assert values_of(check) == ("cooldown over", False, 299, 300, "")
    assert decided(HOT, make_record(last_scale_at=NOW - 300)).action is Action.SCALE_UP


def test_queued_pods_with_no_worker_at_all_skip_the_cooldown() -> None:
    server = make_node("a9", control_plane=True, unschedulable=True)
    agent = make_pod("agent", node_name="a9")
    decision = decided(make_snapshot([server], [agent, waiting()]), waited(180, last_scale_at=NOW - 1))
    assert decision.action is Action.SCALE_UP
    up = decision.verdicts[-1]
    (cooldown,) = [check for check in up.checks if check.name == "cooldown over"]
    assert values_of(cooldown) == ("cooldown over", True, None, 0, "")


def test_queued_pods_next_to_a_worker_do_not_skip_the_cooldown() -> None:
    assert failed(decided(QUEUE, waited(180, last_scale_at=NOW - 1))).name == "cooldown over"


def test_after_failures_a_back_off_is_waited_out() -> None:
    check = failed(decided(HOT, make_record(launch_failures=1, launch_backoff_until=NOW + 60)))
    assert values_of(check) == ("back-off over", False, 60, 0, "")


def test_nothing_is_launched_at_the_maximum() -> None:
    check = failed(decided(HOT, max_workers=2))
    assert values_of(check) == ("below maximum", False, 2, 2, "")


def test_a_machine_that_was_seen_a_look_ago_still_counts_against_the_maximum() -> None:
    hidden = make_record(counted_before=(Counted("", 3),))
    check = failed(decided(HOT, hidden, max_workers=3))
    assert values_of(check) == ("below maximum", False, 3, 3, "")


def test_nothing_is_launched_on_an_incomplete_observation() -> None:
    assert failed(decided(make_snapshot(NODES, cpu=0.9, problems=("?",)))).name == "observation complete"


def test_the_pause_switch_stops_removals_alone() -> None:
    assert decided(HOT, make_record(paused=True)).action is Action.SCALE_UP


def test_no_launch_for_a_pod_that_fits_no_type() -> None:
    snapshot = make_snapshot(NODES, [*FULL, waiting("huge", 64_000)])
    assert values_of(failed(decided(snapshot, waited(180)))) == NOTHING_TO_LAUNCH


def test_no_launch_for_pods_that_fit_on_a_node_that_is_there() -> None:
    snapshot = make_snapshot(NODES, [make_pod("db", node_name="a1"), waiting()])
    assert values_of(failed(decided(snapshot, waited(180)))) == NOTHING_TO_LAUNCH


def test_nothing_is_launched_where_every_pool_is_full() -> None:
    assert values_of(failed(decided(HOT, pools=(make_pool(max_workers=2),)))) == NOTHING_TO_LAUNCH


def test_every_slot_is_reserved_under_a_key_of_its_own_that_names_the_operation() -> None:
    decision = decided(HOT, pools=(make_pool(market=Market.SPOT),), min_workers=2, cpu_up=0.3)
    assert [slot.key for slot in decision.slots] == [f"{NOW}-d1-0", f"{NOW}-d1-1"]
    assert {slot.state for slot in decision.slots} == {SlotState.RESERVED}
    assert {slot.market for slot in decision.slots} == {Market.SPOT}
    assert {slot.pool for slot in decision.slots} == {"workers"}
