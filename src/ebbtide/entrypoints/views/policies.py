"""Policies for people: one line each, as YAML that can be applied again, and the last days as a strip.

The strip shows when a policy was awake, idle, asleep or waking, and who woke it. The ledger has the
stretches of idle, asleep and waking; the rest of the time the policy was awake. Time before it was created
is left blank.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import yaml
from rich.text import Text

from ebbtide.core.scale_to_zero.savings import local_date
from ebbtide.core.schedule import next_fire
from ebbtide.entrypoints.cli.policies import book_of
from ebbtide.entrypoints.views.policy_shapes import policy_shape
from ebbtide.entrypoints.views.terminal import GOOD, QUIET, STRONG, ago, moment, span
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import IdleState, NodeNeed, Phase, Stretch
from ebbtide.model.policy import Policy, Schedule

if TYPE_CHECKING:
    from ebbtide.engine.scale_to_zero.scaling import Scaling
    from ebbtide.entrypoints.views.policy_schemas import PolicyShape, StateShape

COLOURS = {Phase.ACTIVE: GOOD, Phase.ZERO: QUIET, Phase.FALLING: QUIET}
LONGEST_TARGET = 48


def told(scaling: Scaling) -> list[PolicyShape]:
    """All of them, by name, in the shape that the API has for them."""
    now = int(scaling.ports.clock.now())
    states = {state.policy_id: state for state in scaling.ports.policies.list_states()}
    known = ((policy, states.get(policy.id, IdleState(policy.id))) for policy in book_of(scaling).all())
    return [
        policy_shape(policy, state, scaling.defaults, now, scaling.eta_of(state)) for policy, state in known
    ]


def shape_of(scaling: Scaling, policy: Policy) -> PolicyShape:
    state = scaling.ports.policies.find_state(policy.id) or IdleState(policy.id)
    now = int(scaling.ports.clock.now())
    return policy_shape(policy, state, scaling.defaults, now, scaling.eta_of(state))


def list_lines(shapes: list[PolicyShape]) -> list[Text]:
    wide = max((len(shape.name) for shape in shapes), default=0)
    targets = {shape.id: _short(shape.target_says) for shape in shapes}
    far = max((len(target) for target in targets.values()), default=0)
    now = time.time()
    return [
        Text.assemble(
            (f"{shape.name:<{wide}}  ", STRONG),
            (f"{shape.state.phase:<7}  ", COLOURS.get(Phase(shape.state.phase), "")),
            (f"{targets[shape.id]:<{far}}  ", QUIET),
            state_says(shape.state, now),
        )
        for shape in shapes
    ]


def _short(target: str) -> str:
    return target if len(target) <= LONGEST_TARGET else f"{target[: LONGEST_TARGET - 3]}..."


def state_says(state: StateShape, now: float) -> str:
    match Phase(state.phase):
        case Phase.ZERO:
            slept = span(now - state.scaled_to_zero_at) if state.scaled_to_zero_at else "unknown time"
            return f"asleep for {slept}; {_wake_says(state)}"
        case Phase.FALLING:
            return "going to sleep"
        case Phase.WAKING:
            since = f"waking ({state.wake_reason}) since {moment(state.last_wake_at or 0)}"
            late = state.eta is not None and state.eta.late
            return f"{since}, longer than expected" if late else f"{since}; {_wake_says(state)}"
        case Phase.IDLE if state.zero_at is not None:
            return f"idle for {span(now - (state.idle_since or now))}, sleeps in {span(state.zero_at - now)}"
        case _:
            return f"last used {ago(state.last_activity_at, now)}; {state.why_awake or 'it may sleep'}"


def _wake_says(state: StateShape) -> str:
    """In short; `policy show` has the whole sentence."""
    waking = state.phase == Phase.WAKING
    says = f"{'ready in' if waking else 'a wake takes'} about {span(state.estimated_ready_seconds)}"
    match state.eta.node_first if state.eta is not None else "":
        case NodeNeed.LAUNCH:
            return f"{says}, with a new node"
        case NodeNeed.COMING:
            return f"{says}, with a node that is on its way"
        case NodeNeed.NEVER:
            return "no node that may be launched would take it"
        case _:
            return says


def show_lines(shape: PolicyShape) -> list[Text | str]:
    state = shape.state
    facts = [
        f"{state.phase}: {state_says(state, time.time())}",
        f"last activity {moment(state.last_activity_at)}; woken {state.wake_count} times",
        f"quiet for {span(state.keep_alive_seconds)} beyond its idle threshold before it sleeps",
    ]
    if state.eta is not None:
        stuck = state.eta.node_first == NodeNeed.NEVER
        facts.append(state.eta.says if stuck else f"estimate: {state.eta.says}")
    if state.paused:
        facts.append("paused: `ebbtide policy resume` ends that")
    if state.keep_up_until > time.time():
        facts.append(f"kept up until {moment(state.keep_up_until)}")
    facts += [
        f"woken {moment(wake.at)} ({wake.reason}): ready after {wake.seconds:.1f} s"
        for wake in state.wakes[-3:]
    ]
    keys = shape.policy.model_dump(mode="json", exclude_defaults=True)
    text = yaml.safe_dump(keys, sort_keys=False, allow_unicode=True, width=100)
    head = f"# id {shape.id}, version {shape.version}, changed {moment(shape.updated_at)}"
    return [Text(line, QUIET) for line in (head, *(f"# {fact}" for fact in facts))] + text.splitlines()


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
