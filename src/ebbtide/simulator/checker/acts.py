"""What one act must never do, judged in the moment before it takes effect; how many may leave at a time, by
the workers that are really there; and what must never happen to the two lanes of a record.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from ebbtide.core.nodes.capacity import condemned, expected_slots, open_removals
from ebbtide.core.nodes.drain import allowed
from ebbtide.core.nodes.gates import reason_of
from ebbtide.model import operation as ops
from ebbtide.model.pod import Pod, matches
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node
from ebbtide.simulator.checker.violations import Say, Violation, ViolationKind
from ebbtide.simulator.world.machines import Machine
from ebbtide.simulator.world.world import Act, ActKind, World

LATELY_SECONDS = 600.0
"""What a runner saw may be some minutes old: a share is taken of the most workers there were lately."""


class Crowding:
    def __init__(self, world: World, say: Say) -> None:
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
        self, removal: ops.Removal, leaving: Sequence[ops.Removal], record: Record, settings: Settings
    ) -> None:
        """`leaving` is all that is irrevocably asked for of our own will, this one with it."""
        going = [one for one in leaving if self._stands(one)]
        if not self._stands(removal):
            return
        workers = max(count for _, count in (*self._seen, (0.0, len(self._workers()))))
        limit = max(1, int(settings.budget_fraction * workers))
        if len(going) > limit:
            self._say(
                ViolationKind.BUDGET_EXCEEDED,
                removal.node_name,
                f"{len(going)} of {workers} workers are leaving at once, the budget is {limit}",
            )
        others = [one for one in going if one.instance_id != removal.instance_id]
        reason, now = reason_of(removal, record), int(self._world.now)
        if not allowed(settings.budgets, "", reason, workers, len(others), now).count:
            self._say(
                ViolationKind.BUDGET_EXCEEDED,
                removal.node_name,
                f"removing {removal.node_name} exceeds a budget of the cluster",
            )
        pool = settings.pool_named(removal.pool)
        if pool is None:
            return
        in_pool, count = [one for one in others if one.pool == pool.name], len(self._workers(pool.name))
        if not allowed(pool.budgets, pool.name, reason, count, len(in_pool), now).count:
            self._say(
                ViolationKind.BUDGET_EXCEEDED,
                removal.node_name,
                f"removing {removal.node_name} exceeds a budget of pool {pool.name}",
            )

    def _workers(self, pool: str = "") -> list[Node]:
        nodes = self._world.inventory.nodes.values()
        return [node for node in nodes if node.worker and pool in ("", node.pool)]

    def _stands(self, removal: ops.Removal) -> bool:
        node = self._world.inventory.nodes.get(removal.node_name)
        return node is not None and node.uid == removal.node_uid and node.ready


def lane_faults(before: Record, after: Record, competes: Callable[[str], bool]) -> Iterator[Violation]:
    """What is wrong with this write. `competes` says whether an
    instance may not be removed next to a launch."""
    yield from _swapped(before.launching, after.launching)
    yield from _swapped(before.removing, after.removing)
    if before.launching is not None and after.launching is not None:
        yield from _shrunk(before.launching, after.launching)
    if before.removing is not None or after.removing is None or after.launching is None:
        return
    if any(competes(instance_id) for instance_id in _chosen(after.removing)):
        yield Violation(
            ViolationKind.NEXT_TO_A_LAUNCH,
            after.removing.id,
            f"{after.removing.id} began to remove nodes while {after.launching.id} launches some",
        )


def _swapped(before: ops.Operation | None, after: ops.Operation | None) -> Iterator[Violation]:
    if before is not None and after is not None and before.id != after.id:
        yield Violation(
            ViolationKind.TWO_IN_A_LANE, after.id, f"operation {after.id} began while {before.id} was open"
        )


def _shrunk(before: ops.ScaleUp, after: ops.ScaleUp) -> Iterator[Violation]:
    """Slots are appended, never removed or reordered. An offer that had no capacity gives a slot a new
    key."""
    kept = after.slots[: len(before.slots)]
    if len(kept) < len(before.slots):
        yield Violation(ViolationKind.SLOTS_LOST, before.id, f"scale-up {before.id} lost slots")
    for old, new in zip(before.slots, kept, strict=False):
        if old.instance_id and new.instance_id != old.instance_id:
            yield Violation(
                ViolationKind.SLOT_CHANGED,
                old.key,
                f"slot {old.key} of {before.id} changed its place or its instance",
            )
    if after.requested < before.requested:
        yield Violation(
            ViolationKind.FEWER_REQUESTED,
            before.id,
            f"scale-up {before.id} asks for {after.requested} nodes, {before.requested} before",
        )


def _chosen(operation: ops.Removing) -> Iterator[str]:
    """What is to go; what only clears up after a crash or a refusal chooses nothing."""
    if not isinstance(operation, ops.ScaleDown):
        yield from (source.instance_id for source in operation.sources)
        return
    yield from (one.instance_id for one in operation.removals if one.state is ops.RemovalState.PLANNED)


UNSEEN_JOIN_SECONDS = 180.0
"""For so long a machine that joins after its termination was written may take pods before it is cordoned:
until the lease of a runner that froze has run out, and another has looked."""


def judge(world: World, act: Act, record: Record | None, settings: Settings) -> Iterator[Violation]:
    """What is wrong with this act."""
    match act.kind:
        case ActKind.TERMINATE:
            yield from _terminate(world, act, record)
        case ActKind.EVICT:
            yield from _evict(world, act, record, settings)
        case ActKind.SOFT_TAINT | ActKind.CORDON | ActKind.UNCORDON:
            yield from _cordon(world, act, record)
        case ActKind.DELETE_NODE:
            yield from _delete_node(world, act)
        case ActKind.LAUNCH:
            pass


def _terminate(world: World, act: Act, record: Record | None) -> Iterator[Violation]:
    machine = world.machines.book.machines[act.instance_id]
    if not machine.ours:
        yield Violation(
            ViolationKind.NOT_OURS,
            act.instance_id,
            f"instance {act.instance_id}, which is not ours, was to be terminated",
        )
        return
    if not machine.instance.alive:
        return
    if record is not None and not _intended(record, act.instance_id, machine.instance.key):
        yield Violation(
            ViolationKind.NO_INTENT,
            act.instance_id,
            f"instance {act.instance_id} was terminated without a written intent",
        )
    node = world.inventory.nodes.get(act.node_name)
    if node is None or machine.noticed or _joined_too_late(world, act.instance_id, node, record):
        return
    repaired = _repaired(record, act.instance_id)
    for pod in world.pods_on(node.name):
        # On a node that fell silent nobody reports the end of a pod: past its grace it counts as ended.
        ended = repaired and pod.terminating and 0 < pod.ends_at <= world.now
        if not pod.finished and not pod.mirror and pod.controller != "DaemonSet" and not ended:
            state = "ending" if pod.terminating else "running"
            yield Violation(
                ViolationKind.POD_LOST,
                pod.full_name,
                f"instance {act.instance_id} was terminated with pod {pod.full_name} {state} on it",
            )
    if node.volumes_attached and not repaired:
        yield Violation(
            ViolationKind.VOLUME_LOST,
            act.instance_id,
            f"instance {act.instance_id} was terminated with {node.volumes_attached[0]} attached",
        )


def _repaired(record: Record | None, instance_id: str) -> bool:
    """Whether it is terminated because it is unwell."""
    removals = open_removals(record) if record is not None else ()
    return any(removal.instance_id == instance_id and removal.unhealthy for removal in removals)


def _joined_too_late(world: World, instance_id: str, node: Node, record: Record | None) -> bool:
    """Whether it joined so shortly ago, after its termination was written, that nobody may have seen it yet:
    no cloud terminates a machine on condition that it has no node."""
    slots = expected_slots(record) if record is not None else ()
    meant = any(
        slot.instance_id == instance_id and slot.terminated and slot.since <= node.created_at
        for slot in slots
    )
    return meant and world.now - node.created_at < UNSEEN_JOIN_SECONDS


def _intended(record: Record, instance_id: str, key: str) -> bool:
    """A removal or a reclaim says so in the record."""
    by_removal = any(r.instance_id == instance_id and r.irrevocable for r in open_removals(record))
    by_slot = any(
        (slot.instance_id == instance_id or slot.key == key) and slot.state is ops.SlotState.TERMINATING
        for slot in expected_slots(record)
    )
    return by_removal or by_slot


def _evict(world: World, act: Act, record: Record | None, settings: Settings) -> Iterator[Violation]:
    pod = world.inventory.pods[act.pod_uid]
    node = world.inventory.nodes.get(act.node_name)
    if node is None:
        yield Violation(
            ViolationKind.NOT_CORDONED,
            pod.full_name,
            f"pod {pod.full_name}, which is on no node, was evicted",
        )
        return
    if not node.worker:
        yield Violation(
            ViolationKind.NOT_OURS,
            node.name,
            f"pod {pod.full_name} was evicted from {node.name}, which is not a worker of ours",
        )
    machine = world.nodes.machine_of(node.name)
    # A node that the cloud is reclaiming is emptied, also if a person cordoned it.
    taken = machine is not None and machine.noticed and node.unschedulable
    if not node.cordoned_by_us and not taken and not _moved(node, pod.uid, record):
        yield Violation(
            ViolationKind.NOT_CORDONED,
            pod.full_name,
            f"pod {pod.full_name} was evicted from {node.name}, which is not cordoned by us",
        )
    if pod.mirror or pod.controller == "DaemonSet":
        yield Violation(
            ViolationKind.PROTECTED_POD,
            pod.full_name,
            f"pod {pod.full_name}, which belongs to its node, was evicted",
        )
    elif protected := "" if machine is not None and machine.noticed else why_protected(pod, settings):
        yield Violation(
            ViolationKind.PROTECTED_POD, pod.full_name, f"pod {pod.full_name}, which {protected}, was evicted"
        )
    for budget in world.controllers.budgets():
        covered = budget.namespace == pod.namespace and matches(budget.selector, dict(pod.labels))
        if covered and pod.ready and budget.disruptions_allowed < 1:
            yield Violation(
                ViolationKind.DISRUPTION_BUDGET,
                pod.full_name,
                f"evicting {pod.full_name} breaks disruption budget {budget.name}",
            )
    if machine is not None and machine.asked_to_go:
        yield Violation(
            ViolationKind.AFTER_TERMINATION,
            node.name,
            f"node {node.name} was drained again after its termination was asked for",
        )


def _moved(node: Node, pod_uid: str, record: Record | None) -> bool:
    """Whether the consolidation that has marked the node wrote down that it evicts this pod."""
    operation = record.removing if record is not None else None
    return (
        isinstance(operation, ops.Consolidate)
        and node.owner is not None
        and node.owner.operation_id == operation.id
        and any(
            move.pod_uid == pod_uid and move.state is not ops.MoveState.PLANNED for move in operation.moves
        )
    )


def _cordon(world: World, act: Act, record: Record | None) -> Iterator[Violation]:
    node = world.inventory.nodes[act.node_name]
    machine = world.nodes.machine_of(node.name)
    if not node.worker:
        yield Violation(
            ViolationKind.NOT_OURS, node.name, f"{act.kind} of {node.name}, which is not a worker of ours"
        )
    if machine is None:
        return
    if act.kind is ActKind.CORDON and machine.asked_to_go and not node.unschedulable:
        yield Violation(
            ViolationKind.AFTER_TERMINATION,
            node.name,
            f"node {node.name} was cordoned after its termination was asked for",
        )
    if act.kind is ActKind.UNCORDON and record is not None and _leaving(record, machine):
        yield Violation(
            ViolationKind.AFTER_TERMINATION,
            node.name,
            f"node {node.name} was uncordoned after its termination was written down",
        )


def _leaving(record: Record, machine: Machine) -> bool:
    doomed = any(r.instance_id == machine.instance.id and r.irrevocable for r in open_removals(record))
    return doomed or machine.instance.id in condemned(record)


def _delete_node(world: World, act: Act) -> Iterator[Violation]:
    node = world.inventory.nodes[act.node_name]
    machine = world.nodes.machine_of(node.name)
    if not node.worker:
        yield Violation(
            ViolationKind.NOT_OURS,
            node.name,
            f"Node object {node.name}, which is not a worker of ours, was deleted",
        )
    if machine is not None and machine.instance.alive:
        yield Violation(
            ViolationKind.INSTANCE_RUNS,
            node.name,
            f"Node object {node.name} was deleted while its instance runs",
        )


CRITICAL = ("system-node-critical", "system-cluster-critical")
PLAN = "ebbtide.dev/plan"


def why_protected(pod: Pod, settings: Settings) -> str:
    """The first reason not to evict it; empty where there is none."""
    insists = pod.safe_to_evict is True
    system = pod.namespace == "kube-system"
    movable = any(pod.name.startswith(name.rstrip("*")) for name in settings.movable_system_workloads)
    reasons = (
        (pod.do_not_disrupt, "is annotated do-not-disrupt"),
        (pod.safe_to_evict is False, "is annotated safe-to-evict=false"),
        (not pod.controller and not insists, "has no controller"),
        (system and not movable, "is in kube-system"),
        (pod.priority_class in CRITICAL and not system, "is critical"),
        (pod.local_storage and not insists and not settings.evict_local_storage, "keeps data on its node"),
        (dict(pod.annotations).get(PLAN) == "reserved", "is a reserved game server"),
    )
    return next((says for applies, says in reasons if applies), "")
