"""What is said of a launch or a removal that does not continue: one sentence for each cause.

The tests of the state machines ask for the cause and what it is about.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.codec.operations import convert, removal_to_item, slot_to_item
from ebbtide.core.nodes.drain import put_off
from ebbtide.core.operations import machine, removals, slots
from ebbtide.core.operations.slots import absorb_slot
from ebbtide.model.effect import Broken, Evict, Launch, Outcome, OutcomeKind
from ebbtide.model.operation import (
    Removal,
    RemovalCause,
    RemovalState,
    Slot,
    SlotCause,
    SlotState,
)
from ebbtide.model.snapshot import Market
from tests.builders import (
    NOW,
    make_instance,
    make_node,
    make_nodes,
    make_pool,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
)
from tests.unit.operations import test_removals_end as ends
from tests.unit.operations.builders import (
    advance_removal,
    advance_slot,
    cordoned,
    fleet,
    make_situation,
    with_pods,
)
from tests.unit.operations.test_removals_drain import DRAINING, WEB
from tests.unit.operations.test_slots_launch import LAUNCHING


def said(removal: Removal, situation: object) -> str:
    return advance_removal(removal, situation)[0].reason  # type: ignore[arg-type]


def test_what_is_said_of_a_drain() -> None:
    def drains(*pods: object, now: int = NOW, **node: object) -> str:
        return said(DRAINING, make_situation(with_pods(fleet(cordoned(**node)), *pods), now=now))  # type: ignore[arg-type]

    assert drains(WEB) == "default/web has not left yet"
    assert drains(replace(WEB, terminating=True)) == "default/web is still terminating"
    bare = "default/web has no controller that would create it again"
    assert drains(replace(WEB, controller="")) == bare
    assert drains(volumes_attached=("pvc-1",)) == "volume pvc-1 is still attached"
    late = "not drained within 5 min: default/web is still terminating"
    assert drains(replace(WEB, terminating=True), now=NOW + 300) == late
    open_node = make_situation(fleet(make_node("a1")), now=NOW + 300)
    assert said(DRAINING, open_node) == "the node could not be cordoned"
    evict = Evict("default", "web", "uid-web", "a1", 30)
    assert put_off(evict, "not now").says == "default/web was not evicted: not now"


def test_what_is_said_of_a_node_that_is_not_there() -> None:
    seen = replace(fleet(make_node("a1")), cluster=make_snapshot(make_nodes("a2", "b1")).cluster)
    assert said(make_removal(), make_situation(seen)) == "its node is not in the cluster"
    assert said(DRAINING, make_situation(seen)) == "its node left the cluster"


def test_what_is_said_before_and_after_a_termination() -> None:
    zones = make_situation(fleet(cordoned(), "b1", "b2", "b3"), record=ends.OPEN)
    assert said(ends.DRAINED, zones) == "zone a would be left without a ready worker"
    late = make_situation(fleet(cordoned()), now=NOW + 900)
    assert said(ends.TERMINATING, late) == "not gone after 15 min"
    refused = ends.refuse(ends.TERMINATING, NOW + 10)
    assert refused.reason == "the cloud refuses to terminate it: it is protected"


def test_what_is_said_of_a_launch() -> None:
    def launches(slot: Slot, **seen: object) -> str:
        return advance_slot(slot, make_situation(**seen))[0].reason  # type: ignore[arg-type]

    assert launches(make_slot(pool="old")) == "pool 'old' is no longer configured"
    full = make_situation(make_snapshot(make_nodes("a1", "a2")), settings=make_settings(max_workers=1))
    assert advance_slot(make_slot(), full)[0].reason.endswith("max_workers 1")
    quiet = make_situation(now=NOW + 9999)
    assert advance_slot(LAUNCHING, quiet)[0].reason == "the cloud gave no definite answer"
    known = make_slot(state=SlotState.LAUNCHED, instance_id="i-new", since=NOW)
    snapshot = make_snapshot(make_nodes("a1"), extra_instances=[make_instance("i-new")])
    never = make_situation(snapshot, now=NOW + 600)
    assert advance_slot(known, never)[0].reason == "no node 10 min after launch"
    no = Outcome(Launch(LAUNCHING, "op"), OutcomeKind.REFUSED, "no such type")
    assert absorb_slot(LAUNCHING, no, make_settings(), NOW).reason == "no such type"


def test_where_there_was_no_capacity_is_told_apart() -> None:
    """Elsewhere there may be some, where the pods could not run."""
    zones = make_settings(pools=(make_pool(zones=("a", "b"), market=Market.ON_DEMAND),))
    no = Outcome(Launch(LAUNCHING, "op"), OutcomeKind.NO_CAPACITY, "none left")
    here = absorb_slot(LAUNCHING, no, zones, NOW, lambda *_: False)
    assert here.reason == "no capacity where its pods could run: none left"
    only = make_settings(pools=(make_pool(zones=(LAUNCHING.zone,), market=Market.ON_DEMAND),))
    assert absorb_slot(LAUNCHING, no, only, NOW).reason == "no capacity anywhere: none left"


@pytest.mark.parametrize("state", [RemovalState.DRAINING, RemovalState.RELEASING])
def test_causes_are_written_where_they_say_something_and_read_back(state: RemovalState) -> None:
    plain = removal_to_item(make_removal(state=state))
    assert not {"why", "about"} & plain.keys(), "earlier versions read what they always have"
    told = make_removal(state=state, reason="x", why=RemovalCause.PUT_OFF, about="default/web")
    item = removal_to_item(told)
    assert convert(item, Removal) == told
    assert convert({**item, "why": "the-moon"}, Removal).why is RemovalCause.OTHER
    assert "why" not in slot_to_item(make_slot())
    slot = make_slot(why=SlotCause.MAXIMUM, reason="x")
    assert convert(slot_to_item(slot), Slot) == slot
    assert convert({**slot_to_item(slot), "why": "the-moon"}, Slot).why is SlotCause.OTHER


SLOT, SLOTS = make_slot("op-0", state=SlotState.READY), (make_slot("op-0"), make_slot("op-1"))
GONE = make_removal("a1", state=RemovalState.TERMINATING)
ENDED = replace(make_scale_down(), abort_reason="why")
BREACHES: list[tuple[Callable[[], tuple[Broken, ...]], str]] = [
    (
        lambda: slots.check_invariants(SLOT, replace(SLOT, state=SlotState.RESERVED)),
        "slot op-0 went from READY to RESERVED",
    ),
    (
        lambda: slots.check_invariants(SLOT, replace(SLOT, key="op-9")),
        "slot op-0 changed its key without a definite refusal",
    ),
    (
        lambda: removals.check_invariants(GONE, replace(GONE, state=RemovalState.RELEASED)),
        "removal of i-a1 went from TERMINATING to RELEASED",
    ),
    (
        lambda: removals.check_invariants(GONE, replace(GONE, node_uid="x")),
        "removal of i-a1 changed its node",
    ),
    (
        lambda: machine.check_invariants(ENDED, replace(ENDED, abort_reason="")),
        "scale-down op took its abort back",
    ),
    (lambda: machine.check_invariants(make_scale_up(*SLOTS), make_scale_up(SLOT)), "scale-up op lost slots"),
    (lambda: machine.check_invariants(make_scale_up(SLOT), ENDED), "op changed its kind"),
]


@pytest.mark.parametrize(("broken", "says"), BREACHES, ids=[says for _, says in BREACHES])
def test_what_a_step_must_never_do_is_said(broken: Callable[[], tuple[Broken, ...]], says: str) -> None:
    assert [each.says for each in broken()] == [says]
