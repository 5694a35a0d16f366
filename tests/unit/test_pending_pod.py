"""A pod says why it is pending: what the nodes lack, whether one is being added, and if not, why not."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.entrypoints.views.headline import Against, PodAnswer, PodCause, UnschedulableCause, why_pending
from ebbtide.model.decision import Action, Check, Verdict
from ebbtide.model.operation import RemovalState, SlotState
from ebbtide.model.pod import FitCause, Pod, PodPhase, Resources, Taint, TaintEffect
from ebbtide.model.record import Record
from tests.builders import (
    make_consolidate,
    make_node,
    make_pod,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_source,
    make_spot,
)

FULL = [make_pod("web", 3500, node_name="a1"), make_pod("api", 3500, node_name="b1")]
GPU_ONLY = Taint("gpu", TaintEffect.NO_SCHEDULE)
HELD = Verdict(Action.SCALE_UP, (Check("cooldown", False, "the cooldown has 20 s left"),))


def pending(cpu_milli: int = 1000) -> Pod:
    return make_pod("new", cpu_milli, phase=PodPhase.PENDING)


def asked(pod: Pod, others: list[Pod], record: Record | None = None) -> PodAnswer:
    snapshot = make_snapshot([make_node("a1"), make_node("b1")], [*others, pod])
    return why_pending(pod, snapshot, record or make_record(), make_settings(), (HELD,))


def lacks(answer: PodAnswer) -> list[tuple[FitCause | UnschedulableCause, int]]:
    return [(each.cause, each.nodes) for each in answer.nodes]


def test_a_node_that_has_room_leaves_it_to_the_scheduler() -> None:
    answer = asked(pending(), [])
    assert (answer.cause, answer.count) == (PodCause.FITS, 2)


def test_full_nodes_are_counted_by_what_they_lack_and_what_holds_a_launch_back_is_said() -> None:
    answer = asked(pending(), FULL)
    assert answer.pending
    assert (answer.cause, answer.about) == (PodCause.HELD, "cooldown")
    assert lacks(answer) == [(FitCause.CPU, 2)]


def test_a_node_on_its_way_is_said() -> None:
    slot = make_slot(state=SlotState.LAUNCHED)
    answer = asked(pending(), FULL, make_record(launching=make_scale_up(slot)))
    assert (answer.cause, answer.count) == (PodCause.COMING, 1)


def test_nodes_that_replace_others_are_on_their_way_too() -> None:
    """ "None is being added" would be wrong while the answers to spot notices launch replacements."""
    lost = [make_spot(name, slot=make_slot(f"for-{name}", state=SlotState.LAUNCHED)) for name in ("a1", "b1")]
    packed = make_consolidate(
        [make_source("a1")], [], slots=(make_slot("cheaper", state=SlotState.LAUNCHED),)
    )
    for record, count in (
        (make_record(spots=(*lost, make_spot("c1"))), 2),
        (make_record(removing=packed), 1),
        (make_record(removing=packed, spots=tuple(lost), launching=make_scale_up(make_slot("more"))), 4),
    ):
        answer = asked(pending(), FULL, record)
        assert (answer.cause, answer.count) == (PodCause.COMING, count)


def test_every_node_is_accounted_for_also_those_that_accept_no_pods() -> None:
    draining = make_removal("c1", state=RemovalState.DRAINING)
    nodes = [
        make_node("a1"),
        make_node("c1", unschedulable=True),
        make_node("d1", unschedulable=True),
        make_node("e1", ready=False, unschedulable=True),
        make_node("f1", ready=False),
    ]
    snapshot = make_snapshot(nodes, [FULL[0], pending()])
    record = make_record(removing=make_scale_down(draining))
    answer = why_pending(pending(), snapshot, record, make_settings(), (HELD,))
    assert lacks(answer) == [
        (UnschedulableCause.NOT_READY, 2),
        (FitCause.CPU, 1),
        (UnschedulableCause.LEAVING, 1),
        (UnschedulableCause.CORDONED, 1),
    ]


def test_nodes_that_lack_the_same_are_one_line_with_the_range_of_what_is_free() -> None:
    others = [make_pod("web", 3500, node_name="a1"), make_pod("api", 3100, node_name="b1")]
    (line,) = asked(pending(), others).nodes
    assert line == Against(FitCause.CPU, 2, "needs 1000m CPU, 500m to 900m free")


def test_memory_is_told_like_cpu_and_another_reason_as_it_is() -> None:
    snapshot = make_snapshot([make_node("a1"), make_node("b1", taints=(GPU_ONLY,))])
    wants = replace(pending(), requests=Resources(100, 60_000))
    answer = why_pending(wants, snapshot, make_record(), make_settings(), (HELD,))
    assert lacks(answer) == [(FitCause.MEMORY, 2)]
    answer = why_pending(pending(), snapshot, make_record(), make_settings(), (HELD,))
    assert lacks(answer) == [(FitCause.TAINT, 1)]


def test_a_pod_that_fits_no_type_gets_no_node_and_says_so() -> None:
    answer = asked(pending(900_000), FULL)
    assert answer.cause is PodCause.HOPELESS


def test_a_pod_that_no_tick_has_looked_at_waits_for_the_next() -> None:
    snapshot = make_snapshot([make_node("a1"), make_node("b1")], [*FULL, pending()])
    answer = why_pending(pending(), snapshot, make_record(), make_settings(), ())
    assert (answer.cause, answer.about) == (PodCause.UNDECIDED, "")


def test_a_pod_on_a_node_is_not_pending() -> None:
    answer = asked(make_pod("web", node_name="a1"), [])
    assert (answer.pending, answer.cause) == (False, PodCause.NOT_PENDING)


def test_each_answer_is_a_sentence() -> None:
    """The only test here about words."""
    coming = make_record(launching=make_scale_up(make_slot(state=SlotState.LAUNCHED)))
    two = make_record(launching=make_scale_up(make_slot("1"), make_slot("2")))
    held = "no node has room for it, and none is being added: the cooldown has 20 s left"
    for answer, says in (
        (asked(pending(), []), "2 nodes have room for it: the Kubernetes scheduler places it"),
        (asked(pending(), FULL[:1]), "1 node has room for it: the Kubernetes scheduler places it"),
        (asked(pending(), FULL), held),
        (asked(pending(), FULL, coming), "no node has room for it; 1 node is being added"),
        (asked(pending(), FULL, two), "no node has room for it; 2 nodes are being added"),
        (
            asked(pending(900_000), FULL),
            "no type of any pool can take it (needs 900000m CPU, 4000m free), so no node is added for it",
        ),
        (asked(make_pod("web", node_name="a1"), []), "it is not pending: it is on a1"),
    ):
        assert answer.says == says
