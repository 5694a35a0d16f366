"""Days of the ledger as rows of `scaling_cost_savings`.

Sums are made here and not by the database, because SQLite's own numbers are not exact; the row is locked
meanwhile. What the specification has in cents is derived from the exact numbers with every write.
"""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

from ebbtide.adapters.stores.codec.ledger import added, hourly_cost_cents, savings_cents
from ebbtide.adapters.stores.codec.policies import Row
from ebbtide.adapters.stores.sql.driver import Lent
from ebbtide.adapters.stores.sql.policy_statements import AMOUNTS, PolicyStatements
from ebbtide.model.ledger import LedgerDay


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
