"""A cluster, its work, its settings and its faults, all drawn from one seed."""

from __future__ import annotations

import random
from dataclasses import replace
from decimal import Decimal

from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import Resources
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.pool import CronWindow, Headroom, NodeType, Pool, PoolLimits, Price
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.checker.sleepers import policies_for
from ebbtide.simulator.faults.catalogue import FAULTS
from ebbtide.simulator.run.scenarios import RollOut, Scenario
from ebbtide.simulator.world.rules import (
    BudgetSpec,
    Curve,
    Demand,
    Identity,
    Kind,
    Rules,
    Span,
    WorkloadSpec,
    pod_template,
)
from ebbtide.simulator.world.world import World
from tests.swarm.policies import add_policies
from tests.swarm.roll_outs import roll_outs
from tests.swarm.wider import Streams, widened

START = 1_767_225_600
WARM_UP_SECONDS = 60
DISTURBED_TICKS = 60
CALM_SECONDS = 2700
"""Longer than the grace of anything that may be left behind, with the timers below."""
MOST_FAULTS = 7
DRAWN_APART = ("late-joins",)
DRAWN_LATER = ("mass-loss", "names-taken-over", "nested-stall", "pod-holes", "torn-view", "unlisted")
APART_SHARE = 0.15
SLEEPY_SHARE = 0.33
REPLACING_SHARE = 0.33
DRIFTING_SHARE, DRIFTED_SHARE = 0.25, 0.4
USED_SECONDS = 300
VISITS = 0.03
ZERO = ZeroDefaults(idle_threshold_seconds=180, keep_alive_window_seconds=60, max_keep_alive_seconds=300)


def build(seed: int, sleeps: bool = True, wide: bool = True) -> Scenario:
    """`sleeps`: whether some of it may go to zero, and some of it be replaced, which is drawn apart, so all
    else stays as it was; `wide`: the same of what `tests.swarm.wider` adds."""
    chance, drift = random.Random(f"swarm/{seed}"), random.Random(f"swarm/{seed}/drift")
    settings = _settings(chance)
    if sleeps:
        settings = _drifting(settings, drift)
        settings = _replacing(settings, random.Random(f"swarm/{seed}/replacing"))
        settings = _with_room(settings, random.Random(f"swarm/{seed}/room"))
    world = World(_rules(chance), settings.pools, seed, START - WARM_UP_SECONDS)
    world.add_control_plane(settings.pools[0].zones[0])
    if chance.random() < 0.5:
        world.add_foreign_node(settings.pools[0].zones[-1])
    agent = pod_template("agent", 50, 64, "kube-system")
    world.add_workload(WorkloadSpec(agent, Kind.DAEMON_SET))
    _add_nodes(world, settings, chance)
    _launched_before(world, settings, drift)
    _add_work(world, chance)
    tick = chance.choice((20, 30, 30, 60))
    disturbed = DISTURBED_TICKS * tick
    policies = _sleepers(world, random.Random(f"swarm/{seed}/sleepers"), disturbed) if sleeps else ()
    _silence(world, settings, random.Random(f"swarm/{seed}/silent"), disturbed)
    world.controllers.began_at = float(START)
    world.advance_to(START)
    duration = disturbed + CALM_SECONDS
    drawn = sorted(set(FAULTS) - {*DRAWN_APART, *DRAWN_LATER})
    faults = tuple(chance.sample(drawn, chance.randint(1, MOST_FAULTS)))
    faults += _drawn_apart(random.Random(f"swarm/{seed}/apart"))
    if sleeps:
        wider = random.Random(f"swarm/{seed}/wider")
        faults += tuple(name for name in DRAWN_LATER if wider.random() < APART_SHARE)
    rolled: tuple[RollOut, ...] = ()
    if wide:
        streams = Streams(seed)
        settings = widened(world, settings, streams)
        policies += add_policies(world, settings, streams.of("policies"), disturbed, START - 86_400)
        rolled = roll_outs(settings, streams.of("roll-outs"), disturbed, tick)
        world.advance_to(START)
    return Scenario(
        "swarm", seed, world, settings, duration, tick, faults, CALM_SECONDS, policies, ZERO, VISITS, rolled
    )


