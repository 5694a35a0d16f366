"""The log on DynamoDB: one head item per entry, sorted by its id, and chunks for data that is large.

Chunks are written first, under a key made from the entry and the hash of its data, and nobody sees them
before their head is there; so a head, alone or in a transaction with the record, is all or nothing.
Local indexes (which can be read consistently) give the newest of a kind or of a subject.
"""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from ebbtide.adapters.stores.dynamodb_tables import BY_KIND, BY_SUBJECT, TTL_ATTRIBUTE
from ebbtide.adapters.stores.dynamodb_values import Wire, from_wire_item, to_wire, to_wire_item
from ebbtide.adapters.stores.entries import KNOWN_KINDS, pack, unpack
from ebbtide.errors import StoreUnusable
from ebbtide.model.log import LogEntry, LogKind

INLINE_BYTES = 4 * 1024
CHUNK_BYTES = 350 * 1024
CHUNKS_OUTLIVE_SECONDS = 7 * 24 * 3600
SUBJECT_KEY_CHARACTERS = 200
ABSENT = "attribute_not_exists(pk)"
KEPT_FOR_GOOD = frozenset({LogKind.STRETCH})
"""The ledger is rebuilt from these; everything else expires."""


@dataclass(frozen=True, slots=True)
class Span:
    """Entries whose key in an index begins with a prefix, up to and with the entry `before`, if given."""

    index: str
    key: str
    prefix: str
    before: str


class DynamoLog:
    """Builds and reads the items of one cluster's log. Errors are the caller's to translate."""

    def __init__(self, client: Any, table: str, partition: str) -> None:
        self._client = client
        self._table = table
        self._partition = partition

    def prepare(self, entry: LogEntry, expires: int) -> Wire:
        """The head of an entry; its chunks, if it needs any, are stored on the way."""
        block = pack(entry.data)
        head: dict[str, Any] = {
            "pk": self._partition,
            "sk": entry.id,
            "at": entry.at,
            "kind": str(entry.kind),
            "subject": entry.subject,
            "says": entry.says,
            "kindKey": f"{entry.kind}#{entry.id}",
            "subjectKey": f"{_shortened(entry.subject)}#{entry.id}",
        }
        if entry.kind not in KEPT_FOR_GOOD:
            head[TTL_ATTRIBUTE] = expires
        if len(block) <= INLINE_BYTES:
            head["data"] = block
        else:
            head["dataKey"] = self._store_chunks(entry.id, block, head.get(TTL_ATTRIBUTE, 0))
            head["dataBytes"] = len(block)
        return to_wire_item(head)

    def put(self, head: Wire) -> dict[str, Any]:
        return {"TableName": self._table, "Item": head, "ConditionExpression": ABSENT}

    def find(self, entry_id: str) -> LogEntry | None:
        key = {"pk": to_wire(self._partition), "sk": to_wire(entry_id)}
        found = self._client.get_item(TableName=self._table, Key=key, ConsistentRead=True).get("Item")
        if found is None or found["kind"]["S"] not in KNOWN_KINDS:
            return None
        return self._entry(from_wire_item(found))

    def read(
        self, kinds: Collection[LogKind], subject: str, limit: int, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        most = limit + 1 if before else limit
        heads: Iterator[dict[str, Any]]
        if subject:
            found = Span(BY_SUBJECT, "subjectKey", f"{_shortened(subject)}#", before)
            heads = (head for head in self._newest(found, most) if head["subject"] == subject)
        elif kinds:
            spans = [Span(BY_KIND, "kindKey", f"{kind}#", before) for kind in sorted(set(kinds))]
            each = [self._newest(span, most) for span in spans]
            heads = heapq.merge(*each, key=lambda head: str(head["sk"]), reverse=True)
        else:
            heads = self._newest(Span("", "sk", "", before), most)
        wanted = frozenset(kinds) or KNOWN_KINDS
        fitting = (head for head in heads if head["kind"] in wanted and (not before or head["sk"] < before))
        return [self._entry(head, brief) for head in islice(fitting, limit)]

    def _newest(self, span: Span, limit: int) -> Iterator[dict[str, Any]]:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": to_wire(self._partition)},
            "ScanIndexForward": False,
            "ConsistentRead": True,
            "Limit": max(1, min(limit, 500)),
        }
        if span.index:
            asked["IndexName"] = span.index
        if span.before:
            asked["KeyConditionExpression"] += f" AND {span.key} BETWEEN :first AND :last"
            asked["ExpressionAttributeValues"][":first"] = to_wire(span.prefix or " ")
            asked["ExpressionAttributeValues"][":last"] = to_wire(f"{span.prefix}{span.before}")
        elif span.index:
            asked["KeyConditionExpression"] += f" AND begins_with({span.key}, :prefix)"
            asked["ExpressionAttributeValues"][":prefix"] = to_wire(span.prefix)
        while True:
            page = self._client.query(**asked)
            yield from map(from_wire_item, page["Items"])
            if "LastEvaluatedKey" not in page:
                return
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _entry(self, head: dict[str, Any], brief: bool = False) -> LogEntry:
        data: dict[str, object] = {}
        if not brief:
            block = head["data"] if "data" in head else self._read_chunks(head)
            data = unpack(bytes(block), head["sk"])
        return LogEntry(head["sk"], head["at"], LogKind(head["kind"]), head["says"], head["subject"], data)

    def _store_chunks(self, entry_id: str, block: bytes, expires: int) -> str:
        data_key = f"data#{self._partition}#{entry_id}#{hashlib.sha256(block).hexdigest()[:16]}"
        for number, start in enumerate(range(0, len(block), CHUNK_BYTES)):
            part = block[start : start + CHUNK_BYTES]
            chunk: dict[str, Any] = {"pk": data_key, "sk": f"{number:06d}", "data": part}
            if expires:
                chunk[TTL_ATTRIBUTE] = expires + CHUNKS_OUTLIVE_SECONDS
            self._client.put_item(TableName=self._table, Item=to_wire_item(chunk))
        return data_key

    def _read_chunks(self, head: dict[str, Any]) -> bytes:
        asked: dict[str, Any] = {
            "TableName": self._table,
            "KeyConditionExpression": "pk = :pk",
            "ExpressionAttributeValues": {":pk": to_wire(head["dataKey"])},
            "ConsistentRead": True,
        }
        parts: list[bytes] = []
        while True:
            page = self._client.query(**asked)
            parts += [item["data"]["B"] for item in page["Items"]]
            if "LastEvaluatedKey" not in page:
                break
            asked["ExclusiveStartKey"] = page["LastEvaluatedKey"]
        block = b"".join(parts)
        if len(block) != head["dataBytes"]:
            raise StoreUnusable(
                f"the data of log entry {head['sk']!r} is incomplete in {self._table}: restore the table"
            )
        return block


def _shortened(subject: str) -> str:
    return subject[:SUBJECT_KEY_CHARACTERS]
