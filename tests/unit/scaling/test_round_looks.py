"""What a round looks at, and for whom: prices, gates, signals that are fresh, policies on every page."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, cast

import pytest

from ebbtide.core.scale_to_zero.rates import Rates
from ebbtide.engine.scale_to_zero.context import PAGE, PolicyContext, step_of
from ebbtide.engine.scale_to_zero.gating import Gating
from ebbtide.engine.scale_to_zero.look import Looking, PolicyScene
from ebbtide.errors import NotFound
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import NO_WHY, Phase, PolicyCause, PolicyWhy, Rate, WakeReason, WakeTime, wake_id
from ebbtide.model.log import LogKind
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.policy import Operator, Policy, Rule, Schedule, Signal, SignalKind, ZeroDefaults
from ebbtide.model.snapshot import ClusterView, Reading
from ebbtide.ports import Cluster
from tests.builders import NOW, make_node, make_settings
from tests.policy_harness import (
    BY_QUERY,
    QUERY,
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_state,
    make_workload,
    policy_id,
)

KNOWN = Rate(Decimal("0.20"), "EUR", "what it cost while up")
OWN = Rate(Decimal("0.50"), "EUR", "the policy")
SHARES = {"EUR": Decimal("0.5")}
NO_VIEW, VIEW = Rates(()), Rates((), ClusterView((make_node("a1"),)))


class Gates(Gating):
    """Says no, and notes for whom it was asked."""

    def __init__(self, context: PolicyContext) -> None:
        super().__init__(context)
        self.asked: list[str] = []

    def why_not(self, policy: Policy) -> PolicyWhy:
        self.asked.append(policy.name)
        return PolicyWhy(PolicyCause.PAUSED, "no")


def looking(harness: PolicyHarness, cost_tracking: bool = True) -> tuple[Looking, Gates]:
    defaults = replace(harness.defaults, cost_tracking=cost_tracking)
    context = PolicyContext(harness.scaling.ports, defaults, make_settings())
    gates = Gates(context)
    return Looking(context, gates), gates


def scene(rates: Rates = NO_VIEW, now: int = NOW) -> PolicyScene:
    return PolicyScene(now, {}, rates, SHARES, "", 600)


@pytest.mark.parametrize(
    ("phase", "rates", "own", "expected"),
    [
        (Phase.ACTIVE, VIEW, True, OWN),
        (Phase.ACTIVE, VIEW, False, None),
        (Phase.WAKING, VIEW, False, KNOWN),
        (Phase.WAKING, VIEW, True, OWN),
        (Phase.ZERO, NO_VIEW, False, KNOWN),
        (Phase.ZERO, NO_VIEW, True, OWN),
        (Phase.ZERO, VIEW, False, replace(KNOWN, realised_per_hour=Decimal("0.10"))),
        (Phase.ZERO, VIEW, True, replace(OWN, realised_per_hour=Decimal("0.25"))),
    ],
)
def test_what_sleeps_costs_what_it_did_while_up_and_saves_the_share_of_empty_room(
    phase: Phase, rates: Rates, own: bool, expected: Rate | None
) -> None:
    cost: dict[str, Any] = {"hourly_cost": OWN.per_hour, "currency": "EUR"} if own else {}
    policy = make_policy(**cost)
    look, _ = looking(PolicyHarness())
    found = look.look_at(policy, make_state(phase, rate=KNOWN), scene(rates))
    assert found.rate == expected


@pytest.mark.parametrize(
    ("tracked", "cap", "priced"),
    [(True, None, True), (True, Decimal(1), True), (False, Decimal(1), True), (False, None, False)],
)
def test_a_price_is_worked_out_for_the_ledger_and_for_a_cap(
    tracked: bool, cap: Decimal | None, priced: bool
) -> None:
    policy = make_policy(hourly_cost=OWN.per_hour, currency="EUR", max_hourly_cost=cap)
    look, _ = looking(PolicyHarness(), cost_tracking=tracked)
    assert look.look_at(policy, make_state(), scene()).rate == (OWN if priced else None)


SLEEPS, WAKES = Schedule("0 20 * * *", replicas=0), Schedule("0 6 * * *", wake=True)


@pytest.mark.parametrize(
    ("phase", "quiet", "schedules", "asked"),
    [
        (Phase.IDLE, 1800, (), True),
        (Phase.IDLE, 1799, (), False),
        (Phase.IDLE, None, (), False),
        (Phase.ACTIVE, None, (SLEEPS,), True),
        (Phase.ACTIVE, None, (WAKES, SLEEPS), True),
        (Phase.ACTIVE, None, (WAKES,), False),
        (Phase.FALLING, 3600, (), True),
        (Phase.ZERO, 3600, (), False),
        (Phase.ZERO, 3600, (SLEEPS,), False),
        (Phase.WAKING, 3600, (SLEEPS,), False),
    ],
)
def test_gates_are_asked_only_about_what_may_be_about_to_sleep(
    phase: Phase, quiet: int | None, schedules: tuple[Schedule, ...], asked: bool
) -> None:
    policy = make_policy(schedules=schedules, idle_threshold_seconds=1800)
    since = None if quiet is None else NOW - quiet
    look, gates = looking(PolicyHarness())
    seen = scene()
    seen.seen[make_ref()] = make_workload()
    found = look.look_at(policy, replace(make_state(phase), idle_since=since), seen)
    assert gates.asked == (["web"] if asked else [])
    assert (found.gate != NO_WHY) == asked


def test_what_is_gone_is_told_apart_from_what_could_not_be_read() -> None:
    refs = [make_ref(name) for name in ("up", "gone", "away", "unread")]
    policy = make_policy("web", *refs[:2])
    look, gates = looking(PolicyHarness(memory_workloads=MemoryWorkloads(make_workload("up"))))
    seen = scene()
    look.read_workloads(refs[:2], seen)
    found = look.look_at(policy, make_state(), seen)
    assert ([each.ref for each in found.workloads], found.missing, found.problem) == (
        [refs[0]],
        (refs[1],),
        "",
    )
    unread = look.look_at(make_policy("web", refs[3]), make_state(), seen)
    assert str(refs[3]) in unread.problem
    assert gates.asked == []


@pytest.mark.parametrize("threads", [1, 2, 3, 8])
def test_workloads_are_read_with_any_number_of_threads_and_each_once(threads: int) -> None:
    names = [f"w{number}" for number in range(5)]
    reads: list[str] = []

    class Counted(MemoryWorkloads):
        def read(self, ref: WorkloadRef) -> Workload:
            reads.append(ref.name)
            return super().read(ref)

    harness = PolicyHarness(memory_workloads=Counted(*map(make_workload, names)))
    harness.scaling = harness.runner(threads=threads)
    look, _ = looking(harness)
    seen = scene()
    look.read_workloads([make_ref(name) for name in [*names, *names]], seen)
    assert sorted(reads) == names
    assert [ref.name for ref in sorted(seen.seen, key=lambda ref: ref.name)] == names


class Asked:
    """Signals of one age, and the queries that they were asked for."""

    def __init__(self, at: int, value: float | None = 1.0) -> None:
        self.reading = Reading(value, at, "" if value is not None else "nobody knows")
        self.queries: list[Sequence[str]] = []

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        self.queries.append(queries)
        return [self.reading for _ in queries]


def test_each_query_is_asked_once_and_in_order_and_none_of_what_is_off() -> None:
    signals = Asked(NOW)
    harness = PolicyHarness()
    harness.scaling = harness.runner(signals=signals)
    look, _ = looking(harness)
    second = Signal(SignalKind.PROMQL_RATE, "a first")
    reported = Signal(SignalKind.REPORTED)
    rule = Rule("z last", Operator.GT, 1.0)
    one = make_policy("one", signals=(BY_QUERY, second, reported), rules=(rule,))
    look.look([one, make_policy("two")], [])
    assert signals.queries == [["a first", QUERY, "z last"]]
    look.look([replace(one, enabled=False)], [])
    assert len(signals.queries) == 1


@pytest.mark.parametrize(("age", "known"), [(0, True), (300, True), (301, False)])
def test_a_reading_is_fresh_up_to_and_including_its_limit(age: int, known: bool) -> None:
    harness = PolicyHarness()
    harness.scaling = harness.runner(signals=Asked(NOW - age))
    context = PolicyContext(
        harness.scaling.ports, harness.defaults, make_settings(metric_max_age_seconds=300)
    )
    found = Looking(context, Gates(context)).look([make_policy()], []).readings[QUERY]
    assert (found.value is not None) == known
    assert (found.problem == "") == known


def test_a_reading_that_was_not_known_keeps_its_own_reason_however_old() -> None:
    harness = PolicyHarness()
    harness.scaling = harness.runner(signals=Asked(NOW - 10_000, None))
    look, _ = looking(harness)
    assert look.look([make_policy()], []).readings[QUERY].problem == "nobody knows"


def test_a_gap_is_three_missed_rounds_and_at_least_what_ticks_may_be_apart() -> None:
    harness = PolicyHarness()
    for interval, expected in ((30, 600), (300, 900)):
        context = PolicyContext(
            harness.scaling.ports,
            ZeroDefaults(check_interval_seconds=interval),
            make_settings(max_tick_gap_seconds=600),
        )
        assert Looking(context, Gates(context)).look([make_policy()], []).gap_seconds == expected


@pytest.mark.parametrize("number", [PAGE - 1, PAGE, PAGE + 1])
def test_policies_of_all_pages_are_found(number: int) -> None:
    harness = PolicyHarness(())
    for each in range(number):
        harness.rows.put_policy(make_policy(f"p{each:05d}", make_ref(f"w{each}"), id=policy_id(each + 1)))
    context = PolicyContext(harness.scaling.ports, harness.defaults, make_settings())
    assert len(list(context.all_policies())) == number


def test_what_is_not_there_is_not_found() -> None:
    harness = PolicyHarness()
    context = PolicyContext(harness.scaling.ports, harness.defaults, make_settings())
    assert context.find(policy_id())[0].name == "web"
    with pytest.raises(NotFound):
        context.find(policy_id(9))
    assert "web" in context.note(make_policy(), "idle")


def test_each_wake_is_counted_once_by_any_path() -> None:
    harness = PolicyHarness()
    context = PolicyContext(harness.scaling.ports, harness.defaults, make_settings())
    waking = make_state(Phase.WAKING, wake_count=3)
    counts = []
    for state in (
        make_state(Phase.ZERO, wake_count=2),
        waking,
        waking,
        make_state(Phase.ACTIVE, wake_count=3),
        replace(waking, wake_count=4),
        replace(waking, policy_id=policy_id(2)),
    ):
        context.note_wakes([state])
        counts.append(context.wakes)
    assert counts == [0, 1, 1, 1, 2, 3]


TIMED = WakeTime(NOW - 60, 55.0, 40.0)


@pytest.mark.parametrize(
    ("phase", "last", "at", "seconds"),
    [
        (Phase.ACTIVE, TIMED, TIMED.at, 55.0),
        (Phase.WAKING, TIMED, TIMED.at, None),
        (Phase.ACTIVE, TIMED, TIMED.at + 1, None),
        (Phase.ACTIVE, None, TIMED.at, None),
    ],
)
def test_the_end_of_a_wake_says_what_it_took_and_no_other_step_does(
    phase: Phase, last: WakeTime | None, at: int, seconds: float | None
) -> None:
    why = PolicyWhy(PolicyCause.WOKEN, "woken", about="web", found=1.0, limit=2.0)
    state = make_state(
        phase, wakes=(last,) if last else (), last_wake_at=at, wake_count=3, wake_reason=WakeReason.WEBHOOK
    )
    assert step_of(make_policy(), state, LogKind.WAKE, why) == PolicyStep(
        "web",
        phase,
        "woken",
        cause=PolicyCause.WOKEN,
        about="web",
        found=1.0,
        limit=2.0,
        wake_reason=WakeReason.WEBHOOK,
        wake_id=wake_id(policy_id(), 3),
        seconds=seconds,
        node_seconds=40.0 if seconds else None,
    )
    assert step_of(make_policy(), state, LogKind.IDLE, NO_WHY) == PolicyStep("web", phase, "")


class OneEmptyNode:
    def read(self) -> ClusterView:
        return ClusterView((make_node("a1"),))


def test_what_is_up_has_no_part_in_the_room_that_sleepers_left() -> None:
    """Else savings would look larger the more there is that does not sleep."""
    harness = PolicyHarness()
    ports = replace(harness.scaling.ports, cluster=cast(Cluster, OneEmptyNode()))
    context = PolicyContext(ports, harness.defaults, make_settings())
    look = Looking(context, Gating(context)).look
    sleeper, busy = make_state(Phase.ZERO, rate=KNOWN), make_state(Phase.ACTIVE, rate=OWN)
    alone = look((), [sleeper]).shares
    assert 0 < alone["EUR"] < 1
    assert look((), [sleeper, busy]).shares == alone
