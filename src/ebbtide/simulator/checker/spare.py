"""Headroom, expected demand, limits and weights of pools, and nodes that are replaced, judged by the world
as it really is.

Headroom is counted here without the core, each alone, and nothing is shared with what is judged but the
settings. A runner may not have seen what happened in the last minutes: pods that were made lately take no
room here. A replacement is Ready before its node is touched, and only what is really unwell, expired or
drifted is replaced: said a second time, without the rules of `core.nodes`.

What forecasts asked for lately: the least of it that any runner may act on. A forecast asks for another room
with each look at the cluster, so a removal is judged by what was asked for since the runner behind it may
have looked. One that does not look ahead was asked for nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from math import ceil

from ebbtide.core.nodes.capacity import doomed, expected_slots
from ebbtide.core.nodes.gates import REPLACED, reason_of
from ebbtide.core.schedule import is_open
from ebbtide.model.operation import Consolidate, Removal, ScaleDown, SlotState
from ebbtide.model.pod import NOTHING, Pod, Resources, TaintEffect
from ebbtide.model.pool import Headroom, Pool, RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import InstanceState, Node
from ebbtide.simulator.checker.violations import Say, Violation, ViolationKind
from ebbtide.simulator.world.world import Act, ActKind, World

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
        """What another one replaced so long ago that no runner still acts on it."""
        seen = self._world.now - UNSEEN_SECONDS
        while len(self._asked) > 1 and self._asked[1][0] <= seen:
            del self._asked[0]


BRAKE = 0.20
GONE = InstanceState.GONE
CLOCK_SECONDS = 300.0
"""By so much a runner's clock may be wrong without any fault."""


