"""Rules and schedules: how many replicas an awake target should have; and `max_hourly_cost`: how many it may
have for its money. The cap binds rules, schedules and wakes.

A rule fires once it has held for its duration; up wins over down, and of several the one that asks for
most. What has held since when is in the state, so a restart forgets nothing; a reading that is not known,
or a silence of the loop, starts the rule again. A schedule is answered once: of those that came due while
nobody looked, only the latest counts.

A replica costs what the target costs divided by its replicas. `hourly_cost`, where the policy names it,
is the price of as many as there were when it was first needed, and that number is kept: divided by those
of the moment each would be the cheaper the more there are, and the cap would never be reached.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

from ebbtide.core.scale_to_zero.activity import scaled_by_another
from ebbtide.core.schedule import last_fire, next_fire
from ebbtide.core.words import a_while
from ebbtide.model.idle import (
    NO_WHY,
    IdleState,
    PolicyCause,
    PolicyWhy,
    Priced,
    Rate,
    Remembered,
    RuleTimer,
)
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Operator, Policy, Rule, Schedule
from ebbtide.model.snapshot import Reading

COMPARE: Mapping[Operator, Callable[[float, float], bool]] = {
    Operator.GT: operator.gt,
    Operator.LT: operator.lt,
    Operator.GTE: operator.ge,
    Operator.LTE: operator.le,
    Operator.EQ: operator.eq,
}
SHOWN = Decimal("0.0001")


@dataclass(frozen=True, slots=True)
class Scale:
    """What the target should be brought to, and why; `replicas` is empty where nothing changes."""

    replicas: tuple[Remembered, ...] = ()
    why: PolicyWhy = NO_WHY


@dataclass(frozen=True, slots=True)
class Due:
    """The latest time of any schedule that was not answered yet."""

    at: int
    schedule: Schedule


def rule_key(number: int, rule: Rule) -> str:
    """Changes with the rule, so what held of the old one does not count for the new. It is stored with the
    timer, so it stays as it was first written."""
    return f"{number}: {_compared(rule)} for {rule.duration_seconds} s: {rule.scale_by:+d}"


def describe(rule: Rule) -> str:
    return f"{_compared(rule)} for {a_while(rule.duration_seconds)}: {rule.scale_by:+d}"


def _compared(rule: Rule) -> str:
    return f"{rule.metric} {rule.operator} {rule.threshold:g}"


def follow(
    policy: Policy, state: IdleState, readings: Mapping[str, Reading], now: int, gap_seconds: int
) -> tuple[RuleTimer, ...]:
    """The timers of the rules that hold now."""
    silent = now - state.checked_at > gap_seconds
    since = {} if silent else {timer.rule: min(timer.since, now) for timer in state.timers}
    return tuple(
        RuleTimer(key, since.get(key) or now)
        for number, rule in enumerate(policy.rules)
        if holds(rule, readings.get(rule.metric))
        for key in (rule_key(number, rule),)
    )


def holds(rule: Rule, reading: Reading | None) -> bool:
    if reading is None or reading.value is None:
        return False
    return COMPARE[rule.operator](reading.value, rule.threshold)


def fired(policy: Policy, timers: Sequence[RuleTimer], now: int) -> Rule | None:
    since = {timer.rule: timer.since for timer in timers}
    ripe = [
        rule
        for number, rule in enumerate(policy.rules)
        if (started := since.get(rule_key(number, rule))) is not None
        and now - started >= rule.duration_seconds
    ]
    if not ripe:
        return None
    most = max(ripe, key=lambda rule: rule.scale_by)
    return most if most.scale_by > 0 else min(ripe, key=lambda rule: rule.scale_by)


def scale_for(
    policy: Policy, state: IdleState, rule: Rule, workloads: Sequence[Workload], rate: Rate | None, now: int
) -> Scale:
    """What a rule that fired makes of the replicas, within all bounds; where it moves nothing, why."""
    said = f"rule {describe(rule)}"
    if why := scaled_by_another(workloads):
        return Scale(why=replace(why, says=f"{said}: left alone, {why.says}"))
    ends = state.last_scaled_at + policy.cooldown_seconds
    if now < ends:
        says = f"{said}: cooling down until {datetime.fromtimestamp(ends, UTC):%H:%M:%S} UTC"
        return Scale(why=PolicyWhy(PolicyCause.COOLDOWN, says, found=now, limit=ends))
    up = [each for each in workloads if each.replicas]
    wanted = _moved(policy, rule.scale_by, up)
    if not _changed(wanted, up):
        bound = _why_bound(policy, rule, up)
        return Scale(why=replace(bound, says=f"{said}: {bound.says}"))
    why = NO_WHY
    if rule.scale_by > 0:
        price = price_each(policy, state, replicas_in(up), rate)
        wanted, why = _afforded(policy, rule.scale_by, up, price)
    changed = _changed(wanted, up)
    if not changed:
        return Scale(why=replace(why, says=f"{said}: {why.says}"))
    says = "; ".join(filter(None, (f"{said}: {_told(changed, up)}", why.says)))
    return Scale(changed, replace(why or PolicyWhy(PolicyCause.RULE, ""), says=says))


def scale_to(
    policy: Policy, replicas: int, workload: Workload, price: Decimal | None
) -> tuple[tuple[Remembered, ...], PolicyWhy]:
    """What a schedule of more than 0 makes of the replicas, whatever the cooldown: within all bounds; and why
    it is not what the schedule names."""
    wanted, have = _bounded(policy, replicas), workload.replicas
    number = most_allowed(policy, price, have, wanted)
    changed = (Remembered(workload.ref, number),) if number != have else ()
    return changed, NO_WHY if number == wanted else too_expensive(policy, price, have, wanted)


def replicas_in(workloads: Sequence[Workload]) -> int:
    return sum(each.replicas for each in workloads)


def _moved(policy: Policy, by: int, workloads: Sequence[Workload]) -> tuple[Remembered, ...]:
    """By no more than the rule says, and never against its sign: one that adds takes nothing away where
    somebody went beyond `max_replicas`, and one that takes away adds nothing below `min_replicas`."""
    return tuple(Remembered(each.ref, _stepped(policy, each.replicas, by)) for each in workloads)


def _stepped(policy: Policy, have: int, by: int) -> int:
    if by > 0:
        return max(have, min(have + by, max(policy.max_replicas, 1)))
    return min(have, max(have + by, policy.min_replicas, 1))


def _why_bound(policy: Policy, rule: Rule, workloads: Sequence[Workload]) -> PolicyWhy:
    each = next(iter(workloads), None)
    if each is None:
        says = f"{policy.target} has no replicas that a rule could change"
        return PolicyWhy(PolicyCause.NOTHING_UP, says)
    name, bound = (
        ("max_replicas", max(policy.max_replicas, 1))
        if rule.scale_by > 0
        else ("min_replicas", max(policy.min_replicas, 1))
    )
    says = f"not moved, {each.ref} has {each.replicas} and {name} is {bound}"
    return PolicyWhy(PolicyCause.BOUND, says, name, each.replicas, bound)


def _bounded(policy: Policy, replicas: int) -> int:
    return min(max(replicas, policy.min_replicas, 1), max(policy.max_replicas, 1))


def _changed(wanted: Sequence[Remembered], workloads: Sequence[Workload]) -> tuple[Remembered, ...]:
    have = {each.ref: each.replicas for each in workloads}
    return tuple(one for one in wanted if one.replicas != have[one.ref])


def _told(wanted: Sequence[Remembered], workloads: Sequence[Workload]) -> str:
    have = {each.ref: each.replicas for each in workloads}
    return ", ".join(f"{one.ref} from {have[one.ref]} to {one.replicas}" for one in wanted)


def _afforded(
    policy: Policy, by: int, workloads: Sequence[Workload], price: Decimal | None
) -> tuple[tuple[Remembered, ...], PolicyWhy]:
    """The largest step up to `by` that `max_hourly_cost` allows, and why it is not the whole."""
    have, why = replicas_in(workloads), NO_WHY
    for step in range(by, 0, -1):
        wanted = _moved(policy, step, workloads)
        refused = too_expensive(policy, price, have, sum(one.replicas for one in wanted))
        why = why or refused
        if not refused:
            return wanted, why
    return (), why


Fires = Callable[[str, str, int], tuple[int | None, int | None]]


def fires_around(cron: str, zone: str, now: int) -> tuple[int | None, int | None]:
    """The last time up to now and the next one after it."""
    return last_fire(cron, zone, now), next_fire(cron, zone, now)


def due(policy: Policy, state: IdleState, now: int, fires: Fires = fires_around) -> Due | None:
    """The latest time that any schedule came due since they were last answered. `fires` may remember what
    it found: many policies share their cron lines."""
    found: Due | None = None
    for schedule in policy.schedules:
        answered = max(state.scheduled_until, written_at(policy, schedule))
        at = fires(schedule.cron, schedule.zone, now)[0]
        while at is not None and at > answered and (start := _exempt_since(schedule, at)):
            at = last_fire(schedule.cron, schedule.zone, start - 1)
        if at is not None and at > answered and (found is None or at >= found.at):
            found = Due(at, schedule)
    return found


def written_at(policy: Policy, schedule: Schedule) -> int:
    """A schedule never fires for a time before it was written. Where a version that did not note that wrote
    it, the last write of its policy counts: it may be later, and is never earlier."""
    return schedule.written_at or max(policy.updated_at, policy.created_at)


def _exempt_since(schedule: Schedule, at: int) -> int:
    """The beginning of the day, where it is one on which the schedule does not fire; else 0."""
    if not schedule.except_dates:
        return 0
    local = datetime.fromtimestamp(at, UTC).astimezone(ZoneInfo(schedule.zone))
    if local.date().isoformat() not in schedule.except_dates:
        return 0
    midnight = local.replace(hour=0, minute=0, second=0, microsecond=0, fold=0)
    return min(int(midnight.timestamp()), at)


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


def too_expensive(policy: Policy, each: Decimal | None, have: int, wanted: int) -> PolicyWhy:
    """Why so many replicas are not allowed; nothing where they are. What has no known price is never added
    to, and nothing is taken away."""
    if policy.max_hourly_cost is None or wanted <= have:
        return NO_WHY
    most = float(policy.max_hourly_cost)
    limit = f"max_hourly_cost is {policy.max_hourly_cost} {policy.currency}"
    if each is None:
        says = f"its price is not known in {policy.currency} and {limit}"
        return PolicyWhy(PolicyCause.NO_PRICE, says, policy.currency, limit=most)
    cost = each * wanted
    if cost <= policy.max_hourly_cost:
        return NO_WHY
    says = f"{wanted} replicas would cost {cost.quantize(SHOWN)} {policy.currency} an hour, {limit}"
    return PolicyWhy(PolicyCause.TOO_EXPENSIVE, says, policy.currency, float(cost), most)


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
