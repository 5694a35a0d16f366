"""Carry out effects, each only while there is time in the tick and in the lease.

The record was written, or the lease renewed, just before, so the token is known to be ours. Before an
instance is terminated the pods on its node are asked for once more, past any cache.
"""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.drain import Disruptions, Treatment, judge
from ebbtide.engine.outside import Outside
from ebbtide.errors import EbbtideError, Final, NoCapacity, Retryable, Unanswered
from ebbtide.model.effect import (
    Cordon,
    DeleteNode,
    Effect,
    Evict,
    Launch,
    Outcome,
    OutcomeKind,
    SoftTaint,
    Terminate,
    Uncordon,
)
from ebbtide.model.record import Lease
from ebbtide.model.settings import Settings


def perform(
    effects: Sequence[Effect], outside: Outside, settings: Settings, lease: Lease, last_moment: float
) -> tuple[Outcome, ...]:
    outcomes = []
    for effect in effects:
        if outside.clock.now() >= last_moment:
            outcomes.append(Outcome(effect, OutcomeKind.SKIPPED, "no time left in this tick or its lease"))
        else:
            outcomes.append(_attempt(effect, outside, settings, lease))
    return tuple(outcomes)


def _attempt(effect: Effect, outside: Outside, settings: Settings, lease: Lease) -> Outcome:
    try:
        return _do(effect, outside, settings, lease)
    except NoCapacity as error:
        return Outcome(effect, OutcomeKind.NO_CAPACITY, str(error))
    except Retryable as error:
        return Outcome(effect, OutcomeKind.LATER, str(error))
    except Final as error:
        return Outcome(effect, OutcomeKind.REFUSED, str(error))
    except (Unanswered, EbbtideError) as error:
        return Outcome(effect, OutcomeKind.UNKNOWN, str(error))


def _do(effect: Effect, outside: Outside, settings: Settings, lease: Lease) -> Outcome:
    match effect:
        case SoftTaint():
            outside.cluster.soft_taint(effect, lease.token)
        case Cordon():
            outside.cluster.cordon(effect, lease.token)
        case Uncordon():
            outside.cluster.uncordon(effect, max(lease.token, effect.signed_token))
        case Evict():
            outside.cluster.evict(effect)
        case DeleteNode():
            outside.cluster.delete_node(effect)
        case Launch():
            return Outcome(effect, OutcomeKind.DONE, instance=outside.cloud.launch(effect))
        case Terminate():
            late = _late_pod(effect, outside, settings)
            if late:
                return Outcome(effect, OutcomeKind.LATER, late)
            outside.cloud.terminate(effect.instance_id)
    return Outcome(effect, OutcomeKind.DONE)


def _late_pod(effect: Terminate, outside: Outside, settings: Settings) -> str:
    """A pod that came onto the node after it was found drained."""
    if not effect.node_name:
        return ""
    nothing_known = Disruptions(())
    for pod in outside.cluster.read_pods_on(effect.node_name):
        judgement = judge(pod, nothing_known, settings, None)
        if judgement.treatment is not Treatment.PASS_OVER:
            return f"{pod.full_name} is on the node"
    return ""
