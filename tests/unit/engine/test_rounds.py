"""Rounds: write, act, take in, look again; on whatever others write, and never past what is allowed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.record_machine import LeasedRun, RecordMachine
from ebbtide.engine.rounds import InvariantBroken, refuse_if_broken
from ebbtide.errors import LeaseLost, NotOurs, Unanswered
from ebbtide.model.effect import Cordon, Launch
from ebbtide.model.events import Kept, OperationClosed, OperationKind
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import RemovalState, ScaleDown, ScaleUp, SlotState
from ebbtide.model.pod import Pod
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.model.snapshot import Instance
from ebbtide.narrate import facts_in, says
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from tests.builders import make_removal, make_scale_down, make_scale_up, make_slot
from tests.unit.engine.builders import MeddlingStore, Small


def removal_of(small: Small, **overrides: object) -> ScaleDown:
    node = small.nodes[0]
    instance = next(i for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    removal = make_removal(node.name, instance_id=instance.id, node_uid=node.uid, zone=node.zone)
    return make_scale_down(replace(removal, **overrides), started_at=small.now)  # type: ignore[arg-type]


def launch_of(small: Small) -> ScaleUp:
    return make_scale_up(make_slot(since=small.now), started_at=small.now)


def run(leased_run: LeasedRun) -> None:
    leased_run.advance_found(lambda record: record.operation)


def state_of(record: Record) -> str:
    match record.operation:
        case ScaleDown():
            return record.operation.removals[0].state
        case ScaleUp():
            return record.operation.slots[0].state
        case _:
            return ""


def test_work_continues_within_one_tick_for_as_long_as_it_moves() -> None:
    small = Small(replicas=0)
    small.put(operation=removal_of(small))
    leased_run = small.leased_run()
    run(leased_run)
    assert state_of(small.record) == RemovalState.TERMINATING
    assert [kind for kind in _kinds(small) if kind is not LogKind.EFFECT] == [
        LogKind.TRANSITION,
        LogKind.DRAIN_RESULT,
        LogKind.TRANSITION,
    ]
    assert small.world.removed == 1


def _kinds(small: Small) -> list[LogKind]:
    return [entry.kind for entry in reversed(small.store.read_log())]


def test_the_rest_is_left_to_the_next_tick_when_a_pod_comes_that_no_node_takes() -> None:
    small = Small(replicas=0)
    small.put(operation=removal_of(small))
    arrived = small.clock.now() + 1
    run(small.leased_run(replace(small.ports, arrived_at=lambda: arrived)))
    assert state_of(small.record) == RemovalState.TERMINATING, "who does not decide is not waited for"
    other = Small(replicas=0)
    other.put(operation=removal_of(other))
    leased_run = other.leased_run(replace(other.ports, arrived_at=lambda: arrived))
    leased_run.decides_since = arrived - 1
    run(leased_run)
    first = state_of(other.record)
    assert first not in ("", RemovalState.TERMINATING), "one round, and no more"
    run(other.leased_run())
    assert state_of(other.record) == RemovalState.TERMINATING


class CountingCloud(SimCloud):
    lists = 0

    def list_instances(self) -> Sequence[Instance]:
        self.lists += 1
        return super().list_instances()


@pytest.mark.parametrize("came_at", [0.0, float("inf")])
def test_the_cloud_is_not_asked_once_more_while_a_pod_is_pending_for_the_next_tick(came_at: float) -> None:
    small = Small(replicas=0)
    small.put(operation=removal_of(small))
    cloud = CountingCloud(small.world, small.clock)
    leased_run = small.leased_run(replace(small.ports, cloud=cloud, arrived_at=lambda: came_at))
    leased_run.decides_since, cloud.lists = small.clock.now(), 0
    run(leased_run)
    assert (cloud.lists == 0) is (came_at > 0)


def test_nothing_is_begun_without_time_in_the_tick() -> None:
    small = Small()
    small.put(operation=removal_of(small))
    late = small.leased_run(seconds=0)
    run(late)
    assert state_of(small.record) == RemovalState.PLANNED


def test_a_lease_that_is_half_over_is_renewed_before_anything_is_begun() -> None:
    small = Small()
    small.put(operation=removal_of(small))
    expiring = small.leased_run()
    expiring.leased.lease = replace(expiring.lease, until=small.now + small.settings.lease_margin_seconds)
    assert not expiring.leased.has_time()
    run(expiring)
    assert expiring.lease.until == small.now + 300
    assert state_of(small.record) == RemovalState.DRAINING


def test_nothing_is_begun_when_the_lease_was_lost_to_another() -> None:
    small = Small()
    small.put(operation=removal_of(small))
    stale = small.leased_run()
    small.wait(301)
    small.store.acquire(CLUSTER_LEASE, "another", 300)
    with pytest.raises(LeaseLost):
        run(stale)
    assert state_of(small.record) == RemovalState.PLANNED


def test_a_conflict_with_another_writer_is_retried_on_what_the_other_wrote() -> None:
    small = Small(replicas=0)
    small.put(operation=removal_of(small))
    store = MeddlingStore(small.clock, database=small.database)
    run(small.leased_run(replace(small.ports, store=store)))
    assert state_of(small.record) == RemovalState.TERMINATING
    assert store.times == 0


class InterruptingStore(MemoryStore):
    """Another writer gets in between the effects and their outcome."""

    quiet = False

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if not self.quiet and any(entry.kind is LogKind.EFFECT for entry in entries):
            self.quiet = True
            super().write(self.load(), None)
        return super().write(record, guard, entries)


def test_what_was_done_is_logged_and_not_done_twice_when_its_outcome_meets_another_writer() -> None:
    small = Small()
    small.put(operation=launch_of(small))
    store = InterruptingStore(small.clock, database=small.database)
    run(small.leased_run(replace(small.ports, store=store)))
    assert state_of(small.record) == SlotState.LAUNCHED
    assert small.world.machines.book.launched == 1
    assert any("launch op-0" in says for says in small.said())


def test_a_lost_lease_ends_the_run_at_once() -> None:
    small = Small()
    small.put(operation=removal_of(small))
    leased_run = small.leased_run()
    small.store.release(leased_run.lease)
    small.store.acquire(CLUSTER_LEASE, "another", 300)
    with pytest.raises(LeaseLost):
        run(leased_run)
    assert state_of(small.record) == RemovalState.PLANNED
    assert not small.world.view().node_named[small.nodes[0].name].unschedulable


def test_the_lease_is_renewed_before_an_effect_that_nothing_is_written_for() -> None:
    small = Small(replicas=0)
    node = small.nodes[0]
    small.put(operation=removal_of(small, state=RemovalState.TERMINATING))
    small.ports.cluster.cordon(Cordon(node.name, node.uid, "op"), 1)
    leased_run = small.leased_run()
    small.wait(5)
    before = leased_run.lease.until
    run(leased_run)
    assert leased_run.lease.until > before
    assert small.world.removed == 1


def test_a_lease_that_cannot_be_renewed_keeps_the_effect_from_being_asked_for() -> None:
    small = Small(replicas=0)
    small.put(operation=removal_of(small, state=RemovalState.TERMINATING))
    leased_run = small.leased_run()
    small.store.release(leased_run.lease)
    with pytest.raises(LeaseLost):
        run(leased_run)
    assert small.world.removed == 0


def test_work_that_changed_under_the_renewed_lease_is_looked_at_again() -> None:
    small = Small(replicas=0)
    small.put(operation=removal_of(small, state=RemovalState.TERMINATING))
    leased_run = small.leased_run()
    small.put(operation=None)
    run(leased_run)
    assert leased_run.record.operation is None
    assert small.world.removed == 0


class RefusingCluster(SimCluster):
    asked = 0

    def cordon(self, effect: Cordon, token: int) -> None:
        self.asked += 1
        raise Unanswered("timed out")


class RefusingCloud(SimCloud):
    asked = 0

    def terminate(self, instance_id: str) -> None:
        self.asked += 1
        raise NotOurs("protected from termination")


def test_what_got_no_answer_is_not_asked_again_in_the_same_breath() -> None:
    small = Small()
    small.put(operation=removal_of(small))
    cluster = RefusingCluster(small.world, small.clock)
    run(small.leased_run(replace(small.ports, cluster=cluster)))
    assert cluster.asked == 1


def test_what_is_refused_is_asked_for_once_a_tick_and_not_forty_times() -> None:
    small = Small(replicas=0)
    small.put(operation=removal_of(small))
    cloud = RefusingCloud(small.world, small.clock)
    run(small.leased_run(replace(small.ports, cloud=cloud)))
    assert (state_of(small.record), cloud.asked) == (RemovalState.TERMINATING, 1)


class EmptyCloud(SimCloud):
    """One zone after the other has nothing to give."""

    def launch(self, effect: Launch) -> Instance:
        self._world.machines.book.closed_zones[:] = ["a"]
        return super().launch(effect)


def test_another_zone_is_asked_in_the_same_tick_after_a_definite_refusal() -> None:
    small = Small()
    small.put(operation=launch_of(small))
    run(small.leased_run(replace(small.ports, cloud=EmptyCloud(small.world, small.clock))))
    operation = small.record.operation
    assert isinstance(operation, ScaleUp)
    assert (operation.slots[0].zone, operation.slots[0].key) == ("b", "op-0r1")
    assert operation.slots[0].state is SlotState.LAUNCHED


def test_work_that_is_settled_is_closed_with_its_result() -> None:
    small = Small()
    small.put(operation=removal_of(small, state=RemovalState.RELEASED, reason="paused"))
    leased_run = small.leased_run()
    run(leased_run)
    assert small.record.operation is None
    (closed,) = facts_in(small.store.read_log(), OperationClosed)
    assert (closed.operation_id, closed.operation) == ("op", OperationKind.SCALE_DOWN)
    assert (closed.succeeded, closed.kept) == (False, (Kept(small.nodes[0].name, "paused"),))
    assert leased_run.sentences == [says(closed)]
    assert _kinds(small) == [LogKind.OPERATION_CLOSED]


def test_a_machine_that_breaks_its_invariants_is_refused() -> None:
    work = make_scale_down(make_removal(state=RemovalState.TERMINATING))
    back = make_scale_down(make_removal(state=RemovalState.RELEASED))
    asked = RecordMachine(Small().leased_run(), lambda record: record.removing)
    with pytest.raises(InvariantBroken, match="TERMINATING to RELEASED: nothing was written"):
        refuse_if_broken(asked.broken(work, back))


class PodComes(MemoryStore):
    """Before a removal is written as irrevocable, another writer comes first, and a pod binds to its node."""

    small: Small
    met = False

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if state_of(record) == RemovalState.TERMINATING and not self.met:
            self.met = True
            self.small.world.inventory.put_pod(
                replace(web_of(self.small), node_name=self.small.nodes[0].name)
            )
            super().write(self.load(), None)
        return super().write(record, guard, entries)


def web_of(small: Small) -> Pod:
    return next(pod for pod in small.world.view().pods if pod.controller == "ReplicaSet")


def test_after_another_write_the_cluster_is_looked_at_again_before_a_removal_is_irrevocable() -> None:
    small = Small()
    small.nodes.sort(key=lambda node: node.name == web_of(small).node_name)
    small.put(operation=removal_of(small))
    store = PodComes(small.clock, database=small.database)
    store.small = small
    run(small.leased_run(replace(small.ports, store=store)))
    assert store.met
    assert state_of(small.record) != RemovalState.TERMINATING
    assert small.world.removed == 0
