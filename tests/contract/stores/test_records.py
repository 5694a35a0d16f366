"""A record is replaced whole, by the holder of the lease that read it last, or not at all."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.errors import Conflict, LeaseLost, NewerRecord
from ebbtide.model.operation import Consolidate, ScaleDown
from ebbtide.model.record import CLUSTER_LEASE, FORMAT_VERSION, Record, Refused, spot_lease_name
from ebbtide.ports import Store
from tests.builders import asides, lanes
from tests.contract.stores.examples import (
    CONSOLIDATION,
    IDLE,
    RECORDS,
    SCALE_DOWN,
    SCALE_UP,
    make_entry,
    make_record,
)
from tests.contract.stores.lab import StoreLab

SPOT_LEASE = spot_lease_name("i-0abc")


def test_a_record_never_written_is_a_fresh_one(store: Store, cluster: str) -> None:
    assert store.load() == Record(cluster=cluster)


@pytest.mark.parametrize("state", RECORDS)
def test_a_record_comes_back_as_it_was_written(store: Store, cluster: str, state: str) -> None:
    written = store.write(make_record(cluster, RECORDS[state]), None)
    assert written == make_record(cluster, replace(RECORDS[state], rev=1))
    assert store.load() == written


@pytest.mark.parametrize("state", RECORDS)
def test_a_record_written_under_a_lease_comes_back_with_that_lease(
    store: Store, cluster: str, state: str
) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    written = store.write(make_record(cluster, RECORDS[state]), lease)
    assert store.load() == replace(written, lock_owner="a", lock_until=lease.until, lock_token=lease.token)


def test_every_write_raises_the_rev_by_one(store: Store, cluster: str) -> None:
    record = store.load()
    for rev in range(1, 4):
        record = store.write(record, None)
        assert record.rev == rev
    assert store.load().rev == 3


@pytest.mark.parametrize("guarded", [False, True])
def test_a_write_of_an_old_rev_is_a_conflict(store: Store, guarded: bool) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30) if guarded else None
    record = store.load()
    store.write(replace(record, worker_count=5), lease)
    with pytest.raises(Conflict, match="somebody else wrote first"):
        store.write(replace(record, worker_count=6), lease)
    assert store.load().worker_count == 5


def test_a_write_of_a_rev_that_is_not_there_yet_is_a_conflict(store: Store, cluster: str) -> None:
    with pytest.raises(Conflict):
        store.write(Record(cluster=cluster, rev=7), None)
    assert store.load().rev == 0


def test_of_two_handles_with_one_rev_the_second_to_write_loses(
    store: Store, lab: StoreLab, cluster: str
) -> None:
    second = lab.open(cluster)
    mine, theirs = store.load(), second.load()
    second.write(theirs, None)
    with pytest.raises(Conflict):
        store.write(mine, None)
    second.close()


def test_a_write_under_a_lease_that_another_took_is_refused(store: Store, lab: StoreLab) -> None:
    lost = store.acquire(CLUSTER_LEASE, "a", 30)
    record = store.load()
    lab.advance(31)
    store.acquire(CLUSTER_LEASE, "b", 30)
    with pytest.raises(LeaseLost):
        store.write(record, lost)
    assert store.load().rev == 0


def test_a_write_under_a_lease_that_ran_out_is_refused(store: Store, lab: StoreLab) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    lab.advance(30)
    record = store.write(store.load(), lease)
    lab.advance(1)
    with pytest.raises(LeaseLost, match="ran out"):
        store.write(record, lease)


def test_a_write_under_an_earlier_token_of_our_own_is_refused(store: Store) -> None:
    first = store.acquire(CLUSTER_LEASE, "a", 30)
    store.release(first)
    store.acquire(CLUSTER_LEASE, "a", 30)
    with pytest.raises(LeaseLost):
        store.write(store.load(), first)


def test_a_write_under_a_lease_given_back_is_refused(store: Store) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    store.release(lease)
    with pytest.raises(LeaseLost, match="given back"):
        store.write(store.load(), lease)


def test_a_spot_lease_guards_a_write_of_the_record(store: Store) -> None:
    lease = store.acquire(SPOT_LEASE, "a", 30)
    record = store.write(store.load(), lease)
    assert store.write(record, lease, [make_entry("1")]).rev == 2
    assert store.load().lock_owner == ""


@pytest.mark.parametrize("entries", [(), (make_entry("1"),)])
def test_a_write_under_a_lost_spot_lease_is_refused(store: Store, lab: StoreLab, entries: tuple[()]) -> None:
    lost = store.acquire(SPOT_LEASE, "a", 30)
    lab.advance(31)
    store.acquire(SPOT_LEASE, "b", 30)
    with pytest.raises(LeaseLost):
        store.write(store.load(), lost, entries)
    assert store.load().rev == 0
    assert store.read_log() == []


def test_a_refused_write_leaves_no_entry_behind(store: Store, lab: StoreLab) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    record = store.load()
    store.write(record, lease)
    with pytest.raises(Conflict):
        store.write(record, lease, [make_entry("1"), make_entry("2")])
    lab.advance(31)
    with pytest.raises(LeaseLost):
        store.write(store.load(), lease, [make_entry("3")])
    assert store.read_log() == []


def test_writing_does_not_touch_the_lease(store: Store) -> None:
    record = store.load()
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    store.write(replace(record, lock_owner="x", lock_token=99, lock_until=5), lease)
    kept = store.load()
    assert (kept.lock_owner, kept.lock_token, kept.lock_until) == ("a", lease.token, lease.until)


def test_renewing_between_load_and_write_is_no_conflict(store: Store, lab: StoreLab) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    record = store.load()
    lab.advance(20)
    store.renew(lease, 30)
    lab.advance(20)
    assert store.write(record, lease).rev == 1


def test_an_operation_moves_on_and_is_closed(store: Store, cluster: str) -> None:
    record = store.write(make_record(cluster, operation=SCALE_UP), None)
    record = store.write(replace(record, **lanes(replace(SCALE_UP, slots=()))), None)
    assert store.load().operation == replace(SCALE_UP, slots=())
    record = store.write(replace(record, **lanes(None)), None)
    assert store.load() == replace(make_record(cluster), rev=3)
    record = store.write(replace(record, **lanes(SCALE_DOWN)), None)
    assert store.load().operation == SCALE_DOWN


@pytest.mark.parametrize("entries", [(), (make_entry("1"),)])
def test_an_operation_never_takes_the_place_of_another(
    store: Store, cluster: str, entries: tuple[()]
) -> None:
    record = store.write(make_record(cluster, operation=SCALE_UP), None)
    for second in (SCALE_DOWN, replace(SCALE_UP, id="another")):
        with pytest.raises(Conflict, match=f"in the middle of {SCALE_UP.id}"):
            store.write(replace(record, **lanes(second)), None, entries)
    assert store.load().operation == SCALE_UP


def test_both_lanes_are_open_next_to_each_other_and_end_on_their_own(store: Store, cluster: str) -> None:
    record = store.write(make_record(cluster, operation=SCALE_DOWN), None)
    record = store.write(replace(record, launching=SCALE_UP), None)
    assert (store.load(), record.format_version) == (record, 2)
    for other in (replace(SCALE_UP, id="another"), None):
        swapped = replace(record, launching=other, removing=replace(SCALE_DOWN, id="another"))
        with pytest.raises(Conflict, match="in the middle of"):
            store.write(swapped, None)
    record = store.write(replace(record, removing=None), None)
    assert (store.load(), record.format_version) == (record, 1)
    record = store.write(replace(record, removing=CONSOLIDATION), None)
    record = store.write(replace(record, launching=None), None)
    assert store.load() == replace(make_record(cluster, operation=CONSOLIDATION), rev=5)


@pytest.mark.parametrize("removing", [SCALE_DOWN, CONSOLIDATION], ids=["scale-down", "consolidation"])
def test_in_neither_lane_an_operation_takes_the_place_of_another_next_to_one_that_stays(
    store: Store, cluster: str, removing: ScaleDown | Consolidate
) -> None:
    record = store.write(make_record(cluster, operation=removing), None)
    record = store.write(replace(record, launching=SCALE_UP), None)
    for swapped in (
        replace(record, launching=replace(SCALE_UP, id="another")),
        replace(record, removing=replace(removing, id="another")),
        replace(record, removing=CONSOLIDATION if removing == SCALE_DOWN else SCALE_DOWN),
        replace(record, launching=replace(SCALE_UP, id="another"), removing=None),
        replace(record, launching=None, removing=replace(removing, id="another")),
    ):
        with pytest.raises(Conflict, match="in the middle of"):
            store.write(swapped, None)
    assert store.load() == record
    assert store.write(replace(record, launching=None, removing=None), None).rev == 3


def test_what_was_refused_and_both_that_were_set_aside_come_back(store: Store, cluster: str) -> None:
    refused = Refused("op-1", replace(SCALE_DOWN.removals[0], refused_since=7), 900)
    fresh = replace(make_record(cluster), launching_aside=SCALE_UP, removing_aside=SCALE_DOWN)
    record = store.write(replace(fresh, refused=(refused,)), None)
    assert (store.load(), record.format_version) == (record, 2)
    record = store.write(replace(record, refused=(), removing_aside=None), None)
    assert (store.load(), record.format_version) == (record, 1)


def test_an_operation_set_aside_makes_room_for_another(store: Store, cluster: str) -> None:
    record = store.write(make_record(cluster, operation=SCALE_DOWN), None)
    record = store.write(replace(record, **lanes(None), **asides(SCALE_DOWN)), None)
    record = store.write(replace(record, **lanes(SCALE_UP)), None)
    assert store.load() == record


def test_a_record_of_a_newer_version_is_left_alone(
    store: Store, cluster: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.model.record.PLAIN_FORMAT", FORMAT_VERSION + 1)
    store.write(make_record(cluster), None)
    for _ in range(2):
        with pytest.raises(NewerRecord, match="run the newer version"):
            store.load()


def test_scaling_in_progress_alone_is_corrected_by_the_next_write(
    store: Store, lab: StoreLab, cluster: str
) -> None:
    store.write(make_record(cluster, IDLE), None)
    lab.meddle(cluster, scalingInProgress=True)
    found = store.load()
    assert len(found.contradictions) == 1
    assert not found.scaling_in_progress
    store.write(replace(found, contradictions=()), None)
    assert store.load().contradictions == ()
    store.write(replace(store.load(), **lanes(SCALE_UP)), None)
    assert store.load().scaling_in_progress


def test_a_lock_without_an_end_is_taken_by_the_next_who_asks(
    store: Store, lab: StoreLab, cluster: str
) -> None:
    store.write(make_record(cluster, IDLE), None)
    lab.meddle(cluster, owner="another tool")
    assert len(store.load().contradictions) == 1
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    assert store.load().contradictions == ()
    store.write(store.load(), lease)
    with pytest.raises(LeaseLost):
        store.acquire(CLUSTER_LEASE, "b", 30)


def test_records_of_different_clusters_do_not_meet(store: Store, lab: StoreLab, cluster: str) -> None:
    other = lab.open(f"{cluster}-other")
    store.write(make_record(cluster, IDLE), None)
    assert other.load() == Record(cluster=f"{cluster}-other")
    other.close()


@pytest.mark.parametrize(("mine", "theirs"), [("op_1", "opX1"), ("op%", "op-other"), ("op!_1", "op_1")])
def test_the_id_of_an_operation_is_no_pattern_for_those_of_others(
    store: Store, cluster: str, mine: str, theirs: str
) -> None:
    first = replace(SCALE_UP, id=theirs)
    record = store.write(make_record(cluster, operation=SCALE_DOWN), None)
    record = store.write(replace(record, launching=first), None)
    with pytest.raises(Conflict, match="in the middle of"):
        store.write(replace(record, launching=replace(SCALE_UP, id=mine), removing=None), None)
    record = store.write(replace(record, launching=None), None)
    record = store.write(replace(record, removing=None), None)
    record = store.write(replace(record, removing=replace(SCALE_DOWN, id=theirs)), None)
    record = store.write(replace(record, launching=SCALE_UP), None)
    with pytest.raises(Conflict, match="in the middle of"):
        store.write(replace(record, launching=None, removing=replace(SCALE_DOWN, id=mine)), None)
    assert store.load() == record
    own = store.write(replace(record, launching=None), None)
    assert store.load() == own
