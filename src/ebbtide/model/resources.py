"""What a node offers and what a pod asks for, in whole milli-CPUs and mebibytes.

Readers round requests up and offers down, so "fits" is never optimistic.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Resources:
    cpu_milli: int = 0
    memory_mib: int = 0
    extended: tuple[tuple[str, int], ...] = ()
    """Other named amounts (GPUs and the like), each known by its full name."""

    def plus(self, other: Resources, times: int = 1) -> Resources:
        """CPU and memory of both together; other amounts are left out."""
        return Resources(self.cpu_milli + times * other.cpu_milli, self.memory_mib + times * other.memory_mib)


NOTHING = Resources()
