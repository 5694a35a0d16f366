"""Policies, their states and the days of the ledger as every store keeps them, and the way back.

The whole value is one JSON text, the `body`, and only that is read: ten thousand of them in a fraction of a
second. Next to it stand the columns that the specification names, for people, reports and conditions; they
are written with the body and never read back. Money is a decimal in a string, so nothing is rounded.

Days of the ledger: added up exactly, and the columns that are derived from them. The ledger outlives its
policy. The specification lets its rows go with the policy (`ON DELETE CASCADE`), but money that was saved
stays saved: sums over a month must not change when a policy is deleted in it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from datetime import date
from decimal import ROUND_HALF_UP, Context, Decimal, Inexact, InvalidOperation
from typing import Any, Generic, TypeVar

import msgspec

from ebbtide import typed
from ebbtide.collector import collector_paused
from ebbtide.errors import UNREADABLE, StoreCause, StoreUnusable, Usage
from ebbtide.model.idle import SECONDS_PER_HOUR, IdleState, LedgerDay
from ebbtide.model.log import LogEntry
from ebbtide.model.policy import Policy

FIRST_DAY, LAST_DAY = "0001-01-01", "9999-12-31"
LARGEST_BIGINT = 2**63 - 1
"""The largest number a column can hold. The exact numbers next to it have no limit."""
Key = tuple[str, str, str]

_EXACT = Context(prec=500, traps=[Inexact, InvalidOperation])
_CENTS = Context(prec=500, rounding=ROUND_HALF_UP, traps=[InvalidOperation])
_MONEY = ("idle_price_seconds", "zero_price_seconds", "wake_price_seconds", "realised_price_seconds")


def day_key(day: LedgerDay) -> Key:
    return day.date, day.policy_id, day.currency


def checked_days(policy_id: str, days: Iterable[LedgerDay]) -> list[LedgerDay]:
    """In order, one for each row; `ValueError` for what is not a day of this policy."""
    rows: dict[Key, LedgerDay] = {}
    for day in days:
        if day.policy_id != policy_id:
            raise ValueError(f"a day of {day.policy_id} cannot be written with {policy_id}")
        if not is_policy_id(policy_id):
            raise ValueError(f"{policy_id!r} is not an id of a policy")
        if not all(getattr(day, name).is_finite() for name in _MONEY):
            raise ValueError(f"{day} has a price that is not a number")
        _check_date(day.date)
        key = day_key(day)
        rows[key] = added(rows[key], day) if key in rows else day
    return [rows[key] for key in sorted(rows)]


def day_range(first: str, last: str) -> tuple[str, str]:
    for end in filter(None, (first, last)):
        _check_date(end)
    return first or FIRST_DAY, last or LAST_DAY


def added(row: LedgerDay, day: LedgerDay) -> LedgerDay:
    """Both together. Where their sources differ, the later one is named."""
    return replace(
        row,
        source=day.source or row.source,
        idle_seconds=row.idle_seconds + day.idle_seconds,
        scaled_to_zero_seconds=row.scaled_to_zero_seconds + day.scaled_to_zero_seconds,
        idle_price_seconds=_EXACT.add(row.idle_price_seconds, day.idle_price_seconds),
        zero_price_seconds=_EXACT.add(row.zero_price_seconds, day.zero_price_seconds),
        wakes=row.wakes + day.wakes,
        wake_price_seconds=_EXACT.add(row.wake_price_seconds, day.wake_price_seconds),
        realised_price_seconds=_EXACT.add(row.realised_price_seconds, day.realised_price_seconds),
        unpriced_seconds=row.unpriced_seconds + day.unpriced_seconds,
    )


def savings_cents(day: LedgerDay) -> int:
    """`estimated_savings_cents`: money of the time at zero, rounded only here."""
    return _in_cents(day.zero_price_seconds, SECONDS_PER_HOUR)


def hourly_cost_cents(day: LedgerDay) -> int | None:
    """The hourly price that the day was computed with; the average if it changed."""
    priced = day.scaled_to_zero_seconds - day.unpriced_seconds
    if day.zero_price_seconds and priced > 0:
        return _in_cents(day.zero_price_seconds, priced)
    if day.idle_price_seconds and day.idle_seconds > 0:
        return _in_cents(day.idle_price_seconds, day.idle_seconds)
    return None


def by_day(days: Iterable[LedgerDay]) -> Sequence[LedgerDay]:
    return sorted(days, key=day_key)


def _in_cents(price_seconds: Decimal, seconds: int) -> int:
    hundred = _CENTS.multiply(price_seconds, Decimal(100))
    cents = int(_CENTS.divide(hundred, Decimal(seconds)).quantize(Decimal(1), context=_CENTS))
    return min(max(cents, -LARGEST_BIGINT), LARGEST_BIGINT)


def _check_date(text: str) -> None:
    if date.fromisoformat(text).isoformat() != text:
        raise ValueError(f"{text!r} is not a date such as 2026-01-30")


ENTRIES_IN_WRITE = 50
"""A transaction of DynamoDB holds a hundred items; half of it is left for the months of the ledger."""
LONGEST_NAME = 253
LARGEST_INTEGER = 2**31 - 1
LAST_MOMENT = 253_402_300_799
"""The end of the year 9999, which is as far as the databases' own time goes."""
REMEMBERED_FROM = 1000
KEYS_OUTLIVE_SECONDS = 24 * 3600
"""Keys that ran out are removed this much later, since the clocks of runners differ."""

Row = dict[str, Any]
T = TypeVar("T")

_UUID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_encoder = msgspec.json.Encoder()
_policies = typed.decoder(Policy)


