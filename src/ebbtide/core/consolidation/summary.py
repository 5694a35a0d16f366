"""How a consolidation is reported: its log entry, and the metrics that are tracked over time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.core.words import count_of
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport, ConsolidationSettings
from ebbtide.model.events import ConsolidationEvaluated
from ebbtide.model.log import LogEntry, LogKind

EVENT = LogKind.CONSOLIDATION.value
HOURS_PER_MONTH = 730
SECONDS_PER_DAY = 86_400
CENT = Decimal("0.01")


def evaluated(
    report: ConsolidationReport, rules: ConsolidationSettings | None = None
) -> ConsolidationEvaluated:
    """Exactly the fields of the policy's log entry."""
    plan = report.plan or ConsolidationPlan()
    removed = tuple(removal.node_name for removal in (*plan.empties, *plan.sources))
    kept = tuple(node.node_name for node in report.nodes if node.node_name not in removed)
    savings = plan.savings_per_hour
    return ConsolidationEvaluated(
        event=EVENT,
        nodes_before=len(report.nodes),
        nodes_after=len(kept) + len(plan.slots),
        nodes_removed=removed,
        nodes_kept=kept,
        cost_savings_per_hour=float(savings),
        cost_savings_per_month=float((savings * HOURS_PER_MONTH).quantize(CENT)),
        containers_migrated=len(plan.moves),
        reason=_reason(report, rules or ConsolidationSettings()),
    )


def _reason(report: ConsolidationReport, rules: ConsolidationSettings) -> str:
    failed = report.failed
    if failed is not None:
        return failed.says
    plan = report.plan or ConsolidationPlan()
    parts: list[str] = []
    if plan.empties:
        parts.append(f"{count_of(len(plan.empties), 'node')} idle >{rules.min_idle_seconds // 60}min")
    if plan.sources:
        emptied, moves = count_of(len(plan.sources), "node"), count_of(len(plan.moves), "move")
        parts.append(f"{emptied} emptied by {moves}")
    if plan.slots:
        parts.append(f"{count_of(len(plan.slots), 'cheaper node')} launched first")
    return ", ".join([*parts, "savings significant"]) if parts else "nothing was looked for"


@dataclass(frozen=True, slots=True)
class Tracked:
    """The four metrics of the policy over some time."""

    consolidations_per_day: float
    average_savings_per_hour: Decimal
    failed: Mapping[str, int]
    """How often, by reason."""
    provisioned: int
    decommissioned: int

    @property
    def churn(self) -> float:
        """Nodes launched for each node removed; both at once mean that nothing was gained."""
        return self.provisioned / self.decommissioned if self.decommissioned else float(self.provisioned)


def tracked(entries: Iterable[LogEntry], seconds: int, provisioned: int, decommissioned: int) -> Tracked:
    """From the entries of this many seconds; launches and removals are counted elsewhere."""
    told = [entry.data for entry in entries if entry.kind is LogKind.CONSOLIDATION]
    done = [data for data in told if data.get("nodes_removed")]
    savings = sum((Decimal(str(data.get("cost_savings_per_hour", 0))) for data in done), Decimal(0))
    failed = Counter(str(data.get("reason", "")) for data in told if not data.get("nodes_removed"))
    return Tracked(
        consolidations_per_day=len(done) * SECONDS_PER_DAY / max(seconds, 1),
        average_savings_per_hour=savings / len(done) if done else Decimal(0),
        failed=dict(failed),
        provisioned=provisioned,
        decommissioned=decommissioned,
    )
