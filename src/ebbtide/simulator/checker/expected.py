"""What forecasts asked for lately: the least of it that any runner may act on.

A forecast asks for another room with each look at the cluster, so a removal is judged by what was asked for
since the runner behind it may have looked. One that does not look ahead was asked for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.model.headroom import Headroom
from ebbtide.simulator.world.world import World

UNSEEN_SECONDS = 300.0
"""A pod made, a node lost or room asked for later than this may not have been seen by the runner that
decided."""


class ExpectedRoom:
    def __init__(self, world: World) -> None:
        self._world = world
        self._asked: list[tuple[float, tuple[Headroom, ...]]] = []
        """With the time from which on it was asked for."""

    def ask(self, headrooms: tuple[Headroom, ...]) -> None:
        """A tick decides with this room ahead of demand."""
        if not self._asked or self._asked[-1][1] != headrooms:
            self._asked.append((self._world.now, headrooms))
        self._forget()

    def least(self) -> Iterator[Headroom]:
        """By pool."""
        self._forget()
        for first in self._asked[0][1] if self._asked else ():
            found = [next((one for one in each if one.pool == first.pool), None) for _, each in self._asked]
            known = [one for one in found if one is not None]
            if len(known) == len(found):
                yield min(known, key=lambda one: one.count)

    def _forget(self) -> None:
        """What another one replaced so long ago that no runner acts on it any more."""
        seen = self._world.now - UNSEEN_SECONDS
        while len(self._asked) > 1 and self._asked[1][0] <= seen:
            del self._asked[0]
