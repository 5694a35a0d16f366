"""Spot notices are answered at once, under a lease of their own, independent of the cluster's."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest

from ebbtide import narrate
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine import notices
from ebbtide.engine.notices import answer_notices
from ebbtide.engine.ports import Ports
from ebbtide.errors import Retryable, Unanswered
from ebbtide.model.effect import Cordon
from ebbtide.model.events import Alarm, AlarmKind, EffectDone, EffectKind, SpotAnswer, SpotEvent
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import RemovalState, SpotKind, SpotNotice
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record, spot_lease_name
from ebbtide.model.snapshot import ClusterView, Instance
from ebbtide.narrate import facts_in
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from tests.builders import make_removal, make_spot
from tests.unit.engine.builders import MeddlingStore, Small


class Spotted(Small):
    """With a fourth worker that is a spot instance, and a notice about it in the inbox."""

    def __post_init__(self) -> None:
        super().__post_init__()
        self.victim = self.add_node("b", 600, "spot")
        self.instance_id = next(
            i.id for i in self.ports.cloud.list_instances() if i.provider_id == self.victim.provider_id
        )

    def interrupt(self) -> None:
        self.world.plan(self.clock.now(), "interrupt", self.instance_id)
        self.wait(0.1)

    def answer(self, ports: Ports | None = None, owner: str = "runner") -> list[str]:
        return answer_notices(ports or self.ports, self.settings, owner, self.clock.now() + 60)


def test_without_a_notice_nothing_is_read_and_nothing_said() -> None:
    small = Spotted()
    blind = replace(small.ports, cluster=SilentCluster(small.world, small.clock))
    assert small.answer(blind) == []


def test_a_notice_is_taken_in_acknowledged_and_answered_in_the_same_breath() -> None:
    small = Spotted()
    small.interrupt()
    says = small.answer()
    (event,) = facts_in(small.store.read_log(), SpotEvent)
    assert (event.instance_id, event.answer) == (small.instance_id, SpotAnswer.TAKEN_IN)
    assert (event.operation_id, says[0]) == (small.record.spots[0].id, narrate.says(event))
    effects = facts_in(small.store.read_log(), EffectDone)
    assert {effect.operation_id for effect in effects} == {event.operation_id}
    assert EffectKind.LAUNCH in {effect.effect for effect in effects}
    assert small.world.view().node_named[small.victim.name].unschedulable
    assert small.ports.inbox.receive() == ()
    (spot,) = small.record.spots
    assert spot.unclean_runs == 0


def test_it_is_answered_to_the_end_and_then_forgotten() -> None:
    small = Spotted()
    small.interrupt()
    for _ in range(30):
        says = small.answer()
        if not small.record.spots:
            break
        small.wait(10)
    assert "replaces it" in says[-1]
    assert small.victim.name not in small.world.view().node_named


def test_it_is_answered_while_another_runner_holds_the_cluster() -> None:
    small = Spotted()
    small.store.acquire(CLUSTER_LEASE, "another", 300)
    small.interrupt()
    assert not small.tick().held
    assert small.world.view().node_named[small.victim.name].unschedulable


def test_a_notice_that_another_runner_answers_is_left_to_it() -> None:
    small = Spotted()
    small.store.acquire(spot_lease_name(small.instance_id), "another", 180)
    small.interrupt()
    assert len(small.answer()) == 1
    assert not small.world.view().node_named[small.victim.name].unschedulable


def test_a_notice_about_nothing_of_ours_is_logged_acknowledged_and_dropped() -> None:
    small = Spotted()
    stranger = SpotNotice("i-stranger", SpotKind.INTERRUPTION, small.now, small.now + 120)
    small.world.incidents.mail.arrived.append(stranger)
    rev = small.record.rev
    small.answer()
    (event,) = facts_in(small.store.read_log(), SpotEvent)
    assert (event.instance_id, event.answer, event.node_name) == ("i-stranger", SpotAnswer.NOT_OURS, "")
    assert (small.record.rev, small.ports.inbox.receive()) == (rev, ())


class SilentCluster(SimCluster):
    def read(self) -> ClusterView:
        raise Retryable("no answer")


def test_a_notice_stays_in_the_inbox_while_the_world_cannot_be_seen() -> None:
    small = Spotted()
    small.interrupt()
    assert small.answer(replace(small.ports, cluster=SilentCluster(small.world, small.clock))) == []
    assert len(small.ports.inbox.receive()) == 1


class ForgetfulCloud(SimCloud):
    def list_instances(self) -> Sequence[Instance]:
        return ()


def test_a_notice_stays_in_the_inbox_while_its_instance_is_not_listed() -> None:
    small = Spotted()
    small.interrupt()
    blind = replace(small.ports, cloud=ForgetfulCloud(small.world, small.clock))
    says = f"interruption of {small.instance_id} waits: the cloud does not list it now"
    assert small.answer(blind) == [says]
    assert len(small.ports.inbox.receive()) == 1
    small.answer()
    (event,) = facts_in(small.store.read_log(), SpotEvent)
    assert event.answer is SpotAnswer.TAKEN_IN


@pytest.mark.parametrize("times", [1, 2, 3, 4])
def test_writes_that_meet_anothers_are_done_again_at_once(times: int) -> None:
    small = Spotted()
    small.interrupt()
    store = MeddlingStore(small.clock, database=small.database)
    store.times = times
    small.answer(replace(small.ports, store=store))
    assert small.world.view().node_named[small.victim.name].unschedulable


def test_a_notice_waits_when_the_record_changes_too_often() -> None:
    small = Spotted()
    small.interrupt()
    store = MeddlingStore(small.clock, database=small.database)
    store.times = notices.MAX_TRIES
    (says,) = small.answer(replace(small.ports, store=store))
    assert small.instance_id in says
    assert small.record.spots == ()
    assert len(small.ports.inbox.receive()) == 1


def test_a_run_that_cannot_be_counted_is_not_begun() -> None:
    small = Spotted()
    small.put(spots=(make_spot(instance_id=small.instance_id, id="spot:x", noticed_at=small.now),))
    store = MeddlingStore(small.clock, database=small.database)
    store.times = notices.MAX_TRIES
    assert small.answer(replace(small.ports, store=store)) == []
    assert not small.world.view().node_named[small.victim.name].unschedulable


class BuggyCluster(SimCluster):
    def cordon(self, effect: Cordon, token: int) -> None:
        raise ZeroDivisionError("a bug")


def test_runs_are_counted_before_they_run_and_the_lease_is_given_back_after_a_crash() -> None:
    small = Spotted()
    small.interrupt()
    buggy = replace(small.ports, cluster=BuggyCluster(small.world, small.clock))
    for run in range(1, 4):
        small.answer(buggy, owner=f"runner-{run}")
        assert small.record.spots[0].unclean_runs == run
    alarms = facts_in(small.notifier.entries, Alarm)
    assert [alarm.alarm for alarm in alarms] == [AlarmKind.SPOT_FAILED] * 3
    assert (small.instance_id in alarms[0].detail, "ZeroDivisionError" in alarms[0].detail) == (True, True)


class FailsOnce(MemoryStore):
    """Does not answer the first write after the one that counts the run."""

    counted = failed = False

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if self.counted and not self.failed:
            self.failed = True
            raise Unanswered("timed out")
        self.counted = self.counted or any(spot.unclean_runs for spot in record.spots)
        return super().write(record, guard, entries)


def test_a_run_that_a_fault_of_the_store_stopped_does_not_count_against_its_answer() -> None:
    small = Spotted()
    small.interrupt()
    store = FailsOnce(small.clock, database=small.database)
    small.answer(replace(small.ports, store=store))
    assert store.failed
    assert small.record.spots[0].unclean_runs == 0


def test_row_36_a_run_that_was_killed_costs_a_rebalance_no_drain_attempt() -> None:
    small = Spotted()
    draining = make_removal(small.nodes[0].name, instance_id=small.instance_id, state=RemovalState.DRAINING)
    for unclean, deadline in ((1, small.now + 300), (0, small.now - 1)):
        late = replace(draining, drain_deadline=small.now - 1, node_uid=small.nodes[0].uid)
        known = make_spot(instance_id=small.instance_id, id=f"spot:{small.instance_id}", removal=late)
        small.put(spots=(replace(known, unclean_runs=unclean),))
        run = small.leased_run()
        assert notices._counted(run, small.instance_id)
        removal = run.record.spots[0].removal
        assert removal is not None
        assert removal.drain_deadline == deadline


def test_what_keeps_crashing_its_runner_is_given_up_with_an_alarm() -> None:
    small = Spotted()
    crashed = make_spot(
        instance_id=small.instance_id,
        id="spot:x",
        noticed_at=small.now,
        unclean_runs=5,
        removal=make_removal(),
    )
    small.put(spots=(crashed, make_spot("elsewhere", deadline=small.now + 120)))
    small.answer()
    assert [spot.id for spot in small.record.spots] == ["spot:i-elsewhere"]
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert (alarm.alarm, alarm.operation_id, alarm.runs) == (AlarmKind.SPOT_CRASHES, "spot:x", 5)


class ForgettingStore(MemoryStore):
    """Between finding a spot operation and running it, another runner closes it."""

    loads = 0

    def load(self) -> Record:
        self.loads += 1
        record = super().load()
        return replace(record, spots=()) if self.loads == 3 else record


def test_an_operation_that_another_runner_closed_meanwhile_is_not_run() -> None:
    small = Spotted()
    small.put(spots=(make_spot(instance_id=small.instance_id, id="spot:x", noticed_at=small.now),))
    store = ForgettingStore(small.clock, database=small.database)
    assert small.answer(replace(small.ports, store=store)) == []


class ExpiringStore(MemoryStore):
    """The lease of the notice runs out just before a write."""

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if guard is not None:
            self.release(guard)
        return super().write(record, guard, entries)


def test_a_lost_lease_leaves_the_operation_to_another_runner() -> None:
    small = Spotted()
    small.interrupt()
    says = small.answer(replace(small.ports, store=ExpiringStore(small.clock, database=small.database)))
    assert says[1].startswith(f"interruption of {small.instance_id} left to another runner: ")
    assert not small.world.view().node_named[small.victim.name].unschedulable
