"""The statements for policies, states and the ledger on SQLite and PostgreSQL, and days of the ledger as
rows.

Moments come and go as whole seconds; the databases keep them as their own kind of time. Many states are
written by one statement that takes its rows as one JSON text, which both databases know how to unfold.

Days of the ledger as rows of `scaling_cost_savings`. Sums are made here and not by the database, because
SQLite's own numbers are not exact; the row is locked meanwhile. What the specification has in cents is
derived from the exact numbers with every write.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ClauseElement, ColumnElement

from ebbtide.adapters.stores.codec.policies import Row, added, hourly_cost_cents, savings_cents
from ebbtide.adapters.stores.sql.engine import Lent, Statement, compiled
from ebbtide.adapters.stores.sql.schema import cost_savings, idle_state, log, once, policies, targets
from ebbtide.model.idle import LedgerDay

AMOUNTS = (
    "source",
    "idle_seconds",
    "scaled_to_zero_seconds",
    "idle_price_seconds",
    "zero_price_seconds",
    "wakes",
    "wake_price_seconds",
    "realised_price_seconds",
    "unpriced_seconds",
)
"""Of a day of the ledger, in the order in which they are read."""
_DERIVED = ("estimated_savings_cents", "hourly_cost_cents")
_MONEY = frozenset(name for name in AMOUNTS if name.endswith("price_seconds"))
_STATE_COLUMNS = (
    "last_activity_at",
    "idle_since",
    "scaled_to_zero_at",
    "last_wake_at",
    "wake_reason",
    "is_scaled_to_zero",
)
_MOMENTS = frozenset({"created_at", "updated_at", *_STATE_COLUMNS[:4]})
_ISO = "%Y-%m-%dT%H:%M:%SZ"
_cluster: sa.BindParameter[str] = bindparam("cluster")


class PolicyStatements:
    def __init__(self, dialect: Dialect) -> None:
        self._dialect = dialect
        self._on_postgres = dialect.name == "postgresql"
        self._insert: Any = postgresql.insert if self._on_postgres else sqlite.insert
        self._of_policies()
        self._of_states()
        self._of_ledger()
        self._of_keys()
        self._of_targets()
        self.append = self._compiled(
            self._insert(log)
            .values({column.name: bindparam(column.name) for column in log.c})
            .on_conflict_do_nothing()
        )

    def _of_policies(self) -> None:
        c = policies.c
        by_id = (c.cluster == _cluster, c.id == bindparam("policy_id"))
        body = sa.select(sa.cast(c.body, sa.Text))
        self.list_policies = self._compiled(
            body.where(c.cluster == _cluster, c.name > bindparam("after"))
            .order_by(c.name)
            .limit(bindparam("limit", type_=sa.BigInteger))
        )
        self.find_policy = self._compiled(body.where(*by_id))
        self.find_policy_named = self._compiled(
            body.where(c.cluster == _cluster, c.name == bindparam("name"))
        )
        self.insert_policy = self._compiled(
            self._insert(policies)
            .values(cluster=_cluster, id=bindparam("policy_id"), **self._given(policies))
            .on_conflict_do_nothing()
        )
        at_version = c.version == bindparam("expected", type_=sa.BigInteger)
        other = policies.alias("other")
        name_is_free = ~sa.exists().where(
            other.c.cluster == _cluster,
            other.c.name == bindparam("name"),
            other.c.id != bindparam("policy_id"),
        )
        self.update_policy = self._compiled(
            sa.update(policies).where(*by_id, at_version, name_is_free).values(**self._given(policies))
        )
        self.delete_policy = self._compiled(sa.delete(policies).where(*by_id, at_version))
        self.stored_policy = self._compiled(sa.select(c.version, c.nonce).where(*by_id))
        self.holder_of_name = self._compiled(
            sa.select(sa.cast(c.id, sa.Text)).where(c.cluster == _cluster, c.name == bindparam("name"))
        )

    def _of_states(self) -> None:
        c = idle_state.c
        by_policy = (c.cluster == _cluster, c.policy_id == bindparam("policy_id"))
        self.find_state = self._compiled(sa.select(sa.cast(c.body, sa.Text)).where(*by_policy))
        self.list_states = self._compiled(sa.select(sa.cast(c.body, sa.Text)).where(c.cluster == _cluster))
        given = self._given(idle_state)
        self.insert_state = self._compiled(
            self._insert(idle_state).values(
                id=bindparam("row_id"), cluster=_cluster, policy_id=bindparam("policy_id"), **given
            )
        )
        changed = {name: value for name, value in given.items() if name != "created_at"}
        changed["updated_at"] = self._now()
        self.update_state = self._compiled(
            sa.update(idle_state)
            .where(*by_policy, c.rev == bindparam("expected", type_=sa.BigInteger))
            .values(**changed)
        )
        self.delete_state = self._compiled(sa.delete(idle_state).where(*by_policy))
        self.stored_state = self._compiled(sa.select(c.rev, c.nonce).where(*by_policy))
        self.lock_state = self._compiled(sa.select(c.rev).where(*by_policy).with_for_update())
        self.states_of_write = self._compiled(
            sa.select(sa.cast(c.policy_id, sa.Text)).where(
                c.cluster == _cluster, c.nonce == bindparam("nonce")
            )
        )
        self.lock_states = self._text(
            "SELECT count(*) FROM (SELECT 1 FROM scaling_idle_state WHERE cluster = :cluster "
            "AND policy_id = ANY(CAST(:ids AS uuid[])) ORDER BY policy_id FOR UPDATE) AS locked"
            if self._on_postgres
            else "SELECT 0"
        )
        self.update_states = self._text(
            _UPDATE_STATES_POSTGRES if self._on_postgres else _UPDATE_STATES_SQLITE
        )

    def _of_ledger(self) -> None:
        c = cost_savings.c
        read = [c[name] if name not in _MONEY else sa.cast(c[name], sa.Text) for name in AMOUNTS]
        asked = (
            sa.select(sa.cast(c.policy_id, sa.Text), sa.cast(c.date, sa.Text), c.currency, *read)
            .where(c.cluster == _cluster, c.date >= bindparam("first"), c.date <= bindparam("last"))
            .order_by(c.date, c.policy_id, c.currency)
        )
        self.list_days = self._compiled(asked)
        self.list_days_of = self._compiled(asked.where(c.policy_id == bindparam("policy_id")))
        self.delete_days = self._compiled(
            sa.delete(cost_savings).where(c.cluster == _cluster, c.policy_id == bindparam("policy_id"))
        )
        amounts: dict[str, Any] = {name: bindparam(name) for name in (*AMOUNTS, *_DERIVED)}
        self.open_day = self._compiled(
            self._insert(cost_savings)
            .values(
                id=bindparam("row_id"),
                cluster=_cluster,
                **{name: bindparam(name) for name in ("policy_id", "date", "currency")},
                **amounts,
                created_at=self._now(),
                updated_at=self._now(),
            )
            .on_conflict_do_update(
                index_elements=[c.cluster, c.policy_id, c.date, c.currency], set_={"updated_at": self._now()}
            )
            .returning(sa.cast(c.id, sa.Text), *read)
        )
        self.set_day = self._compiled(
            sa.update(cost_savings).where(c.id == bindparam("found_id")).values(**amounts)
        )

    def _of_keys(self) -> None:
        c = once.c
        now = bindparam("now", type_=sa.BigInteger)
        value, until = bindparam("value", type_=sa.Text), bindparam("expires_at", type_=sa.BigInteger)
        self.keep_once = self._compiled(
            self._insert(once)
            .values(cluster=_cluster, key=bindparam("key"), value=value, expires_at=until)
            .on_conflict_do_update(
                index_elements=[c.cluster, c.key],
                set_={"value": value, "expires_at": until},
                where=c.expires_at < now,
            )
            .returning(c.value)
        )
        self.find_once = self._compiled(
            sa.select(c.value).where(c.cluster == _cluster, c.key == bindparam("key"))
        )
        long_ago = bindparam("long_ago", type_=sa.BigInteger)
        self.forget_once = self._compiled(
            sa.delete(once).where(c.cluster == _cluster, c.expires_at < long_ago)
        )

    def _of_targets(self) -> None:
        c = targets.c
        policy_id: sa.BindParameter[str] = bindparam("policy_id")
        of_policy = (c.cluster == _cluster, c.policy_id == policy_id)
        by_target = (c.cluster == _cluster, c.target == bindparam("target"))
        self.targets_of = self._compiled(sa.select(c.target).where(*of_policy))
        self.release_targets = self._compiled(sa.delete(targets).where(*of_policy))
        self.release_target = self._compiled(sa.delete(targets).where(*of_policy, *by_target))
        self.claim_target = self._compiled(
            self._insert(targets)
            .values(cluster=_cluster, target=bindparam("target"), policy_id=policy_id)
            .on_conflict_do_update(
                # Crash table: target-claimed. Changes nothing, but locks the row and returns its owner.
                index_elements=[c.cluster, c.target],
                set_={"target": c.target},
            )
            .returning(sa.cast(c.policy_id, sa.Text))
        )
        self.take_target = self._compiled(sa.update(targets).where(*by_target).values(policy_id=policy_id))

    def _given(self, table: sa.Table) -> dict[str, Any]:
        """A parameter for each column that comes with every write."""
        keys = {"id", "cluster", "policy_id"}
        return {
            column.name: self._moment(column.name) if column.name in _MOMENTS else bindparam(column.name)
            for column in table.c
            if column.name not in keys
        }

    def _moment(self, name: str) -> ColumnElement[Any]:
        seconds = bindparam(name, type_=sa.BigInteger)
        return func.to_timestamp(seconds) if self._on_postgres else func.strftime(_ISO, seconds, "unixepoch")

    def _now(self) -> ColumnElement[Any]:
        return func.now() if self._on_postgres else func.strftime(_ISO, "now")

    def _compiled(self, built: ClauseElement) -> Statement:
        return compiled(built, self._dialect)

    def _text(self, words: str) -> Statement:
        return compiled(sa.text(words), self._dialect)


_UPDATE_STATES_POSTGRES = """
UPDATE scaling_idle_state AS s
SET rev = s.rev + 1, nonce = :nonce, body = CAST(v.body AS json), updated_at = now(),
    last_activity_at = to_timestamp(v.last_activity_at), idle_since = to_timestamp(v.idle_since),
    scaled_to_zero_at = to_timestamp(v.scaled_to_zero_at), last_wake_at = to_timestamp(v.last_wake_at),
    wake_reason = v.wake_reason, is_scaled_to_zero = v.is_scaled_to_zero
