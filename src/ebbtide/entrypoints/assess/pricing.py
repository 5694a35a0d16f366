"""The price of a node of any cloud: exact if a list has it, else a range with the reason. A node of an
unknown cloud has no price.

These prices are for reports only; nothing is launched by them. They were typed in by hand and not checked
against the clouds: good for a first look, not for a bill. A report names the list and its date next to
each price.

    GKE, AKS       list prices on demand for Linux in us-central1 and eastus, USD per hour
    Hetzner        types that are not built in, EUR: from the monthly price at the end of 2025 to that of
                   2026. Which one a server costs depends on when and where it was ordered
    EC2 regions    the price of an m5.large compared with us-east-1
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from ebbtide.core import prices
from ebbtide.core.prices import PriceBook
from ebbtide.entrypoints.assess.ec2_families import ec2_price
from ebbtide.model.pod import Resources
from ebbtide.model.pool import Price
from ebbtide.model.snapshot import Market, Node

AS_OF = "2026-11-15"


class ListedCloud(StrEnum):
    EC2 = "EC2"
    HETZNER = "Hetzner"
    GKE = "GKE"
    AKS = "AKS"
    UNKNOWN = ""


PREFIXES = {
    "aws://": ListedCloud.EC2,
    "hcloud://": ListedCloud.HETZNER,
    "gce://": ListedCloud.GKE,
    "azure://": ListedCloud.AKS,
}
HOME = {ListedCloud.EC2: "us-east-1", ListedCloud.GKE: "us-central1", ListedCloud.AKS: "eastus"}
"""The region that each list is of."""


@dataclass(frozen=True, slots=True)
class Listed:
    cpus: int
    memory_gib: Decimal
    per_hour: Decimal


def _table(text: str) -> dict[str, Listed]:
    rows = (line.split() for line in text.strip().splitlines())
    return {name: Listed(int(cpus), Decimal(gib), Decimal(price)) for name, cpus, gib, price in rows}


GKE = _table("""
e2-medium          2    4   0.03350571
e2-standard-2      2    8   0.06701142
e2-standard-4      4   16   0.13402284
e2-standard-8      8   32   0.26804568
e2-standard-16    16   64   0.53609136
e2-highmem-2       2   16   0.09039966
e2-highmem-4       4   32   0.18079932
e2-highcpu-4       4    4   0.09894048
n1-standard-1      1    3.75  0.04749975
n1-standard-2      2    7.5 0.09499950
n1-standard-4      4   15   0.18999900
n1-standard-8      8   30   0.37999800
n2-standard-2      2    8   0.09711800
n2-standard-4      4   16   0.19423600
n2-standard-8      8   32   0.38847200
n2-standard-16    16   64   0.77694400
n2d-standard-2     2    8   0.08449200
n2d-standard-4     4   16   0.16898400
n2d-standard-8     8   32   0.33796800
""")
AKS = _table("""
Standard_B2s        2    4   0.0416
Standard_B2ms       2    8   0.0832
Standard_B4ms       4   16   0.1660
Standard_D2s_v3     2    8   0.0960
Standard_D4s_v3     4   16   0.1920
Standard_D8s_v3     8   32   0.3840
Standard_D2s_v4     2    8   0.0960
Standard_D4s_v4     4   16   0.1920
Standard_D8s_v4     8   32   0.3840
Standard_D2s_v5     2    8   0.0960
Standard_D4s_v5     4   16   0.1920
Standard_D8s_v5     8   32   0.3840
Standard_D16s_v5   16   64   0.7680
Standard_D2as_v5    2    8   0.0860
Standard_D4as_v5    4   16   0.1720
Standard_D8as_v5    8   32   0.3440
Standard_E2s_v5     2   16   0.1260
Standard_E4s_v5     4   32   0.2520
Standard_E8s_v5     8   64   0.5040
Standard_F2s_v2     2    4   0.0850
Standard_F4s_v2     4    8   0.1690
Standard_F8s_v2     8   16   0.3380
""")


@dataclass(frozen=True, slots=True)
class Ranged:
    """EUR a month, from and to."""

    low: Decimal
    high: Decimal


def _ranges(text: str) -> dict[str, Ranged]:
    rows = (line.split() for line in text.strip().splitlines())
    return {name: Ranged(Decimal(low), Decimal(high)) for name, low, high in rows}


HETZNER = _ranges("""
cx22     3.79    5.99
cx32     6.80    8.99
cx42    14.99   16.49
cx52    29.49   29.99
cx23     3.49    5.99
cx33     5.49    8.99
cx43     9.49   16.49
cx53    17.49   29.99
cax11    3.79    6.49
cax21    6.49   10.99
cax31   12.49   21.49
cax41   24.49   41.49
cpx11    4.99   17.99
cpx21    9.49   32.49
cpx31   16.49   62.99
cpx41   30.49  120.99
cpx51   60.49  238.49
ccx13   12.49   43.49
ccx23   24.49   86.49
ccx33   48.49  138.99
ccx43   96.49  276.49
ccx53  192.49  533.99
ccx63  288.49  853.99
""")
EC2_REGIONS: Mapping[str, Decimal] = {
    region: Decimal(factor)
    for region, factor in {
        "us-east-1": "1",
        "us-east-2": "1",
        "us-west-1": "1.17",
        "us-west-2": "1",
        "ca-central-1": "1.11",
        "eu-west-1": "1.11",
        "eu-west-2": "1.16",
        "eu-west-3": "1.17",
        "eu-central-1": "1.20",
        "eu-north-1": "1.06",
        "eu-south-1": "1.17",
        "ap-south-1": "1.05",
        "ap-southeast-1": "1.25",
        "ap-southeast-2": "1.25",
        "ap-northeast-1": "1.29",
        "ap-northeast-2": "1.23",
        "af-south-1": "1.32",
        "sa-east-1": "1.59",
    }.items()
}
NEAR = Decimal("0.10")
"""Families differ by about this much from the factor of their region."""
ANYWHERE = (Decimal("0.95"), Decimal("1.70"))
"""A region that is not in the list, compared with the one that is."""
SPOT: Mapping[ListedCloud, tuple[Decimal, Decimal]] = {
    ListedCloud.EC2: (Decimal("0.30"), Decimal("0.60")),
    ListedCloud.GKE: (Decimal("0.09"), Decimal("0.40")),
    ListedCloud.AKS: (Decimal("0.10"), Decimal("0.50")),
}
"""What spot usually costs of the price on demand, from and to."""


REGION_LABEL = "topology.kubernetes.io/region"
MIB_PER_GIB = 1024
GIB_PER_CPU = 4
"""Memory that counts as much as one CPU, to compare sizes."""
MICRO = Decimal("0.000001")
HOURS_A_MONTH = 730


@dataclass(frozen=True, slots=True)
class NodePrice:
    """An amount an hour. `low` and `high` are the same where it is known."""

    low: Decimal
    high: Decimal
    currency: str
    basis: str
    """Where it comes from, or why it is a range."""

    @property
    def exact(self) -> bool:
        return self.low == self.high

    @property
    def middle(self) -> Decimal:
        return (self.low + self.high) / 2

    def times(self, low: Decimal, high: Decimal, basis: str) -> NodePrice:
        return replace(
            self, low=(self.low * low).quantize(MICRO), high=(self.high * high).quantize(MICRO), basis=basis
        )


def cloud_of(node: Node) -> ListedCloud:
    found = next((cloud for prefix, cloud in PREFIXES.items() if node.provider_id.startswith(prefix)), None)
    if found is not None:
        return found
    if ec2_price(node.instance_type) is not None:
        return ListedCloud.EC2
    hetzner = node.instance_type in prices.HETZNER or node.instance_type in HETZNER
    return ListedCloud.HETZNER if hetzner else ListedCloud.UNKNOWN


def region_of(node: Node) -> str:
    """By its label; of EC2 also by the zone, which is the region and a letter."""
    told = dict(node.labels).get(REGION_LABEL, "")
    return told or (node.zone[:-1] if node.zone[:-1] in EC2_REGIONS else "")


def price_node(node: Node, book: PriceBook) -> NodePrice | None:
    exact = book.price(node.instance_type, node.market)
    if exact is not None and exact.source != prices.EC2_SOURCE:
        return _as_listed(exact)
    on_demand = _on_demand(node, book)
    if on_demand is None or node.market is Market.ON_DEMAND:
        return on_demand
    share = SPOT.get(cloud_of(node))
    if share is None:
        return None
    low, high = share
    return on_demand.times(low, high, f"spot, usually {low:.0%} to {high:.0%} of the price on demand")


def _as_listed(price: Price) -> NodePrice:
    basis = ", ".join(filter(None, (price.source, price.as_of)))
    return NodePrice(price.per_hour, price.per_hour, price.currency, basis)


def _on_demand(node: Node, book: PriceBook) -> NodePrice | None:
    cloud, region = cloud_of(node), region_of(node)
    known = book.price(node.instance_type)
    if known is not None:
        listed = _as_listed(known)
        return listed if known.source != prices.EC2_SOURCE else _in_region(listed, ListedCloud.EC2, region)
    found = _listed(node.instance_type, cloud) or _by_size(node, cloud)
    return None if found is None else _in_region(found, cloud, region)


def _listed(name: str, cloud: ListedCloud) -> NodePrice | None:
    match cloud:
        case ListedCloud.EC2:
            price = ec2_price(name)
            basis = f"{prices.EC2_SOURCE}, {prices.EC2_AS_OF}"
            return None if price is None else NodePrice(price, price, "USD", basis)
        case ListedCloud.HETZNER:
            known = HETZNER.get(name)
            return None if known is None else _a_month(known)
        case ListedCloud.GKE | ListedCloud.AKS:
            found = (GKE if cloud is ListedCloud.GKE else AKS).get(name)
            basis = f"{cloud} list price, {AS_OF}"
            return None if found is None else NodePrice(found.per_hour, found.per_hour, "USD", basis)
        case _:
            return None


def _a_month(found: Ranged) -> NodePrice:
    low, high = ((each / HOURS_A_MONTH).quantize(MICRO) for each in (found.low, found.high))
    basis = f"Hetzner changed its prices in 2026: from {found.low} to {found.high} EUR a month"
    return NodePrice(low, high, "EUR", basis)


def _in_region(price: NodePrice, cloud: ListedCloud, region: str) -> NodePrice:
    home = HOME.get(cloud)
    if home is None or region in ("", home):
        return price
    factor = EC2_REGIONS.get(region) if cloud is ListedCloud.EC2 else None
    if factor == 1:
        return price
    if factor is None:
        return price.times(*ANYWHERE, f"{price.basis}; {region} is not in the list, which is of {home}")
    low, high = factor * (1 - NEAR), factor * (1 + NEAR)
    return price.times(low, high, f"{price.basis}, of {home}; {region} is about {factor - 1:.0%} above it")


def _by_size(node: Node, cloud: ListedCloud) -> NodePrice | None:
    """From the cheapest to the most expensive type of its cloud, by size."""
    units = [price / size for price, size in _sizes(cloud) if size]
    size = _size(node.allocatable)
    if not units or not size:
        return None
    low, high = (size * unit for unit in (min(units), max(units)))
    currency = "EUR" if cloud is ListedCloud.HETZNER else "USD"
    basis = f"{node.instance_type or 'no type'} is not in the list; by its size, of what {cloud} offers"
    return NodePrice(low.quantize(MICRO), high.quantize(MICRO), currency, basis)


def _sizes(cloud: ListedCloud) -> list[tuple[Decimal, Decimal]]:
    if cloud in (ListedCloud.GKE, ListedCloud.AKS):
        return [
            (each.per_hour, _listed_size(each))
            for each in (GKE if cloud is ListedCloud.GKE else AKS).values()
        ]
    types = {ListedCloud.EC2: prices.EC2, ListedCloud.HETZNER: prices.HETZNER}.get(cloud, {})
    return [(each.price.per_hour, _size(each.allocatable)) for each in types.values() if each.price]


def _listed_size(listed: Listed) -> Decimal:
    return listed.cpus + listed.memory_gib / GIB_PER_CPU


def _size(room: Resources) -> Decimal:
    return Decimal(room.cpu_milli) / 1000 + Decimal(room.memory_mib) / MIB_PER_GIB / GIB_PER_CPU


def estimated_book(nodes: tuple[Node, ...], book: PriceBook) -> PriceBook:
    """The book, with the middle of the range for each type in the cluster that it has no price of."""
    prices = dict(book.prices)
    for node in nodes:
        found = price_node(node, book)
        if found is not None:
            source = "" if found.exact else "estimated: "
            price = Price(found.middle, found.currency, f"{source}{found.basis}")
            prices[node.instance_type, node.market] = price
    return PriceBook(prices)