class SpareRoom:
    def __init__(self, world: World, say: Say) -> None:
        self._world = world
        self._say = say
        self.expected = ExpectedRoom(world)

    def intends(self, removal: Removal, record: Record, settings: Settings) -> None:
        """A node that is removed of our own will must hold no headroom that is missing without it."""
        node = self._world.inventory.nodes.get(removal.node_name)
        if node is None or node.uid != removal.node_uid or not node.ready:
            return
        if reason_of(removal, record) in REPLACED:
            return  # its successor is there
        if self._gives_way(node, settings):
            return  # pods come first
        for headroom in (*settings.headroom, *self.expected.least()):
            if self._asleep_or_closed(headroom, settings) or not self._counts(headroom, node, settings):
                continue
            without = sum(self._room_without(headroom, record, settings))
            held = _fits(headroom, node, [pod for pod in self._pods_on(node) if pod.tied_to_node])
            if without < headroom.count and held > 0:
                by = " by a forecast" if headroom.expected else ""
                self._say(
                    ViolationKind.HEADROOM,
                    node.name,
                    f"removing {node.name} leaves headroom for {without} pods of {headroom.cpu_milli}m CPU "
                    f"and {headroom.memory_mib} MiB, {headroom.count} are asked for{by}",
                )

    def _gives_way(self, node: Node, settings: Settings) -> bool:
        """A pod is pending, and no more machines are allowed in the cluster or in the pool of this node."""
        book = self._world.machines.book.machines.values()
        alive = [machine.instance.pool for machine in book if machine.ours and machine.instance.alive]
        pool = settings.pool_named(node.pool)
        most = None if pool is None else pool.max_workers
        full = len(alive) >= settings.max_workers or (most is not None and alive.count(node.pool) >= most)
        limited = pool is not None and pool.limits is not None
        return bool(self._world.inventory.waiting) and (full or limited)

    def _asleep_or_closed(self, headroom: Headroom, settings: Settings) -> bool:
        pool = settings.pool_named(headroom.pool)
        asleep = pool is not None and pool.may_be_empty
        now = int(self._world.now)
        # The runner that decided may have looked just before the window opened.
        opened = headroom.window is None or (
            is_open(headroom.window, now) and is_open(headroom.window, now - int(UNSEEN_SECONDS))
        )
        return asleep or not opened

    def _counts(self, headroom: Headroom, node: Node, settings: Settings) -> bool:
        """By the taints of the node itself: its pool may have others by now, or be configured no longer."""
        pool = settings.pool_named(node.pool)
        asleep = pool is not None and pool.may_be_empty
        if asleep or not node.worker or headroom.pool not in ("", node.pool):
            return False
        tolerated = pool.taints if pool is not None and headroom.pool else ()
        hard = (one for one in node.taints if one.effect is not TaintEffect.PREFER_NO_SCHEDULE)
        fits = all(taint in tolerated for taint in hard)
        return fits and (not headroom.zones or node.zone in headroom.zones)

    def _room_without(self, headroom: Headroom, record: Record, settings: Settings) -> Iterator[int]:
        """On nodes that stay, and on nodes on their way."""
        going = doomed(record)
        for node in self._world.inventory.nodes.values():
            machine = self._world.nodes.machine_of(node.name)
            gone = machine is None or machine.instance.id in going or machine.asked_to_go
            if gone or not self._counts(headroom, node, settings) or not self._ready_lately(node):
                continue
            seen = [pod for pod in self._pods_on(node) if self._was_seen(pod)]
            yield _fits(headroom, node, seen)
        for slot in expected_slots(record):
            pool = settings.pool_named(slot.pool)
            known = pool.type_named(slot.instance_type) if pool is not None else None
            if known is not None:
                coming = Node(slot.key, "", pool=slot.pool, zone=slot.zone, allocatable=known.allocatable)
                coming = replace(coming, taints=pool.taints if pool is not None else ())
                counts = self._counts(headroom, coming, settings)
                yield _fits(headroom, coming, ()) if counts else 0

    def _ready_lately(self, node: Node) -> bool:
        lost_at = self._world.nodes.lost_at.get(node.uid, float("-inf"))
        return node.ready or self._world.now - lost_at < UNSEEN_SECONDS

    def _was_seen(self, pod: Pod) -> bool:
        return self._world.now - pod.created_at >= UNSEEN_SECONDS or pod.tied_to_node

    def _pods_on(self, node: Node) -> list[Pod]:
        return [pod for pod in self._world.pods_on(node.name) if not pod.finished]

    def launches(self, instance_id: str, settings: Settings) -> None:
        """What the machines of a pool offer together stays within its limits whenever one is launched."""
        machine = self._world.machines.find(instance_id)
        pool = settings.pool_named(machine.instance.pool) if machine is not None else None
        over = pool.limits.why_over(self._offered(pool)) if pool is not None and pool.limits else ""
        if pool is not None and over:
            self._say(ViolationKind.POOL_LIMITS, pool.name, f"the instances of pool {pool.name} offer {over}")

    def _offered(self, pool: Pool) -> Resources:
        held = NOTHING
        for machine in self._world.machines.book.machines.values():
            known = pool.type_named(machine.instance.instance_type)
            if machine.ours and machine.instance.alive and machine.instance.pool == pool.name and known:
                held = held.plus(known.allocatable)
        return held

    def wrote(self, before: Record, after: Record, settings: Settings) -> None:
        """A consolidation replaces nodes only by those of pools of the same weight."""
        operation = after.removing
        if before.removing is not None or not isinstance(operation, Consolidate):
            return
        weights = {pool.name: pool.weight for pool in settings.pools}
        old = {weights[source.pool] for source in operation.sources if source.pool in weights}
        new = {weights[slot.pool] for slot in operation.slots if slot.pool in weights}
        if new and old | new != old & new:
            self._say(
                ViolationKind.WEIGHTS,
                operation.id,
                f"{operation.id} replaces nodes of weight {sorted(old)} by nodes of weight {sorted(new)}",
            )