FROM json_to_recordset(CAST(:rows AS json)) AS v(
    policy_id uuid, expected bigint, last_activity_at bigint, idle_since bigint, scaled_to_zero_at bigint,
    last_wake_at bigint, wake_reason text, is_scaled_to_zero boolean, body text)
WHERE s.cluster = :cluster AND s.policy_id = v.policy_id AND s.rev = v.expected
RETURNING CAST(s.policy_id AS text)
"""

_UPDATE_STATES_SQLITE = f"""
WITH v AS MATERIALIZED (
    SELECT json_extract(value, '$.policy_id') AS policy_id, json_extract(value, '$.expected') AS expected,
        strftime('{_ISO}', json_extract(value, '$.last_activity_at'), 'unixepoch') AS last_activity_at,
        strftime('{_ISO}', json_extract(value, '$.idle_since'), 'unixepoch') AS idle_since,
        strftime('{_ISO}', json_extract(value, '$.scaled_to_zero_at'), 'unixepoch') AS scaled_to_zero_at,
        strftime('{_ISO}', json_extract(value, '$.last_wake_at'), 'unixepoch') AS last_wake_at,
        json_extract(value, '$.wake_reason') AS wake_reason,
        json_extract(value, '$.is_scaled_to_zero') AS is_scaled_to_zero,
        json_extract(value, '$.body') AS body
    FROM json_each(:rows))
