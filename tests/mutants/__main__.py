"""Plant every bug in turn; print who catches it. Fails when one lives that is not said to be redundant."""

from __future__ import annotations

import argparse
import sys
from multiprocessing.pool import ThreadPool

from tests.mutants.anchor import DoesNotApply
from tests.mutants.plant import Mutant, by_stories_and_oracle, by_the_fast_oracle, changed, killer_of
from tests.mutants.planted import ALL, QUICK, RULES
from tests.mutants.table import PAGE, write


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--only", help="those whose name has this in it")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument(
        "--rules", action="store_true", help="the wrong rules, which stories and oracle catch"
    )
    parser.add_argument(
        "--judged", action="store_true", help="those that name a story or the oracle, judged by these alone"
    )
    parser.add_argument(
        "--fast", action="store_true", help="those that the oracle catches, by its plain generator alone"
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument(
        "--table", action="store_true", help=f"plant none; write the table of docs/{PAGE.name}"
    )
    arguments = parser.parse_args()
    if arguments.table:
        write()
        return 0
    group = RULES if arguments.rules else ALL
    chosen = [
        m for m in group if (arguments.only or "") in m.name and (not arguments.quick or m.name in QUICK)
    ]
    if arguments.judged:
        chosen = [alone for alone in map(by_stories_and_oracle, chosen) if alone.killers]
    if arguments.fast:
        chosen = [fast for fast in map(by_the_fast_oracle, chosen) if fast is not None]
    print("| planted bug | where | caught by |\n| --- | --- | --- |", flush=True)
    with ThreadPool(arguments.workers) as pool:
        verdicts = list(pool.imap(judged, chosen))
    wrong = [verdict for verdict in verdicts if verdict]
    for verdict in wrong:
        print(verdict)
    print(
        f"{len(chosen)} planted, {len(chosen) - len(wrong)} caught or shown to be redundant, {len(wrong)} not"
    )
    return 1 if wrong else 0


def judged(mutant: Mutant) -> str:
    """What is wrong with this verdict; empty when nothing is."""
    try:
        killer = killer_of(mutant)
    except DoesNotApply as error:
        return str(error)
    caught = killer or (f"nothing: {mutant.redundant}" if mutant.redundant else "NOTHING")
    print(f"| {mutant.name} | `{changed(mutant).file}` `{mutant.function}` | {caught} |", flush=True)
    return "" if killer or mutant.redundant else f"{mutant.name}: nothing caught it"


if __name__ == "__main__":
    sys.exit(main())
