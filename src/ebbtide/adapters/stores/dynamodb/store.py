"""The store on DynamoDB: two tables, conditional writes, and no more than the attributes people know.

The record is updated attribute by attribute under the conditions of the specification, extended by `rev`
and the lease's token; attributes that are not ours are left alone. With log entries it is one transaction.
A `nonce` in each write tells our own write from somebody else's after a lost reply.
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from ebbtide.adapters.stores.codec.operations import Item, action_ids
from ebbtide.adapters.stores.codec.record import distinct, from_item, item_key, lock_key
from ebbtide.adapters.stores.dynamodb.log import DynamoLog
from ebbtide.adapters.stores.dynamodb.record import (
    OUTBOX,
    Wire,
    from_wire_item,
    guard_check,
    keep_lease,
    record_update,
    release_lease,
    renew_lease,
    take_lease,
    take_over_lease,
    to_wire,
    to_wire_item,
    transact,
)
from ebbtide.adapters.stores.dynamodb.tables import (
    ConditionFailed,
    Tables,
    make_client,
    parse_tables,
    refuse_unfit,
    refuse_unfit_policies,
    translated,
)
from ebbtide.adapters.stores.guards import (
    LEASES_OUTLIVE_SECONDS,
    Attempt,
    Outwaiting,
    Stored,
    StoredLease,
    held_by_another,
    repeat,
    written,
)
from ebbtide.model.log import Kinds, LogEntry
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.ports import Clock

if TYPE_CHECKING:
    from ebbtide.adapters.stores.dynamodb.policies import DynamoPolicies

ENTRIES_IN_TRANSACTION = 98
T = TypeVar("T")


class DynamoStore:
    def __init__(self, client: Any, tables: Tables, clock: Clock, cluster: str = "cluster") -> None:
        self._client = client
        self._tables = tables
        self._clock = clock
        self._cluster = cluster
        self._key = item_key(cluster)
        self._log = DynamoLog(client, tables.logs, self._key)
        self._outwaiting = Outwaiting()

    @classmethod
    def open(cls, url: str, clock: Clock, cluster: str = "cluster", retention_days: int = 90) -> DynamoStore:
        """A store whose tables are there and fit, or `StoreUnusable`."""
        tables = replace(parse_tables(url), retention_days=retention_days)
        client = make_client(tables)
        try:
            refuse_unfit(client, tables)
        except BaseException:
            client.close()
            raise
        return cls(client, tables, clock, cluster)

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        def acquire(_: bool) -> Lease:
            now = self._now()
            lease = Lease(name, owner, 0, now + ttl_seconds)
            try:
                taken = self._update(name, take_lease(lease, now, self._expires(lease)))
            except ConditionFailed as refused:
                return self._keep(lease, _held(refused.item), now)
            return replace(lease, token=int(taken["lockToken"]["N"]))

        return repeat(self._clock, acquire)

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        def renew(_: bool) -> Lease:
            now = self._now()
            renewed = replace(lease, until=now + ttl_seconds)
            try:
                self._update(lease.name, renew_lease(renewed, now, self._expires(renewed)))
            except ConditionFailed as refused:
                raise _held(refused.item).lost(lease) from None
            return renewed

        return repeat(self._clock, renew)

    def release(self, lease: Lease) -> None:
        def release(_: bool) -> None:
            try:
                self._update(lease.name, release_lease(lease))
            except ConditionFailed:
                return

        repeat(self._clock, release)

    def load(self) -> Record:
        item = self._ask(lambda: self._read(self._key))
        if not item:
            return Record(cluster=self._cluster)
        # A runner that died after its write left log entries behind.
        if OUTBOX in item:
            self._flush([to_wire_item(head) for head in item[OUTBOX]], item["nonce"])
        return from_item(item, self._cluster)

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        attempt = Attempt(record, guard, nonce=uuid.uuid4().hex)
        heads = self._prepare(entries)
        outbox = heads[ENTRIES_IN_TRANSACTION:]
        del heads[ENTRIES_IN_TRANSACTION:]

        def write(reply_lost: bool) -> None:
            try:
                self._write_once(attempt, heads, outbox)
            except ConditionFailed:
                self._settle(replace(attempt, reply_lost=reply_lost))

        repeat(self._clock, write)
        if outbox:
            self._flush(outbox, attempt.nonce)
        return written(record)

    def append(self, entries: Sequence[LogEntry]) -> None:
        for head in self._prepare(entries):
            self._put(head)

    def read_log(
        self, kinds: Kinds = (), subject: str = "", limit: int = 100, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        return self._ask(lambda: self._log.read(kinds, subject, limit, before, brief))

    def find_entry(self, entry_id: str) -> LogEntry | None:
        return self._ask(lambda: self._log.find(entry_id)) if entry_id else None

    def prune_log(self, before: int) -> int:
        """Entries and leases expire here by themselves (the tables have a TTL): as a rule nothing is left
        to do. What counts is when retention was shortened, or is done by hand."""
        return self._ask(lambda: self._log.prune(before))

    def policies(self) -> DynamoPolicies:
        """The policies of the same cluster, over the same client; `StoreUnusable` without their table."""
        from ebbtide.adapters.stores.dynamodb.policies import DynamoPolicies

        refuse_unfit_policies(self._client, self._tables)
        return DynamoPolicies(self._client, self._tables, self._clock, self._cluster)

    def close(self) -> None:
        self._client.close()

    def _write_once(self, attempt: Attempt, heads: list[Wire], outbox: list[Wire]) -> None:
        now, guard = self._now(), attempt.guard
        update = {"TableName": self._tables.state, "Key": {"pk": to_wire(self._key)}}
        update |= record_update(attempt, now, outbox)
        on_lock_item = guard is not None and guard.name != CLUSTER_LEASE
        if not heads and not on_lock_item:
            with translated(self._tables.where):
                self._client.update_item(**update)
            return
        steps: list[dict[str, Any]] = [{"Update": update}]
        if guard is not None and on_lock_item:
            lock = {"TableName": self._tables.state, "Key": {"pk": to_wire(self._pk(guard.name))}}
            steps.append({"ConditionCheck": lock | guard_check(guard, now)})
        transact(self._client, self._tables.where, steps, [self._log.put(head) for head in heads])

    def _settle(self, attempt: Attempt) -> None:
        """Say why a write was refused; return when it was not, but is our own of which the reply was lost."""
        with translated(self._tables.where):
            item = self._read(self._key)
            guard = attempt.guard
            lock = {} if guard is None else self._read(self._pk(guard.name))
        open_ids = action_ids(item)
        stored = Stored(item.get("rev", 0), open_ids, item.get("nonce", ""))
        held = StoredLease(lock.get("lockOwner", ""), lock.get("lockUntilEpoch", 0), lock.get("lockToken", 0))
        attempt.settle(stored, held, self._now())

    def _prepare(self, entries: Sequence[LogEntry]) -> list[Wire]:
        expires = self._tables.expires(self._now())
        return [self._ask(partial(self._log.prepare, entry, expires)) for entry in distinct(entries)]

    def _put(self, head: Wire) -> None:
        def put(_: bool) -> None:
            try:
                with translated(self._tables.where):
                    self._client.put_item(**self._log.put(head))
            except ConditionFailed:
                return

        repeat(self._clock, put)

    def _flush(self, heads: Sequence[Wire], nonce: str) -> None:
        """Entries that did not fit into a transaction wait in the record until each is in the log."""
        for head in heads:
            self._put(head)
        done = {
            "UpdateExpression": f"REMOVE {OUTBOX}",
            "ConditionExpression": "nonce = :nonce",
            "ExpressionAttributeValues": {":nonce": to_wire(nonce)},
        }
        try:
            repeat(self._clock, lambda _: self._update(CLUSTER_LEASE, done))
        except ConditionFailed:
            return

    def _keep(self, lease: Lease, held: StoredLease, now: int) -> Lease:
        """Continue with a lease that could not be taken, if that is because it is ours, or take one over that
        was outwaited."""
        kept = replace(lease, token=held.token)
        change = keep_lease(kept, self._expires(kept))
        # A lease whose end is far ahead may come from a wrong clock.
        if held.owner != lease.owner:
            if not self._outwaiting.is_over(lease.name, held, now):
                raise held_by_another(lease.name, held, now)
            kept = replace(lease, token=held.token + 1)
            change = take_over_lease(kept, held, self._expires(kept))
        try:
            self._update(lease.name, change)
        except ConditionFailed as refused:
            raise held_by_another(lease.name, _held(refused.item), now) from None
        return kept

    def _update(self, lease_name: str, change: dict[str, Any]) -> Wire:
        with translated(self._tables.where):
            answer = self._client.update_item(
                TableName=self._tables.state,
                Key={"pk": to_wire(self._pk(lease_name))},
                ReturnValues="UPDATED_NEW",
                ReturnValuesOnConditionCheckFailure="ALL_OLD",
                **change,
            )
        attributes: Wire = answer.get("Attributes", {})
        return attributes

    def _read(self, key: str) -> Item:
        answer = self._client.get_item(
            TableName=self._tables.state, Key={"pk": to_wire(key)}, ConsistentRead=True
        )
        return from_wire_item(answer.get("Item", {}))

    def _ask(self, question: Callable[[], T]) -> T:
        def ask(_: bool) -> T:
            with translated(self._tables.where):
                return question()

        return repeat(self._clock, ask)

    def _pk(self, lease_name: str) -> str:
        return self._key if lease_name == CLUSTER_LEASE else lock_key(self._cluster, lease_name)

    def _now(self) -> int:
        return int(self._clock.now())

    def _expires(self, lease: Lease) -> int:
        return lease.until + LEASES_OUTLIVE_SECONDS


def _held(item: Any) -> StoredLease:
    lock = from_wire_item(item or {})
    return StoredLease(lock.get("lockOwner", ""), lock.get("lockUntilEpoch", 0), lock.get("lockToken", 0))
