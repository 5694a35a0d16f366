"""Scenarios by name: story files of the package, each made into a world with its settings, ready to run
with any faults.

    scenario = build("day", seed=1)
    result = simulate("day", seed=1)         # or let `simulate` do it all

Without a scenario, `ebbtide demo` plays a day of its own. In the morning the cluster grows while its
autoscaler keeps crashing; in the early afternoon the cloud reclaims spot nodes; in the evening the cluster
shrinks. It is on EC2, since Hetzner sells no spot.
"""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from importlib.resources import files

from ebbtide.core.prices import EC2
from ebbtide.errors import ConfigError
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.run.scenes import SHOP_ZONES, TYPES, with_spot
from ebbtide.simulator.story.build import build_world
from ebbtide.simulator.story.event_schemas import EventKeys
from ebbtide.simulator.story.events import incident_of, offers_of
from ebbtide.simulator.story.parse import Story, parse_story
from ebbtide.simulator.world.rules import Curve, Demand, Rules
from ebbtide.simulator.world.world import World, add_system, database, deployment, guarded

SCENARIOS = (
    "day",
    "burst",
    "spot-storm",
    "zone-outage",
    "stuck-drain",
    "never-join",
    "crashy",
    "sleepers",
    "consolidation",
)
START = 1_767_225_600
"""Midnight, in UTC, of the day on which every story begins."""
WARM_UP_SECONDS = 300
HOUR = 3600


@dataclass(frozen=True, slots=True)
class RollOut:
    """A new configuration, in the middle of a run."""

    after_seconds: int
    """From the start."""
    settings: Settings
    overlap_seconds: int = 0
    """For how long a runner with the configuration before ticks next to those with this one."""


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
    """How long before the end the faults cease, so the end shows what was healed."""
    policies: tuple[Policy, ...] = ()
    zero: ZeroDefaults = field(default_factory=ZeroDefaults)
    visits: float = 0.0
    """For each policy and tick, how likely somebody is to wake it by the API."""
    roll_outs: tuple[RollOut, ...] = ()
    """In the order of time."""


def build(name: str, seed: int) -> Scenario:
    """The scenario at its start: nodes are Ready, pods run."""
    story = story_named(name, seed)
    keys, config = story.keys, story.config
    world = build_world(story)
    for event in keys.events:
        for kind, subject in incidents_of(world, event):
            world.plan(world.now + event.at, kind, subject)
    now = int(world.now)
    return Scenario(
        name,
        seed,
        world,
        config.settings,
        round(keys.until),
        round(keys.tick_sec),
        keys.faults,
        round(keys.calm_sec),
        policies=tuple(
            policy.policy(str(uuid.UUID(int=number + 1)), 0, now, now)
            for number, policy in enumerate(config.policies)
        ),
        zero=config.zero,
    )


def text_of(name: str) -> str:
    """The story file of a scenario."""
    if name not in SCENARIOS:
        raise ConfigError(f"unknown scenario {name!r}; choose from {', '.join(SCENARIOS)}")
    return (files("ebbtide.simulator") / "stories" / f"{name}.yaml").read_text(encoding="utf-8")


def story_named(name: str, seed: int) -> Story:
    story = parse_story(text_of(name), f"{name}.yaml")
    return replace(story, keys=story.keys.model_copy(update={"seed": seed}))


def incidents_of(world: World, event: EventKeys) -> list[tuple[str, str]]:
    """What a story's event is to a world alone, as it can be planned and saved."""
    kind = event.kind
    match kind:
        case "replicas":
            return [("wanted", f"default/{name}={count}") for name, count in event.replicas.items()]
        case "capacity" if event.capacity is not None and event.capacity.left is not None:
            offers = offers_of(event.capacity, world.machines.book.pools.values())
            return [("capacity", f"{offer}={event.capacity.left}") for offer in offers]
        case "cordon" | "uncordon":
            return [(f"person-{kind}s", event.value)]
        case "spot_storm" | "zone_down" | "zone_up":
            return [incident_of(kind, event.value)]
    raise ConfigError(f"a scenario cannot have the event {kind}: play it as a story")


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


NAME = "a day"
MORNING = START + 6 * HOUR
CRASHING = 3 * HOUR
LENGTH = 19 * HOUR
AGE_SECONDS = 24 * HOUR


def tell(seed: int) -> Scenario:
    small, large = (with_spot(EC2[name]) for name in TYPES)
    pools = (
        Pool("general", (small, large), SHOP_ZONES, Market.ON_DEMAND),
        Pool("spot", (small,), SHOP_ZONES, Market.SPOT),
    )
    settings = Settings(cluster="demo", pools=pools, min_workers=3, max_workers=16)
    world = World(Rules(call_seconds=0.05, rebalance_chance=0.3), pools, seed, MORNING - WARM_UP_SECONDS)
    world.controllers.began_at = float(START)
    add_system(world, SHOP_ZONES)
    for zone in SHOP_ZONES:
        world.add_node("general", small.name, zone, Market.ON_DEMAND, AGE_SECONDS)
    world.add_workload(*database("database", 3))
    world.add_workload(*guarded(deployment("web", 500, 512, Demand(Curve.DAY, 4, 64)), 4))
    world.add_workload(deployment("api", 300, 384, Demand(Curve.DAY, 2, 30), 0.6))
    world.plan(START + 13 * HOUR, "interrupt-all", SHOP_ZONES[1])
    world.plan(START + 14 * HOUR + HOUR // 2, "interrupt-all", SHOP_ZONES[2])
    world.advance_to(MORNING)
    return Scenario(NAME, seed, world, settings, LENGTH, faults=("crash",), calm_seconds=LENGTH - CRASHING)
