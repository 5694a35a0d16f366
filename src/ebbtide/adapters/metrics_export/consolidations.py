"""Metrics of consolidation: how many, what they save, why they fail, and how many nodes come and go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from prometheus_client import CollectorRegistry, Counter, Summary

from ebbtide.core.nodes.decide import operation_id
from ebbtide.model import operation as ops
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.decision import Action, Decision


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
