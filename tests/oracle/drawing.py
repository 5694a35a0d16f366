"""Where cases come from: Hypothesis, which can make one small, or a plain seeded generator, which is quick.

A case is drawn from a `Source`, so both draw from the same space and are judged by the same rules.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from hypothesis import strategies as st

One = TypeVar("One")
Case = TypeVar("Case")


class Source(Protocol):
    def pick(self, options: Sequence[One]) -> One: ...

    def picks(self, options: Sequence[One], least: int, most: int) -> list[One]:
        """From `least` to `most` of them, each as often as it comes."""
        ...

    def number(self, low: int, high: int) -> int: ...

    def numbers(self, low: int, high: int, least: int, most: int) -> list[int]: ...


Cases = Callable[[Source], Case]
"""How to draw a case."""


class Chosen:
    """By Hypothesis."""

    def __init__(self, draw: st.DrawFn) -> None:
        self._draw = draw

    def pick(self, options: Sequence[One]) -> One:
        return self._draw(st.sampled_from(options))

    def picks(self, options: Sequence[One], least: int, most: int) -> list[One]:
        return self._draw(st.lists(st.sampled_from(options), min_size=least, max_size=most))

    def number(self, low: int, high: int) -> int:
        return self._draw(st.integers(low, high))

    def numbers(self, low: int, high: int, least: int, most: int) -> list[int]:
        return self._draw(st.lists(st.integers(low, high), min_size=least, max_size=most))


class Thrown:
    """By a seeded generator: the same seed throws the same cases."""

    def __init__(self, seed: str) -> None:
        self._random = random.Random(seed)

    def pick(self, options: Sequence[One]) -> One:
        return self._random.choice(options)

    def picks(self, options: Sequence[One], least: int, most: int) -> list[One]:
        return self._random.choices(options, k=self._random.randint(least, most))

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def numbers(self, low: int, high: int, least: int, most: int) -> list[int]:
        return [self._random.randint(low, high) for _ in range(self._random.randint(least, most))]


def strategy(cases: Cases[Case]) -> st.SearchStrategy[Case]:
    @st.composite
    def drawn(draw: st.DrawFn) -> Case:
        return cases(Chosen(draw))

    return drawn()
