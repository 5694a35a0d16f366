"""The conditions of the store, said once: who may take a lease, who holds it, what a refused write means.

Nothing here talks to a database. Each store states the same conditions in its own language so they
are checked where the data is, and comes here to put a refusal into words.

Seconds are whole: a lease is held up to and including `until`, and may be taken by another only after it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from operator import attrgetter

from ebbtide.core.words import a_time
from ebbtide.errors import Conflict, LeaseLost, Unanswered
from ebbtide.model.record import CLUSTER_LEASE, LONGEST_LEASE_SECONDS, Lease, Record

LEASES_OUTLIVE_SECONDS = 400 * 24 * 3600
"""How long the lease of an instance is remembered after its end. Its token fences what is done to a node, so
it must not begin again while that node may stand."""

_fields = [field.name for field in fields(Record)]
_field_values = attrgetter(*_fields)
_rev = _fields.index("rev")


def written(record: Record) -> Record:
    """The record as a write leaves it, one `rev` on. `dataclasses.replace` inspects each field on the way,
    which alone takes a third of the time that a store spends on a write next to its database."""
    values = list(_field_values(record))
    values[_rev] += 1
    return Record(*values)


@dataclass(frozen=True, slots=True)
class Held:
    """The lease fields of an item as they are stored."""

    owner: str = ""
    until: int = 0
    token: int = 0

    def is_anothers(self, owner: str, now: int) -> bool:
        return bool(self.owner) and self.owner != owner and self.until >= now

    def take(self, name: str, owner: str, now: int, ttl_seconds: int) -> Lease:
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
        self._seen: dict[str, tuple[Held, int]] = {}

    def is_over(self, name: str, held: Held, now: int) -> bool:
        # Crash table: wrong-clock.
        if not _too_far(held, now):
            self._seen.pop(name, None)
            return False
        before, since = self._seen.get(name, (held, now))
        if before != held or since > now:
            since = now
        self._seen[name] = (held, since)
        return now - since > LONGEST_LEASE_SECONDS


def _too_far(held: Held, now: int) -> bool:
    return held.until > now + LONGEST_LEASE_SECONDS


def held_by_another(name: str, held: Held, now: int) -> LeaseLost:
    if not held.owner:
        return LeaseLost(f"the lease {name!r} is taken and given back by others again and again: try again")
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

    def settle(self, stored: Stored, held: Held, now: int) -> None:
        """After the condition failed or the reply was lost: returns when our write is what is stored,
        raises when it is definite that it is not, or when nobody can tell any more."""
        if self.was_ours(stored):
            return
        if self.reply_lost and stored.rev > self.record.rev + 1:
            raise Unanswered(
                f"the reply to a write of cluster {self.record.cluster!r} was lost and others have written "
                "since: read the record again to see what became of it"
            )
        if self.guard is not None and not held.holds(self.guard, now):
            raise held.lost(self.guard)
        raise refusal(stored, self.record) or Conflict(
            f"the record of cluster {self.record.cluster!r} changed while it was being written: try again"
        )
