"""The ledger again from the log, alone with it: under the lease of the idle loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.errors import Conflict, LeaseLost
from ebbtide.model.idle import WakeReason
from ebbtide.model.ledger import LedgerDay
from ebbtide.model.log import LogEntry
from ebbtide.model.record import Lease
from tests.yard import Town, Yard, make_policy, make_workload, policy_id


def slept() -> Town:
    """One that slept and was woken."""
    town = Town()
    town.sleep()
    town.scaling.wake(town.policies[0].id, WakeReason.MANUAL)
    return town


def test_a_rebuild_waits_for_its_turn_and_nobody_else_has_one_meanwhile() -> None:
    town = slept()
    held = town.store.acquire("policies", "a round", 30)
    began = town.now
    seen: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(town.rows, name)

        def replace_days(self, policy_id: str, days: Sequence[LedgerDay]) -> None:
            seen.append(town.round(owner="another"))
            town.rows.replace_days(policy_id, days)

    (rebuilt,) = town.runner(policies=Watched()).rebuild()
    assert not rebuilt.changed
    assert town.now > began + 30, "it began when the round had lost its lease"
    assert seen
    assert all("policies: stood by" in says for says in seen)
    assert town.store.acquire("policies", "a round", 30).token > held.token


def test_a_rebuild_that_gets_no_turn_leaves_the_ledger_as_it_is() -> None:
    town = slept()
    town.rows.replace_days(town.policies[0].id, [])
    town.store.acquire("policies", "a round", 3600)
    with pytest.raises(LeaseLost, match="the ledger was left as it is"):
        town.scaling.rebuild()
    assert town.rows.list_days() == []


def test_a_long_rebuild_renews_its_lease() -> None:
    policies = tuple(make_policy(f"p{number}", id=policy_id(number)) for number in range(1, 4))
    town = Town(policies=policies, yard=Yard(*(make_workload(policy.name) for policy in policies)))
    untils: list[int] = []

    class Slow(MemoryStore):
        def read_log(self, *args: Any, **kwargs: Any) -> Sequence[LogEntry]:
            town.clock.sleep(100)
            return super().read_log(*args, **kwargs)

        def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
            untils.append(lease.until)
            return super().renew(lease, ttl_seconds)

    assert len(town.runner(store=Slow(town.clock, database=town.database)).rebuild()) == 3
    assert len(untils) == 2


def test_a_rebuild_that_is_never_done_says_so_and_gives_its_lease_back() -> None:
    town = slept()
    pages = 0

    class Growing(MemoryStore):
        def read_log(self, *args: Any, **kwargs: Any) -> Sequence[LogEntry]:
            """Meanwhile another wake was written, every time."""
            nonlocal pages
            pages += 1
            found = super().read_log(*args, **kwargs)
            return [*found, *(found[0] for _ in range(pages))]

    growing = Growing(town.clock, database=town.database)
    with pytest.raises(Conflict, match="written all the time"):
        town.runner(store=growing).rebuild()
    assert town.store.acquire("policies", "a round", 30), "its lease was given back"
