"""The cluster of the demo's page: a shop with its game servers and development environments on EC2, about
forty nodes at noon. Prices on demand are those of the built-in list; spot nodes cost a share of them."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal

from ebbtide.core.consolidation.game_servers import PLAN, PLAYERS
from ebbtide.core.packing.pack import installed_packer
from ebbtide.core.prices import EC2
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.node import Market
from ebbtide.model.policy import Policy, Schedule, Signal, SignalKind, Target, ZeroDefaults
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.workload import WorkloadKind, WorkloadRef
from ebbtide.simulator.run.live_scene import LiveScene
from ebbtide.simulator.world.catalogue import add_system
from ebbtide.simulator.world.rules import BudgetSpec, Kind, Rules, WorkloadSpec, pod_template
from ebbtide.simulator.world.workload import Curve, Demand
from ebbtide.simulator.world.world import World

HOUR = 3600.0
OFFICE_HOURS = 9
MOST_DAYS = 200
SATURDAY = 5
DAY_SECONDS = 86_400
ZONES = ("us-east-1a", "us-east-1b", "us-east-1c")
SPOT_SHARE = Decimal("0.42")
"""What a spot node costs of the price on demand, in this demo: EC2's own spot prices change by the hour."""
SPOT_SOURCE = "the demo: 42% of the price on demand"
TYPES = ("m7i.xlarge", "m7i.2xlarge")
AT_FIRST = 38
"""Workers that are there when the demo begins, early in the afternoon."""
SPOT_EVERY = 4
POLICY_AGE_SECONDS = 60 * DAY_SECONDS
EVENING = 20 * HOUR
ENVIRONMENTS = ("checkout", "search", "payments", "mobile", "ads", "data", "infra", "partner")
"""One for each team, used in office hours."""
SIDE_PROJECTS = ("wiki", "reports", "staging")
DEFAULTS = ZeroDefaults(
    idle_threshold_seconds=30 * 60, keep_alive_window_seconds=600, check_interval_seconds=60
)


def shop_scene() -> LiveScene:
    settings = shop_settings()

    def world(seed: int, start: float) -> World:
        return shop_world(settings, seed, start)

    guarded = ("shop/web", "shop/api", "shop/search", "media/encoder")
    return LiveScene(settings, DEFAULTS, world, shop_policies, "shop/flash-sale", 80, guarded)


def shop_settings() -> Settings:
    """The profile `balanced`, with a maximum, with drains that are given up sooner than by default, since
    people watch them, and with a cent for each pod that is moved: with less, half of the cluster was
    replaced to save the price of one node."""
    types = tuple(with_spot(EC2[name]) for name in TYPES)
    pools = (
        Pool("general", types, ZONES, Market.ON_DEMAND, weight=1),
        Pool("spot", types, ZONES, Market.SPOT, labels=(("capacity", "spot"),), max_workers=16),
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
    add_system(world, ZONES)
    for number in range(AT_FIRST):
        pool, market = ("general", Market.ON_DEMAND) if number % SPOT_EVERY else ("spot", Market.SPOT)
        world.add_node(pool, TYPES[number % 2], ZONES[number % 3], market, DAY_SECONDS - number * 600)
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
    asleep = [_sleeper(name, number, began_at) for number, name in enumerate((*ENVIRONMENTS, *SIDE_PROJECTS))]
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


def _sleeper(name: str, number: int, began_at: float) -> WorkloadSpec:
    office = name in ENVIRONMENTS
    used = (
        _working_days(began_at, 8 * HOUR + number * 600.0)
        if office
        else Demand(
            Curve.BURST,
            0,
            5,
            every_seconds=12 * HOUR,
            burst_seconds=1.5 * HOUR,
            offset_seconds=10 * HOUR + number * 600.0,
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
            points += [(midnight + opens, 5), (midnight + opens + OFFICE_HOURS * HOUR, 0)]
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
