"""Watches consolidation: what it must never do, and what it did.

A pod that it evicts has a place again within a minute, unless the workload shrank, a node was lost or others
that came meanwhile took the place. A node goes by it only when old, idle and not the last. Two of it are a
cooldown apart, and two cooldowns where the first saved nothing: as much is paid as before, and no more is
asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from decimal import Decimal
from itertools import islice

from ebbtide.core.nodes.capacity import doomed
from ebbtide.engine.ports import Observers
from ebbtide.model.operation import (
    Consolidate,
    Move,
    MoveState,
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    SlotState,
    SourceState,
    Spot,
)
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.simulator.checker.violations import Say, ViolationKind
from ebbtide.simulator.world.machines import Machines
from ebbtide.simulator.world.world import Act, World

PLACE_SECONDS = 60.0
"""When a pod that consolidation evicted must have a node again."""
WAITED_SECONDS = 30.0
"""A pod that was only just made does not count as one without a place."""
UNSEEN_SECONDS = 120.0
"""A pod that came and went between two looks was not seen by anybody."""
HOUR_SECONDS, LATE_SECONDS = 3600.0, 300.0
LOOK = "look for a place"


@dataclass(frozen=True, slots=True)
class _Paid:
    """What machines cost an hour, and what workloads ask for."""

    cost: Decimal
    cpu_milli: int
    memory_mib: int

    @classmethod
    def now(cls, world: World) -> _Paid:
        machines = world.machines.book.machines.values()
        wanted = [
            (work.wanted, work.spec.template.requests)
            for work in world.pods.book.workloads.values()
            if not work.spec.kind.per_node
        ]
        return cls(
            sum((m.price for m in machines if m.ours and m.instance.alive), Decimal(0)),
            sum(count * each.cpu_milli for count, each in wanted),
            sum(count * each.memory_mib for count, each in wanted),
        )

    def asks_more_than(self, other: _Paid) -> bool:
        return self.cpu_milli > other.cpu_milli or self.memory_mib > other.memory_mib


class Repacking:
    """The rules, asked by the world as it really is."""

    def __init__(self, world: World, settings: Settings, say: Say) -> None:
        self._world = world
        self._settings = settings
        self._say = say
        self._moved_at: dict[str, list[float]] = {}
        """When it evicted pods of a workload lately."""
        self._evicted: list[float] = []
        """When it evicted a pod, of the last hour."""
        self._moves: tuple[Move, ...] = ()
        self._moving: set[str] = set()
        """The pods that these moves evict."""
        self._paid: _Paid | None = None
        """When the last one began; none where more was asked for since, so nobody knows what it saved."""
        world.timeline.on(LOOK, self._look_for_place)

    def follow(self, settings: Settings) -> None:
        self._settings = settings
        self._paid = None

    def evicts(self, act: Act, record: Record | None) -> None:
        """Just before the eviction: how many pods of the workload have a node, this one among them. What a
        spot notice evicts meanwhile is not its business."""
        if record is None or not isinstance(record.removing, Consolidate):
            return
        if record.removing.moves is not self._moves:
            self._moves = record.removing.moves
            self._moving = {move.pod_uid for move in self._moves if move.state is MoveState.EVICTING}
        if act.pod_uid not in self._moving:
            return
        key = self._world.pods.book.workload_of[act.pod_uid]
        lately = (at for at in self._moved_at.get(key, ()) if self._world.now - at <= UNSEEN_SECONDS)
        self._moved_at[key] = [*lately, self._world.now]
        self._world.timeline.after(PLACE_SECONDS, LOOK, f"{self._placed(key)} {self._losses()} {key}")
        self._count_eviction()

    def _count_eviction(self) -> None:
        """A call of a runner that froze may land later than it was counted for, so a little less."""
        since = self._world.now - HOUR_SECONDS + LATE_SECONDS
        self._evicted = [*(at for at in self._evicted if at > since), self._world.now]
        most = self._settings.consolidation.moves_allowed(self._world.inventory.placed)
        if len(self._evicted) > most:
            self._say(
                ViolationKind.TOO_MANY_MOVES,
                "",
                f"consolidation evicted {len(self._evicted)} pods within an hour, {most} are allowed",
            )

    def wrote(self, before: Record, after: Record) -> None:
        since = after.last_consolidation_at - before.last_consolidation_at
        cooldown = self._settings.consolidation.cooldown_seconds
        if before.last_consolidation_at and 0 < since < cooldown:
            self._say(
                ViolationKind.COOLDOWN,
                "",
                f"a consolidation began {since} s after the last, the cooldown is {cooldown}",
            )
        now = _Paid.now(self._world)
        if self._paid is not None and now.asks_more_than(self._paid):
            self._paid = None
        if since > 0:
            self._in_vain(since, now)
            self._paid = now

    def _in_vain(self, since: int, now: _Paid) -> None:
        rules, before = self._settings.consolidation, self._paid
        twice = min(2 * rules.cooldown_seconds, max(rules.cooldown_seconds, rules.backoff_max_seconds))
        within = since < min(twice, rules.payback_seconds)
        if before is not None and now.cost and now.cost >= before.cost and within:
            self._say(
                ViolationKind.COOLDOWN,
                "",
                f"a consolidation began {since} s after one that saved nothing, {twice} s is the least",
            )

    def intends(self, removal: Removal, record: Record) -> None:
        """A removal became irrevocable."""
        operation, wanted = record.removing, self._settings.consolidation
        node = self._world.inventory.nodes.get(removal.node_name)
        by_it = isinstance(operation, ScaleDown) and operation.only_empty
        if not by_it or node is None or node.uid != removal.node_uid:
            return
        age = self._world.now - node.created_at
        if age < wanted.min_uptime_seconds:
            self._say(
                ViolationKind.TOO_YOUNG,
                node.name,
                f"consolidation removes {node.name} at an age of {age:.0f} s",
            )
        idle = self._world.now - self._world.inventory.empty_since.get(node.name, self._world.now)
        if idle + UNSEEN_SECONDS < wanted.min_idle_seconds and not self._just_came(node.name):
            self._say(
                ViolationKind.NOT_IDLE,
                node.name,
                f"consolidation removes {node.name}, empty for {idle:.0f} s",
            )
        going = doomed(record)
        machines = (self._world.nodes.machine_of(n.name) for n in self._world.view().workers if n.ready)
        left = sum(1 for machine in machines if machine and machine.instance.id not in going)
        if left < max(1, wanted.min_nodes):
            self._say(
                ViolationKind.BELOW_MINIMUM,
                node.name,
                f"consolidation removes {node.name} and leaves {left} ready workers",
            )

    def _just_came(self, node_name: str) -> bool:
        """Whether all that is there came so lately that nobody can have seen it."""
        pods = [pod for pod in self._world.pods_on(node_name) if not pod.tied_to_node and not pod.finished]
        return bool(pods) and all(self._world.now - pod.created_at < UNSEEN_SECONDS for pod in pods)

    def _losses(self) -> int:
        return self._world.incidents.mail.interruptions + len(self._world.nodes.lost_at)

    def _placed(self, key: str) -> int:
        members = self._world.pods.members[key]
        return sum(1 for uid in members if self._world.inventory.pods[uid].node_name)

    def _look_for_place(self, subject: str) -> None:
        placed, losses, key = subject.split(" ", 2)
        wanted = min(int(placed), self._world.pods.book.workloads[key].wanted)
        short = self._losses() == int(losses) and self._placed(key) < wanted
        waiting = [uid for uid in self._world.pods.members[key] if self._waits(uid)]
        if short and any(not self._place_taken(uid) for uid in waiting):
            self._say(
                ViolationKind.NO_PLACE,
                key,
                f"{PLACE_SECONDS:.0f} s after consolidation evicted a pod of {key}, one has no place",
            )

    def _waits(self, uid: str) -> bool:
        pod = self._world.inventory.pods[uid]
        return pod.waiting and self._world.now - pod.created_at >= WAITED_SECONDS

    def _place_taken(self, uid: str) -> bool:
        """Whether this pod would fit somewhere if those were not there who came so lately that nobody can
        have taken them into account. What consolidation itself moved must have been."""
        pod, now = self._world.inventory.pods[uid], self._world.now
        moved = {own for key in self._moved_at for own in self._in_place_of_moved(key)}
        for node in self._world.inventory.nodes.values():
            came = {
                other.uid
                for other in self._world.pods_on(node.name)
                if now - other.created_at < UNSEEN_SECONDS and other.uid not in moved
            }
            free = came and node.ready and not node.unschedulable
            if free and not self._world.pods.scheduler.why_not(pod, node.name, came):
                return True
        return False

    def _in_place_of_moved(self, key: str) -> set[str]:
        """The pods that were made for those it evicted: the first ones after each. A workload that grows at
        the same time makes more."""
        pods = self._world.inventory.pods
        made = sorted((pods[uid].created_at, uid) for uid in self._world.pods.members[key])
        found: set[str] = set()
        for at in (at for at in self._moved_at[key] if self._world.now - at <= UNSEEN_SECONDS):
            later = (uid for created, uid in made if created >= int(at) and uid not in found)
            found.update(islice(later, 1))
        return found


@dataclass(slots=True)
class Repacked:
    """What consolidation did, in numbers."""

    begun: int = 0
    pods_moved: int = 0
    nodes_emptied: int = 0
    nodes_removed: int = 0
    nodes_launched: int = 0
    saved_per_hour: Decimal = Decimal(0)
    """Prices of what it removed, less those of what it launched."""
    given_up: dict[str, int] = field(default_factory=dict)
    """Why it was given up, and how often."""


class Bookkeeper(Observers):
    """Keeps those numbers, from what a runner reports."""

    def __init__(self, machines: Machines) -> None:
        super().__init__()
        self._machines = machines
        self._known: set[str] = set()
        self.totals = Repacked()

    def began(self, work: Operation | Spot) -> None:
        by_it = isinstance(work, Consolidate) or (isinstance(work, ScaleDown) and work.only_empty)
        if by_it and work.id not in self._known:
            self._known.add(work.id)
            self.totals.begun += 1

    def closed(self, work: Operation | Spot, succeeded: bool) -> None:  # noqa: ARG002 - the reason says more
        totals = self.totals
        if isinstance(work, Consolidate):
            totals.pods_moved += sum(move.state is MoveState.MOVED for move in work.moves)
            totals.nodes_emptied += sum(source.state is SourceState.EMPTIED for source in work.sources)
            launched = [slot.instance_id for slot in work.slots if slot.state is SlotState.READY]
            totals.nodes_launched += len(launched)
            totals.saved_per_hour -= self._price(launched)
            if work.abort_reason:
                totals.given_up[work.abort_reason] = totals.given_up.get(work.abort_reason, 0) + 1
        elif isinstance(work, ScaleDown) and work.only_empty:
            gone = [r.instance_id for r in work.removals if r.terminated and r.state is RemovalState.GONE]
            totals.nodes_removed += len(gone)
            totals.saved_per_hour += self._price(gone)

    def _price(self, instance_ids: list[str]) -> Decimal:
        machines = map(self._machines.find, instance_ids)
        return sum((machine.price for machine in machines if machine is not None), Decimal(0))
