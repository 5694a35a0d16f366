"""Filling the rooms that are free on the nodes that stay, by counts of kinds.

Each room is filled greedily a few times, large kinds first but not always the largest; the fill that
wastes least is taken. What is left over belongs on new nodes.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.consolidation.drafts import Space
from ebbtide.core.consolidation.scene import Scene

Content = list[tuple[int, int]]
"""Kinds with their counts."""

_STARTS = 10
_WELL = 0.995
"""Share of a room's worth that is good enough at once."""


def fill(scene: Scene, spaces: Sequence[Space], left: list[int]) -> list[tuple[Space, Content]]:
    """What goes where; `left` is what is still without a place afterwards."""
    worths = scene.worths
    order = sorted((k for k, count in enumerate(left) if count), key=lambda k: -worths[k])
    found: list[tuple[Space, Content]] = []
    for space in sorted(spaces, key=lambda s: -scene.worth((s.cpu, s.memory, s.slots))):
        order = [kind for kind in order if left[kind]]
        if not order:
            break
        content = _best(scene, space, order, left)
        if content:
            for kind, count in content:
                left[kind] -= count
            found.append((space, content))
    return found


def _best(scene: Scene, space: Space, order: Sequence[int], left: Sequence[int]) -> Content:
    kinds = scene.kinds
    fitting = [
        (number, kinds[number].cpu_milli, kinds[number].memory_mib, scene.worths[number])
        for number in order
        if kinds[number].cpu_milli <= space.cpu
        and kinds[number].memory_mib <= space.memory
        and kinds[number].admitted >> space.shape & 1
    ]
    enough = scene.worth((space.cpu, space.memory, 0)) * _WELL
    best: Content = []
    best_worth = -1.0
    for start in range(min(_STARTS, len(fitting))):
        cpu, memory, slots = space.cpu, space.memory, space.slots
        content: Content = []
        worth = 0.0
        for number, kind_cpu, kind_memory, kind_worth in fitting[start:]:
            if kind_cpu > cpu or kind_memory > memory:
                continue
            by_cpu = cpu // kind_cpu if kind_cpu else slots
            by_memory = memory // kind_memory if kind_memory else slots
            take = min(left[number], slots, by_cpu, by_memory)
            if take:
                cpu -= take * kind_cpu
                memory -= take * kind_memory
                slots -= take
                worth += take * kind_worth
                content.append((number, take))
        if worth > best_worth:
            best, best_worth = content, worth
        if best_worth >= enough:
            break
    return best
