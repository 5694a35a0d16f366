"""The simulated cluster of `run`, `once` and `plan`: real time, kept in a file between processes.

It is made of the pools of the configuration and begins with as many workers as they ask for; its load
comes in bursts, so there is something to see within half an hour.
"""

from __future__ import annotations

from pathlib import Path

from ebbtide import bootstrap
from ebbtide.bootstrap import SystemClock
from ebbtide.config import Config
from ebbtide.errors import StoreUnusable
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from ebbtide.simulator.run.persistent import (
    FileCloud,
    FileCluster,
    FileInbox,
    FileMetrics,
    FileSignals,
    FileWorkloads,
    WorldFile,
)
from ebbtide.simulator.run.scenarios import WARM_UP_SECONDS
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud, SimCluster, SimInbox, SimMetrics
from ebbtide.simulator.world.rules import Curve, Demand, Rules
from ebbtide.simulator.world.world import World, add_system, deployment, guarded

SEED = 1
AGE_SECONDS = 86_400
EVERY_SECONDS, BURST_SECONDS = 1800.0, 900.0
LOW, HIGH = 2, 8
"""Pods for each worker there is at first, normally and in a burst."""


def open_simulated(config: Config) -> bootstrap.ClusterPorts:
    """The cluster in its file, which is made where there is none."""
    clock = SystemClock()
    file = WorldFile(Path(config.cluster_file), clock)
    if not file.exists():
        try:
            file.create(new_world(config.settings, clock.now()))
        except StoreUnusable:
            if not file.exists():
                raise
    return _in_file(file, clock)


def look_at_simulated(config: Config) -> bootstrap.ClusterPorts:
    """The cluster in its file; where there is none, the one that would be made, in memory only."""
    clock = SystemClock()
    file = WorldFile(Path(config.cluster_file), clock)
    if file.exists():
        return _in_file(file, clock)
    world = new_world(config.settings, clock.now())
    still = VirtualClock(world.now)
    return bootstrap.ClusterPorts(
        SimCluster(world, still),
        SimCloud(world, still),
        SimMetrics(world, still),
        SimInbox(world, still),
        clock,
    )


def _in_file(file: WorldFile, clock: SystemClock) -> bootstrap.ClusterPorts:
    metrics = FileMetrics(file)
    return bootstrap.ClusterPorts(
        FileCluster(file),
        FileCloud(file),
        metrics,
        FileInbox(file),
        clock,
        uses=metrics,
        workloads=FileWorkloads(file),
        signals=FileSignals(file),
    )


def new_world(settings: Settings, now: float) -> World:
    world = World(Rules(), settings.pools, SEED, now - WARM_UP_SECONDS)
    add_system(world)
    workers = 0
    for one in settings.pools:
        for number in range(_at_first(one, settings)):
            zone = one.zones[number % len(one.zones)]
            world.add_node(one.name, one.types[0].name, zone, one.market, AGE_SECONDS - number * 60)
            workers += 1
    demand = Demand(
        Curve.BURST,
        LOW * workers,
        HIGH * workers,
        every_seconds=EVERY_SECONDS,
        burst_seconds=BURST_SECONDS,
        offset_seconds=EVERY_SECONDS / 3,
    )
    world.add_workload(*guarded(deployment("web", 400, 512, demand), 2))
    world.advance_to(now)
    return world


def _at_first(pool: Pool, settings: Settings) -> int:
    """Its own minimum; the first pool also makes up what the cluster's minimum asks for."""
    if pool is not settings.pools[0]:
        return pool.min_workers
    others = sum(one.min_workers for one in settings.pools[1:])
    wanted = max(pool.min_workers, settings.min_workers - others, 1)
    return wanted if pool.max_workers is None else min(wanted, pool.max_workers)
