"""Run so many seeds; say what each that fails did, and how to see it again."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections import Counter

from ebbtide.simulator.run.frames import Frame
from tests.swarm.run import Outcome, run_or_tell, run_seed
from tests.swarm.stories import run_story


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.swarm", description=__doc__)
    parser.add_argument("--seeds", type=int, default=1000, help="how many")
    parser.add_argument("--first", type=int, default=1)
    parser.add_argument("--seed", type=int, help="only this one")
    parser.add_argument("--awake", action="store_true", help="with --seed: without policies, as it was kept")
    parser.add_argument("--narrow", action="store_true", help="with --seed: without what was added later")
    parser.add_argument("--tell", action="store_true", help="tell it tick by tick")
    parser.add_argument("--stories", action="store_true", help="the story files, each with faults, as seeds")
    parser.add_argument("--workers", type=int, default=1)
    arguments = parser.parse_args()
    one = run_story if arguments.stories else run_or_tell
    how = " --stories" if arguments.stories else ""
    if arguments.seed is not None and arguments.stories:
        outcome = run_story(arguments.seed)
        show(outcome, how)
        return 1 if outcome.violations else 0
    wide = not (arguments.narrow or arguments.awake)
    if arguments.seed is not None:
        outcome = run_seed(arguments.seed, tell if arguments.tell else None, not arguments.awake, wide)
        show(outcome, " --awake" * arguments.awake + " --narrow" * (not wide and not arguments.awake))
        return 1 if outcome.violations else 0
    start = time.monotonic()
    seeds = range(arguments.first, arguments.first + arguments.seeds)
    met: Counter[str] = Counter()
    ticks = failed = 0
    with multiprocessing.get_context("spawn").Pool(arguments.workers) as pool:
        for outcome in pool.imap_unordered(one, seeds, chunksize=20):
            met.update(outcome.faults)
            ticks += outcome.ticks
            if outcome.violations:
                failed += 1
                show(outcome, how)
    took = time.monotonic() - start
    print(
        f"{len(seeds):,} seeds, {ticks:,} ticks, {len(met)} kinds of fault, {failed} violated, {took:.0f} s"
    )
    return 1 if failed else 0


def show(outcome: Outcome, how: str = "") -> None:
    print(f"seed {outcome.seed} ({', '.join(outcome.faults)}): {len(outcome.violations)} violations")
    for violation in outcome.violations[:3]:
        print(f"  {violation}")
    tells = "" if "--stories" in how else " --tell"
    print(f"  python -m tests.swarm --seed {outcome.seed}{how}{tells}", flush=True)


def tell(frame: Frame) -> None:
    for event in frame.events:
        print(f"{frame.at:.0f} {event}")
    print(f"{frame.at:.0f} {frame.says}")


if __name__ == "__main__":
    sys.exit(main())
