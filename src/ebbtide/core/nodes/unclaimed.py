"""Nodes that no pool claims although one could: before `ebbtide adopt`, the workers that are there already.

They are neither counted nor touched. For the minimum alone nothing is launched in their place: a cluster that
has its workers would get all of them a second time. A node that is marked as system is not meant.
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
