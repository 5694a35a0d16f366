"""Two lanes: launches next to removals, and launches next to launches that are not done yet."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes.capacity import coming_slots, expected_slots, open_removals, removals_in_progress
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.question import MOST_SLOTS, LaunchBackoff, launch_backoff
from ebbtide.model.decision import Action, Check, Decision
from ebbtide.model.operation import RemovalState, ScaleUp, SlotState
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import Record, Refused, closed, in_lane
from ebbtide.model.snapshot import Snapshot
from tests.builders import (
    NOW,
    make_consolidate,
    make_nodes,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
    values_of,
)

NODES = make_nodes("a1", "b1")
FULL = [make_pod(f"full-{node.name}", 4000, node_name=node.name) for node in NODES]
HOUR_AGO = NOW - 3600


def pending(name: str, cpu_milli: int = 3000) -> Pod:
    return make_pod(name, cpu_milli, phase=PodPhase.PENDING)


QUEUE = make_snapshot(NODES, [*FULL, pending("one"), pending("two")])


def decided(snapshot: Snapshot, record: Record, **settings: Any) -> Decision:
    return decide(snapshot, record, make_settings(**settings), NOW, "d1")


def queued(**overrides: Any) -> Record:
    return make_record(pending_since=NOW - 600, **overrides)


def failed(decision: Decision, action: Action = Action.SCALE_UP) -> Check:
    check = next(v.failed for v in decision.verdicts if v.action is action)
    assert check is not None
    return check


def launch(*slots: Any, **overrides: Any) -> ScaleUp:
    return make_scale_up(*slots, **{"started_at": HOUR_AGO, **overrides})


def test_a_launch_does_not_wait_for_a_removal() -> None:
    terminating = make_removal("a9", state=RemovalState.TERMINATING)
    for removing in (make_scale_down(terminating), make_consolidate([], [])):
        decision = decided(QUEUE, queued(operation=removing))
        assert (decision.action, len(decision.slots)) == (Action.SCALE_UP, 2)


def test_what_is_not_covered_by_slots_on_their_way_is_launched_next_to_them() -> None:
    coming = launch(make_slot(state=SlotState.LAUNCHED, instance_id="i-1"))
    decision = decided(QUEUE, queued(launching=coming))
    assert (decision.action, len(decision.slots)) == (Action.SCALE_UP, 1)
    assert decision.slots[0].key not in {slot.key for slot in coming.slots}
    both = launch(make_slot(state=SlotState.LAUNCHED), make_slot("op-1", state=SlotState.RESERVED))
    assert failed(decided(QUEUE, queued(launching=both))).name == "something to launch"


def test_an_instance_that_never_joined_is_not_counted_on_but_counts_against_the_maximum() -> None:
    lost = launch(make_slot(state=SlotState.RECLAIMING, instance_id="i-1", since=HOUR_AGO))
    record = queued(launching=lost)
    assert (len(expected_slots(record)), coming_slots(record)) == (1, ())
    assert len(decided(QUEUE, record).slots) == 2
    assert len(decided(QUEUE, record, max_workers=4).slots) == 1
    assert failed(decided(QUEUE, record, max_workers=3)).name == "below maximum"


@pytest.mark.parametrize(
    ("launching", "since"),
    [
        (launch(make_slot(), started_at=NOW - 299), 299),
        (launch(make_slot(), extended_at=NOW - 10), 10),
        (launch(make_slot(state=SlotState.READY, since=NOW - 100)), 100),
    ],
)
def test_the_cooldown_holds_between_two_requests_and_from_the_last_node_that_became_ready(
    launching: ScaleUp, since: int
) -> None:
    check = failed(decided(QUEUE, queued(launching=launching)))
    assert values_of(check) == ("cooldown over", False, since, 300, "")


def test_a_launch_that_only_follows_an_orphan_starts_no_cooldown() -> None:
    adopted = make_scale_up(make_slot(state=SlotState.LAUNCHED), requested=0)
    assert decided(QUEUE, queued(launching=adopted)).action is Action.SCALE_UP


def test_pods_without_any_worker_skip_the_cooldown_of_an_open_launch_too() -> None:
    alone = make_snapshot((), [pending("one"), pending("two")])
    coming = make_scale_up(make_slot(state=SlotState.LAUNCHED))
    assert len(decided(alone, queued(launching=coming)).slots) == 1


def test_nodes_on_their_way_are_taken_off_what_cpu_asks_for() -> None:
    hot = make_snapshot(NODES, cpu=0.9)
    coming = launch(make_slot(state=SlotState.LAUNCHED))
    check = failed(decided(hot, make_record(launching=coming)))
    assert values_of(check) == ("pressure", False, 0.9, 0.7, "")
    hotter = make_snapshot(NODES, cpu=1.0)
    assert decided(hotter, make_record(launching=launch())).action is Action.SCALE_UP


def test_what_failed_since_the_last_ready_node_starts_the_back_off_while_the_launch_is_open() -> None:
    settings = make_settings()
    failures = (
        make_slot("f1", state=SlotState.FAILED, since=NOW - 900),
        make_slot("f2", state=SlotState.FAILED, since=NOW - 900),
        make_slot("f3", state=SlotState.RECLAIMED, since=NOW - 30),
    )
    failing = queued(launching=launch(make_slot(), *failures))
    assert launch_backoff(failing, settings) == LaunchBackoff(2, NOW + 90, ("workers",))
    assert failed(decided(QUEUE, failing)).name == "back-off over"
    ready = make_slot("ok", state=SlotState.READY, since=NOW - 20)
    recovered = queued(launching=launch(make_slot(), *failures, ready), launch_failures=3)
    assert launch_backoff(recovered, settings) == LaunchBackoff(3, 0)
    known = queued(launch_failures=1, launch_backoff_until=7, launch_backoff_offers=("a/spot/s",))
    assert launch_backoff(known, settings) == LaunchBackoff(1, 7, ("a/spot/s",))


def test_an_operation_that_has_grown_too_large_is_not_extended_before_it_is_closed() -> None:
    slots = [make_slot(f"s{n}", state=SlotState.FAILED, since=HOUR_AGO) for n in range(MOST_SLOTS)]
    check = failed(decided(QUEUE, queued(launching=launch(*slots))))
    assert values_of(check) == ("launch possible", False, MOST_SLOTS, MOST_SLOTS, "op")


def test_no_node_is_chosen_to_go_while_nodes_are_launched() -> None:
    idle = make_snapshot(make_nodes("a1", "a2", "b1"))
    record = make_record(idle_since=NOW - 600, worker_count=3, pod_count=3, launching=launch(make_slot()))
    check = failed(decided(idle, record), Action.SCALE_DOWN)
    assert values_of(check) == ("no operation in progress", False, None, None, "op")


def test_an_operation_is_put_into_its_lane_and_taken_out_of_it_alone() -> None:
    up, down = make_scale_up(), make_scale_down(id="down")
    record = in_lane(in_lane(make_record(unclean_runs=1, unclean_removal_runs=2), up), down)
    assert (record.launching, record.removing, record.operations) == (up, down, (up, down))
    assert record.scaling_in_progress
    assert closed(record, up) == make_record(removing=down, unclean_removal_runs=2)
    assert closed(record, down) == make_record(launching=up, unclean_runs=1)


def test_only_a_record_that_says_more_than_one_operation_needs_the_newer_format() -> None:
    up, down = make_scale_up(), make_scale_down(make_removal())
    aside = make_removal(state=RemovalState.SET_ASIDE)
    for plain in (make_record(), make_record(operation=up), make_record(operation=down, set_aside=down)):
        assert plain.format_version == 1
    for more in (
        make_record(launching=up, removing=down),
        make_record(launching_aside=up, removing_aside=down),
        make_record(operation=make_scale_down(aside)),
        make_record(set_aside=make_scale_down(aside)),
        make_record(spots=(make_spot(removal=aside),)),
        make_record(refused=(Refused("op", make_removal(), NOW),)),
    ):
        assert more.format_version == 2


def test_a_record_with_a_replacement_has_a_format_of_its_own() -> None:
    """A version that does not know of replacements would drain the node before its replacement is there."""
    at_once = make_scale_down(make_removal())
    first = replace(at_once, replacements=(make_slot(),))
    assert make_record(operation=at_once).format_version == 1
    assert make_record(operation=first).format_version == 3
    assert make_record(set_aside=first).format_version == 3


def test_what_was_set_aside_still_dooms_its_node_but_holds_up_no_budget() -> None:
    aside = make_removal("a1", state=RemovalState.SET_ASIDE)
    kept = make_removal("a2", state=RemovalState.TERMINATING)
    at_work = make_removal("a3", state=RemovalState.DRAINING)
    record = make_record(operation=make_scale_down(aside, at_work), refused=(Refused("op-1", kept, NOW),))
    assert {removal.instance_id for removal in open_removals(record)} == {"i-a1", "i-a2", "i-a3"}
    assert [removal.instance_id for removal in removals_in_progress(record)] == ["i-a3"]
    assert removals_in_progress(make_record()) == ()
