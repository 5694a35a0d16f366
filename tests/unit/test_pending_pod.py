"""A pod says why it is pending: what the nodes lack, whether one is being added, and if not, why not."""

from __future__ import annotations

from ebbtide.entrypoints.views.pending_pod import PodAnswer, why_pending
from ebbtide.model.decision import Action, Check, Verdict
from ebbtide.model.operation import SlotState
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import Record
from tests.builders import (
    make_node,
    make_pod,
    make_record,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
)

FULL = [make_pod("web", 3500, node_name="a1"), make_pod("api", 3500, node_name="b1")]
HELD = Verdict(Action.SCALE_UP, (Check("cooldown", False, "the cooldown has 20 s left"),))


def pending(cpu_milli: int = 1000) -> Pod:
    return make_pod("new", cpu_milli, phase=PodPhase.PENDING)


def asked(pod: Pod, others: list[Pod], record: Record | None = None) -> PodAnswer:
    snapshot = make_snapshot([make_node("a1"), make_node("b1")], [*others, pod])
    return why_pending(pod, snapshot, record or make_record(), make_settings(), (HELD,))


def test_a_node_that_has_room_leaves_it_to_the_scheduler() -> None:
    assert asked(pending(), []).says == "2 nodes have room for it: the Kubernetes scheduler places it"


def test_full_nodes_are_counted_by_what_they_lack_and_what_holds_a_launch_back_is_said() -> None:
    answer = asked(pending(), FULL)
    assert answer.pending
    assert answer.says == "no node has room for it, and none is being added: the cooldown has 20 s left"
    assert sum(nodes for _, nodes in answer.nodes) == 2
    assert answer.nodes[0][0].startswith("needs 1000m CPU, ")


def test_a_node_on_its_way_is_said() -> None:
    slot = make_slot(state=SlotState.LAUNCHED)
    answer = asked(pending(), FULL, make_record(launching=make_scale_up(slot)))
    assert answer.says == "no node has room for it; 1 node is being added"


def test_a_pod_that_fits_no_type_gets_no_node_and_says_so() -> None:
    answer = asked(pending(900_000), FULL)
    assert answer.says.startswith("no type of any pool can take it (needs 900000m CPU, ")
    assert answer.says.endswith("so no node is added for it")


def test_a_pod_on_a_node_is_not_pending() -> None:
    assert asked(make_pod("web", node_name="a1"), []) == PodAnswer(False, "it is not pending: it is on a1")
