"""A pool that sleeps: its nodes go by the ordinary rules, and a wake brings one at once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.policy import Target, ZeroDefaults
from ebbtide.model.settings import Settings
from tests.builders import make_pool
from tests.policy_harness import QUERY, MemoryWorkloads, Readings, make_policy
from tests.unit.engine.builders import Small, quick_settings


def one_zone() -> Small:
    """Two workers in one zone, with nothing on them but what runs on every node."""
    settings = quick_settings(pools=(make_pool(zones=("a",)),), min_workers=2, cooldown_up_seconds=600)
    small = Small(settings=settings, replicas=0)
    last = small.nodes.pop()
    machine = small.world.nodes.machine_of(last.name)
    assert machine is not None
    small.ports.cloud.terminate(machine.instance.id)
    small.wait(300)
    small.world.nodes.delete(last.name)
    return small


def two_zones() -> Small:
    """Three workers in two zones."""
    return Small(settings=quick_settings(pools=(make_pool(),), min_workers=2), replicas=0)


@pytest.mark.parametrize(("scene", "standing"), [(one_zone, 2), (two_zones, 3)])
def test_a_pool_sleeps_to_the_last_node_of_every_zone_and_a_wake_brings_one_at_once(
    scene: Callable[[], Small], standing: int
) -> None:
    small = scene()
    policy = make_policy(
        target=Target(pool="workers"), idle_threshold_seconds=60, keep_alive_window_seconds=0
    )
    rows = small.store.policies()
    rows.put_policy(policy)
    opened = ScalingPorts(
        store=small.store,
        policies=rows,
        workloads=MemoryWorkloads(),
        signals=Readings({QUERY: 0.0}, small.clock),
        notifier=small.notifier,
        clock=small.clock,
        new_id=small.ports.new_id,
        cluster=small.ports.cluster,
    )
    scaling = Scaling(opened, ZeroDefaults(), small.settings)
    ports = replace(small.ports, settings_now=scaling.settings_now)

    def workers() -> int:
        return sum(1 for node in small.world.inventory.nodes.values() if node.worker and node.ready)

    def pass_by(ticks: int) -> None:
        for _ in range(ticks):
            small.wait(30)
            scaling.round("runner", small.clock.now() + 60)
            small.tick(ports)

    pass_by(2)
    assert rows.list_states()[0].phase is Phase.IDLE
    assert 2 <= workers() <= standing, "MIN_WORKERS holds while it is awake"
    pass_by(60)
    assert (rows.list_states()[0].phase, workers()) == (Phase.ZERO, 0)
    woken = scaling.wake(policy.id, WakeReason.MANUAL)
    assert (woken.status, woken.target_replicas) == ("waking", 1)
    pass_by(2)
    assert workers() >= 1, "neither pending time nor cooldown is waited for"
    assert scaling.wait_ready(policy.id, woken.wake_id, small.clock.now() + 60).ready


def test_settings_without_policies_are_the_same_object() -> None:
    settings = Settings()
    assert Small().ports.settings_now(settings) is settings
