"""The DynamoDB table of policies: its keys, its items, the targets of enabled policies, and the ledger.

It is a table of its own because a consistent list needs a sort key, which the state table lacks (an index
would lag behind), and because a log may be emptied and policies may not.

    pk                      sk        holds
    policies#CLUSTER        NAME      the policy; its key makes the name unique and the list sorted
    policyids#CLUSTER       ID        the name under which the policy is found
    idle#CLUSTER#SHARD      ID        its state; shards, because ten thousand are written in one round
    ledger#CLUSTER#ID       2026-01   the days of a month, so many fit into one transaction
    ledgers#CLUSTER         ID        who has a ledger; stays when the policy goes
    once#CLUSTER#SHARD      KEY       a value that counts once, until `expiresEpoch`
    targets#CLUSTER         SHARD     which enabled policy has which target

A month of the ledger is read, added to and written back on the condition that it did not change. This
keeps the sums exact, and one transaction can write many months.

A policy may have a hundred workloads, and a transaction holds a hundred items. So targets share a few
items, each a JSON object from target to policy id, written on the same condition in the transaction that
writes the policy: of two concurrent writers, one is refused.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

import msgspec

from ebbtide import typed
from ebbtide.adapters.stores.codec.policies import added, by_day, day_key, targets_of
from ebbtide.adapters.stores.codec.record import distinct
from ebbtide.adapters.stores.dynamodb.log import DynamoLog
from ebbtide.adapters.stores.dynamodb.record import Wire, from_wire_item, to_wire, to_wire_item, transact
from ebbtide.adapters.stores.dynamodb.tables import Tables, translated
from ebbtide.adapters.stores.guards import repeat, target_refusal
from ebbtide.errors import UNREADABLE, StoreCause, StoreUnusable
from ebbtide.model.idle import LedgerDay
from ebbtide.model.log import LogEntry
from ebbtide.model.policy import Policy
from ebbtide.ports import Clock

SHARDS = 8
AT_ONCE = 8
"""Calls on their way at the same time; the client keeps ten connections."""
ABSENT = "attribute_not_exists(pk)"
Item = dict[str, Any]
Step = dict[str, Any]
T = TypeVar("T")
U = TypeVar("U")


@dataclass(frozen=True, slots=True)
class Key:
    pk: str
    sk: str

    @property
    def wire(self) -> Wire:
        return {"pk": to_wire(self.pk), "sk": to_wire(self.sk)}


@dataclass(frozen=True, slots=True)
class Keys:
    cluster: str

    def policy(self, name: str) -> Key:
        return Key(f"policies#{self.cluster}", name)

    def pointer(self, policy_id: str) -> Key:
        return Key(f"policyids#{self.cluster}", policy_id)

    def state(self, policy_id: str) -> Key:
        return Key(self.states(_shard(policy_id)), policy_id)

    def states(self, shard: int) -> str:
        return f"idle#{self.cluster}#{shard}"

    def month(self, policy_id: str, month: str) -> Key:
        return Key(f"ledger#{self.cluster}#{policy_id}", month)

    def owner(self, policy_id: str) -> Key:
        return Key(f"ledgers#{self.cluster}", policy_id)

    def targets(self, shard: str) -> Key:
        return Key(f"targets#{self.cluster}", shard)

    def once(self, key: str) -> Key:
        return Key(f"once#{self.cluster}#{_shard(key)}", key)


@dataclass(frozen=True, slots=True)
class Condition:
    expression: str
    values: Item

    @property
    def wire(self) -> Step:
        if not self.values:
            return {"ConditionExpression": self.expression}
        values = {f":{name}": to_wire(value) for name, value in self.values.items()}
        return {"ConditionExpression": self.expression, "ExpressionAttributeValues": values}


NEW = Condition(ABSENT, {})


def unchanged(rev: int) -> Condition:
    """Nobody wrote the item since it was read; `rev` 0 is one that was not there."""
    return Condition("rev = :rev", {"rev": rev}) if rev else NEW


class PolicyTable:
    def __init__(self, client: Any, tables: Tables, clock: Clock, log: DynamoLog) -> None:
        self._client = client
        self._name = tables.policies
        self._where = tables.where
        self._clock = clock
        self._log = log

    def get(self, key: Key) -> Item:
        """The item, or an empty one."""
        found = self._ask(
            lambda: self._client.get_item(TableName=self._name, Key=key.wire, ConsistentRead=True)
        )
        return from_wire_item(found.get("Item", {}))

    def query(self, pk: str, only: str, between: tuple[str, str] = ("", ""), limit: int = 0) -> list[Any]:
        """One attribute of all items under a key, by sort key: those after the first end and not after the
        second; all of them where there is no limit."""
        asked = _question(self._name, pk, only, between)
        found: list[Any] = []
        while True:
            if limit:
                asked["Limit"] = min(1000, limit - len(found))
            page = self._ask(partial(self._client.query, **asked))
            found += [next(iter(item[only].values())) for item in page["Items"]]
            if "LastEvaluatedKey" not in page or (limit and len(found) >= limit):
                return found
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def prepare(self, entries: Sequence[LogEntry], expires: int) -> list[Step]:
        heads = [self._ask(partial(self._log.prepare, entry, expires)) for entry in distinct(entries)]
        return [self._log.put(head) for head in heads]

    def put(self, key: Key, item: Item, condition: Condition | None = None) -> Step:
        wanted = {name: value for name, value in item.items() if value is not None}
        wire = {**key.wire, **to_wire_item(wanted)}
        return {"Put": {"TableName": self._name, "Item": wire, **(condition.wire if condition else {})}}

    def delete(self, key: Key, condition: Condition | None = None) -> Step:
        return {"Delete": {"TableName": self._name, "Key": key.wire, **(condition.wire if condition else {})}}

    def write(self, steps: Sequence[Step], puts: Sequence[Step] = ()) -> None:
        """All or nothing, once. `ConditionFailed` where a condition did not hold."""
        if len(steps) == 1 and not puts and "Put" in steps[0]:
            with translated(self._where):
                self._client.put_item(**steps[0]["Put"], ReturnValuesOnConditionCheckFailure="ALL_OLD")
            return
        transact(self._client, self._where, steps, puts)

    def at_once(self, call: Callable[[T], U], values: Iterable[T]) -> list[U]:
        with ThreadPoolExecutor(AT_ONCE) as threads:
            return list(threads.map(call, values))

    def _ask(self, question: Callable[[], T]) -> T:
        def ask(_: bool) -> T:
            with translated(self._where):
                return question()

        return repeat(self._clock, ask)


def _question(table: str, pk: str, only: str, between: tuple[str, str]) -> Step:
    after, last = between
    condition, values = "pk = :pk", {":pk": to_wire(pk)}
    if last:
        condition += " AND sk BETWEEN :first AND :last"
        values |= {":first": to_wire(after), ":last": to_wire(last)}
    elif after:
        condition += " AND sk > :first"
        values |= {":first": to_wire(after)}
    return {
        "TableName": table,
        "KeyConditionExpression": condition,
        "ExpressionAttributeValues": values,
        "ProjectionExpression": "#only",
        "ExpressionAttributeNames": {"#only": only},
        "ConsistentRead": True,
    }


def _shard(text: str) -> int:
    return zlib.crc32(text.encode()) % SHARDS


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
            StoreCause.CORRUPT,
            f"the ledger of policy {policy_id} cannot be read ({error}): it was left as it is; "
            "restore it from a backup, or run `ebbtide savings rebuild`",
        ) from error


TARGET_SHARDS = 32
"""With fifty log entries and the policy itself they fit into one transaction, and ten thousand policies into
the items."""
Find = Callable[[str], Policy | None]


@dataclass(frozen=True, slots=True)
class DynamoTargets:
    table: PolicyTable
    keys: Keys
    find: Find
    """A policy by its id."""

    def steps(self, before: Policy | None, after: Policy | None) -> list[Step]:
        """The steps that give back what a policy had and claim what it has now."""
        policy = after or before
        assert policy is not None
        wanted = frozenset(targets_of(after)) if after else frozenset()
        held = frozenset(targets_of(before)) if before else frozenset()
        shards = sorted({_target_shard(target) for target in wanted | held})
        return [step for shard in shards for step in self._of_shard(shard, policy, wanted, held)]

    def _of_shard(
        self, shard: str, policy: Policy, wanted: frozenset[str], held: frozenset[str]
    ) -> list[Step]:
        item = self.table.get(self.keys.targets(shard))
        claims = _claims(item["body"]) if item else {}
        mine = sorted(target for target in wanted if _target_shard(target) == shard)
        for target in mine:
            self._refuse_taken(policy, target, claims.get(target, policy.id))
        changed = {target: holder for target, holder in claims.items() if holder != policy.id}
        changed |= dict.fromkeys(mine, policy.id)
        # What is new to it is written even where the claim is there: another may just be taking it over.
        if changed == claims and held.issuperset(mine):
            return []
        return [self._put(shard, item.get("rev", 0), changed)]

    def _refuse_taken(self, policy: Policy, target: str, holder: str) -> None:
        other = self.find(holder) if holder != policy.id else None
        # A version that does not know of claims may have disabled, moved or deleted the holder since.
        if other is not None and target in targets_of(other):
            raise target_refusal(policy, target, other)

    def _put(self, shard: str, rev: int, claims: dict[str, str]) -> Step:
        body = msgspec.json.encode(dict(sorted(claims.items()))).decode()
        return self.table.put(self.keys.targets(shard), {"rev": rev + 1, "body": body}, unchanged(rev))


def first_shard(policy: Policy) -> str:
    """Of the items that hold its targets; "" where it claims none."""
    return min((_target_shard(target) for target in targets_of(policy)), default="")


def _target_shard(target: str) -> str:
    return f"{zlib.crc32(target.encode()) % TARGET_SHARDS:02d}"


def _claims(body: str) -> dict[str, str]:
    try:
        return typed.decode(body, dict[str, str])
    except UNREADABLE as error:
        raise StoreUnusable(
            StoreCause.CORRUPT,
            f"the targets of the policies cannot be read ({error}): they were left as they are; restore the "
            "table from a backup",
        ) from error
