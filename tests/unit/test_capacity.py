"""Counting errs low for what stands and high for what exists, so both limits hold."""

from __future__ import annotations

import pytest

from ebbtide.core.nodes.capacity import (
    coming_slots,
    condemned,
    count_against_max,
    counted,
    doomed,
    enlisted,
    expected_slots,
    held_by_pool,
    missing_by_pool,
    open_removals,
    removals_in_progress,
    standing,
    total,
    why_over_limits,
    why_unknown,
    workers_by_zone,
)
from ebbtide.model.operation import RemovalState, SlotState, SpotKind
from ebbtide.model.pod import Resources
from ebbtide.model.pool import PoolLimits
from ebbtide.model.record import Counted, Missing
from ebbtide.model.snapshot import InstanceState, Ownership
from tests.builders import (
    make_instance,
    make_instance_of,
    make_node,
    make_nodes,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_slot,
    make_snapshot,
    make_spot,
    make_type,
)


def test_removals_of_every_operation_in_progress_are_counted() -> None:
    record = make_record(
        operation=make_scale_down(make_removal("a1"), make_removal("a2", state=RemovalState.GONE)),
        set_aside=make_scale_down(make_removal("b1")),
        spots=(make_spot("c1", removal=make_removal("c1")), make_spot("c2")),
    )
    assert [r.node_name for r in open_removals(record)] == ["a1", "b1", "c1"]


def test_slots_of_every_operation_that_may_become_a_node_are_expected() -> None:
    record = make_record(
        operation=make_scale_up(make_slot("s1"), make_slot("s2", state=SlotState.FAILED)),
        set_aside=make_scale_up(make_slot("s3", state=SlotState.RECLAIMING)),
        spots=(make_spot("c1", slot=make_slot("s4")), make_spot("c2")),
    )
    assert [slot.key for slot in expected_slots(record)] == ["s1", "s3", "s4"]


def test_a_node_being_removed_or_interrupted_is_doomed_and_one_being_released_is_not() -> None:
    record = make_record(
        operation=make_scale_down(make_removal("a1"), make_removal("a2", state=RemovalState.RELEASING)),
        spots=(make_spot("b1"), make_spot("b2", kind=SpotKind.REBALANCE)),
    )
    assert doomed(record) == {"i-a1", "i-b1"}


def test_only_ready_workers_that_nothing_takes_away_stand() -> None:
    nodes = make_nodes("a1", "a2", "a3", "a4")
    going = make_instance_of(nodes[2], state=InstanceState.TERMINATING)
    others = [make_instance_of(node) for node in (nodes[0], nodes[1])]
    unready = make_node("a5", ready=False)
    snapshot = make_snapshot([*nodes, unready], instances=[*others, going])
    record = make_record(operation=make_scale_down(make_removal("a2")))
    assert [node.name for node in standing(snapshot, record)] == ["a1", "a4"], "a4 runs, though unmatched"


@pytest.mark.parametrize("strange", [{"control_plane": True}, {"system": True}, {"pool": ""}])
def test_reading_26_control_plane_system_and_foreign_nodes_are_never_counted_as_workers(
    strange: dict[str, object],
) -> None:
    snapshot = make_snapshot([make_node("a1"), make_node("a2", **strange)])
    assert [node.name for node in standing(snapshot, make_record())] == ["a1"]
    assert workers_by_zone(snapshot, make_record()) == {"a": 1}


def test_a_machine_that_joins_after_its_termination_was_written_is_counted_but_not_counted_on() -> None:
    slot = make_slot("s1", state=SlotState.TERMINATING, instance_id="i-a1", terminated=True)
    record = make_record(operation=make_scale_up(slot, make_slot("s2", instance_id="i-a2")))
    snapshot = make_snapshot(make_nodes("a1", "b1"))
    assert doomed(record) == condemned(record) == {"i-a1"}
    assert [node.name for node in standing(snapshot, record)] == ["b1"]
    assert [slot.key for slot in coming_slots(record)] == ["s2"]
    assert total(snapshot, record) == 3
    assert workers_by_zone(snapshot, record) == {"b": 1, "a": 1}


