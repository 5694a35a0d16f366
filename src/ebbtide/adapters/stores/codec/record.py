"""The record and log entries as items of a store, and back.

The attribute names are a contract with every reader of the table. Attributes that we added may be missing,
if a person or another tool wrote the item. An item of a newer format is refused. `scalingInProgress` is
derived from the operations; if it contradicts them, the operations count.

Format 1 holds one operation. Format 2 is written only while that is not enough (both lanes open, or a
removal set aside), format 3 only while a removal waits for its replacement. So a version that knows only
format 1 can continue as soon as neither is the case.

The data of a log entry is one block of bytes: JSON if it is small, so it is readable in the table, else
zlib. The first byte tells them apart (`{` is JSON). Entries of unknown kinds are skipped when reading: a
newer version wrote them.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, TypeVar, cast

import msgspec

from ebbtide import typed
from ebbtide.adapters.stores.codec.operations import (
    Item,
    convert,
    launching_from_item,
    operations_to_item,
    removal_to_item,
    removing_from_item,
    slot_to_item,
)
from ebbtide.errors import UNREADABLE, NewerRecord, StoreCause, StoreUnusable
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import Spot
from ebbtide.model.pool import HeadroomSeen
from ebbtide.model.record import (
    FORMAT_VERSION,
    PLAIN_FORMAT,
    CapacityBackoff,
    Counted,
    DemandNote,
    DrainBackoff,
    DrainFailures,
    Emptied,
    EmptiedNode,
    Missing,
    Record,
    Refused,
    RefusedOffer,
    Saving,
    UnfitNode,
    Unwell,
)

T = TypeVar("T")

COMPRESS_ABOVE_BYTES = 1024
KNOWN_KINDS = frozenset(LogKind)
LARGE_KINDS = frozenset({LogKind.DECISION})
"""These have all with them that was seen; in brief they are read without."""
KEPT_FOR_GOOD = frozenset({LogKind.STRETCH})
"""The ledger is rebuilt from these: they neither expire nor are pruned."""

_encoder = msgspec.json.Encoder()
_decoder = typed.decoder(dict[str, object])


def pack(data: Mapping[str, object]) -> bytes:
    if not data:
        return b"{}"
    plain = _encoder.encode(data)
    return plain if len(plain) <= COMPRESS_ABOVE_BYTES else zlib.compress(plain, 1)


def unpack(block: bytes, entry_id: str) -> dict[str, object]:
    try:
        return _decoder.decode(block if block[:1] == b"{" else zlib.decompress(block))
    except (zlib.error, *UNREADABLE) as error:
        raise StoreUnusable(
            StoreCause.CORRUPT,
            f"the data of log entry {entry_id!r} cannot be read ({error}): restore it from a backup",
        ) from error


def distinct(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Of entries that share an id the first one counts."""
    first: dict[str, LogEntry] = {}
    for entry in entries:
        first.setdefault(entry.id, entry)
    return list(first.values())


def log_rows(cluster: str, entries: Iterable[LogEntry]) -> list[dict[str, Any]]:
    """The rows of the SQL log."""
    return [
        {
            "cluster": cluster,
            "id": entry.id,
            "at": entry.at,
            "kind": str(entry.kind),
            "subject": entry.subject,
            "says": entry.says,
            "data": pack(entry.data),
        }
        for entry in distinct(entries)
    ]


LOCKS = "lock#"
"""How the keys of leases other than a cluster's begin."""


def item_key(cluster: str) -> str:
    return "cluster" if cluster == "cluster" else f"cluster#{cluster}"


def is_lock(pk: str) -> bool:
    return pk.startswith(LOCKS)


def lock_key(cluster: str, lease_name: str) -> str:
    return f"{LOCKS}{lease_name}" if cluster == "cluster" else f"{LOCKS}{cluster}#{lease_name}"


