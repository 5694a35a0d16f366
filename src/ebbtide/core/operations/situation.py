"""What every state machine of the record sees when it is advanced, and how its end changes the record:
cooldown after success, back-off after failure, and irrevocable removals that continue.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace

from ebbtide.core.nodes import capacity
from ebbtide.model.operation import Removal, RemovalCause, RemovalState, Slot, SlotState, Spot, SpotKind
from ebbtide.model.pool import Pool
from ebbtide.model.record import (
    CapacityBackoff,
    DrainBackoff,
    DrainFailures,
    Lease,
    Record,
    Refused,
    RefusedOffer,
)
from ebbtide.model.settings import REFUSAL_KNOWN_SECONDS, Settings
from ebbtide.model.snapshot import Snapshot


@dataclass(frozen=True, slots=True)
class Situation:
    snapshot: Snapshot
    record: Record
    settings: Settings
    lease: Lease
    now: int
    effects_until: int
    """No effect that this runner starts now is started later than this."""
    _totals: dict[str | None, int] = field(default_factory=dict, compare=False, repr=False)
    _over_limits: dict[str, str] = field(default_factory=dict, compare=False, repr=False)

    def total(self, pool: str | None = None) -> int:
        """Nodes that exist or may yet come to exist. Counted once: every slot of a large launch asks."""
        if pool not in self._totals:
            self._totals[pool] = capacity.total(self.snapshot, self.record, pool)
        return self._totals[pool]

    def why_over_limits(self, pool: Pool) -> str:
        """As `capacity` says, once for each pool."""
        if pool.name not in self._over_limits:
            self._over_limits[pool.name] = capacity.why_over_limits(self.snapshot, self.record, pool)
        return self._over_limits[pool.name]

    def notice_for(self, instance_id: str) -> Spot | None:
        """The interruption that is about to take this instance, if any; one that did not come is none."""
        spot = self.record.spot_for(instance_id)
        if spot is None or spot.kind is not SpotKind.INTERRUPTION:
            return None
        return spot if self.now < spot.deadline + self.settings.gone_grace_seconds else None


@dataclass(frozen=True, slots=True)
class Closed:
    record: Record
    succeeded: bool
    reason: str = ""
    """Why the answer to a notice ended so, where that is not plain."""


def rest_offers(record: Record, slots: Iterable[Slot], settings: Settings, now: int) -> Record:
    """Remember what had no capacity, so the next launch asks for it last; and what the cloud refuses for what
    it is, so it is not asked for."""
    slots = tuple(slots)
    record = _refused_offers(record, slots, settings, now)
    refused = dict.fromkeys(offer for slot in slots for offer in slot.refused)
    kept = tuple(rest for rest in record.offer_rests if rest.offer not in refused)
    until = now + settings.offer_rest_seconds
    return replace(record, offer_rests=kept + tuple(CapacityBackoff(offer, until) for offer in refused))


def _refused_offers(record: Record, slots: Iterable[Slot], settings: Settings, now: int) -> Record:
    """Each refusal in a row doubles the time. What was launched after all is forgotten."""
    known = {one.offer: one for one in record.refused_offers}
    for slot in slots:
        pool = settings.pool_named(slot.pool)
        for offer in slot.unfit:
            before = known.get(offer)
            # Slots of one operation ask at the same time: that is one refusal.
            times = before.times if before and before.until > now else before.times + 1 if before else 1
            seconds = settings.refused_seconds(times)
            until, made = now + seconds, pool.launch_hash if pool else ""
            known[offer] = RefusedOffer(offer, slot.pool, made, times, until, until + REFUSAL_KNOWN_SECONDS)
        if slot.instance_id:
            known.pop(f"{slot.zone}/{slot.market}/{slot.instance_type}", None)
    return replace(record, refused_offers=tuple(known.values()))


def rest_nodes(record: Record, stuck: Iterable[Removal], settings: Settings, now: int) -> Record:
    """Skip nodes that could not be drained. Each failure in a row doubles the time, because every attempt
    evicts some pods for nothing."""
    failures = {one.instance_id: one for one in record.drain_failures}
    rests = record.rests
    for removal in stuck:
        rests += (DrainBackoff(removal.instance_id, now + settings.node_rest_seconds, removal.reason),)
        if not removal.started:
            continue  # given up with the others of its operation before anything was asked of it
        before = failures.get(removal.instance_id)
        times = before.times + 1 if before else 1
        seconds = settings.rest_seconds(times)
        failures[removal.instance_id] = DrainFailures(
            removal.instance_id, times, now + seconds, now + 2 * seconds, removal.reason
        )
    return replace(record, rests=rests, drain_failures=tuple(failures.values()))


def stubborn_rests(slots: Iterable[Slot], settings: Settings, now: int) -> tuple[DrainBackoff, ...]:
    """What could not be reclaimed is left alone for a while instead of being adopted again at once."""
    until = now + settings.node_rest_seconds
    return tuple(
        DrainBackoff(slot.instance_id, until, slot.reason)
        for slot in slots
        if slot.state is SlotState.FAILED and slot.instance_id and not slot.terminated
    )


def handed_over(slots: Iterable[Slot], operation_id: str, now: int) -> tuple[Refused, ...]:
    """The removals that follow an operation whose machines the cloud would not terminate. They have the
    same id, since their nodes, if they joined meanwhile, are cordoned in its name; they are taken up as
    soon as the lane of removals is free."""
    return tuple(
        Refused(
            operation_id,
            Removal(
                slot.instance_id,
                zone=slot.zone,
                pool=slot.pool,
                state=RemovalState.TERMINATING,
                since=now,
                terminated=True,
                reason=slot.reason,
                why=RemovalCause.NOT_GONE,
            ),
            now,
        )
        for slot in slots
        if slot.state is SlotState.FAILED and slot.terminated
    )


def backoff_until(failures: int, settings: Settings, now: int) -> int:
    """Until when to wait after so many failures in a row: each doubles it, up to a limit."""
    return now + min(settings.backoff_max_seconds, settings.backoff_seconds << min(failures - 1, 25))
