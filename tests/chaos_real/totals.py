"""The result of a run."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

GROWTH = 1.2


@dataclass
class RunTotals:
    seconds: float = 0.0
    kills: int = 0
    freezes: int = 0
    faults: Counter[str] = field(default_factory=Counter)
    launches: int = 0
    removals: int = 0
    sleeps: int = 0
    """How often the sleeper was seen to go to zero."""
    silences: int = 0
    """Kubelets that fell silent on a machine that ran on."""
    losses: int = 0
    excused: int = 0
    writes: int = 0
    lost_writes: int = 0
    by_other: int = 0
    memory: list[tuple[int, int]] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)
    of_other: list[str] = field(default_factory=list)
    """Bugs of the other version, which are known or fixed by now: told, and not counted against this one."""

    def add(self, other: RunTotals) -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    def held_against(self, owner: str) -> list[str]:
        """Where to tell what this runner did: an earlier version's faults are not this one's."""
        return self.of_other if owner.endswith("-other") else self.violations

    def judge_coverage(self, changes: int, versions: int) -> None:
        """A run in which something never happened shows nothing about it."""
        happened = (
            ("written", self.writes),
            ("written by the other version", self.by_other or versions < 2),
            ("launched", self.launches),
            ("removed", self.removals),
            ("lost", self.losses),
            ("put to sleep", self.sleeps),
            ("silent", self.silences),
            ("seen to change", changes),
        )
        self.violations += [
            f"nothing was ever {name}, so nothing was shown" for name, is_so in happened if not is_so
        ]

    def judge_memory(self) -> None:
        """Of a run that ended before its first look nothing is known."""
        for first, last in self.memory:
            if first and last > first * GROWTH:
                self.violations.append(f"the memory of a runner grew from {first} to {last} KiB")
