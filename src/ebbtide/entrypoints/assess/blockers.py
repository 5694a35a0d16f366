"""All that keeps a node, where the pods of a removable one would go, and why pods are pending. Nothing is
touched."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from functools import cached_property

from ebbtide.core.nodes.drain import Disruptions, Treatment, plan_drain
from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.words import count_of
from ebbtide.model.node import Node
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView

MOST_REASONS = 3
MOST_PENDING = 200


class Blockers:
    def __init__(self, view: ClusterView, settings: Settings, removable: Collection[str]) -> None:
        self._view = view
        self._settings = settings
        self._removable = set(removable)
        self._disruptions = Disruptions(view.budgets, spends=False)

    def of(self, node: Node) -> tuple[str, ...]:
        """Every pod on it that may not be evicted now, with the rule or the budget, and every pod that no
        other node takes; none where its pods do not keep it."""
        if node.control_plane or node.system or not node.ready:
            return ()
        pods = self._view.pods_on.get(node.name, ())
        plan = plan_drain(node, pods, self._disruptions, self._settings, {})
        held = [each for treatment in (Treatment.BLOCK, Treatment.WAIT) for each in plan.treated(treatment)]
        return (*(each.says for each in held), *self._without_a_place(node))

    def _without_a_place(self, node: Node) -> list[str]:
        placement = self._left
        room = placement.close(node.name)
        try:
            movable = [pod for pod in self._view.pods_on.get(node.name, ()) if not pod.tied_to_node]
            return [
                f"{pod.full_name} would fit on no other node"
                for pod in movable
                if placement.first_fit(pod) is None
            ]
        finally:
            if room is not None:
                placement.open(room)

    @cached_property
    def _left(self) -> Placement:
        """The nodes that stay, with their pods and those of the nodes that go."""
        return self._moved[0]

    @property
    def goes_to(self) -> dict[str, tuple[tuple[str, str], ...]]:
        return self._moved[1]

    @cached_property
    def _moved(self) -> tuple[Placement, dict[str, tuple[tuple[str, str], ...]]]:
        placement = placement_of(self._view, self._removable)
        moved: dict[str, tuple[tuple[str, str], ...]] = {}
        for name in sorted(self._removable):
            for pod in self._view.pods_on.get(name, ()):
                room = None if pod.tied_to_node else placement.first_fit(pod)
                if room is not None:
                    placement.place(pod, room)
                    moved[name] = (*moved.get(name, ()), (pod.full_name, room.name))
        return placement, moved

    def pending(self) -> tuple[tuple[str, str], ...]:
        placement = placement_of(self._view)
        found = []
        for pod in self._view.waiting_pods[:MOST_PENDING]:
            against = Counter(placement.why_not(pod, room) for room in placement.rooms.values())
            fits = against.pop(None, 0)
            told = "; ".join(
                f"{why.says} ({count_of(nodes, 'node')})"
                for why, nodes in against.most_common(MOST_REASONS)
                if why is not None
            )
            says = f"{count_of(fits, 'node')} with room for it; the scheduler places it" if fits else told
            found.append((pod.full_name, says or "no node takes pods now"))
        return tuple(found)