def to_item(record: Record) -> Item:
    item: Item = {
        "pk": item_key(record.cluster),
        "formatVersion": record.format_version,
        "rev": record.rev,
        "lockOwner": record.lock_owner,
        "lockUntilEpoch": record.lock_until,
        "lockToken": record.lock_token,
        "scalingInProgress": record.scaling_in_progress,
        "lastScaleEpoch": record.last_scale_at,
        "pendingSinceEpoch": record.pending_since,
        "idleSinceEpoch": record.idle_since,
        "shortSinceEpoch": record.short_since,
        "workerCount": record.worker_count,
        "podCount": record.pod_count,
        "shrunkSinceEpoch": record.shrunk_since,
        "countedNodes": msgspec.to_builtins(record.counted),
        "countedNodesBefore": msgspec.to_builtins(record.counted_before),
        "tickedEpoch": record.ticked_at,
        "uncleanRuns": _unclean_runs(record),
        "launchFailures": record.launch_failures,
        "launchBackoffUntilEpoch": record.launch_backoff_until,
        "removalFailures": record.removal_failures,
        "removalBackoffUntilEpoch": record.removal_backoff_until,
        "removalsPaused": record.paused,
        "pauseReason": record.pause_reason,
        "decisionKey": record.decision_key,
        "decisionLoggedEpoch": record.decision_logged_at,
        "lastSaid": record.last_said,
        "spotOperations": [_spot_to_item(spot) for spot in record.spots],
        "rests": msgspec.to_builtins(record.rests),
        "offerRests": msgspec.to_builtins(record.offer_rests),
        "orphans": msgspec.to_builtins(record.orphans),
        "lastContainerRemovedAt": {node.node_uid: node.since for node in record.emptied},
        "lastConsolidationEpoch": record.last_consolidation_at,
        "consolidationsInVain": record.consolidations_in_vain,
        "consolidationOwes": record.consolidation_owes,
        "consolidationEvictionEpochs": list(record.evictions),
        "leaving": msgspec.to_builtins(record.leaving),
    }
    item.update(operations_to_item(record.operations))
    if record.launching is not None and record.removing is not None:
        item["uncleanRemovalRuns"] = record.unclean_removal_runs
    if record.all_set_aside:
        item["setAside"] = operations_to_item(record.all_set_aside)
    if record.refused:
        item["refusedRemovals"] = msgspec.to_builtins(record.refused)
    if record.refused_offers:
        item["refusedOffers"] = msgspec.to_builtins(record.refused_offers)
    if record.underused:
        item["underusedSinceEpoch"] = {node.node_uid: node.since for node in record.underused}
    if record.unwell:
        item["unwellNodes"] = msgspec.to_builtins(record.unwell)
    if record.unfit:
        item["unfitNodes"] = msgspec.to_builtins(record.unfit)
    if record.headroom:
        item["headroomSeen"] = msgspec.to_builtins(record.headroom)
    if record.launch_backoff_offers:
        item["launchBackoffOffers"] = list(record.launch_backoff_offers)
    if record.drain_failures:
        item["drainFailures"] = msgspec.to_builtins(record.drain_failures)
    if record.saving is not None:
        item["consolidationSaving"] = msgspec.to_builtins(record.saving)
    if record.demand:
        item["recentDemand"] = msgspec.to_builtins(record.demand)
    return item


def _since_by_node(raw: Any) -> tuple[Emptied, ...]:
    return tuple(Emptied(uid, since) for uid, since in sorted(convert(raw, dict[str, int]).items()))


def _spot_to_item(spot: Spot) -> Item:
    item: Item = msgspec.to_builtins(spot)
    if spot.removal is not None:
        item["removal"] = removal_to_item(spot.removal)
    if spot.slot is not None:
        item["slot"] = slot_to_item(spot.slot)
    return item


def _unclean_runs(record: Record) -> int:
    """Of the only open operation, as format 1 has it; of the launching one where both lanes are open."""
    only_removing = record.launching is None and record.removing is not None
    return record.unclean_removal_runs if only_removing else record.unclean_runs


def from_item(item: Mapping[str, Any], cluster: str) -> Record:
    version = item.get("formatVersion", PLAIN_FORMAT)
    if isinstance(version, int) and version > FORMAT_VERSION:
        # Crash table: newer-record. It may hold what this version would lose.
        raise NewerRecord(
            f"the record of cluster {cluster!r} has format {version}, this Ebbtide knows {FORMAT_VERSION}: "
            "it was left as it is; run the newer version, or upgrade this one"
        )
    try:
        int(version)
        record = _read(item, cluster)
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreUnusable(
            StoreCause.CORRUPT,
            f"the record of cluster {cluster!r} cannot be read ({error}): it was left as it is; "
            "restore it from a backup, or move it away to start empty",
        ) from error
    found = tuple(_contradictions(item, record))
    return replace(record, contradictions=found) if found else record


def _contradictions(item: Mapping[str, Any], record: Record) -> Iterator[str]:
    """What another tool, or a person, left half written. Neither may stop all scaling forever."""
    said = item.get("scalingInProgress", False)
    if said != record.scaling_in_progress:
        holds = "it holds an operation" if record.scaling_in_progress else "it holds no operation"
        yield (
            f"the record of cluster {record.cluster!r} says scalingInProgress={said} although {holds}: the "
            "attribute is set to match, and scaling continues"
        )
    if record.lock_owner and not record.lock_until:
        yield (
            f"the lock of cluster {record.cluster!r} is held by {record.lock_owner} and has no end "
            "(lockUntilEpoch): it counts as run out, and is taken"
        )


