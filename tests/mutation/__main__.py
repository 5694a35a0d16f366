"""Change the modules that guard something, one small change at a time. Which changes does no test notice?"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.mutation.asking import Asking
from tests.mutation.chosen import GROUPS, ROOT, files, gone, group_of
from tests.mutation.clauses import clauses_of
from tests.mutation.equivalent import EQUIVALENT
from tests.mutation.judging import Judged, judge
from tests.mutation.mutants import mutants_of
from tests.mutation.reach import digests_of_modules, digests_of_tests, read_reach
from tests.mutation.verdicts import CAUGHT, Found, Verdict, Verdicts, names_of

SURVIVORS = ROOT / "build" / "mutation" / "survivors.txt"
VERDICTS = ROOT / "build" / "mutation" / "verdicts.jsonl"
PROGRESS = 50


@dataclass
class Tally:
    """The results for the mutants of each group."""

    of: dict[str, Counter[Verdict]] = field(default_factory=dict)
    survivors: list[str] = field(default_factory=list)
    cpu: dict[str, float] = field(default_factory=dict)
    """Seconds of all forks, for each group."""

    def tell(self, mutant: Judged, found: Found) -> None:
        verdict = found.verdict
        group = group_of(mutant.module)
        self.of.setdefault(group, Counter())[verdict] += 1
        self.cpu[group] = self.cpu.get(group, 0.0) + found.cpu
        if verdict in (Verdict.SURVIVED, Verdict.UNREACHED):
            self.survivors.append(str(mutant))
            word = "not reached by a test" if verdict is Verdict.UNREACHED else "survived"
            print(f"{word}: {mutant}", flush=True)
        if self.judged % PROGRESS == 0:
            print(f"... {self.judged} judged, {len(self.survivors)} survived", flush=True)

    @property
    def judged(self) -> int:
        return sum(sum(counts.values()) for counts in self.of.values())

    def total(self) -> Counter[Verdict]:
        return sum(self.of.values(), Counter())


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=__doc__)
    parser.add_argument("--sample", type=int, default=0, help="so many, drawn from all; 0: every mutant")
    parser.add_argument("--each", type=int, default=0, help="so many of each group")
    parser.add_argument(
        "--module", nargs="+", default=[""], help="only modules whose dotted names begin with one of these"
    )
    parser.add_argument("--seed", type=int, default=None, help="of the sample; a new one unless given")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--record", action="store_true", help="again which tests reach which lines")
    parser.add_argument("--tests", nargs="+", default=[""], help="ask only tests whose paths begin so")
    parser.add_argument(
        "--budget", type=float, default=60.0, help="seconds of tests that are asked about a mutant"
    )
    parser.add_argument("--again", action="store_true", help="judge also what was judged before")
    parser.add_argument("--at-least", type=float, default=97.0, help="percent killed, or the run fails")
    parser.add_argument(
        "--only", type=Path, help="a file with the mutants to judge, as survivors are written"
    )
    arguments = parser.parse_args()
    if lost := gone():
        parser.error(f"tests/mutation/chosen.py names modules that are no longer there: {', '.join(lost)}")
    seed = arguments.seed if arguments.seed is not None else random.SystemRandom().randrange(10**6)
    mutants: list[Judged] = []
    for file in files(*arguments.module):
        mutants += [*mutants_of(file), *clauses_of(file)]
    listed = {(one.function, one.old, one.new) for one in EQUIVALENT}
    kept = [one for one in mutants if (f"{one.module}.{one.function}", one.old, one.new) not in listed]
    if arguments.each:
        chosen = _of_each(kept, arguments.each, seed)
    else:
        chosen = _chosen(kept, arguments.sample, seed, arguments.only)
    print(
        f"{len(mutants)} mutants in {len(files(*arguments.module))} modules, "
        f"{len(mutants) - len(kept)} of them listed as equivalent; {len(chosen)} are judged (seed {seed})",
        flush=True,
    )
    only = tuple(arguments.tests)
    reach, tally = read_reach(arguments.record, only), Tally()
    verdicts = Verdicts(VERDICTS, digests_of_modules(), digests_of_tests())
    if not arguments.again:
        verdicts.read()
    names = dict(zip(mutants, names_of(mutants), strict=True))
    began = time.monotonic()
    judge(chosen, Asking(reach, verdicts, names, arguments.budget), arguments.workers, tally.tell)
    SURVIVORS.write_text("".join(f"{one}\n" for one in tally.survivors))
    return _conclude(tally, time.monotonic() - began, arguments.at_least)


def _of_each(mutants: list[Judged], number: int, seed: int) -> list[Judged]:
    groups: dict[str, list[Judged]] = {}
    for mutant in mutants:
        groups.setdefault(group_of(mutant.module), []).append(mutant)
    return [one for found in groups.values() for one in drawn(found, number, seed)]


def _chosen(mutants: list[Judged], sample: int, seed: int, only: Path | None) -> list[Judged]:
    if only is not None:
        named = set(only.read_text().splitlines())
        return [mutant for mutant in mutants if str(mutant) in named]
    return drawn(mutants, sample, seed) if sample else mutants


def drawn(mutants: Iterable[Judged], number: int, seed: int) -> list[Judged]:
    """Each by a number made of its text: what is drawn stays drawn while other code changes."""

    def lot(mutant: Judged) -> bytes:
        return hashlib.sha256(f"{seed} {mutant}".encode()).digest()

    return sorted(mutants, key=lot)[:number]


def _conclude(tally: Tally, seconds: float, at_least: float) -> int:
    print("| group | killed | timed out | survived | not reached | not planted | score | CPU min |")
    print("| --- | --- | --- | --- | --- | --- | --- | --- |")
    columns = (Verdict.KILLED, Verdict.TIMED_OUT, Verdict.SURVIVED, Verdict.UNREACHED, Verdict.LEFT_OUT)
    for group in GROUPS:
        if counts := tally.of.get(group):
            cells = " | ".join(str(counts[column]) for column in columns)
            print(f"| {group} | {cells} | {_score(counts):.1f} % | {tally.cpu[group] / 60:.1f} |")
    total = tally.total()
    caught = sum(total[verdict] for verdict in CAUGHT)
    judged = sum(total.values()) - total[Verdict.LEFT_OUT]
    score = _score(total)
    print(
        f"{judged} mutants judged, {caught} killed ({total[Verdict.TIMED_OUT]} of them by time), "
        f"{judged - caught} survived: {score:.1f} % in {seconds / 60:.1f} min, "
        f"{sum(tally.cpu.values()) / 60:.1f} CPU min in all"
    )
    return 0 if score >= at_least else 1


def _score(counts: Counter[Verdict]) -> float:
    """Percent killed of those that could be planted."""
    judged = sum(counts.values()) - counts[Verdict.LEFT_OUT]
    return 100 * sum(counts[verdict] for verdict in CAUGHT) / judged if judged else 100.0


if __name__ == "__main__":
    sys.exit(main())
