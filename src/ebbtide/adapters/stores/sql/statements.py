"""The statements of the SQL store: each carries its conditions to where the data is.

`now` is the server's time on PostgreSQL, so runners whose clocks differ agree on when a lease ends;
on SQLite, where all runners share one machine, it is the caller's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy import bindparam, func
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import Dialect
from sqlalchemy.sql import ClauseElement, ColumnElement

from ebbtide.adapters.stores.codec.record import KEPT_FOR_GOOD, LARGE_KINDS, LOCKS
from ebbtide.adapters.stores.guards import LEASES_OUTLIVE_SECONDS
from ebbtide.adapters.stores.sql.engine import Statement, compiled
from ebbtide.adapters.stores.sql.schema import log, state
from ebbtide.model.log import LogKind

_c = state.c
BETWEEN, ESCAPE = " ", "!"
"""Between the ids of both lanes in `action_id`; a single id stands alone, as it always has."""


def action_column(launching: str, removing: str) -> dict[str, str]:
    """What the column becomes, and what it may have been: free, the same, or with a lane more (`kept`). In
    no lane one operation is swapped for another."""
    both = BETWEEN.join(name for name in (launching, removing) if name)
    kept = "%" if not both else ""
    if launching and not removing:
        kept = f"{_literally(launching)}{BETWEEN}%"
    elif removing and not launching:
        kept = f"%{BETWEEN}{_literally(removing)}"
    return {"in_progress": both, "launching": launching, "removing": removing, "kept": kept}


def _literally(text: str) -> str:
    for special in (ESCAPE, "%", "_"):
        text = text.replace(special, ESCAPE + special)
    return text


class StateRow(NamedTuple):
    """An item as `load` finds it; the body is JSON text."""

    rev: int
    lock_owner: str
    lock_until_epoch: int
    lock_token: int
    action_id: str
    nonce: str
    body: str | None


class LogRow(NamedTuple):
    id: str
    at: int
    kind: str
    subject: str
    says: str
    data: bytes | None
    """Not asked for where it is None."""


class Statements:
    def __init__(self, dialect: Dialect) -> None:
        on_postgres = dialect.name == "postgresql"
        self._dialect = dialect
        self._insert: Any = postgresql.insert if on_postgres else sqlite.insert
        self._now: ColumnElement[int] = (
            sa.cast(func.floor(func.extract("epoch", func.clock_timestamp())), sa.BigInteger)
            if on_postgres
            else bindparam("now", type_=sa.BigInteger)
        )
        self.take = self._compiled(self._take())
        self.take_over = self._compiled(
            sa.update(state)
            .where(
                _c.pk == bindparam("key"),
                _c.lock_owner == bindparam("held_owner", type_=sa.Text),
                _c.lock_token == bindparam("held_token", type_=sa.BigInteger),
                _c.lock_until_epoch == bindparam("held_until", type_=sa.BigInteger),
            )
            .values(
                lock_owner=bindparam("owner", type_=sa.Text),
                lock_until_epoch=self._now + bindparam("ttl", type_=sa.BigInteger),
                lock_token=_c.lock_token + 1,
            )
            .returning(_c.lock_token, _c.lock_until_epoch)
        )
        self.renew = self._compiled(
            sa.update(state)
            .where(_c.pk == bindparam("key"), *self._held())
            .values(lock_until_epoch=self._now + bindparam("ttl", type_=sa.BigInteger))
            .returning(_c.lock_until_epoch)
        )
        self.release = self._compiled(
            sa.update(state)
            .where(_c.pk == bindparam("key"), *_ours())
            .values(lock_owner="", lock_until_epoch=bindparam("until"))
        )
        self.make_item = self._compiled(
            self._insert(state).values(pk=bindparam("key")).on_conflict_do_nothing()
        )
        self.write = self._compiled(self._write())
        self.write_guarded = self._compiled(self._write().where(*self._held()))
        self.lock_guard = self._compiled(
            sa.select(_c.pk).where(_c.pk == bindparam("lock_key"), *self._held()).with_for_update()
        )
        self.append = self._compiled(
            self._insert(log)
            .values({column.name: bindparam(column.name) for column in log.c})
            .on_conflict_do_nothing()
        )
        self.load = self._compiled(
            sa.select(
                *(sa.cast(_c[name], sa.Text) if name == "body" else _c[name] for name in StateRow._fields)
            ).where(_c.pk == bindparam("key"))
        )
        self.prune_log = self._compiled(_prune_log())
        self.prune_leases = self._compiled(
            sa.delete(state).where(
                _c.pk.startswith(LOCKS, autoescape=True),
                _c.lock_until_epoch > 0,
                _c.lock_until_epoch < self._now - LEASES_OUTLIVE_SECONDS,
            )
        )
        self.time = self._compiled(sa.select(self._now))
        self.find_entry = self._compiled(_entries().where(log.c.id == bindparam("entry_id")))

    def newest_entries(self, kinds: Collection[LogKind], subject: str, before: str, brief: bool) -> Statement:
        """Each part walks one index from its newest end: a long log costs no more than a short one."""
        limit = bindparam("limit", type_=sa.BigInteger)
        newest = _entries(brief).order_by(log.c.id.desc()).limit(limit)
        if before:
            newest = newest.where(log.c.id < bindparam("before"))
        is_kind = [log.c.kind == str(kind) for kind in sorted(set(kinds))]
        if subject:
            newest = newest.where(log.c.subject == bindparam("subject"))
            return self._compiled(newest.where(sa.or_(*is_kind)) if kinds else newest)
        if not kinds:
            return self._compiled(newest)
        parts = [sa.select(newest.where(condition).subquery()) for condition in is_kind]
        return self._compiled(sa.union_all(*parts).order_by(sa.desc("id")).limit(limit))

    def _compiled(self, built: ClauseElement) -> Statement:
        return compiled(built, self._dialect)

    def _take(self) -> ClauseElement:
        owner = bindparam("owner", type_=sa.Text)
        until = self._now + bindparam("ttl", type_=sa.BigInteger)
        values = {"pk": bindparam("key"), "lock_owner": owner, "lock_until_epoch": until, "lock_token": 1}
        taken: ClauseElement = (
            self._insert(state)
            .values(values)
            .on_conflict_do_update(
                index_elements=[_c.pk],
                set_={
                    "lock_owner": owner,
                    "lock_until_epoch": until,
                    "lock_token": _c.lock_token + sa.case((_c.lock_owner == owner, 0), else_=1),
                },
                where=sa.or_(_c.lock_owner == "", _c.lock_owner == owner, _c.lock_until_epoch < self._now),
            )
            .returning(_c.lock_token, _c.lock_until_epoch)
        )
        return taken

    def _write(self) -> sa.Update:
        names = ("in_progress", "launching", "removing")
        in_progress, *lanes = (bindparam(name, type_=sa.Text) for name in names)
        kept = _c.action_id.like(bindparam("kept", type_=sa.Text), escape=ESCAPE)
        return (
            sa.update(state)
            .where(
                _c.pk == bindparam("key"),
                _c.rev == bindparam("expected_rev", type_=sa.BigInteger),
                sa.or_(*(_c.action_id == name for name in ("", in_progress, *lanes)), kept),
            )
            .values(
                rev=_c.rev + 1,
                action_id=in_progress,
                nonce=bindparam("new_nonce"),
                body=bindparam("new_body", type_=sa.JSON),
            )
        )

    def _held(self) -> tuple[ColumnElement[bool], ...]:
        return (*_ours(), _c.lock_until_epoch >= self._now)


def _entries(brief: bool = False) -> sa.Select[Any]:
    columns = [_data().label("data") if brief and name == "data" else log.c[name] for name in LogRow._fields]
    return sa.select(*columns).where(log.c.cluster == bindparam("cluster"))


def _data() -> sa.Case[Any]:
    """Of all but decisions, which have all with them that was seen."""
    large = sa.or_(*(log.c.kind == str(kind) for kind in LARGE_KINDS))
    return sa.case((large, sa.null()), else_=log.c.data)


def _prune_log() -> sa.Delete:
    mine = log.c.cluster == bindparam("cluster")
    prunable = sa.and_(log.c.at < bindparam("before"), *(log.c.kind != str(kind) for kind in KEPT_FOR_GOOD))
    oldest = sa.select(log.c.id).where(mine, prunable).order_by(log.c.id)
    return sa.delete(log).where(mine, log.c.id.in_(oldest.limit(bindparam("limit", type_=sa.BigInteger))))


def _ours() -> tuple[ColumnElement[bool], ...]:
    return (
        _c.lock_owner == bindparam("owner", type_=sa.Text),
        _c.lock_token == bindparam("token", type_=sa.BigInteger),
    )