UPDATE scaling_idle_state
SET rev = rev + 1, nonce = :nonce, body = v.body, updated_at = strftime('{_ISO}', 'now'),
    last_activity_at = v.last_activity_at, idle_since = v.idle_since,
    scaled_to_zero_at = v.scaled_to_zero_at, last_wake_at = v.last_wake_at,
    wake_reason = v.wake_reason, is_scaled_to_zero = v.is_scaled_to_zero
FROM v
WHERE scaling_idle_state.cluster = :cluster AND scaling_idle_state.policy_id = v.policy_id
    AND scaling_idle_state.rev = v.expected
RETURNING policy_id
"""


def add_day(lent: Lent, sql: PolicyStatements, cluster: str, day: LedgerDay) -> None:
    """A new row as it is; one that was there is locked by the attempt, and gets the sum."""
    row_id = str(uuid.uuid4())
    values = {"cluster": cluster, "row_id": row_id, **_values(day)}
    found_id, *amounts = lent.run(sql.open_day, values).fetchone()
    if found_id != row_id:
        together = added(read_day((day.policy_id, day.date, day.currency, *amounts)), day)
        lent.run(sql.set_day, {"found_id": found_id, **_values(together)})


def read_day(row: Sequence[Any]) -> LedgerDay:
    policy_id, date, currency, *amounts = row
    named: Row = {
        name: Decimal(value) if name.endswith("price_seconds") else value
        for name, value in zip(AMOUNTS, amounts, strict=True)
    }
    return LedgerDay(policy_id, date, currency, **named)


def _values(day: LedgerDay) -> Row:
    amounts = {name: getattr(day, name) for name in AMOUNTS}
    return {
        "policy_id": day.policy_id,
        "date": day.date,
        "currency": day.currency,
        **{name: str(value) if isinstance(value, Decimal) else value for name, value in amounts.items()},
        "estimated_savings_cents": savings_cents(day),
        "hourly_cost_cents": hourly_cost_cents(day),
    }
