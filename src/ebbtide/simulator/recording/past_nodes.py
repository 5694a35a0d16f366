"""Nodes as kube-state-metrics said they were: which pool each was of, how long it was there, what it cost."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from ebbtide.adapters.prometheus.asking import QueriedSeries
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market

TYPES = (
    "label_ebbtide_dev_instance_type",
    "label_node_kubernetes_io_instance_type",
    "label_beta_kubernetes_io_instance_type",
)
ZONES = ("label_topology_kubernetes_io_zone", "label_failure_domain_beta_kubernetes_io_zone")
MARKETS = (
    "label_ebbtide_dev_market",
    "label_karpenter_sh_capacity_type",
    "label_eks_amazonaws_com_capacityType",
)
LEAST_VALUES = 2
"""A node that was seen at one look alone may be a slip."""


class PastNodes:
    """Only nodes that belong to a pool count: by the label of Ebbtide, else by their type."""

    def __init__(
        self, nodes: Sequence[QueriedSeries], labels: Sequence[QueriedSeries], settings: Settings, step: int
    ) -> None:
        self._step = step
        self._settings = settings
        self._labels = {curve.metric.get("node", ""): curve.metric for curve in labels}
        seen = [(curve.metric.get("node", ""), curve) for curve in nodes]
        self._found = [(name, curve, pool) for name, curve in seen if (pool := self._pool(name))]
        looks = sum(len(curve.values) for _, curve in seen)
        self.known = round(sum(len(c.values) for _, c, _ in self._found) / looks, 4) if looks else 0.0
        """Share of the nodes, over time, that belong to a pool."""

    @property
    def hours(self) -> float | None:
        if not self._found:
            return None
        return round(sum(len(curve.values) for _, curve, _ in self._found) * self._step / 3600, 3)

    @property
    def cost(self) -> str | None:
        """By the prices of today; None where one is not known."""
        total = Decimal(0)
        for name, curve, pool in self._found:
            known = self._type(name, pool)
            price = known.price_in(self._market(name, pool)) if known is not None else None
            if price is None:
                return None
            total += price.per_hour * len(curve.values) * self._step / 3600
        return f"{total:.2f}" if self._found else None

    @property
    def currency(self) -> str:
        prices = (one.price for pool in self._settings.pools for one in pool.types)
        return next((price.currency for price in prices if price is not None), "")

    def launched_after(self, start: int) -> int | None:
        """Nodes that were made meanwhile; a name that came again is another node."""
        if not self._found:
            return None
        return len({(n, v) for n, curve, _ in self._found for _, v in curve.values if float(v) > start})

    def at(self, start: int) -> list[dict[str, Any]]:
        """Those that were there, as a story writes them."""
        found = []
        for name, curve, pool in self._found:
            at, created = curve.values[0]
            if int(at) - start > self._step or len(curve.values) < LEAST_VALUES:
                continue
            known, zone = self._type(name, pool), self._first(name, ZONES)
            written: dict[str, Any] = {
                "name": name,
                "pool": pool.name,
                "age_sec": max(start - float(created), 0.0),
                "market": self._market(name, pool).value,
            }
            written |= {"type": known.name} if known is not None else {}
            written |= {"zone": zone} if zone in pool.zones else {}
            found.append(written)
        return sorted(found, key=lambda one: (one["age_sec"], one["name"]), reverse=True)

    def _pool(self, name: str) -> Pool | None:
        own = self._settings.pool_named(self._labels.get(name, {}).get("label_ebbtide_dev_pool", ""))
        if own is not None:
            return own
        kind, zone = self._first(name, TYPES), self._first(name, ZONES)
        fitting = [pool for pool in self._settings.pools if pool.type_named(kind) is not None]
        return next((pool for pool in fitting if zone in pool.zones), fitting[0] if fitting else None)

    def _type(self, name: str, pool: Pool) -> NodeType | None:
        return pool.type_named(self._first(name, TYPES)) or pool.types[0]

    def _market(self, name: str, pool: Pool) -> Market:
        said = self._first(name, MARKETS).lower()
        if not said:
            return pool.market
        return Market.SPOT if said == "spot" else Market.ON_DEMAND

    def _first(self, name: str, labels: Sequence[str]) -> str:
        known: Mapping[str, str] = self._labels.get(name, {})
        return next((known[label] for label in labels if known.get(label)), "")
