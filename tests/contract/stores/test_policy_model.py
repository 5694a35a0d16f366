"""Any sequence of calls is answered by each policy store as it is by the one in memory."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import IdleState, LedgerDay, Phase
from ebbtide.model.log import LogEntry
from ebbtide.model.policy import Policy
from ebbtide.ports import PolicyStore, Store
from tests.contract.stores.examples import make_entry
from tests.contract.stores.lab import START, StoreLab, policies_of
from tests.contract.stores.policy_examples import FULL_POLICY, full_state, make_policy, policy_id

NUMBER = itertools.count()
EXAMPLES = 12
STEPS = 25

numbers = st.integers(1, 4)
handles = st.integers(0, 1)
names = st.sampled_from(["a", "b", "B", "a-1", "ä"])
offsets = st.sampled_from([0, 0, 0, 0, -1, 1])
dates = st.sampled_from(["2025-12-31", "2026-01-01", "2026-01-15", "2026-02-01"])
decimals = st.decimals(0, 10**6, allow_nan=False, places=6)
entries = st.lists(st.builds(make_entry, st.integers(0, 20).map(str)), max_size=2)
days = st.builds(
    LedgerDay,
    policy_id=st.just(""),
    date=dates,
    currency=st.sampled_from(["", "EUR", "USD"]),
    source=st.sampled_from(["", "book"]),
    idle_seconds=st.integers(0, 90_000),
    scaled_to_zero_seconds=st.integers(0, 90_000),
    idle_price_seconds=decimals,
    zero_price_seconds=decimals,
    wakes=st.integers(0, 3),
    wake_price_seconds=decimals,
    realised_price_seconds=decimals,
    unpriced_seconds=st.integers(0, 90_000),
)
phases = st.sampled_from(Phase)


class PolicyMachine(RuleBasedStateMachine):
    """Does the same to both and compares: the answer, or the error and its words."""

    lab: StoreLab

    def __init__(self) -> None:
        super().__init__()
        self.cluster = f"policies-{next(NUMBER)}"
        self.opened: list[Store] = []

    @initialize()
    def open(self) -> None:
        model = MemoryStore(self.lab.clock, self.cluster, MemoryDatabase())
        self.opened = [model, self.lab.open(self.cluster), self.lab.open(self.cluster)]
        self.stores = [policies_of(store) for store in self.opened]

    def both(self, call: Callable[[PolicyStore], Any], handle: int = 0) -> Any:
        expected, answer = (self.outcome(call, self.stores[which]) for which in (0, handle + 1))
        assert answer == expected
        return expected

    @staticmethod
    def outcome(call: Callable[[PolicyStore], Any], store: PolicyStore) -> Any:
        try:
            return call(store)
        except EbbtideError as error:
            return type(error), str(error)

    def state(self, number: int) -> IdleState:
        return self.stores[0].find_state(policy_id(number)) or IdleState(policy_id(number), rev=1)

    @rule(number=numbers, name=names, offset=offsets, full=st.booleans(), told=entries, handle=handles)
    def put(self, number: int, name: str, offset: int, full: bool, told: list[LogEntry], handle: int) -> None:
        known = self.stores[0].find_policy(policy_id(number))
        base: Policy = replace(FULL_POLICY, id=policy_id(number)) if full else make_policy(number)
        version = max(0, (known.version if known else 0) + offset)
        policy = replace(base, name=name, version=version)
        self.both(lambda store: store.put_policy(policy, told), handle)

    @rule(chosen=st.sets(numbers), stale=numbers, told=entries, handle=handles)
    def put_many(self, chosen: set[int], stale: int, told: list[LogEntry], handle: int) -> None:
        """Names of their own: they may be written in any order, so none may depend on another."""
        puts = []
        for number in sorted(chosen):
            known = self.stores[0].find_policy(policy_id(number))
            version = (known.version if known else 0) + (number == stale)
            puts.append((replace(make_policy(number, f"many-{number}"), version=version), told))

        def put(store: PolicyStore) -> list[Any]:
            return [
                (type(each), str(each)) if isinstance(each, EbbtideError) else each
                for each in store.put_policies(puts)
            ]

        self.both(put, handle)

    @rule(number=numbers, offset=offsets, told=entries, handle=handles)
    def delete(self, number: int, offset: int, told: list[LogEntry], handle: int) -> None:
        known = self.stores[0].find_policy(policy_id(number))
        version = (known.version if known else 1) + offset
        self.both(lambda store: store.delete_policy(policy_id(number), version, told), handle)

    @rule(
        number=numbers,
        phase=phases,
        offset=offsets,
        added=st.lists(days, max_size=3),
        told=entries,
        handle=handles,
    )
    def write_state(
        self,
        number: int,
        phase: Phase,
        offset: int,
        added: list[LedgerDay],
        told: list[LogEntry],
        handle: int,
    ) -> None:
        known = self.state(number)
        state = replace(full_state(known), phase=phase, rev=known.rev + offset)
        own = [replace(day, policy_id=policy_id(number)) for day in added]
        self.both(lambda store: store.write_state(state, own, told), handle)

    @rule(chosen=st.sets(numbers), phase=phases, stale=numbers, handle=handles)
    def write_states(self, chosen: set[int], phase: Phase, stale: int, handle: int) -> None:
        states = [
            replace(self.state(number), phase=phase, rev=self.state(number).rev - (number == stale))
            for number in sorted(chosen)
        ]
        self.both(lambda store: list(store.write_states(states)), handle)

    @rule(number=numbers, wanted=st.lists(days, max_size=3), handle=handles)
    def replace_days(self, number: int, wanted: list[LedgerDay], handle: int) -> None:
        own = [replace(day, policy_id=policy_id(number)) for day in wanted]
        self.both(lambda store: store.replace_days(policy_id(number), own), handle)

    @rule(number=st.none() | numbers, first=st.just("") | dates, last=st.just("") | dates, handle=handles)
    def list_days(self, number: int | None, first: str, last: str, handle: int) -> None:
        asked = "" if number is None else policy_id(number)
        self.both(lambda store: list(store.list_days(asked, first, last)), handle)

    @rule(after=st.just("") | names, limit=st.integers(0, 4), handle=handles)
    def list_policies(self, after: str, limit: int, handle: int) -> None:
        self.both(lambda store: list(store.list_policies(after, limit)), handle)

    @rule(name=names, number=numbers, handle=handles)
    def find(self, name: str, number: int, handle: int) -> None:
        self.both(lambda store: store.find_policy_named(name), handle)
        self.both(lambda store: store.find_policy(policy_id(number)), handle)
        self.both(lambda store: store.find_state(policy_id(number)), handle)

    @rule(key=names, value=names, until=st.integers(-1, 9), now=st.integers(0, 9), handle=handles)
    def keep_once(self, key: str, value: str, until: int, now: int, handle: int) -> None:
        self.both(lambda store: store.keep_once(key, value, START + until, START + now), handle)

    @rule(handle=handles)
    def list_states(self, handle: int) -> None:
        listed = self.both(lambda store: _by_policy(store.list_states()), handle)
        assert listed.keys() == {policy.id for policy in self.stores[0].list_policies()}

    def teardown(self) -> None:
        if self.opened:
            self.list_states(0)
            self.list_days(None, "", "", 0)
            logs = [list(store.read_log()) for store in self.opened[:2]]
            assert logs[1] == logs[0]
        for store in self.opened:
            store.close()


def _by_policy(states: Sequence[IdleState]) -> dict[str, IdleState]:
    return {state.policy_id: state for state in states}


@pytest.mark.timeout(300)
def test_any_sequence_of_calls_answers_as_the_policies_in_memory_do(lab: StoreLab) -> None:
    run_state_machine_as_test(
        type("Machine", (PolicyMachine,), {"lab": lab}),
        settings=settings(
            max_examples=EXAMPLES,
            stateful_step_count=STEPS,
            deadline=None,
            derandomize=True,
            suppress_health_check=list(HealthCheck),
        ),
    )