def test_the_total_counts_instances_that_never_joined_and_nodes_without_an_instance() -> None:
    nodes = make_nodes("a1", "a2")
    snapshot = make_snapshot(nodes, instances=[make_instance_of(nodes[0]), make_instance("i-lone")])
    assert total(snapshot, make_record()) == 3


def test_the_total_leaves_out_node_objects_that_outlived_their_instance() -> None:
    nodes = make_nodes("a1", "a2")
    snapshot = make_snapshot(nodes, instances=[make_instance_of(nodes[0])])
    assert total(snapshot, make_record(orphans=(Missing("uid-a2", 0),))) == 2
    assert total(snapshot, make_record(orphans=(Missing("uid-a2", 0, gone=True),))) == 1


def test_the_total_leaves_out_what_is_going_and_what_is_not_ours() -> None:
    gone = make_instance("i-b1", state=InstanceState.TERMINATING)
    foreign = make_instance("i-db", pool="")
    assert total(make_snapshot(make_nodes("a1"), extra_instances=[gone, foreign]), make_record()) == 1


def test_a_slot_is_counted_until_its_instance_is_listed_and_never_twice() -> None:
    slots = (make_slot("s1", instance_id="i-n1"), make_slot("s2"), make_slot("s3"))
    record = make_record(operation=make_scale_up(*slots))
    by_id, by_key = make_instance("i-n1"), make_instance("i-n2", key="s2")
    assert total(make_snapshot(), record) == 3
    assert total(make_snapshot(extra_instances=[by_id, by_key]), record) == 3


@pytest.mark.parametrize("known", [{"id": "i-n1"}, {"id": "i-x", "key": "s1"}])
def test_a_slot_whose_instance_is_seen_dying_is_not_expected_any_more(known: dict[str, str]) -> None:
    record = make_record(operation=make_scale_up(make_slot("s1", instance_id="i-n1")))
    dying = make_instance(known["id"], key=known.get("key", ""), state=InstanceState.GONE)
    assert total(make_snapshot(instances=[dying]), record) == 0


def test_the_total_of_one_pool_leaves_the_others_out() -> None:
    nodes = [make_node("a1"), make_node("b1", pool="gpu"), make_node("c1", pool="gpu")]
    snapshot = make_snapshot(nodes, instances=[make_instance_of(node) for node in nodes[:2]])
    record = make_record(operation=make_scale_up(make_slot("s1"), make_slot("s2", pool="gpu")))
    assert total(snapshot, record, "workers") == 2
    assert total(snapshot, record, "gpu") == 3
    assert total(snapshot, record) == 5


def test_zones_count_standing_workers_and_expected_ones_once() -> None:
    joined = make_slot("s1", zone="a", node_name="a1", state=SlotState.JOINED)
    record = make_record(operation=make_scale_up(joined, make_slot("s2", zone="b")))
    assert workers_by_zone(make_snapshot(make_nodes("a1", "a2")), record) == {"a": 2, "b": 1}


def test_what_the_look_before_saw_still_counts_against_the_maximum() -> None:
    """Neither list shows the third machine: it has gone, or both are wrong for a moment."""
    snapshot, pools = make_snapshot(make_nodes("a1", "a2")), (make_pool("workers"),)
    assert counted(snapshot, make_record(), pools) == (Counted("", 2), Counted("workers", 2))
    record = make_record(counted_before=(Counted("", 3), Counted("workers", 3)))
    assert count_against_max(snapshot, record) == 3
    assert count_against_max(snapshot, record, "workers") == 3
    assert count_against_max(snapshot, record, "others") == 0
    assert count_against_max(snapshot, make_record(counted_before=(Counted("", 1),))) == 2


def test_nobody_waits_for_the_nodes_of_a_launch_that_was_set_aside() -> None:
    """Nobody follows it before a person resumes it: pods for which it counted as room waited for hours."""
    record = make_record(
        operation=make_scale_up(make_slot("s1")), set_aside=make_scale_up(make_slot("s2", zone="b"))
    )
    assert [slot.key for slot in coming_slots(record)] == ["s1"]
    assert workers_by_zone(make_snapshot(), record) == {"a": 1}
    assert total(make_snapshot(), record) == 2, "its machines may still come: the maximum holds"


