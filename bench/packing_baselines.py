"""Two packers to compare with, written after how the common autoscalers choose nodes.

They are models, not the programs themselves: they know CPU, memory and pod slots, and no constraint.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ebbtide.core.packing import Item, NodeType
from ebbtide.core.packing.fill import Floats
from ebbtide.core.packing.problem import undominated

_SAMPLE = 400
"""Pods on which a type is judged where all sizes differ; all of them would take minutes."""

Size = tuple[int, int, int]
"""CPU, memory and pod slots."""


def first_fit_decreasing(items: Sequence[Item], types: Sequence[NodeType]) -> float:
    """Cost of: largest pod first, into the emptiest claim it fits, each claim at last the cheapest type.

    As Karpenter packs: a claim stands for every type that could still hold its pods.
    """
    kept = [types[index] for index in undominated(types, [1] * len(types))]
    offer = np.array([(type_.cpu_milli, type_.memory_mib, type_.pods) for type_ in kept], dtype=float)
    price = np.array([type_.price for type_ in kept])
    largest = offer.max(axis=0)
    claims = np.zeros((256, 3))
    used = 0
    for size in _decreasing(items):
        after = claims[:used] + size
        # A bound on each resource rules most claims out before every type is tried.
        near = np.flatnonzero(np.all(after <= largest, axis=1))
        near = near[np.argsort(claims[near, 2], kind="stable")]
        place = _first_that_holds(after[near], offer)
        if place is not None:
            claims[near[place]] += size
            continue
        if used == len(claims):
            claims = np.vstack([claims, np.zeros_like(claims)])
        claims[used] = size
        used += 1
    holds = np.all(claims[:used, np.newaxis, :] <= offer, axis=2)
    return float(np.where(holds, price, np.inf).min(axis=1).sum())


def _first_that_holds(claims: Floats, offer: Floats) -> int | None:
    for start in range(0, len(claims), 64):
        block = claims[start : start + 64]
        holds = np.any(np.all(block[:, np.newaxis, :] <= offer, axis=2), axis=1)
        if holds.any():
            return start + int(holds.argmax())
    return None


def least_waste(items: Sequence[Item], types: Sequence[NodeType]) -> float:
    """Cost of: one type for all pods that fit it, the one that wastes the smallest share; then the rest.

    As the cluster-autoscaler expands: each group of nodes is tried alone, first fit and largest first.
    Groups are made of undominated types only, as a sensible person would.
    """
    kept = [types[index] for index in undominated(types, [1] * len(types))]
    pods = _decreasing(items)
    cost = 0.0
    while pods:
        judged = pods[:: max(1, len(pods) // _SAMPLE)] if len(items) > _SAMPLE else pods
        best = min((type_ for type_ in kept if _fitting(judged, type_)), key=lambda t: _waste(judged, t))
        placed = _fitting(pods, best)
        cost += (_nodes_one_by_one if len(items) > _SAMPLE else _nodes)(placed, best) * best.price
        pods = [size for size in pods if not _fits(size, best)]
    return cost


def _waste(pods: list[Size], type_: NodeType) -> float:
    placed = _fitting(pods, type_)
    nodes = _nodes(placed, type_)
    cpu = sum(size[0] for size in placed) / (nodes * type_.cpu_milli)
    memory = sum(size[1] for size in placed) / (nodes * type_.memory_mib)
    return 1.0 - (cpu + memory) / 2.0


def _nodes_one_by_one(pods: list[Size], type_: NodeType) -> int:
    room = np.tile(np.array((type_.cpu_milli, type_.memory_mib, type_.pods)), (len(pods), 1))
    used = 0
    for size in pods:
        fits = np.all(room[: used + 1] >= size, axis=1)
        place = int(fits.argmax())
        room[place] -= size
        used = max(used, place + 1)
    return used


def _nodes(pods: list[Size], type_: NodeType) -> int:
    """How many nodes first fit needs. Nodes with the same room are kept together, as (room, how many)."""
    groups: list[tuple[Size, int]] = []
    start = 0
    while start < len(pods):
        size = pods[start]
        end = start
        while end < len(pods) and pods[end] == size:
            end += 1
        groups = _placed(groups, size, end - start, type_)
        start = end
    return sum(nodes for _, nodes in groups)


def _placed(
    groups: list[tuple[Size, int]], size: Size, count: int, type_: NodeType
) -> list[tuple[Size, int]]:
    after: list[tuple[Size, int]] = []
    for room, nodes in groups:
        each = min(have // max(1, need) for have, need in zip(room, size, strict=True))
        if not each or not count:
            after.append((room, nodes))
            continue
        full, rest = divmod(min(count, each * nodes), each)
        count -= full * each + rest
        if full:
            after.append((_less(room, size, each), full))
        if rest:
            after.append((_less(room, size, rest), 1))
        if full + (rest > 0) < nodes:
            after.append((room, nodes - full - (rest > 0)))
    if count:
        empty = (type_.cpu_milli, type_.memory_mib, type_.pods)
        each = min(have // max(1, need) for have, need in zip(empty, size, strict=True))
        full, rest = divmod(count, each)
        after.extend([(_less(empty, size, each), full)] if full else [])
        after.extend([(_less(empty, size, rest), 1)] if rest else [])
    return after


def _less(room: Size, size: Size, times: int) -> Size:
    return (room[0] - size[0] * times, room[1] - size[1] * times, room[2] - size[2] * times)


def _fitting(pods: list[Size], type_: NodeType) -> list[Size]:
    return [size for size in pods if _fits(size, type_)]


def _fits(size: Size, type_: NodeType) -> bool:
    return size[0] <= type_.cpu_milli and size[1] <= type_.memory_mib and size[2] <= type_.pods


def _decreasing(items: Sequence[Item]) -> list[Size]:
    sizes = [(item.cpu_milli, item.memory_mib, item.slots) for item in items for _ in range(item.count)]
    return sorted(sizes, reverse=True)
