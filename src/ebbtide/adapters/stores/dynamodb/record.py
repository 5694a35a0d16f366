"""The update expressions of the record and of its leases, each with the condition it stands or falls by, and
one transaction: conditional steps together with the log entries that tell of them.

The specification's conditions are here: a lock is taken when nobody has it or `lockUntilEpoch < now` (one
without an end, which another tool left, has run out: it would be held forever); an operation begins only
when `scalingInProgress` is not true, or next to one of the other lane, and continues only under its own
action id. Ours come on top: `rev` for every write, owner and token of the lease for every guarded one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from ebbtide.adapters.stores.codec.operations import OPTIONAL_ATTRIBUTES
from ebbtide.adapters.stores.codec.record import to_item
from ebbtide.adapters.stores.dynamodb.tables import TTL_ATTRIBUTE, ConditionFailed, translated
from ebbtide.adapters.stores.guards import Attempt, StoredLease, action_ids
from ebbtide.model.record import CLUSTER_LEASE, Lease


def transact(client: Any, where: str, steps: Sequence[Any], puts: Sequence[Any]) -> None:
    """All or nothing. An entry that is there already stays as it is and does not stop the rest."""
    try:
        with translated(where):
            client.transact_write_items(TransactItems=[*steps, *({"Put": put} for put in puts)])
    except ConditionFailed as refused:
        if any(place < len(steps) for place in refused.at):
            raise
        there = {place - len(steps) for place in refused.at}
        transact(client, where, steps, [put for place, put in enumerate(puts) if place not in there])


Wire = dict[str, Any]


def to_wire(value: Any) -> Wire:
    match value:
        case None:
            return {"NULL": True}
        case bool():
            return {"BOOL": value}
        case int():
            return {"N": str(value)}
        case str():
            return {"S": value}
        case bytes():
            return {"B": value}
        case dict():
            return {"M": {name: to_wire(part) for name, part in value.items()}}
        case list() | tuple():
            return {"L": [to_wire(part) for part in value]}
    raise TypeError(f"{type(value).__name__} has no place in a record")


def from_wire(wire: Mapping[str, Any]) -> Any:
    ((kind, value),) = wire.items()
    match kind:
        case "S" | "B" | "BOOL":
            return value
        case "N":
            return int(value) if value.lstrip("-").isdigit() else float(value)
        case "L":
            return [from_wire(part) for part in value]
        case "M":
            return from_wire_item(value)
        case "NULL":
            return None
        case "SS" | "BS":
            return list(value)
        case "NS":
            return [from_wire({"N": part}) for part in value]
    raise ValueError(f"an attribute of type {kind} is not understood")


def to_wire_item(item: Mapping[str, Any]) -> Wire:
    return {name: to_wire(value) for name, value in item.items()}


def from_wire_item(wire: Mapping[str, Any]) -> dict[str, Any]:
    return {name: from_wire(value) for name, value in wire.items()}


OUTBOX = "logOutbox"
NOTHING_IN_OUTBOX = f"attribute_not_exists({OUTBOX})"

TAKE = "SET lockOwner = :owner, lockUntilEpoch = :until"
OURS = "lockOwner = :owner AND lockToken = :token"
HELD = f"{OURS} AND lockUntilEpoch >= :now"
FREE = (
    "attribute_not_exists(lockOwner) OR lockOwner = :nobody OR attribute_not_exists(lockUntilEpoch)"
    " OR (lockOwner <> :owner AND lockUntilEpoch < :now)"
)
AS_SEEN = "lockOwner = :heldOwner AND lockToken = :heldToken AND lockUntilEpoch = :heldUntil"
NEVER_WRITTEN = "(attribute_not_exists(rev) OR rev = :expectedRev)"
STILL_AT_REV = "rev = :expectedRev"
NONE_OPEN = "attribute_not_exists(scalingInProgress) OR scalingInProgress = :no"
ONLY_LAUNCH = f"({NONE_OPEN} OR scaleUpActionId = :launching)"
ONLY_REMOVAL = f"({NONE_OPEN} OR scaleDownActionId = :removing OR consolidateActionId = :removing)"
BOTH_LANES = (
    "(attribute_not_exists(scaleUpActionId) OR scaleUpActionId = :launching)"
    " AND (attribute_not_exists(scaleDownActionId) OR scaleDownActionId = :removing)"
    " AND (attribute_not_exists(consolidateActionId) OR consolidateActionId = :removing)"
)
_KEPT_BY_THE_LEASE = frozenset({"pk", "lockOwner", "lockUntilEpoch", "lockToken"})


def take_lease(lease: Lease, now: int, expires: int) -> dict[str, Any]:
    return {
        "UpdateExpression": f"{TAKE}{_expiry(lease)} ADD lockToken :one",
        "ConditionExpression": FREE,
        "ExpressionAttributeValues": _values(owner=lease.owner, until=lease.until, now=now, one=1, nobody="")
        | _expiry_value(lease, expires),
    }


def take_over_lease(lease: Lease, held: StoredLease, expires: int) -> dict[str, Any]:
    """One that was outwaited, if nobody has renewed it since it was seen."""
    seen = _values(heldOwner=held.owner, heldToken=held.token, heldUntil=held.until)
    return {
        "UpdateExpression": f"{TAKE}{_expiry(lease)} ADD lockToken :one",
        "ConditionExpression": AS_SEEN,
        "ExpressionAttributeValues": _values(owner=lease.owner, until=lease.until, one=1)
        | seen
        | _expiry_value(lease, expires),
    }


def keep_lease(lease: Lease, expires: int) -> dict[str, Any]:
    """Ours already, under this token: only its end moves, also when it has run out."""
    return {
        "UpdateExpression": f"SET lockUntilEpoch = :until{_expiry(lease)}",
        "ConditionExpression": OURS,
        "ExpressionAttributeValues": _values(owner=lease.owner, token=lease.token, until=lease.until)
        | _expiry_value(lease, expires),
    }


def renew_lease(lease: Lease, now: int, expires: int) -> dict[str, Any]:
    return {
        "UpdateExpression": f"SET lockUntilEpoch = :until{_expiry(lease)}",
        "ConditionExpression": HELD,
        "ExpressionAttributeValues": _values(owner=lease.owner, token=lease.token, until=lease.until, now=now)
        | _expiry_value(lease, expires),
    }


def release_lease(lease: Lease) -> dict[str, Any]:
    return {
        "UpdateExpression": "SET lockOwner = :nobody, lockUntilEpoch = :zero",
        "ConditionExpression": OURS,
        "ExpressionAttributeValues": _values(owner=lease.owner, token=lease.token, nobody="", zero=0),
    }


def guard_check(guard: Lease, now: int) -> dict[str, Any]:
    return {
        "ConditionExpression": HELD,
        "ExpressionAttributeValues": _values(owner=guard.owner, token=guard.token, now=now),
    }


def record_update(attempt: Attempt, now: int, outbox: list[Wire]) -> dict[str, Any]:
    """Set what the record has, remove what it no longer has, leave the lease to itself."""
    item = to_item(attempt.record)
    item |= {"rev": attempt.record.rev + 1, "nonce": attempt.nonce}
    wanted = {name: to_wire(value) for name, value in item.items() if name not in _KEPT_BY_THE_LEASE}
    conditions = [STILL_AT_REV if attempt.record.rev else NEVER_WRITTEN]
    values = _values(expectedRev=attempt.record.rev)
    launching, removing = action_ids(attempt.record)
    if launching and removing:
        conditions.append(BOTH_LANES)
        values |= _values(launching=launching, removing=removing)
    elif launching:
        conditions.append(ONLY_LAUNCH)
        values |= _values(no=False, launching=launching)
    elif removing:
        conditions.append(ONLY_REMOVAL)
        values |= _values(no=False, removing=removing)
    if attempt.guard is not None and attempt.guard.name == CLUSTER_LEASE:
        check = guard_check(attempt.guard, now)
        conditions.append(check["ConditionExpression"])
        values |= check["ExpressionAttributeValues"]
    if outbox:
        conditions.append(NOTHING_IN_OUTBOX)
        wanted[OUTBOX] = {"L": [{"M": head} for head in outbox]}
    sets = ", ".join(f"#{name} = :new_{name}" for name in wanted)
    gone = [name for name in OPTIONAL_ATTRIBUTES if name not in wanted]
    removes = f" REMOVE {', '.join(gone)}" if gone else ""
    return {
        "UpdateExpression": f"SET {sets}{removes}",
        "ConditionExpression": " AND ".join(conditions),
        "ExpressionAttributeNames": {f"#{name}": name for name in wanted},
        "ExpressionAttributeValues": values | {f":new_{name}": value for name, value in wanted.items()},
    }


def _values(**values: Any) -> Wire:
    return {f":{name}": to_wire(value) for name, value in values.items()}


def _expiry(lease: Lease) -> str:
    return "" if lease.name == CLUSTER_LEASE else f", {TTL_ATTRIBUTE} = :expires"


def _expiry_value(lease: Lease, expires: int) -> Wire:
    return {} if lease.name == CLUSTER_LEASE else _values(expires=expires)
