"""A lease that is given back between two looks of one call is free, and not held by nobody."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ebbtide.adapters.stores.sql.store import TAKES, SqlStore
from ebbtide.errors import LeaseLost
from ebbtide.model.record import CLUSTER_LEASE
from tests.contract.stores.lab import StillClock


class GivenBackMeanwhile(SqlStore):
    """After each refusal, before the row is read, its holder gives the lease back; and takes it again at once
    for so many times."""

    other: SqlStore
    again = 0

    def _row(self, lent: Any, key: str) -> Any:
        self.other.release(self.other.acquire(CLUSTER_LEASE, "another", 30))
        row = super()._row(lent, key)
        if self.again:
            self.again -= 1
            self.other.acquire(CLUSTER_LEASE, "another", 30)
        return row


@pytest.fixture
def store(tmp_path: Path) -> GivenBackMeanwhile:
    url, clock = f"sqlite:///{tmp_path}/ebbtide.db", StillClock()
    made = GivenBackMeanwhile.open(url, clock)
    assert isinstance(made, GivenBackMeanwhile)
    made.other = SqlStore.open(url, clock)
    made.other.acquire(CLUSTER_LEASE, "another", 30)
    return made


def test_a_lease_that_was_given_back_meanwhile_is_taken(store: GivenBackMeanwhile) -> None:
    assert store.acquire(CLUSTER_LEASE, "us", 30).owner == "us"


def test_a_lease_that_others_take_again_and_again_is_not_waited_for(store: GivenBackMeanwhile) -> None:
    store.again = TAKES
    with pytest.raises(LeaseLost, match="keeps being taken by others"):
        store.acquire(CLUSTER_LEASE, "us", 30)
