"""Scaling as its users see it: rounds, wakes, activity, schedules, rules, and what is said of them."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.core.scale_to_zero.eta import Learned
from ebbtide.engine.scale_to_zero.scaling import guarded_round
from ebbtide.errors import NotFound, Retryable, Usage
from ebbtide.model.events import OperationKind, PartKind, Transition
from ebbtide.model.idle import NO_WHY, NodeFirst, NodeNeed, Phase, PolicyCause, WakeReason
from ebbtide.model.log import LogKind
from ebbtide.model.pod import Workload
from ebbtide.model.policy import (
    Operator,
    Policy,
    Rule,
    Schedule,
    Signal,
    SignalKind,
    Target,
    ZeroDefaults,
)
from ebbtide.model.snapshot import ClusterView
from ebbtide.narrate import entry_of
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import NOW, make_node, make_pod
from tests.policy_harness import (
    QUERY,
    MemoryWorkloads,
    PolicyHarness,
    make_policy,
    make_ref,
    make_workload,
    policy_id,
)

WEB = make_ref()


def harness_of(policy: Policy | None = None, **changes: Any) -> PolicyHarness:
    return PolicyHarness(policies=(policy or make_policy(),), **changes)


def wake(harness: PolicyHarness, reason: WakeReason = WakeReason.MANUAL) -> Any:
    return harness.scaling.wake(harness.policies[0].id, reason)


def test_an_idle_target_goes_to_zero_and_a_wake_restores_its_replicas() -> None:
    harness = harness_of(memory_workloads=MemoryWorkloads(make_workload(replicas=3)))
    harness.sleep()
    assert (harness.state.is_scaled_to_zero, harness.memory_workloads.read(WEB).replicas) == (True, 0)
    woken = wake(harness, WakeReason.WEBHOOK)
    assert (woken.status, woken.previous_replicas, woken.target_replicas) == ("waking", 0, 3)
    assert (woken.wake_reason, woken.message) == (WakeReason.WEBHOOK, "Wake initiated")
    assert harness.memory_workloads.read(WEB).replicas == 3
    harness.clock.sleep(20)
    harness.round()
    assert harness.phase() is Phase.ACTIVE
    assert harness.state.wakes[0].seconds == 20


def test_a_wake_of_what_runs_says_so_and_restarts_the_idle_clock() -> None:
    harness = harness_of()
    harness.rounds(1800)
    assert harness.phase() is Phase.IDLE
    woken = wake(harness)
    assert (woken.status, woken.previous_replicas, woken.target_replicas) == ("already_running", 2, 2)
    assert woken.ready
    assert (harness.state.phase, harness.state.wake_count, harness.memory_workloads.calls) == (
        Phase.ACTIVE,
        1,
        [],
    )
    harness.rounds(2100)
    assert harness.phase() is Phase.IDLE


def test_a_wake_brings_up_what_somebody_put_to_zero() -> None:
    harness = harness_of(make_policy(min_replicas=2))
    harness.memory_workloads.put(WEB, replicas=0, ready_replicas=0)
    harness.rounds(120)
    assert harness.state.left_alone_cause is PolicyCause.DOWN_BY_HAND
    assert wake(harness).target_replicas == 2
    assert harness.memory_workloads.read(WEB).replicas == 2


def test_what_a_person_scales_up_is_awake() -> None:
    harness = harness_of()
    harness.sleep()
    harness.memory_workloads.put(WEB, replicas=5, ready_replicas=5)
    harness.rounds(60)
    assert (harness.state.phase, harness.memory_workloads.read(WEB).replicas) == (Phase.ACTIVE, 5)
    assert any("somebody scaled" in said for said in harness.said())


def test_an_unknown_policy_is_not_found() -> None:
    harness = harness_of()
    for call in (
        lambda: harness.scaling.wake("gone", WakeReason.MANUAL),
        lambda: harness.scaling.wake_all([harness.policies[0].id, "gone"], WakeReason.MANUAL),
        lambda: harness.scaling.keep_up("gone", 60),
        lambda: harness.scaling.report_activity("gone"),
        lambda: harness.scaling.savings("gone", "", ""),
    ):
        with pytest.raises(NotFound):
            call()
    assert harness.state.wake_count == 0


def test_all_that_sleep_are_woken_or_exactly_those_named() -> None:
    names = ("a", "b", "c")
    policies = tuple(make_policy(name, id=policy_id(number)) for number, name in enumerate(names, start=1))
    harness = PolicyHarness(
        policies=policies, memory_workloads=MemoryWorkloads(*(make_workload(name) for name in names))
    )
    harness.sleep()
    assert [harness.memory_workloads.read(make_ref(name)).replicas for name in names] == [0, 0, 0]
    only = harness.scaling.wake_all([policies[1].id, policies[1].id], WakeReason.MANUAL)
    assert [woken.policy_id for woken in only] == [policies[1].id]
    assert harness.memory_workloads.read(make_ref("a")).replicas == 0
    rest = harness.runner(threads=4).wake_all(None, WakeReason.MANUAL)
    assert [woken.policy_id for woken in rest] == [policies[0].id, policies[2].id]
    assert harness.scaling.wake_all([], WakeReason.MANUAL) == []


def test_reported_activity_keeps_up_and_wakes() -> None:
    harness = harness_of(make_policy(signals=(Signal(SignalKind.REPORTED),)))
    for _ in range(100):
        harness.clock.sleep(60)
        harness.scaling.report_activity(harness.policies[0].id)
        harness.round()
    assert (harness.state.phase, harness.state.last_activity_at) == (Phase.ACTIVE, harness.now)
    harness.sleep()
    harness.clock.sleep(600)
    assert harness.scaling.report_activity(harness.policies[0].id).phase is Phase.WAKING
    assert harness.state.wake_reason is WakeReason.API_REQUEST


def test_activity_ends_idleness_from_when_it_was() -> None:
    harness = harness_of()
    harness.rounds(1200)
    idle_since = harness.state.idle_since
    assert idle_since is not None
    harness.scaling.report_activity(harness.policies[0].id, at=idle_since - 60)
    assert harness.phase() is Phase.IDLE
    harness.scaling.report_activity(harness.policies[0].id, at=harness.now - 300)
    assert (harness.state.phase, harness.state.last_activity_at) == (Phase.ACTIVE, harness.now - 300)
    day = harness.scaling.savings(harness.policies[0].id, "", "").total
    assert day.idle_seconds == harness.now - 300 - idle_since


def test_activity_from_before_the_sleep_does_not_wake() -> None:
    harness = harness_of()
    harness.sleep()
    assert harness.state.idle_since is not None
    before = harness.scaling.report_activity(harness.policies[0].id, at=harness.state.idle_since - 1)
    assert before.phase is Phase.ZERO
    late = harness.scaling.report_activity(harness.policies[0].id, at=harness.now - 100)
    assert late.phase is Phase.WAKING


def test_no_activity_and_activity_that_continues_write_nothing() -> None:
    harness = harness_of()
    harness.scaling.report_activity(harness.policies[0].id)
    rev = harness.state.rev
    harness.clock.sleep(9)
    harness.scaling.report_activity(harness.policies[0].id)
    harness.scaling.report_activity(harness.policies[0].id, count=0)
    assert harness.state.rev == rev


def test_impossible_activity_is_refused_and_changes_nothing() -> None:
    harness = harness_of()
    before = harness.state
    with pytest.raises(Usage, match="60 s in the future"):
        harness.scaling.report_activity(harness.policies[0].id, at=harness.now + 60)
    with pytest.raises(Usage, match="cannot have happened"):
        harness.scaling.report_activity(harness.policies[0].id, count=-1)
    with pytest.raises(Usage, match="not a valid duration"):
        harness.scaling.keep_up(harness.policies[0].id, -1)
    assert harness.state == before
    assert (
        harness.scaling.report_activity(harness.policies[0].id, at=harness.now + 5).last_activity_at
        == harness.now
    )


def test_what_is_kept_up_does_not_sleep_until_then_and_is_woken() -> None:
    harness = harness_of()
    harness.scaling.keep_up(harness.policies[0].id, 3 * 3600)
    harness.rounds(3 * 3600 - 60)
    assert harness.phase() is Phase.IDLE
    assert harness.state.left_alone_cause is PolicyCause.KEPT_UP
    assert harness.causes().count(PolicyCause.KEPT_UP) == 2, "when it was asked for, and once it was idle"
    harness.rounds(120)
    assert harness.phase() is Phase.ZERO
    assert harness.scaling.keep_up(harness.policies[0].id, 60).phase is Phase.WAKING
    assert harness.scaling.keep_up(harness.policies[0].id, 0).keep_up_until == 0


def test_a_paused_policy_is_left_as_it_is_and_can_be_woken() -> None:
    harness = harness_of()
    harness.scaling.pause(harness.policies[0].id, True)
    rev = harness.scaling.pause(harness.policies[0].id, True).rev
    assert rev == harness.state.rev
    harness.rounds(7200)
    assert (harness.state.phase, harness.state.left_alone_cause) == (Phase.IDLE, PolicyCause.PAUSED)
    harness.scaling.pause(harness.policies[0].id, False)
    harness.rounds(60)
    assert harness.phase() is Phase.ZERO
    harness.scaling.pause(harness.policies[0].id, True)
    assert wake(harness).status == "waking"


def test_the_switch_that_pauses_removals_holds_sleep_too() -> None:
    harness = harness_of()
    harness.store.write(replace(harness.store.load(), paused=True, pause_reason="release day"), None)
    harness.rounds(7200)
    assert harness.state.left_alone_cause is PolicyCause.REMOVALS_PAUSED


def test_an_autoscaler_is_left_alone() -> None:
    harness = harness_of(memory_workloads=MemoryWorkloads(make_workload(autoscaler="web-hpa")))
    harness.rounds(7200)
    assert (harness.state.phase, harness.memory_workloads.calls) == (Phase.IDLE, [])
    assert harness.state.left_alone_cause is PolicyCause.AUTOSCALER


def test_activity_that_a_signal_shows_wakes_what_idleness_put_to_sleep() -> None:
    harness = harness_of()
    harness.sleep()
    harness.signals.values[QUERY] = 2.0
    harness.rounds(60)
    assert (harness.state.phase, harness.memory_workloads.read(WEB).replicas) == (Phase.WAKING, 2)


# Schedules

NIGHT = Schedule("0 20 * * *", replicas=0)
MORNING = Schedule("0 8 * * *", replicas=3)


def at(harness: PolicyHarness, hour: int, minute: int = 0) -> None:
    """Let time pass until that time of the day, with rounds."""
    while True:
        harness.clock.sleep(60)
        harness.round()
        if (harness.now // 3600) % 24 == hour and (harness.now // 60) % 60 == minute:
            return


def test_schedules_put_to_sleep_and_wake_whatever_the_activity() -> None:
    harness = harness_of(make_policy(created_at=NOW, schedules=(NIGHT, MORNING)), values={QUERY: 9.0})
    at(harness, 20, 1)
    assert (harness.state.phase, harness.state.idle_since) == (Phase.ZERO, None)
    at(harness, 7)
    assert harness.phase() is Phase.ZERO
    at(harness, 8, 2)
    assert (harness.state.phase, harness.memory_workloads.read(WEB).replicas) == (Phase.ACTIVE, 3)
    assert harness.state.wake_reason is WakeReason.SCHEDULED


def test_a_schedule_is_answered_once_also_by_another_runner() -> None:
    harness = harness_of(make_policy(created_at=NOW, schedules=(MORNING,)), values={QUERY: 9.0})
    at(harness, 8, 1)
    assert harness.memory_workloads.calls == [(WEB, 3)]
    harness.memory_workloads.put(WEB, replicas=4, ready_replicas=4)
    harness.clock.sleep(60)
    harness.round(harness.runner(), "another")
    assert harness.memory_workloads.calls == [(WEB, 3)]


def test_of_the_schedules_missed_while_nobody_ran_only_the_latest_counts() -> None:
    harness = harness_of(make_policy(created_at=NOW, schedules=(NIGHT, MORNING)), values={QUERY: 9.0})
    at(harness, 12)
    harness.clock.sleep(3 * 86_400)
    harness.round()
    assert harness.memory_workloads.calls == [(WEB, 3)]


def test_a_schedule_waits_for_a_pause_and_for_what_is_kept_up() -> None:
    harness = harness_of(make_policy(created_at=NOW, schedules=(NIGHT,)), values={QUERY: 9.0})
    harness.scaling.keep_up(harness.policies[0].id, 86_400)
    at(harness, 21)
    assert harness.phase() is Phase.ACTIVE
    harness.scaling.pause(harness.policies[0].id, True)
    harness.scaling.keep_up(harness.policies[0].id, 0)
    harness.rounds(120)
    assert harness.phase() is Phase.ACTIVE
    harness.scaling.pause(harness.policies[0].id, False)
    harness.rounds(60)
    assert harness.phase() is Phase.ZERO


@pytest.mark.parametrize(
    ("policy", "workload", "says"),
    [
        (
            make_policy(created_at=NOW, schedules=(NIGHT,)),
            make_workload(autoscaler="hpa"),
            "left alone, HorizontalPodAutoscaler",
        ),
    ],
)
def test_a_schedule_that_may_not_be_followed_is_answered_with_the_reason(
    policy: Policy, workload: Workload, says: str
) -> None:
    harness = harness_of(policy, memory_workloads=MemoryWorkloads(workload), values={QUERY: 9.0})
    at(harness, 20, 2)
    assert harness.memory_workloads.calls == []
    assert sum(says in said for said in harness.said()) == 1


def test_a_schedule_of_sleep_for_a_sleeper_makes_it_sleep_through_activity() -> None:
    harness = harness_of(make_policy(created_at=NOW, schedules=(NIGHT,)))
    at(harness, 20)
    assert (harness.state.phase, harness.state.idle_since) == (Phase.ZERO, None)
    harness.signals.values[QUERY] = 2.0
    harness.rounds(600)
    assert harness.phase() is Phase.ZERO


def test_a_schedule_for_a_cluster_that_does_not_answer_stays_due() -> None:
    class Away(MemoryWorkloads):
        away = True

        def read(self, ref: Any) -> Workload:
            if self.away:
                raise Retryable("the API server does not answer")
            return super().read(ref)

    memory_workloads = Away(make_workload())
    harness = harness_of(
        make_policy(created_at=NOW, schedules=(MORNING,)),
        memory_workloads=memory_workloads,
        values={QUERY: 9.0},
    )
    at(harness, 8, 5)
    assert memory_workloads.calls == []
    memory_workloads.away = False
    harness.rounds(60)
    assert memory_workloads.calls == [(WEB, 3)]


def test_a_policy_with_schedules_alone_sleeps_at_night_and_never_while_in_use() -> None:
    night_only = make_policy(
        created_at=NOW, scale_to_zero=False, signals=(), schedules=(NIGHT, replace(MORNING, wake=True))
    )
    harness = harness_of(night_only, memory_workloads=MemoryWorkloads(make_workload(replicas=4)))
    at(harness, 19, 59)
    assert (harness.state.phase, harness.memory_workloads.calls) == (Phase.ACTIVE, [])
    at(harness, 20, 1)
    assert (harness.state.phase, harness.memory_workloads.read(WEB).replicas) == (Phase.ZERO, 0)
    at(harness, 7)
    assert harness.phase() is Phase.ZERO
    at(harness, 8, 2)
    assert (harness.state.phase, harness.memory_workloads.read(WEB).replicas) == (Phase.ACTIVE, 4)
    at(harness, 19, 59)
    assert harness.memory_workloads.read(WEB).replicas == 4


def test_a_policy_without_signals_is_never_idle_and_says_so() -> None:
    harness = harness_of(make_policy(signals=()))
    harness.rounds(7200)
    assert (harness.state.phase, harness.memory_workloads.calls) == (Phase.ACTIVE, [])


def test_what_sleeps_is_woken_when_nothing_would_notice_its_use_any_more() -> None:
    harness = harness_of()
    harness.sleep()
    (policy,) = harness.rows.list_policies()
    harness.rows.put_policy(replace(policy, signals=()))
    harness.clock.sleep(60)
    harness.round()
    assert (harness.state.phase, harness.memory_workloads.read(WEB).replicas) == (Phase.WAKING, 2)


def test_a_schedule_that_wakes_restores_what_each_workload_of_a_group_had() -> None:
    refs = (make_ref("web"), make_ref("db"))
    group = make_policy(
        "shop", *refs, created_at=NOW, signals=(), schedules=(NIGHT, replace(MORNING, wake=True))
    )
    harness = harness_of(
        group, memory_workloads=MemoryWorkloads(make_workload("web", 3), make_workload("db", 1))
    )
    at(harness, 20, 1)
    assert harness.phase() is Phase.ZERO
    at(harness, 8, 2)
    assert [harness.memory_workloads.read(ref).replicas for ref in refs] == [3, 1]
    at(harness, 12)
    harness.memory_workloads.put(refs[0], replicas=5, ready_replicas=5)
    at(harness, 8, 2)
    assert [harness.memory_workloads.read(ref).replicas for ref in refs] == [5, 1]


def test_a_number_that_an_older_version_took_for_a_group_restores_what_each_had() -> None:
    refs = (make_ref("web"), make_ref("db"))
    group = make_policy("shop", *refs, created_at=NOW, signals=(), schedules=(MORNING,))
    harness = harness_of(
        group, memory_workloads=MemoryWorkloads(make_workload("web", 5), make_workload("db", 1))
    )
    at(harness, 8, 2)
    assert [harness.memory_workloads.read(ref).replicas for ref in refs] == [5, 1]


def test_a_schedule_brings_up_what_somebody_put_to_zero() -> None:
    harness = harness_of(make_policy(created_at=NOW, schedules=(MORNING,)), values={QUERY: 9.0})
    harness.memory_workloads.put(WEB, replicas=0, ready_replicas=0)
    at(harness, 8, 2)
    assert (harness.memory_workloads.calls, harness.state.wake_reason) == ([(WEB, 3)], WakeReason.SCHEDULED)


def test_a_schedule_to_sleep_waits_for_a_wake_and_the_wake_ends() -> None:
    """It once kept the round from seeing that the wake was over, and waited forever."""
    harness = harness_of(make_policy(created_at=NOW, schedules=(NIGHT,)), values={QUERY: 9.0})
    at(harness, 19, 59)
    harness.memory_workloads.put(WEB, replicas=0, ready_replicas=0)
    harness.memory_workloads.slow = True
    wake(harness)
    at(harness, 20, 5)
    assert harness.phase() is Phase.WAKING
    harness.memory_workloads.put(WEB, ready_replicas=2)
    harness.rounds(180)
    assert harness.phase() is Phase.ZERO


def test_a_schedule_stays_within_the_hourly_cost_and_says_so() -> None:
    policy = make_policy(
        created_at=NOW,
        schedules=(MORNING,),
        max_hourly_cost=Decimal("0.02"),
        hourly_cost=Decimal("0.02"),
    )
    harness = harness_of(policy, values={QUERY: 9.0})
    at(harness, 8, 2)
    assert harness.memory_workloads.calls == []
    assert PolicyCause.TOO_EXPENSIVE in harness.causes()


def test_a_wake_restores_every_member_of_a_group_that_is_half_awake() -> None:
    refs = (make_ref("web"), make_ref("db"))
    harness = harness_of(
        make_policy("shop", *refs),
        memory_workloads=MemoryWorkloads(make_workload("web", 3), make_workload("db", 2)),
    )
    harness.sleep()
    harness.memory_workloads.put(refs[0], replicas=3, ready_replicas=3)
    harness.rounds(60)
    assert (harness.state.phase, harness.memory_workloads.read(refs[1]).replicas) == (Phase.ACTIVE, 0)
    woken = wake(harness)
    assert (woken.status, harness.state.phase) == ("waking", Phase.WAKING)
    assert [harness.memory_workloads.read(ref).replicas for ref in refs] == [3, 2]


# Rules

UP = Rule("queue", Operator.GT, 10, duration_seconds=120, scale_by=2)


def test_a_rule_scales_once_it_has_held_and_then_cools_down() -> None:
    harness = harness_of(make_policy(rules=(UP,)), values={QUERY: 9.0, "queue": 50.0})
    harness.rounds(120)
    assert harness.memory_workloads.calls == []
    harness.rounds(60)
    assert harness.memory_workloads.calls == [(WEB, 4)]
    harness.rounds(240)
    assert harness.memory_workloads.calls == [(WEB, 4)]
    harness.rounds(120)
    assert harness.memory_workloads.calls == [(WEB, 4), (WEB, 6)]


def test_a_rule_is_written_before_it_scales() -> None:
    """Were it the other way round, a runner that dies in between would let the rule fire again."""
    harness = harness_of(make_policy(rules=(UP,)), values={QUERY: 9.0, "queue": 50.0})
    written: list[int | None] = []
    harness.memory_workloads.before_scale = lambda *_: written.append(harness.state.last_scaled_at)
    harness.rounds(180)
    assert harness.memory_workloads.calls == [(WEB, 4)]
    assert written == [harness.now]


def test_what_a_rule_has_held_outlives_the_runner() -> None:
    harness = harness_of(make_policy(rules=(UP,)), values={QUERY: 9.0, "queue": 50.0})
    harness.rounds(60)
    for number in range(2):
        harness.clock.sleep(60)
        harness.round(harness.runner(), f"runner {number}")
    assert harness.memory_workloads.calls == [(WEB, 4)]


def test_a_rule_whose_metric_is_unknown_does_nothing() -> None:
    harness = harness_of(make_policy(rules=(UP,)), values={QUERY: 9.0})
    harness.rounds(600)
    assert harness.memory_workloads.calls == []


def test_a_rule_that_meets_a_person_who_scales_leaves_it_alone() -> None:
    harness = harness_of(make_policy(rules=(UP,)), values={QUERY: 9.0, "queue": 50.0})
    harness.memory_workloads.before_scale = lambda seen, replicas: harness.memory_workloads.put(
        WEB, replicas=7
    )  # type: ignore[assignment]
    harness.rounds(180)
    assert (harness.memory_workloads.calls, harness.memory_workloads.read(WEB).replicas) == ([], 7)


def test_a_rule_that_may_not_move_says_why_once() -> None:
    harness = harness_of(
        make_policy(rules=(UP,), max_replicas=10),
        memory_workloads=MemoryWorkloads(make_workload(replicas=15)),
        values={QUERY: 9.0, "queue": 50.0},
    )
    harness.rounds(900)
    assert harness.memory_workloads.calls == []
    assert harness.causes().count(PolicyCause.BOUND) == 1
    assert harness.state.rule_held_cause is PolicyCause.BOUND
    harness.signals.values["queue"] = 1.0
    harness.rounds(60)
    assert harness.state.why_rule_held == NO_WHY


def test_the_idle_time_before_a_rule_moved_is_in_the_ledger() -> None:
    harness = harness_of(
        make_policy(rules=(UP,), idle_threshold_seconds=86_400), values={QUERY: 0.0, "queue": 1.0}
    )
    harness.rounds(600)
    harness.signals.values |= {QUERY: 9.0, "queue": 50.0}
    harness.rounds(300)
    assert harness.memory_workloads.calls == [(WEB, 4)]
    assert harness.scaling.savings(harness.policies[0].id, "", "").total.idle_seconds == 600


def test_the_cap_binds_however_often_a_rule_fires() -> None:
    policy = make_policy(
        rules=(UP,), max_hourly_cost=Decimal("0.06"), hourly_cost=Decimal("0.02"), cooldown_seconds=0
    )
    harness = harness_of(policy, values={QUERY: 9.0, "queue": 50.0})
    harness.rounds(3600)
    assert harness.memory_workloads.calls == [(WEB, 4), (WEB, 6)]


# Rounds


def test_a_second_runner_stands_by() -> None:
    harness = harness_of()
    harness.store.acquire("policies", "somebody", 300)
    report = harness.scaling.round("runner", harness.clock.now() + 60)
    assert (report.held, report.policies) == (False, 0)


def test_without_policies_a_round_says_so() -> None:
    assert PolicyHarness(policies=()).round() == "no policies"


def test_what_does_not_fit_into_the_time_is_left_to_the_next_round() -> None:
    harness = harness_of()
    harness.rounds(2100)
    harness.clock.sleep(60)
    report = harness.scaling.round("runner", harness.clock.now())
    assert (report.left, report.fell, harness.state.phase) == (1, 0, Phase.IDLE)
    assert harness.scaling.round("runner", harness.clock.now() + 60).fell == 1


def test_an_unknown_signal_is_counted_and_said() -> None:
    harness = harness_of(values={})
    harness.clock.sleep(60)
    report = harness.scaling.round("runner", harness.clock.now() + 60)
    assert (report.policies, report.unknown) == (1, 1)


def test_an_old_reading_is_no_reading() -> None:
    harness = harness_of()
    stopped = VirtualClock(NOW)
    harness.signals.clock = stopped
    harness.rounds(7200)
    assert harness.phase() is Phase.ACTIVE
    assert harness.state.left_alone_cause is PolicyCause.SIGNAL_UNKNOWN


def test_a_quiet_round_writes_nothing() -> None:
    harness = harness_of()
    harness.rounds(600)
    rev = harness.state.rev
    harness.rounds(120)
    assert harness.state.rev == rev


def test_a_workload_that_changes_while_it_is_to_fall_is_looked_at_again() -> None:
    harness = harness_of()
    times = iter([5, 0])

    def meddle(seen: Workload, replicas: int) -> None:
        if changed := next(times, 0):
            harness.memory_workloads.put(WEB, replicas=changed, ready_replicas=changed)

    harness.memory_workloads.before_scale = meddle
    harness.sleep()
    assert harness.state.remembered[0].replicas == 5


def test_a_round_with_many_threads_does_the_same() -> None:
    names = [f"w{number}" for number in range(20)]
    policies = tuple(make_policy(name, id=policy_id(number)) for number, name in enumerate(names, start=1))
    harness = PolicyHarness(
        policies=policies, memory_workloads=MemoryWorkloads(*(make_workload(name) for name in names))
    )
    harness.scaling = harness.runner(threads=4)
    harness.sleep()
    assert {each.replicas for each in harness.memory_workloads.there.values()} == {0}
    assert len(harness.memory_workloads.calls) == 20


def test_a_round_that_fails_is_an_alarm_and_not_an_end() -> None:
    class Broken:
        def read_values(self, queries: Any) -> Any:
            raise RuntimeError("a bug")

    harness = harness_of()
    report = guarded_round(harness.runner(signals=Broken()), "runner")
    assert (report.held, "RuntimeError: a bug" in report.says) == (False, True)
    assert harness.notifier.entries[-1].kind is LogKind.ALARM

    class Shut:
        def read_values(self, queries: Any) -> Any:
            raise Retryable("not now")

    assert "failed: not now" in guarded_round(harness.runner(signals=Shut()), "runner").says


# Wakes and nodes


def test_a_wake_that_the_cluster_does_not_take_is_recorded_and_made_again() -> None:
    harness = harness_of()
    harness.sleep()

    def away(seen: Workload, replicas: int) -> None:
        raise Retryable("the API server does not answer")

    harness.memory_workloads.before_scale = away
    woken = wake(harness)
    assert woken.status == "waking"
    assert "the next round carries it out: the API server does not answer" in woken.message
    harness.memory_workloads.before_scale = lambda seen, replicas: None
    harness.rounds(60)
    assert harness.memory_workloads.read(WEB).replicas == 2


def test_a_wake_of_a_target_that_is_gone_says_so() -> None:
    harness = harness_of()
    harness.sleep()
    del harness.memory_workloads.there[WEB]
    assert wake(harness).message == "Wake initiated; there is no Deployment default/web"


def test_a_wake_says_whether_it_needs_a_node() -> None:
    class Seen:
        view = ClusterView((make_node("a1"),), (make_pod("other", 3900, 100, node_name="a1"),))

        def read(self) -> ClusterView:
            return self.view

    harness = harness_of()
    harness.sleep()
    harness.put(wakes=())
    harness.scaling = harness.runner(cluster=Seen())
    harness.rounds(60)
    assert wake(harness).node_wait is True


def test_the_estimate_is_learned() -> None:
    harness = harness_of()
    assert harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL).estimated_ready_seconds == 0
    harness.sleep()
    assert wake(harness).estimated_ready_seconds == 30
    harness.clock.sleep(12)
    harness.round()
    harness.sleep()
    assert wake(harness).estimated_ready_seconds == 12


def test_a_pool_sleeps_and_wakes_by_its_minimum_alone() -> None:
    harness = harness_of(
        make_policy(target=Target(pool="workers"), min_replicas=2), memory_workloads=MemoryWorkloads()
    )
    settings = harness.scaling.settings_now(make_settings_of_pool())
    assert settings.pools[0].min_workers == 2
    harness.sleep()
    asleep = harness.scaling.settings_now(make_settings_of_pool())
    assert (asleep.pools[0].min_workers, asleep.min_workers) == (0, 0)
    woken = wake(harness)
    assert (woken.status, woken.target_replicas) == ("waking", 2)
    waking = harness.scaling.settings_now(make_settings_of_pool())
    assert (waking.pools[0].min_workers, waking.pools[0].waking) == (2, True)


def make_settings_of_pool() -> Any:
    from tests.builders import make_settings

    return make_settings()


def test_settings_are_as_configured_where_policies_cannot_be_read() -> None:
    harness = harness_of()

    class Away:
        def list_policies(self, after: str = "", limit: int = 100) -> Any:
            raise Retryable("the store is away")

    settings = make_settings_of_pool()
    assert harness.runner(policies=Away()).settings_now(settings) is settings


# Ledger


def test_without_cost_tracking_no_ledger_is_kept() -> None:
    harness = harness_of(defaults=ZeroDefaults(cost_tracking=False))
    harness.sleep()
    harness.rounds(3600)
    assert harness.scaling.savings(harness.policies[0].id, "", "").days == ()
    assert harness.scaling.summary("", "").policies == ()


def test_savings_grow_while_it_sleeps_and_sums_agree() -> None:
    names = ("a", "b")
    policies = tuple(
        make_policy(name, id=policy_id(number), hourly_cost=Decimal("0.36"))
        for number, name in enumerate(names, start=1)
    )
    harness = PolicyHarness(
        policies=policies, memory_workloads=MemoryWorkloads(*(make_workload(name) for name in names))
    )
    harness.sleep()
    harness.rounds(3600)
    before = harness.scaling.savings(policies[0].id, "", "").total
    assert before.scaled_to_zero_seconds == 3600
    assert before.money[0].potential == Decimal("0.3600")
    harness.rounds(7200)
    summary = harness.scaling.summary("", "")
    assert [one.policy_id for one in summary.policies] == [policy.id for policy in policies]
    for name in ("idle_seconds", "scaled_to_zero_seconds"):
        assert getattr(summary.total.total, name) == sum(getattr(one.total, name) for one in summary.policies)
    assert summary.total.total.money[0].potential == Decimal("2.1600")


def test_a_deleted_policy_leaves_its_ledger() -> None:
    harness = harness_of()
    harness.sleep()
    harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    policy = harness.rows.find_policy(harness.policies[0].id)
    assert policy is not None
    harness.rows.delete_policy(policy.id, policy.version)
    assert harness.scaling.savings(policy.id, "", "").total.idle_seconds > 0
    (rebuilt,) = harness.scaling.rebuild()
    assert (rebuilt.policy_id, rebuilt.changed) == (policy.id, False)


def test_a_ledger_that_was_spoilt_is_rebuilt_to_the_same_numbers() -> None:
    harness = harness_of()
    harness.sleep()
    harness.rounds(3 * 86_400, every=240)
    wake(harness)
    before = harness.rows.list_days()
    assert len(before) >= 4
    harness.rows.replace_days(harness.policies[0].id, before[:1])
    (rebuilt,) = harness.scaling.rebuild(harness.policies[0].id)
    assert rebuilt.changed
    assert harness.rows.list_days() == before


class Nodes:
    """A cluster whose nodes the test sets."""

    def __init__(self, view: ClusterView) -> None:
        self.view = view

    def read(self) -> ClusterView:
        return self.view


def test_a_sleeper_is_known_to_need_a_node_by_those_who_see_no_nodes() -> None:
    """A gate has the store alone; whether a node must come first is in the state, and changes with the
    nodes."""
    full = ClusterView((make_node("a1"),), (make_pod("other", 3900, 100, node_name="a1"),))
    harness = harness_of()
    nodes = Nodes(full)
    harness.scaling = harness.runner(cluster=nodes)
    harness.sleep()
    assert first_of(harness) is None
    harness.rounds(60)
    assert first_of(harness) == NodeFirst(NodeNeed.LAUNCH, "workers")
    append_launch(harness, (0, "LAUNCHING"), (3, "LAUNCHED"), (40, "JOINED"), (50, "READY"))
    blind = harness.runner()
    estimate = blind.eta(harness.policies[0].id)
    assert (estimate.seconds, estimate.node and estimate.node.learned) == (30 + 50, Learned.POOL)
    nodes.view = ClusterView((make_node("a1"),))
    harness.rounds(60)
    assert first_of(harness) == NodeFirst(NodeNeed.NONE)
    assert blind.eta(harness.policies[0].id).seconds == 30


def first_of(harness: PolicyHarness) -> NodeFirst | None:
    """Asked again each time, as far as the type checker knows, too."""
    return harness.state.node_first


def append_launch(harness: PolicyHarness, *steps: tuple[int, str]) -> None:
    fact = Transition("op", OperationKind.SCALE_UP, PartKind.LAUNCH, "n", "", "", pool="workers", key="k-0")
    entries = [(harness.now + at, replace(fact, after=after)) for at, after in steps]
    harness.store.append([entry_of(f"zz-{at}", at, each, "op") for at, each in entries])


def test_what_is_left_of_a_wake_is_told_and_forgotten_when_it_is_over() -> None:
    harness = harness_of()
    harness.sleep()
    harness.memory_workloads.slow = True
    harness.put(node_first=NodeFirst(NodeNeed.LAUNCH, "workers"))
    assert wake(harness).estimated_ready_seconds == 150
    harness.clock.sleep(50)
    assert wake(harness).estimated_ready_seconds == 100
    assert harness.scaling.arrive(harness.policies[0].id) == 100
    (known,) = harness.scaling.etas().values()
    assert (known.seconds, known.node is not None) == (100, True)
    harness.clock.sleep(101)
    assert harness.scaling.eta_of(harness.state).late
    assert 0 < harness.scaling.arrive(harness.policies[0].id) < 1, "not over, and no new promise"
    harness.memory_workloads.put(WEB, ready_replicas=2)
    harness.round()
    assert (harness.phase(), harness.state.node_first) == (Phase.ACTIVE, None)
    assert harness.scaling.etas() == {}
    assert harness.scaling.arrive(harness.policies[0].id) == 0


def test_an_estimate_continues_with_what_it_knew_where_the_log_cannot_be_read() -> None:
    harness = harness_of()
    harness.sleep()
    harness.put(node_first=NodeFirst(NodeNeed.LAUNCH, "workers"))
    append_launch(harness, (0, "LAUNCHED"), (50, "READY"))
    store = Unreadable(harness.store)
    scaling = harness.runner(store=store)
    assert scaling.eta_of(harness.state).seconds == 80
    store.broken = True
    harness.clock.sleep(3600)
    assert scaling.eta_of(harness.state).seconds == 80


class Unreadable:
    """A store whose log cannot be read while it is broken."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.broken = False

    def read_log(self, *args: Any, **more: Any) -> Any:
        if self.broken:
            raise Retryable("no answer")
        return self._store.read_log(*args, **more)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)
