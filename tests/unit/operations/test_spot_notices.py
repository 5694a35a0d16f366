"""Spot notices become operations once, however often, late or out of order they come."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations import spot
from ebbtide.core.operations.spot import check_invariants, close, may_be_ours, take_in
from ebbtide.model.effect import Breach
from ebbtide.model.events import SpotAnswer
from ebbtide.model.operation import RemovalState, SlotState, SpotEnd, SpotKind, SpotNotice
from ebbtide.model.record import CapacityBackoff, Record
from ebbtide.model.snapshot import InstanceState, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_node,
    make_nodes,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import breaches, fleet, with_instance

SEEN = fleet(make_node("a1"))
INTERRUPTION = SpotNotice("i-a1", SpotKind.INTERRUPTION, NOW, NOW + 120)
REBALANCE = SpotNotice("i-a1", SpotKind.REBALANCE, NOW - 60, NOW + 600)


def taken(
    notice: SpotNotice, record: Record | None = None, snapshot: Snapshot = SEEN, now: int = NOW
) -> tuple[Record, SpotAnswer]:
    return take_in(record or make_record(), notice, snapshot, make_settings(), now)


def test_a_notice_opens_an_operation_whose_id_is_derived_from_the_instance() -> None:
    record, answer = taken(INTERRUPTION)
    assert record.spots == (make_spot("a1"),)
    assert record.spots[0].id == "spot:i-a1"
    assert answer is SpotAnswer.TAKEN_IN


@pytest.mark.parametrize(
    ("snapshot", "now", "waits"),
    [
        (SEEN, NOW, False),
        (replace(SEEN, instances=()), NOW, True),
        (replace(SEEN, instances=()), NOW + 180, False),
        (make_snapshot(instances=()), NOW, False),
        (
            make_snapshot(
                [make_node("a1", instance_id="i-a1", provider_id=""), make_node("b1")],
                instances=[make_instance("i-b1")],
            ),
            NOW,
            True,
        ),
        (
            make_snapshot([make_node("a1", provider_id="x:///a/i-a1")], instances=[make_instance("i-b1")]),
            NOW,
            True,
        ),
        (
            make_snapshot([make_node("c1", provider_id="x:///a/i-c1")], instances=[make_instance("i-b1")]),
            NOW,
            False,
        ),
    ],
    ids=["listed", "none listed", "too old", "no workers", "by label", "by provider id", "another's"],
)
def test_a_notice_waits_where_the_cloud_does_not_list_what_may_be_ours(
    snapshot: Snapshot, now: int, waits: bool
) -> None:
    assert may_be_ours(INTERRUPTION, snapshot, make_settings(), now) is waits


def test_a_recommendation_does_not_wait_for_longer_than_it_means_anything() -> None:
    settings, unlisted = make_settings(), replace(SEEN, instances=())
    until = NOW + settings.rebalance_seconds
    notice = SpotNotice("i-a1", SpotKind.REBALANCE, NOW, NOW + 600)
    assert may_be_ours(notice, unlisted, settings, until - 1)
    assert not may_be_ours(notice, unlisted, settings, until)


def test_a_duplicate_changes_nothing() -> None:
    record, _ = taken(INTERRUPTION)
    again, answer = taken(INTERRUPTION, record)
    assert again == record
    assert answer is SpotAnswer.KNOWN


def test_a_rebalance_is_upgraded_in_place_by_an_interruption() -> None:
    recommended, _ = taken(REBALANCE)
    busy = replace(recommended.spots[0], slot=make_slot("spot:i-a1-0"))
    upgraded, answer = taken(INTERRUPTION, replace(recommended, spots=(busy, make_spot("b1"))))
    assert upgraded.spots == (
        replace(busy, kind=SpotKind.INTERRUPTION, noticed_at=NOW, deadline=NOW + 120),
        make_spot("b1"),
    )
    assert answer is SpotAnswer.UPGRADED


def test_a_rebalance_that_comes_after_the_interruption_changes_nothing() -> None:
    record, _ = taken(INTERRUPTION)
    assert taken(REBALANCE, record)[0] == record


@pytest.mark.parametrize(
    ("snapshot", "why"),
    [
        (make_snapshot(make_nodes("b1")), SpotAnswer.NOT_OURS),
        (make_snapshot([], [], instances=[make_instance("i-a1", pool="")]), SpotAnswer.NOT_OURS),
        (with_instance(SEEN, "i-a1", state=InstanceState.TERMINATING), SpotAnswer.ALREADY_GOING),
    ],
)
def test_a_notice_about_nothing_of_ours_is_ignored(snapshot: Snapshot, why: SpotAnswer) -> None:
    record, answer = taken(INTERRUPTION, snapshot=snapshot)
    assert record == make_record()
    assert answer is why


@pytest.mark.parametrize(
    ("notice", "now"),
    [(INTERRUPTION, NOW + 180), (REBALANCE, NOW - 60 + 900)],
    ids=["interruption", "rebalance"],
)
def test_a_notice_that_comes_too_late_is_ignored(notice: SpotNotice, now: int) -> None:
    assert taken(notice, now=now - 1)[0].spots
    record, answer = taken(notice, now=now)
    assert record == make_record()
    assert answer is SpotAnswer.TOO_OLD


def test_a_notice_from_the_future_is_taken_as_of_now() -> None:
    record, _ = taken(replace(REBALANCE, noticed_at=NOW + 5000))
    assert record.spots[0].noticed_at == NOW


def test_a_node_that_is_already_being_removed_gets_no_replacement() -> None:
    record, _ = taken(INTERRUPTION, make_record(operation=make_scale_down(make_removal("a1"))))
    assert not record.spots[0].replace


def test_a_node_that_was_given_back_does() -> None:
    released = make_removal("a1", state=RemovalState.RELEASED)
    record, _ = taken(INTERRUPTION, make_record(operation=make_scale_down(released)))
    assert record.spots[0].replace


def test_what_had_no_capacity_for_a_replacement_is_remembered() -> None:
    slot = make_slot(state=SlotState.FAILED, refused=("a/spot/small",))
    gone = make_spot("a1", slot=slot, closing=SpotEnd.ANSWERED)
    closed = close(make_record(spots=(gone,)), gone, make_settings(), NOW)
    assert closed.record.offer_rests == (CapacityBackoff("a/spot/small", NOW + 600),)


def test_closing_takes_only_its_own_operation_out_of_the_record() -> None:
    gone = make_spot("a1", removal=make_removal(state=RemovalState.GONE), closing=SpotEnd.ANSWERED)
    closed = close(make_record(spots=(gone, make_spot("b1"))), gone, make_settings(), NOW)
    assert (closed.record, closed.succeeded) == (make_record(spots=(make_spot("b1"),)), True)
    assert spot.is_settled(gone)


def test_a_node_removed_on_recommendation_starts_the_cooldown() -> None:
    gone = make_spot(
        "a1", kind=SpotKind.REBALANCE, removal=make_removal(state=RemovalState.GONE), closing=SpotEnd.ANSWERED
    )
    assert close(make_record(spots=(gone,)), gone, make_settings(), NOW).record == make_record(
        last_scale_at=NOW
    )
    kept = replace(gone, removal=make_removal(state=RemovalState.RELEASED), closing=SpotEnd.NODE_STAYS)
    closed = close(make_record(spots=(kept,)), kept, make_settings(), NOW)
    assert (closed.record, closed.succeeded) == (make_record(), False)


def test_invariants_name_what_a_spot_operation_must_never_do() -> None:
    full = make_spot("a1", removal=make_removal(state=RemovalState.TERMINATING), slot=make_slot())
    assert breaches(check_invariants(full, full)) == []
    assert breaches(check_invariants(full, replace(full, kind=SpotKind.REBALANCE))) == [
        (Breach.TAKEN_BACK, "spot:i-a1")
    ]
    assert breaches(check_invariants(full, replace(full, removal=None))) == [(Breach.LOST, "spot:i-a1")]
    assert breaches(check_invariants(full, replace(full, slot=None))) == [(Breach.LOST, "spot:i-a1")]
    released = replace(full, removal=make_removal(state=RemovalState.RELEASED))
    assert breaches(check_invariants(full, released)) == [(Breach.STATE, "i-a1")]
    jumped = replace(full, slot=make_slot(state=SlotState.READY))
    assert breaches(check_invariants(full, jumped)) == [(Breach.STATE, "op-0")]
    assert breaches(check_invariants(make_spot(), full)) == []
