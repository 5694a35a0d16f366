"""Builders for the packing tests, and inputs of every kind for Hypothesis."""

from __future__ import annotations

from collections.abc import Callable
from itertools import count

from hypothesis import strategies as st

from ebbtide.core.packing import Item, NodeType, PlacementRules, Plan, pack
from ebbtide.core.packing.improve import FEW, improve
from ebbtide.core.packing.pack import frame
from ebbtide.core.packing.types import Budget


def make_type(
    name: str = "t",
    cpu_milli: int = 4000,
    memory_mib: int = 16384,
    pods: int = 110,
    price: float = 1.0,
    zone: str | None = None,
) -> NodeType:
    return NodeType(name, cpu_milli, memory_mib, pods, price, zone)


def make_item(
    name: str = "p",
    cpu_milli: int = 1000,
    memory_mib: int = 1024,
    count: int = 1,
    slots: int = 1,
    rules: PlacementRules | None = None,
) -> Item:
    names = tuple(f"{name}-{index}" for index in range(count * slots))
    return Item(cpu_milli, memory_mib, names, slots, rules or PlacementRules())


def ticking(step: float = 1.0) -> Callable[[], float]:
    """A clock that moves by one step each time it is read, so every search ends and none is timed."""
    ticks = count()
    return lambda: next(ticks) * step


def packed(items: list[Item], types: list[NodeType], looks: int = 400, seed: int = 0) -> Plan:
    """A plan made with so many looks at the clock."""
    return pack(items, types, deadline=float(looks), clock=ticking(), seed=seed)


def solved(items: list[Item], types: list[NodeType], looks: int, seed: int = 0, few: int = FEW) -> Plan:
    """A plan of the solver, however small the input; by clusters when it has more than a `few` classes."""
    problem = frame(items, types)
    if not problem.kinds:
        return problem.plan([])
    budget = Budget(ticking(), float(looks), seed)
    return problem.plan(improve(problem, budget, few))


_ZONES = ("a", "b", "c")
_NAMES = ("t0", "t1", "t2", "t3")

rules = st.builds(
    PlacementRules,
    types=st.none() | st.none() | st.frozensets(st.sampled_from(_NAMES), min_size=1),
    zones=st.none() | st.none() | st.frozensets(st.sampled_from(_ZONES), min_size=1),
    max_per_node=st.none() | st.none() | st.integers(1, 3),
    max_skew=st.none() | st.none() | st.integers(1, 2),
    zone_counts=st.just(()) | st.just((("a", 3), ("b", 1))),
)

types = st.lists(
    st.builds(
        NodeType,
        name=st.sampled_from(_NAMES),
        cpu_milli=st.integers(500, 16000),
        memory_mib=st.integers(512, 65536),
        pods=st.integers(2, 30),
        price=st.floats(0.01, 5.0),
        zone=st.none() | st.sampled_from(_ZONES),
    ),
    min_size=1,
    max_size=8,
)


@st.composite
def item_lists(draw: st.DrawFn, most: int = 8, count: int = 12) -> list[Item]:
    sizes = draw(
        st.lists(
            st.tuples(
                st.integers(0, 8000),
                st.integers(0, 20000),
                st.integers(0, count),
                st.sampled_from((1, 1, 1, 2)),
            ),
            max_size=most,
        )
    )
    return [
        make_item(f"i{number}", cpu_milli, memory_mib, units, slots, draw(rules))
        for number, (cpu_milli, memory_mib, units, slots) in enumerate(sizes)
    ]
