"""Policies in memory: the model that the other stores are checked against, and the simulator's own.

Kept are bodies, never the values that were given, so what the others must be able to serialise is
serialised here too. One lock, that of the database, makes every call atomic together with its log.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ebbtide.adapters.stores.codec.policies import (
    KEYS_OUTLIVE_SECONDS,
    Bodies,
    Key,
    added,
    by_day,
    checked_days,
    day_key,
    day_range,
    first_state,
    next_policy,
    next_state,
    one_for_each,
    policy_body,
    refuse_too_many,
    refuse_twice,
    state_body,
    targets_of,
)
from ebbtide.adapters.stores.guards import (
    NOT_THERE,
    StoredPolicy,
    each_alone,
    key_refusal,
    policy_refusal,
    state_refusal,
    target_refusal,
    version_refusal,
)
from ebbtide.errors import Conflict, EbbtideError
from ebbtide.model.idle import Days, IdleState, LedgerDay, Once
from ebbtide.model.log import Entries, LogEntry
from ebbtide.model.policy import Policy
from ebbtide.ports import PolicyPut

if TYPE_CHECKING:
    from threading import RLock

    from ebbtide.adapters.stores.memory import MemoryStore


class PolicyTables:
    """The policies, states, ledger and keys of one cluster."""

    def __init__(self) -> None:
        self.policies: dict[str, tuple[int, str, str]] = {}
        """By id: version, name and body."""
        self.names: dict[str, str] = {}
        self.states: dict[str, tuple[int, str]] = {}
        self.days: dict[Key, LedgerDay] = {}
        self.once: dict[str, tuple[str, int]] = {}
        self.targets: dict[str, str] = {}
        """The id of the enabled policy that has it."""


class MemoryPolicies:
    def __init__(self, store: MemoryStore, lock: RLock, tables: PolicyTables) -> None:
        self._log = store
        self._lock = lock
        self._tables = tables
        self._policies = Bodies(Policy)
        self._states = Bodies(IdleState)

    def list_policies(self, after: str = "", limit: int = 100) -> Sequence[Policy]:
        with self._lock:
            names = sorted(name for name in self._tables.names if name > after)[:limit]
            bodies = [self._tables.policies[self._tables.names[name]][2] for name in names]
        return self._policies.read_all(bodies)

    def find_policy(self, policy_id: str) -> Policy | None:
        with self._lock:
            found = self._tables.policies.get(policy_id)
        return None if found is None else self._policies.read(found[2])

    def find_policy_named(self, name: str) -> Policy | None:
        with self._lock:
            found = self._tables.names.get(name)
            return None if found is None else self.find_policy(found)

    def put_policy(
        self, policy: Policy, entries: Sequence[LogEntry] = (), state: IdleState | None = None
    ) -> Policy:
        refuse_too_many(entries)
        written = next_policy(policy)
        body = policy_body(written)
        with self._lock:
            refused = policy_refusal(
                policy, self._stored_policy(policy.id), self._tables.names.get(policy.name, "")
            )
            if refused is not None:
                raise refused
            self._refuse_taken(written)
            if state is not None:
                self.write_state(state)
            self._forget_claims(policy.id)
            self._tables.targets |= dict.fromkeys(targets_of(written), policy.id)
            self._tables.policies[policy.id] = (written.version, policy.name, body)
            self._tables.names[policy.name] = policy.id
            if not policy.version:
                first = first_state(policy)
                self._tables.states[policy.id] = (first.rev, state_body(first))
            self._log.append(entries)
        return written

    def put_policies(self, puts: Sequence[PolicyPut]) -> Sequence[Policy | EbbtideError]:
        refuse_twice(policy.id for policy, _ in puts)
        return each_alone(lambda put: self.put_policy(*put), puts)

    def delete_policy(self, policy_id: str, version: int, entries: Sequence[LogEntry] = ()) -> None:
        refuse_too_many(entries)
        with self._lock:
            stored = self._stored_policy(policy_id)
            if stored is NOT_THERE:
                return
            if stored.number != version:
                raise version_refusal(policy_id, version, stored)
            self._forget_claims(policy_id)
            del self._tables.policies[policy_id], self._tables.states[policy_id]
            self._log.append(entries)

    def find_state(self, policy_id: str) -> IdleState | None:
        with self._lock:
            found = self._tables.states.get(policy_id)
        return None if found is None else self._states.read(found[1])

    def list_states(self) -> Sequence[IdleState]:
        with self._lock:
            bodies = [body for _, body in self._tables.states.values()]
        return self._states.read_all(bodies)

    def write_state(
        self, state: IdleState, days: Days = (), entries: Entries = (), once: Once | None = None
    ) -> IdleState:
        refuse_too_many(entries)
        checked = checked_days(state.policy_id, days)
        written = next_state(state)
        body = state_body(written)
        with self._lock:
            rev, _ = self._tables.states.get(state.policy_id, (0, ""))
            if rev == 0 or rev != state.rev:
                raise state_refusal(state, StoredPolicy(rev))
            if once is not None and not self._use_up(once):
                raise key_refusal(once.key)
            self._tables.states[state.policy_id] = (written.rev, body)
            self._add(checked)
            self._log.append(entries)
        return written

    def write_states(self, states: Sequence[IdleState]) -> Sequence[IdleState]:
        written = []
        for state in one_for_each(states):
            try:
                written.append(self.write_state(state))
            except Conflict:
                continue
        return written

    def list_days(self, policy_id: str = "", first: str = "", last: str = "") -> Sequence[LedgerDay]:
        begin, end = day_range(first, last)
        with self._lock:
            found = list(self._tables.days.values())
        return by_day(day for day in found if begin <= day.date <= end and policy_id in ("", day.policy_id))

    def replace_days(self, policy_id: str, days: Sequence[LedgerDay]) -> None:
        checked = checked_days(policy_id, days)
        with self._lock:
            for key in [key for key, day in self._tables.days.items() if day.policy_id == policy_id]:
                del self._tables.days[key]
            self._add(checked)

    def keep_once(self, key: str, value: str, expires_at: int, now: int) -> str:
        with self._lock:
            once = self._tables.once
            for gone in [name for name, (_, until) in once.items() if until < now - KEYS_OUTLIVE_SECONDS]:
                del once[gone]
            if key in once and once[key][1] < now:
                del once[key]
            return once.setdefault(key, (value, expires_at))[0]

    def _use_up(self, once: Once) -> bool:
        held = self._tables.once.get(once.key)
        if held is not None and held[1] >= once.now:
            return False
        self.keep_once(once.key, once.value, once.expires_at, once.now)
        return True

    def _refuse_taken(self, policy: Policy) -> None:
        for target in targets_of(policy):
            holder = self._tables.targets.get(target, policy.id)
            if holder != policy.id and (found := self.find_policy(holder)) is not None:
                raise target_refusal(policy, target, found)

    def _add(self, days: Sequence[LedgerDay]) -> None:
        kept = self._tables.days
        for day in days:
            key = day_key(day)
            kept[key] = added(kept[key], day) if key in kept else day

    def _stored_policy(self, policy_id: str) -> StoredPolicy:
        found = self._tables.policies.get(policy_id)
        return NOT_THERE if found is None else StoredPolicy(found[0])

    def _forget_claims(self, policy_id: str) -> None:
        if policy_id in self._tables.policies:
            del self._tables.names[self._tables.policies[policy_id][1]]
            before = self._policies.read(self._tables.policies[policy_id][2])
            for target in targets_of(before):
                del self._tables.targets[target]
