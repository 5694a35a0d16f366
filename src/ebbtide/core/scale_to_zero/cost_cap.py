"""`max_hourly_cost`: how many replicas a policy may have for its money. It binds rules, schedules and wakes.

A replica costs what the target costs divided by its replicas. `hourly_cost`, where the policy names it, is
the price of as many as there were when it was first needed, and that number is kept: divided by those of the
moment each would be the cheaper the more there are, and the cap would never be reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

from ebbtide.model.idle import IdleState, Priced, Rate, Remembered
from ebbtide.model.policy import Policy

SHOWN = Decimal("0.0001")


def with_base(policy: Policy, state: IdleState, have: int) -> IdleState:
    """The state with the number of replicas that `hourly_cost` is the price of, where it is not kept yet."""
    cost = policy.hourly_cost
    if policy.max_hourly_cost is None or cost is None or not have or _base(policy, state):
        return state
    return replace(state, priced=Priced(cost, have))


def price_each(policy: Policy, state: IdleState, have: int, rate: Rate | None) -> Decimal | None:
    """Of one replica; none where it is not known. `rate` is the price of `have`."""
    if policy.hourly_cost is not None:
        base = _base(policy, state) or have
        return policy.hourly_cost / base if base else None
    if rate is None or rate.currency != policy.currency or not have:
        return None
    return rate.per_hour / have


def too_expensive(policy: Policy, each: Decimal | None, have: int, wanted: int) -> str:
    """Why so many replicas are not allowed; nothing where they are. What has no known price is never added
    to, and nothing is taken away."""
    if policy.max_hourly_cost is None or wanted <= have:
        return ""
    limit = f"max_hourly_cost is {policy.max_hourly_cost} {policy.currency}"
    if each is None:
        return f"its price is not known in {policy.currency} and {limit}"
    cost = each * wanted
    if cost <= policy.max_hourly_cost:
        return ""
    return f"{wanted} replicas would cost {cost.quantize(SHOWN)} {policy.currency} an hour, {limit}"


def most_allowed(policy: Policy, each: Decimal | None, have: int, wanted: int) -> int:
    """The largest number up to `wanted` that is allowed; what is there already always is."""
    allowed = (n for n in range(wanted, have, -1) if not too_expensive(policy, each, have, n))
    return next(allowed, min(have, wanted))


def within_cap(policy: Policy, each: Decimal | None, wanted: Sequence[Remembered]) -> tuple[Remembered, ...]:
    """What of it a wake may bring up: the largest are lowered first, none below max(1, `min_replicas`), since
    a wake is never refused. Where the price is not known, all that was there."""
    if policy.max_hourly_cost is None or not each:
        return tuple(wanted)
    least, most = max(1, policy.min_replicas), policy.max_hourly_cost / each
    level = max((one.replicas for one in wanted), default=least)
    while level > least and sum(min(one.replicas, level) for one in wanted) > most:
        level -= 1
    return tuple(Remembered(one.ref, min(one.replicas, level)) for one in wanted)


def _base(policy: Policy, state: IdleState) -> int:
    """How many replicas `hourly_cost` is the price of; 0 where that is not kept, or for another price."""
    known = state.priced
    return known.replicas if known is not None and known.per_hour == policy.hourly_cost else 0