class Bodies(Generic[T]):
    """Reads bodies. What it read in the last long list it knows by its text and need not read again: from
    one round to the next few policies and not all states change."""

    def __init__(self, kind: type[T]) -> None:
        self._kind = kind.__name__
        self._decoder = typed.decoder(kind)
        self._known: dict[str, T] = {}

    def read(self, body: str) -> T:
        try:
            return self._decoder.decode(body)
        except (*UNREADABLE, UnicodeError) as error:
            raise StoreUnusable(
                StoreCause.CORRUPT,
                f"a {self._kind} cannot be read ({error}) in {body[:120]!r}: it was left as it is; "
                "run the newer version of Ebbtide if one wrote it, or restore it from a backup",
            ) from error

    def read_all(self, bodies: Collection[str]) -> list[T]:
        known = self._known
        with collector_paused():
            read = {body: known.get(body) or self.read(body) for body in bodies}
        if len(read) >= REMEMBERED_FROM:
            self._known = read
        return list(read.values())


def is_policy_id(text: str) -> bool:
    """PostgreSQL keeps ids as UUIDs and would refuse anything else even in a question."""
    return _UUID.fullmatch(text) is not None


def policy_body(policy: Policy) -> str:
    """`Usage` where a store could not give back what it was given."""
    if not is_policy_id(policy.id):
        raise Usage(f"the id of a policy is a UUID in small letters, not {policy.id!r}; nothing was changed")
    if not 0 < len(policy.name) <= LONGEST_NAME or not policy.name.isprintable():
        raise Usage(
            f"the name of a policy has 1 to {LONGEST_NAME} printable characters, not {policy.name!r}; "
            "nothing was changed"
        )
    for name, value in policy_columns(policy).items():
        if (
            isinstance(value, int)
            and name not in ("created_at", "updated_at")
            and abs(value) > LARGEST_INTEGER
        ):
            raise Usage(f"{name} of policy {policy.name!r} is too large ({value}); nothing was changed")
    body = _encoder.encode(policy)
    try:
        kept: Policy | None = _policies.decode(body)
    except msgspec.ValidationError:
        kept = None
    if kept != policy:
        raise Usage(
            f"policy {policy.name!r} has a value that cannot be kept, such as a number that is not finite; "
            "nothing was changed"
        )
    return body.decode()


def state_body(state: IdleState) -> str:
    for wake in state.wakes:
        if not (math.isfinite(wake.seconds) and math.isfinite(wake.node_seconds)):
            raise ValueError(f"a wake of {state.policy_id} took {wake.seconds} s: that cannot be kept")
    return _encoder.encode(state).decode()


def policy_columns(policy: Policy) -> Row:
    return {
        "version": policy.version,
        "name": policy.name,
        "enabled": policy.enabled,
        "scale_to_zero": policy.scale_to_zero,
        "min_replicas": policy.min_replicas,
        "max_replicas": policy.max_replicas,
        "cooldown_seconds": policy.cooldown_seconds,
        "max_hourly_cost": None if policy.max_hourly_cost is None else str(policy.max_hourly_cost),
        "idle_threshold_seconds": policy.idle_threshold_seconds,
        "keep_alive_window_seconds": policy.keep_alive_window_seconds,
        "cold_start_timeout_seconds": policy.cold_start_timeout_seconds,
        "created_at": _moment(policy.created_at),
        "updated_at": _moment(policy.updated_at),
    }


def state_columns(state: IdleState) -> Row:
    return {
        "last_activity_at": _moment(state.last_activity_at),
        "idle_since": _moment(state.idle_since),
        "scaled_to_zero_at": _moment(state.scaled_to_zero_at),
        "last_wake_at": _moment(state.last_wake_at),
        "wake_reason": None if state.wake_reason is None else str(state.wake_reason),
        "is_scaled_to_zero": state.is_scaled_to_zero,
    }


def targets_of(policy: Policy) -> tuple[str, ...]:
    """What no other policy may have while this one is enabled, in the order in which it is claimed."""
    if not policy.enabled:
        return ()
    pool = policy.target.pool
    refs = (f"{ref.kind}/{ref.namespace}/{ref.name}" for ref in policy.target.workloads)
    services = policy.gate.services if policy.gate is not None else ()
    gated = {f"Service/{ref.namespace}/{ref.name}" for ref in services}
    return tuple(sorted(({f"pool/{pool}"} if pool else set(refs)) | gated))


def next_policy(policy: Policy) -> Policy:
    return replace(policy, version=policy.version + 1)


def next_state(state: IdleState) -> IdleState:
    return replace(state, rev=state.rev + 1)


def first_state(policy: Policy) -> IdleState:
    """What a policy starts with."""
    return IdleState(policy.id, rev=1, last_activity_at=policy.created_at, stretch_since=policy.created_at)


def one_for_each(states: Sequence[IdleState]) -> Sequence[IdleState]:
    if len({state.policy_id for state in states}) != len(states):
        raise ValueError("a policy has two states in one write; only one can be meant")
    return states


def refuse_twice(policy_ids: Iterable[str]) -> None:
    found = list(policy_ids)
    if len(set(found)) != len(found):
        raise ValueError("a policy is written twice in one call; only one can be meant")


def refuse_too_many(entries: Sequence[LogEntry]) -> None:
    if len(entries) > ENTRIES_IN_WRITE:
        raise ValueError(f"{len(entries)} log entries in one write; at most {ENTRIES_IN_WRITE} are kept")


def _moment(at: int | None) -> int | None:
    return None if at is None else min(max(at, 0), LAST_MOMENT)
