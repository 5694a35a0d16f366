"""Which workers are unwell, since when, and when too much of a pool is."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.nodes.timers import track
from ebbtide.core.nodes.unwell import (
    NOT_READY,
    is_due,
    longest_unwell,
    pool_well,
    still_there,
    track_unwell,
    unwell_now,
    why_unwell,
)
from ebbtide.model.check import Gate
from ebbtide.model.operation import SlotState
from ebbtide.model.record import Missing, Unwell
from ebbtide.model.snapshot import InstanceState, Node
from tests.builders import (
    NOW,
    make_instance_of,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    values_of,
)

REPAIR = make_settings(repair=True, repair_conditions=("KernelDeadlock=True",))
SILENT = make_node("a1", ready=False)
DEADLOCKED = make_node("a2", conditions=("KernelDeadlock=True", "Other=True"))


def test_silent_nodes_and_those_with_a_listed_condition_are_unwell() -> None:
    seen = make_snapshot((SILENT, DEADLOCKED, make_node("b1", conditions=("Other=True",))))
    assert unwell_now(seen, make_record(), REPAIR) == {"a1": (NOT_READY,), "a2": ("KernelDeadlock=True",)}


def test_what_has_no_running_instance_or_still_joins_is_not_repaired() -> None:
    gone = make_instance_of(SILENT, state=InstanceState.GONE)
    assert unwell_now(make_snapshot((SILENT,), instances=[gone]), make_record(), REPAIR) == {}
    assert unwell_now(make_snapshot((SILENT,), instances=[]), make_record(), REPAIR) == {}
    joins = make_scale_up(make_slot(state=SlotState.JOINED, instance_id="i-a1"))
    assert unwell_now(make_snapshot((SILENT,)), make_record(operation=joins), REPAIR) == {}


def test_each_condition_has_its_own_time() -> None:
    both = replace(SILENT, conditions=("KernelDeadlock=True",))
    before = (Unwell("uid-a1", NOT_READY, NOW - 50), Unwell("uid-gone", NOT_READY, 7))
    found = track_unwell(make_snapshot((both,)), make_record(), before, REPAIR, NOW)
    assert found == (Unwell("uid-a1", "KernelDeadlock=True", NOW), Unwell("uid-a1", NOT_READY, NOW - 50))
    assert track_unwell(make_snapshot((both,)), make_record(), before, make_settings(), NOW) == ()
    late = (Unwell("uid-a1", NOT_READY, NOW + 500),)
    found = track_unwell(make_snapshot((SILENT,)), make_record(), late, REPAIR, NOW)
    assert found == (Unwell("uid-a1", NOT_READY, NOW),), "a stamp from the future is taken as now"


def test_time_that_nobody_saw_does_not_make_a_node_unwell() -> None:
    before = make_record(ticked_at=NOW - 60, unwell=(Unwell("uid-a1", NOT_READY, NOW - 500),))
    after, _ = track(make_snapshot((SILENT, *make_nodes("b1", "b2"))), before, REPAIR, NOW)
    assert after.unwell == before.unwell
    silent = replace(before, ticked_at=NOW - 900)
    after, _ = track(make_snapshot((SILENT, *make_nodes("b1", "b2"))), silent, REPAIR, NOW)
    assert after.unwell == (Unwell("uid-a1", NOT_READY, NOW),)
    after, _ = track(make_snapshot((SILENT,), problems=("no list",)), before, REPAIR, NOW)
    assert after.unwell == ()


def test_a_node_is_due_after_its_time_and_says_both_numbers() -> None:
    record = make_record(
        unwell=(Unwell("uid-a1", NOT_READY, NOW - 600), Unwell("uid-a2", "X=True", NOW - 599))
    )
    assert is_due(SILENT, record, REPAIR, NOW)
    assert not is_due(DEADLOCKED, record, REPAIR, NOW)
    assert not is_due(make_node("b1"), record, REPAIR, NOW)
    assert why_unwell(SILENT, record, REPAIR, NOW) == "not Ready for 10 min, repair_after_sec is 10 min"
    assert why_unwell(DEADLOCKED, record, REPAIR, NOW).startswith("X=True for 9 min 59 s")
    assert why_unwell(make_node("b1"), record, REPAIR, NOW) == ""


def silent(*names: str) -> tuple[Node, ...]:
    return make_nodes(*names, ready=False)


def test_the_brake_holds_where_more_than_a_fifth_rounded_up_is_unwell() -> None:
    one_of_three = make_snapshot((*silent("a1"), *make_nodes("a2", "a3")))
    assert pool_well("workers", one_of_three, make_record(), REPAIR).passed
    two_of_five = make_snapshot((*silent("a1", "a2"), *make_nodes("a3", "a4", "a5")))
    check = pool_well("workers", two_of_five, make_record(), REPAIR)
    assert values_of(check) == (Gate.POOL_WELL, False, 2, 1, "workers")
    assert pool_well("other", two_of_five, make_record(), REPAIR).passed


def test_a_silent_node_holds_the_brake_until_it_is_gone_or_we_remove_it() -> None:
    """Swarm seed 1088: the instance of one ended, and at once the other was repaired."""
    nodes = (*silent("a1", "a2"), *make_nodes("a3"))
    others = [make_instance_of(node) for node in nodes[1:]]
    ending = make_instance_of(nodes[0], state=InstanceState.TERMINATING)
    for instances in ([ending, *others], others):
        snapshot = make_snapshot(nodes, instances=instances)
        assert not pool_well("workers", snapshot, make_record(), REPAIR).passed
        ours = make_record(operation=make_scale_down(make_removal("a1")))
        assert pool_well("workers", snapshot, ours, REPAIR).passed
        gone = make_record(orphans=(Missing("uid-a1", NOW - 60, gone=True),))
        assert pool_well("workers", snapshot, gone, REPAIR).passed


def test_on_a_silent_node_pods_past_their_grace_have_ended() -> None:
    ended = make_pod("x", terminating=True, ends_at=NOW - 60)
    ending = make_pod("y", terminating=True, ends_at=NOW - 59)
    unknown = make_pod("z", terminating=True)
    running = make_pod("w", ends_at=NOW - 600)
    pods = (ended, ending, unknown, running)
    assert still_there(SILENT, pods, NOW) == (ending, unknown, running)
    assert still_there(make_node(), pods, NOW) == pods


def test_a_node_is_unwell_since_its_first_condition_and_others_not_at_all() -> None:
    known = (Unwell("uid-a2", NOT_READY, NOW - 60), Unwell("uid-a2", "KernelDeadlock=True", NOW - 90))
    record = make_record(unwell=known)
    assert longest_unwell(DEADLOCKED, record) == known[1]
    assert longest_unwell(SILENT, record) is None
    assert longest_unwell(DEADLOCKED, make_record()) is None
