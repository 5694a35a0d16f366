"""Entries for the log: decisions with all their inputs, transitions, effects, alarms, and decisions
read back so that they can be explained and computed again."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec

from ebbtide.core.consolidation_log import log_fields
from ebbtide.core.operations.machine import Work
from ebbtide.errors import UNREADABLE, StoreUnusable, Usage
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.decision import Decision
from ebbtide.model.effect import DeleteNode, Effect, Evict, Launch, Outcome, SoftTaint, Terminate
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import (
    Consolidate,
    Move,
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    Source,
    Spot,
)
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Inputs:
    """All that a decision depended on."""

    snapshot: Snapshot
    record: Record
    settings: Settings
    now: int


def decision_entry(decision: Decision, inputs: Inputs) -> LogEntry:
    data = {"decision": msgspec.to_builtins(decision), "inputs": msgspec.to_builtins(inputs)}
    says = f"{decision.action}: {decision.reason}"
    return LogEntry(decision.id, decision.at, LogKind.DECISION, says, decision.id, data)


def consolidation_entry(entry_id: str, decision: Decision, rules: ConsolidationSettings) -> LogEntry | None:
    """What the policy asks to be logged of an evaluation; none where nothing was evaluated."""
    if decision.consolidation is None or not rules.enabled:
        return None
    data = log_fields(decision.consolidation, rules)
    return LogEntry(entry_id, decision.at, LogKind.CONSOLIDATION, str(data["reason"]), decision.id, data)


def read_decision(entry: LogEntry) -> Decision:
    with _readable(entry):
        return msgspec.convert(_part(entry, "decision"), Decision)


def read_inputs(entry: LogEntry) -> Inputs:
    with _readable(entry):
        data = _part(entry, "inputs")
        return Inputs(
            snapshot=msgspec.convert(data["snapshot"], Snapshot),
            record=_read_record(data["record"]),
            settings=msgspec.convert(data["settings"], Settings),
            now=int(data["now"]),
        )


@contextmanager
def _readable(entry: LogEntry) -> Iterator[None]:
    try:
        yield
    except (*UNREADABLE, AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise StoreUnusable(
            f"the decision {entry.id} cannot be read ({error}): it was left as it is; run the version that "
            "wrote it, or restore the log from a backup"
        ) from error


def _read_record(data: dict[str, Any]) -> Record:
    """Field by field, since which kind an operation is shows only in what it holds. What a newer version
    added is passed over, as elsewhere."""
    hints = get_type_hints(Record)
    values: dict[str, Any] = {
        name: _read_operation(value)
        if name in ("operation", "set_aside")
        else msgspec.convert(value, hints[name])
        for name, value in data.items()
        if name in hints
    }
    return Record(**values)


def _read_operation(data: dict[str, Any] | None) -> Operation | None:
    if data is None:
        return None
    if "moves" in data:
        return msgspec.convert(data, Consolidate)
    return msgspec.convert(data, ScaleUp) if "slots" in data else msgspec.convert(data, ScaleDown)


def _part(entry: LogEntry, name: str) -> Any:
    if entry.kind is not LogKind.DECISION or name not in entry.data:
        raise Usage(f"log entry {entry.id} is no decision but {entry.kind}: take an id from `ebbtide log`")
    return entry.data[name]


Part = Slot | Removal | Source | Move


def parts(work: Work) -> Iterator[Part]:
    match work:
        case ScaleUp():
            yield from work.slots
        case ScaleDown():
            yield from work.removals
        case Consolidate():
            yield from work.slots
            yield from work.sources
            yield from work.moves
        case Spot():
            yield from (part for part in (work.removal, work.slot) if part is not None)


def part_name(part: Part) -> str:
    if isinstance(part, Move):
        return part.pod_name
    if isinstance(part, Slot):
        return part.node_name or part.instance_id or part.key
    return part.node_name or part.instance_id


def transitions(before: Work, after: Work) -> Iterator[tuple[LogKind, str, str]]:
    """Kind, subject and sentence for every part that changed its state."""
    old = {_identity(part): part.state for part in parts(before)}
    for part in parts(after):
        was = old.get(_identity(part), "new")
        if was != part.state:
            drained = was == RemovalState.DRAINING
            kind = LogKind.DRAIN_RESULT if drained else LogKind.TRANSITION
            why = f": {part.reason}" if part.reason else ""
            yield kind, part_name(part), f"{part_name(part)} {was} -> {part.state}{why}"


def _identity(part: Part) -> str:
    if isinstance(part, Move):
        return f"pod {part.pod_uid}"
    if isinstance(part, Removal | Source):
        return part.instance_id
    return f"slot {part.key.rpartition('r')[0] if part.refused else part.key}"


def waits(work: Work) -> str:
    """What an operation that did not move is waiting for."""
    steps = [
        f"{part_name(part)} {part.state}" + (f" ({part.reason})" if part.reason else "")
        for part in parts(work)
        if not (isinstance(work, Consolidate) and part.settled)
    ]
    return f"{work.id} goes on: {', '.join(steps)}"


def told(outcome: Outcome) -> str:
    detail = f" ({outcome.detail})" if outcome.detail else ""
    return f"{_effect_name(outcome.effect)}: {outcome.kind}{detail}"


def effect_subject(effect: Effect) -> str:
    match effect:
        case Launch():
            return effect.slot.key
        case Terminate():
            return effect.instance_id
        case Evict() | DeleteNode():
            return effect.node_name
        case _:
            return effect.node_name


def _effect_name(effect: Effect) -> str:
    match effect:
        case Launch():
            slot = effect.slot
            return f"launch {slot.key} ({slot.instance_type}, {slot.market}, {slot.zone})"
        case Terminate():
            return f"terminate {effect.instance_id}"
        case Evict():
            return f"evict {effect.namespace}/{effect.name} from {effect.node_name}"
        case DeleteNode():
            return f"delete node {effect.node_name}"
        case SoftTaint():
            return f"taint {effect.node_name} softly"
        case _:
            return f"{type(effect).__name__.lower()} {effect.node_name}"
