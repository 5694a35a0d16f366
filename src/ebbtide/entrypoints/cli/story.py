"""The story that `ebbtide demo` tells where no scenario is named: a day with a bit of everything.

It begins in the morning, while the cluster grows and its autoscaler keeps crashing; in the early afternoon
the cloud takes spot nodes back; in the evening the cluster shrinks. It is on EC2: Hetzner sells no spot.
"""

from __future__ import annotations

from ebbtide.core.prices import EC2
from ebbtide.model.node import Market
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from ebbtide.simulator.run.scenarios import HOUR, START, WARM_UP_SECONDS, Scenario
from ebbtide.simulator.run.shop_scene import TYPES, ZONES, with_spot
from ebbtide.simulator.world.catalogue import add_system, database, deployment, guarded
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.workload import Curve, Demand
from ebbtide.simulator.world.world import World

NAME = "a day"
MORNING = START + 6 * HOUR
CRASHING = 3 * HOUR
LENGTH = 19 * HOUR
AGE_SECONDS = 24 * HOUR


def tell(seed: int) -> Scenario:
    small, large = (with_spot(EC2[name]) for name in TYPES)
    pools = (
        Pool("general", (small, large), ZONES, Market.ON_DEMAND),
        Pool("spot", (small,), ZONES, Market.SPOT),
    )
    settings = Settings(cluster="demo", pools=pools, min_workers=3, max_workers=16)
    world = World(Rules(call_seconds=0.05, rebalance_chance=0.3), pools, seed, MORNING - WARM_UP_SECONDS)
    world.controllers.began_at = float(START)
    add_system(world, ZONES)
    for zone in ZONES:
        world.add_node("general", small.name, zone, Market.ON_DEMAND, AGE_SECONDS)
    world.add_workload(*database("database", 3))
    world.add_workload(*guarded(deployment("web", 500, 512, Demand(Curve.DAY, 4, 64)), 4))
    world.add_workload(deployment("api", 300, 384, Demand(Curve.DAY, 2, 30), 0.6))
    world.plan(START + 13 * HOUR, "interrupt-all", ZONES[1])
    world.plan(START + 14 * HOUR + HOUR // 2, "interrupt-all", ZONES[2])
    world.advance_to(MORNING)
    return Scenario(NAME, seed, world, settings, LENGTH, faults=("crash",), calm_seconds=LENGTH - CRASHING)
