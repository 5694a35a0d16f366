"""Short stories about consolidation, each of which runs it from beginning to end.

Nothing but consolidation removes a node here (`cpu_down` is 0), and it happens once: its cooldown is longer
than the story.
"""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.operation import Consolidate
from ebbtide.model.pod import Resources
from ebbtide.model.pool import NodeType, Price
from ebbtide.model.snapshot import Market
from ebbtide.ports import Store
from ebbtide.simulator.world.rules import BudgetSpec, Demand, Kind, Rules, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import World
from tests.simulation.stories import POOL, SETTINGS, SMALL, SPOT_POOL, START, Story

BIG = NodeType("big", Resources(4000, 8192), 20, Price(Decimal("0.10"), "EUR", "test"))
POOLS = (replace(POOL, types=(SMALL, BIG)), SPOT_POOL)
REPACK = ConsolidationSettings(
    enabled=True,
    cooldown_seconds=86_400,
    min_uptime_seconds=60,
    min_idle_seconds=60,
    min_savings_per_hour=Decimal("0.01"),
    move_cost=Decimal(0),
    move_timeout_seconds=300,
    replace=False,
)
SETTINGS_REPACK = replace(
    SETTINGS,
    pools=POOLS,
    cpu_down=0.0,
    consolidation=REPACK,
    min_workers=1,
    orphan_grace_seconds=120,
    request_timeout_seconds=100,  # as long as a frozen runner's eviction may be late here
)


def world_of(*nodes: tuple[str, str], pods: int, cpu_milli: int = 300, pinned: bool = False) -> World:
    """Nodes by type and zone, and a deployment that the scheduler has spread over them."""
    world = World(Rules(), POOLS, 1, START - 30)
    world.add_control_plane("a")
    # No node ever looks empty if all pods are counted.
    world.add_workload(WorkloadSpec(pod_template("agent", 50, 64, "kube-system"), Kind.DAEMON_SET))
    for kind, zone in nodes:
        world.add_node("general", kind, zone)
    template = replace(pod_template("web", cpu_milli, 256), do_not_disrupt=pinned)
    spec = WorkloadSpec(template, demand=Demand(low=pods), use_fraction=0.1)
    world.add_workload(spec, BudgetSpec("web-budget", spec.key, max_unavailable=1))
    world.advance_to(START)
    return world


def scattered() -> World:
    """Three workers with two pods each, which two of them can hold."""
    return world_of(("small", "a"), ("small", "b"), ("small", "a"), pods=6, cpu_milli=200)


def mostly_empty() -> World:
    """Four workers, and two pods that must not be disturbed."""
    return world_of(*[("small", "a")] * 4, pods=2, pinned=True)


def expensive() -> World:
    """An expensive node, of which all pods would fit on a cheaper one that is not there yet."""
    return world_of(("big", "a"), ("small", "b"), pods=5, cpu_milli=400)


def with_a_spot_node() -> World:
    world = scattered()
    world.add_node("spot", "small", "b", Market.SPOT)
    return world


def nothing_starts_again(world: World, store: Store) -> None:
    """Once pods are being moved, what is made again takes forever to start."""
    if isinstance(store.load().operation, Consolidate):
        workload = world.pods.book.workloads["default/web"]
        workload.spec = replace(workload.spec, start_seconds=100_000.0)


def a_spot_notice(world: World, store: Store) -> None:
    """The cloud takes another node while pods are being moved."""
    if isinstance(store.load().operation, Consolidate) and not world.incidents.mail.interruptions:
        spot = next(m for m in world.machines.book.machines.values() if m.instance.pool == "spot")
        world.plan(world.now, "interrupt", spot.instance.id)


LAUNCHES = replace(SETTINGS_REPACK, consolidation=replace(REPACK, replace=True))
STORIES = (
    Story("consolidation", scattered, 2, SETTINGS_REPACK, ticks=24),
    Story("consolidation of empty nodes", mostly_empty, 2, SETTINGS_REPACK, ticks=26),
    Story("consolidation onto a cheaper node", expensive, 2, LAUNCHES, ticks=30),
    Story("consolidation that sticks", scattered, 3, SETTINGS_REPACK, 28, nothing_starts_again),
    Story("consolidation that is interrupted", with_a_spot_node, 4, SETTINGS_REPACK, 24, a_spot_notice),
)
