"""The operation of a record as attributes of its item, and the way back."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Any, TypeVar

import msgspec

from ebbtide.model.operation import (
    Consolidate,
    Move,
    Operation,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Source,
)

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
    "scaleDownOnlyEmpty",
    "consolidateActionId",
    "consolidateStartedEpoch",
    "consolidateReason",
    "consolidateAbortReason",
    "consolidateSavingsPerHour",
    "consolidateCurrency",
    "consolidateSlots",
    "consolidateSources",
    "consolidateMoves",
    "consolidateWatchedSinceEpoch",
    "setAside",
)
"""What an item has only while there is an operation; removed again when that is closed."""
ACTION_IDS = ("scaleUpActionId", "scaleDownActionId", "consolidateActionId")


def action_id(item: Mapping[str, Any]) -> str:
    """The operation under way; empty where there is none."""
    return next((str(item[name]) for name in ACTION_IDS if name in item), "")


def operation_to_item(operation: Operation | None) -> Item:
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
                "scaleDownOnlyEmpty": operation.only_empty,
            }
        case Consolidate():
            return {
                "consolidateActionId": operation.id,
                "consolidateStartedEpoch": operation.started_at,
                "consolidateReason": operation.reason,
                "consolidateAbortReason": operation.abort_reason,
                "consolidateSavingsPerHour": str(operation.savings_per_hour),
                "consolidateCurrency": operation.currency,
                "consolidateSlots": msgspec.to_builtins(operation.slots),
                "consolidateSources": msgspec.to_builtins(operation.sources),
                "consolidateMoves": msgspec.to_builtins(operation.moves),
                "consolidateWatchedSinceEpoch": operation.watched_since,
            }
        case None:
            return {}


def _phase(operation: ScaleDown) -> str:
    terminating = any(r.state is RemovalState.TERMINATING for r in operation.removals)
    return "TERMINATING" if terminating else "DRAINING"


def operation_from_item(item: Mapping[str, Any]) -> Operation | None:
    if sum(name in item for name in ACTION_IDS) > 1:
        raise ValueError("it holds several operations at once")
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
            only_empty=bool(item.get("scaleDownOnlyEmpty", False)),
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
            watched_since=int(item.get("consolidateWatchedSinceEpoch", 0)),
        )
    return None


def _decimal(text: Any) -> Decimal:
    try:
        return Decimal(str(text))
    except InvalidOperation as error:
        raise ValueError(f"{text!r} is no amount") from error


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
    return msgspec.convert(value, into)
