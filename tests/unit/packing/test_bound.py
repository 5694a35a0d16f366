"""The bound is proven: checked against the solver, and against the best of all plans where that is known."""

from __future__ import annotations

from collections.abc import Iterator

import highspy
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.packing import Item, NodeType, PlacementRules, pack
from ebbtide.core.packing.fill import arrays_of
from ebbtide.core.packing.improve import coupled_bound
from ebbtide.core.packing.pack import frame
from ebbtide.core.packing.problem import Vector, fluid_bound, fluid_prices
from ebbtide.core.packing.types import Dice
from tests.unit.packing.builders import item_lists, make_item, make_type, packed, solved, ticking
from tests.unit.packing.builders import types as any_types

_amount = st.floats(1.0, 1e6)
_offers = st.lists(st.tuples(_amount, _amount, st.floats(1.0, 300.0)), min_size=1, max_size=8)


@settings(max_examples=100, deadline=None)
@given(
    offers=_offers,
    prices=st.lists(st.floats(0.01, 50.0), min_size=8, max_size=8),
    # Far more than one node, or the tolerances of the solver show.
    demand=st.tuples(st.floats(1e7, 1e9), st.floats(1e7, 1e9), st.floats(1e3, 1e5)),
)
def test_the_fluid_bound_is_what_the_solver_finds(
    offers: list[Vector], prices: list[float], demand: Vector
) -> None:
    prices = prices[: len(offers)]
    values = fluid_prices(offers, prices, demand)

    for offer, price in zip(offers, prices, strict=True):
        assert fluid_bound(values, offer) <= price * (1 + 1e-9)
    assert min(values) >= 0
    assert fluid_bound(values, demand) == pytest.approx(_solved(offers, prices, demand), rel=1e-5)


@pytest.mark.parametrize("seed", range(40))
def test_the_fluid_bound_of_a_catalogue_is_what_the_solver_finds(seed: int) -> None:
    dice = Dice(seed)
    offers = [(1.0 + dice.below(96000), 1.0 + dice.below(400000), 1.0 + dice.below(99)) for _ in range(20)]
    prices = [0.5 + offer[0] / 40000 + offer[1] / 300000 + dice.share() for offer in offers]
    demand = (float(dice.below(10**8)), float(dice.below(10**9)), float(1 + dice.below(10**5)))

    values = fluid_prices(offers, prices, demand)

    assert fluid_bound(values, demand) == pytest.approx(_solved(offers, prices, demand))


def test_a_resource_that_comes_free_with_the_others_has_no_value() -> None:
    """On the way there its value is negative, and it has to be taken out again."""
    values = fluid_prices([(3.0, 7.0, 4.0), (6.0, 4.0, 5.0)], [5.0, 5.0], (6.0, 8.0, 8.0))

    assert values == pytest.approx((0.0, 5 / 19, 15 / 19))


def _solved(offers: list[Vector], prices: list[float], demand: Vector) -> float:
    solver = highspy.Highs()  # type: ignore[no-untyped-call]
    solver.setOptionValue("output_flag", False)
    unit = np.array(offers).max(axis=0)
    for need, each in zip(demand, unit, strict=True):
        solver.addRow(need / each, highspy.kHighsInf, 0, np.zeros(0, dtype=np.int32), np.zeros(0))
    for offer, price in zip(offers, prices, strict=True):
        rows = np.arange(3, dtype=np.int32)
        solver.addCol(price, 0.0, highspy.kHighsInf, 3, rows, np.array(offer) / unit)
    solver.run()
    return float(solver.getInfo().objective_function_value)


_small_items = st.lists(
    st.tuples(
        st.integers(0, 4000),
        st.integers(0, 8000),
        st.integers(1, 2),
        st.sampled_from((None, None, frozenset({"t0"}), frozenset({"t1", "t2"}))),
        st.sampled_from((None, None, 1)),
    ),
    min_size=1,
    max_size=3,
)
_small_types = st.lists(
    st.tuples(st.integers(1000, 9000), st.integers(1000, 16000), st.integers(1, 5), st.floats(0.1, 3.0)),
    min_size=1,
    max_size=3,
)


@settings(max_examples=60, deadline=None)
@given(sizes=_small_items, rooms=_small_types, solver=st.booleans())
def test_no_plan_beats_the_best_and_none_beats_the_bound(
    sizes: list[tuple[int, int, int, frozenset[str] | None, int | None]],
    rooms: list[tuple[int, int, int, float]],
    solver: bool,
) -> None:
    items = [
        make_item(f"i{number}", cpu, memory, units, rules=PlacementRules(types=types, max_per_node=apart))
        for number, (cpu, memory, units, types, apart) in enumerate(sizes)
    ]
    node_types = [make_type(f"t{number}", *room) for number, room in enumerate(rooms)]

    plan = solved(items, node_types, looks=60) if solver else packed(items, node_types)

    aside = {name for unplaced in plan.unplaced for name in unplaced.pods}
    best = _cheapest([item for item in items if item.names[0] not in aside], node_types)
    assert plan.bound <= best * (1 + 1e-9)
    assert best <= plan.cost * (1 + 1e-9)


