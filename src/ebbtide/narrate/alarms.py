"""Alarms as sentences."""

from __future__ import annotations

from typing import assert_never

from ebbtide.core.words import a_while, count_of
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.narrate.operations import operation_tail


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
            return f"old log entries could not be removed: {fact.detail}; they stay until tomorrow's attempt"
        case AlarmKind.TERMINATE_REFUSED:
            asks = "it stays cordoned, launches go on; allow its termination, or terminate it yourself"
            return f"a drained node cannot go: {fact.detail}; {asks}{operation_tail(fact.operation_id)}"
        case AlarmKind.OBSERVATION | AlarmKind.RUNNER_DIED | AlarmKind.RECORD_HEALED:
            return fact.detail
        case _:
            assert_never(fact.alarm)


def _unexpected(fact: Alarm) -> str:
    return " unexpectedly" if fact.unexpected else ""
