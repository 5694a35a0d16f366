"""Carry out effects, each only while there is time in the tick and in the lease.

The record was written, or the lease renewed, just before, so the token is known to be ours. Before an
instance is terminated the pods on its node are asked for once more, past any cache.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import groupby

from ebbtide.core.nodes.drain import Disruptions, Treatment, judge
from ebbtide.core.nodes.unwell import is_lost
from ebbtide.engine.ports import Ports
from ebbtide.errors import EbbtideError, Final, NoCapacity, Retryable
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

NO_TIME = "no time left in this tick or its lease"


def perform(
    effects: Sequence[Effect], ports: Ports, settings: Settings, lease: Lease, last_moment: float
) -> tuple[Outcome, ...]:
    def attempt(effect: Effect) -> Outcome:
        # Crash table: lease-expires.
        if ports.clock.now() >= last_moment:
            return Outcome(effect, OutcomeKind.SKIPPED, NO_TIME)
        try:
            return _do(effect, ports, settings, lease)
        except EbbtideError as error:
            return Outcome(effect, failure(error), str(error))

    outcomes: list[Outcome] = []
    for launches, group in groupby(effects, key=lambda effect: isinstance(effect, Launch)):
        outcomes += _at_once(attempt, list(group), ports.launches_at_once if launches else 1)
    return tuple(outcomes)


def _at_once(attempt: Callable[[Effect], Outcome], effects: Sequence[Effect], most: int) -> Iterable[Outcome]:
    """In the order of the effects. Each launch has its key in the record already, so several calls at a time
    are as safe as one: a hundred nodes must not wait for a hundred answers, one after the other."""
    threads_needed = min(most, len(effects))
    if threads_needed == 1:
        return map(attempt, effects)
    with ThreadPoolExecutor(threads_needed, thread_name_prefix="launch") as threads:
        return list(threads.map(attempt, effects))


def failure(error: EbbtideError) -> OutcomeKind:
    """Whether the effect that raised it was definitely not done."""
    match error:
        case NoCapacity():
            return OutcomeKind.NO_CAPACITY
        case Retryable():
            return OutcomeKind.LATER
        case Final():
            return OutcomeKind.REFUSED
        case _:
            return OutcomeKind.UNKNOWN


def _do(effect: Effect, ports: Ports, settings: Settings, lease: Lease) -> Outcome:
    match effect:
        case SoftTaint():
            ports.cluster.soft_taint(effect, lease.token)
        case Cordon():
            ports.cluster.cordon(effect, lease.token)
        case Uncordon():
            ports.cluster.uncordon(effect, max(lease.token, effect.signed_token))
        case Evict():
            ports.cluster.evict(effect)
        case DeleteNode():
            ports.cluster.delete_node(effect)
        case Launch():
            return Outcome(effect, OutcomeKind.DONE, instance=ports.cloud.launch(effect))
        case Terminate():
            late = _late_pod(effect, ports, settings)
            # Crash table: late-pod.
            if late:
                return Outcome(effect, OutcomeKind.LATER, late)
            ports.cloud.terminate(effect.instance_id)
    return Outcome(effect, OutcomeKind.DONE)


def _late_pod(effect: Terminate, ports: Ports, settings: Settings) -> str:
    """A pod that came onto the node after it was found drained."""
    if not effect.node_name:
        return ""
    nothing_known = Disruptions(())
    for pod in ports.cluster.read_pods_on(effect.node_name):
        if is_lost(pod, effect.lost_before):
            continue
        judgement = judge(pod, nothing_known, settings, None)
        if judgement.treatment is not Treatment.SKIP:
            return f"{pod.full_name} is on the node"
    return ""
