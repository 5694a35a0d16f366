"""Which tests a mutant is still to be judged by, after all that earlier runs and other mutants have shown."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from tests.mutation.clauses import Clause
from tests.mutation.mutants import Mutant
from tests.mutation.promise import Promise
from tests.mutation.reach import Reach
from tests.mutation.verdicts import CAUGHT, Found, Verdict, Verdicts, short


class Asking:
    def __init__(
        self,
        reach: Reach,
        verdicts: Verdicts,
        names: Mapping[Mutant | Clause, str],
        budget: float,
    ) -> None:
        """`budget`: how many seconds of tests may be asked about a mutant, as recorded."""
        self.reach = reach
        self._verdicts = verdicts
        self._names = names
        self._budget = budget
        self._promise = Promise(reach)
        self._trusted: set[str] = set()
        self._unreliable: set[str] = set()

    def standing(self, mutant: Mutant | Clause) -> Found | None:
        """The verdict, if nothing is left to be asked."""
        found = self._verdicts.standing(self._names[mutant], mutant)
        if not self.reach.of(mutant.module, mutant.lines):
            return Found(Verdict.UNREACHED)
        if found is None or found.verdict is Verdict.UNREACHED:
            return None
        if found.verdict in CAUGHT:
            self._promise.learn(mutant, (), found.by)
        return None if found.verdict is Verdict.SURVIVED and self.tests_for(mutant) else found

    def tests_for(self, mutant: Mutant | Clause) -> list[str]:
        """The most promising first, within the budget. At least one, unless one was asked before."""
        name, tests = self._names[mutant], self.reach.of(mutant.module, mutant.lines)
        asked, fresh = self._verdicts.asked_before(name, mutant, tests)
        earlier = self._verdicts.killer_before(name)
        possible = [test for test in tests if test not in asked and test not in self._unreliable]
        ordered = self._promise.best_first(mutant, possible)
        ordered.sort(key=lambda test: (test != earlier, test not in fresh))
        seconds = sum(self.reach.tests[test].seconds for test in asked)
        chosen: list[str] = []
        for test in ordered:
            if seconds < self._budget or test in fresh or not (chosen or asked):
                chosen.append(test)
                seconds += self.reach.tests[test].seconds
        return chosen

    def found(
        self, mutant: Mutant | Clause, verdict: Verdict, asked: Iterable[str], by: str, cpu: float
    ) -> Found:
        """With what is known of it already."""
        before = self._verdicts.standing(self._names[mutant], mutant)
        known, spent = (before.asked, before.cpu) if before is not None else (frozenset[str](), 0.0)
        return Found(verdict, by, known | {short(test) for test in asked}, spent + cpu)

    def conclude(self, mutant: Mutant | Clause, found: Found) -> None:
        """Keeps it, and learns from it."""
        tests = self.reach.of(mutant.module, mutant.lines)
        asked = [test for test in tests if short(test) in found.asked]
        self._promise.learn(mutant, asked, found.by)
        kept = found if found.verdict is Verdict.SURVIVED else Found(found.verdict, found.by, cpu=found.cpu)
        self._verdicts.keep(self._names[mutant], mutant, kept, tests)

    def is_trusted(self, test: str) -> bool:
        return test in self._trusted

    def trust(self, test: str, holds: bool) -> None:
        """Whether it passes on the original code, run alone in a fork."""
        (self._trusted if holds else self._unreliable).add(test)
        if not holds:
            print(f"not asked again, it fails on the original code too: {test}", flush=True)
