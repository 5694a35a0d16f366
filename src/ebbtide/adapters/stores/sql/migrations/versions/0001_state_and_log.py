"""State items, the log, and the note of which versions can read them."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None


def upgrade() -> None:
    bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
    op.create_table(
        "ebbtide_state",
        sa.Column("pk", bytewise, primary_key=True),
        sa.Column("rev", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("lock_owner", sa.Text, nullable=False, server_default=""),
        sa.Column("lock_until_epoch", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("lock_token", sa.BigInteger, nullable=False, server_default="0"),
        sa.Column("action_id", sa.Text, nullable=False, server_default=""),
        sa.Column("nonce", sa.Text, nullable=False, server_default=""),
        sa.Column("body", sa.JSON(none_as_null=True)),
    )
    op.create_table(
        "ebbtide_log",
        sa.Column("cluster", bytewise, primary_key=True),
        sa.Column("id", bytewise, primary_key=True),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("subject", sa.Text, nullable=False),
        sa.Column("says", sa.Text, nullable=False),
        sa.Column("data", sa.LargeBinary, nullable=False),
    )
    op.create_index("ebbtide_log_by_kind", "ebbtide_log", ["cluster", "kind", "id"])
    op.create_index("ebbtide_log_by_subject", "ebbtide_log", ["cluster", "subject", "id"])
    meta = op.create_table(
        "ebbtide_meta",
        sa.Column("name", sa.Text, primary_key=True),
        sa.Column("value", sa.Text, nullable=False),
    )
    op.bulk_insert(meta, [{"name": "readable_from", "value": "0001"}])
