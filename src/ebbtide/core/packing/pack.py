"""The front of the packer: the cheapest nodes for these items that are found by the deadline."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.first_fit import first_fit
from ebbtide.core.packing.frame import frame
from ebbtide.core.packing.plain import search
from ebbtide.core.packing.types import Item, NodeType, Plan

PLAIN_UNITS = 200
"""Up to so many units plain Python is as good as the solver, and spares its import."""
_SEARCHING = 0.95
"""Share of the time for the search; the rest is for writing the plan out."""


def pack(
    items: Sequence[Item],
    types: Sequence[NodeType],
    *,
    deadline: float,
    clock: Callable[[], float],
    seed: int = 0,
    prove: bool = True,
) -> Plan:
    """The cheapest plan found before `clock()` reaches `deadline`, with its bound.

    Every item is placed that fits some type its rules allow; the others are in `unplaced` with the
    reason. A plan comes back even if the deadline has passed. Who does not need the bound saves time
    with `prove` off; it is then lower where rules about types matter.
    """
    problem = frame(items, types)
    budget = Budget(clock, deadline, seed).part(_SEARCHING)
    if sum(problem.counts) > PLAIN_UNITS and budget.left() > 0:
        try:
            from ebbtide.core.packing.improve import improve, tightened
        except ImportError:
            pass
        else:
            problem = tightened(problem, budget) if prove else problem
            return problem.plan(improve(problem, budget))
    return problem.plan(search(problem, first_fit(problem, problem.counts), budget))
