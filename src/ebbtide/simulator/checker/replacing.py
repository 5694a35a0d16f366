"""What must never happen to a node that is replaced, judged by the world as it really is.

Said a second time, without the rules of `core.nodes`: a replacement is Ready before its node is touched, and
only what is really unwell, expired or drifted is replaced.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import ceil

from ebbtide.model.budget import RemovalReason
from ebbtide.model.node import Node
from ebbtide.model.operation import Removal, ScaleDown, SlotState
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.simulator.world.world import Act, ActKind, World

BRAKE = 0.20
CLOCK_SECONDS = 300.0
"""By so much a runner's clock may be wrong without any fault."""


class Replacing:
    def __init__(self, world: World, settings: Settings, say: Callable[[str], None]) -> None:
        self._world = world
        self._settings = settings
        self._say = say
        self._unwell: tuple[int, list[str]] = (-1, [])
        """UIDs of those that are unwell, at a version of the nodes."""
        self._unwell_at: dict[str, float] = {}
        """When a worker was last seen to be unwell, by node UID."""
        self.clocks_jump = False

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        self._unwell = (-1, [])

    def look(self) -> None:
        inventory = self._world.inventory
        if self._unwell[0] != inventory.nodes_version:
            nodes = inventory.nodes.values()
            unwell = [node.uid for node in nodes if node.worker and self._is_unwell(node)]
            self._unwell = (inventory.nodes_version, unwell)
        for uid in self._unwell[1]:
            self._unwell_at[uid] = self._world.now

    def saw(self, act: Act, record: Record | None) -> None:
        """A node is marked or cordoned."""
        operation = _replacement(record)
        if operation is None or act.kind not in (ActKind.SOFT_TAINT, ActKind.CORDON):
            return
        machine = self._world.nodes.machine_of(act.node_name)
        taken = machine is not None and machine.noticed
        ready = all(slot.state is SlotState.READY for slot in operation.slots)
        if act.operation_id == operation.id and not ready and not taken:
            self._say(f"node {act.node_name} was touched before its replacement was Ready")

    def intends(self, removal: Removal, record: Record) -> None:
        """A removal became irrevocable."""
        operation = _replacement(record)
        node = self._world.inventory.nodes.get(removal.node_name)
        mine = operation is not None and removal.instance_id in {r.instance_id for r in operation.removals}
        if operation is None or not mine or node is None or node.uid != removal.node_uid:
            return
        for sentence in self._faults(operation.cause, node):
            self._say(sentence)

    def _faults(self, cause: RemovalReason, node: Node) -> Iterator[str]:
        match cause:
            case RemovalReason.UNHEALTHY:
                if self._world.now - self._unwell_at.get(node.uid, float("-inf")) > self._unseen():
                    yield f"{node.name} was repaired although it is well"
                yield from self._brake(node)
            case RemovalReason.EXPIRED:
                pool = self._settings.pool_named(node.pool)
                age = self._world.now - node.created_at
                lives = pool.expire_seconds if pool is not None else 0
                young = not lives or age + CLOCK_SECONDS < lives
                if young and not self.clocks_jump:
                    yield f"{node.name} was replaced as expired at an age of {age:.0f} s, {lives} are allowed"
            case _:
                if not self._is_drifted(node):
                    yield f"{node.name} was replaced as drifted although it is what its pool launches"

    def _unseen(self) -> float:
        """For so long a runner may act on what it saw: then its lease is over."""
        return self._settings.lock_ttl_seconds + 60.0

    def _brake(self, node: Node) -> Iterator[str]:
        nodes = [one for one in self._world.inventory.nodes.values() if one.worker and one.pool == node.pool]
        known = self._world.now - self._unseen()
        silent = [one for one in nodes if self._world.nodes.lost_at.get(one.uid, float("inf")) <= known]
        # One that was there when the runner looked may be gone by now.
        if len(silent) > ceil(BRAKE * (len(nodes) + 1)):
            yield f"{node.name} was repaired while {len(silent)} of {len(nodes)} of its pool are silent"

    def _is_unwell(self, node: Node) -> bool:
        return not node.ready or any(one in self._settings.repair_conditions for one in node.conditions)

    def _is_drifted(self, node: Node) -> bool:
        pool = self._settings.pool_named(node.pool)
        machine = self._world.nodes.machine_of(node.name)
        if pool is None or machine is None:
            return False
        instance = machine.instance
        if instance.instance_type not in {one.name for one in pool.types}:
            return True
        if instance.launch_hash and pool.launch_hash:
            return instance.launch_hash != pool.launch_hash
        lacks = set(pool.labels) - set(node.labels)
        return bool(lacks) or not set(pool.taints) <= set(node.taints)


def _replacement(record: Record | None) -> ScaleDown | None:
    operation = record.removing if record is not None else None
    if not isinstance(operation, ScaleDown) or operation.cause is RemovalReason.IDLE:
        return None
    return operation
