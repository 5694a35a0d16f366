"""One sentence that a person understands: how many nodes come or go, for whom, and for how long."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.entrypoints.views.headline import HeadlineSituation, headline, lease_says, usual_seconds
from ebbtide.model.events import OperationClosed, OperationKind
from ebbtide.model.operation import Move, MoveState, Removal, RemovalState, SlotState, SourceState, SpotKind
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Emptied, Record
from ebbtide.model.snapshot import ClusterView, Node
from tests.builders import (
    NOW,
    make_consolidate,
    make_node,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_slot,
    make_source,
    make_spot,
)


def cluster(*nodes: Node, pending: int = 0) -> ClusterView:
    running = [make_pod(f"web-{node.name}", node_name=node.name) for node in nodes]
    fixed = [make_pod(f"log-{node.name}", node_name=node.name, controller="DaemonSet") for node in nodes]
    new = [make_pod(f"new-{number}", phase=PodPhase.PENDING) for number in range(pending)]
    return ClusterView(nodes, (*running, *fixed, *new))


A, B = make_node("a1"), make_node("b1")


def said(record: Record, seen: ClusterView, *, unread: tuple[str, ...] = (), usual: int = 0) -> str:
    return headline(HeadlineSituation(record, seen, NOW, unread, usual))


def launching(*states: SlotState, began: int = NOW - 20) -> Record:
    slots = tuple(make_slot(f"k{at}", state=state, since=began) for at, state in enumerate(states))
    return make_record(launching=make_scale_up(*slots))


def test_at_rest_it_counts_nodes_and_pods() -> None:
    assert said(make_record(), cluster(A, B)) == "Nothing to do: 2 nodes for 4 pods, none pending"
    paused = replace(make_record(), paused=True)
    assert said(paused, cluster(A)).endswith("none pending, and removals are paused")
    # B has only what runs on every node; that A was empty once is over.
    emptied = replace(make_record(), emptied=(Emptied(A.uid, NOW - 60), Emptied(B.uid, NOW - 60)))
    half = ClusterView((A, B), tuple(pod for pod in cluster(A, B).pods if pod.name != "web-b1"))
    assert (
        said(emptied, half)
        == "Nothing to do: 2 nodes for 3 pods, none pending; 1 node is empty and stays for now"
    )


@pytest.mark.parametrize(
    ("record", "unknown", "says"),
    [
        (
            launching(SlotState.LAUNCHED),
            {"silent_seconds": 720},
            "Ebbtide has not ticked for 12 min: no node is added or removed until it ticks again",
        ),
        (
            make_record(),
            {"unmeasured": True},
            "No node counts as idle while CPU is unknown: 1 node for 2 pods, none pending",
        ),
    ],
    ids=["no runner ticks", "the metrics are gone"],
)
def test_where_nobody_looks_it_is_not_said_that_there_is_nothing_to_do(
    record: Record, unknown: dict[str, int], says: str
) -> None:
    assert headline(HeadlineSituation(record, cluster(A), NOW, **unknown)) == says  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("owner", "until", "spots", "says"),
    [
        ("", 0, 0, "free"),
        ("r1", NOW + 20, 0, "held by r1 for another 20 s"),
        ("r1", NOW - 40, 0, "free: r1 had it and let it end 40 s ago, as after a crash"),
        ("", 0, 1, "free; 1 spot notice has a lease of its own"),
        ("r1", NOW + 20, 2, "held by r1 for another 20 s; 2 spot notices have leases of their own"),
    ],
)
def test_a_lease_says_who_may_act_and_what_is_known_of_a_holder_that_did_not_give_it_back(
    owner: str, until: int, spots: int, says: str
) -> None:
    notices = tuple(make_spot(f"a{number}") for number in range(spots))
    record = replace(make_record(spots=notices), lock_owner=owner, lock_until=until)
    assert lease_says(record, NOW) == says


def test_pods_for_which_nothing_is_done_are_named() -> None:
    assert said(make_record(), cluster(A, pending=3)) == "3 pods are pending; no node is being added"


@pytest.mark.parametrize(
    ("ticked", "since", "what"),
    [
        (NOW - 20, 0, "the next tick decides about nodes"),
        (NOW - 20, NOW - 24, "the next tick decides about nodes"),
        (NOW - 20, NOW - 25, "no node is being added"),
    ],
    ids=["they came after the tick", "they were too new for it", "they were looked at"],
)
def test_pods_that_no_tick_has_decided_about_are_not_called_left_alone(
    ticked: int, since: int, what: str
) -> None:
    record = make_record(ticked_at=ticked, pending_since=since)
    here = HeadlineSituation(record, cluster(A, pending=2), NOW, pending_up_seconds=5)
    assert headline(here) == f"2 pods are pending; {what}"


def test_a_removal_that_is_held_says_why_and_not_that_it_continues() -> None:
    why = "the metrics server does not answer"
    drained = make_removal("a1", state=RemovalState.DRAINED, reason=why)
    record = make_record(removing=make_scale_down(drained))
    assert said(record, cluster(A, B)) == f"Not removing a1 yet: {why}"


@pytest.mark.parametrize(
    ("usual", "began", "end"),
    [
        (0, NOW - 20, ""),
        (80, NOW - 20, "; ready in about 60 s"),
        # A half is rounded up, as in the timeline below it.
        (85, NOW - 20, "; ready in about 70 s"),
        (170, NOW - 20, "; ready in about 3 min"),
        (300, NOW - 20, "; ready in about 5 min"),
        (80, NOW - 200, "; this takes longer than the usual 80 s"),
    ],
)
def test_a_launch_says_for_whom_and_how_long_it_usually_takes(usual: int, began: int, end: str) -> None:
    record = launching(SlotState.LAUNCHED, SlotState.LAUNCHING, SlotState.READY, began=began)
    assert said(record, cluster(A, pending=18), usual=usual) == f"Adding 2 nodes for 18 pending pods{end}"


def going(state: RemovalState) -> Removal:
    return make_removal("a1", state=state)


def test_a_removal_says_how_many_pods_are_still_to_move() -> None:
    draining = make_record(removing=make_scale_down(going(RemovalState.DRAINING)))
    assert said(draining, cluster(A, B)) == "Removing a1; 1 pod still to move"
    drained = make_record(removing=make_scale_down(going(RemovalState.DRAINED)))
    assert said(drained, cluster(A, B)) == "Removing a1; no pod is left on it"


def test_both_lanes_are_told_in_one_sentence() -> None:
    record = launching(SlotState.LAUNCHED)
    both = replace(record, removing=make_scale_down(going(RemovalState.TERMINATING)))
    assert said(both, cluster(A, pending=1)) == (
        "Adding 1 node for 1 pending pod; removing a1; no pod is left on it"
    )


def moves(*states: MoveState) -> tuple[Move, ...]:
    return tuple(
        Move(f"uid-{at}", f"default/web-{at}", "a1", "b1", "owner", state=state)
        for at, state in enumerate(states)
    )


def test_a_consolidation_counts_the_pods_that_were_moved() -> None:
    work = make_consolidate(
        sources=(make_source("a1"),), moves=moves(MoveState.MOVED, MoveState.EVICTING, MoveState.PLANNED)
    )
    record = make_record(removing=work)
    assert said(record, cluster(A, B)) == "Consolidating: emptying a1; 1 of 3 pods moved"


def test_a_consolidation_that_is_given_up_names_its_reason_and_no_node() -> None:
    released = make_source("a1", state=SourceState.RELEASED)
    work = make_consolidate((released,), (), abort_reason="a spot notice is being answered")
    record = make_record(removing=work)
    assert said(record, cluster(A)) == "Ending a consolidation: a spot notice is being answered"


def test_a_spot_notice_comes_first() -> None:
    record = make_record(spots=(make_spot("a1", deadline=NOW + 100),))
    assert said(record, cluster(A)) == "The cloud takes back 1 spot node in 100 s; moving the pods"


def test_a_node_at_risk_is_not_called_taken_back() -> None:
    risky = make_spot("a1", kind=SpotKind.REBALANCE, deadline=NOW + 500)
    assert said(make_record(spots=(risky,)), cluster(A)) == (
        "The cloud may soon take back 1 spot node; moving the pods"
    )


def test_no_pod_of_a_node_at_risk_moves_before_its_replacement_is_there() -> None:
    slot = make_slot("new", state=SlotState.LAUNCHED)
    risky = make_spot("a1", kind=SpotKind.REBALANCE, deadline=NOW + 500, removal=None, slot=slot)
    waits = "The cloud may soon take back 1 spot node; a replacement comes first"
    assert said(make_record(spots=(risky,)), cluster(A)) == waits
    there = replace(risky, slot=replace(slot, state=SlotState.READY))
    assert said(make_record(spots=(there,)), cluster(A)).endswith("; moving the pods")
    drained = replace(risky, removal=make_removal("a1", state=RemovalState.DRAINING))
    assert said(make_record(spots=(drained,)), cluster(A)).endswith("; moving the pods")


def test_no_pod_moves_off_a_spot_node_that_is_drained() -> None:
    """The headline said "moving the pods" next to "drained for 10 s"."""
    drained = make_spot("a1", removal=make_removal("a1", state=RemovalState.DRAINED))
    busy = make_spot("b1", removal=make_removal("b1", state=RemovalState.DRAINING))
    assert said(make_record(spots=(drained,)), cluster(A)).endswith("; no pod is left to move")
    assert said(make_record(spots=(drained, busy)), cluster(A, B)).endswith("; moving the pods")


def test_an_outage_is_all_it_says() -> None:
    record = launching(SlotState.LAUNCHED)
    assert said(record, cluster(A), unread=("cluster",)) == (
        "The cluster cannot be read: no node is added or removed until it answers"
    )


def test_what_is_usual_is_the_middle_of_the_launches_that_brought_a_node() -> None:
    up = OperationClosed("op", OperationKind.SCALE_UP, True, NOW, ready=("a1",))
    failed = replace(up, succeeded=False, ready=())
    down = replace(up, operation=OperationKind.SCALE_DOWN)
    assert usual_seconds([(NOW + 60, up), (NOW + 70, up), (NOW + 600, up), (NOW, failed), (NOW, down)]) == 70
    assert usual_seconds([]) == 0
