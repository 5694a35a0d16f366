"""Mutants that no test can tell from the original, each with the reason.

An entry names the function and the statement before and after the change, as `python -m tests.mutation`
prints them. It fits wherever that function has that statement, so code can move; one that fits nothing fails
`tests/unit/test_mutation.py`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Equivalent:
    function: str
    """Dotted, with its module."""
    old: str
    new: str
    reason: str


EQUIVALENT: tuple[Equivalent, ...] = ()
