"""Writing policies on SQLite and PostgreSQL: one, or many in one transaction.

A commit waits for the disk, so a thousand new policies take seconds one by one, and little more than ten
commits a hundred at a time. Each keeps its own conditions, and its own nonce for a reply that was lost.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ebbtide.adapters.stores.codec.policies import (
    Bodies,
    Row,
    first_state,
    next_policy,
    next_state,
    policy_body,
    policy_columns,
    refuse_too_many,
    refuse_twice,
    state_body,
    state_columns,
    targets_of,
)
from ebbtide.adapters.stores.codec.record import log_rows
from ebbtide.adapters.stores.guards import (
    NOT_THERE,
    PolicyAttempt,
    StoredPolicy,
    changed_meanwhile,
    each_alone,
    is_refusal,
    policy_refusal,
    repeat,
    target_refusal,
)
from ebbtide.adapters.stores.sql.engine import Driver, Lent, Statement
from ebbtide.adapters.stores.sql.policy_statements import PolicyStatements
from ebbtide.errors import Conflict, EbbtideError, StoreUnusable, Unanswered
from ebbtide.model.idle import IdleState
from ebbtide.model.log import Entries
from ebbtide.model.policy import Policy
from ebbtide.ports import Clock, PolicyPut

POLICIES_IN_TRANSACTION = 100
_NAME_WAS_TAKEN = "23505"


class RowRefused(Conflict):
    """The condition of a write did not hold; the transaction is rolled back."""


@dataclass(frozen=True, slots=True)
class _Put:
    """A policy on its way, as the statements take it."""

    policy: Policy
    written: Policy
    nonce: str
    values: Row
    log: Sequence[Row]
    state: IdleState | None = None


class PolicyPuts:
    def __init__(self, driver: Driver, sql: PolicyStatements, clock: Clock, cluster: str) -> None:
        self._driver = driver
        self._sql = sql
        self._clock = clock
        self._cluster = cluster

    def put(self, policy: Policy, entries: Entries, state: IdleState | None) -> Policy:
        return self._put(self._prepared(policy, entries, state))

    def put_all(self, puts: Sequence[PolicyPut]) -> list[Policy | EbbtideError]:
        refuse_twice(policy.id for policy, _ in puts)
        found: list[Policy | EbbtideError] = []
        while len(found) < len(puts):
            found += self._put_together(puts[len(found) : len(found) + POLICIES_IN_TRANSACTION])
            last = found[-1]
            if isinstance(last, EbbtideError) and not is_refusal(last):
                found += [last] * (len(puts) - len(found))
        return found

    def _prepared(self, policy: Policy, entries: Entries, state: IdleState | None = None) -> _Put:
        refuse_too_many(entries)
        written = next_policy(policy)
        nonce = uuid.uuid4().hex
        values = self._values(policy_id=policy.id, expected=policy.version, nonce=nonce)
        values |= policy_columns(written) | {"body": policy_body(written)}
        return _Put(policy, written, nonce, values, log_rows(self._cluster, entries), state)

    def _put(self, put: _Put, lost: Unanswered | None = None) -> Policy:
        def write(reply_lost: bool) -> Policy:
            try:
                self._driver.ask_as_one(lambda lent: self._write_policy(lent, put))
            except (RowRefused, StoreUnusable) as refused:
                if not _is_refusal(refused):
                    raise
                self._settle_policy(put.policy, PolicyAttempt(put.nonce, reply_lost))
            return put.written

        return repeat(self._clock, write, lost)

    def _put_together(self, puts: Sequence[PolicyPut]) -> list[Policy | EbbtideError]:
        """In one transaction; where any of them is refused, or the reply is lost, each on its own. The nonces
        stay the same, so what was carried out before the reply was lost is recognised."""
        prepared: dict[str, _Put] = {}
        lost: Unanswered | None = None

        def alone(each: PolicyPut) -> Policy:
            policy, entries = each
            return self._put(prepared.get(policy.id) or self._prepared(policy, entries), lost)

        def all_of_them(lent: Lent) -> None:
            for put in prepared.values():
                self._write_policy(lent, put)

        try:
            prepared |= {policy.id: self._prepared(policy, entries) for policy, entries in puts}
            self._driver.ask_as_one(all_of_them)
        except EbbtideError as error:
            lost = error if isinstance(error, Unanswered) else None
            return each_alone(alone, puts)
        return [put.written for put in prepared.values()]

    def _write_policy(self, lent: Lent, put: _Put) -> None:
        policy, state = put.policy, put.state
        statement = self._sql.update_policy if policy.version else self._sql.insert_policy
        demand_one_row(lent.run(statement, put.values))
        claim_targets(lent, self._sql, self._cluster, put.written)
        if not policy.version:
            lent.run(self._sql.insert_state, self._first_state(policy, put.nonce))
        elif state is not None:
            after = next_state(state)
            changed = self._values(rev=after.rev, nonce=put.nonce) | state_values(state, after)
            demand_one_row(lent.run(self._sql.update_state, changed))
        if put.log:
            lent.run_each(self._sql.append, put.log)

    def _settle_policy(self, policy: Policy, attempt: PolicyAttempt) -> None:
        """Say why it was refused; return when it was not, but is our own of which the reply was lost."""
        rows = self._rows(self._sql.stored_policy, policy_id=policy.id)
        stored = StoredPolicy(*rows[0]) if rows else NOT_THERE
        if attempt.was_carried_out(stored, policy.version, f"policy {policy.name!r}"):
            return
        holder = self._rows(self._sql.holder_of_name, name=policy.name)
        raise policy_refusal(policy, stored, holder[0][0] if holder else "") or changed_meanwhile(
            f"policy {policy.name!r}"
        )

    def _first_state(self, policy: Policy, nonce: str) -> Row:
        first = first_state(policy)
        known = policy_columns(policy)
        values = self._values(policy_id=policy.id, row_id=str(uuid.uuid4()), rev=first.rev, nonce=nonce)
        moments = {"created_at": known["created_at"], "updated_at": known["created_at"]}
        return values | moments | state_columns(first) | {"body": state_body(first)}

    def _rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        def ask(lent: Lent) -> list[tuple[Any, ...]]:
            return list(lent.run(statement, self._values(**values)).fetchall())

        return repeat(self._clock, lambda _: self._driver.ask(ask))

    def _values(self, **values: Any) -> Row:
        return {"cluster": self._cluster, **values}


def state_values(state: IdleState, written: IdleState) -> Row:
    body = state_body(written)
    return {"policy_id": state.policy_id, "expected": state.rev, **state_columns(state), "body": body}


def _is_refusal(error: Exception) -> bool:
    """A name that another took between our look and our write is refused by its index."""
    return isinstance(error, RowRefused) or getattr(error.__cause__, "sqlstate", "") == _NAME_WAS_TAKEN


def demand_one_row(changed: Any) -> None:
    if changed.rowcount != 1:
        raise RowRefused


def claim_targets(lent: Lent, sql: PolicyStatements, cluster: str, policy: Policy) -> None:
    """Write which enabled policy has which target, in the transaction that writes the policy: of two writers
    one is refused. In the order of their names, so two transactions never wait for each other."""
    values = {"cluster": cluster, "policy_id": policy.id}
    wanted = set(targets_of(policy))
    held = {target for (target,) in lent.run(sql.targets_of, values).fetchall()}
    for target in sorted(held | wanted):
        one = {**values, "target": target}
        if target not in wanted:
            lent.run(sql.release_target, one)
            continue
        (holder,) = lent.run(sql.claim_target, one).fetchone()
        if holder == policy.id:
            continue
        found = lent.run(sql.find_policy, {"cluster": cluster, "policy_id": holder}).fetchone()
        other = Bodies(Policy).read(found[0]) if found else None
        # A version that does not know of claims may have disabled, moved or deleted the holder since.
        if other is not None and target in targets_of(other):
            raise target_refusal(policy, target, other)
        lent.run(sql.take_target, one)
