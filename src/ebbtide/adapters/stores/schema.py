"""The tables of the SQL stores, and the version of them that this code was written for.

`ebbtide_state` holds one row per item (`cluster`, `cluster#NAME`, `lock#spot:ID`): what conditions look at
is a column, the rest of the record is JSON under the attribute names of every store. `ebbtide_log` is only
ever inserted into. Migrations add; one that an older Ebbtide could not live with raises `readable_from`.
"""

from __future__ import annotations

import sqlalchemy as sa

SCHEMA_REVISION = "0001"
VERSION_TABLE = "ebbtide_schema"
READABLE_FROM = "readable_from"

_bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")

metadata = sa.MetaData()

state = sa.Table(
    "ebbtide_state",
    metadata,
    sa.Column("pk", _bytewise, primary_key=True),
    sa.Column("rev", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("lock_owner", sa.Text, nullable=False, server_default=""),
    sa.Column("lock_until_epoch", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("lock_token", sa.BigInteger, nullable=False, server_default="0"),
    sa.Column("action_id", sa.Text, nullable=False, server_default=""),
    sa.Column("nonce", sa.Text, nullable=False, server_default=""),
    sa.Column("body", sa.JSON(none_as_null=True)),
)

log = sa.Table(
    "ebbtide_log",
    metadata,
    sa.Column("cluster", _bytewise, primary_key=True),
    sa.Column("id", _bytewise, primary_key=True),
    sa.Column("at", sa.BigInteger, nullable=False),
    sa.Column("kind", sa.Text, nullable=False),
    sa.Column("subject", sa.Text, nullable=False),
    sa.Column("says", sa.Text, nullable=False),
    sa.Column("data", sa.LargeBinary, nullable=False),
    sa.Index("ebbtide_log_by_kind", "cluster", "kind", "id"),
    sa.Index("ebbtide_log_by_subject", "cluster", "subject", "id"),
)

meta = sa.Table(
    "ebbtide_meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

version = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))
