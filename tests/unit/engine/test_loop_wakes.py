"""A policy that wakes starts a tick at once, whichever process wrote the wake."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.bootstrap.scaling import woken_by
from ebbtide.engine.loop import BATCH_SECONDS, NUDGE_SECONDS, run_loop
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.engine.tick import TickReport
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.policy import Policy, Target, ZeroDefaults
from tests.builders import make_pool
from tests.policy_harness import QUERY, MemoryWorkloads, Readings, make_policy
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.engine.test_loop import VirtualStop

SOON = BATCH_SECONDS + 2 * NUDGE_SECONDS + 1
"""A tick has whole seconds."""


def asleep() -> tuple[Small, Policy]:
    """A pool at zero: no pod of it can be pending, so no watch says that a node is needed."""
    settings = quick_settings(pools=(make_pool(zones=("a",)),), min_workers=2, cooldown_up_seconds=600)
    small = Small(settings=settings, replicas=0)
    policy = make_policy(
        target=Target(pool="workers"), idle_threshold_seconds=60, keep_alive_window_seconds=0
    )
    small.store.policies().put_policy(policy)
    ours = scaling_of(small)
    for _ in range(40):
        small.wait(30)
        ours.round("before", small.clock.now() + 60)
        small.tick(replace(small.ports, settings_now=ours.settings_now))
    assert small.store.policies().list_states()[0].phase is Phase.ZERO
    return small, policy


def scaling_of(small: Small) -> Scaling:
    opened = ScalingPorts(
        store=small.store,
        policies=small.store.policies(),
        workloads=MemoryWorkloads(),
        signals=Readings({QUERY: 0.0}, small.clock),
        notifier=small.notifier,
        clock=small.clock,
        new_id=small.ports.new_id,
        cluster=small.ports.cluster,
    )
    return Scaling(opened, ZeroDefaults(), small.settings)


class Woken(VirtualStop):
    """Wakes the policy while the loop waits, and lets the daemon's next round follow where it is asked to."""

    def __init__(
        self, small: Small, policy: Policy, writer: Scaling, round_of: Scaling | None = None
    ) -> None:
        super().__init__(small)
        self._policy, self._writer, self._round_of = policy, writer, round_of
        self.woken_at = 0.0

    def wait(self, timeout: float | None = None) -> bool:
        if not self.woken_at and len(self.waits) == 20:
            self.woken_at = self.small.clock.now()
            self._writer.wake(self._policy.id, WakeReason.MANUAL)
            if self._round_of is not None:
                self._round_of.round("daemon", self.small.clock.now() + 60)
        return super().wait(timeout)


def ticks_of(small: Small, ours: Scaling, stop: Woken) -> list[TickReport]:
    reports: list[TickReport] = []

    def on_report(report: TickReport) -> None:
        reports.append(report)
        if len(reports) == 2:
            stop.set()

    run_loop(woken_by(small.ports, ours), small.settings, "runner", 600, stop, on_report)
    return reports


def test_a_wake_of_a_pool_starts_a_tick_at_once_that_launches_its_node() -> None:
    small, policy = asleep()
    ours = scaling_of(small)
    stop = Woken(small, policy, ours)
    reports = ticks_of(small, ours, stop)
    assert 0 <= reports[1].at - stop.woken_at <= SOON
    assert reports[1].decision is not None
    assert {slot.pool for slot in reports[1].decision.slots} == {"workers"}


def test_a_wake_that_another_process_wrote_starts_a_tick_with_the_round_that_sees_it() -> None:
    small, policy = asleep()
    ours = scaling_of(small)
    stop = Woken(small, policy, scaling_of(small), ours)
    reports = ticks_of(small, ours, stop)
    assert 0 <= reports[1].at - stop.woken_at <= SOON


def test_a_wake_counts_once_however_often_it_is_seen() -> None:
    small, policy = asleep()
    ours = scaling_of(small)
    ours.wake(policy.id, WakeReason.MANUAL)
    ours.wake(policy.id, WakeReason.MANUAL)
    ours.round("daemon", small.clock.now() + 60)
    assert ours.wakes() == 1
