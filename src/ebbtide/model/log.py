"""Entries of the append-only log. Each has a key of its own, so that none can overwrite another."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


class LogKind(StrEnum):
    DECISION = "decision"
    OPERATION_BEGUN = "operation.begun"
    OPERATION_CLOSED = "operation.closed"
    TRANSITION = "transition"
    EFFECT = "effect"
    DRAIN_RESULT = "drain.result"
    SPOT_EVENT = "spot.event"
    ALARM = "alarm"
    SWITCH = "switch"
    POLICY = "policy"
    """Written, deleted, paused, kept up."""
    IDLE = "idle"
    """A change of phase, or why there was none."""
    WAKE = "wake"
    STRETCH = "ledger.stretch"
    """A closed stretch of the ledger; `data` is what a rebuild needs."""
    RULE = "rule"
    COST = "cost"
    """What the workers cost an hour, noted when it changes."""
    CONSOLIDATION = "consolidation.evaluated"


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
