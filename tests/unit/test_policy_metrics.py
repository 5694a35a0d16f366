"""Metrics of policies, wakes and consolidations: under their names, with labels that stay few."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal

import pytest

from ebbtide.adapters.metrics_export.metrics import MetricsRegistry
from ebbtide.adapters.metrics_export.states import FRESH_SECONDS, PolicyStates
from ebbtide.bootstrap.parts import watched
from ebbtide.config.document import Read
from ebbtide.config.load import build_config
from ebbtide.errors import Retryable
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport, NodeAnalysis
from ebbtide.model.decision import Action, Decision
from ebbtide.model.idle import IdleState, WakeReason
from ebbtide.model.operation import (
    AbortCause,
    Consolidate,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Spot,
    SpotKind,
)
from ebbtide.model.settings import Settings
from tests.builders import make_removal
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_policy, make_workload, policy_id
from tests.unit.engine.builders import Small

IDLE = "philotes_scaling_idle_duration_seconds"
USED = "philotes_scaling_last_activity_timestamp"
ZERO = "philotes_scaling_is_scaled_to_zero"


class Watched:
    def __init__(self, harness: PolicyHarness) -> None:
        self.harness = harness
        self.metrics = MetricsRegistry(harness.clock.now)
        self.metrics.policies.follow("cluster", harness.rows)

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"cluster": "cluster", **labels})


def test_idleness_activity_and_sleep_have_metrics_under_the_names_of_the_design() -> None:
    harness = PolicyHarness()
    seen = Watched(harness)
    assert (seen.value(IDLE, policy="web"), seen.value(ZERO, policy="web")) == (0, 0)
    harness.rounds(1800)
    idle_since = harness.state.idle_since
    assert idle_since is not None
    assert seen.value(IDLE, policy="web") == harness.now - idle_since
    assert seen.value(USED, policy="web") == harness.state.last_activity_at
    harness.sleep()
    harness.clock.sleep(FRESH_SECONDS)
    assert seen.value(ZERO, policy="web") == 1
    harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    harness.clock.sleep(FRESH_SECONDS)
    assert (seen.value(IDLE, policy="web"), seen.value(ZERO, policy="web")) == (0, 0)


def test_more_policies_than_labels_are_said_to_be_more() -> None:
    names = ("a", "b", "c")
    policies = tuple(make_policy(name, id=policy_id(number)) for number, name in enumerate(names, start=1))
    harness = PolicyHarness(
        policies=policies, memory_workloads=MemoryWorkloads(*(make_workload(name) for name in names))
    )
    states = PolicyStates(harness.clock.now, most=2)
    states.follow("cluster", harness.rows)
    found = {family.name: family.samples for family in states.collect()}
    assert [sample.labels["policy"] for sample in found[ZERO]] == ["a", "b"]
    assert [sample.value for sample in found["ebbtide_policies_unlisted"]] == [1]


def test_policies_that_cannot_be_read_have_no_metrics_rather_than_old_ones() -> None:
    class Broken:
        def __init__(self, harness: PolicyHarness) -> None:
            self._rows = harness.rows
            self.broken = False

        def list_states(self) -> Sequence[IdleState]:
            if self.broken:
                raise Retryable("the store does not answer")
            return self._rows.list_states()

        def __getattr__(self, name: str) -> object:
            return getattr(self._rows, name)

    harness = PolicyHarness()
    rows = Broken(harness)
    seen = Watched(harness)
    seen.metrics.policies.follow("cluster", rows)  # type: ignore[arg-type]  # all that is asked of it
    assert seen.value(ZERO, policy="web") == 0
    rows.broken = True
    assert seen.value(ZERO, policy="web") == 0
    harness.clock.sleep(FRESH_SECONDS)
    assert seen.value(ZERO, policy="web") is None


def test_wakes_are_counted_by_reason_and_timed() -> None:
    harness = PolicyHarness()
    seen = Watched(harness)
    notifier = seen.metrics.wakes.counting("cluster", harness.notifier)
    harness.scaling = harness.runner(notifier=notifier)
    harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    harness.sleep()
    harness.scaling.wake(harness.policies[0].id, WakeReason.WEBHOOK)
    harness.clock.sleep(20)
    harness.round()
    assert seen.value("ebbtide_wakes_total", reason="webhook") == 1
    assert seen.value("ebbtide_wakes_total", reason="manual") is None
    assert seen.value("ebbtide_wake_seconds_count") == 1
    assert seen.value("ebbtide_wake_seconds_sum") == 20


def test_consolidations_are_counted_with_what_they_save_and_why_they_fail() -> None:
    metrics = MetricsRegistry()
    observer = metrics.of(Settings())
    done = Consolidate("op-1", 0, savings_per_hour=Decimal("0.14"), currency="EUR")
    observer.closed(done, True)
    observer.closed(Consolidate("op-2", 0, abort_cause=AbortCause.PODS_WAITING), False)
    value = metrics.registry.get_sample_value
    assert value("ebbtide_consolidations_total", {"cluster": "cluster", "result": "succeeded"}) == 1
    assert value("ebbtide_consolidations_total", {"cluster": "cluster", "result": "failed"}) == 1
    saved = {"cluster": "cluster", "currency": "EUR"}
    assert value("ebbtide_consolidation_savings_per_hour_sum", saved) == pytest.approx(0.14)
    assert value("ebbtide_consolidation_savings_per_hour_count", saved) == 1
    failed = {"cluster": "cluster", "reason": "pods_waiting"}
    assert value("ebbtide_consolidations_failed_total", failed) == 1
    observer.closed(Consolidate("op-3", 0, abort_reason="given up by an older version"), False)
    assert value("ebbtide_consolidations_failed_total", {"cluster": "cluster", "reason": "other"}) == 1


def test_one_that_only_takes_empty_nodes_is_counted_once_too() -> None:
    metrics = MetricsRegistry()
    observer = metrics.of(Settings())
    plan = ConsolidationPlan(cost_before=Decimal("0.1536"), cost_after=Decimal("0.0168"), currency="EUR")
    report = ConsolidationReport((), plan=plan)
    for number, (cause, succeeded) in enumerate(((AbortCause.NONE, True), (AbortCause.PODS_WAITING, False))):
        observer.decided(Decision("d", number, Action.CONSOLIDATE, "why", (), consolidation=report))
        work = ScaleDown(f"{number}-d", number, (), abort_cause=cause, only_empty=True)
        observer.closed(work, succeeded)
        observer.closed(work, succeeded)  # the nodes that go later, under the same id
    observer.closed(ScaleDown("other", 0, ()), True)
    value = metrics.registry.get_sample_value
    assert value("ebbtide_consolidations_total", {"cluster": "cluster", "result": "succeeded"}) == 1
    saved = {"cluster": "cluster", "currency": "EUR"}
    assert value("ebbtide_consolidation_savings_per_hour_sum", saved) == pytest.approx(0.1368)
    failed = {"cluster": "cluster", "reason": "pods_waiting"}
    assert value("ebbtide_consolidations_failed_total", failed) == 1


def test_nodes_that_come_and_go_are_counted_once() -> None:
    metrics = MetricsRegistry()
    observer = metrics.of(Settings())
    slot, gone = Slot("op-1-0", "workers", "cpx22", "zone-a"), Removal("i-1", "node-1")
    ready = ScaleUp("op-1", 0, 1, (Slot("op-1-0", "workers", "cpx22", "zone-a", state=SlotState.READY),))
    observer.advanced(ScaleUp("op-1", 0, 1, (slot,)), ready)
    observer.advanced(ready, ready)
    removed = Removal("i-1", "node-1", state=RemovalState.GONE)
    observer.advanced(ScaleDown("op-2", 0, (gone,)), ScaleDown("op-2", 0, (removed,)))
    spot = Spot("spot-1", "i-1", SpotKind.INTERRUPTION, 0, 120)
    observer.advanced(spot, Spot("spot-1", "i-1", SpotKind.INTERRUPTION, 0, 120, removal=removed))
    value = metrics.registry.get_sample_value
    assert value("ebbtide_nodes_provisioned_total", {"cluster": "cluster"}) == 1
    assert value("ebbtide_nodes_decommissioned_total", {"cluster": "cluster"}) == 2


def test_metrics_are_kept_where_anybody_could_ask_for_them() -> None:
    ports = Small().ports
    said: list[str] = []
    off = build_config(Read(), {"METRICS_ADDR": "off", "API_LISTEN": "off"})
    assert watched([(off, ports)], said.append).health is None
    listening = build_config(Read(), {"METRICS_ADDR": "off", "API_LISTEN": "127.0.0.1:0"})
    ticking = watched([(listening, ports)], said.append)
    assert ticking.health is not None
    assert "no tick has ended yet" in ticking.health.why_not_ready()
    serving = watched([(listening, ports)], said.append, ticks=False)
    assert serving.health is not None
    assert serving.health.why_not_ready() == ""


def test_savings_are_booked_when_the_last_of_its_nodes_has_gone() -> None:
    """The whole used to be booked after the first of two nodes, and the second never counted."""
    metrics = MetricsRegistry()
    observer = metrics.of(Settings())
    value, saved = metrics.registry.get_sample_value, {"cluster": "cluster", "currency": "EUR"}
    total, count = (f"ebbtide_consolidation_savings_per_hour_{part}" for part in ("sum", "count"))
    for start in (1, 2):
        empties = (make_removal("a1"), make_removal("a2"))
        plan = ConsolidationPlan(
            empties, cost_before=Decimal("0.16"), cost_after=Decimal("0.02"), currency="EUR"
        )
        costs = (("a1", "0.04"), ("a2", "0.10"))
        nodes = tuple(NodeAnalysis(n, "t", 9, 9, 0, Decimal(cost), False, "") for n, cost in costs)
        report = ConsolidationReport((), nodes, plan=plan)
        observer.decided(Decision("d", start, Action.CONSOLIDATE, "why", (), consolidation=report))
        first = replace(empties[0], state=RemovalState.GONE)
        observer.closed(ScaleDown(f"{start}-d", start, (first,), only_empty=True), True)
        assert value(count, saved) == (None if start == 1 else 1)
        if start == 1:
            second = replace(empties[1], state=RemovalState.GONE)
            observer.closed(ScaleDown(f"{start}-d", start, (second,), only_empty=True), True)
            assert value(total, saved) == pytest.approx(0.14)
            assert value(count, saved) == 1
    kept = replace(empties[1], state=RemovalState.RELEASED)
    observer.closed(ScaleDown("2-d", 2, (kept,), only_empty=True, abort_cause=AbortCause.CHANGED), False)
    assert value(total, saved) == pytest.approx(0.18), "what has gone is saved"
    assert value(count, saved) == 2
    observer.decided(Decision("d", 3, Action.CONSOLIDATE, "why", (), consolidation=report))
    observer.closed(ScaleDown("3-d", 3, (first,), only_empty=True), True)
    observer.decided(Decision("d", 4, Action.CONSOLIDATE, "why", (), consolidation=report))
    assert value(total, saved) == pytest.approx(0.22), "the next one begins"
    assert value(count, saved) == 3
