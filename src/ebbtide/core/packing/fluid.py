"""The fluid bound: what the pods would cost if they could be poured into nodes.

It is a linear programme with one row a resource and one variable a type. The simplex method on three
rows is short enough to be written out, so the bound needs no solver. The prices it ends with are
made feasible before use, which proves the bound whatever the arithmetic did on the way there.
"""

from __future__ import annotations

from collections.abc import Sequence

Vector = tuple[float, float, float]

_ROWS = range(3)
_STEPS = 500
_TINY = 1e-12


def fluid_prices(offers: Sequence[Vector], prices: Sequence[float], demand: Vector) -> Vector:
    """Value of a milli-CPU, a MiB and a pod slot that make the bound as high as it can be.

    No type offers more than its price is worth at these values.
    """
    # Rows of one scale, so one tolerance serves them all.
    units = (max(o[0] for o in offers), max(o[1] for o in offers), max(o[2] for o in offers))
    values = _simplex([_over(offer, units) for offer in offers], prices, _over(demand, units))
    return _feasible(offers, prices, _over(values, units))


def _simplex(offers: Sequence[Vector], prices: Sequence[float], demand: Vector) -> Vector:
    basis = _first_basis(offers, prices, demand)
    inverse, values = _priced(offers, prices, basis)
    steps = 0
    while (entering := _entering(offers, prices, values)) is not None and steps < _STEPS:
        basis[_leaving(inverse, _column(offers, entering), demand)] = entering
        inverse, values = _priced(offers, prices, basis)
        steps += 1
    return values


def _priced(
    offers: Sequence[Vector], prices: Sequence[float], basis: list[int]
) -> tuple[list[Vector], Vector]:
    inverse = _invert([_column(offers, index) for index in basis])
    return inverse, _times_left([_cost(prices, index) for index in basis], inverse)


def fluid_bound(values: Vector, demand: Vector) -> float:
    return sum(value * amount for value, amount in zip(values, demand, strict=True))


def _over(one: Vector, other: Vector) -> Vector:
    return (one[0] / other[0], one[1] / other[1], one[2] / other[2])


def _first_basis(offers: Sequence[Vector], prices: Sequence[float], demand: Vector) -> list[int]:
    """One type in the amount that covers every row, and the surplus of the rows it more than covers."""

    def amount(index: int) -> float:
        return max(need / offer for need, offer in zip(demand, offers[index], strict=True))

    best = min(range(len(offers)), key=lambda index: amount(index) * prices[index])
    ratios = [need / offer for need, offer in zip(demand, offers[best], strict=True)]
    tight = ratios.index(max(ratios))
    return [best if row == tight else -1 - row for row in _ROWS]


def _column(offers: Sequence[Vector], index: int) -> Vector:
    """A type's offer, or for a negative index the surplus of one row."""
    if index >= 0:
        return offers[index]
    cpu, memory, slots = (-1.0 if index == -1 - row else 0.0 for row in _ROWS)
    return (cpu, memory, slots)


def _cost(prices: Sequence[float], index: int) -> float:
    return prices[index] if index >= 0 else 0.0


def _entering(offers: Sequence[Vector], prices: Sequence[float], values: Vector) -> int | None:
    """The column that most undercuts its price, as a share of it; a surplus when its value is negative."""
    best, index = 1e-9, None
    for row in _ROWS:
        if values[row] < -_TINY:
            return -1 - row
    for type_index, offer in enumerate(offers):
        worth = fluid_bound(values, offer) / prices[type_index] - 1.0
        if worth > best:
            best, index = worth, type_index
    return index


def _leaving(inverse: list[Vector], column: Vector, demand: Vector) -> int:
    steps = [fluid_bound(row, column) for row in inverse]
    ratios = [
        fluid_bound(row, demand) / step if step > _TINY else float("inf")
        for row, step in zip(inverse, steps, strict=True)
    ]
    return ratios.index(min(ratios))


def _feasible(offers: Sequence[Vector], prices: Sequence[float], values: Vector) -> Vector:
    a, b, c = (max(0.0, value) for value in values)
    worst = max(fluid_bound((a, b, c), offer) / price for offer, price in zip(offers, prices, strict=True))
    scale = max(1.0, worst)
    return (a / scale, b / scale, c / scale)


def _invert(columns: list[Vector]) -> list[Vector]:
    """Inverse of the 3×3 matrix with these columns, row by row."""
    (a, d, g), (b, e, h), (c, f, i) = columns
    cofactors = (e * i - f * h, c * h - b * i, b * f - c * e)
    determinant = a * cofactors[0] + d * cofactors[1] + g * cofactors[2] or _TINY
    rows = (
        cofactors,
        (f * g - d * i, a * i - c * g, c * d - a * f),
        (d * h - e * g, b * g - a * h, a * e - b * d),
    )
    return [(x / determinant, y / determinant, z / determinant) for x, y, z in rows]


def _times_left(row: list[float], matrix: list[Vector]) -> Vector:
    x, y, z = (sum(row[k] * matrix[k][column] for k in _ROWS) for column in _ROWS)
    return (x, y, z)
