"""What every strategy of a decision is asked, and what it fills in."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ebbtide.model.check import Check, Refusal
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.operation import Removal, Slot
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


@dataclass(slots=True)
class Answer:
    """Filled by a strategy while its checks are asked one after the other."""

    reason: str = ""
    slots: tuple[Slot, ...] = ()
    removals: tuple[Removal, ...] = ()
    refusals: tuple[Refusal, ...] = ()
    consolidation: ConsolidationReport | None = None


Strategy = Callable[[Question, Answer], Iterator[Check]]


def no_operation(q: Question) -> Check:
    operation = q.record.operation
    says = f"operation {operation.id} is under way" if operation else "no operation is under way"
    return Check("no operation in progress", operation is None, says)
