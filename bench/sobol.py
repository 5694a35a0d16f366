"""A Sobol sequence, to compare a search with points that are spread evenly and do not learn.

    points(11, 256)      # 256 points of 11 numbers from 0 to below 1

Primitive polynomials and direction numbers are the first of those of Joe and Kuo (new-joe-kuo-6.21201). The
first 1,024 points of 16 dimensions are those of SciPy's `qmc.Sobol(scramble=False)`.
"""

from __future__ import annotations

from collections.abc import Iterator

BITS = 30
DIRECTIONS: tuple[tuple[int, int, tuple[int, ...]], ...] = (
    (1, 0, (1,)),
    (2, 1, (1, 3)),
    (3, 1, (1, 3, 1)),
    (3, 2, (1, 1, 1)),
    (4, 1, (1, 1, 3, 3)),
    (4, 4, (1, 3, 5, 13)),
    (5, 2, (1, 1, 5, 5, 17)),
    (5, 4, (1, 1, 5, 5, 5)),
    (5, 7, (1, 1, 7, 11, 19)),
    (5, 11, (1, 1, 5, 1, 1)),
    (5, 13, (1, 1, 1, 3, 11)),
    (5, 14, (1, 3, 5, 5, 31)),
    (6, 1, (1, 3, 3, 9, 7, 49)),
    (6, 13, (1, 1, 1, 15, 21, 21)),
    (6, 16, (1, 3, 1, 13, 27, 49)),
)
"""For each dimension from the second on: degree, coefficients between the first and the last one as bits, and
the initial numbers."""


def points(dimensions: int, count: int) -> Iterator[tuple[float, ...]]:
    """In Gray code order, the origin first."""
    columns = [_column(dimension) for dimension in range(dimensions)]
    place = [0] * dimensions
    for number in range(count):
        yield tuple(one / 2**BITS for one in place)
        lowest_zero = (~number & (number + 1)).bit_length() - 1
        place = [one ^ column[lowest_zero] for one, column in zip(place, columns, strict=True)]


def _column(dimension: int) -> list[int]:
    if dimension == 0:
        return [1 << (BITS - 1 - bit) for bit in range(BITS)]
    degree, coefficients, initial = DIRECTIONS[dimension - 1]
    found = [one << (BITS - 1 - bit) for bit, one in enumerate(initial)]
    for bit in range(degree, BITS):
        one = found[bit - degree] ^ (found[bit - degree] >> degree)
        for step in range(1, degree):
            if coefficients >> (degree - 1 - step) & 1:
                one ^= found[bit - step]
        found.append(one)
    return found
