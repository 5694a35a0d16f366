"""The record as an item: the attribute names that every store keeps, and the way back.

The names are a contract with whoever reads the table. An item that lacks what we added (written by
hand, or by another tool of the same contract) is read as far as it goes; one of a newer format is
refused. `scalingInProgress` is written from the operation and checked against it when read.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

import msgspec

from ebbtide.errors import NewerRecord, StoreUnusable
from ebbtide.model.operation import (
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Spot,
)
from ebbtide.model.record import FORMAT_VERSION, Emptied, Missing, OfferRest, Record, Rest

Item = dict[str, Any]
T = TypeVar("T")

OPTIONAL_ATTRIBUTES = (
    "scaleUpActionId",
    "scaleUpStartedEpoch",
    "scaleUpRequested",
    "scaleUpInstanceIds",
    "scaleUpReason",
    "scaleUpSlots",
    "scaleDownActionId",
    "scaleDownStartedEpoch",
    "scaleDownPhase",
    "scaleDownTargetInstanceIds",
    "scaleDownCompletedInstanceIds",
    "scaleDownReason",
    "scaleDownAbortReason",
    "scaleDownRemovals",
    "setAside",
)
"""What an item has only while there is an operation; removed again when that is closed."""


def item_key(cluster: str) -> str:
    return "cluster" if cluster == "cluster" else f"cluster#{cluster}"


def lock_key(cluster: str, lease_name: str) -> str:
    return f"lock#{lease_name}" if cluster == "cluster" else f"lock#{cluster}#{lease_name}"


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
        "tickedEpoch": record.ticked_at,
        "uncleanRuns": record.unclean_runs,
        "launchFailures": record.launch_failures,
        "launchBackoffUntilEpoch": record.launch_backoff_until,
        "removalFailures": record.removal_failures,
        "removalBackoffUntilEpoch": record.removal_backoff_until,
        "removalsPaused": record.paused,
        "pauseReason": record.pause_reason,
        "decisionKey": record.decision_key,
        "decisionLoggedEpoch": record.decision_logged_at,
        "spotOperations": msgspec.to_builtins(record.spots),
        "rests": msgspec.to_builtins(record.rests),
        "offerRests": msgspec.to_builtins(record.offer_rests),
        "orphans": msgspec.to_builtins(record.orphans),
        "lastContainerRemovedAt": {node.node_uid: node.since for node in record.emptied},
    }
    item.update(_operation_to_item(record.operation))
    if record.set_aside is not None:
        item["setAside"] = _operation_to_item(record.set_aside)
    return item


def from_item(item: Mapping[str, Any], cluster: str) -> Record:
    version = item.get("formatVersion", FORMAT_VERSION)
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise NewerRecord(
            f"the record of cluster {cluster!r} has format {version}, this Ebbtide knows {FORMAT_VERSION}: "
            "it was left as it is; run the newer version, or upgrade this one"
        )
    try:
        record = _read(item, cluster, int(version))
    except (msgspec.ValidationError, AttributeError, KeyError, TypeError, ValueError) as error:
        raise StoreUnusable(
            f"the record of cluster {cluster!r} cannot be read ({error}): it was left as it is; "
            "restore it from a backup, or move it away to start afresh"
        ) from error
    if item.get("scalingInProgress", False) != record.scaling_in_progress:
        raise StoreUnusable(
            f"the record of cluster {cluster!r} says scalingInProgress={item.get('scalingInProgress')} "
            "but its operation says otherwise: it was left as it is; set scalingInProgress to match"
        )
    return record


def _read(item: Mapping[str, Any], cluster: str, version: int) -> Record:
    aside = item.get("setAside")
    if aside is not None and not isinstance(aside, Mapping):
        raise ValueError("setAside is no operation")
    return Record(
        cluster=cluster,
        format_version=version,
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
        ticked_at=int(item.get("tickedEpoch", 0)),
        operation=_operation_from_item(item),
        spots=_convert(item.get("spotOperations", ()), tuple[Spot, ...]),
        set_aside=None if aside is None else _operation_from_item(aside),
        unclean_runs=int(item.get("uncleanRuns", 0)),
        launch_failures=int(item.get("launchFailures", 0)),
        launch_backoff_until=int(item.get("launchBackoffUntilEpoch", 0)),
        removal_failures=int(item.get("removalFailures", 0)),
        removal_backoff_until=int(item.get("removalBackoffUntilEpoch", 0)),
        rests=_convert(item.get("rests", ()), tuple[Rest, ...]),
        offer_rests=_convert(item.get("offerRests", ()), tuple[OfferRest, ...]),
        orphans=_convert(item.get("orphans", ()), tuple[Missing, ...]),
        emptied=tuple(
            Emptied(uid, since)
            for uid, since in sorted(_convert(item.get("lastContainerRemovedAt", {}), dict[str, int]).items())
        ),
        paused=bool(item.get("removalsPaused", False)),
        pause_reason=str(item.get("pauseReason", "")),
        decision_key=str(item.get("decisionKey", "")),
        decision_logged_at=int(item.get("decisionLoggedEpoch", 0)),
    )


def _convert(value: Any, into: type[T]) -> T:
    return msgspec.convert(value, into)


def _operation_to_item(operation: Operation | None) -> Item:
    match operation:
        case ScaleUp():
            return {
                "scaleUpActionId": operation.id,
                "scaleUpStartedEpoch": operation.started_at,
                "scaleUpRequested": operation.requested,
                "scaleUpInstanceIds": [slot.instance_id for slot in operation.slots if slot.instance_id],
                "scaleUpReason": operation.reason,
                "scaleUpSlots": msgspec.to_builtins(operation.slots),
            }
        case ScaleDown():
            return {
                "scaleDownActionId": operation.id,
                "scaleDownStartedEpoch": operation.started_at,
                "scaleDownPhase": _phase(operation),
                "scaleDownTargetInstanceIds": [r.instance_id for r in operation.removals],
                "scaleDownCompletedInstanceIds": [
                    r.instance_id for r in operation.removals if r.state is RemovalState.GONE
                ],
                "scaleDownReason": operation.reason,
                "scaleDownAbortReason": operation.abort_reason,
                "scaleDownRemovals": msgspec.to_builtins(operation.removals),
            }
        case None:
            return {}


def _phase(operation: ScaleDown) -> str:
    terminating = any(r.state is RemovalState.TERMINATING for r in operation.removals)
    return "TERMINATING" if terminating else "DRAINING"


def _operation_from_item(item: Mapping[str, Any]) -> Operation | None:
    if "scaleUpActionId" in item and "scaleDownActionId" in item:
        raise ValueError("it holds a scale-up and a scale-down at once")
    if "scaleUpActionId" in item:
        return ScaleUp(
            id=item["scaleUpActionId"],
            started_at=int(item["scaleUpStartedEpoch"]),
            requested=int(item.get("scaleUpRequested", len(item.get("scaleUpInstanceIds", ())))),
            slots=_slots(item),
            reason=str(item.get("scaleUpReason", "")),
        )
    if "scaleDownActionId" in item:
        return ScaleDown(
            id=item["scaleDownActionId"],
            started_at=int(item["scaleDownStartedEpoch"]),
            removals=_removals(item),
            reason=str(item.get("scaleDownReason", "")),
            abort_reason=str(item.get("scaleDownAbortReason", "")),
        )
    return None


def _slots(item: Mapping[str, Any]) -> tuple[Slot, ...]:
    if "scaleUpSlots" in item:
        return _convert(item["scaleUpSlots"], tuple[Slot, ...])
    started = int(item["scaleUpStartedEpoch"])
    return tuple(
        Slot(
            key=f"{item['scaleUpActionId']}-{number}",
            pool="",
            zone="",
            instance_type="",
            state=SlotState.LAUNCHED,
            since=started,
            instance_id=instance_id,
        )
        for number, instance_id in enumerate(item.get("scaleUpInstanceIds", ()))
    )


def _removals(item: Mapping[str, Any]) -> tuple[Removal, ...]:
    if "scaleDownRemovals" in item:
        return _convert(item["scaleDownRemovals"], tuple[Removal, ...])
    completed = set(item.get("scaleDownCompletedInstanceIds", ()))
    started = int(item["scaleDownStartedEpoch"])
    return tuple(
        Removal(
            instance_id=instance_id,
            state=RemovalState.GONE if instance_id in completed else RemovalState.PLANNED,
            since=started,
        )
        for instance_id in item["scaleDownTargetInstanceIds"]
    )
