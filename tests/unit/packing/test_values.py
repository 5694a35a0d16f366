from __future__ import annotations

import pytest

from ebbtide.core.packing import Item, NodeType, PlacementRules, Plan, Pod, group
from tests.unit.packing.builders import make_item, make_type


def test_pods_of_one_size_and_one_set_of_rules_are_one_class() -> None:
    apart = PlacementRules(max_per_node=1)
    pods = [Pod("a", 1, 2), Pod("b", 1, 2), Pod("c", 1, 2, apart), Pod("d", 2, 2), Pod("e", 1, 2, apart)]

    classes = {item.names: item.count for item in group(pods)}

    assert classes == {("a", "b"): 2, ("c", "e"): 2, ("d",): 1}


def test_pods_that_stay_together_are_one_unit_under_the_rules_of_each() -> None:
    one = PlacementRules(types=frozenset({"x", "y"}), zones=frozenset({"a"}), max_per_node=3)
    other = PlacementRules(types=frozenset({"y", "z"}), max_per_node=2, max_skew=1, zone_counts=(("a", 1),))

    (item,) = group([Pod("p", 100, 10, one, "pair"), Pod("q", 200, 20, other, "pair")])

    assert item == Item(
        300,
        30,
        ("p", "q"),
        2,
        PlacementRules(
            frozenset({"y"}), frozenset({"a"}), max_per_node=2, max_skew=1, zone_counts=(("a", 1),)
        ),
    )
    assert item.count == 1


def test_equal_groups_of_pods_that_stay_together_are_one_class() -> None:
    items = group(Pod(f"{key}{part}", 100, 10, together=key) for key in "ab" for part in range(2))

    assert [(item.count, item.slots, item.names) for item in items] == [(2, 2, ("a0", "a1", "b0", "b1"))]


@pytest.mark.parametrize("sizes", [(-1, 0), (0, -1)])
def test_an_item_cannot_ask_for_less_than_nothing(sizes: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="negative request"):
        make_item(cpu_milli=sizes[0], memory_mib=sizes[1])


@pytest.mark.parametrize("slots", [0, 2])
def test_the_names_of_an_item_must_make_whole_units(slots: int) -> None:
    with pytest.raises(ValueError, match="do not make units"):
        Item(1, 1, ("a", "b", "c"), slots)


@pytest.mark.parametrize("rule", ["max_per_node", "max_skew"])
def test_a_limit_of_nothing_is_refused(rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        PlacementRules(**{rule: 0})  # type: ignore[arg-type]


@pytest.mark.parametrize("room", [(0, 1, 1), (1, 0, 1), (1, 1, 0)])
def test_a_type_must_have_room(room: tuple[int, int, int]) -> None:
    with pytest.raises(ValueError, match="no room"):
        NodeType("t", *room, price=1.0)


@pytest.mark.parametrize("price", [0.0, -1.0, float("inf"), float("nan")])
def test_a_type_must_have_a_price(price: float) -> None:
    with pytest.raises(ValueError, match="no price"):
        make_type(price=price)


def test_the_gap_of_an_empty_plan_is_nothing() -> None:
    assert Plan((), 0.0, 0.0).gap == 0.0
    assert Plan((), 3.0, 2.0).gap == 0.5
