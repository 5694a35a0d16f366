"""Policies, states and ledger on SQLite and PostgreSQL, over the connections of the store they stand next to.

Every change is one conditional statement, or one transaction of it with its days and log entries. The state
is written first and so locks out every other writer of its ledger. A nonce in each row tells our own write
from somebody else's after a lost reply.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import msgspec

from ebbtide.adapters.stores.codec.policies import (
    KEYS_OUTLIVE_SECONDS,
    Bodies,
    Row,
    checked_days,
    day_range,
    is_policy_id,
    next_state,
    one_for_each,
    refuse_too_many,
)
from ebbtide.adapters.stores.codec.record import log_rows
from ebbtide.adapters.stores.guards import (
    NOT_THERE,
    PolicyAttempt,
    StoredPolicy,
    key_refusal,
    repeat,
    state_refusal,
    version_refusal,
)
from ebbtide.adapters.stores.sql.engine import Driver, Lent, Statement
from ebbtide.adapters.stores.sql.policy_puts import PolicyPuts, RowRefused, demand_one_row, state_values
from ebbtide.adapters.stores.sql.policy_statements import PolicyStatements, add_day, read_day
from ebbtide.errors import EbbtideError, Retryable, StoreUnusable
from ebbtide.model.idle import Days, IdleState, LedgerDay, Once
from ebbtide.model.log import Entries, LogEntry
from ebbtide.model.policy import Policy
from ebbtide.ports import Clock, PolicyPut

STATES_IN_TRANSACTION = 1000
"""More would keep a wake of one of them waiting for long."""
T = TypeVar("T")


class SqlPolicies:
    def __init__(self, driver: Driver, clock: Clock, cluster: str = "cluster") -> None:
        self._clock = clock
        self._cluster = cluster
        self._driver = driver
        self._sql = PolicyStatements(driver.dialect)
        self._puts = PolicyPuts(driver, self._sql, clock, cluster)
        self._policies = Bodies(Policy)
        self._states = Bodies(IdleState)

    def list_policies(self, after: str = "", limit: int = 100) -> Sequence[Policy]:
        rows = self._rows(self._sql.list_policies, after=after, limit=limit)
        return self._policies.read_all([body for (body,) in rows])

    def find_policy(self, policy_id: str) -> Policy | None:
        if not is_policy_id(policy_id):
            return None
        rows = self._rows(self._sql.find_policy, policy_id=policy_id)
        return self._policies.read(rows[0][0]) if rows else None

    def find_policy_named(self, name: str) -> Policy | None:
        if "\0" in name:
            return None
        rows = self._rows(self._sql.find_policy_named, name=name)
        return self._policies.read(rows[0][0]) if rows else None

    def put_policy(
        self, policy: Policy, entries: Sequence[LogEntry] = (), state: IdleState | None = None
    ) -> Policy:
        return self._puts.put(policy, entries, state)

    def put_policies(self, puts: Sequence[PolicyPut]) -> Sequence[Policy | EbbtideError]:
        return self._puts.put_all(puts)

    def delete_policy(self, policy_id: str, version: int, entries: Sequence[LogEntry] = ()) -> None:
        refuse_too_many(entries)
        if not is_policy_id(policy_id):
            return
        values, log = self._values(policy_id=policy_id, expected=version), log_rows(self._cluster, entries)

        def write(lent: Lent) -> None:
            demand_one_row(lent.run(self._sql.delete_policy, values))
            lent.run(self._sql.delete_state, values)
            lent.run(self._sql.release_targets, values)
            self._append(lent, log)

        def delete(_: bool) -> None:
            try:
                self._driver.ask_as_one(write)
            except RowRefused:
                stored = self._stored(self._sql.stored_policy, policy_id)
                if stored is not NOT_THERE:
                    raise version_refusal(policy_id, version, stored) from None

        repeat(self._clock, delete)

    def find_state(self, policy_id: str) -> IdleState | None:
        if not is_policy_id(policy_id):
            return None
        rows = self._rows(self._sql.find_state, policy_id=policy_id)
        return self._states.read(rows[0][0]) if rows else None

    def list_states(self) -> Sequence[IdleState]:
        return self._states.read_all([body for (body,) in self._rows(self._sql.list_states)])

    def write_state(
        self, state: IdleState, days: Days = (), entries: Entries = (), once: Once | None = None
    ) -> IdleState:
        refuse_too_many(entries)
        checked, log = checked_days(state.policy_id, days), log_rows(self._cluster, entries)
        written = next_state(state)
        nonce = uuid.uuid4().hex
        values = self._values(rev=written.rev, nonce=nonce) | state_values(state, written)

        def write(reply_lost: bool) -> IdleState:
            try:
                self._write_once(values, checked, log, once)
            except RowRefused:
                stored = self._stored(self._sql.stored_state, state.policy_id)
                what = f"the state of policy {state.policy_id}"
                if not PolicyAttempt(nonce, reply_lost).was_carried_out(stored, state.rev, what):
                    raise state_refusal(state, stored) from None
            return written

        if not is_policy_id(state.policy_id):
            raise state_refusal(state, NOT_THERE)
        return repeat(self._clock, write)

    def write_states(self, states: Sequence[IdleState]) -> Sequence[IdleState]:
        known = [state for state in one_for_each(states) if is_policy_id(state.policy_id)]
        written: list[IdleState] = []
        for start in range(0, len(known), STATES_IN_TRANSACTION):
            try:
                written += self._write_many(known[start : start + STATES_IN_TRANSACTION])
            except (Retryable, StoreUnusable):
                if not written:
                    raise
                break
        return written

    def list_days(self, policy_id: str = "", first: str = "", last: str = "") -> Sequence[LedgerDay]:
        begin, end = day_range(first, last)
        if policy_id and not is_policy_id(policy_id):
            return []
        asked = self._sql.list_days_of if policy_id else self._sql.list_days
        rows = self._rows(asked, policy_id=policy_id, first=begin, last=end)
        return [read_day(row) for row in rows]

    def replace_days(self, policy_id: str, days: Sequence[LedgerDay]) -> None:
        checked = checked_days(policy_id, days)
        if not is_policy_id(policy_id):
            return
        values = self._values(policy_id=policy_id)

        def write(lent: Lent) -> None:
            lent.run(self._sql.lock_state, values).fetchall()
            lent.run(self._sql.delete_days, values)
            for day in checked:
                add_day(lent, self._sql, self._cluster, day)

        repeat(self._clock, lambda _: self._driver.ask_as_one(write))

    def keep_once(self, key: str, value: str, expires_at: int, now: int) -> str:
        values = self._values(key=key, value=value, expires_at=expires_at, now=now)
        values["long_ago"] = now - KEYS_OUTLIVE_SECONDS

        def keep(lent: Lent) -> str:
            lent.run(self._sql.forget_once, values)
            while True:
                for statement in (self._sql.keep_once, self._sql.find_once):
                    if found := lent.run(statement, values).fetchone():
                        return str(found[0])

        return self._ask(keep)

    def _write_once(
        self, values: Row, days: Sequence[LedgerDay], log: Sequence[Row], once: Once | None
    ) -> None:
        def write(lent: Lent) -> None:
            demand_one_row(lent.run(self._sql.update_state, values))
            if once is not None:
                self._use_up(lent, once)
            for day in days:
                add_day(lent, self._sql, self._cluster, day)
            self._append(lent, log)

        if days or log or once is not None:
            self._driver.ask_as_one(write)
        else:
            self._driver.ask(write)

    def _use_up(self, lent: Lent, once: Once) -> None:
        key = self._values(key=once.key, value=once.value, expires_at=once.expires_at, now=once.now)
        if lent.run(self._sql.keep_once, key).fetchone() is None:
            raise key_refusal(once.key)

    def _write_many(self, states: Sequence[IdleState]) -> list[IdleState]:
        after = {state.policy_id: next_state(state) for state in states}
        rows = [state_values(state, after[state.policy_id]) for state in states]
        values = self._values(nonce=uuid.uuid4().hex, rows=msgspec.json.encode(rows).decode())
        values["ids"] = f"{{{','.join(after)}}}"

        def write(lent: Lent, reply_lost: bool) -> list[tuple[str]]:
            lent.run(self._sql.lock_states, values).fetchall()
            done: list[tuple[str]] = lent.run(self._sql.update_states, values).fetchall()
            if reply_lost:
                done += lent.run(self._sql.states_of_write, values).fetchall()
            return done

        done = repeat(self._clock, lambda lost: self._driver.ask_as_one(lambda lent: write(lent, lost)))
        written = {policy_id for (policy_id,) in done}
        return [state for policy_id, state in after.items() if policy_id in written]

    def _append(self, lent: Lent, rows: Sequence[Row]) -> None:
        if rows:
            lent.run_each(self._sql.append, rows)

    def _stored(self, statement: Statement, policy_id: str) -> StoredPolicy:
        rows = self._rows(statement, policy_id=policy_id)
        return StoredPolicy(*rows[0]) if rows else NOT_THERE

    def _values(self, **values: Any) -> Row:
        return {"cluster": self._cluster, **values}

    def _rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        return self._ask(lambda lent: list(lent.run(statement, self._values(**values)).fetchall()))

    def _ask(self, question: Callable[[Lent], T]) -> T:
        return repeat(self._clock, lambda _: self._driver.ask(question))
