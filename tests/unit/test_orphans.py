"""What a crash may leave behind is found on positive evidence, and only after a grace."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.nodes.orphans import (
    Foreign,
    cordon_id,
    dead_nodes,
    graces,
    lone_instances,
    newly_foreign,
    overdue,
    stale_mark,
    stray_cordons,
    track_orphans,
)
from ebbtide.model.operation import RemovalState, SlotState
from ebbtide.model.record import DrainBackoff, Missing, Record, Refused
from ebbtide.model.snapshot import InstanceState, Ownership
from tests.builders import (
    NOW,
    make_instance,
    make_instance_of,
    make_node,
    make_nodes,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)

LONE = make_instance("i-lone", key="s1")
SETTINGS = make_settings()


def test_an_instance_of_ours_without_node_and_operation_is_lone() -> None:
    snapshot = make_snapshot(make_nodes("a1"), extra_instances=[LONE])
    assert lone_instances(snapshot, make_record()) == (LONE,)


@pytest.mark.parametrize("strange", [{"pool": ""}, {"state": InstanceState.TERMINATING}])
def test_an_instance_that_is_not_ours_or_already_going_is_left_alone(strange: dict[str, object]) -> None:
    instance = make_instance("i-x", **strange)
    assert lone_instances(make_snapshot(extra_instances=[instance]), make_record()) == ()


@pytest.mark.parametrize(
    "record",
    [
        make_record(operation=make_scale_up(make_slot("s1"))),
        make_record(operation=make_scale_up(make_slot("other", instance_id="i-lone"))),
        make_record(set_aside=make_scale_up(make_slot("s1"))),
        make_record(operation=make_scale_down(make_removal("lone"))),
        make_record(spots=(make_spot("lone"),)),
    ],
)
def test_an_instance_that_an_operation_knows_is_not_lone(record: Record) -> None:
    assert lone_instances(make_snapshot(extra_instances=[LONE]), record) == ()


@pytest.mark.parametrize(
    ("since", "ticked_at", "launch_hash", "told"),
    [
        (NOW - 900, NOW - 30, "theirs", True),
        (NOW - 899, NOW - 30, "theirs", False),
        (NOW - 930, NOW - 30, "theirs", False),
        (NOW - 900, NOW - 30, "ours", False),
    ],
)
def test_what_may_be_of_another_cluster_is_told_once_when_its_grace_is_over(
    since: int, ticked_at: int, launch_hash: str, told: bool
) -> None:
    settings = make_settings(pools=(make_pool(launch_hash="ours"),), orphan_grace_seconds=900)
    other = replace(LONE, launch_hash=launch_hash)
    snapshot = make_snapshot(make_nodes("a1"), extra_instances=[other])
    record = make_record(orphans=(Missing("i-lone", since),), ticked_at=ticked_at)
    found = [Foreign(settings.cluster, "i-lone", other.pool)] if told else []
    assert list(newly_foreign(snapshot, record, record, settings, NOW)) == found
    assert not list(newly_foreign(snapshot, record, make_record(), settings, NOW))


DEAD = make_node("a1", ready=False)


@pytest.mark.parametrize("state", [SlotState.RECLAIMED, SlotState.FAILED])
def test_what_a_slot_gave_up_and_the_cloud_shows_again_is_adopted_when_its_scale_up_is_closed(
    state: SlotState,
) -> None:
    """Swarm seed 1316: adopted before, it was in one scale-up twice, and every tick failed from then on."""
    given_up = make_slot("s1", state=state, instance_id="")
    still_open = make_scale_up(given_up, make_slot("s2", state=SlotState.LAUNCHED))
    seen = make_snapshot(extra_instances=[LONE])
    assert lone_instances(seen, make_record(operation=still_open)) == ()
    assert lone_instances(seen, make_record()) == (LONE,)


def test_a_node_is_dead_when_it_is_not_ready_and_its_instance_is_gone() -> None:
    gone = make_instance_of(DEAD, state=InstanceState.GONE)
    assert dead_nodes(make_snapshot([DEAD], instances=[gone]), make_record()) == (DEAD,)


LABELLED = make_node("a1", ready=False, instance_id="i-label")
WHOLE = make_nodes("b1")


def test_a_node_that_the_cloud_does_not_list_is_dead_only_by_a_list_that_can_be_whole() -> None:
    others = [make_instance_of(node) for node in WHOLE]
    seen = make_snapshot([LABELLED, *WHOLE], instances=others)
    assert dead_nodes(seen, make_record()) == (LABELLED,)
    assert dead_nodes(replace(seen, instances=()), make_record()) == (), "an empty list proves nothing"
    unlisted = make_node("b2", instance_id="i-b2")
    partial = make_snapshot([LABELLED, *WHOLE, unlisted], instances=others)
    assert dead_nodes(partial, make_record()) == (), "nor does one without a worker that is Ready"


def test_a_node_is_gone_when_the_cloud_says_so_or_has_not_listed_it_for_the_grace() -> None:
    said = make_snapshot([DEAD], instances=[make_instance_of(DEAD, state=InstanceState.GONE)])
    assert track_orphans(said, make_record(), SETTINGS, NOW).gone_nodes == {"uid-a1"}
    going = make_snapshot([DEAD], instances=[make_instance_of(DEAD, state=InstanceState.TERMINATING)])
    assert track_orphans(going, make_record(), SETTINGS, NOW).gone_nodes == set()
    unlisted = make_snapshot([LABELLED, *WHOLE], instances=[make_instance_of(node) for node in WHOLE])
    first = track_orphans(unlisted, make_record(), SETTINGS, NOW)
    assert first.orphans == (Missing("uid-a1", NOW),)
    assert first.gone_nodes == set()
    assert track_orphans(unlisted, first, SETTINGS, NOW + 59).gone_nodes == set()
    assert track_orphans(unlisted, first, SETTINGS, NOW + 60).gone_nodes == {"uid-a1"}


def test_what_could_not_be_reclaimed_is_left_alone_for_a_while() -> None:
    record = make_record(rests=(DrainBackoff("i-lone", NOW + 60, "it could not be reclaimed"),))
    assert lone_instances(make_snapshot(instances=[LONE]), record) == ()


def test_a_machine_that_merely_lacks_our_tag_is_not_dead() -> None:
    assert dead_nodes(make_snapshot([DEAD], instances=[LONE]), make_record()) == ()


def test_a_ready_node_is_never_dead_and_neither_is_one_whose_instance_runs() -> None:
    assert dead_nodes(make_snapshot(make_nodes("a1"), instances=[]), make_record()) == ()
    assert dead_nodes(make_snapshot([DEAD]), make_record()) == ()


def test_without_provider_id_and_label_nothing_proves_that_an_instance_is_gone() -> None:
    node = make_node("a1", ready=False, provider_id="", private_ip="10.0.0.1")
    assert dead_nodes(make_snapshot([node], instances=[]), make_record()) == ()


def test_a_dead_node_of_k3s_is_known_by_the_label_set_at_join() -> None:
    node = make_node("a1", ready=False, provider_id="", instance_id="i-a1")
    assert dead_nodes(make_snapshot([node], instances=[LONE]), make_record()) == (node,)
    assert dead_nodes(make_snapshot([node]), make_record()) == (), "its instance is listed"


def test_a_dead_node_of_a_machine_given_up_before_it_joined_is_the_business_of_its_removal() -> None:
    """The cloud had refused to end it, it joined late, and is gone now: swarm, seed 3998."""
    terminating = make_removal("a1", instance_id="i-label", state=RemovalState.TERMINATING)
    given_up = replace(terminating, node_name="", node_uid="")
    record = make_record(refused=(Refused("op", given_up, NOW + 900),))
    seen = make_snapshot([LABELLED, *WHOLE], instances=[make_instance_of(node) for node in WHOLE])
    assert dead_nodes(seen, record) == ()
    listed = make_instance_of(DEAD, state=InstanceState.GONE)
    known = replace(given_up, instance_id=listed.id)
    record = make_record(refused=(Refused("op", known, NOW + 900),))
    assert dead_nodes(make_snapshot([DEAD], instances=[listed]), record) == ()


@pytest.mark.parametrize(
    "record",
    [
        make_record(operation=make_scale_down(make_removal("a1"))),
        make_record(spots=(make_spot("a1", removal=make_removal("a1", state=RemovalState.GONE)),)),
    ],
)
def test_a_dead_node_that_an_operation_removes_is_its_business(record: Record) -> None:
    gone = make_instance_of(DEAD, state=InstanceState.GONE)
    assert dead_nodes(make_snapshot([DEAD], instances=[gone]), record) == ()


CORDONED = make_node("a1", unschedulable=True, owner=Ownership("op", 3))


def test_a_cordon_of_ours_is_stray_once_its_operation_is_closed() -> None:
    snapshot = make_snapshot([CORDONED, make_node("a2", unschedulable=True)])
    assert stray_cordons(snapshot, make_record()) == (CORDONED,), "the cordon of a person is never ours"
    assert stray_cordons(snapshot, make_record(operation=make_scale_down(id="op"))) == ()
    assert stray_cordons(snapshot, make_record(set_aside=make_scale_down(id="op"))) == ()
    signed = make_snapshot([make_node("a1", owner=Ownership("spot:i-a1", 3))])
    assert stray_cordons(signed, make_record(spots=(make_spot("a1"),))) == ()


def test_a_mark_on_a_node_whose_notice_is_answered_is_lifted_by_the_answer() -> None:
    """Swarm seed 16710: it was released next to the answer, so the node had two owners."""
    snapshot = make_snapshot([CORDONED])
    assert stray_cordons(snapshot, make_record(spots=(make_spot("a1"),))) == (CORDONED,)
    answered = make_spot("a1", removal=make_removal("a1", state=RemovalState.DRAINING))
    assert stray_cordons(snapshot, make_record(spots=(answered,))) == ()
    assert stale_mark(CORDONED, make_record(spots=(answered,))) == CORDONED.owner
    assert stale_mark(CORDONED, make_record(operation=make_scale_down(id="op"))) is None
    assert stale_mark(make_node("a2", unschedulable=True), make_record()) is None


def test_orphans_are_remembered_since_they_were_first_seen_and_forgotten_when_gone() -> None:
    labelled = replace(DEAD, provider_id="", instance_id="i-a1")
    seen = make_snapshot([labelled, make_node("a2", owner=Ownership("op", 1))], instances=[LONE])
    record = make_record(orphans=(Missing("i-lone", NOW - 50), Missing("i-old", NOW - 99)))
    after = track_orphans(seen, record, SETTINGS, NOW)
    assert after.orphans == (
        Missing("i-lone", NOW - 50),
        Missing("uid-a1", NOW),
        Missing("cordon:uid-a2", NOW),
    )


def test_a_stamp_of_an_orphan_from_the_future_is_taken_as_now() -> None:
    record = make_record(orphans=(Missing("i-lone", NOW + 50),))
    assert track_orphans(make_snapshot(instances=[LONE]), record, SETTINGS, NOW).orphans == (
        Missing("i-lone", NOW),
    )


def test_an_incomplete_observation_neither_finds_nor_forgets_an_orphan() -> None:
    record = make_record(orphans=(Missing("i-lone", NOW - 50),))
    assert track_orphans(make_snapshot(problems=("?",)), record, SETTINGS, NOW) is record


def test_an_orphan_is_overdue_after_the_grace() -> None:
    record = make_record(orphans=(Missing(cordon_id(DEAD), NOW - 900), Missing("i-lone", NOW - 899)))
    assert overdue(record, "cordon:uid-a1", make_settings(), NOW)
    assert not overdue(record, "i-lone", make_settings(), NOW)
    assert not overdue(record, "i-unknown", make_settings(), NOW)


def test_where_nearly_half_seem_to_have_no_node_it_is_rather_the_list_of_nodes_that_is_wrong() -> None:
    other = make_instance("i-other", key="op-1")
    few = make_snapshot(make_nodes("a1", "b1", "c1"), extra_instances=[LONE, other])
    many = make_snapshot(make_nodes("a1", "b1"), extra_instances=[LONE, other])
    single = make_snapshot(make_nodes("a1"), extra_instances=[LONE])
    assert [graces(seen, make_record(), make_settings()) for seen in (few, many, single)] == [1, 4, 1]
    record = make_record(orphans=(Missing("i-lone", NOW - 3599),))
    assert not overdue(record, "i-lone", make_settings(), NOW, 4)
    assert overdue(record, "i-lone", make_settings(), NOW + 1, 4)