REFUSED = make_removal("a1", state=RemovalState.SET_ASIDE)


def test_what_was_set_aside_is_on_its_way_though_nobody_works_on_it() -> None:
    aside = make_record(set_aside=make_scale_down(make_removal("a1")))
    assert [removal.node_name for removal in open_removals(aside)] == ["a1"]
    refused = make_record(operation=make_scale_down(REFUSED, make_removal("a2")))
    assert sorted(removal.node_name for removal in open_removals(refused)) == ["a1", "a2"]
    assert [removal.node_name for removal in removals_in_progress(refused)] == ["a2"]


def test_a_machine_that_is_being_given_up_is_no_room_to_come() -> None:
    late = make_slot("s1", state=SlotState.RECLAIMING, instance_id="i-n1")
    record = make_record(operation=make_scale_up(late, make_slot("s2")))
    assert [slot.key for slot in coming_slots(record)] == ["s2"]
    assert [slot.key for slot in expected_slots(record)] == ["s1", "s2"]


def test_a_cordoned_worker_does_not_stand_and_only_our_own_cordon_keeps_its_place() -> None:
    ours = make_node("a2", unschedulable=True, owner=Ownership("op", 5))
    theirs = make_node("a3", unschedulable=True)
    snapshot = make_snapshot([make_node("a1"), ours, theirs, make_node("b1")])
    for record in (make_record(), make_record(operation=make_scale_down(make_removal("b1")))):
        gone = {"b1"} if record.operation else set()
        assert {node.name for node in standing(snapshot, record)} == {"a1", "b1"} - gone
        assert {node.name for node in enlisted(snapshot, record)} == {"a1", "a2", "b1"} - gone


def test_a_pool_lacks_what_neither_stands_nor_comes() -> None:
    pools = (make_pool("p", min_workers=4), make_pool("none", min_workers=0), make_pool("q", min_workers=1))
    nodes = [make_node("a1", pool="p"), make_node("a2", pool="q"), make_node("a3", pool="none")]
    record = make_record(operation=make_scale_up(make_slot("s1", pool="p"), make_slot("s2", pool="other")))
    assert missing_by_pool(make_snapshot(nodes), record, pools) == {"p": 2}
    assert list(missing_by_pool(make_snapshot(), make_record(), pools)) == ["p", "q"]


def test_of_a_machine_that_neither_list_shows_the_most_that_its_pool_has_is_counted() -> None:
    types = (make_type("cpu", 8000, 4096), make_type("memory", 2000, 32_768))
    pool = make_pool(types=types)
    record = make_record(counted_before=(Counted(pool.name, 1),))
    assert held_by_pool(make_snapshot(), record, pool) == Resources(8000, 32_768)
    assert held_by_pool(make_snapshot(), record, pool, cautious=False) == Resources(0, 0)


def test_a_slot_is_counted_against_the_limits_of_its_pool_by_what_is_seen_now() -> None:
    pool = make_pool(limits=PoolLimits(cpu_milli=4000))
    record = make_record(operation=make_scale_up(make_slot("s1")), counted_before=(Counted(pool.name, 2),))
    assert why_over_limits(make_snapshot(), record, pool) == ""
    assert why_over_limits(make_snapshot(make_nodes("a1")), record, pool)


def test_a_slot_whose_instance_is_alive_under_another_key_is_still_expected() -> None:
    """Listed without a pool: nothing but its id says that it is this one."""
    slot = make_slot("s1", instance_id="i-n1")
    listed = make_instance("i-n1", pool="")
    record = make_record(operation=make_scale_up(slot))
    assert total(make_snapshot(extra_instances=[listed]), record) == 1


@pytest.mark.parametrize(
    ("asked", "sampled", "known"),
    [
        ("", "", False),
        ("abc", "ab", True),
        ("abc", "a", False),
        ("abcdef", "abcd", True),
        ("abcdef", "abc", False),
        ("abc", "abc", True),
    ],
)
def test_an_average_is_known_where_no_more_than_a_third_is_missing(
    asked: str, sampled: str, known: bool
) -> None:
    assert bool(why_unknown(asked, sampled, 180)) != known
