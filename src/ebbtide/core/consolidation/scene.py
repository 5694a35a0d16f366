"""What runs where, what may move, and what could be launched instead.

Sizes are what is left under the fill limit: a site's room is the share of the node that may be used,
less all that is on it. What is the same for planning has one number: pods of one size and the same
demands are one kind, nodes that admit the same pods one shape.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cached_property
from itertools import groupby
from typing import NamedTuple

from ebbtide.core.consolidation import game_servers
from ebbtide.core.consolidation.outline import Outline, Size
from ebbtide.core.nodes.fit import RuleProfile
from ebbtide.core.nodes.room import Room
from ebbtide.core.packing.problem import Vector
from ebbtide.model.pod import Pod, Scheduling
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.snapshot import Node

SYSTEM = "kube-system"


@dataclass(frozen=True, slots=True)
class PodShape:
    cpu_milli: int
    memory_mib: int
    admitted: int
    """The shapes that take it, as bits."""


class Parcel(NamedTuple):
    """A pod that may be moved."""

    pod: Pod
    site: int
    kind: int
    profile: RuleProfile
    alone: bool
    """Placed by itself, with every rule asked: it has to do with others, or asks for something special."""


@dataclass(frozen=True, slots=True)
class ExistingNode:
    """A node that is there."""

    node: Node
    price: Decimal
    room: Size
    shape: int
    parcels: tuple[int, ...] = ()
    removable: bool = False
    target: bool = True
    """Whether pods may be moved to it."""
    idle_since: int = 0
    offer: Size = (1, 1, 1)
    """All that may be on it, apart from what comes with every node."""
    zone_rank: int = 0
    """Of equals, one of a zone that is less preferred (a higher rank) goes first."""
    weight: int = 0
    """Of its pool: it is replaced only by nodes of pools with the same."""
    slack: Size = (0, 0, 0)
    """What is above the fill limit: free for headroom, though not for pods that are moved."""


@dataclass(frozen=True, slots=True)
class Offered:
    """A node that could be launched."""

    pool: Pool
    node_type: NodeType
    zone: str
    price: Decimal
    room: Size
    shape: int

    @property
    def name(self) -> str:
        return f"{self.pool.name}/{self.zone}/{self.node_type.name}"


def sum_of(pods: Iterable[Pod]) -> Size:
    """Their requests; a negative request counts as zero."""
    cpu = memory = count = 0
    for pod in pods:
        asked = pod.requests
        if asked.cpu_milli > 0:
            cpu += asked.cpu_milli
        if asked.memory_mib > 0:
            memory += asked.memory_mib
        count += 1
    return cpu, memory, count


@dataclass(frozen=True, slots=True)
class Held:
    """The pods of a node, as far as they are the same in every look."""

    tied: tuple[Pod, ...]
    loose: tuple[Pod, ...]
    tied_size: Size
    loose_size: Size
    largest: tuple[int, int]
    """The most CPU and the most memory that a loose pod asks for."""
    special: bool
    """Whether each loose pod must be asked about: it asks for nothing, or says something of a game server."""
    alikes: frozenset[tuple[object, ...]]
    """By what loose pods are alike, each once."""
    different: Mapping[tuple[object, ...], Pod]
    """One for each of these."""
    sizes: Mapping[Size, int]
    """How many loose pods ask for so much; each takes one pod slot."""
    asks: tuple[Scheduling, ...]
    """What loose pods ask for, each once."""


def held_of(pods: tuple[Pod, ...]) -> Held:
    tied = tuple(pod for pod in pods if pod.tied_to_node)
    loose = tuple(pod for pod in pods if not pod.tied_to_node)
    asked = [pod.requests for pod in loose]
    different = {alike_by(pod): pod for pod in loose}
    return Held(
        tied,
        loose,
        sum_of(tied),
        sum_of(loose),
        (max((r.cpu_milli for r in asked), default=0), max((r.memory_mib for r in asked), default=0)),
        any(_asks_for_nothing(pod) or game_servers.labels_of(pod) for pod in loose),
        frozenset(different),
        different,
        Counter((r.cpu_milli, r.memory_mib, 1) for r in asked),
        tuple({id(pod.scheduling): pod.scheduling for pod in loose}.values()),
    )


NOTHING_HELD = Held((), (), (0, 0, 0), (0, 0, 0), (0, 0), False, frozenset(), {}, {}, ())


def _asks_for_nothing(pod: Pod) -> bool:
    """Or for less of something."""
    asked = pod.requests
    least = min(asked.cpu_milli, asked.memory_mib, *(amount for _, amount in asked.extended))
    return least < 0 or not (asked.cpu_milli or asked.memory_mib)


def alike_by(pod: Pod) -> tuple[object, ...]:
    """All that the drain rules look at: what holds for one of many equal pods holds for all of them."""
    return (
        pod.namespace,
        pod.name if pod.namespace == SYSTEM else "",
        pod.labels,
        pod.controller,
        pod.phase,
        pod.terminating,
        pod.priority_class,
        pod.local_storage,
        pod.safe_to_evict,
        pod.do_not_disrupt,
        pod.annotations,
        id(pod.scheduling),
    )


@dataclass(frozen=True)
class Scene:
    sites: tuple[ExistingNode, ...]
    parcels: tuple[Parcel, ...]
    kinds: tuple[PodShape, ...]
    offers: tuple[Offered, ...]
    outline: Outline
    rooms: Sequence[Room]
    """Of each site, for the rules about labels; what is free there is in the site."""

    @property
    def cost(self) -> Decimal:
        return self.outline.cost

    @property
    def demand(self) -> Vector:
        return self.outline.demand

    @property
    def values(self) -> Vector:
        return self.outline.values

    def worth(self, size: Size) -> float:
        return self.outline.worth(size)

    @cached_property
    def worths(self) -> tuple[float, ...]:
        """Of each kind."""
        return tuple(self.worth((kind.cpu_milli, kind.memory_mib, 1)) for kind in self.kinds)

    @cached_property
    def largest_first(self) -> tuple[tuple[int, ...], ...]:
        """The parcels of each site: what has rules of its own before the rest, and large before small."""
        worths = self.worths
        places = [(not each.alone, -worths[each.kind], each.pod.uid) for each in self.parcels]
        return tuple(tuple(sorted(site.parcels, key=places.__getitem__)) for site in self.sites)

    @cached_property
    def begins_with(self) -> tuple[tuple[int, int], ...]:
        """Of each site the kind of the parcels that come first, and how many they are; those with rules of
        their own are of no kind, -1."""
        return tuple(map(self._beginning, self.largest_first))

    def _beginning(self, numbers: Sequence[int]) -> tuple[int, int]:
        kinds = (-1 if self.parcels[each].alone else self.parcels[each].kind for each in numbers)
        first, same = next(groupby(kinds), (-1, ()))
        return first, sum(1 for _ in same)

    @cached_property
    def held_worths(self) -> tuple[float, ...]:
        """What the parcels of each site are worth."""
        worths = [self.worths[parcel.kind] for parcel in self.parcels]
        return tuple(sum([worths[each] for each in site.parcels]) for site in self.sites)
