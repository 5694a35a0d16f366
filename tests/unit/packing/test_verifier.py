"""The verifier is worth something only if it sees every kind of broken plan."""

from __future__ import annotations

import dataclasses

import pytest

from ebbtide.core.packing import PlacementRules, Plan, PlannedNode, Unplaced
from tests.unit.packing.builders import make_item, make_type
from tests.verify_plan import verify_plan

NODE = make_type(cpu_milli=2000, pods=2, zone="a")
OTHER = make_type("other", zone="b")


def plan_of(*nodes: PlannedNode, unplaced: tuple[Unplaced, ...] = ()) -> Plan:
    cost = sum(node.type.price for node in nodes)
    return Plan(nodes, cost, cost, unplaced)


def test_a_plan_that_holds_is_passed() -> None:
    plan = plan_of(PlannedNode(NODE, ("p-0", "p-1")))

    assert verify_plan(plan, [make_item(count=2)], [NODE]) == []


@pytest.mark.parametrize(
    ("pods", "rules", "told"),
    [
        (("p-0",), PlacementRules(), "p-1 is not in the plan"),
        (("p-0", "p-1", "p-1"), PlacementRules(), "p-1 is in the plan 1 times too often"),
        (("p-0", "p-1"), PlacementRules(types=frozenset({"x"})), "may not use t"),
        (("p-0", "p-1"), PlacementRules(zones=frozenset({"x"})), "may not use zone a"),
        (("p-0", "p-1"), PlacementRules(max_per_node=1), "2 of p-0 share a node"),
        (("p-0", "p-1"), PlacementRules(max_skew=1), "p-0 has 2 in a, and 0 elsewhere"),
    ],
)
def test_a_broken_rule_is_told(pods: tuple[str, ...], rules: PlacementRules, told: str) -> None:
    plan = plan_of(PlannedNode(NODE, pods))

    assert any(told in wrong for wrong in verify_plan(plan, [make_item(count=2, rules=rules)], [NODE, OTHER]))


def test_an_overfull_node_is_told() -> None:
    item = make_item(count=3)

    told = verify_plan(plan_of(PlannedNode(NODE, item.names)), [item], [NODE])

    assert told == ["a t is overfull: 3000m, 3072 MiB", "a t has 3 pods"]


def test_torn_units_empty_nodes_and_strange_types_are_told() -> None:
    item = make_item(count=2, slots=2)
    plan = plan_of(
        PlannedNode(OTHER, ("p-0", "p-2")), PlannedNode(OTHER, ("p-1", "p-3")), PlannedNode(OTHER, ())
    )

    told = verify_plan(plan, [item], [NODE])

    assert any("stay together" in wrong for wrong in told)
    assert "a other is empty" in told
    assert "other is not on offer" in told


def test_pods_left_out_that_fit_and_sums_that_do_not_hold_are_told() -> None:
    plan = plan_of(unplaced=(Unplaced(("p-0",), "no reason"),))

    assert verify_plan(plan, [make_item()], [NODE]) == ["p-0 is left out but fits"]
    assert len(verify_plan(dataclasses.replace(plan_of(), cost=1.0, bound=2.0), [], [NODE])) == 2
