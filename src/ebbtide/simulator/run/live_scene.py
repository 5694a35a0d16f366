"""What a live simulation is played with, and a small cluster for it: web work that comes and goes, a
database, spot nodes, and three workloads that people use for a while each day and that sleep otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.packing.pack import installed_packer
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.node import Market
from ebbtide.model.policy import Policy, Schedule, Signal, SignalKind, Target, ZeroDefaults
from ebbtide.model.settings import Settings
from ebbtide.model.workload import WorkloadKind, WorkloadRef
from ebbtide.simulator.world.catalogue import ZONES, add_system, database, deployment, guarded, pool
from ebbtide.simulator.world.rules import Rules, WorkloadSpec
from ebbtide.simulator.world.workload import Curve, Demand
from ebbtide.simulator.world.world import World

HOUR = 3600
AGE_SECONDS = 24 * HOUR
SLEEPERS = ("reports", "staging", "wiki")
DEFAULTS = ZeroDefaults(
    idle_threshold_seconds=20 * 60, keep_alive_window_seconds=300, check_interval_seconds=60
)


@dataclass(frozen=True, slots=True)
class LiveScene:
    settings: Settings
    defaults: ZeroDefaults
    world: Callable[[int, float], World]
    """By seed and start."""
    policies: Callable[[int], list[Policy]]
    burst: str
    """The workload that a burst grows, as `namespace/name`, and by how many pods."""
    burst_pods: int
    guarded: tuple[str, ...]
    """Workloads that a stuck drain protects."""


def small_scene() -> LiveScene:
    settings = settings_of_demo()

    def world(seed: int, start: float) -> World:
        return world_of_demo(settings, seed, start)

    guarded = ("default/web", "default/api")
    return LiveScene(settings, DEFAULTS, world, policies_of_demo, "default/burst", 24, guarded)


def settings_of_demo() -> Settings:
    pools = (pool("general", ("cpx32", "cpx42")), pool("spot", ("cpx32",), Market.SPOT))
    repacking = ConsolidationSettings(enabled=True, min_savings_per_hour=Decimal("0.01"))
    return Settings(
        cluster="demo",
        pools=pools,
        min_workers=3,
        max_workers=16,
        consolidation=repacking,
        packer=installed_packer(),
    )


def world_of_demo(settings: Settings, seed: int, start: float) -> World:
    world = World(Rules(call_seconds=0.02, rebalance_chance=0.3), settings.pools, seed, start - 600)
    world.controllers.began_at = start - start % 86_400
    add_system(world)
    for zone in ZONES:
        world.add_node("general", "cpx32", zone, Market.ON_DEMAND, AGE_SECONDS)
    world.add_node("spot", "cpx32", ZONES[0], Market.SPOT, AGE_SECONDS)
    world.add_workload(*database("database", 3))
    world.add_workload(*guarded(deployment("web", 500, 512, Demand(Curve.DAY, 4, 40)), 4))
    world.add_workload(deployment("api", 300, 384, Demand(Curve.DAY, 2, 20), 0.6))
    world.add_workload(deployment("burst", 700, 768, Demand(low=0)))
    for number, name in enumerate(SLEEPERS):
        used = Demand(
            Curve.BURST, 0, 5, every_seconds=6 * HOUR, burst_seconds=HOUR, offset_seconds=number * 2.0 * HOUR
        )
        world.add_workload(_sleeper(name, used))
    world.advance_to(start)
    return world


def _sleeper(name: str, used: Demand) -> WorkloadSpec:
    """Large enough that nodes can go while it sleeps."""
    return replace(deployment(name, 1200, 2304, Demand(low=3), 0.3), requests=used, start_seconds=20.0)


def policies_of_demo(now: int) -> list[Policy]:
    """Activity is what people send; one of them also wakes by the clock."""
    found = []
    for number, name in enumerate(SLEEPERS):
        ref = WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name)
        query = f'requests{{workload="default/{name}"}}'
        wakes = (Schedule("0 8 * * *", "Europe/Berlin", 2),) if name == "reports" else ()
        found.append(
            Policy(
                id=f"00000000-0000-4000-8000-{number:012d}",
                name=name,
                target=Target((ref,)),
                scale_to_zero=True,
                signals=(Signal(SignalKind.PROMQL_RATE, query),),
                schedules=wakes,
                created_at=now,
                updated_at=now,
            )
        )
    return found
