"""Metrics of the current state, computed from the last observation when they are scraped."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ebbtide.core.nodes.capacity import doomed
from ebbtide.core.nodes.gates import REPLACED
from ebbtide.core.nodes.outdated import unfit_workers
from ebbtide.core.prices.costs import cost_point
from ebbtide.model.budget import RemovalReason
from ebbtide.model.node import Node
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

UNKNOWN = float("nan")


@dataclass(frozen=True, slots=True)
class Look:
    settings: Settings
    snapshot: Snapshot
    record: Record

    def nodes(self) -> Counter[tuple[str, str]]:
        """By pool and state; nodes that are not ours to count have no pool."""
        leaving = doomed(self.record)
        counts: Counter[tuple[str, str]] = Counter({(pool.name, "ready"): 0 for pool in self.settings.pools})
        for node in self.snapshot.cluster.nodes:
            instance = self.snapshot.instance_of.get(node.name)
            going = instance is not None and instance.id in leaving
            counts[node.pool, _state(node, going)] += 1
        return counts

    def unfit(self) -> Counter[RemovalReason]:
        """Workers that are to be replaced, by reason."""
        counts = Counter(dict.fromkeys(REPLACED, 0))
        counts.update(
            one.cause for one in unfit_workers(self.snapshot, self.record, self.settings, self.snapshot.at)
        )
        return counts


def _state(node: Node, leaving: bool) -> str:
    if not node.ready:
        return "not_ready"
    if leaving:
        return "leaving"
    return "cordoned" if node.unschedulable else "ready"


class Looks(Protocol):
    lock: threading.Lock
    looks: dict[str, Look]


class States(Collector):
    def __init__(self, source: Looks) -> None:
        self._source = source

    def describe(self) -> Iterable[Metric]:
        """Names are known before the first observation, so no other metric can take them."""
        return self._families({})

    def collect(self) -> Iterable[Metric]:
        with self._source.lock:
            looks = dict(self._source.looks)
        return self._families(looks)

    def _families(self, looks: Mapping[str, Look]) -> Iterable[Metric]:
        nodes = _family("ebbtide_nodes", "Nodes by pool and state.", "pool", "state")
        cost = _family("ebbtide_cost_per_hour", "What the workers cost an hour, by currency.", "currency")
        unpriced = _family("ebbtide_nodes_unpriced", "Workers whose price is not known.")
        waiting = _family("ebbtide_pods_waiting", "Pods that no node has room for.")
        cpu = _family("ebbtide_cpu_ratio", "Average CPU use of the workers; NaN where it is unknown.")
        complete = _family("ebbtide_snapshot_complete", "1 where all could be read, 0 where not.")
        open_work = _family("ebbtide_operations_open", "Operations in progress.")
        aside = _family("ebbtide_operations_set_aside", "Operations that wait for a person.")
        refused = _family(
            "ebbtide_removals_set_aside", "Removals that the cloud refuses: the node stays cordoned."
        )
        unfit = _family(
            "ebbtide_unfit_nodes", "Workers that are unwell, expired or drifted, by reason.", "reason"
        )
        paused = _family("ebbtide_removals_paused", "1 while removals are paused.")
        for cluster, look in looks.items():
            snapshot, record = look.snapshot, look.record
            for (pool, state), count in look.nodes().items():
                nodes.add_metric([cluster, pool, state], count)
            point = cost_point(look.snapshot, look.settings)
            for currency, amount in point.per_hour.items():
                cost.add_metric([cluster, currency], float(amount))
            unpriced.add_metric([cluster], point.unpriced)
            waiting.add_metric([cluster], len(snapshot.cluster.waiting_pods))
            cpu.add_metric([cluster], UNKNOWN if snapshot.cpu.value is None else snapshot.cpu.value)
            complete.add_metric([cluster], not snapshot.problems)
            open_work.add_metric([cluster], len(record.operations) + len(record.spots))
            aside.add_metric([cluster], len(record.all_set_aside))
            refused.add_metric([cluster], len(record.refused))
            for reason, count in look.unfit().items():
                unfit.add_metric([cluster, reason], count)
            paused.add_metric([cluster], record.paused)
        return (nodes, cost, unpriced, waiting, cpu, complete, open_work, aside, refused, unfit, paused)


def _family(name: str, says: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, says, labels=["cluster", *labels])
