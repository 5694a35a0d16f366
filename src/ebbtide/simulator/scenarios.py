"""Stories by name: each builds, from a seed, a world with its settings and faults, ready to be run.

scenario = build("day", seed=1)
result = simulate("day", seed=1)         # or let `simulate` do it all
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ebbtide.errors import ConfigError
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.node import Market
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from ebbtide.simulator.catalogue import ZONES, add_system, database, deployment, guarded, pool
from ebbtide.simulator.rules import BudgetSpec, Kind, Rules, Span, WorkloadSpec, pod_template
from ebbtide.simulator.sleepers import DEFAULTS as SLEEPY
from ebbtide.simulator.sleepers import NAMES, policies_for, sleepers
from ebbtide.simulator.workload import Curve, Demand
from ebbtide.simulator.world import World

START = 1_767_225_600
"""Midnight, in UTC, of the day on which every story begins."""
WARM_UP_SECONDS = 300
HOUR = 3600


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    seed: int
    world: World
    settings: Settings
    duration_seconds: int
    tick_seconds: int = 60
    faults: tuple[str, ...] = ()
    calm_seconds: int = HOUR
    """How long before the end the faults cease, so that the end shows what was healed."""
    policies: tuple[Policy, ...] = ()
    zero: ZeroDefaults = field(default_factory=ZeroDefaults)
    visits: float = 0.0
    """For each policy and tick, how likely somebody is to wake it by the API."""


def build(name: str, seed: int, start: int = START) -> Scenario:
    """The scenario at its start: nodes are Ready, pods run."""
    if name not in SCENARIOS:
        raise ConfigError(f"there is no scenario {name!r}; there are {', '.join(SCENARIOS)}")
    scenario = SCENARIOS[name](seed, start)
    scenario.world.controllers.began_at = float(start)
    scenario.world.advance_to(start)
    return replace(scenario, name=name)


def play(scenario: Scenario, recording: Mapping[str, Demand]) -> None:
    """Let workloads follow a recording (`workload.read_recording`) from now on. Lines that name no
    workload drive the one called web."""
    workloads = scenario.world.pods.book.workloads
    for name, demand in recording.items():
        key = f"default/{name or 'web'}"
        if key not in workloads:
            known = ", ".join(one.partition("/")[2] for one in workloads if one.startswith("default/"))
            raise ConfigError(f"scenario {scenario.name} has no workload {name!r}; it has {known}")
        scenario.world.controllers.drive(key, demand)


def _settings(*pools: Pool, max_workers: int = 12) -> Settings:
    """With one on-demand pool where none is given."""
    chosen = pools or (pool("general", ("cpx32", "cpx42")),)
    return Settings(cluster="simulated", pools=chosen, min_workers=3, max_workers=max_workers)


def _world(settings: Settings, seed: int, start: int, rules: Rules, per_zone: int = 1) -> World:
    """Control plane, foreign node, `per_zone` workers of every pool in each zone, and a database."""
    world = World(rules, settings.pools, seed, start - WARM_UP_SECONDS)
    add_system(world)
    for number in range(per_zone):
        for one in settings.pools:
            for zone in ZONES:
                world.add_node(one.name, one.types[0].name, zone, one.market, 86_400 - number * 600)
    world.add_workload(*database("database", 3))
    return world


def _day(seed: int, start: int) -> Scenario:
    """A day: little work at night, a peak in the afternoon, jobs every two hours, and somebody who
    cordons a node by hand and forgets about it until the evening."""
    settings = _settings()
    world = _world(settings, seed, start, Rules(call_seconds=0.05))
    web = deployment("web", 500, 512, Demand(Curve.DAY, 6, 44))
    world.add_workload(*guarded(web, 3))
    world.add_workload(deployment("api", 300, 384, Demand(Curve.DAY, 4, 20), 0.5))
    report = WorkloadSpec(
        pod_template("report", 800, 900), Kind.JOB, Demand(Curve.BATCH, 0, 3, every_seconds=2 * HOUR), 0.9
    )
    world.add_workload(replace(report, run_seconds=900))
    node = next(node for node in world.inventory.nodes.values() if node.worker and node.zone == "b")
    world.plan(start + 11 * HOUR, "person-cordons", node.name)
    world.plan(start + 20 * HOUR, "person-uncordons", node.name)
    return Scenario("", seed, world, settings, 24 * HOUR)


def _burst(seed: int, start: int) -> Scenario:
    """Quiet, then three times the work at once, again and again."""
    settings = _settings()
    world = _world(settings, seed, start, Rules(call_seconds=0.05))
    demand = Demand(Curve.BURST, 8, 50, every_seconds=3 * HOUR, burst_seconds=HOUR, offset_seconds=HOUR / 2)
    world.add_workload(*guarded(deployment("web", 500, 512, demand), 4))
    return Scenario("", seed, world, settings, 9 * HOUR)


def _spot_storm(seed: int, start: int) -> Scenario:
    """Most nodes are spot; the cloud takes them back one by one, and once many in a zone together."""
    pools = (pool("general"), pool("spot", ("cpx32", "cpx42"), Market.SPOT))
    settings = _settings(*pools, max_workers=14)
    rules = Rules(
        call_seconds=0.05,
        spot_life_seconds=6 * HOUR,
        rebalance_chance=0.3,
        duplicate_notices=0.3,
        notice_delay=Span(0, 5),
    )
    world = _world(settings, seed, start, rules)
    world.add_workload(*guarded(deployment("web", 500, 512, Demand(Curve.DAY, 12, 40)), 4))
    world.plan(start + 3 * HOUR, "interrupt-all", "b")
    world.plan(start + 3 * HOUR, "capacity", "b/spot/cpx32=0")
    world.plan(start + 3 * HOUR, "capacity", "b/spot/cpx42=0")
    world.plan(start + 5 * HOUR, "capacity", "b/spot/cpx32=6")
    world.plan(start + 8 * HOUR, "interrupt-all", "")
    return Scenario("", seed, world, settings, 12 * HOUR)


def _zone_outage(seed: int, start: int) -> Scenario:
    """A zone goes dark for half an hour in the morning and comes back; later another."""
    settings = _settings()
    world = _world(settings, seed, start, Rules(call_seconds=0.05), per_zone=2)
    world.add_workload(*guarded(deployment("web", 500, 512, Demand(Curve.DAY, 14, 34)), 5))
    for hour, zone in ((2, "b"), (6, "c")):
        world.plan(start + hour * HOUR, "zone-down", zone)
        world.plan(start + hour * HOUR + 1800, "zone-up", zone)
    return Scenario("", seed, world, settings, 10 * HOUR)


def _stuck_drain(seed: int, start: int) -> Scenario:
    """Nodes that should go but cannot be drained: budgets of zero, bare pods, pods that do not end."""
    settings = _settings()
    world = _world(settings, seed, start, Rules(call_seconds=0.05), per_zone=2)
    world.add_workload(*guarded(deployment("rigid", 200, 256, Demand(low=4)), 0))
    slow = replace(pod_template("slow", 200, 256), grace_seconds=3600)
    world.add_workload(WorkloadSpec(slow, demand=Demand(low=2), stop_seconds=3000))
    world.add_workload(WorkloadSpec(pod_template("bare", 100, 128), Kind.BARE, Demand(low=1)))
    twice = deployment("twice", 100, 128, Demand(low=1))
    budgets = [BudgetSpec(f"twice-{number}", twice.key, max_unavailable=1) for number in (1, 2)]
    world.add_workload(twice, *budgets)
    world.add_workload(deployment("web", 300, 256, Demand(low=6), 0.4))
    world.plan(start + 4 * HOUR, "wanted", "default/rigid=0")
    return Scenario("", seed, world, settings, 8 * HOUR)


def _never_join(seed: int, start: int) -> Scenario:
    """Every third instance boots and never joins; new instances are not listed at first."""
    settings = _settings()
    world = _world(settings, seed, start, Rules(call_seconds=0.05, never_join=0.35, invisible_seconds=20))
    world.add_workload(*guarded(deployment("web", 500, 512, Demand(Curve.DAY, 8, 40)), 4))
    return Scenario("", seed, world, settings, 16 * HOUR)


def _crashy(seed: int, start: int) -> Scenario:
    """A busy half day with a runner that keeps crashing, calls that fail and replies that get lost."""
    pools = (pool("general", ("cpx32", "cpx42")), pool("spot", ("cpx32",), Market.SPOT))
    settings = _settings(*pools)
    world = _world(
        settings, seed, start, Rules(call_seconds=0.05, spot_life_seconds=12 * HOUR, late_bind_seconds=3)
    )
    demand = Demand(Curve.BURST, 8, 34, every_seconds=2 * HOUR, burst_seconds=HOUR)
    world.add_workload(*guarded(deployment("web", 500, 512, demand), 3))
    faults = ("crash", "lost-reply", "failed-call", "throttling")
    return Scenario("", seed, world, settings, 12 * HOUR, faults=faults)


def _consolidation(seed: int, start: int) -> Scenario:
    """Day after day a tide of work, with consolidation on and dear nodes beside cheap ones: what the night
    leaves half empty is repacked, and cheaper nodes take the place of dearer ones."""
    pools = (pool("general", ("cpx32", "cpx42", "cpx52", "cpx62")),)
    settings = replace(
        _settings(*pools, max_workers=16),
        cpu_down=0.0,  # nothing but consolidation removes a node
        consolidation=ConsolidationSettings(enabled=True, min_savings_per_hour=Decimal("0.02")),
    )
    world = _world(settings, seed, start, Rules(call_seconds=0.05))
    for zone in ZONES:
        world.add_node("general", "cpx62", zone)
    for number in range(3):
        # Each peaks at an hour of its own, so that what one leaves behind is scattered among the others.
        demand = Demand(Curve.DAY, 2, 16, 1200 + 300 * number, peak_second=(12 + 3 * number) * HOUR)
        world.add_workload(*guarded(deployment(f"web-{number}", 700, 1024, demand), 2))
    return Scenario("", seed, world, settings, 48 * HOUR)


def _sleepers(seed: int, start: int) -> Scenario:
    """Workloads that are used for an hour now and then: they go to zero, their nodes with them, and come
    back with the first request."""
    settings = _settings(pool("general"), max_workers=14)
    world = _world(settings, seed, start, Rules(call_seconds=0.05), per_zone=2)
    for spec in sleepers():
        world.add_workload(spec)
    policies = policies_for(NAMES, start)
    return Scenario("", seed, world, settings, 24 * HOUR, policies=policies, zero=SLEEPY)


SCENARIOS: dict[str, Callable[[int, int], Scenario]] = {
    "day": _day,
    "burst": _burst,
    "spot-storm": _spot_storm,
    "zone-outage": _zone_outage,
    "stuck-drain": _stuck_drain,
    "never-join": _never_join,
    "crashy": _crashy,
    "sleepers": _sleepers,
    "consolidation": _consolidation,
}
