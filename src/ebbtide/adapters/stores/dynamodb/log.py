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

from ebbtide.adapters.stores.codec.record import KEPT_FOR_GOOD, KNOWN_KINDS, LARGE_KINDS, pack, unpack
from ebbtide.adapters.stores.dynamodb.record import Wire, from_wire_item, to_wire, to_wire_item
from ebbtide.adapters.stores.dynamodb.tables import BY_KIND, BY_SUBJECT, TTL_ATTRIBUTE
from ebbtide.errors import StoreCause, StoreUnusable
from ebbtide.model.log import LogEntry, LogKind

INLINE_BYTES = 4 * 1024
CHUNK_BYTES = 350 * 1024
CHUNKS_OUTLIVE_SECONDS = 7 * 24 * 3600
SUBJECT_KEY_CHARACTERS = 200
ABSENT = "attribute_not_exists(pk)"


@dataclass(frozen=True, slots=True)
class KeyRange:
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
        if expires and entry.kind not in KEPT_FOR_GOOD:
            head[TTL_ATTRIBUTE] = expires
        if len(block) <= INLINE_BYTES:
            head["data"] = block
        else:
            head["dataKey"] = self._store_chunks(entry.id, block, head.get(TTL_ATTRIBUTE, 0))
            head["dataBytes"] = len(block)
        return to_wire_item(head)

    def prune(self, before: int) -> int:
        """Delete entries older than that second: from the oldest id on and, as ids grow with time, no
        further than to a page on which all are younger."""
        pruned = 0
        asked = {
            "ProjectionExpression": "sk, #at, kind, dataKey, dataBytes",
            "ExpressionAttributeNames": {"#at": "at"},
        }
        for page in self._pages(self._partition, asked):
            old = [head for head in map(from_wire_item, page) if head["at"] < before]
            if not old:
                break
            for head in old:
                if head["kind"] not in KEPT_FOR_GOOD:
                    self._delete(head)
                    pruned += 1
        return pruned

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
            found = KeyRange(BY_SUBJECT, "subjectKey", f"{_shortened(subject)}#", before)
            heads = (head for head in self._newest(found, most) if head["subject"] == subject)
        elif kinds:
            spans = [KeyRange(BY_KIND, "kindKey", f"{kind}#", before) for kind in sorted(set(kinds))]
            each = [self._newest(span, most) for span in spans]
            heads = heapq.merge(*each, key=lambda head: str(head["sk"]), reverse=True)
        else:
            heads = self._newest(KeyRange("", "sk", "", before), most)
        wanted = frozenset(kinds) or KNOWN_KINDS
        fitting = (head for head in heads if head["kind"] in wanted and (not before or head["sk"] < before))
        return [self._entry(head, brief) for head in islice(fitting, limit)]

    def _newest(self, span: KeyRange, limit: int) -> Iterator[dict[str, Any]]:
        asked: dict[str, Any] = {"ScanIndexForward": False, "Limit": max(1, min(limit, 500))}
        condition, values = "", {}
        if span.index:
            asked["IndexName"] = span.index
        if span.before:
            condition = f" AND {span.key} BETWEEN :first AND :last"
            values[":first"] = to_wire(span.prefix or " ")
            values[":last"] = to_wire(f"{span.prefix}{span.before}")
        elif span.index:
            condition = f" AND begins_with({span.key}, :prefix)"
            values[":prefix"] = to_wire(span.prefix)
        for page in self._pages(self._partition, asked, condition, values):
            yield from map(from_wire_item, page)

    def _pages(
        self, pk: str, asked: dict[str, Any], condition: str = "", values: Wire | None = None
    ) -> Iterator[list[Wire]]:
        question = {
            "TableName": self._table,
            "KeyConditionExpression": f"pk = :pk{condition}",
            "ExpressionAttributeValues": {":pk": to_wire(pk), **(values or {})},
            "ConsistentRead": True,
            **asked,
        }
        while True:
            page = self._client.query(**question)
            yield page["Items"]
            if "LastEvaluatedKey" not in page:
                return
            question["ExclusiveStartKey"] = page["LastEvaluatedKey"]

    def _delete(self, head: dict[str, Any]) -> None:
        """The head first, so no head is ever without its chunks."""
        chunks = range(0, head.get("dataBytes", 0), CHUNK_BYTES)
        keys = [(self._partition, head["sk"]), *((head["dataKey"], _chunk(n)) for n, _ in enumerate(chunks))]
        for pk, sk in keys:
            self._client.delete_item(TableName=self._table, Key={"pk": to_wire(pk), "sk": to_wire(sk)})

    def _entry(self, head: dict[str, Any], brief: bool = False) -> LogEntry:
        data: dict[str, object] = {}
        if not brief or head["kind"] not in LARGE_KINDS:
            block = head["data"] if "data" in head else self._read_chunks(head)
            data = unpack(bytes(block), head["sk"])
        return LogEntry(head["sk"], head["at"], LogKind(head["kind"]), head["says"], head["subject"], data)

    def _store_chunks(self, entry_id: str, block: bytes, expires: int) -> str:
        data_key = f"data#{self._partition}#{entry_id}#{hashlib.sha256(block).hexdigest()[:16]}"
        for number, start in enumerate(range(0, len(block), CHUNK_BYTES)):
            part = block[start : start + CHUNK_BYTES]
            chunk: dict[str, Any] = {"pk": data_key, "sk": _chunk(number), "data": part}
            if expires:
                chunk[TTL_ATTRIBUTE] = expires + CHUNKS_OUTLIVE_SECONDS
            self._client.put_item(TableName=self._table, Item=to_wire_item(chunk))
        return data_key

    def _read_chunks(self, head: dict[str, Any]) -> bytes:
        parts = [item["data"]["B"] for page in self._pages(head["dataKey"], {}) for item in page]
        block = b"".join(parts)
        if len(block) != head["dataBytes"]:
            raise StoreUnusable(
                StoreCause.CORRUPT,
                f"the data of log entry {head['sk']!r} is incomplete in {self._table}: restore the table",
            )
        return block


def _chunk(number: int) -> str:
    return f"{number:06d}"


def _shortened(subject: str) -> str:
    return subject[:SUBJECT_KEY_CHARACTERS]
