"""Whatever is done to a store, in whatever order, it answers as the store in memory does."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    initialize,
    rule,
    run_state_machine_as_test,
)

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.errors import EbbtideError
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record, spot_lease_name
from ebbtide.ports import Store
from tests.contract.stores.examples import AT, RECORDS, make_entry
from tests.contract.stores.lab import StoreLab

NUMBER = itertools.count()
EXAMPLES = 30
STEPS = 25

names = st.sampled_from([CLUSTER_LEASE, spot_lease_name("i-1"), spot_lease_name("i-2")])
owners = st.sampled_from("abc")
seconds = st.integers(0, 60)
subjects = st.sampled_from(["", "i-1", "i-1#2"])
kinds = st.sampled_from(LogKind)
entries = st.builds(
    lambda entry, at: replace(entry, at=at),
    st.builds(
        make_entry,
        st.integers(0, 30).map(str),
        kinds,
        subjects,
        x=st.none() | st.integers(0, 9) | st.floats(0, 1),
    ),
    st.integers(AT, AT + 2),
)
records = st.sampled_from([name for name in RECORDS if name != "500 slots"])


class StoreMachine(RuleBasedStateMachine):
    """Does the same to both and compares: the answer, or the error and its words."""

    leases: Bundle[Lease] = Bundle("leases")

    lab: StoreLab

    def __init__(self) -> None:
        super().__init__()
        self.cluster = f"model-{next(NUMBER)}"
        self.stores: list[Store] = []

    @initialize()
    def open(self) -> None:
        self.model = MemoryStore(self.lab.clock, self.cluster, MemoryDatabase())
        self.stores = [self.lab.open(self.cluster), self.lab.open(self.cluster)]
        self.seen = [Record(cluster=self.cluster)]

    def both(self, call: Callable[[Store], Any], handle: int = 0) -> Any:
        expected, answer = self.outcome(call, self.model), self.outcome(call, self.stores[handle])
        assert answer == expected
        return expected

    @staticmethod
    def outcome(call: Callable[[Store], Any], store: Store) -> Any:
        try:
            return call(store)
        except EbbtideError as error:
            return type(error), str(error)

    @rule(target=leases, name=names, owner=owners, ttl=seconds, handle=st.integers(0, 1))
    def acquire(self, name: str, owner: str, ttl: int, handle: int) -> Lease:
        lease = self.both(lambda store: store.acquire(name, owner, ttl), handle)
        return lease if isinstance(lease, Lease) else Lease(name, owner, 1, 0)

    @rule(target=leases, lease=consumes(leases), ttl=seconds)
    def renew(self, lease: Lease, ttl: int) -> Lease:
        renewed = self.both(lambda store: store.renew(lease, ttl))
        return renewed if isinstance(renewed, Lease) else lease

    @rule(lease=leases)
    def release(self, lease: Lease) -> None:
        self.both(lambda store: store.release(lease))

    @rule(passed=seconds)
    def advance(self, passed: int) -> None:
        self.lab.advance(passed)

    @rule(handle=st.integers(0, 1))
    def load(self, handle: int) -> None:
        record = self.both(lambda store: store.load(), handle)
        assert isinstance(record, Record)
        self.seen.append(record)

    @rule(state=records, rev=st.integers(-1, 1), added=st.lists(entries, max_size=3))
    def write_unguarded(self, state: str, rev: int, added: list[LogEntry]) -> None:
        self.write(state, rev, None, added)

    @rule(state=records, lease=leases, added=st.lists(entries, max_size=3))
    def write_guarded(self, state: str, lease: Lease, added: list[LogEntry]) -> None:
        self.write(state, 0, lease, added)

    def write(self, state: str, rev: int, guard: Lease | None, added: list[LogEntry]) -> None:
        latest = max(record.rev for record in self.seen)
        record = replace(RECORDS[state], cluster=self.cluster, rev=max(0, latest + rev))
        written = self.both(lambda store: store.write(record, guard, added))
        if isinstance(written, Record):
            self.seen.append(written)

    @rule(added=st.lists(entries, max_size=4), handle=st.integers(0, 1))
    def append(self, added: list[LogEntry], handle: int) -> None:
        self.both(lambda store: store.append(added), handle)

    @rule(
        wanted=st.sets(kinds, max_size=3),
        subject=subjects,
        limit=st.integers(0, 9),
        before=st.just("") | st.integers(0, 30).map(str),
        brief=st.booleans(),
    )
    def read_log(self, wanted: set[LogKind], subject: str, limit: int, before: str, brief: bool) -> None:
        self.both(lambda store: list(store.read_log(wanted, subject, limit, before, brief)))

    @rule(entry_id=st.integers(0, 30).map(str))
    def find_entry(self, entry_id: str) -> None:
        self.both(lambda store: store.find_entry(entry_id))

    @rule(before=st.integers(AT - 1, AT + 3))
    def prune_log(self, before: int) -> None:
        self.both(lambda store: store.prune_log(before))

    def teardown(self) -> None:
        for store in self.stores:
            store.close()


@pytest.mark.timeout(300)
def test_any_sequence_of_calls_answers_as_the_store_in_memory_does(lab: StoreLab) -> None:
    run_state_machine_as_test(
        type("Machine", (StoreMachine,), {"lab": lab}),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
