"""Whatever the input, a plan holds every rule and costs no less than its bound."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.packing import Item, NodeType
from tests.unit.packing.builders import item_lists, packed, solved, types
from tests.verify_plan import verify_plan


@settings(max_examples=100, deadline=None)
@given(items=item_lists(), types=types, looks=st.sampled_from((0, 3, 40, 200)), seed=st.integers(0, 99))
def test_a_small_plan_holds_every_rule(
    items: list[Item], types: list[NodeType], looks: int, seed: int
) -> None:
    assert verify_plan(packed(items, types, looks, seed), items, types) == []


@settings(max_examples=60, deadline=None)
@given(
    items=item_lists(most=14, count=40),
    types=types,
    looks=st.sampled_from((0, 6, 30, 90)),
    few=st.sampled_from((1, 3, 200)),
    seed=st.integers(0, 99),
)
def test_a_plan_of_the_solver_holds_every_rule(
    items: list[Item], types: list[NodeType], looks: int, few: int, seed: int
) -> None:
    assert verify_plan(solved(items, types, looks, seed, few), items, types) == []
