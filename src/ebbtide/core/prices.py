"""What nodes cost: the built-in types, the price book, and cost over time.

The catalogue is the one list of types that can be named without being defined: pools, the price book, the
simulator and the documentation all read it. A price says where it came from and from which day. Those of
EC2 are of us-east-1 on 2026-07-20, on demand, sizes those after the kubelet's own share, both as the
Karpenter project publishes them (aws/karpenter-provider-aws, commit 1d927085). Spot prices are not
listed: they change.

Books are laid over each other: the built-in list, then the price file (which `ebbtide prices update`
fills from the cloud), then what a pool says of its types. A price that no book has is unknown, never
zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ebbtide.model.pod import Resources
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market, Node, Snapshot

Prices = Mapping[tuple[str, Market], Price]
SOURCE = "Ebbtide built-in list"
AS_OF = "2026-11-15"
MIB_PER_GIB = 1024
SECONDS_PER_HOUR = 3600
EC2_AS_OF = "2026-07-20"
EC2_SOURCE = "Ebbtide built-in list (us-east-1)"

TABLE = """
name            cpu_milli memory_mib pods  usd_per_hour
t3.medium           1930    3246   17  0.0416
t3.large            1930    6837   35  0.0832
t3.xlarge           3920   14162   58  0.1664
t3.2xlarge          7910   29317   58  0.3328
t4g.medium          1930    3187   17  0.0336
t4g.large           1930    6778   35  0.0672
t4g.xlarge          3920   14103   58  0.1344
t4g.2xlarge         7910   29258   58  0.2688
m7i.large           1930    6903   29  0.1008
m7i.xlarge          3920   14162   58  0.2016
m7i.2xlarge         7910   29317   58  0.4032
m7i.4xlarge        15890   57691  234  0.8064
m7i-flex.large      1930    6903   29  0.09576
m7i-flex.xlarge     3920   14162   58  0.19152
m7i-flex.2xlarge    7910   29317   58  0.38304
m7i-flex.4xlarge   15890   57691  234  0.76608
m7g.large           1930    6844   29  0.0816
m7g.xlarge          3920   14103   58  0.1632
m7g.2xlarge         7910   29258   58  0.3264
m7g.4xlarge        15890   57632  234  0.6528
m8g.large           1930    6844   29  0.08976
m8g.xlarge          3920   14103   58  0.17952
m8g.2xlarge         7910   29258   58  0.35904
m8g.4xlarge        15890   57632  234  0.71808
c7i.large           1930    3114   29  0.08925
c7i.xlarge          3920    6584   58  0.1785
c7i.2xlarge         7910   14162   58  0.357
c7i.4xlarge        15890   27381  234  0.714
c7g.large           1930    3055   29  0.0725
c7g.xlarge          3920    6525   58  0.145
c7g.2xlarge         7910   14103   58  0.29
c7g.4xlarge        15890   27322  234  0.58
c8g.large           1930    3055   29  0.07976
c8g.xlarge          3920    6525   58  0.15952
c8g.2xlarge         7910   14103   58  0.31904
c8g.4xlarge        15890   27322  234  0.63808
r7i.large           1930   14481   29  0.1323
r7i.xlarge          3920   29317   58  0.2646
r7i.2xlarge         7910   59627   58  0.5292
r7i.4xlarge        15890  118312  234  1.0584
r7g.large           1930   14422   29  0.1071
r7g.xlarge          3920   29258   58  0.2142
r7g.2xlarge         7910   59568   58  0.4284
r7g.4xlarge        15890  118253  234  0.8568
r8g.large           1930   14422   29  0.11782
r8g.xlarge          3920   29258   58  0.23564
r8g.2xlarge         7910   59568   58  0.47128
r8g.4xlarge        15890  118253  234  0.94256
"""


@dataclass(frozen=True, slots=True)
class PriceBook:
    prices: Prices = field(default_factory=dict)

    def price(self, type_name: str, market: Market = Market.ON_DEMAND) -> Price | None:
        return self.prices.get((type_name, market))

    def under(self, above: PriceBook) -> PriceBook:
        """This book with another laid over it, whose prices win."""
        return PriceBook({**self.prices, **above.prices})

    def priced(self, node_type: NodeType) -> NodeType:
        """The type with the book's prices where it has none of its own."""
        return replace(
            node_type,
            price=node_type.price or self.price(node_type.name),
            spot_price=node_type.spot_price or self.price(node_type.name, Market.SPOT),
        )

    def priced_pool(self, pool: Pool) -> Pool:
        return replace(pool, types=tuple(self.priced(node_type) for node_type in pool.types))


