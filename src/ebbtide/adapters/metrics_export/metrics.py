"""Every metric that Ebbtide exports, in one registry; among them those of consolidation: how many, what they
save, why they fail. Metrics are defined nowhere else.

    exported = MetricsRegistry()
    ports = replace(ports, observer=exported.of(settings))     # one for each cluster
    prometheus_client.generate_latest(exported.registry)

Counters grow as things happen. What is a state (nodes, pods, cost) is computed when it is scraped, from the
last look, and only by the runner that holds the lease: a replica that stands by would tell old news.
Labels have few values: checks, actions, kinds and states have fixed names, pools and currencies are
configured.
"""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info, Summary
from prometheus_client.process_collector import ProcessCollector

from ebbtide import __version__
from ebbtide.adapters.metrics_export.states import ClusterLook, PolicyStates, States, WakeMetrics
from ebbtide.core.nodes.decide import operation_id
from ebbtide.core.nodes.gates import REPLACED
from ebbtide.model import operation as ops
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import Outcome
from ebbtide.model.operation import Operation, RemovalState, ScaleDown, Spot
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


class ConsolidationMetrics:
    def __init__(self, registry: CollectorRegistry) -> None:
        self.ended = Counter(
            "ebbtide_consolidations",
            "Consolidations by how they ended.",
            ["cluster", "result"],
            registry=registry,
        )
        self.failed = Counter(
            "ebbtide_consolidations_failed",
            "Those given up, by why.",
            ["cluster", "reason"],
            registry=registry,
        )
        self.savings = Summary(
            "ebbtide_consolidation_savings_per_hour",
            "What each one that succeeded saves an hour; sum over count is the average.",
            ["cluster", "currency"],
            registry=registry,
        )
        self.provisioned = Counter(
            "ebbtide_nodes_provisioned",
            "Nodes that were launched and became ready.",
            ["cluster"],
            registry=registry,
        )
        self.decommissioned = Counter(
            "ebbtide_nodes_decommissioned", "Nodes that were removed.", ["cluster"], registry=registry
        )

        self._empties: dict[str, _Empties] = {}
        """What was last to be removed without a move in each cluster."""

    def decided(self, cluster: str, decision: Decision) -> None:
        report = decision.consolidation
        plan = report.plan if report is not None else None
        if report is None or plan is None or decision.action is not Action.CONSOLIDATE or plan.sources:
            return
        before = self._empties.pop(cluster, None)
        if before is not None and before.gone:
            self._book(cluster, before)  # the rest of its nodes was given up
        costs = {node.node_name: node.cost_per_hour or Decimal(0) for node in report.nodes}
        asked = {one.instance_id: costs.get(one.node_name, Decimal(0)) for one in plan.empties}
        self._empties[cluster] = _Empties(operation_id(decision.at, decision.id), plan, asked)

    def advanced(
        self, cluster: str, before: ops.Operation | ops.Spot, after: ops.Operation | ops.Spot
    ) -> None:
        came, went = _came(after) - _came(before), _went(after) - _went(before)
        if came:
            self.provisioned.labels(cluster).inc(len(came))
        if went:
            self.decommissioned.labels(cluster).inc(len(went))

    def closed(self, cluster: str, work: ops.Operation | ops.Spot, succeeded: bool) -> None:
        """One that moves pods, or that takes what is empty; what it removes later is a part of it."""
        empties = self._empties.get(cluster)
        match work:
            case ops.Consolidate():
                saved = (work.savings_per_hour, work.currency) if succeeded else None
                self._ended(cluster, saved, work.abort_cause)
            case ops.ScaleDown() if empties is not None and work.id == empties.id:
                empties.gone |= _went(work)
                if succeeded and not empties.complete:
                    return  # only some may go at once: the others follow under the same id
                del self._empties[cluster]
                if succeeded or empties.gone:
                    self._book(cluster, empties)
                else:
                    self._ended(cluster, None, work.abort_cause)
            case _:
                pass

    def _book(self, cluster: str, empties: _Empties) -> None:
        self._ended(cluster, (empties.savings, empties.plan.currency), ops.AbortCause.NONE)

    def _ended(self, cluster: str, saved: tuple[Decimal, str] | None, why: ops.AbortCause) -> None:
        self.ended.labels(cluster, "failed" if saved is None else "succeeded").inc()
        if saved is None:
            self.failed.labels(cluster, why or ops.AbortCause.OTHER).inc()
        else:
            self.savings.labels(cluster, saved[1]).observe(float(saved[0]))


@dataclass(slots=True)
class _Empties:
    """A consolidation that only takes empty nodes, one or a few at a time."""

    id: str
    plan: ConsolidationPlan
    costs: Mapping[str, Decimal]
    """Of each node it is to remove, by instance id."""
    gone: set[str] = field(default_factory=set)

    @property
    def complete(self) -> bool:
        return self.gone >= self.costs.keys()

    @property
    def savings(self) -> Decimal:
        """Of the whole once all have gone; before, of what has."""
        return (
            self.plan.savings_per_hour
            if self.complete
            else sum(map(self.costs.__getitem__, self.gone), Decimal(0))
        )


def _came(work: ops.Operation | ops.Spot) -> set[str]:
    return {slot.key for slot in _slots(work) if slot.state is ops.SlotState.READY}


def _went(work: ops.Operation | ops.Spot) -> set[str]:
    return {removal.instance_id for removal in _removals(work) if removal.state is ops.RemovalState.GONE}


def _slots(work: ops.Operation | ops.Spot) -> Iterator[ops.Slot]:
    if isinstance(work, ops.Spot):
        yield from (work.slot,) if work.slot is not None else ()
    elif not isinstance(work, ops.ScaleDown):
        yield from work.slots


