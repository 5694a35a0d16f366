"""The front of the packer: the cheapest nodes for these items that are found by the deadline."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec

from ebbtide.core.packing.budget import Budget
from ebbtide.core.packing.frame import frame
from ebbtide.core.packing.plain import first_fit, search
from ebbtide.core.packing.types import Item, NodeType, Plan
from ebbtide.model.packer import Packer

HOW_TO_PACK = "Run: pip install 'ebbtide[solver]', or set packer to plain."

PLAIN_UNITS = 200
"""Up to so many units plain Python is as good as the solver, and spares its import."""
SOLVER = ("numpy", "highspy")
_SEARCHING = 0.95
"""Share of the time for the search; the rest is for writing the plan out."""


class PackerMissing(ImportError):
    """Start-up checks `why_missing` first; this is for callers that did not."""


def why_missing(packer: Packer) -> str:
    """Why this packer cannot be used here; empty where it can. Nothing is imported for it."""
    missing = [name for name in SOLVER if packer is Packer.HIGHS and find_spec(name) is None]
    return f"the packer highs needs {' and '.join(missing)}, not installed here" if missing else ""


def installed_packer() -> Packer:
    """For a preview that nothing depends on. A decision is told which packer to use."""
    return Packer.PLAIN if why_missing(Packer.HIGHS) else Packer.HIGHS


@contextmanager
def needing_solver() -> Iterator[None]:
    """Without it the answer would be another one. That is an error and no silent change: `replay` differed
    between installs."""
    try:
        yield
    except ImportError as cause:
        why = why_missing(Packer.HIGHS) or f"the packer highs cannot be loaded ({cause})"
        raise PackerMissing(f"{why}; nothing was decided. {HOW_TO_PACK}") from cause


def pack(
    items: Sequence[Item],
    types: Sequence[NodeType],
    *,
    deadline: float,
    clock: Callable[[], float],
    seed: int = 0,
    prove: bool = True,
) -> Plan:
    """As `pack_within`, with the packer that finds most."""
    return pack_within(items, types, Budget(clock, deadline, seed), prove)


def pack_within(items: Sequence[Item], types: Sequence[NodeType], budget: Budget, prove: bool = True) -> Plan:
    """The cheapest plan found before the clock reaches the deadline, with its bound.

    Every item is placed that fits some type its rules allow; the others are in `unplaced` with the
    reason. A plan comes back even if the deadline has passed. Who does not need the bound saves time
    with `prove` off; it is then lower where rules about types matter. `PackerMissing` where the packer is
    not installed: another one would give another answer.
    """
    problem = frame(items, types)
    budget = budget.part(_SEARCHING)
    if budget.packer is Packer.HIGHS and sum(problem.counts) > PLAIN_UNITS and budget.left() > 0:
        with needing_solver():
            from ebbtide.core.packing.improve import improve, tightened
        problem = tightened(problem, budget) if prove else problem
        return problem.plan(improve(problem, budget))
    return problem.plan(search(problem, first_fit(problem, problem.counts), budget))
