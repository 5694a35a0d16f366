"""A call that was carried out and whose reply was lost is recognised as our own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.errors import Conflict
from ebbtide.model.record import CLUSTER_LEASE, spot_lease_name
from ebbtide.ports import Store
from tests.builders import lanes
from tests.contract.stores.examples import SCALE_UP, make_entry
from tests.contract.stores.lab import StoreLab

once_and_twice = pytest.mark.parametrize("times", [1, 2])


@once_and_twice
def test_a_lease_whose_reply_was_lost_is_ours(lossy_store: Store, lab: StoreLab, times: int) -> None:
    lossy_store.load()
    lab.lose_reply_to(*["acquire"] * times)
    lease = lossy_store.acquire(CLUSTER_LEASE, "a", 30)
    assert lease.token == 1
    assert lossy_store.renew(lease, 30) == lease


def test_a_renewal_whose_reply_was_lost_holds(lossy_store: Store, lab: StoreLab) -> None:
    lease = lossy_store.acquire(spot_lease_name("i-1"), "a", 30)
    lab.lose_reply_to("renew")
    assert lossy_store.renew(lease, 60) == replace(lease, until=lease.until + 30)


def test_giving_back_with_a_lost_reply_gives_back(lossy_store: Store, lab: StoreLab) -> None:
    lease = lossy_store.acquire(CLUSTER_LEASE, "a", 30)
    lab.lose_reply_to("release")
    lossy_store.release(lease)
    assert lossy_store.acquire(CLUSTER_LEASE, "b", 30).token == lease.token + 1


@once_and_twice
def test_an_sdk_retries_a_conditional_write_that_had_succeeded(
    lossy_store: Store, lab: StoreLab, times: int
) -> None:
    lease = lossy_store.acquire(CLUSTER_LEASE, "a", 30)
    record = lossy_store.load()
    lab.lose_reply_to(*["write"] * times)
    written = lossy_store.write(replace(record, worker_count=3, **lanes(SCALE_UP)), lease)
    assert written.rev == 1
    assert lossy_store.load() == written
    assert lossy_store.write(written, lease).rev == 2


@once_and_twice
def test_a_write_with_entries_whose_reply_was_lost_is_ours_and_done_once(
    lossy_store: Store, lab: StoreLab, times: int
) -> None:
    lease = lossy_store.acquire(CLUSTER_LEASE, "a", 30)
    record = lossy_store.load()
    lab.lose_reply_to(*["write with entries", "its repetition"][:times])
    written = lossy_store.write(record, lease, [make_entry("1"), make_entry("2")])
    assert (written.rev, lossy_store.load().rev) == (1, 1)
    assert lossy_store.read_log() == [make_entry("2"), make_entry("1")]


def test_a_conflict_is_still_a_conflict_when_its_reply_was_lost(lossy_store: Store, lab: StoreLab) -> None:
    lease = lossy_store.acquire(CLUSTER_LEASE, "a", 30)
    record = lossy_store.load()
    lossy_store.write(record, lease)
    lab.lose_reply_to("write")
    with pytest.raises(Conflict):
        lossy_store.write(record, lease)
    assert lossy_store.load().rev == 1


def test_an_append_whose_reply_was_lost_is_done_once(lossy_store: Store, lab: StoreLab) -> None:
    lossy_store.load()
    lab.lose_reply_to("append")
    lossy_store.append([make_entry("1"), make_entry("2")])
    assert lossy_store.read_log() == [make_entry("2"), make_entry("1")]
