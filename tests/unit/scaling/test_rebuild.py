"""The ledger again from the log, alone with it: under the lease of the idle loop."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.errors import Conflict, LeaseLost
from ebbtide.model.events import StretchClosed
from ebbtide.model.idle import LedgerDay, Phase, Stretch, WakeReason
from ebbtide.model.log import LogEntry
from ebbtide.model.record import Lease
from ebbtide.narrate import entry_of
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_policy, make_workload, policy_id

STOOD_BY = "stood by"


def slept() -> PolicyHarness:
    """One that slept and was woken."""
    harness = PolicyHarness()
    harness.sleep()
    harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    return harness


def test_a_rebuild_waits_for_its_turn_and_nobody_else_has_one_meanwhile() -> None:
    harness = slept()
    held = harness.store.acquire("policies", "a round", 30)
    began = harness.now
    seen: list[str] = []

    class Watched:
        def __getattr__(self, name: str) -> object:
            return getattr(harness.rows, name)

        def replace_days(self, policy_id: str, days: Sequence[LedgerDay]) -> None:
            seen.append(harness.round(owner="another"))
            harness.rows.replace_days(policy_id, days)

    (rebuilt,) = harness.runner(policies=Watched()).rebuild()
    assert not rebuilt.changed
    assert harness.now > began + 30, "it began when the round had lost its lease"
    assert seen
    assert all(STOOD_BY in says for says in seen)
    assert harness.store.acquire("policies", "a round", 30).token > held.token


def test_a_rebuild_that_gets_no_turn_leaves_the_ledger_as_it_is() -> None:
    harness = slept()
    harness.rows.replace_days(harness.policies[0].id, [])
    harness.store.acquire("policies", "a round", 3600)
    with pytest.raises(LeaseLost, match="the ledger was left as it is"):
        harness.scaling.rebuild()
    assert harness.rows.list_days() == []


def test_a_long_rebuild_renews_its_lease() -> None:
    policies = tuple(make_policy(f"p{number}", id=policy_id(number)) for number in range(1, 4))
    harness = PolicyHarness(
        policies=policies,
        memory_workloads=MemoryWorkloads(*(make_workload(policy.name) for policy in policies)),
    )
    untils: list[int] = []

    class Slow(MemoryStore):
        def read_log(self, *args: Any, **kwargs: Any) -> Sequence[LogEntry]:
            harness.clock.sleep(100)
            return super().read_log(*args, **kwargs)

        def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
            untils.append(lease.until)
            return super().renew(lease, ttl_seconds)

    assert len(harness.runner(store=Slow(harness.clock, database=harness.database)).rebuild()) == 3
    assert len(untils) == 2


def test_a_rebuild_that_is_never_done_says_so_and_gives_its_lease_back() -> None:
    harness = slept()
    pages = 0

    class Growing(MemoryStore):
        def read_log(self, *args: Any, **kwargs: Any) -> Sequence[LogEntry]:
            """Meanwhile another wake was written, every time."""
            nonlocal pages
            pages += 1
            found = super().read_log(*args, **kwargs)
            return [*found, *(found[0] for _ in range(pages))]

    growing = Growing(harness.clock, database=harness.database)
    with pytest.raises(Conflict, match="keeps being written"):
        harness.runner(store=growing).rebuild()
    assert harness.store.acquire("policies", "a round", 30), "its lease was given back"


def test_a_stretch_that_is_written_while_the_ledger_is_replaced_is_in_it_in_the_end() -> None:
    """It is in the log, and its own addition to the ledger was just replaced."""
    harness = slept()
    late = Stretch(policy_id(), "UTC", Phase.ZERO, harness.now - 700, harness.now)
    before = sum(day.scaled_to_zero_seconds for day in harness.rows.list_days(policy_id()))

    class Meets:
        met = False

        def __getattr__(self, name: str) -> object:
            return getattr(harness.rows, name)

        def replace_days(self, policy: str, days: Sequence[LedgerDay]) -> None:
            if not self.met:
                self.met = True
                harness.store.append([entry_of("z-late", harness.now, StretchClosed(late), policy)])
            harness.rows.replace_days(policy, days)

    harness.runner(policies=Meets()).rebuild()
    after = sum(day.scaled_to_zero_seconds for day in harness.rows.list_days(policy_id()))
    assert after == before + 700
