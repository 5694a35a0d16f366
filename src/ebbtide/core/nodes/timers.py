"""Timers of the record: since when pods are pending, the cluster idles, a worker is empty, workers are short,
numbers shrank.

A timer counts only observed time: an unknown reading or a long gap between two ticks does not count as
idle. Stamps from the future are set to now, with a warning.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from enum import StrEnum
from typing import Any, TypeVar, assert_never

from ebbtide.core.consolidation.emptied_nodes import latest_end
from ebbtide.core.consolidation.pace import forget_evictions, track_demand
from ebbtide.core.consolidation.realised import track_saving
from ebbtide.core.nodes import headroom
from ebbtide.core.nodes.capacity import coming_slots, counted, enlisted, missing_by_pool
from ebbtide.core.nodes.gates import placed_pods, plausible
from ebbtide.core.nodes.underused import track_underused
from ebbtide.core.nodes.unwell import track_unwell
from ebbtide.core.operations.removals import with_time_again
from ebbtide.core.words import a_while
from ebbtide.model.operation import Consolidate, Removing, ScaleDown
from ebbtide.model.record import (
    LONGEST_LEASE_SECONDS,
    CapacityBackoff,
    DrainBackoff,
    DrainFailures,
    Emptied,
    EmptiedNode,
    Record,
    RefusedOffer,
    changed,
)
from ebbtide.model.settings import REFUSAL_KNOWN_SECONDS, Settings
from ebbtide.model.snapshot import Snapshot

STAMPS = (
    "last_scale_at",
    "last_consolidation_at",
    "pending_since",
    "idle_since",
    "short_since",
    "shrunk_since",
    "ticked_at",
)
BACKOFFS = ("launch_backoff_until", "removal_backoff_until")
OF_WORK = (
    "started_at",
    "extended_at",
    "watched_since",
    "noticed_at",
    "since",
    "missing_since",
    "shut_since",
    "refused_since",
)
"""Stamps of operations, of answers to spot notices, and of what they work on."""
PARTS = ("slots", "removals", "replacements", "sources", "moves", "slot", "removal")
Stamped = TypeVar("Stamped")
Ends = TypeVar("Ends", DrainBackoff, CapacityBackoff, EmptiedNode)


class TimerTrouble(StrEnum):
    NOT_TICKED = "not ticked"
    STAMP_AHEAD = "stamp ahead"
    EMPTIED_AHEAD = "emptied ahead"
    WORK_AHEAD = "work ahead"


@dataclass(frozen=True, slots=True)
class TimerWarning:
    """A timer that was corrected, for `tick` to report."""

    trouble: TimerTrouble
    seconds: int = 0
    """How long no tick was made, or how far ahead the stamp was."""
    stamp: str = ""
    taken_as: int = 0
    """How many seconds from now the stamp is from here on."""

    def __str__(self) -> str:
        match self.trouble:
            case TimerTrouble.NOT_TICKED:
                return f"no tick for {a_while(self.seconds)}: that time does not count as idle"
            case TimerTrouble.STAMP_AHEAD:
                taken = f"{a_while(self.taken_as)} from now" if self.taken_as else "now"
                return f"{self.stamp} was {a_while(self.seconds)} in the future and is taken as {taken}"
            case TimerTrouble.EMPTIED_AHEAD:
                ahead = a_while(self.seconds)
                return f"a node was empty from {ahead} in the future and is taken as empty from now"
            case TimerTrouble.WORK_AHEAD:
                return "work that was stamped in the future is taken as begun now"
        assert_never(self.trouble)


Warnings = tuple[TimerWarning, ...]


def track(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> tuple[Record, Warnings]:
    """The record with its timers brought up to now, and what had to be corrected."""
    record, warnings = clamp_stamps(record, settings, now)
    silent = record.ticked_at > 0 and now - record.ticked_at > settings.max_tick_gap_seconds
    if snapshot.problems or silent or record.unclean_removal_runs:
        record = replace(record, removing=_watched_again(record.removing, settings, now))
    if snapshot.problems:
        unseen = replace(record, idle_since=0, emptied=(), underused=(), unwell=(), ticked_at=now)
        return unseen, warnings
    idle = is_idle(snapshot, settings)
    # Crash table: metrics-missing. Time without an observation must not count as idle.
    if silent and (record.idle_since or record.emptied or record.underused):
        warnings += (TimerWarning(TimerTrouble.NOT_TICKED, now - record.ticked_at),)
    short = len(enlisted(snapshot, record)) + len(coming_slots(record)) < settings.min_workers
    short = short or bool(missing_by_pool(snapshot, record, settings.pools))
    record = forget_evictions(_track_size(snapshot, record, settings, now), now)
    record = track_saving(snapshot, record, settings, now)
    return (
        changed(
            record,
            pending_since=_running(bool(snapshot.cluster.waiting_pods), record.pending_since, now),
            idle_since=_running(idle, 0 if silent else record.idle_since, now),
            short_since=_running(short, record.short_since, now),
            rests=tuple(rest for rest in record.rests if rest.until > now),
            drain_failures=_drain_failures(record, now),
            offer_rests=tuple(rest for rest in record.offer_rests if rest.until > now),
            refused_offers=tuple(one for one in record.refused_offers if one.forget_at > now),
            emptied=_emptied(snapshot, () if silent else record.emptied, now),
            underused=track_underused(snapshot, () if silent else record.underused, settings, now),
            unwell=track_unwell(snapshot, record, () if silent else record.unwell, settings, now),
            demand=track_demand(snapshot, record.demand, settings, now),
            counted=counted(snapshot, record, settings.pools),
            headroom=headroom.look(snapshot, record, settings),
            counted_before=() if silent else record.counted,
            ticked_at=now,
        ),
        warnings,
    )


def _drain_failures(record: Record, now: int) -> tuple[DrainFailures, ...]:
    return tuple(
        one if one.until > now else replace(one, until=0)
        for one in record.drain_failures
        if one.forget_at > now
    )


def _watched_again(operation: Removing | None, settings: Settings, now: int) -> Removing | None:
    """Nobody looked, the runner before died, or nothing could be seen: pods that are being moved or drained
    are given their time again (row 36). That cannot continue forever, since both operations have an end."""
    match operation:
        case Consolidate():
            return replace(operation, watched_since=now)
        case ScaleDown():
            again = tuple(with_time_again(removal, settings, now) for removal in operation.removals)
            return replace(operation, removals=again)
        case _:
            return operation


def clamp_stamps(record: Record, settings: Settings, now: int) -> tuple[Record, Warnings]:
    """A clock that went back leaves stamps that would stop everything until it has caught up."""
    latest = dict.fromkeys(STAMPS, now)
    latest |= dict.fromkeys(BACKOFFS, now + settings.backoff_max_seconds)
    record, warnings = _clamp_work(record, settings, now)
    late: dict[str, Any] = {name: limit for name, limit in latest.items() if getattr(record, name) > limit}
    early = max((node.since for node in (*record.emptied, *record.underused)), default=0)
    waits = record.rests or record.drain_failures or record.offer_rests or record.leaving
    if not late and not waits and not record.refused_offers and early <= now:
        return record, warnings
    warnings += tuple(
        TimerWarning(TimerTrouble.STAMP_AHEAD, getattr(record, name) - now, name, max(limit - now, 0))
        for name, limit in late.items()
    )
    # Crash table: future-stamps. A clock that was ahead must not postpone everything for hours.
    if early > now:
        warnings += (TimerWarning(TimerTrouble.EMPTIED_AHEAD, early - now),)
    rests = _no_later(record.rests, now + settings.node_rest_seconds)
    offer_rests = _no_later(record.offer_rests, now + settings.offer_rest_seconds)
    leaving = _no_later(record.leaving, latest_end(settings, now))
    failures = tuple(_clamped_failures(one, settings, now) for one in record.drain_failures)
    emptied, underused = (
        tuple(replace(node, since=min(node.since, now)) for node in nodes)
        for nodes in (record.emptied, record.underused)
    )
    late["refused_offers"] = tuple(_clamped_refusal(one, settings, now) for one in record.refused_offers)
    late |= {"rests": rests, "offer_rests": offer_rests, "leaving": leaving, "drain_failures": failures}
    return replace(record, **late, emptied=emptied, underused=underused), warnings


def _no_later(waits: tuple[Ends, ...], latest: int) -> tuple[Ends, ...]:
    return tuple(replace(one, until=min(one.until, latest)) for one in waits)


def _clamped_failures(one: DrainFailures, settings: Settings, now: int) -> DrainFailures:
    seconds = settings.rest_seconds(one.times)
    return replace(one, until=min(one.until, now + seconds), forget_at=min(one.forget_at, now + 2 * seconds))


def _clamped_refusal(one: RefusedOffer, settings: Settings, now: int) -> RefusedOffer:
    until = now + settings.refused_seconds(one.times)
    forget_at = min(one.forget_at, until + REFUSAL_KNOWN_SECONDS)
    return replace(one, until=min(one.until, until), forget_at=forget_at)


def _clamp_work(record: Record, settings: Settings, now: int) -> tuple[Record, Warnings]:
    """What a runner whose clock was ahead began, or noted, would never time out."""
    if not (record.scaling_in_progress or record.spots or record.refused):
        return record, ()
    retried = now + max(settings.drain_retry_seconds, settings.request_timeout_seconds)
    # That runner may be sending for as long as its lease lasted, whatever its clock said.
    limits = dict.fromkeys(OF_WORK, now) | {"retry_at": retried, "fence_until": now + LONGEST_LEASE_SECONDS}
    launching, removing = _clamped(record.launching, limits), _clamped(record.removing, limits)
    spots = tuple(_clamped(spot, limits) for spot in record.spots)
    longest = now + settings.stuck_seconds
    refused = tuple(
        replace(one, retry_at=min(one.retry_at, longest), removal=_clamped(one.removal, limits))
        for one in record.refused
    )
    clamped = replace(record, launching=launching, removing=removing, spots=spots, refused=refused)
    if clamped == record:
        return record, ()
    # Crash table: future-stamps. Work stamped in the future would never time out.
    return clamped, (TimerWarning(TimerTrouble.WORK_AHEAD),)


def _clamped(work: Stamped, limits: Mapping[str, int]) -> Stamped:
    """With none of its stamps, nor those of its parts, beyond these limits."""
    if work is None:
        return work
    late: dict[str, Any] = {name: limit for name, limit in limits.items() if getattr(work, name, 0) > limit}
    for name in (field.name for field in fields(work) if field.name in PARTS):  # type: ignore[arg-type]
        held = getattr(work, name)
        parts = (
            tuple(_clamped(part, limits) for part in held)
            if isinstance(held, tuple)
            else _clamped(held, limits)
        )
        if parts != held:
            late[name] = parts
    return replace(work, **late) if late else work  # type: ignore[type-var]


def pressing_at(record: Record, settings: Settings, now: int) -> int | None:
    """When pods that are pending, or workers that are missing, will have been so for long enough to launch
    for them. None where there are none, or they have been already."""
    since = (stamp for stamp in (record.pending_since, record.short_since) if stamp)
    due = (stamp + settings.pending_up_seconds for stamp in since)
    return min((at for at in due if at > now), default=None)


def is_idle(snapshot: Snapshot, settings: Settings) -> bool:
    cpu = snapshot.cpu.value
    return cpu is not None and cpu < settings.cpu_down and not snapshot.cluster.waiting_pods


def _emptied(snapshot: Snapshot, before: tuple[Emptied, ...], now: int) -> tuple[Emptied, ...]:
    """The workers without a pod that counts, each since it was first seen so without a break."""
    since = {node.node_uid: node.since for node in before}
    return tuple(Emptied(uid, since.get(uid, now)) for uid in snapshot.cluster.empty_workers)


def _running(condition: bool, since: int, now: int) -> int:
    return (since or now) if condition else 0


def _track_size(snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Record:
    """Take over what was seen, unless it is implausibly small; that takes a while to be believed."""
    workers, pods = len(snapshot.cluster.workers), placed_pods(snapshot)
    # Crash table: partial-observation. A list that suddenly shrank is believed only when it stays so.
    if not plausible(snapshot, record, settings).passed:
        since = record.shrunk_since or now
        if not pods or now - since < settings.shrink_accepted_seconds:
            return replace(record, shrunk_since=since)
    if (record.worker_count, record.pod_count, record.shrunk_since) == (workers, pods, 0):
        return record
    return changed(record, worker_count=workers, pod_count=pods, shrunk_since=0)
