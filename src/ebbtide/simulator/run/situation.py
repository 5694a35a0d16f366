"""What is being survived: a fault that somebody made, and the steps of its answer. Each step says what was
reached, from facts of the log, or nothing.

A step is reached once; the steps are in order. When the last is reached, the situation is over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from ebbtide.core.words import a_while, count_of
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import (
    AlarmKind,
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
        """By whole seconds, as the clocks next to it."""
        return a_while(max(0, int(self.now) - int(self.began_at)))

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


SPOT = (OperationKind.INTERRUPTION, OperationKind.REBALANCE)


def pods_pending(seen: Evidence) -> str:
    return (
        f"{count_of(seen.pending, 'pod')} pending."
        if seen.pending
        else "All of them fit."
        if seen.fits
        else ""
    )


def launching(seen: Evidence) -> str:
    launches = sum(one.outcome is OutcomeKind.DONE for one in seen.effects(EffectKind.LAUNCH))
    if launches:
        return f"{count_of(launches, 'node')} launched, {seen.after} after the fault."
    return "No node is needed: the nodes had room." if seen.fits else ""


def nodes_ready(seen: Evidence) -> str:
    ready = sum(len(fact.ready) for fact in seen.closed(OperationKind.SCALE_UP))
    if ready:
        return f"{count_of(ready, 'node')} ready, {seen.after} after the fault."
    return "No node is needed: the nodes had room." if seen.fits and not seen.record.launching else ""


def all_run(seen: Evidence) -> str:
    return f"No pod is pending, {seen.after} after the fault." if not seen.pending else ""


def noticed(seen: Evidence) -> str:
    notices = seen.of(LogKind.SPOT_EVENT)
    return f"{count_of(len(notices), 'spot notice')} received." if notices else ""


def evicting(seen: Evidence) -> str:
    """An eviction asks a pod to leave; it runs until its grace period ends."""
    asked = [one for one in seen.effects(EffectKind.EVICT) if one.outcome is OutcomeKind.DONE]
    if asked:
        nodes = count_of(len({one.name for one in asked}), "node")
        return f"{count_of(len(asked), 'pod')} asked to leave {nodes}, {seen.after} after the fault."
    return "The nodes had no pod to move." if not seen.record.spots else ""


def replacing(seen: Evidence) -> str:
    """Without a count: the step is reached by the first launch, and others follow."""
    launched = [one for one in seen.effects(EffectKind.LAUNCH) if one.outcome is OutcomeKind.DONE]
    if launched:
        return f"The first replacement is launched, {seen.after} after the fault."
    return "No replacement is needed." if not seen.record.spots else ""


def answered(seen: Evidence) -> str:
    closed = seen.closed(*SPOT)
    if seen.record.spots or not closed:
        return ""
    says = closed[-1].reason or "every notice is answered"
    return f"{says[0].upper()}{says[1:]}, {seen.after} after the fault."


def draining(seen: Evidence) -> str:
    cordoned = seen.effects(EffectKind.CORDON, EffectKind.SOFT_TAINT, EffectKind.EVICT)
    return f"{cordoned[0].name} accepts no new pods." if cordoned else ""


def refused(seen: Evidence) -> str:
    refused = [one for one in seen.effects(EffectKind.EVICT) if one.outcome is not OutcomeKind.DONE]
    return f"{refused[0].pod or refused[0].name}: {refused[0].detail or 'refused'}." if refused else ""


def killed(seen: Evidence) -> str:
    died = [entry for entry in seen.of(LogKind.ALARM) if entry.data.get("alarm") == AlarmKind.RUNNER_DIED]
    says = str(died[0].data.get("detail", "")) if died else ""
    return f"{says[0].upper()}{says[1:]}." if says else ""


def taken_over(seen: Evidence) -> str:
    died = [entry for entry in seen.of(LogKind.ALARM) if entry.data.get("alarm") == AlarmKind.RUNNER_DIED]
    later = [entry for entry in seen.of(LogKind.EFFECT) if died and entry.id > died[0].id]
    facts = [fact_in(entry, EffectDone) for entry in later]
    # Of the drain itself: another operation may continue meanwhile.
    if not any(fact is not None and fact.operation in SPOT for fact in facts):
        return ""
    return f"The other runner continues from the record, {seen.after} after the fault."


def gone(says: str) -> Callable[[Evidence], str]:
    """Reached at once: the fault itself."""

    def reached(_seen: Evidence) -> str:
        return says

    return reached


def over(says: str) -> Callable[[Evidence], str]:
    def reached(seen: Evidence) -> str:
        return "" if seen.troubled else f"{says}, {seen.after} after the fault."

    return reached