def test_the_best_plan_of_a_few_pods_is_found() -> None:
    types = [make_type("small", 2000, 4096, price=1.0), make_type("large", 8000, 16384, price=3.0)]
    items = [make_item("a", 3000, 4096, 2), make_item("b", 1000, 4096, 2), make_item("c", 1900, 1000, 1)]

    assert packed(items, types).cost == pytest.approx(_cheapest(items, types)) == 4.0


def _cheapest(items: list[Item], types: list[NodeType]) -> float:
    """The cost of the best of all plans, by trying every way to divide the units among nodes."""
    units = [index for index, item in enumerate(items) for _ in range(item.count)]
    return min(
        sum(_price(block, items, types) for block in blocks) for blocks in _partitions(list(enumerate(units)))
    )


def _partitions(units: list[tuple[int, int]]) -> Iterator[list[list[tuple[int, int]]]]:
    if not units:
        yield []
        return
    first, rest = units[0], units[1:]
    for blocks in _partitions(rest):
        yield [[first], *blocks]
        for place in range(len(blocks)):
            yield [*blocks[:place], [first, *blocks[place]], *blocks[place + 1 :]]


def _price(block: list[tuple[int, int]], items: list[Item], types: list[NodeType]) -> float:
    chosen = [items[index] for _, index in block]
    for item in chosen:
        if item.rules.max_per_node and chosen.count(item) > item.rules.max_per_node:
            return float("inf")
    return min(
        (
            type_.price
            for type_ in types
            if sum(item.cpu_milli for item in chosen) <= type_.cpu_milli
            and sum(item.memory_mib for item in chosen) <= type_.memory_mib
            and len(chosen) <= type_.pods
            and all(item.rules.types is None or type_.name in item.rules.types for item in chosen)
        ),
        default=float("inf"),
    )


def _apart(count: int) -> tuple[list[Item], list[NodeType]]:
    """Pods with much memory that may only use a type with little, and pods that may use another."""
    lean, rich = make_type("lean", 8000, 8192, price=1.0), make_type("rich", 8000, 65536, price=1.5)
    only_lean = PlacementRules(types=frozenset({"lean"}))
    return [
        make_item("heavy", 1000, 4096, count, rules=only_lean),
        make_item("light", 2000, 1024, count, rules=PlacementRules(types=frozenset({"rich"}))),
    ], [lean, rich]


def test_rules_about_types_are_part_of_the_bound() -> None:
    """Two heavy pods fill a lean node, four light ones a rich one: nothing else is possible."""
    items, types = _apart(400)
    plan = packed(items, types)
    assert plan.cost == pytest.approx(400 / 2 * 1.0 + 400 / 4 * 1.5)
    assert plan.gap < 0.001
    with_less = pack(items, types, deadline=400.0, clock=ticking(), prove=False)
    assert with_less.bound < plan.bound * 0.9


def test_a_bound_that_would_take_too_long_is_left_out() -> None:
    arrays = arrays_of(frame(*_apart(400)))
    assert coupled_bound(arrays, 1e-9) == 0.0
    assert coupled_bound(arrays, 1.0) == pytest.approx(350.0)


def test_without_rules_the_fluid_bound_is_enough() -> None:
    arrays = arrays_of(frame([make_item(count=300)], [make_type(), make_type("u", 8000, price=1.9)]))
    assert coupled_bound(arrays, 1.0) == 0.0


def test_a_request_of_nothing_is_worth_nothing() -> None:
    items = [
        make_item("idle", 0, 0, 300, rules=PlacementRules(types=frozenset({"t"}))),
        make_item("web", count=300),
    ]
    types = [make_type(pods=1000), make_type("u", 8000, price=1.9)]
    assert coupled_bound(arrays_of(frame(items, types)), 1.0) <= packed(items, types).cost


@settings(max_examples=60, deadline=None)
@given(items=item_lists(), offered=any_types)
def test_no_plan_costs_less_than_the_coupled_bound(items: list[Item], offered: list[NodeType]) -> None:
    problem = frame(items, offered)
    if problem.kinds:
        cost = packed(items, offered, looks=30).cost
        assert coupled_bound(arrays_of(problem), 1.0) <= cost * (1 + 1e-9)
