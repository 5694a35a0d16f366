"""The table of policies on DynamoDB: its keys, and how its items are read and written.

A table of its own, because policies must be listed and a list that is consistent needs a sort key, which the
state table lacks (an index on it would lag behind), and because a log may be emptied and policies may not.

    pk                      sk        holds
    policies#CLUSTER        NAME      the policy; its key makes the name unique and the list sorted
    policyids#CLUSTER       ID        the name under which the policy is found
    idle#CLUSTER#SHARD      ID        its state; shards, because ten thousand are written in one round
    ledger#CLUSTER#ID       2026-01   the days of a month, so many fit into one transaction
    ledgers#CLUSTER         ID        who has a ledger; stays when the policy goes
    once#CLUSTER#SHARD      KEY       a value that counts once, until `expiresEpoch`
    targets#CLUSTER         SHARD     which enabled policy has which target
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from ebbtide.adapters.stores.codec.entries import distinct
from ebbtide.adapters.stores.dynamodb.errors import translated
from ebbtide.adapters.stores.dynamodb.log import DynamoLog
from ebbtide.adapters.stores.dynamodb.tables import Tables
from ebbtide.adapters.stores.dynamodb.values import Wire, from_wire_item, to_wire, to_wire_item, transact
from ebbtide.adapters.stores.repeat import repeat
from ebbtide.model.log import LogEntry
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
