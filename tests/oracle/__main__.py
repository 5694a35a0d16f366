"""Compare the engine with the oracle; print the table of rules, and every difference."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter
from collections.abc import Iterator
from itertools import product

from tests.oracle.answers import RULES, never_drawn, table
from tests.oracle.comparisons import COMPARISONS, Found, Job, compared, too_few
from tests.oracle.suite import Report


def main() -> int:
    names = [one.name for one in COMPARISONS]
    parser = argparse.ArgumentParser(prog="python -m tests.oracle", description=__doc__)
    parser.add_argument("--only", choices=names, help="this comparison alone")
    parser.add_argument("--times", type=int, default=1, help="so many times the draws of a push")
    parser.add_argument("--part", type=int, default=0, help="begin with these draws; 0 are those of a push")
    parser.add_argument("--show", action="store_true", help="the smallest case that differs")
    parser.add_argument(
        "--fast",
        action="store_true",
        help="by a plain generator: quick, and no case is made small",
    )
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    start = time.monotonic()
    parts = range(arguments.part, arguments.part + arguments.times)
    jobs = [
        (name, part, arguments.show, arguments.fast)
        for part, name in product(parts, [arguments.only] if arguments.only else names)
    ]
    total, drawn = Report(), Counter[tuple[str, str]]()
    fast = " --fast" if arguments.fast else ""
    for found, (name, part, *_) in zip(_all(jobs, arguments.workers), jobs, strict=True):
        total.merge(found.report)
        drawn += found.drawn
        for difference in found.report.differences:
            print(
                f"{name}: {difference}\n  python -m tests.oracle --only {name} --part {part}{fast} --show",
                flush=True,
            )
        if arguments.show and found.report.smallest:
            print(found.report.smallest)
    wrong = list(total.differences)
    if not arguments.only:
        missing = [*never_drawn(drawn), *too_few(total.cases, arguments.times)]
        print("\n".join([*table(drawn), *(f"NOT DRAWN: {one}" for one in missing)]))
        wrong += missing
    print(", ".join(f"{count:,} {name}" for name, count in sorted(total.cases.items())))
    took = time.monotonic() - start
    print(f"{len(RULES)} rules, {total.compared:,} cases, {len(total.differences)} differences, {took:.0f} s")
    return 1 if wrong else 0


def _all(jobs: list[Job], workers: int) -> Iterator[Found]:
    """In their order, each as soon as it is there."""
    if workers == 1:
        yield from map(compared, jobs)
        return
    with multiprocessing.get_context("spawn").Pool(workers) as pool:
        yield from pool.imap(compared, jobs)


if __name__ == "__main__":
    sys.exit(main())
