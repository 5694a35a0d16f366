"""Entries of the append-only log. Each has a key of its own, so none can overwrite another."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum


class LogKind(StrEnum):
    DECISION = "decision"
    """What was decided, with every precondition and all that was seen; logged when it is news."""
    OPERATION_BEGUN = "operation.begun"
    """An operation was written down, before anything of it was done."""
    OPERATION_CLOSED = "operation.closed"
    """An operation ended: completed, or aborted and why."""
    TRANSITION = "transition"
    """A launch, a removal or a move came to its next state."""
    EFFECT = "effect"
    """A call to the cluster or the cloud, and how it ended."""
    DRAIN_RESULT = "drain.result"
    """How the emptying of a node ended."""
    SPOT_EVENT = "spot.event"
    """The cloud takes an instance back, or warns that it may."""
    ALARM = "alarm"
    """Something that a person should look at."""
    SWITCH = "switch"
    """A person paused or resumed removals, or published a backtest."""
    POLICY = "policy"
    """Written, deleted, paused, kept up."""
    IDLE = "idle"
    """A change of phase, or why there was none."""
    WAKE = "wake"
    """A workload was woken, by whom, and how long it took."""
    STRETCH = "ledger.stretch"
    """A closed stretch of the ledger; `data` is what a rebuild needs."""
    RULE = "rule"
    """A rule of a policy changed replicas, or why it did not."""
    COST = "cost"
    """What the workers cost an hour, noted when it changes."""
    CONSOLIDATION = "consolidation.evaluated"
    """Whether repacking was worth it, with its numbers."""


@dataclass(frozen=True, slots=True)
class LogEntry:
    id: str
    """Unique and growing with time."""
    at: int
    kind: LogKind
    says: str
    subject: str = ""
    """The decision, operation, node or instance it is about."""
    data: Mapping[str, object] = field(default_factory=dict)
    """JSON values only."""


Kinds = Collection[LogKind]
Entries = Sequence[LogEntry]
