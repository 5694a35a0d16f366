"""Facts as sentences, for people. The only place that makes them; nothing reads a sentence back.

    entry = entry_of(new_id(), now, fact)      # a LogEntry: the sentence, and the fact as its data
    fact = fact_in(entry, OperationClosed)     # the fact again; None for an entry of another kind or shape

A sentence begins with what it is about; ids come last and short.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import TypeVar, assert_never

import msgspec

from ebbtide import typed
from ebbtide.core.operations.facts import kind_of, part_name, parts
from ebbtide.core.operations.machine import Work
from ebbtide.core.words import a_price, a_while, count_of
from ebbtide.model.decision import Action, Decision
from ebbtide.model.events import (
    FACTS,
    Alarm,
    ConsolidationEvaluated,
    CostNoted,
    DecisionMade,
    EffectDone,
    Event,
    FaultStruck,
    OperationBegun,
    OperationClosed,
    PolicyStep,
    PolicyWritten,
    SpotEvent,
    StretchClosed,
    SwitchedBy,
    SwitchSet,
    Transition,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Consolidate, Move
from ebbtide.narrate import alarms, operations
from ebbtide.narrate.operations import operation_tail

MOST_NAMED = 3

Fact = TypeVar("Fact", bound=Event)
KINDS: Mapping[type[Event], LogKind] = {
    kinds[0]: kind for kind, kinds in FACTS.items() if len(kinds) == 1
} | {
    SwitchSet: LogKind.SWITCH,
    FaultStruck: LogKind.SWITCH,
    PolicyWritten: LogKind.POLICY,
    PolicyStep: LogKind.IDLE,
}
"""The kind of entry that a fact makes, where the caller names none."""


def entry_of(entry_id: str, at: int, fact: Event, subject: str = "", kind: LogKind | None = None) -> LogEntry:
    data = {name: value for name, value in msgspec.to_builtins(fact).items() if value is not None}
    return LogEntry(entry_id, at, kind or KINDS[type(fact)], says(fact), subject, data)


def fact_in(entry: LogEntry, fact: type[Fact]) -> Fact | None:
    """What the entry holds; None where that is something else, or an older version logged no data."""
    if fact not in FACTS[entry.kind] or not entry.data:
        return None
    try:
        return typed.convert(entry.data, fact)
    except msgspec.ValidationError:
        return None


def facts_in(entries: Iterable[LogEntry], fact: type[Fact]) -> list[Fact]:
    return [found for entry in entries if (found := fact_in(entry, fact)) is not None]


def says(fact: Event) -> str:  # noqa: PLR0912 - one answer for each fact
    match fact:
        case DecisionMade():
            return f"{fact.decision.action}: {fact.decision.reason}"
        case OperationBegun():
            return f"{fact.operation} begun: {fact.reason}{operation_tail(fact.operation_id)}"
        case OperationClosed():
            return operations.closed(fact)
        case Transition():
            why = f": {fact.reason}" if fact.reason else ""
            return f"{fact.name} {fact.before} -> {fact.after}{why}"
        case EffectDone():
            return operations.effect(fact)
        case SpotEvent():
            return operations.spot(fact)
        case Alarm():
            return alarms.alarm(fact)
        case SwitchSet() | FaultStruck():
            return _switch(fact)
        case PolicyWritten():
            return f"policy {fact.policy} {fact.change}: {fact.target}"
        case PolicyStep():
            return f"policy {fact.policy}: {fact.detail}"
        case StretchClosed():
            return f"{fact.stretch.phase} for {a_while(fact.stretch.until - fact.stretch.since)}"
        case CostNoted():
            return _cost(fact)
        case ConsolidationEvaluated():
            return fact.reason
        case _:
            assert_never(fact)


def tick_of(decision: Decision) -> str:
    """What a tick says of its decision."""
    return f"nothing to do: {decision.reason}" if decision.action is Action.NOTHING else decision.reason


def goes_on(work: Work) -> str:
    """What an operation that did not move is waiting for. Many parts at the same step are counted."""
    steps: dict[tuple[str, str], list[str]] = {}
    for part in parts(work):
        if not (isinstance(work, Consolidate) and part.settled):
            why = f" ({part.reason})" if part.reason else ""
            noun = "pod" if isinstance(part, Move) else "node"
            steps.setdefault((noun, f"{part.state}{why}"), []).append(part_name(part))
    told = ", ".join(_at_a_step(names, noun, state) for (noun, state), names in steps.items())
    return f"{kind_of(work)} goes on: {told}{operation_tail(work.id)}"


def _at_a_step(names: Sequence[str], noun: str, state: str) -> str:
    if len(names) > MOST_NAMED:
        return f"{count_of(len(names), noun)} {state}"
    return ", ".join(f"{name} {state}" for name in names)


def _switch(fact: SwitchSet | FaultStruck) -> str:
    if isinstance(fact, FaultStruck):
        return f"a person broke something: {fact.detail}"
    by = "the API" if fact.by is SwitchedBy.API else "a person"
    why = f" ({fact.reason})" if fact.reason else ""
    return f"removals {'paused' if fact.paused else 'resumed'} by {by}{why}"


def _cost(fact: CostNoted) -> str:
    amounts = ", ".join(
        f"{a_price(Decimal(amount))} {currency}" for currency, amount in sorted(fact.perHour.items())
    )
    unpriced = f"; {count_of(fact.unpriced, 'worker')} without a known price" if fact.unpriced else ""
    return f"the workers cost {amounts or 'nothing that is known'} an hour{unpriced}"
