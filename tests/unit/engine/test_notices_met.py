"""Spot notices that meet a fault, another writer or a run that died: still answered, and told once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.ports import Observers, Ports
from ebbtide.errors import Retryable, Unanswered
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import Operation, Spot, SpotKind, SpotNotice
from ebbtide.model.record import Lease, Record
from ebbtide.narrate import facts_in
from ebbtide.simulator.world.ports import SimInbox
from tests.builders import make_spot
from tests.unit.engine.test_notices import Spotted


def spot_of(small: Spotted, **changes: object) -> Spot:
    found = make_spot(
        instance_id=small.instance_id, id=f"spot:{small.instance_id}", noticed_at=small.now, removal=None
    )
    return replace(found, **changes)  # type: ignore[arg-type]


def is_cordoned(small: Spotted) -> bool:
    return small.world.view().node_named[small.victim.name].unschedulable


def with_store(small: Spotted, store: MemoryStore) -> Ports:
    return replace(small.ports, store=store)


class DeafInbox(SimInbox):
    def receive(self) -> Sequence[SpotNotice]:
        raise Retryable("the queue does not answer")


def test_an_inbox_that_cannot_be_read_keeps_no_open_notice_waiting() -> None:
    small = Spotted()
    small.put(spots=(spot_of(small),))
    small.answer(replace(small.ports, inbox=DeafInbox(small.world, small.clock)))
    assert is_cordoned(small)
    assert [one.alarm for one in facts_in(small.notifier.entries, Alarm)] == [AlarmKind.INBOX_UNREADABLE]


class MeetsOne(MemoryStore):
    """Another writer gets in before the first write under the lease of a notice."""

    met = False

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if guard is not None and not self.met:
            self.met = True
            super().write(self.load(), None)
        return super().write(record, guard, entries)


def test_a_count_that_meets_another_writer_does_not_keep_the_notice_waiting() -> None:
    small = Spotted()
    small.put(spots=(spot_of(small),))
    small.answer(with_store(small, MeetsOne(small.clock, database=small.database)))
    assert is_cordoned(small)


def test_a_notice_that_is_given_up_is_told_once_although_its_write_met_another() -> None:
    small = Spotted()
    small.put(spots=(spot_of(small, unclean_runs=5),))
    small.answer(with_store(small, MeetsOne(small.clock, database=small.database)))
    assert small.record.spots == ()
    assert [one.alarm for one in facts_in(small.notifier.entries, Alarm)] == [AlarmKind.SPOT_CRASHES]


def test_a_notice_whose_runner_died_before_anything_was_drained_is_answered() -> None:
    small = Spotted()
    small.put(spots=(spot_of(small, unclean_runs=1),))
    small.answer()
    assert is_cordoned(small)
    assert facts_in(small.notifier.entries, Alarm) == []


class FailsOnLoad(MemoryStore):
    """Does not answer the load of this number; what others do meanwhile."""

    number = 0
    closes = False
    loads = 0

    def load(self) -> Record:
        self.loads += 1
        if self.loads == self.number:
            if self.closes:
                super().write(replace(super().load(), spots=()), None)
            raise Unanswered("timed out")
        return super().load()


def failing(small: Spotted, number: int, closes: bool = False) -> Ports:
    store = FailsOnLoad(small.clock, database=small.database)
    store.number, store.closes = number, closes
    return with_store(small, store)


def test_a_fault_before_a_run_was_counted_leaves_the_record_as_it_was() -> None:
    small = Spotted()
    before = small.put(spots=(spot_of(small),))
    small.answer(failing(small, 3))
    assert small.record == before
    assert [one.alarm for one in facts_in(small.notifier.entries, Alarm)] == [AlarmKind.SPOT_FAILED]


def test_a_fault_while_another_runner_closes_the_notice_is_told_as_what_it_was() -> None:
    small = Spotted()
    small.put(spots=(spot_of(small),))
    small.answer(failing(small, 3, closes=True))
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert "Unanswered" in alarm.detail


class Began(Observers):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[Operation | Spot | None] = []

    def began(self, work: Operation | Spot) -> None:
        self.seen.append(work)


def test_an_observer_is_told_at_once_of_a_notice_and_never_of_one_that_is_not_ours() -> None:
    small = Spotted()
    observer = Began()
    ports = replace(small.ports, observer=observer)
    stranger = SpotNotice("i-stranger", SpotKind.INTERRUPTION, small.now, small.now + 120)
    small.world.incidents.mail.arrived.append(stranger)
    small.answer(ports)
    assert observer.seen == []
    small.interrupt()
    small.answer(ports)
    assert [work.id for work in observer.seen if work] == [f"spot:{small.instance_id}"]
