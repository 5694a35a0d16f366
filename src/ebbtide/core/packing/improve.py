"""Packing with numpy and HiGHS: columns, rounding, then ruin and recreate until the deadline."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.packing.arrays import arrays_of, bins_of
from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.columns import Generator
from ebbtide.core.packing.problem import Bin, Problem
from ebbtide.core.packing.rounding import dive
import time
def improve(problem: Problem, bins: Sequence[Bin], budget: Budget) -> list[Bin]:
    """The cheapest bins found by the deadline, never dearer than those given."""
    arrays = arrays_of(problem)
    t=time.perf_counter()
    generator = Generator(arrays, budget.seed)
    t1=time.perf_counter()
    generator.generate(budget.part(0.55))
    import numpy as np
    u,v=generator.master.solve()
    obj=(u*arrays.price[generator.master.columns.types]).sum()
    t2=time.perf_counter()
    columns, times = dive(generator, arrays.counts, budget)
    found = bins_of(problem, columns.types, columns.patterns, times)
    t3=time.perf_counter()
    print('setup %.3f gen %.3f turns %d cols %d lp gap %.3f; dive %.3f gap %.3f'%(t1-t,t2-t1,generator._turn,len(u),100*(obj/problem.bound-1),t3-t2,100*(problem.cost(found)/problem.bound-1)))
    return found if problem.cost(found) < problem.cost(bins) else list(bins)
