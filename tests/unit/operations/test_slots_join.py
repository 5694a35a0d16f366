"""A slot from LAUNCHED to READY, or back: what never joins is reclaimed, what joins late is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.model.effect import DeleteNode, Terminate
from ebbtide.model.node import InstanceState, Node
from ebbtide.model.operation import SlotState
from ebbtide.model.snapshot import ClusterView, Snapshot
from tests.builders import NOW, make_instance, make_node, make_nodes, make_slot, make_snapshot
from tests.unit.operations.builders import advance_slot, make_situation

OTHERS = make_nodes("b1", "b2")
LAUNCHED = make_slot(state=SlotState.LAUNCHED, instance_id="i-a1")
RECLAIMING = make_slot(state=SlotState.RECLAIMING, instance_id="i-a1", reason="no node 600 s after launch")
LATE = NOW + 600


def seen(node: Node | None = None, state: InstanceState | None = InstanceState.RUNNING) -> Snapshot:
    instances = [make_instance(f"i-{n.name}") for n in OTHERS]
    if state is not None:
        instances.append(make_instance("i-a1", key="op-0", state=state))
    return make_snapshot([*OTHERS, *([node] if node else [])], instances=instances)


def test_a_launched_instance_is_waited_for() -> None:
    assert advance_slot(LAUNCHED, make_situation(seen(), now=NOW + 599)) == (LAUNCHED, ())


def test_a_node_that_is_there_makes_the_slot_joined_and_once_ready_a_worker() -> None:
    unready = seen(make_node("a1", ready=False))
    joined, effects = advance_slot(LAUNCHED, make_situation(unready))
    assert (joined.state, joined.node_name, effects) == (SlotState.JOINED, "a1", ())
    assert advance_slot(joined, make_situation(unready)) == (joined, ())
    ready, effects = advance_slot(joined, make_situation(seen(make_node("a1"))))
    assert (ready.state, effects) == (SlotState.READY, ())


def test_every_step_is_written_even_when_the_node_is_ready_at_first_sight() -> None:
    situation = make_situation(seen(make_node("a1")))
    joined, _ = advance_slot(LAUNCHED, situation)
    assert joined.state is SlotState.JOINED
    assert advance_slot(joined, situation)[0].state is SlotState.READY


def test_launched_never_joined_is_reclaimed_after_the_join_timeout_and_a_last_grace() -> None:
    after, effects = advance_slot(LAUNCHED, make_situation(seen(), now=LATE))
    assert (after.state, after.since, effects) == (SlotState.RECLAIMING, LATE, ())
    assert after.reason == "no node 600 s after launch"
    assert advance_slot(after, make_situation(seen(), now=LATE + 59)) == (after, ())
    again = advance_slot(after, make_situation(seen(), now=LATE + 60))
    assert again == (after, (Terminate("i-a1", "", "", "op"),))


def test_an_old_list_after_a_long_silence_does_not_take_a_node_that_has_joined() -> None:
    """Nobody looked for long; the first list is older than the node, the next one shows it."""
    after, effects = advance_slot(LAUNCHED, make_situation(seen(), now=LATE))
    assert effects == ()
    again, effects = advance_slot(after, make_situation(seen(make_node("a1")), now=LATE + 30))
    assert (again.state, effects) == (SlotState.READY, ())


def test_joined_but_never_ready_is_reclaimed_with_its_node_named() -> None:
    joined = replace(LAUNCHED, state=SlotState.JOINED, node_name="a1")
    unready = seen(make_node("a1", ready=False))
    after, effects = advance_slot(joined, make_situation(unready, now=LATE))
    assert (after.state, after.reason) == (SlotState.RECLAIMING, "not ready 600 s after launch")
    assert effects == ()
    _, effects = advance_slot(after, make_situation(unready, now=LATE + 60))
    assert effects == (Terminate("i-a1", "a1", "uid-a1", "op"),)


def test_nothing_is_terminated_that_the_cloud_does_not_list_because_its_node_may_be_ready() -> None:
    """Without the instance its node cannot be recognised either, however Ready it is."""
    after, effects = advance_slot(LAUNCHED, make_situation(seen(make_node("a1"), state=None), now=LATE))
    assert (after.state, effects) == (SlotState.RECLAIMING, ())
    again, effects = advance_slot(after, make_situation(seen(make_node("a1")), now=LATE + 30))
    assert (again.state, again.node_name, effects) == (SlotState.READY, "a1", ())


def test_a_node_that_joins_late_becomes_a_worker_instead_of_being_reclaimed() -> None:
    after, effects = advance_slot(RECLAIMING, make_situation(seen(make_node("a1")), now=NOW + 30))
    assert (after.state, after.node_name, after.reason, effects) == (SlotState.READY, "a1", "", ())


def test_a_late_joiner_is_kept_even_when_it_is_first_seen_after_the_timeout() -> None:
    after, effects = advance_slot(LAUNCHED, make_situation(seen(make_node("a1")), now=LATE))
    assert (after.state, effects) == (SlotState.JOINED, ())


def test_terminate_is_asked_for_again_until_the_instance_goes() -> None:
    situation = make_situation(seen(make_node("a1", ready=False)), now=NOW + 60)
    assert advance_slot(RECLAIMING, situation) == (RECLAIMING, (Terminate("i-a1", "a1", "uid-a1", "op"),))


def test_what_cannot_be_reclaimed_does_not_hold_up_all_scaling_for_ever() -> None:
    after, effects = advance_slot(RECLAIMING, make_situation(seen(), now=NOW + 900))
    assert (after.state, effects) == (SlotState.FAILED, ())
    assert after.reason == "no node 600 s after launch, and it could not be reclaimed"


def test_a_reclaimed_instance_that_is_not_listed_is_believed_gone_only_after_the_grace() -> None:
    unlisted = seen(state=None)
    assert advance_slot(RECLAIMING, make_situation(unlisted, now=NOW + 59)) == (RECLAIMING, ())
    after, effects = advance_slot(RECLAIMING, make_situation(unlisted, now=NOW + 60))
    assert (after.state, after.reason, effects) == (SlotState.RECLAIMED, RECLAIMING.reason, ())


def test_a_reclaimed_slot_waits_for_its_node_object_to_be_deleted_as_well() -> None:
    node = make_node("a1", ready=False)
    going = make_situation(seen(node, InstanceState.TERMINATING))
    assert advance_slot(RECLAIMING, going) == (RECLAIMING, ())
    gone = make_situation(seen(node, InstanceState.GONE))
    assert advance_slot(RECLAIMING, gone) == (RECLAIMING, (DeleteNode("a1", "uid-a1"),))
    after, effects = advance_slot(RECLAIMING, make_situation(seen(None, InstanceState.GONE)))
    assert (after.state, effects) == (SlotState.RECLAIMED, ())


@pytest.mark.parametrize("state", [InstanceState.TERMINATING, InstanceState.GONE])
def test_an_instance_that_goes_away_before_it_joined_settles_the_slot(state: InstanceState) -> None:
    after, effects = advance_slot(LAUNCHED, make_situation(seen(None, state)))
    assert (after.state, effects) == (SlotState.RECLAIMED, ())
    assert after.reason == "the instance went away before it was ready"


def test_an_instance_that_goes_away_after_it_joined_is_followed_by_way_of_launched() -> None:
    joined = replace(LAUNCHED, state=SlotState.JOINED, node_name="a1")
    back, effects = advance_slot(joined, make_situation(seen(None, InstanceState.GONE)))
    assert (back.state, effects) == (SlotState.LAUNCHED, ())
    after, _ = advance_slot(back, make_situation(seen(None, InstanceState.GONE)))
    assert after.state is SlotState.RECLAIMED


def test_a_node_that_leaves_again_is_waited_for_anew() -> None:
    joined = replace(LAUNCHED, state=SlotState.JOINED, node_name="a1")
    after, effects = advance_slot(joined, make_situation(seen()))
    assert (after.state, effects) == (SlotState.LAUNCHED, ())


def test_an_instance_is_not_reclaimed_while_a_ready_node_that_came_since_may_be_its_own() -> None:
    """One that joined by itself, without provider id or label: terminating it would take its pods along."""
    launched = make_slot(state=SlotState.LAUNCHED, instance_id="i-a9", since=NOW - 600)
    nobodys = make_node("stranger", provider_id="", private_ip="", created_at=NOW - 500)
    seen = make_snapshot([nobodys], instances=[make_instance("i-a9", key=launched.key)])
    after, effects = advance_slot(launched, make_situation(seen))
    assert (after.state, effects) == (SlotState.LAUNCHED, ())
    assert after.reason == "a ready node that matches no instance may be this one"
    older = replace(seen, cluster=ClusterView((replace(nobodys, created_at=NOW - 700),)))
    assert advance_slot(launched, make_situation(older))[0].state is SlotState.RECLAIMING


@pytest.mark.parametrize("launched_at", [NOW - 800, 0], ids=["the cloud says when", "it does not"])
def test_nor_is_one_that_joins_by_itself_after_the_join_timeout(launched_at: int) -> None:
    reclaiming = make_slot(state=SlotState.RECLAIMING, instance_id="i-a9", since=NOW - 90)
    late = make_node("stranger", provider_id="", private_ip="", created_at=NOW - 60)
    instance = make_instance("i-a9", key=reclaiming.key, launched_at=launched_at)
    seen = make_snapshot([late], instances=[instance])
    assert advance_slot(reclaiming, make_situation(seen)) == (reclaiming, ())
    older = replace(seen, cluster=ClusterView((replace(late, created_at=NOW - 900),)))
    assert advance_slot(reclaiming, make_situation(older))[1] == (Terminate("i-a9", "", "", "op"),)
