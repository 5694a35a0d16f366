"""Filling many rooms at once, with numpy.

Pods for a room are drawn at random, so the remaining pods stay mixed and pack well onto new nodes. The last
few pods are the best combination, from a table. Of many draws for each room, the one that wastes least is
taken.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebbtide.core.consolidation.drafts import Content, FreeRoom, fill
from ebbtide.core.consolidation.scene import Scene
from ebbtide.core.packing.fill import Arrays, Bools, Combos, Floats, Ints

_BATCHES = 12
_DRAWS = 3
_DRAWN = 16
_LAGGING = 0.05
"""How much more a kind counts of which more is left than of the others."""


def fill_many(
    scene: Scene, spaces: Sequence[FreeRoom], left: list[int], seed: int
) -> list[tuple[FreeRoom, Content]]:
    """As `fill`."""
    spaces = [space for space in spaces if space.cpu >= 0 and space.memory >= 0 and space.slots > 0]
    if not spaces:
        return []
    filler = _BatchFiller(scene, spaces, left, seed)
    if filler.nothing_fits:
        return []
    shapes: dict[int, list[FreeRoom]] = {}
    for space in spaces:
        shapes.setdefault(space.shape, []).append(space)
    for shape, members in shapes.items():
        filler.fill_shape(shape, members)
    left[:] = filler.left
    found = [(space, content) for space, content in filler.found if content]
    # What the draws left free may still take something small.
    return found + fill(scene, filler.after(), left)


class _BatchFiller:
    def __init__(self, scene: Scene, spaces: Sequence[FreeRoom], left: Sequence[int], seed: int) -> None:
        self._kinds = scene.kinds
        self._rng = np.random.default_rng(seed)
        size = np.array([(kind.cpu_milli, kind.memory_mib, 1) for kind in scene.kinds], dtype=float)
        values = np.array(scene.values)
        self.left = list(left)
        self._first: Floats = np.array(left, dtype=float)
        self._size = size
        self._worth: Floats = size @ values
        self._value = values[:2]
        rooms = np.array([(s.cpu, s.memory, s.slots) for s in spaces], dtype=float)
        self._combos = Combos(
            Arrays(
                size=size,
                counts=self._first,
                limit=self._first,
                worth=self._worth,
                parts=size * values,
                offer=np.maximum(rooms, 1.0),
                price=np.ones(len(rooms)),
                admitted=np.ones((len(rooms), len(size)), dtype=bool),
            )
        )
        self.found: list[tuple[FreeRoom, Content]] = []

    @property
    def nothing_fits(self) -> bool:
        """Where all rooms are full there is nothing to draw from."""
        return not len(self._combos.members)

    def fill_shape(self, shape: int, spaces: Sequence[FreeRoom]) -> None:
        admitted = np.array([bool(kind.admitted >> shape & 1) for kind in self._kinds])
        order = self._rng.permutation(len(spaces))
        for part in np.array_split(order, min(len(order), _BATCHES)):
            usable = admitted & (np.array(self.left) > 0)
            if not usable.any():
                return
            self._fill_batch([spaces[number] for number in part.tolist()], usable)

    def _fill_batch(self, spaces: Sequence[FreeRoom], usable: Bools) -> None:
        left: Floats = np.array(self.left, dtype=float)
        lag = left / np.maximum(self._first, 1.0) - left.sum() / self._first.sum()
        self._combos.revalue(np.where(usable, self._worth * (1.0 + _LAGGING * lag), -1.0))
        room = np.repeat(np.array([(s.cpu, s.memory, s.slots) for s in spaces], dtype=float), _DRAWS, axis=0)
        chance = np.where(usable, left, 0.0)
        drawn = self._rng.choice(len(chance), size=(len(room), _DRAWN), p=chance / chance.sum())
        rest = np.zeros((_DRAWN + 1, *room.shape))
        rest[0] = room
        for step in range(_DRAWN):
            after = rest[step] - self._size[drawn[:, step]]
            fits = np.all(after >= 0, axis=1)
            drawn[~fits, step] = -1
            rest[step + 1] = np.where(fits[:, np.newaxis], after, rest[step])
        flat = rest.reshape(-1, 3)
        best, any_ = self._combos.best_in(flat)
        members = self._combos.members[best]
        padded = np.vstack([self._size, np.zeros((1, 3))])
        taken = padded[members].sum(axis=1) * any_[:, np.newaxis]
        waste = (flat - taken)[:, :2] @ self._value
        waste[(flat - taken)[:, 2] < 0] = np.inf
        waste = waste.reshape(_DRAWN + 1, len(spaces), _DRAWS).transpose(1, 0, 2).reshape(len(spaces), -1)
        ranked = np.argsort(waste, axis=1, kind="stable")[:, :6]
        members = np.where(any_[:, np.newaxis], members, len(self._size))
        self._take(spaces, ranked, drawn, members.reshape(_DRAWN + 1, len(spaces), _DRAWS, 3))

    def _take(self, spaces: Sequence[FreeRoom], ranked: Ints, drawn: Ints, members: Ints) -> None:
        """Room by room, the best draw of which everything is still there."""
        nothing, left = len(self._size), self.left
        for row, (space, choices) in enumerate(zip(spaces, ranked.tolist(), strict=True)):
            content: dict[int, int] = {}
            for choice in choices:
                step, draw = divmod(choice, _DRAWS)
                content = {}
                for kind in (*drawn[row * _DRAWS + draw, :step].tolist(), *members[step, row, draw].tolist()):
                    if 0 <= kind < nothing:
                        content[kind] = content.get(kind, 0) + 1
                if all(left[kind] >= count for kind, count in content.items()):
                    break
                content = {}
            for kind, count in content.items():
                left[kind] -= count
            self.found.append((space, list(content.items())))

    def after(self) -> list[FreeRoom]:
        """The rooms as they are with what was put into them."""
        rest: list[FreeRoom] = []
        for space, content in self.found:
            size = space.cpu, space.memory, space.slots
            for kind, count in content:
                each = self._kinds[kind]
                size = size[0] - count * each.cpu_milli, size[1] - count * each.memory_mib, size[2] - count
            rest.append(FreeRoom(space.name, size, space.shape, space.room))
        return rest
