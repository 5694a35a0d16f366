"""The cluster of the chaos run: small, hasty and always in motion, so there is much to interrupt."""

from __future__ import annotations

from decimal import Decimal

from ebbtide.model.pod import Resources
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.world.rules import (
    BudgetSpec,
    Curve,
    Demand,
    Kind,
    Rules,
    Span,
    WorkloadSpec,
    pod_template,
)
from ebbtide.simulator.world.world import World

TICK_SECONDS = 0.3
ZONES = ("a", "b")
PRICE = Price(Decimal("0.01"), "EUR", "chaos")
TYPE = NodeType("small", Resources(2000, 4096), 20, PRICE, PRICE)
POOLS = (Pool("general", (TYPE,), ZONES), Pool("spot", (TYPE,), ZONES, Market.SPOT))
SETTINGS = Settings(
    pools=POOLS,
    min_workers=3,
    max_workers=9,
    pending_up_seconds=1,
    idle_down_seconds=2,
    cpu_down=0.5,
    cooldown_up_seconds=1,
    cooldown_down_seconds=1,
    lock_ttl_seconds=4,
    spot_lock_ttl_seconds=4,
    lease_margin_seconds=1,
    request_timeout_seconds=2,
    join_timeout_seconds=25,
    launch_timeout_seconds=25,
    drain_timeout_seconds=15,
    drain_retry_seconds=1,
    settle_seconds=1,
    stuck_seconds=45,
    gone_grace_seconds=3,
    orphan_grace_seconds=20,
    node_rest_seconds=5,
    backoff_seconds=1,
    backoff_max_seconds=3,
    shrink_accepted_seconds=5,
    metric_max_age_seconds=60,
    max_unclean_runs=100_000,
)
"""A runner is killed every other second here: that many in a row prove nothing about the operation."""

RULES = Rules(
    boot=Span(0.3, 0.8),
    join=Span(0.5, 1.5),
    ready=Span(0.2, 0.5),
    terminate=Span(0.5, 1.5),
    listed_seconds=60.0,
    unready_seconds=2.0,
    lost_pods_seconds=2.0,
    detach=Span(0.1, 0.4),
    react_seconds=0.1,
    never_join=0.03,
    spot_life_seconds=40.0,
    notice_seconds=5.0,
    rebalance_chance=0.3,
    duplicate_notices=0.3,
)


def build(seed: int, now: float) -> World:
    world = World(RULES, POOLS, seed, now)
    world.add_control_plane("a")
    world.add_workload(WorkloadSpec(pod_template("agent", 50, 64, "kube-system"), Kind.DAEMON_SET))
    for zone in (*ZONES, *ZONES):
        world.add_node("general", "small", zone)
    for zone in ZONES:
        world.add_node("spot", "small", zone, Market.SPOT)
    burst = Demand(Curve.BURST, low=5, high=18, every_seconds=20.0, burst_seconds=8.0)
    web = WorkloadSpec(
        pod_template("web", 600, 256), demand=burst, use_fraction=0.2, start_seconds=0.2, stop_seconds=0.3
    )
    world.add_workload(web, BudgetSpec("web-budget", web.key, max_unavailable=2))
    database = WorkloadSpec(
        pod_template("db", 300, 256),
        Kind.STATEFUL_SET,
        Demand(low=2),
        start_seconds=0.2,
        stop_seconds=0.3,
        volume=True,
    )
    world.add_workload(database)
    return world
