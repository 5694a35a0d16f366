"""A slot from LAUNCHED to READY, or back: what never joins is reclaimed, what joins late is kept."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import machine, slots
from ebbtide.model.effect import Breach, Cordon, DeleteNode, Evict, Terminate
from ebbtide.model.operation import RemovalState, SlotCause, SlotState
from ebbtide.model.snapshot import ClusterView, InstanceState, Node, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_node,
    make_nodes,
    make_pod,
    make_record,
    make_scale_down,
    make_scale_up,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import (
    advance_slot,
    breaches,
    cordoned,
    make_situation,
    with_pods,
    with_work,
)

OTHERS = make_nodes("b1", "b2")
LAUNCHED = make_slot(state=SlotState.LAUNCHED, instance_id="i-a1")
RECLAIMING = make_slot(state=SlotState.RECLAIMING, instance_id="i-a1", reason="no node 10 min after launch")
TERMINATING = replace(RECLAIMING, state=SlotState.TERMINATING, terminated=True)
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
    assert after.why is SlotCause.NO_NODE
    assert advance_slot(after, make_situation(seen(), now=LATE + 59)) == (after, ())
    intent, effects = advance_slot(after, make_situation(seen(), now=LATE + 60))
    assert (intent.state, intent.since, intent.terminated) == (SlotState.TERMINATING, LATE + 60, True)
    assert effects == (), "it is looked for once more after the intent is written"
    again = advance_slot(intent, make_situation(seen(), now=LATE + 60))
    assert again == (intent, (Terminate("i-a1", "", "", "op"),))


def test_an_old_list_after_a_long_silence_does_not_take_a_node_that_has_joined() -> None:
    """Nobody looked for long; the first list is older than the node, the next one shows it."""
    after, effects = advance_slot(LAUNCHED, make_situation(seen(), now=LATE))
    assert effects == ()
    again, effects = advance_slot(after, make_situation(seen(make_node("a1")), now=LATE + 30))
    assert (again.state, effects) == (SlotState.READY, ())


def test_joined_but_never_ready_is_reclaimed_once_its_node_is_cordoned_and_settled() -> None:
    joined = replace(LAUNCHED, state=SlotState.JOINED, node_name="a1")
    unready = seen(make_node("a1", ready=False))
    after, effects = advance_slot(joined, make_situation(unready, now=LATE))
    assert (after.state, after.why) == (SlotState.RECLAIMING, SlotCause.NOT_READY)
    assert effects == ()
    intent, effects = advance_slot(after, make_situation(unready, now=LATE + 60))
    assert (intent.state, effects) == (SlotState.TERMINATING, ())
    open_, effects = advance_slot(intent, make_situation(unready, now=LATE + 60))
    assert effects == (Cordon("a1", "uid-a1", "op"),)
    shut = seen(cordoned("a1", ready=False))
    settling, effects = advance_slot(open_, make_situation(shut, now=LATE + 61))
    assert (settling.shut_since, effects) == (LATE + 61, ())
    assert advance_slot(settling, make_situation(shut, now=LATE + 70)) == (settling, ())
    last, effects = advance_slot(settling, make_situation(shut, now=LATE + 71))
    assert (last, effects) == (settling, (Terminate("i-a1", "a1", "uid-a1", "op"),))


def test_nothing_is_terminated_that_the_cloud_does_not_list_because_its_node_may_be_ready() -> None:
    """Without the instance its node cannot be recognised either, however Ready it is."""
    after, effects = advance_slot(LAUNCHED, make_situation(seen(make_node("a1"), state=None), now=LATE))
    assert (after.state, effects) == (SlotState.RECLAIMING, ())
    again, effects = advance_slot(after, make_situation(seen(make_node("a1")), now=LATE + 30))
    assert (again.state, again.node_name, effects) == (SlotState.READY, "a1", ())


def test_a_node_that_joins_late_becomes_a_worker_instead_of_being_reclaimed() -> None:
    after, effects = advance_slot(RECLAIMING, make_situation(seen(make_node("a1")), now=NOW + 30))
    assert (after.state, after.node_name, after.reason, effects) == (SlotState.READY, "a1", "", ())
    assert after.since == NOW + 30


def test_a_late_joiner_is_kept_even_when_it_is_first_seen_after_the_timeout() -> None:
    after, effects = advance_slot(LAUNCHED, make_situation(seen(make_node("a1")), now=LATE))
    assert (after.state, effects) == (SlotState.JOINED, ())


def test_terminate_is_asked_for_again_until_the_instance_goes() -> None:
    situation = make_situation(seen(), now=NOW + 60)
    assert advance_slot(TERMINATING, situation) == (TERMINATING, (Terminate("i-a1", "", "", "op"),))


@pytest.mark.parametrize("ready", [True, False])
def test_a_machine_that_joins_after_the_intent_never_becomes_a_worker(ready: bool) -> None:
    """A runner that froze before its terminate may still send it, and whatever runs there would be lost."""
    joined = seen(make_node("a1", ready=ready))
    after, effects = advance_slot(TERMINATING, make_situation(joined, now=NOW + 30))
    assert (after.state, after.node_name) == (SlotState.TERMINATING, "a1")
    assert effects == (Cordon("a1", "uid-a1", "op"),)


def test_a_termination_that_is_taken_back_breaks_the_invariants() -> None:
    ready = replace(TERMINATING, state=SlotState.READY, terminated=False)
    assert breaches(slots.check_invariants(TERMINATING, ready)) == [
        (Breach.STATE, "op-0"),
        (Breach.TAKEN_BACK, "op-0"),
    ]


def test_pods_that_came_with_it_are_evicted_before_it_goes() -> None:
    web = make_pod("web", node_name="a1")
    full = with_pods(seen(cordoned("a1")), web)
    settling = replace(TERMINATING, shut_since=NOW)
    after, effects = advance_slot(settling, make_situation(full, now=NOW + 60))
    assert after.shut_since == 0, "what is evicted may be followed by a late bind: it settles again"
    assert effects == (Evict("default", "web", web.uid, "a1", web.grace_seconds),)


def test_a_machine_is_not_given_up_permanently_while_pods_are_on_its_node() -> None:
    busy = with_pods(seen(make_node("a1", ready=False)), make_pod("web", node_name="a1"))
    assert advance_slot(RECLAIMING, make_situation(busy, now=NOW + 60)) == (RECLAIMING, ())


def test_a_machine_that_the_cloud_is_taking_is_not_terminated_by_us() -> None:
    noticed = make_record(spots=(make_spot("a1", noticed_at=NOW + 50, deadline=NOW + 170),))
    situation = make_situation(seen(), record=noticed, now=NOW + 60)
    assert advance_slot(RECLAIMING, situation) == (RECLAIMING, ())


def test_after_the_intent_one_list_without_the_instance_proves_nothing() -> None:
    unlisted = seen(state=None)
    after, effects = advance_slot(TERMINATING, make_situation(unlisted, now=NOW + 500))
    assert (after.state, after.missing_since, effects) == (SlotState.TERMINATING, NOW + 500, ())
    again, _ = advance_slot(after, make_situation(unlisted, now=NOW + 559))
    assert again.state is SlotState.TERMINATING
    ready = seen(make_node("a1", instance_id="i-a1"), state=None)
    assert advance_slot(after, make_situation(ready, now=NOW + 600)) == (after, ()), "its node contradicts it"
    gone, _ = advance_slot(after, make_situation(unlisted, now=NOW + 560))
    assert (gone.state, gone.reason) == (SlotState.RECLAIMED, TERMINATING.reason)
    listed, _ = advance_slot(after, make_situation(seen(), now=NOW + 560))
    assert listed.missing_since == 0


@pytest.mark.parametrize("state", [InstanceState.TERMINATING, InstanceState.GONE])
def test_after_the_intent_a_machine_that_the_cloud_lists_as_ending_needs_no_more_of_us(
    state: InstanceState,
) -> None:
    after, effects = advance_slot(TERMINATING, make_situation(seen(state=state), now=NOW + 60))
    assert (after.state, after.reason, effects) == (SlotState.RECLAIMED, TERMINATING.reason, ())


def test_after_the_intent_a_ready_node_that_may_be_its_own_is_still_spared() -> None:
    nobodys = make_node("stranger", provider_id="", private_ip="", created_at=NOW + 10)
    stranger = make_snapshot([*OTHERS, nobodys], instances=seen().instances)
    assert advance_slot(TERMINATING, make_situation(stranger, now=NOW + 60)) == (TERMINATING, ())


def test_what_cannot_be_reclaimed_does_not_hold_up_all_scaling_forever() -> None:
    busy = with_pods(seen(make_node("a1", ready=False)), make_pod("web", node_name="a1"))
    after, effects = advance_slot(RECLAIMING, make_situation(busy, now=NOW + 900))
    assert (after.state, effects) == (SlotState.FAILED, ())
    assert after.why is SlotCause.STUCK


def test_what_the_cloud_will_not_terminate_continues_as_a_removal() -> None:
    work = make_scale_up(TERMINATING)
    situation = make_situation(seen(), record=with_work(work), now=NOW + 900)
    after, effects = advance_slot(TERMINATING, situation)
    assert (after.state, after.terminated, effects) == (SlotState.FAILED, True, ())
    closed = machine.close(replace(work, slots=(after,)), situation)
    assert closed.record.rests == (), "it is not left alone"
    (follows,) = closed.record.refused
    assert (follows.operation_id, follows.removal.instance_id) == ("op", "i-a1")
    assert (follows.removal.state, follows.removal.terminated) == (RemovalState.TERMINATING, True)
    assert follows.retry_at == NOW + 900, "it is taken up as soon as no other removal is in progress"


def test_it_is_handed_over_whatever_else_is_being_removed() -> None:
    busy = with_work(make_scale_down(id="another"))
    after, effects = advance_slot(TERMINATING, make_situation(seen(), record=busy, now=NOW + 900))
    assert (after.state, effects) == (SlotState.FAILED, ())


def test_a_replacement_that_cannot_be_terminated_continues_as_a_removal_too() -> None:
    handed = replace(TERMINATING, state=SlotState.FAILED)
    spot = make_spot("b1", slot=handed, closing="it is over")
    closed = machine.close(spot, make_situation(record=with_work(spot)))
    assert [one.operation_id for one in closed.record.refused] == [spot.id]


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
    assert after.why is SlotCause.WENT_AWAY


def test_an_instance_that_goes_away_after_it_joined_is_followed_by_way_of_launched() -> None:
    joined = replace(LAUNCHED, state=SlotState.JOINED, node_name="a1")
    back, effects = advance_slot(joined, make_situation(seen(None, InstanceState.GONE)))
    assert (back.state, effects) == (SlotState.LAUNCHED, ())
    after, _ = advance_slot(back, make_situation(seen(None, InstanceState.GONE)))
    assert after.state is SlotState.RECLAIMED


def test_a_node_that_leaves_again_is_waited_for_again() -> None:
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
    assert after.why is SlotCause.STRANGER
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
    assert advance_slot(reclaiming, make_situation(older))[0].state is SlotState.TERMINATING
