"""Which test to ask first: the one that is likeliest to notice the change, for the time that it takes.

A test that noticed other changes of the same function comes first, then one that noticed changes of the same
module. Where nothing is known yet, a test counts that reaches little else than this module.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Protocol

from tests.mutation.reach import Reach

OVERHEAD_SECONDS = 0.004
"""What every test takes on top of its own time."""
ELSEWHERE = 0.2
"""How much an outcome counts that was seen in another function of the module."""
HOPE = 0.02


class Placed(Protocol):
    @property
    def module(self) -> str: ...
    @property
    def function(self) -> str: ...


class Promise:
    def __init__(self, reach: Reach) -> None:
        self._reach = reach
        self._noticed: Counter[tuple[str, str]] = Counter()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._hopes: dict[tuple[str, str], float] = {}

    def learn(self, mutant: Placed, asked: Iterable[str], by: str) -> None:
        """The tests that were asked, and the one of them that noticed it; "" if none did."""
        function = _function(mutant)
        for name in asked:
            self._asked[name, function] += 1
            self._asked[name, mutant.module] += 1
        if by:
            self._noticed[by, function] += 1
            self._noticed[by, mutant.module] += 1

    def best_first(self, mutant: Placed, tests: Iterable[str]) -> list[str]:
        function, module = _function(mutant), mutant.module
        noticed, asked, reached = self._noticed, self._asked, self._reach.tests

        def worth(name: str) -> tuple[float, str]:
            seen = noticed[name, function] + ELSEWHERE * noticed[name, module] + self._hope(name, module)
            tried = asked[name, function] + ELSEWHERE * asked[name, module] + 1
            return -seen / tried / (reached[name].seconds + OVERHEAD_SECONDS), name

        return sorted(tests, key=worth)

    def _hope(self, name: str, module: str) -> float:
        known = self._hopes.get((name, module))
        if known is None:
            lines = self._reach.tests[name].lines
            share = len(lines.get(module, ())) / max(1, sum(map(len, lines.values())))
            known = self._hopes[name, module] = HOPE + share / 4
        return known


def _function(mutant: Placed) -> str:
    return f"{mutant.module}.{mutant.function}"
