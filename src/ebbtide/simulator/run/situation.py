"""What is being survived: a fault that somebody made, and the steps of its answer, each told by facts of the
log.

A step is reached once; the steps are in order. When the last is reached, the situation is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.core.words import a_while
from ebbtide.model.events import (
    EffectDone,
    EffectKind,
    OperationBegun,
    OperationClosed,
    OperationKind,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Record
from ebbtide.narrate import fact_in

KINDS = (LogKind.OPERATION_BEGUN, LogKind.OPERATION_CLOSED, LogKind.EFFECT, LogKind.SPOT_EVENT, LogKind.ALARM)
GIVEN_UP_SECONDS = 3600
"""A situation that is not over by then is shown no longer as in progress."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known a while after a fault was made."""

    began_at: float
    now: float
    entries: Sequence[LogEntry]
    """Since then, oldest first."""
    record: Record
    pending: int
    grown_pending: int
    """Of those, pods of the workload that a burst grows."""
    fits: bool
    """Whether every pod of the workload that a burst grows runs."""
    troubled: bool
    """Whether a fault that ends by itself has not ended."""

    @property
    def after(self) -> str:
        return a_while(max(0, int(self.now - self.began_at)))

    def begun(self, *kinds: OperationKind) -> list[OperationBegun]:
        facts = (fact_in(entry, OperationBegun) for entry in self.of(LogKind.OPERATION_BEGUN))
        return [fact for fact in facts if fact is not None and fact.operation in kinds]

    def closed(self, *kinds: OperationKind) -> list[OperationClosed]:
        facts = (fact_in(entry, OperationClosed) for entry in self.of(LogKind.OPERATION_CLOSED))
        return [fact for fact in facts if fact is not None and fact.operation in kinds]

    def effects(self, *kinds: EffectKind) -> list[EffectDone]:
        facts = (fact_in(entry, EffectDone) for entry in self.of(LogKind.EFFECT))
        return [fact for fact in facts if fact is not None and fact.effect in kinds]

    def of(self, kind: LogKind) -> list[LogEntry]:
        return [entry for entry in self.entries if entry.kind is kind]


@dataclass(frozen=True, slots=True)
class LiveStep:
    awaits: str
    """What is to come, for as long as it has not."""
    reached: Callable[[Evidence], str]
    """What came; empty until then."""


@dataclass(frozen=True, slots=True)
class ToldAct:
    says: str
    at: int = 0
    """When it was reached; 0 until then."""


@dataclass(frozen=True, slots=True)
class LiveSituation:
    fault_id: str
    name: str
    explains: str
    """What would go wrong elsewhere, and what Ebbtide does about it."""
    began_id: str
    """Entries of the log with a higher id came after the fault."""
    began_at: float
    steps: tuple[LiveStep, ...]
    told: tuple[ToldAct, ...] = field(default=())
    """Of the steps that were reached."""
    ended_at: float = 0.0

    @property
    def over(self) -> bool:
        return self.ended_at > 0

    @property
    def lines(self) -> tuple[ToldAct, ...]:
        return (*self.told, *(ToldAct(step.awaits) for step in self.steps[len(self.told) :]))

    def seen(self, evidence: Evidence) -> LiveSituation:
        now = self
        while len(now.told) < len(now.steps):
            says = now.steps[len(now.told)].reached(evidence)
            if not says:
                break
            now = replace(now, told=(*now.told, ToldAct(says, int(evidence.now))))
        late = evidence.now - self.began_at > GIVEN_UP_SECONDS
        return replace(now, ended_at=evidence.now) if late or len(now.told) == len(now.steps) else now
