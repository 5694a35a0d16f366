"""Where a path begins: a copy of everything between two ticks, and the choices made since."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.simulator.run.runner import Stage
from tests.explorer.actors import Actor
from tests.explorer.copying import dismantle

Left = tuple[int, int, int, int]
"""Faults, delays and events that may still be spent, and how many of all together."""


@dataclass(slots=True)
class Snapshot:
    """All there is between two ticks, and how it was come by."""

    stage: Stage
    actors: list[Actor]
    step: int
    turn: int
    left: Left
    choices: tuple[int, ...] = ()

    def __del__(self) -> None:
        dismantle(self.stage)


@dataclass(frozen=True, slots=True)
class Entry:
    """A path still to be taken: from a snapshot by these choices; `moves` of time are part of it."""

    snapshot: Snapshot
    choices: tuple[int, ...] = ()
    moves: int = 0
