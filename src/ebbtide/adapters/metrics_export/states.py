"""Metrics of the current state: of nodes, computed from the last observation when they are scraped; of
policies, how long each has been idle, when it was last used, whether it sleeps; and wakes.

The three gauges of policies have the names that users of the design know. They are read from the store
when they are scraped, at most every few seconds, so any process tells the same. Labels are bounded: of
more than a thousand policies the first by name have metrics, and how many have none is a metric too.
"""

from __future__ import annotations

import collections
import logging
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ebbtide.core.nodes.capacity import doomed
from ebbtide.core.nodes.gates import REPLACED
from ebbtide.core.nodes.unwell import unfit_workers
from ebbtide.core.prices import cost_point
from ebbtide.errors import EbbtideError
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot
from ebbtide.narrate import fact_in
from ebbtide.ports import Notifier, PolicyStore

UNKNOWN = float("nan")
MOST_POLICIES = 1000
FRESH_SECONDS = 10.0
WAKE_BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class ClusterLook:
    settings: Settings
    snapshot: Snapshot
    record: Record

    def nodes(self) -> collections.Counter[tuple[str, str]]:
        """By pool and state; nodes that are not ours to count have no pool."""
        leaving = doomed(self.record)
        counts: collections.Counter[tuple[str, str]] = collections.Counter(
            {(pool.name, "ready"): 0 for pool in self.settings.pools}
        )
        for node in self.snapshot.cluster.nodes:
            instance = self.snapshot.instance_of.get(node.name)
            going = instance is not None and instance.id in leaving
            counts[node.pool, _state(node, going)] += 1
        return counts

    def unfit(self) -> collections.Counter[RemovalReason]:
        """Workers that are to be replaced, by reason."""
        counts = collections.Counter(dict.fromkeys(REPLACED, 0))
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
    looks: dict[str, ClusterLook]


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

    def _families(self, looks: Mapping[str, ClusterLook]) -> Iterable[Metric]:
        nodes = _family("ebbtide_nodes", "Nodes by pool and state.", "pool", "state")
        cost = _family("ebbtide_cost_per_hour", "What the workers cost an hour, by currency.", "currency")
        unpriced = _family("ebbtide_nodes_unpriced", "Workers whose price is not known.")
        waiting = _family("ebbtide_pods_waiting", "Pods that no node has room for.")
        cpu = _family("ebbtide_cpu_ratio", "Average CPU use of the workers; NaN where it is unknown.")
        complete = _family("ebbtide_snapshot_complete", "1 where all could be read, 0 where not.")
        open_work = _family("ebbtide_operations_open", "Operations in progress.")
        aside = _family("ebbtide_operations_set_aside", "Operations that wait for a person.")
        refused = _family(
            "ebbtide_removals_set_aside", "Removals that the cloud refuses. Their nodes stay cordoned."
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


@dataclass(frozen=True, slots=True)
class SeenCluster:
    at: float
    named: tuple[tuple[str, IdleState], ...] = ()
    unlisted: int = 0


class PolicyStates(Collector):
    def __init__(self, now: Callable[[], float], most: int = MOST_POLICIES) -> None:
        self._now = now
        self._most = most
        self._lock = threading.Lock()
        self._stores: dict[str, PolicyStore] = {}
        self._seen: dict[str, SeenCluster] = {}

    def follow(self, cluster: str, store: PolicyStore) -> None:
        self._stores[cluster] = store

    def describe(self) -> Iterable[Metric]:
        """Names are known before the first observation, so no other metric can take them."""
        return self._families({})

    def collect(self) -> Iterable[Metric]:
        with self._lock:
            for cluster, store in list(self._stores.items()):
                self._refresh(cluster, store)
            return self._families(self._seen)

    def _refresh(self, cluster: str, store: PolicyStore) -> None:
        seen = self._seen.get(cluster)
        if seen is not None and 0 <= self._now() - seen.at < FRESH_SECONDS:
            return
        try:
            self._seen[cluster] = self._look(store)
        except EbbtideError as error:
            _log.warning("the policies of %s could not be read for their metrics: %s", cluster, error)
            self._seen.pop(cluster, None)  # old news would look like an idle policy

    def _look(self, store: PolicyStore) -> SeenCluster:
        states = {state.policy_id: state for state in store.list_states()}
        policies = store.list_policies(limit=self._most)
        named = tuple((policy.name, states[policy.id]) for policy in policies if policy.id in states)
        return SeenCluster(self._now(), named, max(0, len(states) - len(named)))

    def _families(self, looks: dict[str, SeenCluster]) -> Iterable[Metric]:
        idle = _family(
            "philotes_scaling_idle_duration_seconds",
            "For how long it has been idle; 0 while in use.",
            "policy",
        )
        used = _family("philotes_scaling_last_activity_timestamp", "When it was last used.", "policy")
        zero = _family("philotes_scaling_is_scaled_to_zero", "1 while it is at zero.", "policy")
        unlisted = _family(
            "ebbtide_policies_unlisted", "Policies that have no metrics because there are too many."
        )
        for cluster, seen in looks.items():
            unlisted.add_metric([cluster], seen.unlisted)
            for name, state in seen.named:
                idle.add_metric([cluster, name], _idle_seconds(state, self._now()))
                used.add_metric([cluster, name], state.last_activity_at)
                zero.add_metric([cluster, name], state.is_scaled_to_zero)
        return (idle, used, zero, unlisted)


def _idle_seconds(state: IdleState, now: float) -> float:
    if state.phase in (Phase.ACTIVE, Phase.WAKING):
        return 0.0
    since = state.idle_since or state.scaled_to_zero_at
    return max(0.0, now - since) if since else 0.0


class WakeMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.wakes = Counter("ebbtide_wakes", "Wakes from zero.", ["cluster", "reason"], registry=registry)
        self.seconds = Histogram(
            "ebbtide_wake_seconds",
            "From the wake until ready.",
            ["cluster"],
            buckets=WAKE_BUCKETS,
            registry=registry,
        )

    def counting(self, cluster: str, inner: Notifier) -> Notifier:
        """The same notifier, with wakes counted as they pass."""
        return CountingNotifier(self, cluster, inner)


@dataclass(frozen=True, slots=True)
class CountingNotifier:
    metrics: WakeMetrics
    cluster: str
    inner: Notifier

    def notify(self, entry: LogEntry) -> None:
        step = fact_in(entry, PolicyStep) if entry.kind is LogKind.WAKE else None
        if step is not None:
            if step.phase is Phase.WAKING:
                self.metrics.wakes.labels(self.cluster, str(step.wake_reason)).inc()
            if step.seconds is not None:
                self.metrics.seconds.labels(self.cluster).observe(step.seconds)
        self.inner.notify(entry)

    def close(self) -> None:
        if close := getattr(self.inner, "close", None):
            close()
