"""What a search may use: time until a deadline, chance from a seed, and a packer.

All are handed in, so one seed, one packer and enough time give one plan.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.model.packer import Packer

CALLS_PER_SECOND = 100
"""Looks at a counting clock that make a second."""


@dataclass(frozen=True, slots=True)
class Budget:
    clock: Callable[[], float]
    deadline: float
    seed: int = 0
    packer: Packer = Packer.HIGHS

    def left(self) -> float:
        return self.deadline - self.clock()

    def part(self, share: float) -> Budget:
        """A budget that ends when this share of what is left is used."""
        return replace(self, deadline=self.clock() + max(0.0, self.left()) * share)


class CountingClock:
    """A clock that moves on whenever it is looked at, for planning that can be repeated exactly."""

    def __init__(self) -> None:
        self._calls = 0

    def __call__(self) -> float:
        self._calls += 1
        return self._calls / CALLS_PER_SECOND


class Dice:
    """A linear congruential generator: enough for a search, the same on every machine."""

    def __init__(self, seed: int) -> None:
        self._state = (seed * 2 + 1) & _MASK

    def below(self, end: int) -> int:
        """A whole number from 0 to end - 1."""
        return self._next() * end >> _BITS

    def share(self) -> float:
        """A number from 0 up to 1."""
        return self._next() / (1 << _BITS)

    def _next(self) -> int:
        self._state = (self._state * 6364136223846793005 + 1442695040888963407) & _MASK
        return self._state >> (64 - _BITS)


_BITS = 32
_MASK = (1 << 64) - 1
