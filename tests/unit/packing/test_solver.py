"""The solver's path: columns for classes, clusters where sizes differ, and both cut short anywhere."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.packing import Item, NodeType, PlacementRules, Plan
from ebbtide.core.packing.types import Dice
from tests.unit.packing.builders import make_item, make_type, packed, solved
from tests.verify_plan import verify_plan

CLOUD = [
    make_type(f"{family}{cpus}", cpus * 1000 - 80, cpus * gib * 970, 30 + cpus, cpus * (0.03 + 0.003 * gib))
    for family, gib in (("c", 2), ("m", 4), ("r", 8))
    for cpus in (2, 4, 8, 16, 32, 48, 96)
]


def some_items(classes: int, count: int, seed: int = 1, rules: PlacementRules | None = None) -> list[Item]:
    dice = Dice(seed)
    return [
        make_item(f"c{number}", 500 + dice.below(12000), 900 + dice.below(50000), count, rules=rules)
        for number in range(classes)
    ]


def checked(plan: Plan, items: list[Item], types: list[NodeType]) -> Plan:
    assert verify_plan(plan, items, types) == []
    return plan


def test_many_pods_of_few_sizes_cost_little_more_than_the_bound() -> None:
    items = some_items(classes=30, count=60)

    assert checked(packed(items, CLOUD, looks=150), items, CLOUD).gap < 0.01


def test_many_pods_of_many_sizes_cost_little_more_than_the_bound() -> None:
    items = some_items(classes=700, count=1)

    assert checked(packed(items, CLOUD, looks=400), items, CLOUD).gap < 0.03


@settings(max_examples=15, deadline=None)
@given(looks=st.integers(0, 60), seed=st.integers(0, 9), count=st.sampled_from((1, 7)))
def test_a_search_cut_short_anywhere_still_answers_with_a_plan(looks: int, seed: int, count: int) -> None:
    items = some_items(classes=30, count=count, seed=seed)

    plan = checked(solved(items, CLOUD, looks, seed, few=20), items, CLOUD)

    assert plan.gap < 0.8


def test_more_time_never_makes_a_plan_more_expensive_than_the_first() -> None:
    items = some_items(classes=20, count=15)

    assert packed(items, CLOUD, looks=120).cost <= packed(items, CLOUD, looks=0).cost


def test_the_same_seed_and_time_give_the_same_plan() -> None:
    items = some_items(classes=25, count=12)

    assert packed(items, CLOUD, looks=60, seed=5) == packed(items, CLOUD, looks=60, seed=5)


def test_classes_that_stay_apart_get_a_node_each() -> None:
    items = some_items(classes=12, count=25, rules=PlacementRules(max_per_node=1))

    plan = checked(packed(items, CLOUD, looks=60), items, CLOUD)

    assert len(plan.nodes) >= 25


def test_classes_bound_to_types_and_zones_are_packed_among_themselves() -> None:
    types = [
        NodeType(t.name, t.cpu_milli, t.memory_mib, t.pods, t.price, zone) for t in CLOUD for zone in "abc"
    ]
    large = frozenset(t.name for t in CLOUD if t.cpu_milli > 40000)
    items = [
        *some_items(6, 20),
        *(make_item(f"big{n}", 3000 + n, 9000, 20, rules=PlacementRules(types=large)) for n in range(4)),
        *(
            make_item(f"a{n}", 2000 + n, 7000, 20, rules=PlacementRules(zones=frozenset("a")))
            for n in range(4)
        ),
        *(make_item(f"s{n}", 1500 + n, 6000, 20, 2, rules=PlacementRules(max_skew=1)) for n in range(4)),
        *(make_item(f"k{n}", 700 + n, 600, 9, rules=PlacementRules(max_per_node=2)) for n in range(3)),
    ]

    assert checked(solved(items, types, looks=80), items, types).gap < 0.05
    checked(solved(items, types, looks=80, few=5), items, types)


def test_pods_that_use_up_the_slots_before_the_room_are_placed_all_the_same() -> None:
    types = [make_type("few", pods=8), make_type("many", 16000, 65536, pods=29, price=3.9)]
    items = [make_item(f"tiny{n}", 10 + n, 20 + n, 90) for n in range(4)]

    assert checked(packed(items, types, looks=60), items, types).gap < 0.05


def test_a_perfect_fit_is_found_and_recognised() -> None:
    items = [make_item("half", 2000, 8192, 300), make_item("quarter", 1000, 4096, 100)]

    assert checked(packed(items, [make_type()], looks=80), items, [make_type()]).gap < 1e-9


def test_one_class_that_fits_its_node_badly_is_still_placed() -> None:
    items = [make_item("third", 1500, 6000, 250)]

    assert checked(packed(items, [make_type()], looks=80), items, [make_type()]).cost == 125.0


def test_sizes_too_different_to_share_a_cluster_are_placed_one_by_one() -> None:
    """Three of the mean size fit a node, but no three of the true sizes fill one well."""
    types = [make_type(cpu_milli=7000, memory_mib=7000)]
    items = [make_item("small", 1000, 1000, 5), make_item("large", 7000, 7000, 1)]

    assert checked(solved(items, types, looks=100, few=1), items, types).cost == 2.0
