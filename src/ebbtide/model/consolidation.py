"""Repacking: what was looked at, what it would save, which pods would move where.

Two paths. An empty node that is old and idle enough is removed at once. An occupied one is first emptied
by a validated plan of moves, and is then removed by the first path.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal

from ebbtide.model.check import Check, NodeCause, Refusal
from ebbtide.model.operation import Move, Removal, Slot

MOVES_AT_ONCE = 4
MOST_OF_A_CONTROLLER = Decimal("0.10")


@dataclass(frozen=True, slots=True)
class ConsolidationSettings:
    enabled: bool = False
    cooldown_seconds: int = 7200
    backoff_max_seconds: int = 86400
    """The cooldown doubles with each fruitless consolidation, up to this."""
    min_uptime_seconds: int = 1800
    min_idle_seconds: int = 900
    min_savings_per_hour: Decimal = Decimal("0.10")
    min_savings_fraction: Decimal = Decimal(0)
    """The same as a share of what the cluster costs; both must be reached."""
    max_fill: Decimal = Decimal("0.70")
    """Packing is done to this share of a node, and the result is checked against it."""
    min_nodes: int = 1
    """Always left standing, unless the pool may go to zero."""
    move_cost: Decimal = Decimal("0.005")
    """What disturbing one pod is assumed to cost, in the currency of the prices."""
    payback_seconds: int = 14400
    """Savings must have paid for the disturbance within this time."""
    moves_per_hour: int = 60
    moves_fraction: Decimal = Decimal(0)
    """Pods moved in an hour as a share of those that run, where that is more than `moves_per_hour`."""
    at_once_fraction: Decimal = Decimal(0)
    """Pods moved at a time as a share of those that run, and of one controller's, where that is more than
    a few and one."""
    move_timeout_seconds: int = 300
    """How long a moved pod may take to be ready elsewhere."""
    replace: bool = True
    """Whether cheaper nodes may be launched in place of more expensive ones."""
    players_query: str = ""
    """PromQL: players by the labels namespace and pod, next to the annotation."""
    plan_seconds: float = 2.0

    def least_savings(self, cost_per_hour: Decimal) -> Decimal:
        """What must be saved an hour in a cluster that costs so much."""
        share = (self.min_savings_fraction * cost_per_hour).quantize(Decimal("0.0001"))
        return max(self.min_savings_per_hour, share)

    def at_once(self, running_pods: int) -> int:
        """How many pods may be on the move at a time where so many run."""
        return max(MOVES_AT_ONCE, int(self.at_once_fraction * running_pods))

    def at_once_of(self, ready_pods: int) -> int:
        """The same for the pods of one controller: never more than a tenth of them, but one."""
        return max(1, int(min(self.at_once_fraction, MOST_OF_A_CONTROLLER) * ready_pods))

    def moves_allowed(self, running_pods: int) -> int:
        """How many pods may be moved in an hour where so many run."""
        return max(self.moves_per_hour, int(self.moves_fraction * running_pods))


@dataclass(frozen=True, slots=True)
class NodeAnalysis:
    """One line of the table that `ebbtide consolidate --dry-run` prints."""

    node_name: str
    instance_type: str
    age_seconds: int
    idle_seconds: int
    """0 while it has pods that count."""
    pods: int
    cost_per_hour: Decimal | None
    kept: bool
    why: str
    cause: NodeCause = field(default=NodeCause.UNKNOWN, compare=False)
    """Not compared, as in a refusal."""


@dataclass(frozen=True, slots=True)
class FrontierPoint:
    """With so many pods moved, the cluster could cost so much."""

    pods_moved: int
    cost_per_hour: Decimal


@dataclass(frozen=True, slots=True)
class ConsolidationPlan:
    empties: tuple[Removal, ...] = ()
    """Empty, old and idle enough: removed by this decision."""
    sources: tuple[Removal, ...] = ()
    """To be emptied first."""
    moves: tuple[Move, ...] = ()
    """In the order in which they are to be made."""
    slots: tuple[Slot, ...] = ()
    """Launched, and seen to be ready, before anything moves."""
    cost_before: Decimal = Decimal(0)
    cost_after: Decimal = Decimal(0)
    bound: Decimal = Decimal(0)
    """No set of nodes for these pods costs less."""
    currency: str = ""
    frontier: tuple[FrontierPoint, ...] = ()

    @property
    def savings_per_hour(self) -> Decimal:
        return self.cost_before - self.cost_after


@dataclass(frozen=True, slots=True)
class ConsolidationReport:
    """Everything that was asked and found; `plan` only where every check passed."""

    checks: tuple[Check, ...]
    nodes: tuple[NodeAnalysis, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    """Nodes and pods left out of any plan, and why."""
    plan: ConsolidationPlan | None = None
    candidate: ConsolidationPlan | None = None
    """The best plan found, also where a check refused it: what could be saved."""

    @property
    def failed(self) -> Check | None:
        return next((check for check in self.checks if not check.passed), None)
