"""A decision: what to do next, why, and for everything not done the precondition that forbade it."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from ebbtide.model.check import Check, Refusal
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.operation import Removal, Slot
from ebbtide.model.pool import RemovalReason

__all__ = ["Action", "Check", "Decision", "Refusal", "Verdict"]


class Action(StrEnum):
    ADOPT = "adopt"
    """Follow an instance of ours that no operation knows until it joins or is reclaimed."""
    FORGET = "forget"
    """Delete the Node object that a vanished instance left behind."""
    RELEASE = "release"
    """Lift a cordon of ours whose operation is no longer open."""
    RETRY = "retry"
    """Terminate again what the cloud refused to terminate before."""
    SCALE_UP = "scale_up"
    REPAIR = "repair"
    """Replace a worker that is unwell, or remove it where it carries nothing."""
    SCALE_DOWN = "scale_down"
    REPLACE = "replace"
    """Replace a worker that is expired or drifted."""
    CONSOLIDATE = "consolidate"
    """Remove nodes that are empty, or empty some onto others so they can be removed."""
    NOTHING = "nothing"


@dataclass(frozen=True, slots=True)
class Verdict:
    """All that was asked before one action, up to and including the first check that failed."""

    action: Action
    checks: tuple[Check, ...]
    refusals: tuple[Refusal, ...] = ()

    @property
    def failed(self) -> Check | None:
        last = self.checks[-1] if self.checks else None
        return last if last is not None and not last.passed else None


@dataclass(frozen=True, slots=True)
class Decision:
    id: str
    at: int
    action: Action
    reason: str
    verdicts: tuple[Verdict, ...]
    slots: tuple[Slot, ...] = ()
    removals: tuple[Removal, ...] = ()
    consolidation: ConsolidationReport | None = None
    """All that was asked and found about repacking, where that was looked into."""
    cause: RemovalReason = RemovalReason.IDLE
    """Why its nodes are to go."""

    @property
    def key(self) -> str:
        """What it says, without numbers: equal keys are the same news."""
        ends = ((verdict.action, verdict.failed) for verdict in self.verdicts)
        failed = [f"{action}:{check.name if check else 'ok'}" for action, check in ends]
        return f"{self.action}|" + "|".join(failed)