def _replacing(settings: Settings, chance: random.Random) -> Settings:
    """In some clusters what is unwell is repaired, in some what is old is replaced: drawn apart, too."""
    if chance.random() < REPLACING_SHARE:
        settings = replace(settings, repair=True, repair_after_seconds=chance.choice((60, 120)))
    if chance.random() < REPLACING_SHARE:
        lives = chance.choice((7260, 7800, 8400))
        settings = replace(settings, pools=tuple(replace(p, expire_seconds=lives) for p in settings.pools))
    return settings


def _drifting(settings: Settings, chance: random.Random) -> Settings:
    """In some clusters the pools launch something else by now."""
    if chance.random() >= DRIFTING_SHARE:
        return settings
    pools = tuple(replace(pool, launch_hash="today") for pool in settings.pools)
    return replace(settings, replace_drifted=True, pools=pools)


def _launched_before(world: World, settings: Settings, chance: random.Random) -> None:
    if settings.replace_drifted:
        for machine in world.machines.book.machines.values():
            if machine.ours and chance.random() < DRIFTED_SHARE:
                machine.instance = replace(machine.instance, launch_hash="before")


def _silence(world: World, settings: Settings, chance: random.Random, disturbed: int) -> None:
    """Where nodes are repaired, some fall silent; all that are still there answer again at the end."""
    ours = [machine for machine in world.machines.book.machines.values() if machine.ours]
    for machine in chance.sample(ours, chance.randint(0, 2)) if settings.repair and len(ours) > 1 else ():
        at = chance.randint(0, disturbed // 2)
        world.plan(START + at, "falls-silent", machine.instance.id)
        again = min(at + chance.choice((90, 400, 4000)), disturbed)
        world.plan(START + again, "answers-again", machine.instance.id)


def _drawn_apart(chance: random.Random) -> tuple[str, ...]:
    """Faults that were added later, so a seed that once failed still draws what it drew then. A late
    joiner is only dangerous to a call that is late as well, so half of them come with runners that freeze."""
    faults = tuple(name for name in DRAWN_APART if chance.random() < APART_SHARE)
    return (*faults, "stall") if faults and chance.random() < 0.5 else faults


def _sleepers(world: World, chance: random.Random, disturbed: int) -> tuple[Policy, ...]:
    """In a third of all clusters some Deployments are used now and then, and sleep otherwise; the last time
    soon after the faults have ceased."""
    if chance.random() >= SLEEPY_SHARE:
        return ()
    names = ("reports", "wiki")[: chance.randint(1, 2)]
    for name in names:
        begins = [*range(chance.randint(0, 900), disturbed, chance.choice((900, 1800))), disturbed + 300]
        points = tuple(point for at in begins for point in ((at, 5), (at + USED_SECONDS, 0)))
        used = Demand(Curve.RECORDED, points=((0, 0), *points))
        template = pod_template(name, chance.choice((100, 300, 600)), 128)
        spec = WorkloadSpec(template, demand=Demand(low=chance.randint(1, 3)), use_fraction=0.3)
        world.add_workload(replace(spec, requests=used, start_seconds=chance.choice((5.0, 20.0))))
    return policies_for(names, START - 86_400)


def _settings(chance: random.Random) -> Settings:
    zones = ("a", "b", "c")[: chance.randint(1, 3)]
    small = NodeType("small", Resources(2000, 4096), 20, _price("0.02"), _price("0.008"))
    large = NodeType("large", Resources(4000, 8192), 40, _price("0.04"), _price("0.016"))
    types = chance.choice(((small,), (small, large), (large, small)))
    pools = [Pool("general", types, zones)]
    if chance.random() < 0.6:
        pools.append(Pool("spot", types, zones, Market.SPOT, on_demand_fallback=chance.random() < 0.7))
    if chance.random() < 0.3:
        pools[0] = replace(pools[0], min_workers=1, max_workers=chance.randint(4, 8))
    least = chance.randint(1, 3)
    return Settings(
        cluster="swarm",
        pools=tuple(pools),
        min_workers=least,
        max_workers=least + chance.randint(1, 6),
        max_batch_up=chance.randint(1, 3),
        max_batch_down=chance.randint(1, 2),
        budget_fraction=chance.choice((0.1, 0.34)),
        pending_up_seconds=chance.choice((0, 30, 60)),
        idle_down_seconds=chance.choice((60, 120)),
        cooldown_up_seconds=chance.choice((0, 60)),
        cooldown_down_seconds=chance.choice((60, 120)),
        lock_ttl_seconds=chance.choice((60, 90, 120)),
        spot_lock_ttl_seconds=60,
        join_timeout_seconds=200,
        launch_timeout_seconds=180,
        drain_timeout_seconds=120,
        drain_attempts=chance.randint(1, 3),
        stuck_seconds=300,
        rebalance_seconds=300,
        node_rest_seconds=300,
        backoff_seconds=30,
        backoff_max_seconds=240,
        offer_rest_seconds=120,
        orphan_grace_seconds=180,
        shrink_accepted_seconds=120,
        consolidation=ConsolidationSettings(
            enabled=chance.random() < 0.3,
            cooldown_seconds=300,
            backoff_max_seconds=0,  # again and again, however often it fails
            min_uptime_seconds=120,
            min_idle_seconds=60,
            min_savings_per_hour=Decimal("0.001"),
            move_cost=Decimal("0.0001"),
            move_timeout_seconds=90,
        ),
    )


def _with_room(settings: Settings, chance: random.Random) -> Settings:
    """In a third of all clusters headroom, and in a third weights and limits; drawn apart, so all others
    stay as they were."""
    pools = settings.pools
    if chance.random() < 0.33:
        named = chance.choice(("", "", *(pool.name for pool in pools)))
        zones = chance.choice(((), pools[0].zones[:1]))
        cpu_milli, count = chance.choice((300, 900, 1700)), chance.randint(1, 4)
        window = chance.choice((None, None, CronWindow("*/20 * * * *", "UTC", 600)))
        settings = replace(settings, headroom=(Headroom(cpu_milli, 512, count, named, zones, window),))
    if chance.random() < 0.33:
        most = settings.max_workers * 4000
        limits = [
            PoolLimits(max(4000 * settings.min_workers, int(most * chance.choice((0.3, 0.6, 1.0)))))
            for _ in pools
        ]
        pools = tuple(
            replace(pool, weight=chance.randint(0, 2), limits=chance.choice((None, limit)))
            for pool, limit in zip(pools, limits, strict=True)
        )
    return replace(settings, pools=pools)


def _price(per_hour: str) -> Price:
    return Price(Decimal(per_hour), "EUR", "swarm")


def _rules(chance: random.Random) -> Rules:
    identity = chance.choice((Identity.PROVIDER, Identity.PROVIDER, Identity.LABEL, Identity.ADDRESS))
    return Rules(
        boot=Span(10, 40),
        join=Span(10, 60),
        terminate=chance.choice((Span(10, 40), Span(60, 200))),
        listed_seconds=chance.choice((60.0, 3600.0)),
        # Of a node that neither our join nor a cloud provider has signed nobody can say that its machine is
        # gone; its Node object stays, and where names are reused no other machine can join under its name.
        names_from_address=identity is not Identity.ADDRESS and chance.random() < 0.7,
        identity=identity,
        call_seconds=chance.choice((0.0, 0.1, 1.0)),
        spot_life_seconds=chance.choice((0.0, 3600.0)),
    )


def _add_nodes(world: World, settings: Settings, chance: random.Random) -> None:
    for number in range(chance.randint(settings.min_workers, settings.max_workers)):
        pool = settings.pools[0] if number < 2 else chance.choice(settings.pools)
        if pool.max_workers is not None and number >= pool.max_workers:
            continue
        zone = pool.zones[number % len(pool.zones)]
        world.add_node(pool.name, chance.choice(pool.types).name, zone, pool.market, 7200 + number)


def _add_work(world: World, chance: random.Random) -> None:
    for number in range(chance.randint(1, 4)):
        low = chance.randint(1, 6)
        demand = chance.choice(
            (
                Demand(low=low),
                Demand(low=low),
                Demand(Curve.BURST, low, low + chance.randint(2, 8), every_seconds=1500, burst_seconds=600),
                Demand(Curve.RECORDED, low, points=((0, low), (600, low + 5), (1500, 1))),
            )
        )
        template = pod_template(f"work{number}", chance.choice((100, 300, 600)), chance.choice((128, 512)))
        kind = chance.choice(
            (Kind.DEPLOYMENT, Kind.DEPLOYMENT, Kind.DEPLOYMENT, Kind.STATEFUL_SET, Kind.BARE)
        )
        spec = WorkloadSpec(
            template, kind, demand, chance.uniform(0.05, 0.9), volume=kind is Kind.STATEFUL_SET
        )
        budget = BudgetSpec(f"budget{number}", spec.key, max_unavailable=chance.randint(0, 2))
        world.add_workload(spec, *([budget] if chance.random() < 0.5 else []))
