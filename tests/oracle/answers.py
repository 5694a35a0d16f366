"""Answers of the oracle, and the count of how often each was given.

A rule that never said "no" in a run has not been tried: the table at the end of a run shows every answer of
every rule, and a run in which one of them is zero fails.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import wraps
from typing import Generic, ParamSpec, TypeVar

YES, NO, EITHER = "yes", "no", "either"


@dataclass(frozen=True, slots=True)
class Ruling:
    """What the documents say, and the sentence that goes with it."""

    answer: str
    why: str = ""

    @property
    def allows(self) -> bool:
        return self.answer != NO

    @property
    def demands(self) -> bool:
        return self.answer == YES


Value_co = TypeVar("Value_co", covariant=True)


@dataclass(frozen=True, slots=True)
class Meaning(Generic[Value_co]):
    """For a rule that says what something is worth: the value, and which of its cases applied."""

    answer: str
    value: Value_co


def yes(why: str = "") -> Ruling:
    return Ruling(YES, why)


def no(why: str) -> Ruling:
    return Ruling(NO, why)


def either(why: str = "") -> Ruling:
    return Ruling(EITHER, why)


def strictest(rulings: Iterable[Ruling]) -> Ruling:
    """No, if any says no; else either, if any does."""
    found = list(rulings)
    for answer in (NO, EITHER):
        for ruling in found:
            if ruling.answer == answer:
                return ruling
    return found[0] if found else yes()


@dataclass(frozen=True, slots=True)
class Rule:
    """One function of the oracle, the rows or sections it quotes, and the answers it can give."""

    source: str
    function: str
    answers: tuple[str, ...]


RULES: dict[str, Rule] = {}
DRAWN: Counter[tuple[str, str]] = Counter()
"""How often each function gave each answer."""

Parameters = ParamSpec("Parameters")
Answered = TypeVar("Answered", bound=Ruling | Meaning[object])


def rule(
    source: str, *answers: str
) -> Callable[[Callable[Parameters, Answered]], Callable[Parameters, Answered]]:
    """Register a rule under what it quotes, with every answer it can give."""

    def register(function: Callable[Parameters, Answered]) -> Callable[Parameters, Answered]:
        name = f"{function.__module__.rpartition('.')[2]}.{function.__name__}"
        RULES[name] = Rule(source, name, answers)

        @wraps(function)
        def counted(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Answered:
            answered = function(*args, **kwargs)
            assert answered.answer in answers, (
                f"{name} answered {answered.answer!r}, which it does not declare"
            )
            DRAWN[name, answered.answer] += 1
            return answered

        return counted

    return register


def never_drawn(drawn: Counter[tuple[str, str]], modules: Iterable[str] = ()) -> list[str]:
    """Answers that no case brought about, of these modules or of all."""
    wanted = tuple(f"{module}." for module in modules)
    return [
        f"{one.function}: {answer}"
        for one in RULES.values()
        for answer in one.answers
        if not drawn[one.function, answer] and (not wanted or one.function.startswith(wanted))
    ]


NO_RULES = {
    "row 33": "what a run evicts is in `eviction.may_evict`; that it evicts again is a story: `row-33-*`",
    "row 34": "the metric of a run that failed is a format: `test_row_34_*`",
    "row 36": "the words of an obstacle are not judged, only that it is named: `test_row_36_obstacles`",
    "row 41": "that a launch for woken pods does not wait is a story: `row-41-woken-pods-need-a-node`",
    "row 44": "a repeated answer is a format of the API: `tests/integration/api`",
    "row 47": "how the record's `pk` is spelled is a format: `tests/contract/stores`",
}
"""What of these rows the oracle does not say, since it is not about whether something may happen, and what
tests it."""


def table(drawn: Counter[tuple[str, str]]) -> list[str]:
    lines = ["| rule | function | answers |", "| --- | --- | --- |"]
    for one in sorted(RULES.values(), key=lambda each: each.function):
        counts = ", ".join(f"{answer} {drawn[one.function, answer]:,}" for answer in one.answers)
        lines.append(f"| {one.source} | `{one.function}` | {counts} |")
    lines += [f"| {row} | no rule | {why} |" for row, why in NO_RULES.items()]
    return lines
