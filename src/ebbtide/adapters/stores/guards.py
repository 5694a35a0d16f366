"""The conditions that all stores share: who may take a lease, who holds it, why a write is refused, and
when a call is repeated.

Nothing here talks to a database. Each store states the same conditions in its own language, where the data
is, and uses this module to explain a refusal.

Seconds are whole numbers. A lease is held up to and including `until`; after that, another runner may take
it.

`repeat` repeats a call a limited number of times, with jitter, if its reply was lost or the store is too
busy. After a lost reply, only a definite answer counts; otherwise it raises `Unanswered`.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ebbtide.core.words import a_time
from ebbtide.errors import (
    Conflict,
    EbbtideError,
    KeyUsed,
    LeaseLost,
    NameTaken,
    Retryable,
    StoreUnusable,
    TargetTaken,
    Throttled,
    Unanswered,
    Usage,
)
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy
from ebbtide.model.record import CLUSTER_LEASE, LONGEST_LEASE_SECONDS, Lease, Record, changed
from ebbtide.ports import Clock

ATTEMPTS = 4
ATTEMPTS_WHEN_THROTTLED = 8
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
T = TypeVar("T")


def repeat(clock: Clock, call: Callable[[bool], T], lost: Unanswered | None = None) -> T:
    """`call` gets whether an earlier reply was lost, so whether it may have been done already; `lost` is
    one that was lost before."""
    failures = throttles = 0
    while True:
        try:
            return call(lost is not None)
        except Unanswered as error:
            lost = error
            failures += 1
        except Throttled as error:
            throttles += 1
            if throttles >= ATTEMPTS_WHEN_THROTTLED:
                raise lost or error from error
        except (Retryable, StoreUnusable) as error:
            failures += 1
            # Crash table: write-reply-lost. The nonce shows whether the write was ours.
            if lost is None:
                raise
            # Only the lost reply says what may have happened; this error says nothing was done now.
            if isinstance(error, StoreUnusable):
                raise lost from error
        if lost is not None and failures >= ATTEMPTS:
            raise lost
        clock.sleep(_pause_seconds(failures + throttles))


def _pause_seconds(number: int) -> float:
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
    return random.uniform(longest / 2, longest)


LEASES_OUTLIVE_SECONDS = 400 * 24 * 3600
"""How long the lease of an instance is remembered after its end. Its token fences what is done to a node, so
it must not begin again while that node may stand."""


def written(record: Record) -> Record:
    """The record as a write leaves it, one `rev` on."""
    return changed(record, rev=record.rev + 1)


@dataclass(frozen=True, slots=True)
class StoredLease:
    """The lease fields of an item as they are stored."""

    owner: str = ""
    until: int = 0
    token: int = 0

    def is_anothers(self, owner: str, now: int) -> bool:
        return bool(self.owner) and self.owner != owner and self.until >= now

    def take(self, name: str, owner: str, now: int, ttl_seconds: int) -> Lease:
        # A new holder gets a new token, so calls of the one before can be told apart and refused.
        token = self.token if self.owner == owner else self.token + 1
        return Lease(name, owner, token, now + ttl_seconds)

    def is_ours(self, lease: Lease) -> bool:
        return self.owner == lease.owner and self.token == lease.token

    def holds(self, lease: Lease, now: int) -> bool:
        return self.is_ours(lease) and self.until >= now

    def lost(self, lease: Lease) -> LeaseLost:
        if self.is_ours(lease):
            return LeaseLost(
                f"the lease {lease.name!r} ran out at {a_time(self.until)} before it was renewed"
            )
        holder = f"now held by {self.owner}" if self.owner else "given back"
        return LeaseLost(
            f"the lease {lease.name!r} is no longer ours (token {lease.token}): {holder}, token {self.token}"
        )


def given_back(lease: Lease) -> int:
    """The `until` of a lease that nobody holds: none on a cluster's; the others keep theirs, as it tells
    when they can be forgotten."""
    return 0 if lease.name == CLUSTER_LEASE else lease.until


class Outwaiting:
    """Leases of others that end further away than any lease lasts, since when this process has seen each.

    The clock of the runner that took one was hours ahead, or ours is behind. A runner renews its lease or
    takes it again, so one that has not changed for as long as the longest lease lasts has run out by the
    clock of its own holder, whatever its end says.
    """

    def __init__(self) -> None:
        self._seen: dict[str, tuple[StoredLease, int]] = {}

    def is_over(self, name: str, held: StoredLease, now: int) -> bool:
        # Crash table: wrong-clock. A holder whose clock is ahead would keep the lease for hours.
        if not _too_far(held, now):
            self._seen.pop(name, None)
            return False
        before, since = self._seen.get(name, (held, now))
        # Renewed, or our own clock went back: begin to wait again.
        if before != held or since > now:
            since = now
        self._seen[name] = (held, since)
        return now - since > LONGEST_LEASE_SECONDS


def _too_far(held: StoredLease, now: int) -> bool:
    return held.until > now + LONGEST_LEASE_SECONDS


def held_by_another(name: str, held: StoredLease, now: int) -> LeaseLost:
    if not held.owner:
        return LeaseLost(f"the lease {name!r} keeps being taken by others: try again")
    says = f"the lease {name!r} is held by {held.owner} until {a_time(held.until)}"
    if _too_far(held, now):
        minutes = LONGEST_LEASE_SECONDS // 60
        says += (
            f": a clock is wrong, as no lease lasts that long. It is over when unchanged for {minutes} min"
        )
    return LeaseLost(says)


@dataclass(frozen=True, slots=True)
class Stored:
    """What a store holds of a record, as far as the conditions of a write are concerned."""

    rev: int = 0
    action_ids: tuple[str, str] = ("", "")
    """Of the launching and of the removing operation."""
    nonce: str = ""


def action_ids(record: Record) -> tuple[str, str]:
    """The operations that this record says are in progress; a write begins
    one or ends one, and never swaps one for another."""
    launching, removing = record.launching, record.removing
    return "" if launching is None else launching.id, "" if removing is None else removing.id


def refusal(stored: Stored, record: Record) -> Conflict | None:
    """Why the stored record may not be replaced by this one; None when it may."""
    if stored.rev != record.rev:
        return Conflict(
            f"the record of cluster {record.cluster!r} is at rev {stored.rev}, not {record.rev}: "
            "somebody else wrote first"
        )
    lanes = tuple(zip(action_ids(record), stored.action_ids, strict=True))
    begins = next((wanted for wanted, open_id in lanes if wanted and wanted != open_id), "")
    ends = next((open_id for wanted, open_id in lanes if open_id and wanted != open_id), "")
    # One write that swaps them would lose the steps of the operation that it ends.
    if begins and ends:
        return Conflict(
            f"cluster {record.cluster!r} is in the middle of {ends}: "
            f"{begins} cannot begin before that is closed"
        )
    return None


@dataclass(frozen=True, slots=True)
class Attempt:
    """A conditional write on its way: its nonce tells our own write from somebody else's."""

    record: Record
    guard: Lease | None
    nonce: str
    reply_lost: bool = False

    def was_ours(self, stored: Stored) -> bool:
        return stored.nonce == self.nonce

    def settle(self, stored: Stored, held: StoredLease, now: int) -> None:
        """After the condition failed or the reply was lost: returns when our write is what is stored,
        raises when it is definite that it is not, or when that can no longer be known."""
        if self.was_ours(stored):
            return
        # Others have written over it: the nonce that would tell is gone.
        if self.reply_lost and stored.rev > self.record.rev + 1:
            raise Unanswered(
                f"the reply to a write of cluster {self.record.cluster!r} was lost and others have written "
                "since: read the record again to see whether it was written"
            )
        if self.guard is not None and not held.holds(self.guard, now):
            raise held.lost(self.guard)
        raise refusal(stored, self.record) or Conflict(
            f"the record of cluster {self.record.cluster!r} changed while it was being written: try again"
        )


