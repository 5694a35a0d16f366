"""Decisions in the log, with all their inputs; read back to be explained, and computed again from everything
that they depended on.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, get_type_hints

from ebbtide import typed
from ebbtide.core.consolidation.evaluate import evaluation_fact
from ebbtide.core.nodes.decide import decide
from ebbtide.core.packing.pack import why_missing
from ebbtide.errors import UNREADABLE, SolverMissing, StoreCause, StoreUnusable, Usage
from ebbtide.extras import how_to_add
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.decision import Decision
from ebbtide.model.events import DecisionMade, Inputs
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Consolidate, Operation, ScaleDown, ScaleUp
from ebbtide.model.record import Record, in_lane
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of

OPERATIONS = ("launching", "removing", "launching_aside", "removing_aside")
"""Fields of a record that hold one."""


def decision_entry(decision: Decision, inputs: Inputs | None) -> LogEntry:
    return entry_of(decision.id, decision.at, DecisionMade(decision, inputs), decision.id)


def consolidation_entry(entry_id: str, decision: Decision, rules: ConsolidationSettings) -> LogEntry | None:
    """What the policy asks to be logged of an evaluation; none where nothing was evaluated."""
    if decision.consolidation is None or not rules.enabled:
        return None
    fact = evaluation_fact(decision.consolidation, rules)
    return entry_of(entry_id, decision.at, fact, decision.id)


def read_decision(entry: LogEntry) -> Decision:
    with _readable(entry):
        return typed.convert(_part(entry, "decision"), Decision)


def read_inputs(entry: LogEntry) -> Inputs:
    with _readable(entry):
        data = _part(entry, "inputs")
        return Inputs(
            snapshot=typed.convert(data["snapshot"], Snapshot),
            record=_read_record(data["record"]),
            settings=typed.convert(data["settings"], Settings),
            now=int(data["now"]),
        )


@contextmanager
def _readable(entry: LogEntry) -> Iterator[None]:
    try:
        yield
    except (*UNREADABLE, AttributeError, KeyError, TypeError, ValueError, ArithmeticError) as error:
        raise StoreUnusable(
            StoreCause.CORRUPT,
            f"the decision {entry.id} cannot be read ({error}): it was left as it is; run the version that "
            "wrote it, or restore the log from a backup",
        ) from error


def _read_record(data: dict[str, Any]) -> Record:
    """Field by field, since which kind an operation is shows only in what it holds. What a newer version
    added is skipped, as elsewhere."""
    hints = get_type_hints(Record)
    values: dict[str, Any] = {
        name: _read_operation(value) if name in OPERATIONS else typed.convert(value, hints[name])
        for name, value in data.items()
        if name in hints
    }
    return _with_one_lane(Record(**values), data)


def _with_one_lane(record: Record, data: dict[str, Any]) -> Record:
    """As it was written before there were two."""
    operation, aside = _read_operation(data.get("operation")), _read_operation(data.get("set_aside"))
    if operation is not None:
        record = in_lane(record, operation)
    if isinstance(aside, ScaleUp):
        return replace(record, launching_aside=aside)
    return record if aside is None else replace(record, removing_aside=aside)


def _read_operation(data: dict[str, Any] | None) -> Operation | None:
    if data is None:
        return None
    if "moves" in data:
        return typed.convert(data, Consolidate)
    return typed.convert(data, ScaleUp) if "slots" in data else typed.convert(data, ScaleDown)


def _part(entry: LogEntry, name: str) -> Any:
    if entry.kind is not LogKind.DECISION or name not in entry.data:
        raise Usage(f"log entry {entry.id} is not a decision but {entry.kind}: take an id from `ebbtide log`")
    return entry.data[name]


def decide_again(entry: LogEntry) -> tuple[Decision, Decision]:
    """As it is stored, and as it comes out now. `SolverMissing` where it was packed with what is not
    installed here: another packer gives another plan, which would say nothing about the stored one."""
    stored, inputs = read_decision(entry), read_inputs(entry)
    why = why_missing(inputs.settings.packer)
    if why:
        raise SolverMissing(
            f"decision {stored.id} cannot be computed again here: {why}; nothing was touched. "
            f"Run: {how_to_add('solver')}"
        )
    return stored, decide(inputs.snapshot, inputs.record, inputs.settings, inputs.now, stored.id)
