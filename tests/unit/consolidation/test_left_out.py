"""What is not understood, not priced or not to be moved stays, with the reason said; nothing else does."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.consolidation.game_servers import PLAN, TIER
from ebbtide.model.check import NodeCause
from ebbtide.model.decision import Refusal
from ebbtide.model.operation import SpotKind
from ebbtide.model.pod import Resources
from ebbtide.model.pool import Price
from ebbtide.model.record import CapacityBackoff, DrainBackoff, Emptied, EmptiedNode, Record
from ebbtide.model.snapshot import Ownership
from tests.builders import NOW, make_budget, make_instance_of, make_pool, make_spot, make_type
from tests.unit.consolidation.builders import (
    TYPES,
    cheap,
    cluster,
    fate,
    fate_in_words,
    idle,
    node,
    pod,
    removed,
    report_on,
    settings_with,
)

KEPT, FREE, BAD = node("a1"), node("a2"), node("a3", "cpx62")


@pytest.mark.parametrize(
    ("given", "says"),
    [
        ({"requests": Resources(-1, 128)}, "has a negative request"),
        ({"requests": Resources(100, -1)}, "has a negative request"),
        ({"requests": Resources(100, 100, (("gpu", -1),))}, "has a negative request"),
        (
            {"requests": Resources()},
            "requests no CPU and no memory, so it may not fit elsewhere",
        ),
        (
            {"requests": Resources(11_300, 128)},
            "asks for 11300m CPU and 128 MiB, more than 70% of any node offers",
        ),
        (
            {"requests": Resources(100, 23_000)},
            "asks for 100m CPU and 23000 MiB, more than 70% of any node offers",
        ),
        ({"labels": ((TIER, "mega"),)}, "has the tier 'mega', which is none of"),
        ({"labels": ((PLAN, "reserved"),)}, "is of tier custom"),
        ({"controller": ""}, "has no controller that would create it again"),
        ({"terminating": True}, "is still terminating"),
        ({"namespace": "kube-system"}, "is in kube-system and not named in movable_system_workloads"),
    ],
)
def test_a_pod_that_may_not_move_keeps_its_node_and_nothing_else(given: dict[str, Any], says: str) -> None:
    pods = [pod("old", KEPT), pod("web", FREE), pod("bad", BAD, **given)]
    report = report_on(cluster([KEPT, FREE, BAD], pods), Record(), settings_with(cheap(replace=False)))
    assert says in fate_in_words(report, "a3")
    assert [each.node_name for each in report.refusals] == ["a3"]
    assert removed(report)
    assert "a3" not in removed(report)
    assert report.plan is not None
    assert "default/bad" not in [move.pod_name for move in report.plan.moves]


def test_more_than_one_pod_that_stays_is_counted() -> None:
    pods = [pod(f"bad-{number}", BAD, controller="") for number in range(3)]
    report = report_on(cluster([KEPT, BAD], pods), idle(KEPT), settings_with(cheap()))
    says = "default/bad-0 has no controller that would create it again (and 2 more)"
    assert report.refusals == (Refusal("a3", says),)


def test_a_budget_without_a_disruption_left_keeps_the_node() -> None:
    pods = [pod("web", BAD, labels=(("app", "web"),))]
    snapshot = cluster([KEPT, BAD], pods, budgets=[make_budget(0, app="web")])
    report = report_on(snapshot, idle(KEPT), settings_with(cheap()))
    assert fate(report, "a3") is NodeCause.POD_WAITS


@pytest.mark.parametrize(
    ("given", "cause", "says"),
    [
        ({"ready": False}, NodeCause.NOT_READY, "it is not ready"),
        ({"unschedulable": True}, NodeCause.CORDONED, "it is cordoned"),
        (
            {"owner": Ownership("op-7", 1)},
            NodeCause.MARKED,
            "it still carries the mark of operation op-7",
        ),
        ({"pool": "elsewhere"}, NodeCause.NO_POOL, "its pool elsewhere is not configured"),
        ({"instance_type": "cpx99"}, NodeCause.NO_PRICE, "no price is known for cpx99 on on-demand"),
        ({"instance_type": ""}, NodeCause.NO_PRICE, "no price is known for its type on on-demand"),
    ],
)
def test_a_node_that_is_left_out(given: dict[str, Any], cause: NodeCause, says: str) -> None:
    bad = node("a3", **given)
    pods = [pod("web", FREE), pod("other", bad)]
    report = report_on(cluster([KEPT, FREE, bad], pods), Record(), settings_with(cheap(replace=False)))
    assert (fate(report, "a3"), fate_in_words(report, "a3")) == (cause, says)
    assert removed(report) == ["a2"]
    assert report.plan is not None
    assert report.plan.cost_before == Decimal("0.0336")


def test_a_node_of_which_the_cloud_knows_no_instance_is_left_out() -> None:
    snapshot = cluster([KEPT, FREE, BAD], instances=[make_instance_of(KEPT), make_instance_of(FREE)])
    report = report_on(snapshot, idle(KEPT, FREE, BAD), settings_with(cheap()))
    assert fate(report, "a3") is NodeCause.NO_INSTANCE


def test_a_node_that_the_cloud_will_take_is_left_out() -> None:
    record = idle(KEPT, FREE, BAD, spots=(make_spot("a3", kind=SpotKind.INTERRUPTION),))
    report = report_on(cluster([KEPT, FREE, BAD]), record, settings_with(cheap()))
    assert fate(report, "a3") is NodeCause.GOING


def test_a_node_that_rests_stays_but_takes_pods_in() -> None:
    record = idle(KEPT, rests=(DrainBackoff("i-a3", NOW + 60, "it would not drain"),))
    pods = [pod("web", FREE), pod("other", BAD)]
    report = report_on(cluster([KEPT, FREE, BAD], pods), record, settings_with(cheap(replace=False)))
    assert removed(report) == ["a1", "a2"]
    assert report.refusals == (Refusal("a3", "it is skipped until 2023-11-14 22:14 UTC: it would not drain"),)
    assert fate(report, "a3") is NodeCause.BACKED_OFF
    assert fate_in_words(report, "a3").endswith("; it takes in 1 pod")


def test_a_price_in_another_currency_is_never_added() -> None:
    euros = make_type("dollars", 4000, 8192)
    dollars = replace(euros, price=Price(Decimal("0.0168"), "USD", "test"))
    odd = node("a3", instance_type="dollars")
    pool = make_pool(types=(*TYPES, dollars), zones=("a",))
    given = settings_with(cheap(replace=False), pools=(pool,))
    report = report_on(cluster([KEPT, FREE, odd]), idle(KEPT, FREE, odd), given)
    assert fate(report, "a3") is NodeCause.NO_PRICE
    assert removed(report) == ["a1"]
    assert report.plan is not None
    assert report.plan.currency == "EUR"


def test_no_price_at_all_leaves_nothing_to_do() -> None:
    unpriced = make_pool(types=(make_type("cpx32", price=None),), zones=("a",))
    report = report_on(cluster([KEPT, FREE]), idle(KEPT, FREE), settings_with(pools=(unpriced,)))
    assert report.failed is not None
    assert report.failed.name == "nodes to remove"


def test_a_node_that_leaves_already_takes_no_pods_in_and_may_go() -> None:
    leaving = node("a3", owner=Ownership("op-7", 1, False))
    record = Record(
        emptied=(Emptied(leaving.uid, NOW - 900),),
        leaving=(EmptiedNode("a3", leaving.uid, "i-a3", "op-7", NOW + 60),),
    )
    pods = [pod("web", FREE), pod("other", KEPT, 1200, 2048)]
    report = report_on(cluster([KEPT, FREE, leaving], pods), record, settings_with(cheap(replace=False)))
    assert removed(report) == ["a1", "a3"]
    assert report.plan is not None
    assert {move.to_node for move in report.plan.moves} == {"a2"}


def test_an_offer_without_capacity_is_not_counted_on() -> None:
    full, nearly_empty = node("a1", "cpx62"), node("a2", "cpx62")
    pods = [pod("bare", full, 11_000, 1024, controller=""), pod("web", nearly_empty)]
    free = report_on(cluster([full, nearly_empty], pods), Record(), settings_with(cheap()))
    assert free.plan is not None
    assert [slot.instance_type for slot in free.plan.slots] == ["cpx22"]
    resting = tuple(CapacityBackoff(f"a/on-demand/{each.name}", NOW + 60) for each in TYPES)
    report = report_on(
        cluster([full, nearly_empty], pods), Record(offer_rests=resting), settings_with(cheap())
    )
    assert report.candidate is None
    assert report.failed is not None
    assert report.failed.name == "cheaper packing"
