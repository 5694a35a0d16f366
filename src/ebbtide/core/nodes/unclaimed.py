"""Nodes that a pool could adopt but has not: before `ebbtide adopt`, these are the existing workers.

They are neither counted nor touched. While there are any, nothing is launched only to reach the minimum:
otherwise the cluster would get all of its workers a second time. Nodes that are marked as system are
excluded.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from ebbtide.core.words import count_of
from ebbtide.model.names import SYSTEM
from ebbtide.model.node import Node
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import ClusterView

_NAMED = 3


def uncounted(view: ClusterView) -> tuple[Node, ...]:
    """All nodes that Ebbtide does not count, except control plane and system nodes."""
    return tuple(node for node in view.nodes if not (node.worker or node.control_plane or node.system))


def claimable(view: ClusterView, pools: Iterable[Pool]) -> Mapping[str, str]:
    """Nodes that could be adopted, by name, with the first pool that has their type, zone and market."""
    found: dict[str, str] = {}
    known = tuple(pools)
    for node in uncounted(view):
        if (pool := pool_for(node, known)) and node.ready and not node.unschedulable:
            found[node.name] = pool
    return found


def pool_for(node: Node, pools: Iterable[Pool]) -> str:
    """Empty where no pool would launch such a node."""
    return next(
        (
            pool.name
            for pool in pools
            if pool.type_named(node.instance_type) is not None
            and location_of(node.zone, pool.zones)
            and pool.market is node.market
        ),
        "",
    )


def location_of(zone: str, zones: Iterable[str]) -> str:
    """The pool's zone that the node's is in: Hetzner labels nodes with a data centre of the location."""
    return next((one for one in zones if zone == one or zone.startswith(f"{one}-dc")), "")


def in_place_of_minimum(view: ClusterView, pools: Iterable[Pool]) -> Counter[str]:
    """How many of them there are for each pool."""
    return Counter(claimable(view, pools).values())


def says_uncounted(names: Iterable[str]) -> str:
    """The sentence for people: which nodes, and what to do about them."""
    listed = sorted(names)
    more = f" and {len(listed) - _NAMED} more" if len(listed) > _NAMED else ""
    it, are = ("it", "is") if len(listed) == 1 else ("them", "are")
    return (
        f"{count_of(len(listed), 'node')} that no pool claims {are} not counted "
        f"({', '.join(listed[:_NAMED])}{more}): take {it} over with `ebbtide adopt`, "
        f"or label {it} {SYSTEM}=true"
    )
