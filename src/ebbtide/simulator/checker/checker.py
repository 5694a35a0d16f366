"""Watches what an autoscaler does to a world and says what it must never have done; and a store that tells
the checker of every lease and every write that took effect.

    checker = Checker(world, settings)
    store = WatchedStore(MemoryStore(clock), checker)
    ... ticks ...
    checker.finish(store.load())
    assert not checker.violations

It judges by the world as it really is, not by what a runner was shown. What the cloud takes by itself
is nobody's fault: lost nodes do not count against the minimum, and an interrupted node may go with
pods on it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ebbtide.core.nodes.capacity import condemned, doomed, expected_slots, nothing_open, open_removals
from ebbtide.core.nodes.gates import reason_of
from ebbtide.core.nodes.orphans import cordon_id
from ebbtide.model.log import Entries
from ebbtide.model.operation import Removal, RemovalState, ScaleDown, SpotKind
from ebbtide.model.pool import Headroom, RemovalReason
from ebbtide.model.record import Lease, Record
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Node
from ebbtide.ports import Store
from ebbtide.simulator.checker.acts import Crowding, judge, lane_faults
from ebbtide.simulator.checker.consolidation import Repacking
from ebbtide.simulator.checker.spare import SpareCheck, SpareRoom
from ebbtide.simulator.checker.violations import Violation, ViolationKind
from ebbtide.simulator.faults.ports import PassedStore
from ebbtide.simulator.world.world import Act, ActKind, World

SLACK_SECONDS = 600.0
"""How much longer than its grace something may be left before it counts as forgotten."""
UNSEEN_LOSS_SECONDS = 30.0
"""A node lost this lately may not have been seen as lost by the runner that decided."""


class Checker:
    def __init__(self, world: World, settings: Settings) -> None:
        self._world = world
        self._settings = settings
        self.record: Record | None = None
        self._tokens: dict[str, int] = {}
        self._ids_of_key: dict[str, str] = {}
        self._ended: dict[str, int] = {}
        """How many disturbances there had been when an instance was last asked to go."""
        self.clocks_jump = False
        """Whether a runner's clock may be hours ahead, so what is to come seems long past to it."""
        self.sees_old_pods = False
        """Whether a runner may be shown pods that have gone, or not be shown some that are there."""
        self._decided: dict[str, Settings] = {}
        """By what settings each slot was decided that is written now, by its key."""
        self.time_zero = 0.0
        """Violations are reported in seconds from here."""
        self._sees_all = True
        """Whether it sees every write."""
        self._started: set[str] = set()
        """Ids of all work that was ever written."""
        self.violations: list[Violation] = []
        self.acts: list[Act] = []
        self._repacking = Repacking(world, settings, self.say)
        self._crowding = Crowding(world, self.say)
        self._spare = SpareRoom(world, self.say)
        self._replacing = SpareCheck(world, settings, self.say)
        world.witnesses.append(self.saw)

    def say(self, kind: ViolationKind, about: str, says: str) -> None:
        self.violations.append(Violation(kind, about, says, self._world.now - self.time_zero))

    def report(self, found: Iterable[Violation]) -> None:
        for violation in found:
            self.say(violation.kind, violation.about, violation.says)

    @property
    def settings(self) -> Settings:
        """What it judges by now."""
        return self._settings

    def decided_by(self, slot_key: str) -> Settings:
        """The settings by which this slot was decided: they may be others by now."""
        return self._decided.get(slot_key, self._settings)

    def follow(self, settings: Settings) -> None:
        """Judge by these settings from now on: a new configuration, or a pool that sleeps or wakes."""
        self._settings = settings
        self._repacking.follow(settings)
        self._replacing.follow(settings)

    def expects(self, headrooms: tuple[Headroom, ...]) -> None:
        """A tick decides with this room ahead of demand."""
        self._spare.expected.ask(headrooms)

    def saw(self, act: Act) -> None:
        self.acts.append(act)
        self.report(judge(self._world, act, self.record, self._settings))
        self._check_is_written(act)
        self._replacing.saw(act, self.record)
        if act.kind is ActKind.EVICT:
            self._repacking.evicts(act, self.record)
        elif act.kind is ActKind.LAUNCH:
            self._saw_launch(act)
        elif act.kind is ActKind.TERMINATE:
            self._saw_terminate(act)

    def knows(self, record: Record | None) -> None:
        """Judge the next acts by this record: for a watcher that cannot see every write."""
        self.record, self._sees_all = record, False

    def leased(self, lease: Lease) -> None:
        if lease.token < self._tokens.get(lease.name, 0):
            self.say(
                ViolationKind.TOKEN_WENT_BACK,
                lease.name,
                f"the token of lease {lease.name} went back to {lease.token}",
            )
        self._tokens[lease.name] = max(lease.token, self._tokens.get(lease.name, 0))

    def wrote(self, after: Record, guard: Lease | None) -> None:
        before, self.record = self.record, after
        if before is not None and after.rev < before.rev:
            self.say(
                ViolationKind.REVISION_WENT_BACK,
                "",
                f"the revision of the record went back from {before.rev} to {after.rev}",
            )
        if guard is not None and guard.token < self._tokens.get(guard.name, 0):
            self.say(
                ViolationKind.OLD_TOKEN_WROTE,
                guard.name,
                f"a write under the old token {guard.token} of lease {guard.name} landed",
            )
        if before is not None:
            self._repacking.wrote(before, after)
        self._crowding.look()
        self._replacing.look()
        self._replacing.clocks_jump = self.clocks_jump
        if not nothing_open(after) or (before is not None and not nothing_open(before)):
            self._check_work(before, after)

    def _check_work(self, before: Record | None, after: Record) -> None:
        """What is done to nodes, and what was."""
        self._started |= {work.id for work in (*after.operations, *after.all_set_aside, *after.spots)}
        self._decided = {slot.key: self.decided_by(slot.key) for slot in expected_slots(after)}
        if before is not None:
            self._check_lanes(before, after)
            self._check_no_notice_forgotten(before, after)
            self._check_no_intent_taken_back(before, after)
            self._spare.wrote(before, after, self._settings)
        self._check_one_owner(after)
        known = {r.instance_id for r in _doomed_for_good(before)} if before is not None else set()
        taken = _taken_by_the_cloud(after) | (_taken_by_the_cloud(before) if before is not None else set())
        voluntary = {r.instance_id for r in _voluntary(after)}
        for removal in _doomed_for_good(after):
            if removal.instance_id in known:
                continue
            if removal.instance_id in voluntary:
                self._check_intent(removal, after)
                self._crowding.intends(removal, _of_our_own_will(after), after, self._settings)
                self._repacking.intends(removal, after)
                self._spare.intends(removal, after, self._settings)
                self._replacing.intends(removal, after)
            elif removal.instance_id in taken:
                self.say(
                    ViolationKind.CLOUD_TAKES_IT,
                    removal.instance_id,
                    f"instance {removal.instance_id}, which the cloud is taking, was to be terminated",
                )

    def finish(self, record: Record) -> None:
        """After the last tick: what must not be left behind."""
        self._check_nodes_left(record)
        if self._nobody_may_act(record):
            return
        slots = expected_slots(record)
        known = {slot.key for slot in slots} | {slot.instance_id for slot in slots}
        known |= {removal.instance_id for removal in open_removals(record)}
        limit = self._settings.join_timeout_seconds + self._settings.orphan_grace_seconds + SLACK_SECONDS
        for machine in self._world.machines.book.machines.values():
            instance, age = machine.instance, self._world.now - machine.instance.launched_at
            joined = self._world.nodes.machine_of(machine.node.name) is machine
            alone = instance.id not in known and instance.key not in known and not joined
            if machine.ours and instance.alive and alone and age > limit:
                self.say(
                    ViolationKind.INSTANCE_LEFT,
                    instance.id,
                    f"instance {instance.id} is left without a node and without an operation",
                )

    def _nobody_may_act(self, record: Record) -> bool:
        """What was set aside waits for a person; and a lease taken by a clock that ran ahead lasts long."""
        ahead = record.lock_until > self._world.now + self._settings.lock_ttl_seconds
        return ahead or record.set_aside is not None

    def _check_nodes_left(self, record: Record) -> None:
        open_ids = {op.id for op in record.operations + record.all_set_aside}
        open_ids |= {spot.id for spot in record.spots} | {one.operation_id for one in record.refused}
        limit = self._settings.orphan_grace_seconds + SLACK_SECONDS
        for node in self._world.inventory.nodes.values():
            owned = node.owner is None or node.owner.operation_id in open_ids
            leaves = any(one.node_uid == node.uid for one in record.leaving)
            if node.owner and not owned and not leaves and not self._is_about_to_be_lifted(node, record):
                self.say(
                    ViolationKind.MARK_LEFT,
                    node.name,
                    f"node {node.name} is left marked by {node.owner.operation_id}, which is closed",
                )
            machine = self._world.nodes.machine_of(node.name)
            ended_at = machine.ended_at if machine is not None else 1.0
            left = node.worker and node.instance_id and ended_at and self._world.now - ended_at > limit
            if left and not record.paused and not self._nobody_may_act(record):
                self.say(
                    ViolationKind.NODE_LEFT,
                    node.name,
                    f"Node object {node.name} is left although its instance is gone",
                )

    def _is_about_to_be_lifted(self, node: Node, record: Record) -> bool:
        """Whether its mark is known to be nobody's, and its grace is not over yet."""
        grace = self._settings.orphan_grace_seconds
        known = (one.since for one in record.orphans if one.id == cordon_id(node))
        return any(self._world.now - since <= grace for since in known)

    def _saw_launch(self, act: Act) -> None:
        before = self._ids_of_key.setdefault(act.key, act.instance_id)
        if before != act.instance_id:
            self.say(
                ViolationKind.TWO_INSTANCES,
                act.key,
                f"slot {act.key} has two instances, {before} and {act.instance_id}",
            )
        alive = [m for m in self._world.machines.book.machines.values() if m.ours and m.instance.alive]
        if len(alive) > self._settings.max_workers:
            self.say(
                ViolationKind.ABOVE_MAXIMUM,
                "",
                f"{len(alive)} instances, max_workers is {self._settings.max_workers}",
            )
        launched = self._world.machines.find(act.instance_id)
        # Another pool may have had more than its maximum since that was lowered.
        pool = None if launched is None else self._settings.pool_named(launched.instance.pool)
        in_pool = sum(1 for machine in alive if pool is not None and machine.instance.pool == pool.name)
        if pool is not None and pool.max_workers is not None and in_pool > pool.max_workers:
            self.say(
                ViolationKind.ABOVE_MAXIMUM,
                pool.name,
                f"{in_pool} instances in pool {pool.name}, its maximum is {pool.max_workers}",
            )
        self._spare.launches(act.instance_id, self._settings)

    def _saw_terminate(self, act: Act) -> None:
        if self._ended.get(act.instance_id) == self._world.disturbances:
            self.say(
                ViolationKind.TERMINATED_TWICE,
                act.instance_id,
                f"instance {act.instance_id} was terminated twice, with no fault in between",
            )
        self._ended[act.instance_id] = self._world.disturbances

    def _check_lanes(self, before: Record, after: Record) -> None:
        self.report(lane_faults(before, after, self._competes))

    def _competes(self, instance_id: str) -> bool:
        """Its node is ready, and by the documents nothing is chosen to go next to a launch. Judged one by
        one, what carries no pod may go; a pod that was only just made may not have been seen."""
        nodes = [node for node in self._world.inventory.nodes.values() if node.worker and node.ready]
        machines = [(node, self._world.nodes.machine_of(node.name)) for node in nodes]
        found = [node for node, machine in machines if machine and machine.instance.id == instance_id]
        if not found or self._settings.scale_down_by != JudgedBy.NODE:
            return bool(found)
        pods = (pod for pod in self._world.pods_on(found[0].name) if not (pod.tied_to_node or pod.finished))
        old = (pod for pod in pods if self._world.now - pod.created_at >= UNSEEN_LOSS_SECONDS)
        return not self.sees_old_pods and any(old)

    def _check_is_written(self, act: Act) -> None:
        """Nothing is done to a node, and nothing terminated, before the work behind it is in a record."""
        if not self._sees_all:
            return
        marks = (ActKind.SOFT_TAINT, ActKind.CORDON, ActKind.UNCORDON)
        if act.kind in marks and act.operation_id not in self._started:
            self.say(
                ViolationKind.NOT_WRITTEN_FIRST,
                act.node_name,
                f"{act.kind} of {act.node_name} by {act.operation_id}, which no record holds",
            )
        if act.kind is ActKind.TERMINATE and self.record is None:
            self.say(
                ViolationKind.NOT_WRITTEN_FIRST,
                act.instance_id,
                f"instance {act.instance_id} was terminated before any record was written",
            )

    def _check_no_notice_forgotten(self, before: Record, after: Record) -> None:
        """What the cloud is about to take stays in the record until it is gone or did not come; what keeps
        crashing its runner is given up, with an alarm."""
        for spot in () if self.clocks_jump else before.spots:
            machine = self._world.machines.find(spot.instance_id)
            coming = spot.kind is SpotKind.INTERRUPTION and self._world.now < spot.deadline
            given_up = spot.unclean_runs >= self._settings.max_unclean_runs
            known = after.spot_for(spot.instance_id) is not None
            if coming and not known and not given_up and machine is not None and machine.instance.alive:
                self.say(
                    ViolationKind.NOTICE_FORGOTTEN,
                    spot.instance_id,
                    f"the interruption of {spot.instance_id} was forgotten before it came",
                )

    def _check_no_intent_taken_back(self, before: Record, after: Record) -> None:
        """What was written as irrevocable stays so until the instance is gone: a call may be on its way.
        What a person resumes is theirs to answer for."""
        lost = _irrevocable(before) - _irrevocable(after)
        for instance_id in sorted(lost) if before.all_set_aside == after.all_set_aside else ():
            machine = self._world.machines.find(instance_id)
            if machine is not None and machine.instance.alive:
                self.say(
                    ViolationKind.TAKEN_BACK,
                    instance_id,
                    f"the termination of {instance_id} was taken back after it was written down",
                )

    def _check_one_owner(self, record: Record) -> None:
        ids = [removal.instance_id for removal in open_removals(record)]
        for instance_id in sorted({one for one in ids if ids.count(one) > 1}):
            self.say(
                ViolationKind.TWO_OWNERS,
                instance_id,
                f"instance {instance_id} is being removed by two operations",
            )

    def _check_intent(self, removal: Removal, record: Record) -> None:
        node = self._world.inventory.nodes.get(removal.node_name)
        if node is None or node.uid != removal.node_uid or not node.ready:
            return
        left = self._standing(doomed(record))
        if len(left) < self._settings.min_workers:
            self.say(
                ViolationKind.BELOW_MINIMUM,
                node.name,
                f"removing {node.name} leaves {len(left)} ready workers, "
                f"min_workers is {self._settings.min_workers}",
            )
        self._check_awake(node, removal, record, left)
        pool = self._settings.pool_named(node.pool)
        in_pool = sum(1 for other in left if other.pool == node.pool)
        if pool is not None and in_pool < pool.min_workers:
            least = pool.min_workers
            self.say(
                ViolationKind.BELOW_MINIMUM,
                node.name,
                f"removing {node.name} leaves {in_pool} in pool {pool.name}, its minimum is {least}",
            )
        if pool is not None and pool.may_be_empty:
            return  # a pool that sleeps gives up its zones
        zones = {other.zone for other in self._world.inventory.nodes.values() if other.worker}
        if len(zones) > 1 and not any(other.zone == node.zone for other in left):
            self.say(ViolationKind.ZONE_EMPTIED, node.name, f"removing {node.name} empties zone {node.zone}")

    def _check_awake(self, node: Node, removal: Removal, record: Record, left: list[Node]) -> None:
        """While a pool sleeps, the others keep the minimum of the cluster by themselves."""
        idle = reason_of(removal, record) in (RemovalReason.IDLE, RemovalReason.EMPTY)
        asleep = {pool.name for pool in self._settings.pools if pool.may_be_empty}
        awake = sum(1 for other in left if other.pool not in asleep)
        least = self._settings.awake_min_workers
        if idle and node.pool not in asleep and awake < least:
            self.say(
                ViolationKind.BELOW_MINIMUM,
                node.name,
                f"removing {node.name} leaves {awake} in pools that are awake, min_workers is {least}",
            )

    def _standing(self, going: frozenset[str]) -> list[Node]:
        """Ready workers that stay; with those lost just now, which nobody can have known."""
        found = []
        for node in self._world.inventory.nodes.values():
            machine = self._world.nodes.machine_of(node.name)
            if not node.worker or machine is None or machine.instance.id in going or machine.asked_to_go:
                continue
            lost_at = self._world.nodes.lost_at.get(node.uid, float("-inf"))
            if node.ready or self._world.now - lost_at < UNSEEN_LOSS_SECONDS:
                found.append(node)
        return found


