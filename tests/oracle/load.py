"""What the CPU says: its average, whether a scale-down may begin or continue. Rows 27, 28, 29."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from ebbtide.model.snapshot import Node
from tests.oracle import nodes
from tests.oracle.answers import Meaning, Ruling, either, no, rule, yes
from tests.oracle.facts import Moment


@rule("row 27", "known", "unknown", "no worker")
def average_cpu(cluster: Collection[Node], samples: Mapping[str, float]) -> Meaning[float | None]:
    """ "average over Ready workers; unknown only when more than a third of those lack a fresh sample".
    `samples` are the fresh ones, as the busy share by node name."""
    ready = [node for node in cluster if nodes.is_worker(node).answer == "yes" and node.ready]
    if not ready:
        return Meaning("no worker", None)
    sampled = [samples[node.name] for node in ready if node.name in samples]
    if 3 * (len(ready) - len(sampled)) > len(ready):
        return Meaning("unknown", None)
    return Meaning("known", sum(sampled) / len(sampled))


@rule("scale-down precondition 1", "yes", "no")
def idle_enough(moment: Moment) -> Ruling:
    """ "Average CPU < CPU_DOWN; No pending pods; Cluster has been idle for IDLE_DOWN_SEC"."""
    settings = moment.settings
    if moment.cpu is None or not moment.cpu < settings.cpu_down:
        return no(f"CPU {moment.cpu}, cpu_down {settings.cpu_down}")
    if pending(moment):
        return no("pods are pending")
    if not moment.idle_since or moment.now - moment.idle_since < settings.idle_down_seconds:
        return no("not idle for long enough")
    return yes("idle")


def pending(moment: Moment) -> list[str]:
    return [
        pod.full_name
        for pod in moment.pods
        if pod.phase.value == "Pending" and not pod.node_name and not pod.terminating
    ]


@rule("row 28", "yes", "no", "either")
def must_release(moment: Moment) -> Ruling:
    """ "a scale-down is released when CPU is above CPU_UP"."""
    if moment.cpu is None:
        return either("the CPU is not known")
    return yes("hot") if moment.cpu > moment.settings.cpu_up else no("not above cpu_up")


@rule("rows 28, 29", "yes", "no", "either")
def rest_carries_load(moment: Moment, removing: Collection[str]) -> Ruling:
    """ "the write that enters TERMINATING asks again that the rest can carry the load"; the rest are the
    workers that are Ready and schedulable."""
    left = len(nodes.staying(moment, removing))
    if moment.cpu is None:
        return either("the CPU is not known")
    ready = [n for n in moment.nodes if n.ready and nodes.is_worker(n).answer == "yes"]
    gone = sum(node.name in removing or node.name in moment.going for node in ready)
    if not left:
        return (
            either("nothing is left to compare with") if moment.cpu <= moment.settings.cpu_up else no("hot")
        )
    least = moment.cpu * (left + gone) / left
    most = moment.cpu * len(ready) / left
    if least > moment.settings.cpu_up * (1 + 1e-9):
        return no(f"CPU would be {least:.4f}")
    if most < moment.settings.cpu_up * (1 - 1e-9):
        return yes("the rest carries it")
    return either("it depends on what stays on cordoned nodes, or is just at cpu_up")
