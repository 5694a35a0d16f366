"""How a fluid answer becomes nodes: two classes, and columns that hold some of each."""

from __future__ import annotations

import numpy as np

from ebbtide.core.packing.columns import Columns
from ebbtide.core.packing.improve import fix

VALUE = np.array([1.0, 1.0])


def fixed(
    patterns: list[list[float]], usage: list[float], left: list[float], hurried: bool = False
) -> tuple[list[tuple[int, list[float], int]], list[float]]:
    columns = Columns(np.arange(len(patterns)), np.array(patterns))
    rest = np.array(left)
    nodes = fix(columns, np.array(usage), VALUE, rest, hurried)
    return [(number, pattern.tolist(), times) for number, pattern, times in nodes], rest.tolist()


def test_whole_parts_are_kept_and_fractions_asked_for_again() -> None:
    assert fixed([[2, 0], [0, 2]], [3.0, 0.5], [6, 1]) == ([(0, [2, 0], 3)], [0, 1])


def test_what_the_answer_covers_twice_is_placed_once() -> None:
    assert fixed([[2, 0], [2, 1]], [1.0, 1.0], [2, 1]) == ([(0, [2, 0], 1)], [0, 1])


def test_without_whole_parts_every_large_fraction_is_a_node() -> None:
    assert fixed([[2, 0], [0, 2], [1, 1]], [0.9, 0.6, 0.2], [3, 3])[0] == [(0, [2, 0], 1), (1, [0, 2], 1)]


def test_without_large_fractions_the_largest_is_a_node() -> None:
    assert fixed([[2, 0], [0, 2]], [0.2, 0.4], [3, 3])[0] == [(1, [0, 2], 1)]


def test_a_fraction_whose_pods_are_gone_is_no_node() -> None:
    assert fixed([[2, 0], [2, 1]], [0.9, 0.8], [2, 3])[0] == [(0, [2, 0], 1)]


def test_in_a_hurry_every_fraction_is_a_node() -> None:
    found, rest = fixed([[2, 0], [1, 2]], [1.2, 0.1], [3, 1], hurried=True)

    assert found == [(0, [2, 0], 1), (0, [1, 0], 1), (1, [0, 1], 1)]
    assert rest == [0, 0]
