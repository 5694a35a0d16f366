"""How many may leave at a time, judged by the workers that are really there."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ebbtide.core.nodes.budgets import allowed
from ebbtide.core.nodes.gates import reason_of
from ebbtide.model.node import Node
from ebbtide.model.operation import Removal
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.simulator.world.world import World

LATELY_SECONDS = 600.0
"""What a runner saw may be some minutes old: a share is taken of the most workers there were lately."""


class Crowding:
    def __init__(self, world: World, say: Callable[[str], None]) -> None:
        self._world = world
        self._say = say
        self._seen: list[tuple[float, int]] = []
        self._counted = (-1, 0)
        """How many workers there are, at a version of the nodes."""

    def look(self) -> None:
        now = self._world.now
        self._seen = [(at, count) for at, count in self._seen if at > now - LATELY_SECONDS]
        version = self._world.inventory.nodes_version
        if self._counted[0] != version:
            self._counted = (version, len(self._workers()))
        self._seen.append((now, self._counted[1]))

    def intends(
        self, removal: Removal, leaving: Sequence[Removal], record: Record, settings: Settings
    ) -> None:
        """`leaving` is all that is irrevocably asked for of our own will, this one with it."""
        going = [one for one in leaving if self._stands(one)]
        if not self._stands(removal):
            return
        workers = max(count for _, count in (*self._seen, (0.0, len(self._workers()))))
        limit = max(1, int(settings.budget_fraction * workers))
        if len(going) > limit:
            self._say(f"{len(going)} of {workers} workers are leaving at once, the budget is {limit}")
        others = [one for one in going if one.instance_id != removal.instance_id]
        reason, now = reason_of(removal, record), int(self._world.now)
        if not allowed(settings.budgets, "", reason, workers, len(others), now).count:
            self._say(f"removing {removal.node_name} exceeds a budget of the cluster")
        pool = settings.pool_named(removal.pool)
        if pool is None:
            return
        in_pool, count = [one for one in others if one.pool == pool.name], len(self._workers(pool.name))
        if not allowed(pool.budgets, pool.name, reason, count, len(in_pool), now).count:
            self._say(f"removing {removal.node_name} exceeds a budget of pool {pool.name}")

    def _workers(self, pool: str = "") -> list[Node]:
        nodes = self._world.inventory.nodes.values()
        return [node for node in nodes if node.worker and pool in ("", node.pool)]

    def _stands(self, removal: Removal) -> bool:
        node = self._world.inventory.nodes.get(removal.node_name)
        return node is not None and node.uid == removal.node_uid and node.ready
