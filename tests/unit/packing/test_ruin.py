"""Ruin and recreate on a plan that is as bad as can be."""

from __future__ import annotations

from ebbtide.core.packing.fill import arrays_of
from ebbtide.core.packing.improve import ruin
from ebbtide.core.packing.pack import frame
from ebbtide.core.packing.problem import Bin
from ebbtide.core.packing.types import Budget
from tests.unit.packing.builders import make_item, make_type, ticking
from tests.verify_plan import verify_plan


def test_a_node_for_every_pod_is_soon_planned_better() -> None:
    items = [make_item(f"c{number}", 500 + 100 * number, 1024, 20) for number in range(6)]
    types = [make_type("small", 4000, 8192, 30, 1.0), make_type("large", 16000, 32768, 110, 3.9)]
    problem = frame(items, types)
    largest = max(range(len(problem.types)), key=lambda number: problem.types[number].cpu_milli)
    wasteful = [Bin(largest, ((index, 1),), count) for index, count in enumerate(problem.counts)]
    better = ruin(problem, arrays_of(problem), wasteful, Budget(ticking(), 300.0))
    assert problem.cost(better) < problem.cost(wasteful)
    assert verify_plan(problem.plan(better), items, types) == []
    assert ruin(problem, arrays_of(problem), wasteful, Budget(ticking(), 0.0)) == wasteful
