"""All that takes long: millions of states, many seeds, every rule, every planted bug, and a sample of small
changes. `make torture` runs it.

Each part is shown as it goes and runs to its end, whatever happens to the others; the results of all
are the last lines.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import time

MUTATION_SEED = "16"
"""The same small changes each time, so a survivor means that a test was lost or code was added."""


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.torture", description=__doc__)
    parser.add_argument("--states", type=int, default=5_100_000, help="of all scenes together")
    parser.add_argument("--seeds", type=int, default=20_000)
    parser.add_argument("--oracle", type=int, default=100, help="times the comparisons of a push")
    parser.add_argument("--mutants", type=int, default=300, help="so many small changes of the code")
    parser.add_argument("--workers", type=int, default=2)
    arguments = parser.parse_args()
    workers = ["--workers", str(arguments.workers)]
    parts = (
        ["tests.explorer", "--deep", "--total", str(arguments.states), *workers],
        ["tests.swarm", "--seeds", str(arguments.seeds), *workers],
        ["tests.oracle", "--fast", "--times", str(arguments.oracle), *workers],
        ["tests.steady", "--seeds", "200"],
        ["tests.mutants", *workers],
        ["tests.mutation", "--sample", str(arguments.mutants), "--seed", MUTATION_SEED, *workers],
    )
    results = [shown(part) for part in parts]
    print("\n== torture ==")
    for part, (failed, last, minutes) in zip(parts, results, strict=True):
        print(f"{part[0].removeprefix('tests.')}, {minutes:.1f} min: {last}{' (FAILED)' if failed else ''}")
    return 1 if any(failed for failed, *_ in results) else 0


def shown(part: list[str]) -> tuple[bool, str, float]:
    """Whether it failed, the last line that it printed, and the minutes that it took."""
    started = time.monotonic()
    print(f"\n== {' '.join(part)} ==", flush=True)
    last = "it printed nothing"
    with subprocess.Popen([sys.executable, "-m", *part], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            print(line, end="", flush=True)
            last = line.strip() or last
    return process.returncode != 0, last, (time.monotonic() - started) / 60


if __name__ == "__main__":
    sys.exit(main())
