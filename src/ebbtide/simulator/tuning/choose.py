"""What of a search is proposed: the knee of the front, without the changes that are worth nothing."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import log

from ebbtide.simulator.backtest.runs import Run
from ebbtide.simulator.tuning.search import OBJECTIVES, Plan, Tried
from ebbtide.simulator.tuning.space import Lines

NOTHING = 0.01
"""A share of today's value below which less is hardly better."""


def front_of(tried: Sequence[Tried], plan: Plan) -> list[Tried]:
    """Those that no other is as good as in every objective and better in one, the cheapest first. Of several
    that came out the same, the first. One that violated a safety rule is never proposed."""
    safe = [one for one in tried if not one.run.violations]
    values = {plan.values(one.run): one for one in reversed(safe)}
    kept = [one for mine, one in values.items() if not any(_beats(other, mine) for other in values)]
    return sorted(kept, key=lambda one: (OBJECTIVES["cost"](one.run), plan.values(one.run)))


def _beats(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(mine <= theirs for mine, theirs in zip(one, other, strict=True))


def knee_of(
    front: Sequence[Tried], today: Tried, plan: Plan, cost_limit: float, holds: Callable[[Tried], bool]
) -> Tried:
    """Of those that cost at most `cost_limit` (a share) more than today, the one from which one per cent less
    of an objective costs more than one per cent of the others. One that does not hold is left for the next
    best. Today where there is none."""
    most = OBJECTIVES["cost"](today.run) * (1 + cost_limit)
    allowed = [one for one in front if OBJECTIVES["cost"](one.run) <= most]
    measured = plan.values(today.run)

    def product(one: Tried) -> float:
        both = zip(plan.values(one.run), measured, strict=True)
        return round(sum(log(value / (of or 1.0) + NOTHING) for value, of in both), 9)

    return next((one for one in sorted(allowed, key=product) if one == today or holds(one)), today)


def without_idle(
    lines: Lines,
    run: Run,
    plan: Plan,
    play: Callable[[Lines], Run | None],
    holds: Callable[[Lines], bool],
) -> tuple[Lines, Run]:
    """Each change is taken back in turn; where nothing gets worse and it still holds, it stays so."""
    for key in reversed(list(lines)):
        fewer = {one: value for one, value in lines.items() if one != key}
        played = play(fewer)
        if played is None or played.violations:
            continue
        both = zip(plan.values(played), plan.values(run), strict=True)
        if all(without <= with_it for without, with_it in both) and holds(fewer):
            lines, run = fewer, played
    return lines, run
