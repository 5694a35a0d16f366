from __future__ import annotations

import pytest

from ebbtide.core.packing import PlacementRules
from ebbtide.core.packing.pack import frame
from ebbtide.core.packing.problem import undominated
from tests.unit.packing.builders import make_item, make_type


def test_a_type_is_left_out_for_one_as_large_and_no_more_expensive() -> None:
    types = [
        make_type("dear", price=2.0),
        make_type("cheap", price=1.0),
        make_type("same", price=1.0),
        make_type("more memory", memory_mib=32768, price=1.5),
        make_type("more pods", pods=250, price=1.5),
    ]

    kept = [types[index].name for index in undominated(types, [1] * len(types))]

    assert kept == ["cheap", "more memory", "more pods"]


def test_a_more_expensive_type_stays_if_only_it_may_be_used() -> None:
    types = [make_type("dear", price=2.0), make_type("cheap", price=1.0)]
    tied = make_item("tied", rules=PlacementRules(types=frozenset({"dear"})))

    assert [type_.name for type_ in frame([make_item(), tied], types).types] == ["cheap", "dear"]
    assert [type_.name for type_ in frame([make_item()], types).types] == ["cheap"]


def test_a_type_that_nobody_may_use_is_left_out() -> None:
    types = [make_type("a"), make_type("b", cpu_milli=9000, price=9.0)]

    assert [
        t.name for t in frame([make_item(rules=PlacementRules(types=frozenset({"a"})))], types).types
    ] == ["a"]


@pytest.mark.parametrize(
    ("item", "reason"),
    [
        (make_item(cpu_milli=4001), "4001m CPU, 1024 MiB are more than any type it may use offers"),
        (make_item(memory_mib=16385), "1000m CPU, 16385 MiB are more than any type it may use offers"),
        (make_item(slots=111), "and 111 pods on one node are more than"),
        (make_item(rules=PlacementRules(types=frozenset({"none"}))), "its rules allow no node type"),
        (make_item(rules=PlacementRules(zones=frozenset({"z"}))), "its rules allow no node type"),
    ],
)
def test_what_fits_nowhere_is_set_aside_with_its_reason(item: object, reason: str) -> None:
    other = make_item("other")

    problem = frame([item, other], [make_type()])  # type: ignore[list-item]

    assert list(problem.names) == [other.names]
    assert reason in problem.unplaced[0].reason


def test_without_types_nothing_is_placed() -> None:
    problem = frame([make_item()], [])

    assert problem.kinds == ()
    assert problem.bound == 0.0


def test_items_alike_are_one_class_unless_each_stays_apart_from_its_own() -> None:
    apart = PlacementRules(max_per_node=1)
    items = [make_item("a", count=3), make_item("b", count=2)]
    shy = [make_item("c", count=3, rules=apart), make_item("d", count=2, rules=apart)]

    counts = frame([*items, *shy], [make_type()]).counts

    assert counts == [5, 3, 2]


def test_a_limit_that_no_node_could_reach_is_no_limit() -> None:
    items = [make_item("a", count=2), make_item("b", count=2, rules=PlacementRules(max_per_node=2))]

    assert frame(items, [make_type()]).counts == [4]


@pytest.mark.parametrize(
    ("count", "before", "after"),
    [
        (7, {}, {"a": 3, "b": 2, "c": 2}),
        (6, {"a": 3, "b": 1}, {"a": 0, "b": 2, "c": 4}),
        (2, {"a": 9, "b": 4, "c": 4}, {"a": 0, "b": 1, "c": 1}),
        (1, {"a": 1, "b": 1}, {"a": 0, "b": 0, "c": 1}),
        (9, {"a": 2, "b": 1}, {"a": 2, "b": 3, "c": 4}),
    ],
)
def test_a_spread_evens_out_what_runs_already(
    count: int, before: dict[str, int], after: dict[str, int]
) -> None:
    types = [make_type(f"t{zone}", zone=zone) for zone in "abc"]
    rules = PlacementRules(max_skew=1, zone_counts=tuple(before.items()))

    problem = frame([make_item(count=count, rules=rules)], types)

    zone_of = {1 << number: type_.zone for number, type_ in enumerate(problem.types)}
    found = dict(zip((zone_of[kind.admitted] for kind in problem.kinds), problem.counts, strict=True))
    assert {zone: found.get(zone, 0) for zone in "abc"} == after


def test_a_spread_counts_only_zones_it_may_use_and_fits_in() -> None:
    types = [make_type(f"t{zone}", zone=zone) for zone in "abc"] + [make_type("tiny", 10, zone="d")]
    rules = PlacementRules(max_skew=1, zones=frozenset("acd"))

    assert frame([make_item(count=4, rules=rules)], types).counts == [2, 2]


def test_the_bound_knows_which_types_a_class_may_use() -> None:
    types = [make_type("cheap", price=1.0), make_type("dear", price=5.0), make_type("large", 8000, price=9.0)]
    free = make_item("free", 4000, 1024, 10)
    tied = make_item("tied", 4000, 1024, 10, rules=PlacementRules(types=frozenset({"dear"})))
    large = make_item("large", 8000, 1024, 10)

    assert frame([free], types).bound == pytest.approx(10.0)
    assert frame([free, tied], types).bound == pytest.approx(60.0)
    assert frame([free, tied, large], types).bound == pytest.approx(150.0)


def test_a_request_of_nothing_still_fills_a_node_in_the_end() -> None:
    problem = frame([make_item(cpu_milli=0, memory_mib=0, count=330)], [make_type()])

    assert (problem.kinds[0].cpu_milli, problem.kinds[0].memory_mib) == (1, 1)
    assert problem.bound == pytest.approx(3.0)


def test_the_bound_of_one_pod_is_the_cheapest_node_that_holds_it() -> None:
    types = [make_type("small", 2000), make_type("large", 8000, price=3.0)]

    assert frame([make_item(cpu_milli=100)], types).bound == 1.0
    assert frame([make_item(cpu_milli=100), make_item("big", 2001)], types).bound == 3.0