def _removals(work: ops.Operation | ops.Spot) -> Iterator[ops.Removal]:
    if isinstance(work, ops.Spot):
        yield from (work.removal,) if work.removal is not None else ()
    elif isinstance(work, ops.ScaleDown):
        yield from work.removals


TICK_BUCKETS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)


class MetricsRegistry:
    def __init__(self, now: Callable[[], float] = time.time) -> None:
        self.registry = CollectorRegistry()
        self.now = now
        self.lock = threading.Lock()
        self.looks: dict[str, ClusterLook] = {}
        """The last look at each cluster whose lease is held here."""
        self.clusters: dict[str, ClusterMetrics] = {}
        Info("ebbtide_build", "Which Ebbtide this is.", registry=self.registry).info({"version": __version__})
        ProcessCollector(registry=self.registry)
        self.registry.register(States(self))
        self.ticks = self._count("ebbtide_ticks", "Ticks by how they ended.", "result")
        self.tick_seconds = Histogram(
            "ebbtide_tick_seconds",
            "How long a tick took.",
            ["cluster"],
            buckets=TICK_BUCKETS,
            registry=self.registry,
        )
        self.last_tick = self._gauge("ebbtide_last_tick_timestamp_seconds", "When the last tick ended.")
        self.lease_held = self._gauge("ebbtide_lease_held", "1 where this runner acts, 0 where it stands by.")
        self.errors = self._count("ebbtide_errors", "Errors that ended a tick, by kind.", "kind")
        self.decisions = self._count("ebbtide_decisions", "Decisions by action.", "action")
        self.refused = self._count(
            "ebbtide_actions_refused", "Actions not taken, by the first check that failed.", "action", "check"
        )
        self.opened = self._count("ebbtide_operations_opened", "Operations that were begun.", "kind")
        self.closed = self._count("ebbtide_operations_closed", "Operations that ended.", "kind", "result")
        self.replaced = self._count(
            "ebbtide_nodes_replaced", "Workers removed because they were unfit, by reason.", "reason"
        )
        self.effects = self._count(
            "ebbtide_effects", "Launches, evictions, cordons and the like, by outcome.", "effect", "outcome"
        )

        self.consolidations = ConsolidationMetrics(self.registry)
        self.policies = PolicyStates(now)
        self.registry.register(self.policies)
        self.wakes = WakeMetrics(self.registry)

    def of(self, settings: Settings) -> ClusterMetrics:
        """The observer of one cluster."""
        return self.clusters.setdefault(settings.cluster, ClusterMetrics(self, settings))

    def _count(self, name: str, says: str, *labels: str) -> Counter:
        return Counter(name, says, ["cluster", *labels], registry=self.registry)

    def _gauge(self, name: str, says: str) -> Gauge:
        return Gauge(name, says, ["cluster"], registry=self.registry)


class ClusterMetrics:
    """What one cluster's runner tells, counted; and what of it says whether the runner is well."""

    def __init__(self, metrics: MetricsRegistry, settings: Settings) -> None:
        self._metrics = metrics
        self._settings = settings
        self._cluster = settings.cluster
        self.started_at = metrics.now()
        self.ticked_at = 0.0
        self.error = ""
        """The kind of error that ended the last tick; empty where none did."""
        self.sees_cluster = True
        """Whether the last look, if it was ours to take, showed any node."""

    def looked(self, snapshot: Snapshot, record: Record) -> None:
        self.sees_cluster = bool(snapshot.cluster.nodes)
        with self._metrics.lock:
            self._metrics.looks[self._cluster] = ClusterLook(self._settings, snapshot, record)

    def decided(self, decision: Decision) -> None:
        self._metrics.decisions.labels(self._cluster, decision.action).inc()
        self._metrics.consolidations.decided(self._cluster, decision)
        for verdict in decision.verdicts:
            if verdict.failed is not None:
                self._metrics.refused.labels(self._cluster, verdict.action, verdict.failed.name).inc()

    def began(self, work: Operation | Spot) -> None:
        self._metrics.opened.labels(self._cluster, kind_of(work)).inc()

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None:
        """Of all steps, nodes that came and went are counted; others show as effects and states."""
        self._metrics.consolidations.advanced(self._cluster, before, after)

    def performed(self, outcomes: Sequence[Outcome]) -> None:
        for outcome in outcomes:
            self._metrics.effects.labels(self._cluster, kind_of(outcome.effect), outcome.kind).inc()

    def closed(self, work: Operation | Spot, succeeded: bool) -> None:
        result = "succeeded" if succeeded else "failed"
        self._metrics.closed.labels(self._cluster, kind_of(work), result).inc()
        self._metrics.consolidations.closed(self._cluster, work, succeeded)
        if isinstance(work, ScaleDown) and work.cause in REPLACED:
            gone = sum(removal.state is RemovalState.GONE for removal in work.removals)
            self._metrics.replaced.labels(self._cluster, work.cause).inc(gone)

    def ticked(self, seconds: float, held: bool, error: str) -> None:
        metrics = self._metrics
        result = "failed" if error else "acted" if held else "stood_by"
        metrics.ticks.labels(self._cluster, result).inc()
        metrics.tick_seconds.labels(self._cluster).observe(seconds)
        metrics.lease_held.labels(self._cluster).set(held)
        self.ticked_at, self.error = metrics.now(), error
        metrics.last_tick.labels(self._cluster).set(self.ticked_at)
        if error:
            metrics.errors.labels(self._cluster, error).inc()
        if not held:
            self.sees_cluster = True  # not ours to look at: the one who acts says so
            with metrics.lock:
                metrics.looks.pop(self._cluster, None)


def kind_of(value: object) -> str:
    """`ScaleDown` is `scale_down`."""
    return re.sub(r"(?<!^)(?=[A-Z])", "_", type(value).__name__).lower()
