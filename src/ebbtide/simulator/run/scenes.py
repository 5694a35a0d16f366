"""What a live simulation is played with: a small cluster, and the cluster of the demo's page, a shop with
its game servers and development environments on EC2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal

from ebbtide.core.consolidation.game_servers import PLAN, PLAYERS
from ebbtide.core.packing.pack import installed_packer
from ebbtide.core.prices import EC2
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, Schedule, Signal, SignalKind, Target, ZeroDefaults
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.world.rules import BudgetSpec, Curve, Demand, Kind, Rules, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import ZONES, World, add_system, database, deployment, guarded, pool

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


HOURS = 3600.0
OFFICE_HOURS = 9
MOST_DAYS = 200
SATURDAY = 5
DAY_SECONDS = 86_400
SHOP_ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
SPOT_SHARE = Decimal("0.42")
"""What a spot node costs of the price on demand, in this demo: EC2's own spot prices change by the hour."""
SPOT_SOURCE = "the demo: 42% of the price on demand"
TYPES = ("m7i.xlarge", "m7i.2xlarge")
AT_FIRST = 38
"""Workers that are there when the demo begins, early in the afternoon."""
SPOT_EVERY = 4
POLICY_AGE_SECONDS = 60 * DAY_SECONDS
EVENING = 20 * HOURS
ENVIRONMENTS = ("checkout", "search", "payments", "mobile", "ads", "data", "infra", "partner")
"""One for each team, used in office hours."""
SIDE_PROJECTS = ("wiki", "reports", "staging")
SHOP_DEFAULTS = ZeroDefaults(
    idle_threshold_seconds=30 * 60, keep_alive_window_seconds=600, check_interval_seconds=60
)


def shop_scene() -> LiveScene:
    settings = shop_settings()

    def world(seed: int, start: float) -> World:
        return shop_world(settings, seed, start)

    guarded = ("shop/web", "shop/api", "shop/search", "media/encoder")
    return LiveScene(settings, SHOP_DEFAULTS, world, shop_policies, "shop/flash-sale", 80, guarded)


def shop_settings() -> Settings:
    """The profile `balanced`, with a maximum, with drains that are given up sooner than by default, since
    people watch them, and with a cent for each pod that is moved: with less, half of the cluster was
    replaced to save the price of one node."""
    types = tuple(with_spot(EC2[name]) for name in TYPES)
    pools = (
        Pool("general", types, SHOP_ZONES, Market.ON_DEMAND, weight=1),
        Pool("spot", types, SHOP_ZONES, Market.SPOT, labels=(("capacity", "spot"),), max_workers=16),
    )
    repacking = ConsolidationSettings(
        enabled=True,
        cooldown_seconds=300,
        backoff_max_seconds=14_400,
        min_uptime_seconds=600,
        min_idle_seconds=60,
        min_savings_per_hour=Decimal(0),
        min_savings_fraction=Decimal("0.01"),
        max_fill=Decimal("0.95"),
        move_cost=Decimal("0.01"),
        moves_fraction=Decimal(2),
        at_once_fraction=Decimal("0.05"),
    )
    return Settings(
        cluster="demo",
        pools=pools,
        min_workers=3,
        max_workers=60,
        pending_up_seconds=5,
        cooldown_up_seconds=0,
        batch_up_fraction=1.0,
        late_join_seconds=180,
        settled_seconds=5400,
        scale_down_by=JudgedBy.NODE,
        idle_down_seconds=300,
        cooldown_down_seconds=60,
        batch_down_fraction=0.15,
        budget_fraction=0.30,
        drain_timeout_seconds=120,
        drain_attempts=2,
        repair=True,
        consolidation=repacking,
        packer=installed_packer(),
    )


def with_spot(listed: NodeType) -> NodeType:
    """The type with a price for spot, which the list has none of: EC2 sells spot, Hetzner does not."""
    price = listed.price
    spot = price and replace(price, per_hour=price.per_hour * SPOT_SHARE, source=SPOT_SOURCE)
    return replace(listed, spot_price=spot)


def shop_world(settings: Settings, seed: int, start: float) -> World:
    rules = Rules(call_seconds=0.02, rebalance_chance=0.3, spot_life_seconds=4 * DAY_SECONDS)
    world = World(rules, settings.pools, seed, start - 600)
    world.controllers.began_at = start - start % DAY_SECONDS
    world.bare_type = "c7i.xlarge"
    add_system(world, SHOP_ZONES)
    for number in range(AT_FIRST):
        pool, market = ("general", Market.ON_DEMAND) if number % SPOT_EVERY else ("spot", Market.SPOT)
        world.add_node(pool, TYPES[number % 2], SHOP_ZONES[number % 3], market, DAY_SECONDS - number * 600)
    for spec, *budgets in _workloads(world.controllers.began_at):
        world.add_workload(spec, *budgets)
    world.advance_to(start)
    return world


