"""The demand on each pool now: the pods on its nodes, and the pods that are pending for it.

A pod that is pending counts for the first pool that would take it. Pods that come and go with a node do not
count, nor do finished or terminating pods.
"""

from __future__ import annotations

from ebbtide.core.nodes.room import refused_by_node, room_of_new
from ebbtide.model.pod import Pod, Scheduling
from ebbtide.model.settings import PoolDemand, Settings
from ebbtide.model.snapshot import ClusterView

NOWHERE = ""


def demand_by_pool(view: ClusterView, settings: Settings) -> dict[str, PoolDemand]:
    """Of every pool that is configured."""
    found = {pool.name: PoolDemand() for pool in settings.pools}
    pools: dict[Scheduling, str] = {}
    for node in view.workers:
        for pod in view.pods_on.get(node.name, ()):
            _add(found, node.pool, pod)
    for pod in view.waiting_pods:
        if pod.scheduling not in pools:
            pools[pod.scheduling] = _pool_for(pod.scheduling, settings)
        _add(found, pools[pod.scheduling], pod)
    return found


def _add(found: dict[str, PoolDemand], pool: str, pod: Pod) -> None:
    if pool in found and not (pod.tied_to_node or pod.finished or pod.terminating):
        found[pool] = found[pool].plus(pod.requests.cpu_milli, pod.requests.memory_mib)


def _pool_for(scheduling: Scheduling, settings: Settings) -> str:
    for pool in settings.pools:
        for zone in pool.zones:
            if any(not refused_by_node(scheduling, room_of_new("", pool, one, zone)) for one in pool.types):
                return pool.name
    return NOWHERE
