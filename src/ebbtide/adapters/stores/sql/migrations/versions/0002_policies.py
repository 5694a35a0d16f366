"""Policies for scale-to-zero, their states, the ledger of what they save, and keys that count once.

Only adds, so an Ebbtide written for 0001 lives with it.
"""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"

_bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_uuid = sa.Text().with_variant(postgresql.UUID(as_uuid=False), "postgresql")
_moment = sa.Text().with_variant(sa.DateTime(timezone=True), "postgresql")
_day = sa.Text().with_variant(sa.Date(), "postgresql")
_decimal = sa.Text().with_variant(sa.Numeric(), "postgresql")


def upgrade() -> None:
    op.create_table(
        "scaling_policies",
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
    )
    op.create_index("scaling_policies_by_name", "scaling_policies", ["cluster", "name"], unique=True)
    op.create_table(
        "scaling_idle_state",
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
    )
    op.create_index(
        "idx_scaling_idle_state_policy", "scaling_idle_state", ["cluster", "policy_id"], unique=True
    )
    op.create_table(
        "scaling_cost_savings",
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
    )
    op.create_index(
        "idx_scaling_cost_savings_policy_date",
        "scaling_cost_savings",
        ["cluster", "policy_id", "date", "currency"],
        unique=True,
    )
    op.create_index(
        "scaling_cost_savings_by_date", "scaling_cost_savings", ["cluster", "date", "policy_id", "currency"]
    )
    op.create_table(
        "scaling_once",
        sa.Column("cluster", _bytewise, primary_key=True),
        sa.Column("key", _bytewise, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("expires_at", sa.BigInteger, nullable=False),
    )
    op.create_index("scaling_once_by_expiry", "scaling_once", ["cluster", "expires_at"])