def _doomed_for_good(record: Record) -> list[Removal]:
    return [r for r in open_removals(record) if r.irrevocable]


def _irrevocable(record: Record) -> set[str]:
    return {removal.instance_id for removal in _doomed_for_good(record)} | condemned(record)


def _of_our_own_will(record: Record) -> list[Removal]:
    """What the cloud refuses is not on its way out: it holds up no other removal (row 31)."""
    refused = {one.removal.instance_id for one in record.refused}
    going = [removal for removal in _voluntary(record) if removal.state is RemovalState.TERMINATING]
    return [removal for removal in going if removal.instance_id not in refused]


def _taken_by_the_cloud(record: Record) -> set[str]:
    """What an interruption asks for is emptied, and not terminated; a scale-down that had it continues."""
    spots = (spot for spot in record.spots if spot.kind is SpotKind.INTERRUPTION)
    return {spot.instance_id for spot in spots if spot.removal is not None}


def _voluntary(record: Record) -> list[Removal]:
    """What no interruption asks for; a recommendation to rebalance is as voluntary as any."""
    interrupted = {s.instance_id for s in record.spots if s.kind is SpotKind.INTERRUPTION}
    operations = (op for op in record.operations + record.all_set_aside if isinstance(op, ScaleDown))
    removals = [removal for operation in operations for removal in operation.removals]
    removals += [one.removal for one in record.refused]
    removals += [spot.removal for spot in record.spots if spot.removal is not None]
    return [removal for removal in removals if removal.instance_id not in interrupted]


class WatchedStore(PassedStore):
    """Put it inside the faulty ports: what it is asked to do is what really happened."""

    def __init__(self, inner: Store, checker: Checker) -> None:
        super().__init__(inner)
        self._checker = checker

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        lease = self._inner.acquire(name, owner, ttl_seconds)
        self._checker.leased(lease)
        return lease

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        renewed = self._inner.renew(lease, ttl_seconds)
        self._checker.leased(renewed)
        return renewed

    def write(self, record: Record, guard: Lease | None, entries: Entries = ()) -> Record:
        written = self._inner.write(record, guard, entries)
        self._checker.wrote(written, guard)
        return written