@dataclass(frozen=True, slots=True)
class StoredPolicy:
    """The last write of a row: its number and its nonce; number 0 is a row that is not there."""

    number: int = 0
    nonce: str = ""


NOT_THERE = StoredPolicy()


@dataclass(frozen=True, slots=True)
class PolicyAttempt:
    """A conditional write on its way. Its nonce tells our own write from somebody else's."""

    nonce: str
    reply_lost: bool = False

    def was_carried_out(self, stored: StoredPolicy, expected: int, what: str) -> bool:
        """Whether the stored row is what this attempt wrote; `Unanswered` if that can no longer be known."""
        if stored.nonce == self.nonce:
            return True
        if self.reply_lost and stored.number > expected + 1:
            raise Unanswered(
                f"the reply to a write of {what} was lost and others have written since: read it again to "
                "see whether it was written"
            )
        return False


def policy_refusal(policy: Policy, stored: StoredPolicy, holder: str) -> EbbtideError | None:
    """Why the policy may not be written; `holder` is the id of the policy that has its name."""
    if stored.number != policy.version:
        return version_refusal(policy.id, policy.version, stored)
    if holder and holder != policy.id:
        return NameTaken(
            f"another policy ({holder}) has the name {policy.name!r}; nothing was changed. "
            "Choose another name"
        )
    return None


def target_refusal(policy: Policy, target: str, holder: Policy) -> TargetTaken:
    return TargetTaken(
        f"{target} is the target of policy {holder.name} already, so policy {policy.name} was not written; "
        "add it there, or disable or delete that policy"
    )


def key_refusal(key: str) -> KeyUsed:
    return KeyUsed(f"{key} was used before; nothing was changed")


def version_refusal(policy_id: str, version: int, stored: StoredPolicy) -> Conflict:
    if not stored.number:
        return Conflict(f"the policy {policy_id} is no longer there: somebody else deleted it")
    if not version:
        return Conflict(f"the policy {policy_id} is there already, at version {stored.number}: read it again")
    return Conflict(
        f"the policy {policy_id} is at version {stored.number}, not {version}: somebody else wrote first"
    )


def state_refusal(state: IdleState, stored: StoredPolicy) -> Conflict:
    if not stored.number:
        return Conflict(f"the policy {state.policy_id} has no state: it was deleted meanwhile")
    return Conflict(
        f"the state of policy {state.policy_id} is at rev {stored.number}, not {state.rev}: "
        "somebody else wrote first"
    )


def changed_meanwhile(what: str) -> Conflict:
    return Conflict(f"{what} changed while it was being written: read it again")


def each_alone(put: Callable[[T], Policy], puts: Sequence[T]) -> list[Policy | EbbtideError]:
    """One after the other. One that is refused is no reason to leave the others out; a store that fails is:
    each of them would wait for it again."""
    found: list[Policy | EbbtideError] = []
    for each in puts:
        try:
            found.append(put(each))
        except EbbtideError as error:
            found.append(error)
            if not is_refusal(error):
                break
    return found + found[-1:] * (len(puts) - len(found))


def is_refusal(error: EbbtideError) -> bool:
    """Whether it is about this one policy, not about the store."""
    return isinstance(error, Conflict | Usage) and not isinstance(error, StoreUnusable)
