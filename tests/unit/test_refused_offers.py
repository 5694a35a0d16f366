"""Offers that the cloud refuses for what they are: others come at once, and these rest longer each time."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.consolidation.look import offers_of
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.offers import all_offers, refused_offers
from ebbtide.core.nodes.timers import track
from ebbtide.core.operations import facts, scale_up
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Launch, Outcome, OutcomeKind
from ebbtide.model.events import AlarmKind
from ebbtide.model.operation import SlotState
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import Record, RefusedOffer
from tests.builders import (
    NOW,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
)
from tests.builders import make_type as kind
from tests.unit.operations.builders import make_situation

DAY = 86_400
ARM, X86 = "a/on-demand/arm", "a/on-demand/x86"
TYPES = (kind("arm", price="0.01"), kind("x86", price="0.05"))
POOL = make_pool(types=TYPES, zones=("a",), launch_hash="one")
SETTINGS = make_settings(pools=(POOL,), offer_rest_seconds=600)
ARM_SLOT = make_slot(instance_type="arm", state=SlotState.LAUNCHING)
REFUSED = make_slot(
    "op-0r1", instance_type="x86", state=SlotState.FAILED, refused=(ARM,), unfit=(ARM,), reason="wrong"
)


def answered(unfit: bool) -> Any:
    operation = make_scale_up(ARM_SLOT)
    outcome = Outcome(Launch(ARM_SLOT, "op"), OutcomeKind.NO_CAPACITY, "arm is not x86", unfit=unfit)
    situation = make_situation(record=make_record(operation=operation), settings=SETTINGS)
    return operation, scale_up.absorb(operation, [outcome], situation)


def closed(record: Record, *slots: Any, now: int = NOW) -> Record:
    operation = make_scale_up(*(slots or (REFUSED,)))
    return scale_up.close(replace(record, launching=operation), operation, SETTINGS, now).record


def refusal(until: int = NOW + 600, **overrides: Any) -> RefusedOffer:
    given = {"offer": ARM, "pool": POOL.name, "launch_hash": "one", "times": 1, "until": until}
    return RefusedOffer(**{**given, "forget_at": until + DAY, **overrides})


@pytest.mark.parametrize("unfit", [True, False])
def test_the_next_offer_is_asked_for_at_once(unfit: bool) -> None:
    _, after = answered(unfit)
    (slot,) = after.slots
    assert (slot.state, slot.instance_type) == (SlotState.RESERVED, "x86")
    assert (slot.refused, slot.unfit) == ((ARM,), (ARM,) if unfit else ())


def test_a_person_is_told_once_with_the_words_of_the_cloud() -> None:
    before, after = answered(True)
    ((subject, alarm),) = facts.alarms(before, after)
    assert (subject, alarm.alarm, alarm.operation_id) == (ARM, AlarmKind.OBSERVATION, "op")
    assert "arm is not x86" in alarm.detail
    assert list(facts.alarms(after, after)) == []
    assert list(facts.alarms(*answered(False))) == []
    both = replace(after, slots=(*after.slots, replace(after.slots[0], key="op-1r1")))
    assert len(list(facts.alarms(before, both))) == 1


def test_each_refusal_doubles_the_time_up_to_a_day() -> None:
    record, now, waits = make_record(), NOW, []
    for _ in range(10):
        record = closed(record, now=now)
        (one,) = record.refused_offers
        waits.append(one.until - now)
        assert (one.pool, one.launch_hash, one.forget_at) == (POOL.name, "one", one.until + DAY)
        now = one.until
    assert waits == [600, 1200, 2400, 4800, 9600, 19_200, 38_400, 76_800, DAY, DAY]
    assert SETTINGS.refused_seconds(10_000) == DAY
    assert make_settings(offer_rest_seconds=2 * DAY).refused_seconds(1) == 2 * DAY


def test_slots_that_ask_at_the_same_time_are_refused_once() -> None:
    record = closed(make_record(), REFUSED, replace(REFUSED, key="op-1r1"))
    assert [one.times for one in record.refused_offers] == [1]


def test_what_was_launched_after_all_is_forgotten() -> None:
    before = make_record(refused_offers=(refusal(), refusal(offer=X86)))
    ready = make_slot(instance_type="arm", state=SlotState.READY, instance_id="i-1")
    assert [one.offer for one in closed(before, ready).refused_offers] == [X86]


def test_of_a_pool_that_is_gone_no_configuration_is_known() -> None:
    (one,) = closed(make_record(), replace(REFUSED, pool="gone")).refused_offers
    assert one.launch_hash == ""
    assert refused_offers(make_record(refused_offers=(one,)), SETTINGS, NOW) == {ARM}


@pytest.mark.parametrize(
    ("known", "skipped"),
    [
        (refusal(NOW + 1), True),
        (refusal(NOW), False),
        (refusal(launch_hash="another image"), False),
    ],
)
def test_it_is_skipped_until_its_time_is_over_or_the_configuration_is_another(
    known: RefusedOffer, skipped: bool
) -> None:
    record = make_record(refused_offers=(known,))
    assert (ARM in refused_offers(record, SETTINGS, NOW)) is skipped
    offers = all_offers(make_snapshot(), record, SETTINGS)
    assert [each.rests for each in offers] == [skipped, False]
    found = offers_of(make_snapshot().cluster, record, SETTINGS, "EUR", NOW)
    assert [each.node_type.name for each in found] == (["x86"] if skipped else ["arm", "x86"])


def test_an_open_launch_does_not_ask_for_it_again_when_it_is_extended() -> None:
    record = make_record(operation=make_scale_up(replace(REFUSED, state=SlotState.LAUNCHED)))
    assert refused_offers(record, SETTINGS, NOW) == {ARM}


def decided(record: Record, *types: Any) -> Decision:
    nodes = (make_node("a1", instance_type="x86"),)
    snapshot = make_snapshot(
        nodes,
        [make_pod("web", 3900, 1024, phase=PodPhase.PENDING), make_pod("full", 3900, 1, node_name="a1")],
    )
    settings = replace(SETTINGS, pools=(replace(POOL, types=types or TYPES),), max_batch_up=1)
    return decide(snapshot, replace(record, pending_since=NOW - 600), settings, NOW, "d1")


def test_the_next_cheapest_is_launched_while_it_is_skipped() -> None:
    assert [slot.instance_type for slot in decided(make_record()).slots] == ["arm"]
    skipped = decided(make_record(refused_offers=(refusal(),)))
    assert [slot.instance_type for slot in skipped.slots] == ["x86"]


def test_where_nothing_else_helps_nothing_is_asked_for_and_the_offer_is_named() -> None:
    decision = decided(make_record(refused_offers=(refusal(),)), TYPES[0])
    assert decision.action is Action.NOTHING
    check = next(each.failed for each in decision.verdicts if each.action is Action.SCALE_UP)
    assert check is not None
    assert (check.name, ARM in check.says) == ("back-off over", True)


def test_a_back_off_of_every_launch_holds_up_the_others_as_well() -> None:
    waits = {"launch_failures": 2, "launch_backoff_until": NOW + 60}
    assert decided(make_record(refused_offers=(refusal(),), **waits)).action is Action.NOTHING


def test_it_is_remembered_for_a_day_after_its_time_and_no_longer() -> None:
    kept, over = refusal(NOW - DAY + 1), refusal(NOW - DAY, offer=X86)
    record, _ = track(make_snapshot(), make_record(refused_offers=(kept, over)), SETTINGS, NOW)
    assert record.refused_offers == (kept,)


def test_a_clock_that_was_ahead_prolongs_nothing() -> None:
    ahead = refusal(NOW + 10 * DAY, times=2)
    record, _ = track(make_snapshot(), make_record(refused_offers=(ahead,)), SETTINGS, NOW)
    (one,) = record.refused_offers
    assert (one.until, one.forget_at) == (NOW + 1200, NOW + 1200 + DAY)
