"""Removals that the cloud refuses although they cannot be taken back.

After `stuck_sec` such a removal is set aside: its operation closes, other removals and launches continue, and
its node stays cordoned. It is kept in the record and tried again at a slow pace, by the operation that
began it, until its instance is gone. It is never released.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.question import Answer, Question, no_removal
from ebbtide.core.words import count_of
from ebbtide.model.check import Check, Values
from ebbtide.model.decision import Decision
from ebbtide.model.operation import Removal, RemovalState, ScaleDown
from ebbtide.model.record import Record, Refused
from ebbtide.model.settings import Settings


def set_aside(
    record: Record, removals: Iterable[Removal], operation_id: str, settings: Settings, now: int
) -> Record:
    """The record with those of these removals that were set aside by their operation, which is being
    closed."""
    kept = tuple(
        Refused(operation_id, replace(one, state=RemovalState.TERMINATING), now + settings.stuck_seconds)
        for one in removals
        if one.state is RemovalState.SET_ASIDE
    )
    return replace(record, refused=record.refused + kept)


def retry(q: Question, answer: Answer) -> Iterator[Check]:
    """Ask again for what was refused; at once where its instance is gone, since only its Node object is
    left."""
    yield no_removal(q)
    yield gates.complete(q.snapshot)
    yield gates.not_paused(q.record)
    due = [one for one in q.record.refused if q.now >= one.retry_at or _is_gone(one, q)]
    says = "the cloud refused no removal"
    if known := len(q.record.refused):
        are = "is" if known == 1 else "are"
        says = f"{len(due)} of {count_of(known, 'removal')} that the cloud refused {are} due"
    yield Check("refused removal due", bool(due), says, Values(len(due), 1))
    same = [one.removal for one in due if one.operation_id == due[0].operation_id]
    answer.removals = tuple(replace(removal, retry_at=0, since=q.now) for removal in same)
    names = ", ".join(removal.node_name or removal.instance_id for removal in same)
    answer.reason = f"terminate {names} again: the cloud refused it before ({same[0].reason})"


def _is_gone(one: Refused, q: Question) -> bool:
    instance = q.snapshot.instance_with_id.get(one.removal.instance_id)
    return instance is not None and not instance.alive


def taken_up_again(record: Record, decision: Decision) -> Record:
    """The operation that signed the cordon is open again. It has failed once already: no back-off follows."""
    ids = {removal.instance_id for removal in decision.removals}
    again = [one for one in record.refused if one.removal.instance_id in ids]
    operation = ScaleDown(
        again[0].operation_id, decision.at, decision.removals, decision.reason, excused=True
    )
    left = tuple(one for one in record.refused if one not in again)
    return replace(record, removing=operation, refused=left)
