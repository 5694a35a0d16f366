"""Figures of consolidation: how many, what they save, why they fail, and how many nodes come and go."""

from __future__ import annotations

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, Counter, Summary

from ebbtide.core.decide import operation_id
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.decision import Action, Decision
from ebbtide.model.operation import (
    Consolidate,
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    Slot,
    SlotState,
    Spot,
)

WHY = (
    ("paused", "paused"),
    ("is being answered", "spot"),
    ("pods have waited", "pods_waiting"),
    ("not finished after", "too_long"),
    ("did not come", "no_node"),
    ("nothing could be moved", "stuck"),
    ("was cordoned", "changed"),
    ("is not the node it was", "changed"),
    ("belongs to operation", "changed"),
    ("came onto", "changed"),
    ("was not ready", "not_ready"),
    ("fits on no", "no_room"),
    ("would fit on no", "no_room"),
    ("waits for a node", "pods_waiting"),
    ("cannot go", "not_idle"),
)
"""Sentences have names in them; a label has few values. What is none of these is `other`."""


class ConsolidationFigures:
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

        self._empties: dict[str, tuple[str, ConsolidationPlan]] = {}
        """What was last to be removed without a move in each cluster, with the id of its operation."""

    def decided(self, cluster: str, decision: Decision) -> None:
        plan = decision.consolidation.plan if decision.consolidation is not None else None
        if decision.action is Action.CONSOLIDATE and plan is not None and not plan.sources:
            self._empties[cluster] = operation_id(decision.at, decision.id), plan

    def advanced(self, cluster: str, before: Operation | Spot, after: Operation | Spot) -> None:
        came, went = _came(after) - _came(before), _went(after) - _went(before)
        if came:
            self.provisioned.labels(cluster).inc(len(came))
        if went:
            self.decommissioned.labels(cluster).inc(len(went))

    def closed(self, cluster: str, work: Operation | Spot, succeeded: bool) -> None:
        """One that moves pods, or that takes what is empty; what it removes later is a part of it."""
        told: Consolidate | ConsolidationPlan
        match work:
            case Consolidate():
                told = work
            case ScaleDown() if work.id == self._empties.get(cluster, ("", None))[0]:
                _, told = self._empties.pop(cluster)
            case _:
                return
        self.ended.labels(cluster, "succeeded" if succeeded else "failed").inc()
        if succeeded:
            self.savings.labels(cluster, told.currency).observe(float(told.savings_per_hour))
        else:
            self.failed.labels(cluster, why_failed(work.abort_reason)).inc()


def why_failed(reason: str) -> str:
    return next((name for words, name in WHY if words in reason), "other")


def _came(work: Operation | Spot) -> set[str]:
    return {slot.key for slot in _slots(work) if slot.state is SlotState.READY}


def _went(work: Operation | Spot) -> set[str]:
    return {removal.instance_id for removal in _removals(work) if removal.state is RemovalState.GONE}


def _slots(work: Operation | Spot) -> Iterator[Slot]:
    if isinstance(work, Spot):
        yield from (work.slot,) if work.slot is not None else ()
    elif not isinstance(work, ScaleDown):
        yield from work.slots


def _removals(work: Operation | Spot) -> Iterator[Removal]:
    if isinstance(work, Spot):
        yield from (work.removal,) if work.removal is not None else ()
    elif isinstance(work, ScaleDown):
        yield from work.removals
