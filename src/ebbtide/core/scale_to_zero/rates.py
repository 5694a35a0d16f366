"""What a policy's target costs an hour while it is up, and how much of that is really not paid at zero.

A workload costs the share of its nodes that it asks for: of each node the larger of the CPU and the memory
share, at the node's price. Where its pods are not seen, the cheapest type of all pools that it would fit
counts, so no more is claimed than is sure. What is not known stays unknown.

At zero, money is realised only as far as nodes are gone: room that stands empty on nodes of ours is still
paid, so of the price of all that sleeps, the price of that room is not saved. The rest is shared among the
sleepers by their price.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property

from ebbtide.model.idle import IdleState, Rate
from ebbtide.model.pod import Pod, Resources, Workload, WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.snapshot import ClusterView, Node

NOTHING = Decimal(0)
EXACT = Decimal("0.000001")


@dataclass(frozen=True)
class Rates:
    """The pools with their prices and, where it was seen, the cluster; asked for many policies."""

    pools: tuple[Pool, ...]
    view: ClusterView | None = None

    @cached_property
    def placed(self) -> Mapping[WorkloadRef, tuple[Node, ...]]:
        return nodes_by_workload(self.view) if self.view is not None else {}


def rate_of(policy: Policy, workloads: Sequence[Workload], rates: Rates) -> Rate | None:
    if policy.hourly_cost is not None:
        return Rate(policy.hourly_cost, policy.currency, "the policy")
    if policy.target.pool:
        return _pool_rate(policy.target.pool, rates.view, rates.pools)
    parts = [_workload_rate(each, rates) for each in workloads if each.replicas]
    return _sum([part for part in parts if part is not None]) if parts and None not in parts else None


def owner_of(pod: Pod) -> WorkloadRef | None:
    """The workload that a pod belongs to, by the names that Kubernetes gives: a Deployment's pods are
    `name-hash-hash`, a StatefulSet's `name-ordinal`."""
    match pod.controller:
        case "ReplicaSet":
            name, _, _ = pod.name.rpartition("-")
            base, _, _ = name.rpartition("-")
            return WorkloadRef(WorkloadKind.DEPLOYMENT, pod.namespace, base or name)
        case "StatefulSet":
            return WorkloadRef(WorkloadKind.STATEFUL_SET, pod.namespace, pod.name.rpartition("-")[0])
        case _:
            return None


def nodes_by_workload(view: ClusterView) -> Mapping[WorkloadRef, tuple[Node, ...]]:
    found: dict[WorkloadRef, list[Node]] = {}
    for name, pods in view.pods_on.items():
        node = view.node_named.get(name)
        for pod in pods:
            owner = owner_of(pod)
            if node is not None and owner is not None and not pod.terminating:
                found.setdefault(owner, []).append(node)
    return {owner: tuple(nodes) for owner, nodes in found.items()}


def _workload_rate(workload: Workload, rates: Rates) -> Rate | None:
    pools, nodes = rates.pools, rates.placed.get(workload.ref, ())
    types = [found for node in nodes if (found := _type_of(node, pools)) is not None]
    if nodes and len(types) == len(nodes):
        shares = [_share(workload.requests, node_type, price) for node_type, price in types]
        known = [share for share in shares if share is not None]
        total = _sum(known) if len(known) == len(shares) else None
        if total is None:
            return None
        each = total.per_hour / len(known)
        return Rate(_exact(each * workload.replicas), total.currency, total.source)
    offers = [
        share
        for pool in pools
        for node_type in pool.types
        if (price := node_type.price_in(pool.market)) is not None
        and (share := _share(workload.requests, node_type, price)) is not None
    ]
    if not offers:
        return None
    cheapest = min(offers, key=lambda share: share.per_hour)
    return Rate(_exact(cheapest.per_hour * workload.replicas), cheapest.currency, cheapest.source)


def _type_of(node: Node, pools: Sequence[Pool]) -> tuple[NodeType, Price] | None:
    for pool in pools:
        node_type = pool.type_named(node.instance_type) if pool.name == node.pool else None
        price = node_type.price_in(node.market) if node_type is not None else None
        if node_type is not None and price is not None:
            return node_type, price
    return None


def _share(requests: Resources, node_type: NodeType, price: Price) -> Rate | None:
    """The price of one replica on this type; none where it asks for nothing or does not fit."""
    offer = node_type.allocatable
    if not (requests.cpu_milli or requests.memory_mib) or not (offer.cpu_milli and offer.memory_mib):
        return None
    share = max(
        Decimal(requests.cpu_milli) / offer.cpu_milli, Decimal(requests.memory_mib) / offer.memory_mib
    )
    if share > 1:
        return None
    source = f"its share of {node_type.name} at {price.per_hour} ({price.source})"
    return Rate(price.per_hour * share, price.currency, source)


def _pool_rate(name: str, view: ClusterView | None, pools: Sequence[Pool]) -> Rate | None:
    if view is None:
        return None
    nodes = [node for node in view.workers if node.pool == name]
    prices = [_type_of(node, pools) for node in nodes]
    known = [Rate(price.per_hour, price.currency, price.source) for _, price in filter(None, prices)]
    return _sum(known) if nodes and len(known) == len(nodes) else None


def _sum(rates: Sequence[Rate]) -> Rate | None:
    """One price of several; none where their currencies differ."""
    if len({rate.currency for rate in rates}) != 1:
        return None
    sources = sorted({rate.source for rate in rates})
    total = sum((rate.per_hour for rate in rates), NOTHING)
    return Rate(total, rates[0].currency, "; ".join(sources))


def _exact(amount: Decimal) -> Decimal:
    return amount.quantize(EXACT)


def empty_room_price(view: ClusterView, pools: Sequence[Pool]) -> Mapping[str, Decimal]:
    """The price an hour of what stands empty on our workers, by currency: of each node the larger of its
    free CPU and free memory share, so it errs high and savings err low."""
    found: dict[str, Decimal] = {}
    for node in view.workers:
        known = _type_of(node, pools)
        if known is None:
            continue
        pods = view.pods_on.get(node.name, ())
        free = max(
            _free(node.allocatable.cpu_milli, (pod.requests.cpu_milli for pod in pods)),
            _free(node.allocatable.memory_mib, (pod.requests.memory_mib for pod in pods)),
        )
        price = known[1]
        found[price.currency] = found.get(price.currency, NOTHING) + price.per_hour * free
    return found


def _free(offer: int, asked: Iterable[int]) -> Decimal:
    return max(NOTHING, 1 - Decimal(sum(asked)) / offer) if offer else NOTHING


def realised_share(sleeping: Iterable[IdleState], empty: Mapping[str, Decimal]) -> Mapping[str, Decimal]:
    """By currency, the share of a sleeper's price that is really not paid now."""
    asleep: dict[str, Decimal] = {}
    for state in sleeping:
        if state.rate is not None:
            asleep[state.rate.currency] = asleep.get(state.rate.currency, NOTHING) + state.rate.per_hour
    return {
        currency: max(NOTHING, 1 - empty.get(currency, NOTHING) / price) if price else NOTHING
        for currency, price in asleep.items()
    }


def with_realised(rate: Rate | None, shares: Mapping[str, Decimal]) -> Rate | None:
    if rate is None:
        return None
    realised = _exact(rate.per_hour * shares.get(rate.currency, NOTHING))
    return Rate(rate.per_hour, rate.currency, rate.source, realised)
