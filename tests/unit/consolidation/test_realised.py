"""Whether the last consolidation saved what it promised, or what it removed was launched again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.consolidation.realised import cost_of
from ebbtide.core.nodes.timers import track
from ebbtide.core.operations import consolidate
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport
from ebbtide.model.decision import Action, Decision
from ebbtide.model.record import EmptiedNode, Record, Saving
from ebbtide.model.snapshot import InstanceState, Market, Snapshot
from tests.builders import (
    NOW,
    make_instance,
    make_pool,
    make_price,
    make_record,
    make_removal,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
    make_type,
)
from tests.unit.consolidation.builders import TYPES, cluster, node, pod, rules

SETTINGS = make_settings(
    pools=(make_pool(types=TYPES, zones=("a",)),),
    settled_rise=0.10,
    consolidation=rules(payback_seconds=14_400),
)
BEGUN = NOW - 1800
# Three nodes at 0.0312 an hour, of which one was to go.
SAVING = Saving(BEGUN, Decimal("0.0312"), Decimal("0.0936"), "EUR", 4000, 8192, 3)


def seen(nodes: int, type_name: str = "cpx42", cpu_milli: int = 4000) -> Snapshot:
    """So many nodes and one pod that asks for so much, with an agent of 10m and 16 MiB on each node."""
    there = [node(f"a{number}", type_name) for number in range(nodes)]
    return cluster(there, [pod("web-1", there[0], cpu_milli, 8192)])


def after(snapshot: Snapshot, saving: Saving = SAVING, **overrides: Any) -> Record:
    record = make_record(saving=saving, last_consolidation_at=BEGUN, ticked_at=NOW - 15, **overrides)
    return track(snapshot, record, SETTINGS, NOW)[0]


def test_while_its_node_is_not_launched_again_it_was_not_fruitless() -> None:
    assert (after(seen(2)).consolidations_in_vain, after(seen(2)).saving) == (0, SAVING)


def test_where_as_much_runs_as_before_it_counts_as_fruitless_after_all_with_those_before_it() -> None:
    found = after(seen(3))
    assert (found.consolidations_in_vain, found.saving) == (3, None)


@pytest.mark.parametrize(("again", "fruitless"), [("cpx32", 0), ("cpx42", 3)])
def test_half_of_what_was_promised_must_be_left(again: str, fruitless: int) -> None:
    """Of 0.0288, half of which is 0.0144: a cpx32 of 0.0168 leaves 0.0144, a cpx42 nothing."""
    saving = replace(SAVING, promised=Decimal("0.0288"))
    there = seen(2)
    more = make_instance("i-a9", instance_type=again)
    snapshot = replace(there, instances=(*there.instances, more))
    assert after(snapshot, saving).consolidations_in_vain == fruitless


def test_what_more_demand_costs_in_proportion_does_not_count() -> None:
    """Demand 8 % higher may cost 0.0075 an hour more: 0.1011 less 0.0816 leaves more than half of 0.0312."""
    more = make_instance("i-a9", instance_type="cpx32")
    grown, same = seen(2, cpu_milli=4320), seen(2)
    with_more = replace(grown, instances=(*grown.instances, more))
    assert after(with_more).consolidations_in_vain == 0
    assert after(replace(same, instances=(*same.instances, more))).consolidations_in_vain == 3


def test_where_demand_has_risen_a_lot_nothing_is_said_about_it() -> None:
    found = after(seen(3, cpu_milli=4500))
    assert (found.consolidations_in_vain, found.saving) == (0, None)


def test_after_the_time_in_which_it_must_pay_back_it_is_not_asked_any_more() -> None:
    late = make_record(saving=replace(SAVING, begun_at=NOW - 14_400), last_consolidation_at=NOW - 14_400)
    found, _ = track(seen(3), late, SETTINGS, NOW)
    assert (found.consolidations_in_vain, found.saving) == (0, None)
    just = make_record(saving=replace(SAVING, begun_at=NOW - 14_399), last_consolidation_at=NOW - 14_399)
    assert track(seen(3), just, SETTINGS, NOW)[0].consolidations_in_vain == 3


@pytest.mark.parametrize(
    "underway",
    [
        {"consolidations_in_vain": 3, "consolidation_owes": 1},
        {"operation": make_scale_up(make_slot())},
        {"leaving": (EmptiedNode("a0", "uid-a0", "i-a0", "op", NOW + 60),)},
        {"spots": (make_spot("a0"),)},
    ],
)
def test_it_is_judged_at_rest(underway: dict[str, Any]) -> None:
    there = seen(3)
    empty = replace(there.cluster, pods=())
    found = after(replace(there, cluster=empty), **underway)
    assert found.saving == SAVING
    assert found.consolidations_in_vain == underway.get("consolidations_in_vain", 0)


def test_what_an_earlier_version_began_since_is_not_compared_with_it() -> None:
    record = make_record(saving=SAVING, last_consolidation_at=BEGUN + 600)
    found, _ = track(seen(3), record, SETTINGS, NOW)
    assert (found.consolidations_in_vain, found.saving) == (0, None)


def test_what_it_promises_is_in_the_write_that_begins_it() -> None:
    there = seen(3)
    plan = ConsolidationPlan(
        sources=(make_removal("a1"),),
        cost_before=Decimal("0.0936"),
        cost_after=Decimal("0.0624"),
        currency="EUR",
    )
    decision = Decision(
        "d", NOW, Action.CONSOLIDATE, "", (), consolidation=ConsolidationReport((), plan=plan)
    )
    before = make_record(consolidations_in_vain=2)
    record = consolidate.start(before, decision, "op", SETTINGS, there)
    assert record.saving == Saving(NOW, Decimal("0.0312"), Decimal("0.0936"), "EUR", 4000, 8192, 3)
    assert record.consolidations_in_vain == 3


def test_the_cost_is_that_of_what_lives_and_has_a_price_in_that_currency() -> None:
    dollars = make_type("cpx99")
    dollars = replace(dollars, price=replace(make_price("1"), currency="USD"))
    types = (make_type("cpx32", price="0.0168", spot_price="0.005"), make_type("free", price=None), dollars)
    settings = make_settings(pools=(make_pool(types=types),))
    instances = (
        make_instance("i-a1", instance_type="cpx32"),
        make_instance("i-a2", instance_type="cpx32", market=Market.SPOT),
        make_instance("i-a3", instance_type="cpx32", state=InstanceState.TERMINATING),
        make_instance("i-a4", instance_type="free"),
        make_instance("i-a5", instance_type="cpx99"),
        make_instance("i-a6", instance_type="unknown"),
        make_instance("i-a7", instance_type="cpx32", pool="gone"),
    )
    snapshot = make_snapshot(instances=instances)
    assert cost_of(snapshot, settings, "EUR") == Decimal("0.0218")
    assert cost_of(snapshot, settings, "USD") == Decimal(1)
