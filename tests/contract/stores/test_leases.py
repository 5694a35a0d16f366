"""A lease is held by one at a time, ends by itself, and its token only grows."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from ebbtide.adapters.stores.codec.record import item_key
from ebbtide.adapters.stores.guards import Outwaiting, StoredLease
from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.errors import LeaseLost
from ebbtide.model.record import CLUSTER_LEASE, LONGEST_LEASE_SECONDS, Lease, Record, spot_lease_name
from ebbtide.ports import Store
from tests.contract.stores.lab import StillClock, StoreLab

SPOT_LEASE = spot_lease_name("i-0abc")

on_both_kinds = pytest.mark.parametrize("name", [CLUSTER_LEASE, SPOT_LEASE])


@on_both_kinds
def test_a_free_lease_is_taken_with_the_first_token(store: Store, lab: StoreLab, name: str) -> None:
    lease = store.acquire(name, "a", 30)
    assert lease == Lease(name, "a", 1, int(lab.clock.now()) + 30)


@on_both_kinds
def test_a_lease_that_another_holds_is_refused_and_names_the_holder(store: Store, name: str) -> None:
    store.acquire(name, "a", 30)
    with pytest.raises(LeaseLost, match="held by a until"):
        store.acquire(name, "b", 30)


@on_both_kinds
def test_taking_our_own_lease_again_moves_its_end_and_keeps_the_token(
    store: Store, lab: StoreLab, name: str
) -> None:
    first = store.acquire(name, "a", 30)
    lab.advance(10)
    assert store.acquire(name, "a", 30) == replace(first, until=first.until + 10)


@on_both_kinds
def test_a_lease_is_held_through_its_last_second(store: Store, lab: StoreLab, name: str) -> None:
    store.acquire(name, "a", 30)
    lab.advance(30)
    with pytest.raises(LeaseLost):
        store.acquire(name, "b", 30)


@on_both_kinds
def test_a_lease_that_ran_out_goes_to_another_with_a_higher_token(
    store: Store, lab: StoreLab, name: str
) -> None:
    first = store.acquire(name, "a", 30)
    lab.advance(31)
    assert store.acquire(name, "b", 30).token == first.token + 1


def test_our_own_lease_that_ran_out_is_taken_up_again_under_its_token(store: Store, lab: StoreLab) -> None:
    first = store.acquire(CLUSTER_LEASE, "a", 30)
    lab.advance(1000)
    assert store.acquire(CLUSTER_LEASE, "a", 30) == replace(first, until=first.until + 1000)


@on_both_kinds
def test_renewing_moves_the_end(store: Store, lab: StoreLab, name: str) -> None:
    lease = store.acquire(name, "a", 30)
    lab.advance(30)
    renewed = store.renew(lease, 60)
    assert renewed == replace(lease, until=int(lab.clock.now()) + 60)
    lab.advance(60)
    with pytest.raises(LeaseLost):
        store.acquire(name, "b", 30)


@on_both_kinds
def test_a_lease_that_ran_out_is_not_renewed(store: Store, lab: StoreLab, name: str) -> None:
    lease = store.acquire(name, "a", 30)
    lab.advance(31)
    with pytest.raises(LeaseLost, match="ran out"):
        store.renew(lease, 30)


def test_a_lease_that_another_took_is_not_renewed(store: Store, lab: StoreLab) -> None:
    lost = store.acquire(CLUSTER_LEASE, "a", 30)
    lab.advance(31)
    store.acquire(CLUSTER_LEASE, "b", 30)
    with pytest.raises(LeaseLost, match="now held by b"):
        store.renew(lost, 30)


def test_a_lease_that_never_was_is_not_renewed(store: Store) -> None:
    with pytest.raises(LeaseLost):
        store.renew(Lease(SPOT_LEASE, "a", 1, 0), 30)


def test_a_lease_of_an_earlier_token_is_not_renewed_even_by_its_owner(store: Store) -> None:
    first = store.acquire(CLUSTER_LEASE, "a", 30)
    store.release(first)
    store.acquire(CLUSTER_LEASE, "a", 30)
    with pytest.raises(LeaseLost):
        store.renew(first, 30)


@on_both_kinds
def test_a_lease_given_back_can_be_taken_at_once_with_a_higher_token(store: Store, name: str) -> None:
    first = store.acquire(name, "a", 30)
    store.release(first)
    assert store.acquire(name, "b", 30).token == first.token + 1


def test_our_own_lease_given_back_is_a_new_one_when_taken_again(store: Store) -> None:
    first = store.acquire(CLUSTER_LEASE, "a", 30)
    store.release(first)
    assert store.acquire(CLUSTER_LEASE, "a", 30).token == first.token + 1


def test_giving_back_a_lease_that_another_holds_does_nothing(store: Store, lab: StoreLab) -> None:
    lost = store.acquire(CLUSTER_LEASE, "a", 30)
    lab.advance(31)
    held = store.acquire(CLUSTER_LEASE, "b", 30)
    store.release(lost)
    assert store.renew(held, 30) == held


@on_both_kinds
def test_giving_back_a_lease_of_an_earlier_token_does_nothing_even_by_its_owner(
    store: Store, lab: StoreLab, name: str
) -> None:
    """A call that was frozen until its own process had taken the lease again."""
    first = store.acquire(name, "a", 30)
    store.release(first)
    held = store.acquire(name, "a", 30)
    store.release(first)
    assert store.renew(held, 30) == held
    with pytest.raises(LeaseLost):
        store.acquire(name, "b", 30)


def test_giving_back_twice_is_harmless(store: Store) -> None:
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    store.release(lease)
    store.release(lease)
    assert store.load().lock_owner == ""


def test_leases_of_different_names_do_not_meet(store: Store) -> None:
    store.acquire(CLUSTER_LEASE, "a", 30)
    assert store.acquire(SPOT_LEASE, "b", 30).token == 1
    assert store.acquire(spot_lease_name("i-0def"), "c", 30).token == 1


def test_leases_of_different_clusters_do_not_meet(store: Store, lab: StoreLab, cluster: str) -> None:
    other = lab.open(f"{cluster}-other")
    for name in (CLUSTER_LEASE, SPOT_LEASE):
        store.acquire(name, "a", 30)
        assert other.acquire(name, "b", 30).token == 1
    other.close()


def test_the_lease_shows_on_the_record_and_leaves_the_rest_of_it_alone(store: Store) -> None:
    before = store.load()
    lease = store.acquire(CLUSTER_LEASE, "a", 30)
    shown = replace(before, lock_owner="a", lock_until=lease.until, lock_token=lease.token)
    assert store.load() == shown
    store.release(lease)
    assert store.load() == replace(before, lock_token=lease.token)


def test_a_second_handle_sees_the_lease(store: Store, lab: StoreLab, cluster: str) -> None:
    store.acquire(CLUSTER_LEASE, "a", 30)
    second = lab.open(cluster)
    with pytest.raises(LeaseLost):
        second.acquire(CLUSTER_LEASE, "b", 30)
    second.close()


HOURS_AHEAD = 2 * 3600


def taken_by_a_wrong_clock(store: Store, lab: StoreLab, name: str) -> Lease:
    lab.advance(HOURS_AHEAD)
    lease = store.acquire(name, "a", 30)
    lab.advance(-HOURS_AHEAD)
    return lease


@on_both_kinds
def test_a_lease_taken_by_a_clock_hours_ahead_is_over_when_nobody_has_renewed_it_for_the_longest_time(
    store: Store, lab: StoreLab, name: str
) -> None:
    wrong = taken_by_a_wrong_clock(store, lab, name)
    for _ in range(LONGEST_LEASE_SECONDS // 300 + 1):
        with pytest.raises(LeaseLost, match="a clock is wrong"):
            store.acquire(name, "b", 30)
        lab.advance(300)
    taken = store.acquire(name, "b", 30)
    assert taken == Lease(name, "b", wrong.token + 1, int(lab.clock.now()) + 30)
    with pytest.raises(LeaseLost, match="now held by b"):
        store.renew(wrong, 30)


@on_both_kinds
def test_a_lease_that_its_holder_renews_is_not_taken_however_wrong_its_clock_is(
    store: Store, lab: StoreLab, name: str
) -> None:
    wrong = taken_by_a_wrong_clock(store, lab, name)
    for _ in range(2 * LONGEST_LEASE_SECONDS // 300):
        lab.advance(HOURS_AHEAD)
        wrong = store.renew(wrong, 301)
        lab.advance(-HOURS_AHEAD)
        with pytest.raises(LeaseLost):
            store.acquire(name, "b", 30)
        lab.advance(300)


def test_who_has_just_begun_to_look_waits_as_long_as_anybody(store: Store, lab: StoreLab) -> None:
    taken_by_a_wrong_clock(store, lab, CLUSTER_LEASE)
    lab.advance(LONGEST_LEASE_SECONDS + 1)
    with pytest.raises(LeaseLost):
        store.acquire(CLUSTER_LEASE, "b", 30)
    lab.advance(LONGEST_LEASE_SECONDS)
    with pytest.raises(LeaseLost):
        store.acquire(CLUSTER_LEASE, "b", 30)
    lab.advance(1)
    assert store.acquire(CLUSTER_LEASE, "b", 30).owner == "b"


def test_a_clock_of_our_own_that_goes_back_starts_the_wait_again(store: Store, lab: StoreLab) -> None:
    taken_by_a_wrong_clock(store, lab, CLUSTER_LEASE)
    for seconds in (-600, LONGEST_LEASE_SECONDS, 1):
        with pytest.raises(LeaseLost):
            store.acquire(CLUSTER_LEASE, "b", 30)
        lab.advance(seconds)
    assert store.acquire(CLUSTER_LEASE, "b", 30).owner == "b"


def test_a_lease_that_ends_in_time_is_waited_for(store: Store, lab: StoreLab) -> None:
    """However long it has been looked at: it may belong to a runner with other settings."""
    store.acquire(CLUSTER_LEASE, "a", LONGEST_LEASE_SECONDS)
    for _ in range(3):
        with pytest.raises(LeaseLost):
            store.acquire(CLUSTER_LEASE, "b", 30)
        lab.advance(LONGEST_LEASE_SECONDS // 3)
    with pytest.raises(LeaseLost):
        store.acquire(CLUSTER_LEASE, "b", 30)
    lab.advance(1)
    assert store.acquire(CLUSTER_LEASE, "b", 30).owner == "b"


@pytest.fixture
def rival(lab: StoreLab, cluster: str) -> Iterator[Store]:
    opened = lab.open(cluster)
    yield opened
    opened.close()


def test_another_that_takes_an_outwaited_lease_first_keeps_it(
    store: Store, rival: Store, lab: StoreLab
) -> None:
    taken_by_a_wrong_clock(store, lab, CLUSTER_LEASE)
    for one in (store, rival):
        with pytest.raises(LeaseLost):
            one.acquire(CLUSTER_LEASE, "b", 30)
    lab.advance(LONGEST_LEASE_SECONDS + 1)
    rival.acquire(CLUSTER_LEASE, "c", 30)
    with pytest.raises(LeaseLost, match="held by c"):
        store.acquire(CLUSTER_LEASE, "b", 30)


@pytest.mark.parametrize("lab", ["sqlite", "postgresql", "dynamodb"], indirect=True)
def test_a_lease_that_changes_between_the_last_look_and_the_takeover_is_not_taken(
    store: Store, rival: Store, lab: StoreLab, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In memory one lock is held from the look to the takeover."""
    wrong = taken_by_a_wrong_clock(store, lab, CLUSTER_LEASE)
    really_over = Outwaiting.is_over

    def renewed_after_the_look(self: Outwaiting, name: str, held: StoredLease, now: int) -> bool:
        over = really_over(self, name, held, now)
        if over and held.until == wrong.until:
            lab.advance(HOURS_AHEAD)
            rival.acquire(CLUSTER_LEASE, "a", 30)
            lab.advance(-HOURS_AHEAD)
        return over

    monkeypatch.setattr(Outwaiting, "is_over", renewed_after_the_look)
    with pytest.raises(LeaseLost):
        store.acquire(CLUSTER_LEASE, "b", 30)
    lab.advance(LONGEST_LEASE_SECONDS + 1)
    with pytest.raises(LeaseLost, match="held by a"):
        store.acquire(CLUSTER_LEASE, "b", 30)
    assert store.load().lock_owner == "a"


def test_an_item_without_a_token_is_one_that_nobody_has_taken() -> None:
    database = MemoryDatabase()
    store = MemoryStore(StillClock(), "c", database)
    store.write(Record(cluster="c"), None)
    del database.items[item_key("c")]["lockToken"]
    assert store.acquire(CLUSTER_LEASE, "a", 30).token == 1
