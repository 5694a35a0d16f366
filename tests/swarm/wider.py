"""What was added to the worlds of the swarm later: profiles, pools with taints and labels, workloads that
choose their nodes, budgets that overlap or admit nothing, policies of every kind, and roll-outs.

Each has a stream of its own, so a cluster for which none of it is drawn is what it was before.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, replace

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.nodes.room import HOSTNAME_LABEL, ZONE_LABEL
from ebbtide.model.pod import (
    AntiAffinity,
    LabelSelector,
    Pod,
    Requirement,
    Scheduling,
    SelectorOperator,
    Spread,
    Taint,
    TaintEffect,
    Toleration,
)
from ebbtide.model.pool import Pool
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.world.rules import BudgetSpec, Curve, Demand, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import World

PROFILE_SHARE, POOLS_SHARE, BUDGETS_SHARE = 0.4, 0.5, 0.3
LABELLED = (("tier", "special"),)
TAINT = Taint("dedicated", TaintEffect.NO_SCHEDULE, "special")
TOLERATION = Toleration("dedicated", value="special", effect=TaintEffect.NO_SCHEDULE)
SPECIAL = "special"


@dataclass(frozen=True, slots=True)
class Streams:
    """One source of chance for each addition, of the same seed."""

    seed: int

    def of(self, what: str) -> random.Random:
        return random.Random(f"swarm/{self.seed}/{what}")


def with_profile(settings: Settings, name: str, chance: random.Random) -> Settings:
    """The values of the profile itself; times that are longer than a run are cut."""
    text = f"profile: {name}\npools: [{{name: any, types: [cpx32], zones: [a]}}]\n"
    given = build_config(parse_document(text, name), {}).settings
    consolidation = replace(
        given.consolidation,
        min_uptime_seconds=min(given.consolidation.min_uptime_seconds, 120),
        move_timeout_seconds=90,
        backoff_max_seconds=chance.choice((0, given.consolidation.backoff_max_seconds)),
    )
    return replace(
        settings,
        pending_up_seconds=given.pending_up_seconds,
        idle_down_seconds=given.idle_down_seconds,
        cooldown_up_seconds=given.cooldown_up_seconds,
        cooldown_down_seconds=given.cooldown_down_seconds,
        batch_up_fraction=given.batch_up_fraction,
        batch_down_fraction=given.batch_down_fraction,
        scale_down_by=given.scale_down_by,
        settled_seconds=chance.choice((0, 600, given.settled_seconds)),
        late_join_seconds=given.late_join_seconds,
        budget_fraction=given.budget_fraction,
        repair=given.repair,
        repair_after_seconds=120,
        replace_drifted=given.replace_drifted,
        consolidation=consolidation,
    )


def profiled(settings: Settings, chance: random.Random) -> Settings:
    """In some clusters a profile; in some only nodes are judged one by one, or consolidation is on."""
    drawn = chance.random()
    if drawn < PROFILE_SHARE:
        return with_profile(settings, chance.choice(("balanced", "eager")), chance)
    if drawn < 1.5 * PROFILE_SHARE:
        consolidation = replace(settings.consolidation, enabled=True)
        return replace(settings, scale_down_by=JudgedBy.NODE, consolidation=consolidation)
    return settings


def special_pool(settings: Settings, chance: random.Random) -> Pool:
    """A pool with a label, mostly with a taint, in some of the zones of the first."""
    first = settings.pools[0]
    zones = tuple(sorted(chance.sample(first.zones, chance.randint(1, len(first.zones)))))
    return replace(
        first,
        name=SPECIAL,
        zones=zones,
        labels=LABELLED,
        taints=(TAINT,) if chance.random() < 0.7 else (),
        market=chance.choice((Market.ON_DEMAND, Market.ON_DEMAND, Market.SPOT)),
        min_workers=chance.choice((0, 0, 1)),
        max_workers=chance.choice((None, 2, 3)),
        weight=0,
        limits=None,
    )


def add_pool(world: World, settings: Settings, chance: random.Random) -> Settings:
    """With up to two nodes of it, and room for them below the maximum."""
    pool = special_pool(settings, chance)
    count = max(pool.min_workers, chance.randint(0, 2))
    most = settings.max_workers + count + chance.randint(0, 2)
    world.machines.book.pools[pool.name] = pool
    for number in range(count):
        node_type, zone = chance.choice(pool.types), pool.zones[number % len(pool.zones)]
        world.add_node(pool.name, node_type.name, zone, pool.market, 7100 + number)
    return replace(settings, pools=(*settings.pools, pool), max_workers=most)


def add_choosy(world: World, settings: Settings, chance: random.Random) -> None:
    """Workloads that tolerate the taint, ask for the label, spread over zones or keep apart on hosts."""
    for number in range(chance.randint(1, 3)):
        name = f"choosy{number}"
        template = pod_template(name, chance.choice((100, 300, 600)), chance.choice((128, 512)))
        template = replace(template, scheduling=_choosy(template, settings, chance))
        low = chance.randint(1, 3)
        burst = Demand(Curve.BURST, low, low + 2, every_seconds=1500, burst_seconds=600)
        demand = chance.choice((Demand(low=low), Demand(low=low), burst))
        spec = WorkloadSpec(template, demand=demand, use_fraction=chance.uniform(0.05, 0.9))
        budget = BudgetSpec(f"budget-{name}", spec.key, max_unavailable=chance.randint(0, 2))
        world.add_workload(spec, *([budget] if chance.random() < 0.3 else []))


def _choosy(template: Pod, settings: Settings, chance: random.Random) -> Scheduling:
    own = LabelSelector((Requirement("app", SelectorOperator.IN, (template.name,)),))
    has_special = settings.pool_named(SPECIAL) is not None
    asks = chance.choice(("special", "special", "tolerates", "spread", "apart", "both"))
    special = Scheduling(node_selector=LABELLED if has_special else (), tolerations=(TOLERATION,))
    spread, apart = (Spread(ZONE_LABEL, 1, own),), (AntiAffinity(HOSTNAME_LABEL, own),)
    return {
        "special": special,
        "tolerates": Scheduling(tolerations=(TOLERATION,)),
        "spread": Scheduling(spread=spread),
        "apart": Scheduling(anti_affinity=apart),
        "both": Scheduling(tolerations=(TOLERATION,), spread=spread, anti_affinity=apart),
    }[asks]


def add_budgets(world: World, chance: random.Random) -> None:
    """Budgets over the same pods as another, and such as never admit an eviction."""
    book = world.pods.book.workloads
    keys = [key for key, found in book.items() if not found.spec.kind.per_node]
    for number, key in enumerate(chance.sample(keys, min(len(keys), chance.randint(1, 2)))):
        for copy in range(chance.randint(1, 2)):
            name = f"further{number}-{copy}"
            spec = chance.choice(
                (
                    BudgetSpec(name, key, max_unavailable=1),
                    BudgetSpec(name, key, max_unavailable=0),
                    BudgetSpec(name, key, min_available=99),
                )
            )
            world.controllers.budget_specs.append(spec)


def widened(world: World, settings: Settings, streams: Streams) -> Settings:
    """The settings with what was added, and the world with it."""
    settings = profiled(settings, streams.of("profile"))
    pools = streams.of("pools")
    if pools.random() < POOLS_SHARE:
        settings = add_pool(world, settings, pools)
    if pools.random() < POOLS_SHARE:
        add_choosy(world, settings, pools)
    budgets = streams.of("budgets")
    if budgets.random() < BUDGETS_SHARE:
        add_budgets(world, budgets)
    return settings
