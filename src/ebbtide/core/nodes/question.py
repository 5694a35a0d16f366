"""The input of every strategy of a decision, and the answer that it fills in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ebbtide.core.words import a_while, count_of, short_id
from ebbtide.model.budget import RemovalReason
from ebbtide.model.check import Check, Refusal, Values
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.operation import Consolidate, Operation, Removal, ScaleUp, Slot
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Question:
    snapshot: Snapshot
    record: Record
    settings: Settings
    now: int
    operation_id: str
    brief: bool = False
    """Whether what is not done for want of a simple precondition need not be looked into: the decision and
    its reason are the same, the report on it says less."""


@dataclass(slots=True)
class Answer:
    """Filled by a strategy while its checks are asked one after the other."""

    reason: str = ""
    slots: tuple[Slot, ...] = ()
    removals: tuple[Removal, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    consolidation: ConsolidationReport | None = None
    cause: RemovalReason = RemovalReason.IDLE


Strategy = Callable[[Question, Answer], Iterator[Check]]


def backed_off(failures: int, until: int, now: int) -> Check:
    left = until - now
    says = "no back-off"
    if left > 0:
        says = f"{count_of(failures, 'failure')} in a row, {a_while(left)} of back-off left"
    return Check("back-off over", left <= 0, says, Values(max(0, left), 0))


def no_operation(q: Question) -> Check:
    """No other scaling in progress, in either lane: asked before nodes are chosen to be removed."""
    return _none_open(q.record.operation)


def no_removal(q: Question) -> Check:
    """Asked before something is cleared up in the lane of removals: a launch does not stand in its way."""
    return _none_open(q.record.removing)


def _none_open(operation: Operation | None) -> Check:
    says = in_progress(operation) if operation else "no operation is in progress"
    return Check(
        "no operation in progress", operation is None, says, Values(about=operation.id if operation else "")
    )


def in_progress(operation: Operation) -> str:
    """What it does says more than its id, which comes last."""
    adds, packs = isinstance(operation, ScaleUp), isinstance(operation, Consolidate)
    kind = "scale-up" if adds else "consolidation" if packs else "scale-down"
    return f"a {kind} is in progress (operation {short_id(operation.id)})"
