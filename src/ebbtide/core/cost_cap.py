"""`max_hourly_cost`: how many replicas a policy may have for its money. It binds rules, schedules and wakes.

A replica costs what the target costs now divided by its replicas. `hourly_cost`, where the policy names it,
is the price of the least that is up: max(1, `min_replicas`) of each workload. Dividing it by the present
replicas would make each one cheaper the more there are, and the cap would never be reached.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from ebbtide.model.idle import Rate, Remembered
from ebbtide.model.policy import Policy

SHOWN = Decimal("0.0001")


def too_expensive(policy: Policy, have: int, rate: Rate | None, wanted: int) -> str:
    """Why so many replicas are not allowed; nothing where they are. `rate` is the price of `have`. What has
    no known price is never added to."""
    if policy.max_hourly_cost is None or wanted <= have:
        return ""
    limit = f"max_hourly_cost is {policy.max_hourly_cost} {policy.currency}"
    each = _price_each(policy, have, rate)
    if each is None:
        return f"its price is not known in {policy.currency} and {limit}"
    cost = each * wanted
    if cost <= policy.max_hourly_cost:
        return ""
    return f"{wanted} replicas would cost {cost.quantize(SHOWN)} {policy.currency} an hour, {limit}"


def most_allowed(policy: Policy, have: int, rate: Rate | None, wanted: int) -> int:
    """The largest number up to `wanted` that is allowed; what is there already always is."""
    allowed = (n for n in range(wanted, have, -1) if not too_expensive(policy, have, rate, n))
    return next(allowed, min(have, wanted))


def within_cap(
    policy: Policy, have: int, rate: Rate | None, wanted: Sequence[Remembered]
) -> tuple[Remembered, ...]:
    """What of it a wake may bring up: the largest are lowered first, none below max(1, `min_replicas`), since
    a wake is never refused. `rate` is the price of `have`; where it is not known, all that was there."""
    each = _price_each(policy, have, rate)
    if policy.max_hourly_cost is None or not each:
        return tuple(wanted)
    least, most = max(1, policy.min_replicas), policy.max_hourly_cost / each
    level = max((one.replicas for one in wanted), default=least)
    while level > least and sum(min(one.replicas, level) for one in wanted) > most:
        level -= 1
    return tuple(Remembered(one.ref, min(one.replicas, level)) for one in wanted)


def _price_each(policy: Policy, have: int, rate: Rate | None) -> Decimal | None:
    if policy.hourly_cost is not None:
        return policy.hourly_cost / (max(1, policy.min_replicas) * max(1, len(policy.target.workloads)))
    if rate is None or rate.currency != policy.currency or not have:
        return None
    return rate.per_hour / have
