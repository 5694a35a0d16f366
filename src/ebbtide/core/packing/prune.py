"""Leave out the node types that no cheapest plan needs: another offers as much for no more money."""

from __future__ import annotations

from collections.abc import Sequence

from ebbtide.core.packing.types import NodeType


def undominated(types: Sequence[NodeType], admits: Sequence[int]) -> list[int]:
    """Indices of the types worth keeping, cheapest first.

    `admits` has one bit set a type: the classes that may run on it. A type is left out only for one
    that admits all it does.
    """
    order = sorted(range(len(types)), key=lambda index: _rank(types[index]))
    kept: list[int] = []
    for index in order:
        mine, admitted = types[index], admits[index]
        if admitted and not any(
            admits[other] & admitted == admitted and _covers(types[other], mine) for other in kept
        ):
            kept.append(index)
    return kept


def _rank(type_: NodeType) -> tuple[float, int, int, int]:
    # What dominates another comes before it: cheaper, or at one price the larger.
    return (type_.price, -type_.cpu_milli, -type_.memory_mib, -type_.pods)


def _covers(large: NodeType, small: NodeType) -> bool:
    return (
        large.cpu_milli >= small.cpu_milli
        and large.memory_mib >= small.memory_mib
        and large.pods >= small.pods
        and large.price <= small.price
    )
