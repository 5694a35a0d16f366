"""Sleep, wakes, rules and the cost cap compared: the real engine over a store in memory, round by round."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from itertools import product

from ebbtide.model.idle import Phase, Remembered, WakeReason
from ebbtide.model.policy import Operator, Rule, Signal, SignalKind
from tests.builders import NOW
from tests.oracle import zero
from tests.oracle.drawing import Source
from tests.oracle.suite import Report
from tests.oracle.translate import sleeper_of
from tests.policy_harness import (
    DEFAULTS,
    QUERY,
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_state,
    make_workload,
    policy_id,
)

BY_VALUE = Signal(SignalKind.PROMQL_VALUE, QUERY)


@dataclass(frozen=True, slots=True)
class Night:
    """A policy, and what its signal says in each round: 0 quiet, 1 active, 2 unknown."""

    threshold: int
    keep_alive: int
    scale_to_zero: bool
    enabled: bool
    signals: int
    said: tuple[int, ...]
    pace: int
    wake_at: int


def nights(source: Source) -> Night:
    said = source.picks((0, 0, 0, 0, 0, 0, 0, 1, 2), 12, 24)
    code = source.number(0, 8 * 8 * 6 - 1)
    code, flags = divmod(code, 8)
    code, pace = divmod(code, 4)
    return Night(
        (120, 300, 600)[code % 3],
        (0, 60, 300)[code % 3],
        flags != 1,
        flags != 2,
        0 if flags == 3 else 1,
        tuple(said),
        (30, 60, 120, 240)[pace],
        source.pick((99, 99, 99, 4, 9)),
    )


def compare_nights(case: Night, report: Report) -> None:
    policy = make_policy(
        idle_threshold_seconds=case.threshold,
        keep_alive_window_seconds=case.keep_alive,
        scale_to_zero=case.scale_to_zero,
        enabled=case.enabled,
        signals=(BY_VALUE,) * case.signals,
        grace_seconds=0,
    )
    harness = PolicyHarness(policies=(policy,))
    sleeper = sleeper_of(policy, DEFAULTS)
    harness.signals.values = {QUERY: 1.0}
    harness.round()
    active_at, quiet_from, woken = harness.now, None, None
    for number, said in enumerate(case.said):
        harness.clock.sleep(case.pace)
        if number == case.wake_at:
            harness.scaling.wake(policy.id, WakeReason.MANUAL)
            woken = active_at = harness.now
            quiet_from = None
        harness.signals.values = {QUERY: (0.0, 1.0, None)[said]}
        harness.round()
        report.cases["rounds of policies"] += 1
        if said == 1:
            active_at = harness.now
        quiet_from = (quiet_from or harness.now) if said == 0 else None
        allowed = zero.may_sleep(sleeper, active_at if said == 0 else None, woken, harness.now)
        demanded = zero.must_sleep(sleeper, quiet_from, woken is not None, harness.now)
        asleep = harness.memory_workloads.read(make_ref()).replicas == 0
        if asleep and not allowed.allows:
            report.differs(f"{case}: asleep in round {number}: {allowed.why}")
        if demanded.demands and not asleep:
            report.differs(f"{case}: still up in round {number}: {demanded.why} ({harness.state.phase})")
        if asleep:
            return


@dataclass(frozen=True, slots=True)
class Morning:
    """A group, what each member had before, what it has now; several policies, of which some sleep."""

    least: int
    most: int
    had: tuple[int | None, ...]
    has: tuple[int, ...]
    asleep: tuple[bool, ...]
    asked: tuple[int, ...] | None


def mornings(source: Source) -> Morning:
    members = source.number(1, 3)
    return Morning(
        source.number(0, 3),
        source.number(3, 10),
        tuple(source.picks((None, 0, 1, 2, 7, 20), members, members)),
        tuple(source.picks((0, 0, 2, 5), members, members)),
        tuple(source.picks((False, True), 3, 3)),
        source.pick((None, None, (0,), (1, 2), (0, 1, 2))),
    )


def compare_mornings(case: Morning, report: Report) -> None:
    report.cases["wakes"] += 1
    _compare_group(case, report)
    _compare_many(case, report)


def _compare_group(case: Morning, report: Report) -> None:
    refs = [make_ref(f"m{number}") for number in range(len(case.had))]
    policy = make_policy("group", *refs, min_replicas=case.least, max_replicas=case.most)
    workloads = [make_workload(ref.name, replicas) for ref, replicas in zip(refs, case.has, strict=True)]
    harness = PolicyHarness(policies=(policy,), memory_workloads=MemoryWorkloads(*workloads))
    harness.round()
    known = tuple(Remembered(ref, n) for ref, n in zip(refs, case.had, strict=True) if n is not None)
    harness.put(phase=Phase.ZERO, remembered=known, idle_since=NOW - 3600, scaled_to_zero_at=NOW - 1800)
    harness.scaling.wake(policy.id, WakeReason.MANUAL)
    sleeper = sleeper_of(policy, DEFAULTS)
    for ref, had, has in zip(refs, case.had, case.has, strict=True):
        wanted = zero.woken_to(sleeper, had, has).value
        found = harness.memory_workloads.read(ref).replicas
        if found != wanted:
            report.differs(f"{case}: {ref} is woken to {found}, the oracle says {wanted}")


def _compare_many(case: Morning, report: Report) -> None:
    numbers = range(len(case.asleep))
    policies = [make_policy(f"w{n}", make_ref(f"w{n}"), id=policy_id(n + 1)) for n in numbers]
    workloads = [make_workload(f"w{n}", 0 if case.asleep[n] else 2) for n in numbers]
    harness = PolicyHarness(policies=policies, memory_workloads=MemoryWorkloads(*workloads))
    harness.round()
    for number in numbers:
        if case.asleep[number]:
            found = harness.rows.find_state(policies[number].id)
            state = make_state(Phase.ZERO, policy_id=policies[number].id, scaled_to_zero_at=NOW - 60)
            harness.rows.write_state(replace(state, rev=found.rev if found else 0))
    asked = None if case.asked is None else [policies[n].id for n in case.asked]
    asleep = [policies[n].id for n in numbers if case.asleep[n]]
    wanted = zero.woken_by(asked or [], asleep).value
    answered = [one.policy_id for one in harness.scaling.wake_all(asked, WakeReason.MANUAL)]
    if sorted(answered) != sorted(wanted):
        report.differs(f"{case}: answered {answered}, the oracle says {wanted}")
    for number in numbers:
        up = harness.memory_workloads.read(make_ref(f"w{number}")).replicas > 0
        if up != (not case.asleep[number] or policies[number].id in wanted):
            report.differs(f"{case}: policy {number} is {'up' if up else 'down'} after the wake")


@dataclass(frozen=True, slots=True)
class Ruled:
    """Rules with what their metric says, on a workload between bounds."""

    have: int
    least: int
    most: int
    rules: tuple[tuple[str, float, int, int], ...]
    """Operator, threshold, duration and step of each."""
    value: float | None
    held: int
    cost: Decimal | None
    cap: Decimal | None


RULES = tuple(
    product([each.value for each in Operator], (1.0, 2.0, 3.0), (0, 60, 120, 600), (1, 2, 5, -1, -2, -5))
)


def ruled(source: Source) -> Ruled:
    have = source.number(1, 15)
    cap = source.pick((None, None, "0.5", "1", "2.5"))
    return Ruled(
        have,
        source.number(1, 4),
        source.number(2, 12),
        tuple(source.picks(RULES, 1, 3)),
        source.pick((1.0, 2.0, 2.0, 3.0, 2.5, None)),
        source.pick((0, 60, 120)),
        Decimal("0.25") * have if cap and source.number(0, 4) else None,
        Decimal(cap) if cap else None,
    )


def compare_ruled(case: Ruled, report: Report) -> None:
    report.cases["rules"] += 1
    rules = tuple(
        Rule(QUERY, Operator(operator), threshold, duration, by)
        for operator, threshold, duration, by in case.rules
    )
    policy = make_policy(
        min_replicas=case.least,
        max_replicas=case.most,
        scale_to_zero=False,
        rules=rules,
        hourly_cost=case.cost,
        max_hourly_cost=case.cap,
    )
    harness = PolicyHarness(
        policies=(policy,), memory_workloads=MemoryWorkloads(make_workload(replicas=case.have))
    )
    harness.signals.values = {QUERY: None}
    harness.round()
    held = [
        zero.rule_holds(operator, case.value, threshold).demands for operator, threshold, _, _ in case.rules
    ]
    since = None
    have = case.have
    for seconds in range(0, case.held + 60, 60):
        harness.clock.sleep(60)
        harness.signals.values = {QUERY: case.value}
        since = since or harness.now
        harness.round()
        found = harness.memory_workloads.read(make_ref()).replicas
        fired = zero.firing(
            [
                (by, wait, since if holds else None)
                for (_, _, wait, by), holds in zip(case.rules, held, strict=True)
            ],
            harness.now,
        )
        each = case.cost / case.have if case.cost is not None else None
        sleeper = sleeper_of(policy, DEFAULTS)
        wanted = {zero.scaled_by(sleeper, have, by, each, case.cap).value for by in fired.value} or {have}
        asked = [zero.may_scale(have, have + by, each, case.cap) for by in fired.value]
        if any(ruling.answer == "either" for ruling in asked):
            return  # what it may cost is not known here
        capped = zero.may_scale(have, found, each, case.cap)
        ups = [by for by in fired.value if by > 0]
        partly = case.cap is not None and ups and have < found <= have + max(ups) and capped.allows
        if (found not in wanted and not partly) or not capped.allows:
            report.differs(f"{case}: {found} replicas after {seconds} s, the oracle says {sorted(wanted)}")
        if found != have:
            return  # its cooldown begins
