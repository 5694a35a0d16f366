"""Which enabled policy has which target, so two written at the same moment cannot both have it.

Only adds, so an Ebbtide written for 0002 lives with it. Such a version does not maintain the table; a reader
that finds a row whose policy no longer has that target takes it over.
"""

from __future__ import annotations

import json

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0003"
down_revision = "0002"

_bytewise = sa.Text().with_variant(sa.Text(collation="C"), "postgresql")
_uuid = sa.Text().with_variant(postgresql.UUID(as_uuid=False), "postgresql")


def upgrade() -> None:
    table = op.create_table(
        "scaling_targets",
        sa.Column("cluster", _bytewise, primary_key=True),
        sa.Column("target", _bytewise, primary_key=True),
        sa.Column("policy_id", _uuid, nullable=False),
    )
    op.create_index("scaling_targets_by_policy", "scaling_targets", ["cluster", "policy_id"])
    columns = "cluster, CAST(id AS text), CAST(body AS text)"
    rows = op.get_bind().exec_driver_sql(
        f"SELECT {columns} FROM scaling_policies WHERE enabled ORDER BY cluster, name"
    )
    claims: dict[tuple[str, str], str] = {}
    for cluster, policy_id, body in rows:
        for target in _targets(json.loads(body)["target"]):
            # Two for one target could be written before; the first by name keeps it.
            claims.setdefault((cluster, target), policy_id)
    found = [{"cluster": c, "target": t, "policy_id": policy_id} for (c, t), policy_id in claims.items()]
    op.bulk_insert(table, found)


def _targets(target: dict[str, object]) -> list[str]:
    if pool := target.get("pool"):
        return [f"pool/{pool}"]
    refs = target.get("workloads")
    return [f"{ref['kind']}/{ref['namespace']}/{ref['name']}" for ref in refs or ()]  # type: ignore[attr-defined]
