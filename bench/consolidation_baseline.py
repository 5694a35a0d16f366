"""Consolidation as Karpenter does it, to compare with. A model, not the program: CPU, memory and pod slots.

Nodes are sorted by what disturbing them costs, which is their number of pods. Command after command: empty
nodes are deleted; else the longest beginning of that order, of a hundred at most and found by bisection,
whose pods fit on the other nodes and at most one new and cheaper one; else the first single node of which
that holds. It ends when no command is left. Pods go onto the first node with room, the largest first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ebbtide.core.packing.fill import Bools, Floats, Ints
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

MOST_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class Reached:
    cost: float
    evictions: int
    """A pod that is moved again counts again."""
    commands: int
    moved: int
    """Pods that were moved at all."""


@dataclass(frozen=True, slots=True)
class _Command:
    removed: list[int]
    places: list[tuple[int, int]]
    """Pod and node; -1 is the new node."""
    launched: int | None


class _Fleet:
    def __init__(self, snapshot: Snapshot, settings: Settings) -> None:
        (pool,) = settings.pools
        types = [(t, float(t.price.per_hour)) for t in pool.types if t.price is not None]
        types.sort(key=lambda pair: pair[1])
        self.offer: Floats = np.array(
            [(t.allocatable.cpu_milli, t.allocatable.memory_mib, t.max_pods) for t, _ in types], dtype=float
        )
        self.offer_price: Floats = np.array([price for _, price in types])
        price_of = {t.name: price for t, price in types}
        nodes = snapshot.cluster.nodes
        self.price: Floats = np.array([price_of[node.instance_type] for node in nodes])
        self.free: Floats = np.array(
            [(n.allocatable.cpu_milli, n.allocatable.memory_mib, n.max_pods) for n in nodes], dtype=float
        )
        number = {node.name: index for index, node in enumerate(nodes)}
        pods = snapshot.cluster.pods
        self.size: Floats = np.array(
            [(p.requests.cpu_milli, p.requests.memory_mib, 1.0) for p in pods], dtype=float
        )
        self.rank = np.lexsort((-self.size[:, 1], -self.size[:, 0])).argsort()
        self.pods: list[list[int]] = [[] for _ in nodes]
        for pod, each in enumerate(pods):
            self.pods[number[each.node_name]].append(pod)
            self.free[number[each.node_name]] -= self.size[pod]
        self.alive: Bools = np.ones(len(nodes), dtype=bool)

    def order(self) -> list[int]:
        alive = np.flatnonzero(self.alive).tolist()
        return sorted(alive, key=lambda node: len(self.pods[node]))

    def command(self, removed: list[int]) -> _Command | None:
        """What removing these comes to, if their pods have places and money is saved."""
        pods = sorted((pod for node in removed for pod in self.pods[node]), key=lambda pod: self.rank[pod])
        gone = self.alive.copy()
        gone[removed] = False
        open_ = np.flatnonzero(gone)
        free = self.free[open_].copy()
        claim = np.zeros(3)
        places: list[tuple[int, int]] = []
        saved = float(self.price[removed].sum())
        for pod in pods:
            size = self.size[pod]
            fits = (free[:, 0] >= size[0]) & (free[:, 1] >= size[1]) & (free[:, 2] >= 1.0)
            place = int(fits.argmax())
            if fits[place]:
                free[place] -= size
                places.append((pod, int(open_[place])))
                continue
            claim += size
            if not self._cheapest(claim, saved).size:
                return None
            places.append((pod, -1))
        launched = None
        if claim[2]:
            launched = int(self._cheapest(claim, saved)[0])
        return _Command(removed, places, launched)

    def _cheapest(self, claim: Floats, below: float) -> Ints:
        """Types that hold this for less, the cheapest first."""
        return np.flatnonzero(np.all(self.offer >= claim, axis=1) & (self.offer_price < below))

    def execute(self, command: _Command) -> None:
        if command.launched is not None:
            self.free = np.vstack([self.free, self.offer[command.launched]])
            self.price = np.append(self.price, self.offer_price[command.launched])
            self.alive = np.append(self.alive, True)
            self.pods.append([])
        for pod, node in command.places:
            place = node if node >= 0 else len(self.pods) - 1
            self.free[place] -= self.size[pod]
            self.pods[place].append(pod)
        for node in command.removed:
            self.alive[node] = False
            self.pods[node] = []


def as_karpenter(snapshot: Snapshot, settings: Settings) -> Reached:
    fleet = _Fleet(snapshot, settings)
    evictions = commands = 0
    moved: set[int] = set()
    while (command := _next(fleet)) is not None:
        fleet.execute(command)
        commands += 1
        evictions += len(command.places)
        moved.update(pod for pod, _ in command.places)
    return Reached(float(fleet.price[fleet.alive].sum()), evictions, commands, len(moved))


def _next(fleet: _Fleet) -> _Command | None:
    order = fleet.order()
    empty = [node for node in order if not fleet.pods[node]]
    if empty:
        return _Command(empty, [], None)
    return _several(fleet, order[:MOST_AT_ONCE]) or _single(fleet, order)


def _several(fleet: _Fleet, order: list[int]) -> _Command | None:
    best: _Command | None = None
    low, high = 2, len(order)
    while low <= high:
        middle = (low + high) // 2
        command = fleet.command(order[:middle])
        if command is None:
            high = middle - 1
        else:
            best, low = command, middle + 1
    return best


def _single(fleet: _Fleet, order: list[int]) -> _Command | None:
    return next((command for node in order if (command := fleet.command([node])) is not None), None)
