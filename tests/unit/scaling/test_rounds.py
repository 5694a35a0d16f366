"""One round over all policies: who comes first, who may run it, and what is reported of it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.engine.scale_to_zero.round import SENTENCES
from ebbtide.engine.scale_to_zero.scaling import LEAST_BUDGET_SECONDS, RoundReport, Scaling, guarded_round
from ebbtide.errors import Retryable
from ebbtide.model.idle import Phase, PolicyCause
from ebbtide.model.pod import WorkloadRef
from ebbtide.model.policy import Schedule, Signal, SignalKind, Target
from tests.builders import NOW, make_settings
from tests.policy_harness import (
    DEFAULTS,
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_workload,
    policy_id,
)


def harness_of(*names: str, **changes: Any) -> PolicyHarness:
    """One policy for each name, with a signal of its own that is quiet."""
    policies = tuple(
        make_policy(name, id=policy_id(number), signals=(Signal(SignalKind.PROMQL_RATE, name),), **changes)
        for number, name in enumerate(names, start=1)
    )
    workloads = MemoryWorkloads(*(make_workload(name) for name in names))
    return PolicyHarness(policies=policies, memory_workloads=workloads, values=dict.fromkeys(names, 0.0))


def last(harness: PolicyHarness) -> RoundReport:
    harness.clock.sleep(60)
    return harness.scaling.round("runner", harness.clock.now() + 60)


def test_wakes_come_before_what_goes_to_zero() -> None:
    """Else everybody who waits for a wake also waits for every drain of the round."""
    harness = harness_of("a", "z")
    harness.signals.values["a"] = 1.0
    for _ in range(100):
        last(harness)
        state = harness.rows.find_state(policy_id(2))
        assert state is not None
        if state.phase is Phase.ZERO:
            break
    harness.signals.values["a"] = 0.0
    harness.rounds(2100)
    assert harness.state.phase is Phase.IDLE
    harness.signals.values["z"] = 1.0
    harness.memory_workloads.calls.clear()
    report = last(harness)
    assert (report.fell, report.woke, report.scaled, report.left) == (1, 1, 0, 0)
    assert harness.memory_workloads.calls == [(make_ref("z"), 2), (make_ref("a"), 0)]
    assert report.policies == 2
    assert [line.partition(":")[0] for line in report.sentences] == ["z", "a"]


def test_the_lease_is_given_back_and_another_runner_continues_at_once() -> None:
    harness = harness_of("a")
    assert harness.scaling.round("one", harness.clock.now() + 60).held
    assert harness.runner().round("another", harness.clock.now() + 60).held


def test_a_report_says_the_first_sentences_and_has_all() -> None:
    names = [f"w{number:02d}" for number in range(SENTENCES + 5)]
    harness = harness_of(*names)
    report = last(harness)
    while not report.fell:
        report = last(harness)
    assert report.fell == len(report.sentences) == len(names)
    assert report.says.count(": ") == SENTENCES
    assert report.says.startswith(f"{len(names)} policies, {len(names)} ")


def test_only_signals_of_policies_that_may_sleep_are_asked_for_and_each_once() -> None:
    asked: list[list[str]] = []
    harness = harness_of("a", "b")
    second = harness.rows.find_policy(policy_id(2))
    assert second is not None
    harness.rows.put_policy(replace(second, enabled=False))
    harness.rows.put_policy(make_policy("c", id=policy_id(3), signals=(Signal(SignalKind.PROMQL_RATE, "a"),)))
    read = harness.signals.read_values

    def noted(queries: Any) -> Any:
        asked.append(list(queries))
        return read(queries)

    harness.signals.read_values = noted  # type: ignore[method-assign]
    last(harness)
    assert asked == [["a"]]


@pytest.mark.parametrize(("interval", "budget"), [(5, LEAST_BUDGET_SECONDS), (90, 90)])
def test_a_round_has_as_long_as_until_the_next_and_never_less_than_half_a_minute(
    interval: int, budget: float
) -> None:
    given: list[float] = []

    class Noted(Scaling):
        def round(self, owner: str, deadline: float) -> RoundReport:
            given.append(deadline - self.ports.clock.now())
            return super().round(owner, deadline)

    harness = harness_of("a")
    defaults = replace(DEFAULTS, check_interval_seconds=interval)
    scaling = Noted(harness.scaling.ports, defaults, make_settings())
    guarded_round(scaling, "runner")
    assert given == [budget]


def test_a_workload_that_cannot_be_read_keeps_its_policy_up_and_no_other() -> None:
    harness = harness_of("a", "b")
    read = harness.memory_workloads.read

    def broken(ref: WorkloadRef) -> Any:
        if ref == make_ref("a"):
            raise Retryable("the API server does not answer")
        return read(ref)

    harness.memory_workloads.read = broken  # type: ignore[method-assign]
    harness.rounds(7200)
    assert harness.state.phase is not Phase.ZERO
    assert harness.state.left_alone_cause is PolicyCause.UNREADABLE
    other = harness.rows.find_state(policy_id(2))
    assert other is not None
    assert other.phase is Phase.ZERO


def test_a_schedule_is_followed_each_time_it_comes_by_a_loop_that_stays() -> None:
    """The times of a schedule are kept between rounds, and found again once they are over."""
    by_the_hour = (Schedule("0 * * * *", replicas=0), Schedule("30 * * * *", wake=True))
    harness = harness_of("a", schedules=by_the_hour, created_at=NOW)
    harness.signals.values["a"] = 1.0
    harness.clock.move_to(NOW // 3600 * 3600 + 3600 + 60)
    phases = []
    for _ in range(6):
        harness.rounds(120)
        phases.append(harness.state.phase)
        harness.clock.sleep(1680)
    assert phases == [Phase.ZERO, Phase.ACTIVE] * 3


def test_a_round_that_is_longer_than_its_lease_renews_it_between_policies() -> None:
    harness = harness_of("a", "b", "c")
    harness.rounds(2100)
    harness.clock.sleep(60)
    for state in harness.rows.list_states():
        harness.rows.write_state(replace(state, checked_at=harness.now))
    harness.memory_workloads.before_scale = lambda seen, replicas: harness.clock.sleep(146)
    report = harness.scaling.round("runner", harness.clock.now() + 3600)
    assert (report.fell, report.left) == (3, 0)


def test_a_policy_of_a_pool_that_is_made_later_counts_from_the_next_round_on() -> None:
    harness = harness_of("a")
    settings = make_settings()
    assert harness.scaling.settings_now(settings) is settings
    made = harness.rows.put_policy(
        make_policy("nodes", target=Target(pool=settings.pools[0].name), id=policy_id(2))
    )
    state = harness.rows.find_state(made.id)
    assert state is not None
    harness.rows.write_state(replace(state, phase=Phase.ZERO, checked_at=harness.now))
    last(harness)
    assert harness.scaling.settings_now(settings).pools[0].may_be_empty