def built_in_book() -> PriceBook:
    types = CATALOGUE.values()
    return PriceBook({(t.name, Market.ON_DEMAND): t.price for t in types if t.price is not None})


def book_of_pools(pools: Iterable[Pool]) -> PriceBook:
    """What the pools themselves say of their types."""
    return PriceBook(
        {
            (node_type.name, market): price
            for pool in pools
            for node_type in pool.types
            for market in Market
            if (price := node_type.price_in(market)) is not None
        }
    )


def _hetzner(name: str, cpus: int, memory_gib: int, per_hour: str) -> NodeType:
    return NodeType(
        name=name,
        allocatable=Resources(cpu_milli=cpus * 1000, memory_mib=memory_gib * MIB_PER_GIB),
        price=Price(per_hour=Decimal(per_hour), currency="EUR", source=SOURCE, as_of=AS_OF),
    )


def _ec2(line: str) -> NodeType:
    name, cpu_milli, memory_mib, pods, per_hour = line.split()
    price = Price(Decimal(per_hour), "USD", EC2_SOURCE, EC2_AS_OF)
    return NodeType(name, Resources(int(cpu_milli), int(memory_mib)), int(pods), price)


HETZNER: Mapping[str, NodeType] = {
    node_type.name: node_type
    for node_type in (
        _hetzner("cpx12", 1, 2, "0.0048"),
        _hetzner("cpx22", 2, 4, "0.0096"),
        _hetzner("cpx32", 4, 8, "0.0168"),
        _hetzner("cpx42", 8, 16, "0.0312"),
        _hetzner("cpx52", 12, 24, "0.0624"),
        _hetzner("cpx62", 16, 32, "0.1056"),
    )
}
EC2: Mapping[str, NodeType] = {
    node_type.name: node_type for node_type in map(_ec2, TABLE.strip().splitlines()[1:])
}
EC2_FAMILIES = tuple(dict.fromkeys(f"{name.partition('.')[0]}.*" for name in EC2))
CATALOGUE: Mapping[str, NodeType] = {**HETZNER, **EC2}


@dataclass(frozen=True, slots=True)
class CostPoint:
    """From this moment on, until the next point, the workers cost so much an hour."""

    at: int
    per_hour: Mapping[str, Decimal]
    """By currency: money of two currencies is never added up."""
    unpriced: int = 0
    """Workers whose price is not known."""
    workers: int | None = None
    """How many there were; None where an earlier version did not note it."""
    pending: int | None = None
    on_demand: Mapping[str, Decimal] | None = None
    """What the same workers would cost an hour with every one of them on demand, by currency."""
    pools: Mapping[str, Mapping[str, Decimal]] | None = None
    """Cost an hour by pool and currency."""


def price_of(node: Node, settings: Settings) -> Price | None:
    node_type = _type_of(node, settings)
    return None if node_type is None else node_type.price_in(node.market)


def _type_of(node: Node, settings: Settings) -> NodeType | None:
    pool = settings.pool_named(node.pool)
    return None if pool is None else pool.type_named(node.instance_type)


def cost_point(snapshot: Snapshot, settings: Settings) -> CostPoint:
    total: dict[str, Decimal] = {}
    on_demand: dict[str, Decimal] = {}
    pools: dict[str, dict[str, Decimal]] = {}
    unpriced = 0
    for node in snapshot.cluster.workers:
        node_type = _type_of(node, settings)
        price = None if node_type is None else node_type.price_in(node.market)
        if node_type is None or price is None:
            unpriced += 1
        else:
            _add(total, price)
            _add(pools.setdefault(node.pool, {}), price)
            _add(on_demand, _listed(node_type, price))
    cluster = snapshot.cluster
    counts = len(cluster.workers), len(cluster.waiting_pods)
    return CostPoint(snapshot.at, total, unpriced, *counts, on_demand, pools)


def _add(total: dict[str, Decimal], price: Price) -> None:
    total[price.currency] = total.get(price.currency, Decimal(0)) + price.per_hour


def _listed(node_type: NodeType, paid: Price) -> Price:
    """The price on demand, where it is known and in the same money; else what is paid, so no spot saving is
    claimed that is not known."""
    listed = node_type.price
    return listed if listed is not None and listed.currency == paid.currency else paid


def paid(points: Sequence[CostPoint], currency: str, since: int, until: int) -> Decimal:
    """What was paid from `since` to `until`, by points in the order of time. What was before the first point
    is not known and not counted."""
    total = Decimal(0)
    for number, point in enumerate(points):
        end = points[number + 1].at if number + 1 < len(points) else until
        seconds = min(end, until) - max(point.at, since)
        if seconds > 0:
            total += point.per_hour.get(currency, Decimal(0)) * seconds
    return total / SECONDS_PER_HOUR
