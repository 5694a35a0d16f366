"""The last days of a policy as a strip: awake, idle, asleep, waking, and who woke it. Pure.

Stretches of the ledger say when it was idle, at zero or waking; in between it was awake. What was before the
policy was written is not known and not drawn.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ebbtide.core.scale_to_zero.savings import local_date
from ebbtide.core.schedule import next_fire
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import Phase
from ebbtide.model.ledger import Stretch
from ebbtide.model.policy import Policy, Schedule

AWAKE, IDLE, ASLEEP, WAKING = "awake", "idle", "asleep", "waking"
NAMES = {Phase.IDLE: IDLE, Phase.FALLING: IDLE, Phase.ZERO: ASLEEP, Phase.WAKING: WAKING}
MOST_FIRES = 400


@dataclass(frozen=True, slots=True)
class Piece:
    state: str
    since: int
    until: int


@dataclass(frozen=True, slots=True)
class WokenBy:
    at: int
    reason: str


@dataclass(frozen=True, slots=True)
class NextChange:
    at: int
    does: str
    """sleep, wake, or so many replicas."""


def strip_of(stretches: Iterable[Stretch], since: int, until: int) -> tuple[Piece, ...]:
    """The stretches are of one policy; those that touch become one piece, and gaps between them are awake."""
    pieces: list[Piece] = []
    at = since
    for stretch in sorted(stretches, key=lambda each: each.since):
        begin, end = max(stretch.since, at), min(stretch.until, until)
        if end <= begin:
            continue
        if begin > at:
            pieces.append(Piece(AWAKE, at, begin))
        state = NAMES.get(stretch.phase, AWAKE)
        if pieces and pieces[-1].state == state and pieces[-1].until == begin:
            pieces[-1] = Piece(state, pieces[-1].since, end)
        else:
            pieces.append(Piece(state, begin, end))
        at = end
    return (*pieces, Piece(AWAKE, at, until)) if at < until else tuple(pieces)


def wakes_in(steps: Sequence[tuple[int, PolicyStep]]) -> tuple[WokenBy, ...]:
    """One for each wake, at its beginning, oldest first; a wake is logged again when it is ready."""
    found: dict[str, WokenBy] = {}
    for at, step in steps:
        if step.wake_reason is not None:
            found.setdefault(step.wake_id or str(at), WokenBy(at, step.wake_reason.value))
    return tuple(found.values())


def next_change(policy: Policy, now: int) -> NextChange | None:
    fires = ((_next(each, now), each) for each in policy.schedules) if policy.enabled else ()
    found = [(at, each) for at, each in fires if at is not None]
    if not found:
        return None
    at, schedule = min(found, key=lambda pair: pair[0])
    does = "wake" if schedule.wake else "sleep" if schedule.sleeps else f"{schedule.replicas} replicas"
    return NextChange(at, does)


def _next(schedule: Schedule, now: int) -> int | None:
    """The next time that is not on a day it leaves out."""
    at = next_fire(schedule.cron, schedule.zone, now)
    for _ in range(MOST_FIRES):
        if at is None or local_date(schedule.zone, at) not in schedule.except_dates:
            break
        at = next_fire(schedule.cron, schedule.zone, at)
    return at
