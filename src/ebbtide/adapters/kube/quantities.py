"""Amounts as Kubernetes writes them (`100m`, `1.5Gi`, `1e3`), exactly, then rounded the safe way.

What a pod asks for is rounded up and what a node offers down; see `ebbtide.model.resources`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

from ebbtide.model.resources import Resources

MIB = 2**20
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d{1,3}))?")
_FACTOR = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
    "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_NOT_COUNTED = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""Disk of the node is left out: the types that may be launched do not say how much of it they have."""


@lru_cache(maxsize=4096)
def read_quantity(text: str) -> Fraction:
    """Raises `ValueError` for what is no quantity."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is no quantity")
    number = Fraction(found[1])
    if found[2]:
        return number * _FACTOR[found[2]]
    return number * Fraction(10) ** int(found[3]) if found[3] else number


def read_requests(amounts: Mapping[str, Fraction]) -> Resources:
    extended = tuple(sorted((name, ceil(a)) for name, a in amounts.items() if name not in _NOT_COUNTED))
    cpu, memory = amounts.get("cpu", Fraction(0)), amounts.get("memory", Fraction(0))
    return Resources(ceil(cpu * 1000), ceil(memory / MIB), extended)


def read_offer(amounts: Mapping[str, str]) -> Resources:
    exact = {name: read_quantity(text) for name, text in amounts.items()}
    extended = tuple(sorted((name, floor(a)) for name, a in exact.items() if name not in _NOT_COUNTED and a))
    cpu, memory = exact.get("cpu", Fraction(0)), exact.get("memory", Fraction(0))
    return Resources(floor(cpu * 1000), floor(memory / MIB), extended)
