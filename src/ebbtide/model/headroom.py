"""Spare room, kept free as if so many pods of one size ran there. Nothing in the cluster stands for it."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.model.schedule import CronWindow


@dataclass(frozen=True, slots=True)
class Headroom:
    cpu_milli: int
    memory_mib: int
    count: int = 1
    """Pods of that size for which there must be room, all at the same time."""
    pool: str = ""
    """Only room on nodes of this pool counts; empty for any pool without taints."""
    zones: tuple[str, ...] = ()
    """Only room in one of these zones counts; none for any zone."""
    window: CronWindow | None = None
    """None means always."""
    expected: str = ""
    """What is expected, of a headroom that a forecast asks for; empty for one of the configuration."""


@dataclass(frozen=True, slots=True)
class HeadroomSeen:
    """How much of one headroom there was at the last look."""

    says: str
    """The headroom in words."""
    wanted: int
    """0 while its window is closed, or while its pool sleeps."""
    there: int

    @property
    def missing(self) -> int:
        return self.wanted - self.there
