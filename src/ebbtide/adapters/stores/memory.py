"""A store in memory: the model that the other stores are checked against, and the simulator's own.

It keeps items and packed log entries, never the values it was given, so what the others must be able
to serialise is serialised here too. One lock makes every call atomic.
"""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ebbtide.adapters.stores.codec.operations import Item, action_ids
from ebbtide.adapters.stores.codec.record import (
    KEPT_FOR_GOOD,
    LARGE_KINDS,
    from_item,
    is_lock,
    item_key,
    lock_key,
    pack,
    to_item,
    unpack,
)
from ebbtide.adapters.stores.guards import (
    LEASES_OUTLIVE_SECONDS,
    Outwaiting,
    Stored,
    StoredLease,
    given_back,
    held_by_another,
    refusal,
    written,
)
from ebbtide.adapters.stores.memory_policies import MemoryPolicies, PolicyTables
from ebbtide.model.log import Kinds, LogEntry
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.ports import Clock


@dataclass(slots=True)
class _Log:
    """The entries of one cluster by id, and their ids in order."""

    entries: dict[str, tuple[LogEntry, bytes]] = field(default_factory=dict)
    ids: list[str] = field(default_factory=list)

    def add(self, entry: LogEntry, block: bytes) -> None:
        if entry.id in self.entries:
            return
        self.entries[entry.id] = (replace(entry, data={}), block)
        if not self.ids or self.ids[-1] < entry.id:
            self.ids.append(entry.id)
        else:
            insort(self.ids, entry.id)

    def drop_oldest(self, keep: int) -> None:
        surplus = self.ids[: max(0, len(self.ids) - keep)]
        for entry_id in surplus:
            del self.entries[entry_id]
        del self.ids[: len(surplus)]

    def prune(self, before: int) -> int:
        old = {
            entry.id
            for entry, _ in self.entries.values()
            if entry.at < before and entry.kind not in KEPT_FOR_GOOD
        }
        for entry_id in old:
            del self.entries[entry_id]
        self.ids[:] = [entry_id for entry_id in self.ids if entry_id not in old]
        return len(old)

    def get(self, entry_id: str) -> LogEntry:
        entry, block = self.entries[entry_id]
        return replace(entry, data=unpack(block, entry_id))


class MemoryDatabase:
    """What several handles share: the items of all clusters and their logs.

    `keep_entries` bounds the log of each cluster to about that many of the newest entries, for runs of
    many simulated days; 0 keeps all.
    """

    def __init__(self, keep_entries: int = 0) -> None:
        self.lock = threading.RLock()
        self.items: dict[str, Item] = {}
        self.logs: dict[str, _Log] = {}
        self.policies: dict[str, PolicyTables] = {}
        self.keep_entries = keep_entries


class MemoryStore:
    def __init__(
        self, clock: Clock, cluster: str = "cluster", database: MemoryDatabase | None = None
    ) -> None:
        self._clock = clock
        self._cluster = cluster
        self._key = item_key(cluster)
        self._database = MemoryDatabase() if database is None else database
        self._lock = self._database.lock
        self._items = self._database.items
        self._log = self._database.logs.setdefault(cluster, _Log())
        self._outwaiting = Outwaiting()

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        with self._lock:
            held, now = self._held(name), int(self._clock.now())
            if held.is_anothers(owner, now) and not self._outwaiting.is_over(name, held, now):
                raise held_by_another(name, held, now)
            lease = held.take(name, owner, now, ttl_seconds)
            self._keep(lease)
            return lease

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        with self._lock:
            now = int(self._clock.now())
            held = self._held(lease.name)
            if not held.holds(lease, now):
                raise held.lost(lease)
            renewed = replace(lease, until=now + ttl_seconds)
            self._keep(renewed)
            return renewed

    def release(self, lease: Lease) -> None:
        with self._lock:
            if self._held(lease.name).is_ours(lease):
                self._keep(replace(lease, owner="", until=given_back(lease)))

    def load(self) -> Record:
        with self._lock:
            item = self._items.get(self._key)
            return Record(cluster=self._cluster) if item is None else from_item(item, self._cluster)

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        after = written(record)
        item = to_item(after)
        blocks = [pack(entry.data) for entry in entries]
        with self._lock:
            self._check(record, guard)
            held = self._held(CLUSTER_LEASE)
            item["lockOwner"], item["lockUntilEpoch"], item["lockToken"] = held.owner, held.until, held.token
            self._items[self._key] = item
            self._add(entries, blocks)
        return after

    def append(self, entries: Sequence[LogEntry]) -> None:
        blocks = [pack(entry.data) for entry in entries]
        with self._lock:
            self._add(entries, blocks)

    def read_log(
        self, kinds: Kinds = (), subject: str = "", limit: int = 100, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        found: list[LogEntry] = []
        with self._lock:
            for entry_id in reversed(self._log.ids):
                if len(found) >= limit:
                    break
                if before and entry_id >= before:
                    continue
                entry, _ = self._log.entries[entry_id]
                if (not kinds or entry.kind in kinds) and (not subject or entry.subject == subject):
                    bare = brief and entry.kind in LARGE_KINDS
                    found.append(replace(entry, data={}) if bare else self._log.get(entry_id))
        return found

    def find_entry(self, entry_id: str) -> LogEntry | None:
        with self._lock:
            return self._log.get(entry_id) if entry_id in self._log.entries else None

    def prune_log(self, before: int) -> int:
        with self._lock:
            for pk in [pk for pk, item in self._items.items() if self._is_long_over(pk, item)]:
                del self._items[pk]
            return self._log.prune(before)

    def policies(self) -> MemoryPolicies:
        """The policies of the same cluster in the same database."""
        tables = self._database.policies.setdefault(self._cluster, PolicyTables())
        return MemoryPolicies(self, self._lock, tables)

    def close(self) -> None:
        """Nothing to give back; the database lives on as long as somebody holds it."""

    def _pk(self, lease_name: str) -> str:
        return self._key if lease_name == CLUSTER_LEASE else lock_key(self._cluster, lease_name)

    def _held(self, lease_name: str) -> StoredLease:
        item = self._items.get(self._pk(lease_name))
        if item is None:
            return StoredLease()
        return StoredLease(item.get("lockOwner", ""), item.get("lockUntilEpoch", 0), item.get("lockToken", 0))

    def _keep(self, lease: Lease) -> None:
        pk = self._pk(lease.name)
        item = self._items.setdefault(pk, {"pk": pk})
        item["lockOwner"], item["lockUntilEpoch"], item["lockToken"] = lease.owner, lease.until, lease.token

    def _is_long_over(self, pk: str, item: Item) -> bool:
        return is_lock(pk) and item["lockUntilEpoch"] + LEASES_OUTLIVE_SECONDS < int(self._clock.now())

    def _check(self, record: Record, guard: Lease | None) -> None:
        if guard is not None:
            held = self._held(guard.name)
            if not held.holds(guard, int(self._clock.now())):
                raise held.lost(guard)
        item = self._items.get(self._key, {})
        open_ids = action_ids(item)
        refused = refusal(Stored(item.get("rev", 0), open_ids), record)
        if refused is not None:
            raise refused

    def _add(self, entries: Sequence[LogEntry], blocks: Sequence[bytes]) -> None:
        for entry, block in zip(entries, blocks, strict=True):
            self._log.add(entry, block)
        keep = self._database.keep_entries
        if keep and len(self._log.ids) > keep + keep // 4 + 16:
            self._log.drop_oldest(keep)
