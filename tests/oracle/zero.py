"""Scale to zero: when a target may sleep, what a wake restores, what rules and the cost cap allow.
`scale-to-zero.md`, rows 19, 22, 23, 38-42."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal

from tests.oracle.answers import Meaning, Ruling, either, no, rule, yes


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A policy as the rules about sleep see it."""

    scale_to_zero: bool
    enabled: bool
    signals: int
    idle_threshold: int
    keep_alive: int
    min_replicas: int = 1
    max_replicas: int = 10


@rule("rows 22, 23, 38", "no", "either")
def may_sleep(policy: Sleeper, quiet_since: int | None, last_wake_at: int | None, now: int) -> Ruling:
    """ "zero when idle for threshold and then quiet for the keep-alive window; a wake restarts both";
    "idleness is watched only where a policy has signals". `quiet_since` is none while a signal is active or
    unknown."""
    if not policy.scale_to_zero or not policy.enabled:
        return no("it may not go to zero")
    if not policy.signals:
        return no("it has no signals")
    if quiet_since is None:
        return no("it is in use, or that is not known")
    started = max(quiet_since, last_wake_at or 0)
    wait = policy.idle_threshold + policy.keep_alive
    return (
        either("long enough; a grace may still hold")
        if now - started >= wait
        else no(f"quiet {now - started} s")
    )


@rule("row 23", "yes", "either")
def must_sleep(policy: Sleeper, quiet_since: int | None, others: bool, now: int) -> Ruling:
    """Long after threshold and keep-alive, where no grace, pause, wake, gap or other hand is in the way
    (`others`)."""
    ripe = quiet_since is not None and now - quiet_since >= policy.idle_threshold + policy.keep_alive
    clear = policy.scale_to_zero and policy.enabled and policy.signals and not others
    return yes("idle for long enough") if ripe and clear else either("something may hold it")


@rule("rows 22, 39, 40", "restored", "least", "no")
def woken_to(policy: Sleeper, had: int | None, now_has: int) -> Meaning[int]:
    """ "restores what each workload had", be it beyond the maximum; "a wake goes to max(1, min)" where that
    is more; "a wake restores every member at zero". The value is the replicas after it."""
    if now_has > 0:
        return Meaning("no", now_has)
    least = max(1, policy.min_replicas)
    return Meaning("least", least) if (had or 0) < least else Meaning("restored", had or least)


@rule("row 19", "named", "all")
def woken_by(asked: Sequence[str], asleep: Sequence[str]) -> Meaning[tuple[str, ...]]:
    """ "exactly what was asked for; all scaled-to-zero policies where none is named"."""
    return Meaning("named", tuple(asked)) if asked else Meaning("all", tuple(asleep))


OPERATORS: Mapping[str, tuple[bool, bool, bool]] = {
    "gt": (False, False, True),
    "lt": (True, False, False),
    "gte": (False, True, True),
    "lte": (True, True, False),
    "eq": (False, True, False),
}
"""Whether it holds for a value below, equal to or above the threshold."""


@rule("defaults: rules", "yes", "no")
def rule_holds(operator: str, value: float | None, threshold: float) -> Ruling:
    """ "operator gt/lt/gte/lte/eq"; what is not known does not hold."""
    if value is None:
        return no("unknown")
    holds = OPERATORS[operator][0 if value < threshold else 1 if value == threshold else 2]
    return yes("it holds") if holds else no("it does not hold")


@rule("defaults: 'Any rule that has held for its duration fires; up wins over down'", "up", "down", "none")
def firing(held: Sequence[tuple[int, int, int | None]], now: int) -> Meaning[frozenset[int]]:
    """Each rule as (scale_by, duration, held since). The value is what may be applied; where several of one
    direction fire, the documents do not say which."""
    ripe = [by for by, duration, since in held if since is not None and now - since >= duration]
    ups = frozenset(by for by in ripe if by > 0)
    if ups:
        return Meaning("up", ups)
    downs = frozenset(ripe)
    return Meaning("down", downs) if downs else Meaning("none", frozenset())


@rule("row 42", "moves", "bound", "cap")
def scaled_by(
    policy: Sleeper, have: int, by: int, each_costs: Decimal | None, cap: Decimal | None
) -> Meaning[int]:
    """ "the cap always binds; a rule never moves against its own sign". The value is the replicas after it; a
    step that would pass the cap may also stop below it, which `may_scale` allows."""
    wanted = have + by
    if by > 0:
        wanted = max(have, min(wanted, policy.max_replicas))
    else:
        wanted = min(have, max(wanted, policy.min_replicas, 1))
    if wanted == have:
        return Meaning("bound", have)
    if by > 0 and cap is not None and (each_costs is None or wanted * each_costs > cap):
        return Meaning("cap", have)
    return Meaning("moves", wanted)


@rule("row 42", "yes", "no", "either")
def may_scale(have: int, to: int, each_costs: Decimal | None, cap: Decimal | None) -> Ruling:
    """ "the cap always binds": no scaling up to more than the hourly cost allows, for any caller."""
    if to <= have or cap is None:
        return yes("not more, or no cap")
    if each_costs is None:
        return either("the price is not known")
    return (
        yes("within the cap") if to * each_costs <= cap else no(f"{to} replicas cost more than {cap} an hour")
    )
