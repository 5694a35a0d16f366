"""Greedy fills: one node of every type at once, in several orders of the classes."""

from __future__ import annotations

import numpy as np

from ebbtide.core.packing.arrays import RESOURCES, Arrays, Floats, Ints

_ALMOST = 1e-9


def fill(arrays: Arrays, types: Ints, orders: Ints, most: Floats) -> Floats:
    """Patterns: for each order, one for each of the types.

    `orders` has a row for each order; `most` is what a node may hold of each class.
    """
    ways, steps = orders.shape
    # One array a resource: reducing over a short last axis is several times as slow.
    room = [np.tile(arrays.offer[types, resource], (ways, 1)) for resource in range(RESOURCES)]
    patterns = np.zeros((ways, len(types), arrays.kinds))
    admitted = arrays.admitted[types]
    everywhere = bool(admitted.all())
    size = [arrays.size[orders, resource][:, :, np.newaxis] for resource in range(RESOURCES)]
    inverse = [1.0 / each for each in size]
    ceiling = most[orders][:, :, np.newaxis]
    way = np.arange(ways)
    for step in range(steps):
        take = room[0] * inverse[0][:, step]
        for resource in range(1, RESOURCES):
            np.minimum(take, room[resource] * inverse[resource][:, step], out=take)
        np.minimum(np.floor(take + _ALMOST, out=take), ceiling[:, step], out=take)
        if not everywhere:
            take *= admitted[:, orders[:, step]].T
        for resource in range(RESOURCES):
            room[resource] -= take * size[resource][:, step]
        patterns[way, :, orders[:, step]] = take
    return patterns.reshape(-1, arrays.kinds)
