"""Who the nodes are paid for: their cost by pool and by namespace, and what of it nobody asks for. Pure.

A pod costs the larger of its CPU and memory share of its node. Where the shares of a node's pods add up to
more than the node, they are scaled down to it; where they add up to less, the rest is idle.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.core.prices import price_of
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView

NOTHING = Decimal(0)
ONE = Decimal(1)


@dataclass(frozen=True, slots=True)
class Share:
    name: str
    per_hour: Decimal = NOTHING
    idle_per_hour: Decimal = NOTHING
    """Of that, what no pod asks for."""
    count: int = 0
    """Nodes of a pool, pods of a namespace."""
    unpriced: int = 0
    """Of those, how many have no known price in this money."""


def shares_of(view: ClusterView, settings: Settings, currency: str) -> tuple[list[Share], list[Share]]:
    """By pool and by namespace, the most expensive first."""
    pools: dict[str, Share] = {}
    namespaces: dict[str, Share] = {}
    for node in view.workers:
        pods = view.pods_on.get(node.name, ())
        price = price_of(node, settings)
        known = price.per_hour if price is not None and price.currency == currency else None
        asked = [(pod, _asked(pod, node)) for pod in pods]
        total = sum((share for _, share in asked), NOTHING)
        scale = ONE / total if total > ONE else ONE
        _add(pools, node.pool, known, ONE, max(ONE - total, NOTHING))
        for pod, share in asked:
            _add(namespaces, pod.namespace, known, share * scale, NOTHING)
    return _sorted(pools.values()), _sorted(namespaces.values())


def with_sleepers(namespaces: list[Share], slept: Mapping[str, Decimal]) -> list[Share]:
    """Also those in which nothing runs now: what their sleep saved must not be missing from the list."""
    known = {one.name for one in namespaces}
    return [*namespaces, *(Share(name) for name in sorted(slept) if name not in known and slept[name])]


def _asked(pod: Pod, node: Node) -> Decimal:
    room = node.allocatable
    cpu = Decimal(pod.requests.cpu_milli) / max(room.cpu_milli, 1)
    return max(cpu, Decimal(pod.requests.memory_mib) / max(room.memory_mib, 1))


def _add(found: dict[str, Share], name: str, price: Decimal | None, share: Decimal, idle: Decimal) -> None:
    known = found.get(name, Share(name))
    counted = replace(known, count=known.count + 1, unpriced=known.unpriced + (price is None))
    cost = price or NOTHING
    found[name] = replace(
        counted, per_hour=known.per_hour + cost * share, idle_per_hour=known.idle_per_hour + cost * idle
    )


def _sorted(found: Iterable[Share]) -> list[Share]:
    return sorted(found, key=lambda share: (-share.per_hour, share.name))
