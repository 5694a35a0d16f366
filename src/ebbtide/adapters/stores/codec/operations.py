"""The operations of a record as attributes of its item, and the way back. Each kind has names of its own,
so both lanes are in one item."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import msgspec

from ebbtide import typed
from ebbtide.model.operation import (
    AbortCause,
    Consolidate,
    Move,
    Operation,
    Removal,
    RemovalState,
    Removing,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Source,
)
from ebbtide.model.pool import RemovalReason

Item = dict[str, Any]
T = TypeVar("T")

OPTIONAL_ATTRIBUTES = (
    "scaleUpActionId",
    "scaleUpStartedEpoch",
    "scaleUpRequested",
    "scaleUpInstanceIds",
    "scaleUpReason",
    "scaleUpSlots",
    "scaleUpExtendedEpoch",
    "scaleDownActionId",
    "scaleDownStartedEpoch",
    "scaleDownPhase",
    "scaleDownTargetInstanceIds",
    "scaleDownCompletedInstanceIds",
    "scaleDownReason",
    "scaleDownAbortReason",
    "scaleDownAbortCause",
    "scaleDownRemovals",
    "scaleDownOnlyEmpty",
    "scaleDownExcused",
    "scaleDownCause",
    "scaleDownSlots",
    "consolidateActionId",
    "consolidateStartedEpoch",
    "consolidateReason",
    "consolidateAbortReason",
    "consolidateAbortCause",
    "consolidateSavingsPerHour",
    "consolidateCurrency",
    "consolidateSlots",
    "consolidateSources",
    "consolidateMoves",
    "consolidateWatchedSinceEpoch",
    "setAside",
    "underusedSinceEpoch",
    "unwellNodes",
    "unfitNodes",
    "headroomSeen",
    "recentDemand",
    "drainFailures",
    "launchBackoffOffers",
    "refusedRemovals",
    "uncleanRemovalRuns",
    "consolidationSaving",
    "refusedOffers",
)
"""What an item has only if there is something to say; a write without it removes the old value."""
REMOVING_IDS = ("scaleDownActionId", "consolidateActionId")


def action_ids(item: Mapping[str, Any]) -> tuple[str, str]:
    """The launching and the removing operation in progress; empty where there is none."""
    removing = next((str(item[name]) for name in REMOVING_IDS if name in item), "")
    return str(item.get("scaleUpActionId", "")), removing


def operations_to_item(operations: Iterable[Operation]) -> Item:
    """At most one of each lane."""
    return {name: value for one in operations for name, value in _to_item(one).items()}


def _to_item(operation: Operation) -> Item:
    match operation:
        case ScaleUp():
            return {
                "scaleUpActionId": operation.id,
                "scaleUpStartedEpoch": operation.started_at,
                "scaleUpRequested": operation.requested,
                "scaleUpInstanceIds": [slot.instance_id for slot in operation.slots if slot.instance_id],
                "scaleUpReason": operation.reason,
                "scaleUpSlots": [slot_to_item(slot) for slot in operation.slots],
                **({"scaleUpExtendedEpoch": operation.extended_at} if operation.extended_at else {}),
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
                **({"scaleDownAbortCause": operation.abort_cause.value} if operation.abort_cause else {}),
                "scaleDownRemovals": [removal_to_item(removal) for removal in operation.removals],
                "scaleDownOnlyEmpty": operation.only_empty,
                **({"scaleDownExcused": True} if operation.excused else {}),
                **_replacing(operation),
            }
        case Consolidate():
            return {
                "consolidateActionId": operation.id,
                "consolidateStartedEpoch": operation.started_at,
                "consolidateReason": operation.reason,
                "consolidateAbortReason": operation.abort_reason,
                **({"consolidateAbortCause": operation.abort_cause.value} if operation.abort_cause else {}),
                "consolidateSavingsPerHour": str(operation.savings_per_hour),
                "consolidateCurrency": operation.currency,
                "consolidateSlots": [slot_to_item(slot) for slot in operation.slots],
                "consolidateSources": msgspec.to_builtins(operation.sources),
                "consolidateMoves": msgspec.to_builtins(operation.moves),
                "consolidateWatchedSinceEpoch": operation.watched_since,
            }


def _replacing(operation: ScaleDown) -> Item:
    item: Item = {}
    if operation.cause is not RemovalReason.IDLE:
        item["scaleDownCause"] = operation.cause.value
    if operation.slots:
        item["scaleDownSlots"] = [slot_to_item(slot) for slot in operation.slots]
    return item


def slot_to_item(slot: Slot) -> Item:
    """As for a removal: what came later is written only where it says something."""
    item: Item = msgspec.to_builtins(slot)
    for name in ("terminated", "missing_since", "shut_since", "why", "unfit"):
        if not item[name]:
            del item[name]
    return item


def removal_to_item(removal: Removal) -> Item:
    """What came to a removal later is written only where it says something: others read it as they always
    have."""
    item: Item = msgspec.to_builtins(removal)
    for name in ("refused_since", "unhealthy", "why", "about"):
        if not item[name]:
            del item[name]
    return item


def _phase(operation: ScaleDown) -> str:
    terminating = any(r.state is RemovalState.TERMINATING for r in operation.removals)
    return "TERMINATING" if terminating else "DRAINING"


def launching_from_item(item: Mapping[str, Any]) -> ScaleUp | None:
    if "scaleUpActionId" not in item:
        return None
    return ScaleUp(
        id=item["scaleUpActionId"],
        started_at=int(item["scaleUpStartedEpoch"]),
        requested=int(item.get("scaleUpRequested", len(item.get("scaleUpInstanceIds", ())))),
        slots=_slots(item),
        reason=str(item.get("scaleUpReason", "")),
        extended_at=int(item.get("scaleUpExtendedEpoch", 0)),
    )


def removing_from_item(item: Mapping[str, Any]) -> Removing | None:
    if all(name in item for name in REMOVING_IDS):
        raise ValueError("it holds two operations that remove nodes")
    if "scaleDownActionId" in item:
        return ScaleDown(
            id=item["scaleDownActionId"],
            started_at=int(item["scaleDownStartedEpoch"]),
            removals=_removals(item),
            reason=str(item.get("scaleDownReason", "")),
            abort_reason=str(item.get("scaleDownAbortReason", "")),
            abort_cause=_cause(item, "scaleDown"),
            only_empty=bool(item.get("scaleDownOnlyEmpty", False)),
            excused=bool(item.get("scaleDownExcused", False)),
            cause=RemovalReason(item.get("scaleDownCause", RemovalReason.IDLE)),
            replacements=convert(item.get("scaleDownSlots", ()), tuple[Slot, ...]),
        )
    if "consolidateActionId" in item:
        return Consolidate(
            id=item["consolidateActionId"],
            started_at=int(item["consolidateStartedEpoch"]),
            slots=convert(item["consolidateSlots"], tuple[Slot, ...]),
            sources=convert(item["consolidateSources"], tuple[Source, ...]),
            moves=convert(item["consolidateMoves"], tuple[Move, ...]),
            savings_per_hour=_decimal(item.get("consolidateSavingsPerHour", "0")),
            currency=str(item.get("consolidateCurrency", "")),
            reason=str(item.get("consolidateReason", "")),
            abort_reason=str(item.get("consolidateAbortReason", "")),
            abort_cause=_cause(item, "consolidate"),
            watched_since=int(item.get("consolidateWatchedSinceEpoch", 0)),
        )
    return None


def _cause(item: Mapping[str, Any], kind: str) -> AbortCause:
    """One that only a newer version knows is some other cause; the reason says it all the same. Without a
    reason it was left behind by a version that does not know the attribute, and so did not remove it."""
    text = item.get(f"{kind}AbortCause", "") if item.get(f"{kind}AbortReason") else ""
    return AbortCause(text) if text in set(AbortCause) else AbortCause.OTHER


def _decimal(text: Any) -> Decimal:
    try:
        return Decimal(str(text))
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is not an amount") from error


def _slots(item: Mapping[str, Any]) -> tuple[Slot, ...]:
    if "scaleUpSlots" in item:
        return convert(item["scaleUpSlots"], tuple[Slot, ...])
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
        return convert(item["scaleDownRemovals"], tuple[Removal, ...])
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


def convert(value: Any, into: type[T]) -> T:
    return typed.convert(value, into)
