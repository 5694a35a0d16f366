"""The statements of the SQL store, built once: each carries its conditions to where the data is.

`now` is the server's time on PostgreSQL, so that runners whose clocks differ agree on when a lease ends;
on SQLite, where all runners share one machine, it is the caller's.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import sqlalchemy as sa
from sqlalchemy import bindparam, func
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.sql import ColumnElement, Executable

from ebbtide.adapters.stores.schema import log, state
from ebbtide.model.log import LogKind

_c = state.c


class Statements:
    def __init__(self, dialect: str) -> None:
        self.insert: Any = postgresql.insert if dialect == "postgresql" else sqlite.insert
        self.now: ColumnElement[int] = (
            sa.cast(func.floor(func.extract("epoch", func.clock_timestamp())), sa.BigInteger)
            if dialect == "postgresql"
            else bindparam("now", type_=sa.BigInteger)
        )
        self.take = self._take()
        self.renew = (
            sa.update(state)
            .where(_c.pk == bindparam("key"), *self._held())
            .values(lock_until_epoch=self.now + bindparam("ttl", type_=sa.BigInteger))
            .returning(_c.lock_until_epoch)
        )
        self.release = (
            sa.update(state)
            .where(_c.pk == bindparam("key"), *_ours())
            .values(lock_owner="", lock_until_epoch=0)
        )
        self.make_item = self.insert(state).values(pk=bindparam("key")).on_conflict_do_nothing()
        self.write = self._write()
        self.write_guarded = self._write().where(*self._held())
        self.lock_guard = (
            sa.select(_c.pk).where(_c.pk == bindparam("lock_key"), *self._held()).with_for_update()
        )
        self.append = (
            self.insert(log)
            .values({column.name: bindparam(column.name) for column in log.c})
            .on_conflict_do_nothing()
        )
        self.load = sa.select(state).where(_c.pk == bindparam("key"))
        self.time = sa.select(self.now)

    def _take(self) -> Executable:
        owner = bindparam("owner", type_=sa.Text)
        until = self.now + bindparam("ttl", type_=sa.BigInteger)
        values = {"pk": bindparam("key"), "lock_owner": owner, "lock_until_epoch": until, "lock_token": 1}
        taken: Executable = (
            self.insert(state)
            .values(values)
            .on_conflict_do_update(
                index_elements=[_c.pk],
                set_={
                    "lock_owner": owner,
                    "lock_until_epoch": until,
                    "lock_token": _c.lock_token + sa.case((_c.lock_owner == owner, 0), else_=1),
                },
                where=sa.or_(_c.lock_owner == "", _c.lock_owner == owner, _c.lock_until_epoch < self.now),
            )
            .returning(_c.lock_token, _c.lock_until_epoch)
        )
        return taken

    def _write(self) -> sa.Update:
        under_way = bindparam("under_way", type_=sa.Text)
        return (
            sa.update(state)
            .where(
                _c.pk == bindparam("key"),
                _c.rev == bindparam("expected_rev", type_=sa.BigInteger),
                sa.or_(_c.action_id == "", _c.action_id == under_way, under_way == ""),
            )
            .values(
                rev=_c.rev + 1,
                action_id=under_way,
                nonce=bindparam("new_nonce"),
                body=bindparam("new_body", type_=sa.JSON),
            )
        )

    def _held(self) -> tuple[ColumnElement[bool], ...]:
        return (*_ours(), _c.lock_until_epoch >= self.now)


def newest_entries(
    cluster: str, kinds: Collection[LogKind], subject: str, limit: int
) -> sa.Select[Any] | sa.CompoundSelect[Any]:
    """Each part walks one index from its newest end, so that a long log costs no more than a short one."""
    mine = sa.select(log).where(log.c.cluster == cluster)
    newest_first = log.c.id.desc()
    if subject:
        mine = mine.where(log.c.subject == subject)
        if kinds:
            mine = mine.where(log.c.kind.in_([str(kind) for kind in kinds]))
    elif kinds:
        parts = [
            mine.where(log.c.kind == str(kind)).order_by(newest_first).limit(limit).subquery()
            for kind in sorted(set(kinds))
        ]
        return sa.union_all(*map(sa.select, parts)).order_by(sa.desc("id")).limit(limit)
    return mine.order_by(newest_first).limit(limit)


def _ours() -> tuple[ColumnElement[bool], ...]:
    return (
        _c.lock_owner == bindparam("owner", type_=sa.Text),
        _c.lock_token == bindparam("token", type_=sa.BigInteger),
    )
