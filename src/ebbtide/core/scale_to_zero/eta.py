"""How long until a sleeping target is ready (its pods' part, and a node's part if a node must be launched
first), and whether to wake it ahead of expected use.

The pods' part is learned from the policy's own wakes. The node's part is learned from them too, else from the
nodes that the same pool launched, else from those of other pools. What was never timed is a default, and is
named as one. Each part is a quantile, the 95th percentile unless asked otherwise: 19 of 20 are faster.

A target is in use while it is neither idle nor asleep nor waking. Use is expected at a time of day at which
it was used a week and two weeks before; with less history, on most of the last seven days. Waking it ahead
pays if it would have left fewer users waiting for a wake, over the last week, than a longer keep-alive window
that keeps it up for as long.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from math import ceil
from typing import assert_never

from ebbtide.core.words import a_while, count_of, time_of_day
from ebbtide.model.events import PartKind, Transition
from ebbtide.model.idle import NO_WHY, NodeFirst, NodeNeed, PolicyCause, PolicyWhy, Stretch, WakeTime
from ebbtide.model.operation import SlotState
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY

USUAL_SHARE = 0.95
DEFAULT_POD_SECONDS = 30
"""Assumed for the pods until a wake has been timed."""
DEFAULT_NODE_SECONDS = 120
"""Assumed for a node until one has been timed."""
LATE_SECONDS = 10
"""The estimate for a wake that takes longer than expected: ask again after so long."""
KEPT_NODES = 50
"""The newest so many nodes count."""
ROUGH_FROM_SECONDS = 100
"""From here on an estimate is rounded to ten seconds."""


class Learned(StrEnum):
    """Where a part of an estimate comes from."""

    WAKES = "wakes"
    """The policy's own wakes."""
    POOL = "pool"
    """Nodes of the same pool."""
    OTHER_POOLS = "other_pools"
    DEFAULT = "default"


@dataclass(frozen=True, slots=True)
class NodeTime:
    """How long one node took."""

    pool: str
    launch_seconds: float
    """From the first request to the cloud until there was an instance."""
    join_seconds: float
    """Until its Node object was there."""
    ready_seconds: float
    """Until that was Ready."""

    @property
    def seconds(self) -> float:
        return self.launch_seconds + self.join_seconds + self.ready_seconds


@dataclass(frozen=True, slots=True)
class Part:
    seconds: float
    learned: Learned
    count: int = 0
    """Of how many measured times it is the quantile."""


@dataclass(frozen=True, slots=True)
class LearnedEta:
    seconds: int
    """Until ready, from now."""
    pods: Part
    node: Part | None = None
    """None where no node is needed."""
    first: NodeFirst | None = None
    late: bool = False
    """A wake that takes longer than expected."""

    @property
    def says(self) -> str:
        if self.first is not None and self.first.need is NodeNeed.NEVER:
            return f"it cannot start: no node that may be launched would take it ({self.first.why})"
        if self.late:
            return "it takes longer than expected"
        sources = [_learned_says(self.pods, "wake")]
        told = f"about {_roughly(self.seconds)}"
        if self.node is not None:
            told += f", including {_roughly(ceil(self.node.seconds))} until {_node_says(self.first)}"
            sources = [f"pods: {sources[0]}", f"node: {_learned_says(self.node, 'node')}"]
        return f"{told} ({'; '.join(sources)})"


def _roughly(seconds: int) -> str:
    """To ten seconds where it is minutes: more would claim to know more."""
    return a_while(seconds if seconds < ROUGH_FROM_SECONDS else round(seconds, -1))


def eta(
    wakes: Sequence[WakeTime],
    first: NodeFirst | None,
    nodes: Sequence[NodeTime],
    now: int,
    share: float = USUAL_SHARE,
) -> LearnedEta:
    """Of a wake that begins now. Where `first` is not known, a node counts as needed if most wakes needed
    one."""
    pods = _quantile([one.seconds - one.node_seconds for one in wakes], share, Learned.WAKES)
    pods = pods or Part(DEFAULT_POD_SECONDS, Learned.DEFAULT)
    with_node = [one.node_seconds for one in wakes if one.node_seconds > 0]
    needed = first.need is not NodeNeed.NONE if first is not None else 2 * len(with_node) > len(wakes)
    if not needed:
        return LearnedEta(max(1, ceil(pods.seconds)), pods, None, first)
    node = _node_part(with_node, first, nodes, share)
    if first is not None and first.need is NodeNeed.COMING:
        node = replace(node, seconds=max(1.0, node.seconds - max(0, now - first.since)))
    return LearnedEta(max(1, ceil(pods.seconds + node.seconds)), pods, node, first)


def remaining(whole: LearnedEta, elapsed_seconds: float) -> LearnedEta:
    """Of a wake that began so long ago. One that takes longer than expected is said to: a guess that is
    moved along is never true."""
    if elapsed_seconds <= 0:
        return whole
    left = whole.seconds - elapsed_seconds
    return replace(whole, seconds=max(1, ceil(left)) if left > 0 else LATE_SECONDS, late=left <= 0)


def node_times(steps: Iterable[tuple[int, Transition]]) -> tuple[NodeTime, ...]:
    """From the log, in any order: launches that became Ready, the oldest first. Time in which offers had no
    capacity is part of it."""
    seen: dict[str, dict[str, int]] = {}
    pools: dict[str, str] = {}
    for at, step in sorted(steps, key=lambda each: each[0]):
        name = step.key or step.instance_id
        if step.part is PartKind.LAUNCH and name:
            pools[name] = step.pool
            seen.setdefault(name, {}).setdefault(step.after, at)
    found = [_node_time(pools[name], each) for name, each in seen.items()]
    return tuple(one for one in found if one is not None)[-KEPT_NODES:]


