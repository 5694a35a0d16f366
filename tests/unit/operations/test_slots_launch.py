"""A slot from RESERVED to LAUNCHED: asked once written, repeated with the same key, never twice paid."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.operations.slots import ALLOWED, absorb_slot, check_invariants
from ebbtide.model.effect import Breach, Launch, Outcome, OutcomeKind, Terminate
from ebbtide.model.operation import Slot, SlotCause, SlotState
from ebbtide.model.pool import PoolLimits
from ebbtide.model.snapshot import InstanceState, Market
from tests.builders import (
    NOW,
    make_instance,
    make_nodes,
    make_pool,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_type,
)
from tests.unit.operations.builders import advance_slot, breaches, make_situation, with_work

NODES = make_nodes("a1", "b1")
LAUNCHING = make_slot(state=SlotState.LAUNCHING)


def answer(slot: Slot, kind: OutcomeKind, detail: str = "", **settings: object) -> Slot:
    instance = make_instance("i-new", key=slot.key) if kind is OutcomeKind.DONE else None
    outcome = Outcome(Launch(slot, "op"), kind, detail, instance)
    return absorb_slot(slot, outcome, make_settings(**settings), NOW + 5)


def test_a_reserved_slot_is_written_as_launching_before_the_cloud_is_asked() -> None:
    slot = make_slot(since=NOW - 30)
    record = with_work(make_scale_up(slot))
    after, effects = advance_slot(slot, make_situation(make_snapshot(NODES), record=record))
    assert (after.state, after.since, after.key) == (SlotState.LAUNCHING, NOW, slot.key)
    assert effects == (Launch(after, "op"),)


def test_a_reserved_slot_fails_rather_than_exceed_the_maximum() -> None:
    slot = make_slot()
    situation = make_situation(
        make_snapshot(NODES), record=with_work(make_scale_up(slot)), settings=make_settings(max_workers=2)
    )
    after, effects = advance_slot(slot, situation)
    assert (after.state, effects) == (SlotState.FAILED, ())
    assert after.why is SlotCause.MAXIMUM


def test_a_reserved_slot_fails_rather_than_exceed_the_maximum_of_its_pool() -> None:
    slot = make_slot()
    settings = make_settings(pools=(make_pool(max_workers=2),))
    record = with_work(make_scale_up(slot))
    after, effects = advance_slot(
        slot, make_situation(make_snapshot(NODES), record=record, settings=settings)
    )
    assert (after.state, effects) == (SlotState.FAILED, ())
    assert after.why is SlotCause.MAXIMUM


@pytest.mark.parametrize(("cpu_milli", "state"), [(8_000, SlotState.FAILED), (64_000, SlotState.LAUNCHING)])
def test_a_reserved_slot_fails_rather_than_exceed_what_its_pool_may_offer(
    cpu_milli: int, state: SlotState
) -> None:
    slot = make_slot()
    settings = make_settings(pools=(make_pool(limits=PoolLimits(cpu_milli=cpu_milli)),))
    record = with_work(make_scale_up(slot))
    after, effects = advance_slot(
        slot, make_situation(make_snapshot(NODES), record=record, settings=settings)
    )
    assert after.state is state
    assert [type(effect) for effect in effects] == [Launch] * (state is SlotState.LAUNCHING)
    assert state is SlotState.LAUNCHING or after.why is SlotCause.MAXIMUM


def test_a_reserved_slot_of_a_pool_that_is_no_longer_configured_fails() -> None:
    slot = make_slot(pool="old")
    after, effects = advance_slot(slot, make_situation(make_snapshot(NODES)))
    assert (after.state, effects) == (SlotState.FAILED, ())
    assert after.why is SlotCause.NO_POOL


def test_a_slot_does_nothing_on_an_observation_with_a_problem() -> None:
    situation = make_situation(make_snapshot(NODES, problems=("the cloud could not be read",)))
    assert advance_slot(make_slot(), situation) == (make_slot(), ())


@pytest.mark.parametrize("state", [SlotState.READY, SlotState.RECLAIMED, SlotState.FAILED])
def test_a_settled_slot_stays_as_it_is(state: SlotState) -> None:
    slot = make_slot(state=state)
    assert advance_slot(slot, make_situation(make_snapshot(NODES))) == (slot, ())
    assert not ALLOWED[state]


def test_lost_reply_to_a_launch_is_answered_by_the_identical_request() -> None:
    unanswered = answer(LAUNCHING, OutcomeKind.UNKNOWN, "timed out")
    after, effects = advance_slot(unanswered, make_situation(make_snapshot(NODES), now=NOW + 60))
    assert after.state is SlotState.LAUNCHING
    (effect,) = effects
    assert isinstance(effect, Launch)
    asked = effect.slot
    assert (asked.key, asked.zone, asked.market, asked.instance_type) == (
        LAUNCHING.key,
        LAUNCHING.zone,
        LAUNCHING.market,
        LAUNCHING.instance_type,
    )


@pytest.mark.parametrize(
    "changed",
    [{"max_workers": 2}, {"pools": (make_pool(max_workers=2),)}, {"pools": (make_pool("other"),)}],
    ids=["of all", "of its pool", "pool gone"],
)
def test_a_call_without_an_answer_is_not_repeated_above_a_maximum_that_was_lowered(
    changed: dict[str, object],
) -> None:
    """It may never have arrived. The slot still counts, since it may have."""
    record, settings = with_work(make_scale_up(LAUNCHING)), make_settings(**changed)
    waits = make_situation(make_snapshot(NODES), record=record, settings=settings, now=NOW + 60)
    assert advance_slot(LAUNCHING, waits) == (LAUNCHING, ())
    late = make_situation(make_snapshot(NODES), record=record, settings=settings, now=NOW + 300)
    assert advance_slot(LAUNCHING, late)[0].state is SlotState.FAILED
    seen = make_snapshot(NODES, extra_instances=[make_instance("i-new", key=LAUNCHING.key)])
    found, _ = advance_slot(LAUNCHING, make_situation(seen, record=record, settings=settings))
    assert found.state is SlotState.LAUNCHED


def test_crash_between_launch_and_record_finds_the_instance_by_its_key() -> None:
    seen = make_snapshot(NODES, extra_instances=[make_instance("i-new", key=LAUNCHING.key)])
    after, effects = advance_slot(LAUNCHING, make_situation(seen, now=NOW + 60))
    assert (after.state, after.instance_id, after.since) == (SlotState.LAUNCHED, "i-new", NOW + 60)
    assert effects == ()


def test_a_launch_without_a_definite_answer_is_given_up_after_its_timeout() -> None:
    after, effects = advance_slot(LAUNCHING, make_situation(make_snapshot(NODES), now=NOW + 300))
    assert (after.state, after.why) == (SlotState.FAILED, SlotCause.NO_ANSWER)
    assert effects == ()


def test_an_answered_launch_records_its_instance_and_starts_the_join_clock() -> None:
    after = answer(replace(LAUNCHING, reason="throttled", why=SlotCause.NO_ANSWER), OutcomeKind.DONE)
    assert (after.state, after.instance_id, after.since) == (SlotState.LAUNCHED, "i-new", NOW + 5)
    assert (after.reason, after.why) == ("", SlotCause.NONE)


def test_an_answer_without_an_instance_teaches_nothing() -> None:
    assert absorb_slot(
        LAUNCHING, Outcome(Launch(LAUNCHING, "op"), OutcomeKind.DONE), make_settings(), NOW
    ) == (LAUNCHING)


@pytest.mark.parametrize("kind", [OutcomeKind.UNKNOWN, OutcomeKind.LATER, OutcomeKind.SKIPPED])
def test_only_a_definite_answer_changes_the_offer(kind: OutcomeKind) -> None:
    assert answer(LAUNCHING, kind, "later") == replace(LAUNCHING, reason="later", why=SlotCause.NO_ANSWER)


def test_no_capacity_reserves_the_next_zone_under_another_key() -> None:
    after = answer(LAUNCHING, OutcomeKind.NO_CAPACITY, "none left")
    assert (after.state, after.zone, after.key) == (SlotState.RESERVED, "b", "op-0r1")
    assert after.refused == ("a/on-demand/small",)
    assert breaches(check_invariants(LAUNCHING, after)) == []


def test_on_demand_is_asked_for_only_after_spot_was_refused_in_every_zone() -> None:
    pools = (make_pool(market=Market.SPOT, types=(make_type(), make_type("large"))),)
    slot = make_slot(state=SlotState.LAUNCHING, market=Market.SPOT)
    offers = []
    while slot.state is not SlotState.FAILED:
        offers.append(f"{slot.zone}/{slot.market}/{slot.instance_type}")
        slot = answer(replace(slot, state=SlotState.LAUNCHING), OutcomeKind.NO_CAPACITY, "none", pools=pools)
    assert offers[:5] == [
        "a/spot/small",
        "b/spot/small",
        "a/on-demand/small",
        "b/on-demand/small",
        "a/spot/large",
    ]
    assert (slot.key, slot.why) == ("op-0r8", SlotCause.NO_CAPACITY)


def test_keys_of_successive_offers_differ_even_where_the_first_holds_the_letter_r() -> None:
    first = make_slot("17-worker-0", state=SlotState.LAUNCHING)
    second = answer(first, OutcomeKind.NO_CAPACITY)
    assert second.key == "17-worker-0r1"
    third = answer(replace(second, state=SlotState.LAUNCHING), OutcomeKind.NO_CAPACITY)
    assert third.key == "17-worker-0r2"


def test_a_refused_launch_fails_the_slot() -> None:
    after = answer(LAUNCHING, OutcomeKind.REFUSED, "no such type")
    assert (after.state, after.why) == (SlotState.FAILED, SlotCause.REFUSED)


def test_an_answer_to_another_slot_or_to_another_effect_is_not_taken() -> None:
    other = Launch(make_slot("op-1"), "op")
    for effect in (other, Terminate("i-new", "", "", "op")):
        outcome = Outcome(effect, OutcomeKind.REFUSED, "no")
        assert absorb_slot(LAUNCHING, outcome, make_settings(), NOW) == LAUNCHING


def test_a_late_answer_does_not_move_a_slot_that_has_gone_on() -> None:
    launched = replace(LAUNCHING, state=SlotState.LAUNCHED, instance_id="i-new")
    assert answer(launched, OutcomeKind.NO_CAPACITY, "none") == launched


def test_an_instance_found_dead_by_its_key_is_followed_to_its_end() -> None:
    dead = make_instance("i-new", key=LAUNCHING.key, state=InstanceState.GONE)
    situation = make_situation(make_snapshot(NODES, extra_instances=[dead]))
    launched, _ = advance_slot(LAUNCHING, situation)
    after, effects = advance_slot(launched, situation)
    assert (after.state, effects) == (SlotState.RECLAIMED, ())


def test_invariants_name_what_a_slot_must_never_do() -> None:
    ready = make_slot(state=SlotState.READY, instance_id="i-1")
    assert breaches(check_invariants(ready, replace(ready, state=SlotState.RESERVED))) == [
        (Breach.STATE, "op-0")
    ]
    assert breaches(check_invariants(ready, replace(ready, key="op-9"))) == [(Breach.IDENTITY, "op-0")]
    assert breaches(check_invariants(ready, replace(ready, instance_id="i-2"))) == [(Breach.IDENTITY, "op-0")]
    assert breaches(check_invariants(ready, ready)) == []
