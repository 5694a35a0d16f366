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
from ebbtide.core.words import a_price, a_while, count_of, names_of, short_id, time_of_day
from ebbtide.model.decision import Action, Decision
from ebbtide.model.effect import OutcomeKind
from ebbtide.model.events import (
    FACTS,
    TICKS,
    Alarm,
    AlarmKind,
    BacktestPublished,
    ConsolidationEvaluated,
    CostNoted,
    DecisionMade,
    EffectDone,
    EffectKind,
    Event,
    FaultStruck,
    OperationBegun,
    OperationClosed,
    OperationKind,
    PolicyStep,
    PolicyWritten,
    SpotAnswer,
    SpotEvent,
    StretchClosed,
    SwitchedBy,
    SwitchSet,
    Transition,
)
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Consolidate, Move, SpotEnd, SpotKind

MOST_NAMED = 3

Fact = TypeVar("Fact", bound=Event)
KINDS: Mapping[type[Event], LogKind] = {
    kinds[0]: kind for kind, kinds in FACTS.items() if len(kinds) == 1
} | {
    SwitchSet: LogKind.SWITCH,
    FaultStruck: LogKind.SWITCH,
    BacktestPublished: LogKind.SWITCH,
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
            return closed(fact)
        case Transition():
            why = f": {fact.reason}" if fact.reason else ""
            return f"{fact.name} {fact.before} -> {fact.after}{why}"
        case EffectDone():
            return effect(fact)
        case SpotEvent():
            return spot(fact)
        case Alarm():
            return alarm(fact)
        case SwitchSet() | FaultStruck() | BacktestPublished():
            return _by_a_person(fact)
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
    return f"{kind_of(work)} continues: {told}{operation_tail(work.id)}"


def _at_a_step(names: Sequence[str], noun: str, state: str) -> str:
    if len(names) > MOST_NAMED:
        return f"{count_of(len(names), noun)} {state}"
    return ", ".join(f"{name} {state}" for name in names)


def _by_a_person(fact: SwitchSet | FaultStruck | BacktestPublished) -> str:
    if isinstance(fact, FaultStruck):
        return f"a person broke something: {fact.detail}"
    if isinstance(fact, BacktestPublished):
        return f"backtest of {fact.recording} published: {count_of(len(fact.tried), 'setting')} compared"
    by = "the API" if fact.by is SwitchedBy.API else "a person"
    why = f" ({fact.reason})" if fact.reason else ""
    return f"removals {'paused' if fact.paused else 'resumed'} by {by}{why}"


def _cost(fact: CostNoted) -> str:
    amounts = ", ".join(
        f"{a_price(Decimal(amount))} {currency}" for currency, amount in sorted(fact.perHour.items())
    )
    unpriced = f"; {count_of(fact.unpriced, 'worker')} without a known price" if fact.unpriced else ""
    return f"the workers cost {amounts or 'nothing that is known'} an hour{unpriced}"


def operation_tail(operation_id: str) -> str:
    return f" (operation {short_id(operation_id)})"


def closed(fact: OperationClosed) -> str:
    match fact.operation:
        case OperationKind.SCALE_UP:
            told = _scale_up(fact)
        case OperationKind.SCALE_DOWN:
            told = _scale_down(fact)
        case OperationKind.REPLACEMENT:
            by = f"; {names_of(fact.ready)} ready" if fact.ready else ""
            told = f"{_scale_down(fact)}{by}"
        case OperationKind.CONSOLIDATION:
            told = _consolidation(fact)
        case OperationKind.INTERRUPTION | OperationKind.REBALANCE:
            return f"{fact.operation} of {fact.instance_id} {_spot_end(fact)}"
        case _:
            assert_never(fact.operation)
    return f"{fact.operation} {told}{operation_tail(fact.operation_id)}"


def _scale_up(fact: OperationClosed) -> str:
    why = "; ".join(f"{one.name}: {one.reason}" for one in fact.kept)
    if fact.succeeded:
        return f"completed: {names_of(fact.ready)} ready" + (f"; without {why}" if why else "")
    return f"failed: {why or 'nothing was to be launched'}"


def _scale_down(fact: OperationClosed) -> str:
    why = "; ".join(
        [f"{one.name} kept: {one.reason}" for one in fact.kept]
        + [f"{one.name} set aside, it stays cordoned: {one.reason}" for one in fact.set_aside]
    )
    if fact.succeeded:
        did = [f"{names_of(fact.removed)} removed"] if fact.removed else []
        did += [f"{names_of(fact.gone_already)} gone already"] if fact.gone_already else []
        return f"completed: {'; '.join([*did, why] if why else did)}"
    return f"given up: {why}"


def _consolidation(fact: OperationClosed) -> str:
    did = f"{count_of(fact.moved, 'pod')} moved, {names_of(fact.emptied) or 'no node'} emptied"
    return f"completed: {did}" if fact.succeeded else f"given up: {fact.abort_reason}; {did}"


def _spot_end(fact: OperationClosed) -> str:
    match fact.end:
        case SpotEnd.ANSWERED:
            replaced = f"{fact.ready[0]} replaces it" if fact.ready else "nothing replaces it"
            return f"answered: {names_of(fact.removed + fact.gone_already)} is gone, {replaced}"
        case SpotEnd.REMOVED_MEANWHILE:
            return "answered: it was removed in the meantime"
        case SpotEnd.SET_ASIDE:
            return f"ended: its removal was set aside ({fact.reason})"
        case SpotEnd.NODE_STAYS:
            return f"ended: the node stays ({fact.reason})"
        case SpotEnd.NEVER_JOINED:
            return "ended: it never joined"
        case SpotEnd.NOT_LISTED:
            return "ended: it is no longer listed"
        case SpotEnd.NO_REPLACEMENT:
            return f"not followed: no replacement came ({fact.reason})"
        case SpotEnd.LAPSED:
            return f"lapsed: {fact.reason}"
        case SpotEnd.OPEN:
            return "ended"
        case _:
            assert_never(fact.end)


def effect(fact: EffectDone) -> str:
    detail = f" ({fact.detail})" if fact.detail else ""
    result = "no capacity" if fact.outcome is OutcomeKind.NO_CAPACITY else str(fact.outcome)
    return f"{_effect_name(fact)}: {result}{detail}"


def _effect_name(fact: EffectDone) -> str:
    match fact.effect:
        case EffectKind.LAUNCH:
            return f"launch {fact.name} ({fact.instance_type}, {fact.market}, {fact.zone})"
        case EffectKind.EVICT:
            return f"evict {fact.pod} from {fact.name}"
        case EffectKind.DELETE_NODE:
            return f"delete node {fact.name}"
        case EffectKind.SOFT_TAINT:
            return f"taint {fact.name} softly"
        case EffectKind.TERMINATE | EffectKind.CORDON | EffectKind.UNCORDON:
            return f"{fact.effect} {fact.name}"
        case _:
            assert_never(fact.effect)


def spot(fact: SpotEvent) -> str:
    which = f"{fact.node_name} ({fact.instance_id})" if fact.node_name else fact.instance_id
    about = f"{fact.notice} of {which}"
    match fact.answer:
        case SpotAnswer.TAKEN_IN if fact.notice is SpotKind.INTERRUPTION:
            return f"{about} received: the instance will be gone at {time_of_day(fact.deadline)}"
        case SpotAnswer.TAKEN_IN:
            return f"{about} received"
        case SpotAnswer.UPGRADED:
            gone = time_of_day(fact.deadline)
            return f"rebalance of {which} became an interruption: it will be gone at {gone}"
        case SpotAnswer.KNOWN:
            return f"{about} is already known"
        case SpotAnswer.NOT_OURS:
            return f"{about} ignored: not an instance of ours"
        case SpotAnswer.ALREADY_GOING:
            return f"{about} ignored: it is already being removed"
        case SpotAnswer.TOO_OLD:
            return f"{about} ignored: too old"
        case _:
            assert_never(fact.answer)


def alarm(fact: Alarm) -> str:
    resume = "and was set aside: removals wait until `ebbtide resume`"
    match fact.alarm:
        case AlarmKind.TICK_FAILED:
            return f"tick failed{_unexpected(fact)}: {fact.detail}"
        case AlarmKind.ROUND_FAILED:
            return f"the round over the policies failed{_unexpected(fact)}: {fact.detail}"
        case AlarmKind.OPERATION_CRASHES:
            times = count_of(fact.runs, "time")
            return f"an operation crashed its runner {times} {resume}{operation_tail(fact.operation_id)}"
        case AlarmKind.OPERATION_ENDLESS:
            limit = a_while(fact.seconds)
            return f"an operation did not end within {limit} {resume}{operation_tail(fact.operation_id)}"
        case AlarmKind.SPOT_CRASHES:
            return f"{fact.detail} crashed its runner {count_of(fact.runs, 'time')} and was given up"
        case AlarmKind.SPOT_FAILED:
            return f"the answer to a spot notice failed: {fact.detail}"
        case AlarmKind.INBOX_UNREADABLE:
            return f"the inbox could not be read: {fact.detail}"
        case AlarmKind.LOG_NOT_PRUNED:
            return f"old log entries could not be removed: {fact.detail}; the next attempt is tomorrow"
        case AlarmKind.TERMINATE_REFUSED:
            asks = "it stays cordoned, launches continue; allow its termination, or terminate it yourself"
            return f"a drained node cannot go: {fact.detail}; {asks}{operation_tail(fact.operation_id)}"
        case AlarmKind.SOURCE_GONE | AlarmKind.SOURCE_BACK:
            return _outage(fact)
        case AlarmKind.OBSERVATION | AlarmKind.RUNNER_DIED | AlarmKind.RECORD_HEALED:
            return fact.detail
        case _:
            assert_never(fact.alarm)


def _outage(fact: Alarm) -> str:
    if fact.alarm is AlarmKind.SOURCE_GONE:
        return f"outage begins: {fact.detail}"
    if fact.source == TICKS:
        return f"outage over: ticks succeed again after {a_while(fact.seconds)}"
    return f"outage over: the {fact.source} can be read again after {a_while(fact.seconds)}"


def _unexpected(fact: Alarm) -> str:
    return " unexpectedly" if fact.unexpected else ""