def _fits(headroom: Headroom, node: Node, pods: Iterable[Pod]) -> int:
    """How many pods of that size the node has room for next to these."""
    pods = list(pods)
    cpu = node.allocatable.cpu_milli - sum(pod.requests.cpu_milli for pod in pods)
    memory = node.allocatable.memory_mib - sum(pod.requests.memory_mib for pod in pods)
    if node.unschedulable and not node.cordoned_by_us:
        return 0
    slots = node.max_pods - len(pods)
    return max(0, min(cpu // headroom.cpu_milli, memory // headroom.memory_mib, slots))


class SpareCheck:
    def __init__(self, world: World, settings: Settings, say: Say) -> None:
        self._world = world
        self._settings = settings
        self._say = say
        self._stale = world.inventory.follow()
        self._unwell: dict[str, str] = {}
        """UIDs of those that are unwell, by node name."""
        self._unwell_at: dict[str, float] = {}
        """When a worker was last seen to be unwell, by node UID."""
        self.clocks_jump = False

    def follow(self, settings: Settings) -> None:
        if settings.repair_conditions != self._settings.repair_conditions:
            self._stale.update(self._world.inventory.nodes)
        self._settings = settings

    def look(self) -> None:
        """Only nodes where anything changed are asked again."""
        for name in self._stale:
            node = self._world.inventory.nodes.get(name)
            if node is not None and node.worker and self._is_unwell(node):
                self._unwell[name] = node.uid
            else:
                self._unwell.pop(name, None)
        self._stale.clear()
        for uid in self._unwell.values():
            self._unwell_at[uid] = self._world.now

    def saw(self, act: Act, record: Record | None) -> None:
        """A node is marked or cordoned."""
        operation = _replacement(record)
        if operation is None or act.kind not in (ActKind.SOFT_TAINT, ActKind.CORDON):
            return
        machine = self._world.nodes.machine_of(act.node_name)
        taken = machine is not None and machine.noticed
        # A replacement that joins too late is cordoned before it is terminated.
        own = machine is not None and machine.instance.id in {slot.instance_id for slot in operation.slots}
        ready = all(slot.state is SlotState.READY for slot in operation.slots)
        if act.operation_id == operation.id and not ready and not taken and not own:
            self._say(
                ViolationKind.TOUCHED_EARLY,
                act.node_name,
                f"node {act.node_name} was touched before its replacement was Ready",
            )

    def intends(self, removal: Removal, record: Record) -> None:
        """A removal became irrevocable."""
        operation = _replacement(record)
        node = self._world.inventory.nodes.get(removal.node_name)
        mine = operation is not None and removal.instance_id in {r.instance_id for r in operation.removals}
        if operation is None or not mine or node is None or node.uid != removal.node_uid:
            return
        for found in self._faults(operation.cause, node):
            self._say(found.kind, found.about, found.says)

    def _faults(self, cause: RemovalReason, node: Node) -> Iterator[Violation]:
        match cause:
            case RemovalReason.UNHEALTHY:
                if not self._settings.repair:
                    yield Violation(
                        ViolationKind.NOT_UNWELL, node.name, f"{node.name} was repaired, and repair is off"
                    )
                if self._world.now - self._unwell_at.get(node.uid, float("-inf")) > self._unseen():
                    yield Violation(
                        ViolationKind.NOT_UNWELL, node.name, f"{node.name} was repaired although it is well"
                    )
                yield from self._brake(node)
            case RemovalReason.EXPIRED:
                pool = self._settings.pool_named(node.pool)
                age = self._world.now - node.created_at
                lives = pool.expire_seconds if pool is not None else 0
                young = not lives or age + CLOCK_SECONDS < lives
                if young and not self.clocks_jump:
                    yield Violation(
                        ViolationKind.NOT_EXPIRED,
                        node.name,
                        f"{node.name} was replaced as expired at an age of {age:.0f} s, {lives} are allowed",
                    )
            case _:
                if not self._is_drifted(node):
                    yield Violation(
                        ViolationKind.NOT_DRIFTED,
                        node.name,
                        f"{node.name} was replaced as drifted although it is what its pool launches",
                    )

    def _unseen(self) -> float:
        """For so long a runner may act on what it saw: then its lease is over."""
        return self._settings.lock_ttl_seconds + 60.0

    def _brake(self, node: Node) -> Iterator[Violation]:
        nodes = [one for one in self._world.inventory.nodes.values() if one.worker and one.pool == node.pool]
        known = self._world.now - self._unseen()
        lost = [one for one in nodes if self._world.nodes.lost_at.get(one.uid, float("inf")) <= known]
        silent = [one for one in lost if self._is_unexplained(one)]
        # One that was there when the runner looked may be gone by now.
        if len(silent) > ceil(BRAKE * (len(nodes) + 1)):
            yield Violation(
                ViolationKind.BRAKE,
                node.name,
                f"{node.name} was repaired while {len(silent)} of {len(nodes)} of its pool are silent",
            )

    def _is_unexplained(self, node: Node) -> bool:
        """Silent without a known reason. One whose machine is gone, or was ended by us, is no sign of
        trouble in the network or the control plane."""
        machine = self._world.nodes.machine_of(node.name)
        return machine is not None and not machine.asked_to_go and machine.instance.state is not GONE

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
