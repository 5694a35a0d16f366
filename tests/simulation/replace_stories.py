"""Short stories in which a worker is replaced: one that fell silent, and one that is expired."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.simulator.world.rules import BudgetSpec, Demand, Kind, Rules, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import World
from tests.simulation.stories import NO_REMOVALS, POOL, SPOT_POOL, Story, small_world

PLAIN = Rules(unready_seconds=20, lost_pods_seconds=60)
"""The cluster gives the pods of a silent node up after a minute instead of five."""
REPAIR = replace(NO_REMOVALS, repair=True, repair_after_seconds=120, min_workers=1)
EXPIRY = replace(
    NO_REMOVALS, pools=(replace(POOL, expire_seconds=7200), SPOT_POOL), min_workers=2, max_workers=4
)


def worked_cluster(rules: Rules, *ages: int) -> World:
    """Workers of these ages in two zones, each with something to do; one has a volume."""
    world = small_world(rules)
    for number, age in enumerate(ages):
        world.add_node("general", "small", "ab"[number % 2], age_seconds=age)
    web = WorkloadSpec(pod_template("web", 500, 256), demand=Demand(low=len(ages) + 1), use_fraction=0.1)
    world.add_workload(web, BudgetSpec("web-budget", web.key, max_unavailable=1))
    volume = WorkloadSpec(
        pod_template("db", 200, 256), Kind.STATEFUL_SET, Demand(low=1), use_fraction=0.1, volume=True
    )
    world.add_workload(volume)
    return world


def silent_cluster() -> World:
    """The kubelet of the first worker falls silent, and its instance runs on."""
    world = worked_cluster(PLAIN, 9000, 9000, 9000)
    first = next(machine for machine in world.machines.book.machines.values() if machine.ours)
    world.nodes.fall_silent(first)
    return world


def old_cluster() -> World:
    """One worker is older than its pool allows."""
    return worked_cluster(PLAIN, 9000, 600, 500)


STORIES = (
    Story("repair", silent_cluster, 3, REPAIR),
    Story("expiry", old_cluster, 3, EXPIRY),
)