def _workloads(began_at: float) -> list[tuple[WorkloadSpec, *tuple[BudgetSpec, ...]]]:
    shop = [
        _guarded(_deployment("shop/web", 1000, 2048, Demand(Curve.DAY, 12, 60))),
        _guarded(_deployment("shop/api", 800, 1536, Demand(Curve.DAY, 8, 44))),
        _guarded(_deployment("shop/search", 2000, 6144, Demand(low=5))),
        _stateful("shop/orders-db", 1500, 8192, 3),
        _stateful("shop/cache", 500, 4096, 3),
    ]
    spot = replace(_deployment("media/encoder", 1500, 3072, Demand(Curve.DAY, 2, 14)))
    on_spot = replace(spot.template.scheduling, node_selector=(("capacity", "spot"),))
    spot = replace(spot, template=replace(spot.template, scheduling=on_spot))
    games = [_game("games/arena", "0"), _game("games/arena-busy", "7")]
    asleep = [_asleep(name, number, began_at) for number, name in enumerate((*ENVIRONMENTS, *SIDE_PROJECTS))]
    burst = _deployment("shop/flash-sale", 1000, 2048, Demand(low=0))
    return [*shop, (spot,), *((game,) for game in games), *((each,) for each in asleep), (burst,)]


def _deployment(key: str, cpu: int, memory: int, demand: Demand, use: float = 0.6) -> WorkloadSpec:
    namespace, name = key.split("/")
    return WorkloadSpec(pod_template(name, cpu, memory, namespace), demand=demand, use_fraction=use)


def _guarded(spec: WorkloadSpec) -> tuple[WorkloadSpec, BudgetSpec]:
    return spec, BudgetSpec(spec.template.name, spec.key, max_unavailable=3)


def _stateful(key: str, cpu: int, memory: int, replicas: int) -> tuple[WorkloadSpec, BudgetSpec]:
    spec = replace(_deployment(key, cpu, memory, Demand(low=replicas)), kind=Kind.STATEFUL_SET, volume=True)
    return replace(spec, start_seconds=15.0), BudgetSpec(spec.template.name, spec.key, max_unavailable=1)


def _game(key: str, players: str) -> WorkloadSpec:
    """Servers that say how many play on them: those without players may be moved, the others never."""
    high = 24 if players == "0" else 8
    demand = Demand(Curve.DAY, 2, high, peak_second=EVENING)
    spec = _deployment(key, 1500, 3800, demand, 0.4)
    said = ((PLAN, "payperplay"), (PLAYERS, players))
    return replace(spec, template=replace(spec.template, annotations=said))


def _asleep(name: str, number: int, began_at: float) -> WorkloadSpec:
    office = name in ENVIRONMENTS
    used = (
        _working_days(began_at, 8 * HOURS + number * 600.0)
        if office
        else Demand(
            Curve.BURST,
            0,
            5,
            every_seconds=12 * HOURS,
            burst_seconds=1.5 * HOURS,
            offset_seconds=10 * HOURS + number * 600.0,
        )
    )
    spec = _deployment(_key(name), 1500, 3072, Demand(low=3), 0.3)
    return replace(spec, requests=used, start_seconds=20.0)


def _working_days(began_at: float, opens: float) -> Demand:
    """Requests from Monday to Friday, for as many days as a demo may run; the first day is that of
    `began_at`."""
    points: list[tuple[float, int]] = []
    for day in range(MOST_DAYS):
        midnight = day * DAY_SECONDS
        if datetime.fromtimestamp(began_at + midnight, UTC).weekday() < SATURDAY:
            points += [(midnight + opens, 5), (midnight + opens + OFFICE_HOURS * HOURS, 0)]
    return Demand(Curve.RECORDED, points=tuple(points))


def _key(name: str) -> str:
    return f"dev/{name}" if name in ENVIRONMENTS else f"internal/{name}"


def shop_policies(now: int) -> list[Policy]:
    """Activity is what people send. Development environments also wake by the clock, before people come."""
    found = []
    for number, name in enumerate((*ENVIRONMENTS, *SIDE_PROJECTS)):
        key = _key(name)
        namespace, _ = key.split("/")
        wakes = Schedule("45 7 * * *", "UTC", wake=True, written_at=now)
        policy = Policy(
            id=f"00000000-0000-4000-8000-{number:012d}",
            name=name,
            target=Target((WorkloadRef(WorkloadKind.DEPLOYMENT, namespace, name),)),
            scale_to_zero=True,
            signals=(Signal(SignalKind.PROMQL_RATE, f'requests{{workload="{key}"}}'),),
            schedules=(wakes,) if name in ENVIRONMENTS else (),
            currency="USD",
            created_at=now - POLICY_AGE_SECONDS,
            updated_at=now - POLICY_AGE_SECONDS,
        )
        found.append(policy)
    return found
