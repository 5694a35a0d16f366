"""Policies for people: a line for each, and one of them as the YAML it could be made of again."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import yaml
from rich.text import Text

from ebbtide.entrypoints.cli.scaled import book_of
from ebbtide.entrypoints.cli.writing import GOOD, QUIET, STRONG, ago, moment, span
from ebbtide.entrypoints.views.policy_shapes import policy_shape
from ebbtide.model.idle import IdleState, NodeNeed, Phase

if TYPE_CHECKING:
    from ebbtide.engine.scale_to_zero.scaling import Scaling
    from ebbtide.entrypoints.views.policy_schemas import PolicyShape, StateShape
    from ebbtide.model.policy import Policy

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
        facts.append(f"estimate: {state.eta.says}")
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