def _node_time(pool: str, at: dict[str, int]) -> NodeTime | None:
    launched, ready = at.get(SlotState.LAUNCHED), at.get(SlotState.READY)
    if launched is None or ready is None:
        return None
    joined = at.get(SlotState.JOINED, ready)
    return NodeTime(pool, launched - at.get(SlotState.LAUNCHING, launched), joined - launched, ready - joined)


def _node_part(
    own: Sequence[float], first: NodeFirst | None, nodes: Sequence[NodeTime], share: float
) -> Part:
    pool = first.pool if first is not None else ""
    same = [one.seconds for one in nodes if pool and one.pool == pool]
    return (
        _quantile(own, share, Learned.WAKES)
        or _quantile(same, share, Learned.POOL)
        or _quantile([one.seconds for one in nodes], share, Learned.OTHER_POOLS)
        or Part(DEFAULT_NODE_SECONDS, Learned.DEFAULT)
    )


def _quantile(values: Sequence[float], share: float, learned: Learned) -> Part | None:
    return Part(percentile(values, share), learned, len(values)) if values else None


def percentile(values: Sequence[float], share: float) -> float:
    """By nearest rank: one of the values."""
    ordered = sorted(values)
    return ordered[max(0, ceil(share * len(ordered)) - 1)]


def _node_says(first: NodeFirst | None) -> str:
    if first is None:
        return "a new node is Ready, as for most of its wakes"
    if first.need is NodeNeed.COMING:
        return f"the node of pool {first.pool} that is on its way is Ready"
    return f"a new node of pool {first.pool} is Ready"


def _learned_says(part: Part, noun: str) -> str:
    match part.learned:
        case Learned.WAKES:
            return f"measured on its last {count_of(part.count, 'wake')}"
        case Learned.POOL:
            return f"measured on {count_of(part.count, 'node')} of the pool"
        case Learned.OTHER_POOLS:
            return f"measured on {count_of(part.count, 'node')} of other pools"
        case Learned.DEFAULT:
            return f"assumed, no {noun} has been timed yet"
        case _:
            assert_never(part.learned)


LEAST_USE_SECONDS = 300
"""What is woken counts as active until it is first seen idle: less than this is no use."""
WEEK = 7 * STEPS_A_DAY
MOST_DAYS = 5
"""Of seven."""
LEAST_GAIN = 0.1
KEPT_WEEKS = 4

Used = Sequence[bool]
"""By step."""


@dataclass(frozen=True, slots=True)
class Replayed:
    awake: int
    """Steps in which it was up."""
    waited: int
    """How often somebody came who had to wait for a wake."""


def used_steps(stretches: Iterable[Stretch], now: int) -> list[bool]:
    """Whether it was in use in each step up to the one in progress, from its first stretch on, at most four
    weeks. The time between two stretches was use."""
    ordered = sorted(stretches, key=lambda one: one.since)
    end = now // STEP_SECONDS
    if not ordered:
        return []
    first = max(ordered[0].since // STEP_SECONDS + 1, end - KEPT_WEEKS * WEEK)
    used = [False] * max(end - first, 0)
    until = ordered[0].until
    for each in ordered[1:]:
        if each.since - until >= LEAST_USE_SECONDS:
            for step in range(max(until // STEP_SECONDS, first), min(-(-each.since // STEP_SECONDS), end)):
                used[step - first] = True
        until = max(until, each.until)
    return used


def is_expected(used: Used, step: int) -> bool:
    """In this step, by what was known a day before."""
    if step >= 2 * WEEK:
        return used[step - WEEK] and used[step - 2 * WEEK]
    days = [used[step - lag * STEPS_A_DAY] for lag in range(1, 8)] if step >= WEEK else []
    return sum(days) >= MOST_DAYS


def begins(used: Used, step: int) -> bool:
    """Whether use is expected in the step after this one, and not in this one."""
    return is_expected(used, step + 1) and not is_expected(used, step)


def why_wake(used: Used, hold_seconds: int, now: int) -> PolicyWhy:
    """Why it should be woken now; nothing where it should not. It goes to sleep again `hold_seconds` after
    the last use."""
    step = len(used)
    if step < 2 * WEEK or not begins(used, step):
        return NO_WHY
    hold = -(-hold_seconds // STEP_SECONDS)
    ahead = replayed(used, hold, looks_ahead=True)
    constant = _constant(used, hold, ahead.awake)
    if ahead.waited >= (1 - LEAST_GAIN) * constant.waited:
        return NO_WHY
    at = time_of_day((now // STEP_SECONDS + 1) * STEP_SECONDS)
    says = (
        f"ahead of {at}, in use then a week and two weeks ago; over the last week this leaves "
        f"{count_of(ahead.waited, 'user')} waiting, a longer keep-alive window of equal cost "
        f"{constant.waited}"
    )
    return PolicyWhy(PolicyCause.EXPECTED, says, found=ahead.waited, limit=constant.waited)


def replayed(used: Used, hold: int, looks_ahead: bool = False) -> Replayed:
    """The last week, with a window of so many steps."""
    awake = waited = 0
    up_until = -1
    for step in range(len(used) - WEEK, len(used)):
        asleep = step > up_until
        if used[step]:
            waited += asleep
            up_until = step + hold
        elif asleep and looks_ahead and begins(used, step):
            up_until = step + hold
        awake += step <= up_until
    return Replayed(awake, waited)


def _constant(used: Used, hold: int, most: int) -> Replayed:
    """With the best window that keeps it up for at most so many steps."""
    windows = (replayed(used, longer) for longer in range(hold, hold + STEPS_A_DAY))
    return min((one for one in windows if one.awake <= most), key=lambda one: one.waited)
