"""Metrics of policies: how long each has been idle, when it was last used, whether it sleeps; and wakes.

The three gauges have the names that users of the design know. They are read from the store when they are
scraped, at most every few seconds, so any process tells the same. Labels are bounded: of more than a
thousand policies the first by name have metrics, and how many have none is a metric too.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from prometheus_client import CollectorRegistry, Counter, Histogram
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics_core import Metric
from prometheus_client.registry import Collector

from ebbtide.errors import EbbtideError
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import IdleState, Phase
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.narrate import fact_in
from ebbtide.ports import Notifier, PolicyStore

MOST_POLICIES = 1000
FRESH_SECONDS = 10.0
WAKE_BUCKETS = (0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0, 600.0)
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Seen:
    at: float
    named: tuple[tuple[str, IdleState], ...] = ()
    unlisted: int = 0


class PolicyStates(Collector):
    def __init__(self, now: Callable[[], float], most: int = MOST_POLICIES) -> None:
        self._now = now
        self._most = most
        self._lock = threading.Lock()
        self._stores: dict[str, PolicyStore] = {}
        self._seen: dict[str, Seen] = {}

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

    def _look(self, store: PolicyStore) -> Seen:
        states = {state.policy_id: state for state in store.list_states()}
        policies = store.list_policies(limit=self._most)
        named = tuple((policy.name, states[policy.id]) for policy in policies if policy.id in states)
        return Seen(self._now(), named, max(0, len(states) - len(named)))

    def _families(self, looks: dict[str, Seen]) -> Iterable[Metric]:
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


def _family(name: str, says: str, *labels: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(name, says, labels=["cluster", *labels])


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
        if shut := getattr(self.inner, "close", None):
            shut()
