"""A `Problem` as arrays, for the methods that work on all types at once."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ebbtide.core.packing.problem import Problem

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]

RESOURCES = 3


@dataclass(frozen=True, slots=True)
class Arrays:
    """Rows are classes or types; columns of `size` and `offer` are CPU, memory, pod slots."""

    size: Floats
    counts: Floats
    limit: Floats
    worth: Floats
    """Value of a class at the fluid prices."""
    parts: Floats
    """The same by resource."""
    offer: Floats
    price: Floats
    admitted: Bools
    """Type by class."""

    @property
    def kinds(self) -> int:
        return len(self.counts)

    @property
    def excess(self) -> Floats:
        """Share of each type's price that the fluid bound would not pay; 0 for the best types."""
        result: Floats = 1.0 - self.offer @ (self.parts[0] / self.size[0]) / self.price
        return result

    def only(self, kinds: Ints, counts: Floats) -> Arrays:
        """The same with these classes alone, in these counts."""
        return Arrays(
            size=self.size[kinds],
            counts=counts,
            limit=self.limit[kinds],
            worth=self.worth[kinds],
            parts=self.parts[kinds],
            offer=self.offer,
            price=self.price,
            admitted=np.ascontiguousarray(self.admitted[:, kinds]),
        )


def arrays_of(problem: Problem) -> Arrays:
    kinds, types = problem.kinds, problem.types
    size = np.array([(k.cpu_milli, k.memory_mib, k.slots) for k in kinds], dtype=float)
    counts = np.array(problem.counts, dtype=float)
    parts = size * np.array(problem.values)
    return Arrays(
        size=size,
        counts=counts,
        limit=np.array([float(kind.limit) for kind in kinds]),
        worth=parts.sum(axis=1),
        parts=parts,
        offer=np.array([(t.cpu_milli, t.memory_mib, t.pods) for t in types], dtype=float),
        price=np.array([type_.price for type_ in types]),
        admitted=_bits([kind.admitted for kind in kinds], len(types)),
    )


def _bits(masks: list[int], types: int) -> Bools:
    width = (types + 7) // 8
    raw = np.frombuffer(b"".join(mask.to_bytes(width, "little") for mask in masks), dtype=np.uint8)
    bits = np.unpackbits(raw.reshape(len(masks), width), axis=1, bitorder="little")[:, :types]
    return np.ascontiguousarray(bits.T.astype(bool))