def _many(item: Mapping[str, Any], name: str, kind: type[T]) -> T:
    """A tuple of these; most are empty most of the time."""
    raw = item.get(name, ())
    return cast("T", ()) if raw in ([], ()) else convert(raw, kind)


def _saving(raw: Any) -> Saving | None:
    saving: Saving | None = convert(raw, Saving | None)  # type: ignore[arg-type]  # mypy wants a class
    if saving is not None and not (saving.promised.is_finite() and saving.cost_before.is_finite()):
        raise ValueError(f"{raw!r} is not an amount")
    return saving


def _read(item: Mapping[str, Any], cluster: str) -> Record:
    aside = item.get("setAside")
    if aside is not None and not isinstance(aside, Mapping):
        raise ValueError("setAside is not an operation")
    launching, removing = launching_from_item(item), removing_from_item(item)
    runs, removal_runs = int(item.get("uncleanRuns", 0)), int(item.get("uncleanRemovalRuns", 0))
    if launching is None and removing is not None:
        runs, removal_runs = 0, runs
    return Record(
        cluster=cluster,
        rev=int(item.get("rev", 0)),
        lock_owner=str(item.get("lockOwner", "")),
        lock_until=int(item.get("lockUntilEpoch", 0)),
        lock_token=int(item.get("lockToken", 0)),
        last_scale_at=int(item.get("lastScaleEpoch", 0)),
        pending_since=int(item.get("pendingSinceEpoch", 0)),
        idle_since=int(item.get("idleSinceEpoch", 0)),
        short_since=int(item.get("shortSinceEpoch", 0)),
        worker_count=int(item.get("workerCount", 0)),
        pod_count=int(item.get("podCount", 0)),
        shrunk_since=int(item.get("shrunkSinceEpoch", 0)),
        counted=_many(item, "countedNodes", tuple[Counted, ...]),
        counted_before=_many(item, "countedNodesBefore", tuple[Counted, ...]),
        ticked_at=int(item.get("tickedEpoch", 0)),
        launching=launching,
        removing=removing,
        spots=_many(item, "spotOperations", tuple[Spot, ...]),
        refused=_many(item, "refusedRemovals", tuple[Refused, ...]),
        launching_aside=None if aside is None else launching_from_item(aside),
        removing_aside=None if aside is None else removing_from_item(aside),
        unclean_runs=runs,
        unclean_removal_runs=removal_runs,
        launch_failures=int(item.get("launchFailures", 0)),
        launch_backoff_until=int(item.get("launchBackoffUntilEpoch", 0)),
        launch_backoff_offers=convert(item.get("launchBackoffOffers", ()), tuple[str, ...]),
        removal_failures=int(item.get("removalFailures", 0)),
        removal_backoff_until=int(item.get("removalBackoffUntilEpoch", 0)),
        rests=_many(item, "rests", tuple[DrainBackoff, ...]),
        drain_failures=_many(item, "drainFailures", tuple[DrainFailures, ...]),
        offer_rests=_many(item, "offerRests", tuple[CapacityBackoff, ...]),
        refused_offers=_many(item, "refusedOffers", tuple[RefusedOffer, ...]),
        orphans=_many(item, "orphans", tuple[Missing, ...]),
        emptied=_since_by_node(item.get("lastContainerRemovedAt", {})),
        underused=_since_by_node(item.get("underusedSinceEpoch", {})),
        unwell=_many(item, "unwellNodes", tuple[Unwell, ...]),
        unfit=_many(item, "unfitNodes", tuple[UnfitNode, ...]),
        headroom=_many(item, "headroomSeen", tuple[HeadroomSeen, ...]),
        demand=_many(item, "recentDemand", tuple[DemandNote, ...]),
        last_consolidation_at=int(item.get("lastConsolidationEpoch", 0)),
        consolidations_in_vain=int(item.get("consolidationsInVain", 0)),
        consolidation_owes=int(item.get("consolidationOwes", 0)),
        saving=_saving(item.get("consolidationSaving")),
        evictions=_many(item, "consolidationEvictionEpochs", tuple[int, ...]),
        leaving=_many(item, "leaving", tuple[EmptiedNode, ...]),
        paused=bool(item.get("removalsPaused", False)),
        pause_reason=str(item.get("pauseReason", "")),
        decision_key=str(item.get("decisionKey", "")),
        decision_logged_at=int(item.get("decisionLoggedEpoch", 0)),
        last_said=str(item.get("lastSaid", "")),
    )
