"""The tables of the SQL stores, and the version of them that this code was written for.

The tables `scaling_*` have the names of the specification, with the cluster in front of every key, since one
database may serve many. Of a policy and its state the `body` is what is read; the named columns next to it
are for people and reports. A null threshold is the default of the configuration. `scaling_cost_savings` has
no foreign key: the ledger outlives its policy.

`ebbtide_state` holds one row per item (`cluster`, `cluster#NAME`, `lock#spot:ID`): what conditions look at
is a column, the rest of the record is JSON under the attribute names of every store. `ebbtide_log` is only
ever inserted into. Migrations add; one that an older Ebbtide could not live with raises `readable_from`.
"""

from __future__ import annotations

import sqlalchemy as sa
from sqlalchemy.dialects import postgresql

SCHEMA_REVISION = "0003"
VERSION_TABLE = "ebbtide_schema"
READABLE_FROM = "readable_from"

_bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_uuid = sa.Text().with_variant(postgresql.UUID(as_uuid=False), "postgresql")
_moment = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
"""On SQLite ISO 8601 in UTC."""
_day = sa.Text().with_variant(sa.Date(), "postgresql")
_decimal = sa.Text().with_variant(sa.Numeric(), "postgresql")
"""SQLite's own numbers are not exact."""

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

policies = sa.Table(
    "scaling_policies",
    metadata,
    sa.Column("cluster", _bytewise, primary_key=True),
    sa.Column("id", _uuid, primary_key=True),
    sa.Column("name", _bytewise, nullable=False),
    sa.Column("version", sa.BigInteger, nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("scale_to_zero", sa.Boolean, nullable=False),
    sa.Column("min_replicas", sa.Integer, nullable=False),
    sa.Column("max_replicas", sa.Integer, nullable=False),
    sa.Column("cooldown_seconds", sa.Integer, nullable=False),
    sa.Column("max_hourly_cost", _decimal),
    sa.Column("idle_threshold_seconds", sa.Integer),
    sa.Column("keep_alive_window_seconds", sa.Integer),
    sa.Column("cold_start_timeout_seconds", sa.Integer),
    sa.Column("created_at", _moment, nullable=False),
    sa.Column("updated_at", _moment, nullable=False),
    sa.Column("nonce", sa.Text, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    sa.Index("scaling_policies_by_name", "cluster", "name", unique=True),
)

idle_state = sa.Table(
    "scaling_idle_state",
    metadata,
    sa.Column("id", _uuid, primary_key=True),
    sa.Column("cluster", _bytewise, nullable=False),
    sa.Column("policy_id", _uuid, nullable=False),
    sa.Column("last_activity_at", _moment, nullable=False),
    sa.Column("idle_since", _moment),
    sa.Column("scaled_to_zero_at", _moment),
    sa.Column("last_wake_at", _moment),
    sa.Column("wake_reason", sa.Text),
    sa.Column("is_scaled_to_zero", sa.Boolean, nullable=False),
    sa.Column("created_at", _moment, nullable=False),
    sa.Column("updated_at", _moment, nullable=False),
    sa.Column("rev", sa.BigInteger, nullable=False),
    sa.Column("nonce", sa.Text, nullable=False),
    sa.Column("body", sa.JSON, nullable=False),
    sa.ForeignKeyConstraint(
        ["cluster", "policy_id"], ["scaling_policies.cluster", "scaling_policies.id"], ondelete="CASCADE"
    ),
    sa.Index("idx_scaling_idle_state_policy", "cluster", "policy_id", unique=True),
)

cost_savings = sa.Table(
    "scaling_cost_savings",
    metadata,
    sa.Column("id", _uuid, primary_key=True),
    sa.Column("cluster", _bytewise, nullable=False),
    sa.Column("policy_id", _uuid, nullable=False),
    sa.Column("date", _day, nullable=False),
    sa.Column("currency", _bytewise, nullable=False),
    sa.Column("source", sa.Text, nullable=False),
    sa.Column("idle_seconds", sa.BigInteger, nullable=False),
    sa.Column("scaled_to_zero_seconds", sa.BigInteger, nullable=False),
    sa.Column("idle_price_seconds", _decimal, nullable=False),
    sa.Column("zero_price_seconds", _decimal, nullable=False),
    sa.Column("wakes", sa.BigInteger, nullable=False),
    sa.Column("wake_price_seconds", _decimal, nullable=False),
    sa.Column("realised_price_seconds", _decimal, nullable=False),
    sa.Column("unpriced_seconds", sa.BigInteger, nullable=False),
    sa.Column("estimated_savings_cents", sa.BigInteger, nullable=False),
    sa.Column("hourly_cost_cents", sa.BigInteger),
    sa.Column("created_at", _moment, nullable=False),
    sa.Column("updated_at", _moment, nullable=False),
    sa.Index("idx_scaling_cost_savings_policy_date", "cluster", "policy_id", "date", "currency", unique=True),
    sa.Index("scaling_cost_savings_by_date", "cluster", "date", "policy_id", "currency"),
)

targets = sa.Table(
    "scaling_targets",
    metadata,
    sa.Column("cluster", _bytewise, primary_key=True),
    sa.Column("target", _bytewise, primary_key=True),
    sa.Column("policy_id", _uuid, nullable=False),
    sa.Index("scaling_targets_by_policy", "cluster", "policy_id"),
)
"""Which enabled policy has a workload or a pool: one at most, also if two are written at the same moment."""

once = sa.Table(
    "scaling_once",
    metadata,
    sa.Column("cluster", _bytewise, primary_key=True),
    sa.Column("key", _bytewise, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
    sa.Column("expires_at", sa.BigInteger, nullable=False),
    sa.Index("scaling_once_by_expiry", "cluster", "expires_at"),
)

meta = sa.Table(
    "ebbtide_meta",
    metadata,
    sa.Column("name", sa.Text, primary_key=True),
    sa.Column("value", sa.Text, nullable=False),
)

version = sa.table(VERSION_TABLE, sa.column("version_num", sa.Text))
