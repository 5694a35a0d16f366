"""The ledger on DynamoDB: one item for each policy and month, with its days in it.

It is read, added to and written back under the condition that it did not change meanwhile. That keeps the
sums exact, whatever their digits, and lets a write of many months of days be one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import msgspec

from ebbtide import typed
from ebbtide.adapters.stores.codec.ledger import added, by_day, day_key
from ebbtide.adapters.stores.dynamodb.policy_table import Keys, PolicyTable, Step, unchanged
from ebbtide.errors import UNREADABLE, StoreUnusable
from ebbtide.model.ledger import LedgerDay

_decoder = typed.decoder(tuple[LedgerDay, ...])


@dataclass(frozen=True, slots=True)
class Month:
    """Of one policy; `rev` 0 is one that is not there yet."""

    name: str
    rev: int = 0
    days: tuple[LedgerDay, ...] = ()


def month_of(date: str) -> str:
    return date[:7]


class DynamoLedger:
    def __init__(self, table: PolicyTable, keys: Keys) -> None:
        self._table = table
        self._keys = keys

    def list_days(self, policy_id: str, begin: str, end: str) -> Sequence[LedgerDay]:
        if begin > end:
            return []
        owners = [policy_id] if policy_id else self._table.query(self._keys.owner("").pk, "sk")
        found = self._table.at_once(lambda owner: self._days_of(owner, begin, end), owners)
        return by_day(day for days in found for day in days if begin <= day.date <= end)

    def add(self, policy_id: str, days: Sequence[LedgerDay]) -> list[Step]:
        """The steps that add these days to what is there now."""
        steps = []
        for name in sorted({month_of(day.date) for day in days}):
            month = self._month(policy_id, name)
            rows = {day_key(day): day for day in month.days}
            for day in (day for day in days if month_of(day.date) == name):
                key = day_key(day)
                rows[key] = added(rows[key], day) if key in rows else day
            steps.append(self._put(policy_id, month, rows.values()))
        return steps

    def replace(self, policy_id: str, days: Sequence[LedgerDay]) -> list[Step]:
        """The steps that make these the only days."""
        pk = self._keys.month(policy_id, "").pk
        names = {month_of(day.date) for day in days}
        steps = []
        for name in sorted(names.union(self._table.query(pk, "sk"))):
            month = self._month(policy_id, name)
            if name in names:
                wanted = [day for day in days if month_of(day.date) == name]
                steps.append(self._put(policy_id, month, wanted))
            elif month.rev:
                steps.append(self._table.delete(self._keys.month(policy_id, name), unchanged(month.rev)))
        return steps

    def _days_of(self, policy_id: str, begin: str, end: str) -> list[LedgerDay]:
        pk = self._keys.month(policy_id, "").pk
        bodies = self._table.query(pk, "body", (month_of(begin), month_of(end)))
        return [day for body in bodies for day in _read(body, policy_id)]

    def _month(self, policy_id: str, name: str) -> Month:
        item = self._table.get(self._keys.month(policy_id, name))
        return Month(name, item["rev"], _read(item["body"], policy_id)) if item else Month(name)

    def _put(self, policy_id: str, month: Month, days: Iterable[LedgerDay]) -> Step:
        body = msgspec.json.encode(by_day(days)).decode()
        key = self._keys.month(policy_id, month.name)
        return self._table.put(key, {"rev": month.rev + 1, "body": body}, unchanged(month.rev))


def _read(body: str, policy_id: str) -> tuple[LedgerDay, ...]:
    try:
        return _decoder.decode(body)
    except UNREADABLE as error:
        raise StoreUnusable(
            f"the ledger of policy {policy_id} cannot be read ({error}): it was left as it is; "
            "restore it from a backup, or run `ebbtide savings rebuild`"
        ) from error
