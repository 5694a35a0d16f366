"""What a node of any cloud costs an hour: exactly where a list says so, else from and to, with the reason. A
node of no known cloud has no price: its owner knows what it costs, and can say so in a price file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core import prices
from ebbtide.core.prices import PriceBook
from ebbtide.entrypoints.assess.ec2_families import ec2_price
from ebbtide.entrypoints.assess.listed import (
    AKS,
    ANYWHERE,
    AS_OF,
    EC2_REGIONS,
    GKE,
    HETZNER,
    HOME,
    NEAR,
    PREFIXES,
    SPOT,
    Listed,
    ListedCloud,
    Ranged,
)
from ebbtide.model.node import Market, Node
from ebbtide.model.pool import Price
from ebbtide.model.resources import Resources

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
