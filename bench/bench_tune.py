"""What `ebbtide tune` finds on real series, next to `classic`, on the third that the search does not see.

    python -m bench.bench_tune --data FOLDER --keep FOLDER [--days 1.5] [--evals 80] [--only NAME]
    python -m bench.bench_tune --data FOLDER --keep FOLDER --sobol 256

FOLDER holds CSV files, seconds in the first column. Of each file the middle `--days` are taken, scaled to
`--pods` pods on average: of series that count the same the sum, else the first series. With `--minutes 15`
demand changes every 15 minutes at most, to the mean of that time: fewer changes are faster to play.

With `--sobol 256` the front of the search is compared with that of so many points of a Sobol sequence, on
the part that was learned on, by the area that they cover. Finished runs are kept in the folder of `--keep`:
the same command continues after a stop.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from statistics import fmean

from bench.sobol import points
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.words import a_while
from ebbtide.simulator.backtest.runs import Results, Run
from ebbtide.simulator.backtest.sweep import Machines, Row, Sweep
from ebbtide.simulator.recording.file import Recording, with_first_nodes
from ebbtide.simulator.recording.trace import TracePods, record_trace
from ebbtide.simulator.story.parse import story_of
from ebbtide.simulator.tuning.search import Plan, Point, Space, named, search
from ebbtide.simulator.tuning.tune import Asked, Tuned, Tuning, parts_of, tune

DAY = 86_400
START = "2026-01-05T00:00:00Z"
SETTINGS = "max_workers: 200\npools: [{name: general, types: [cpx32], zones: [a, b]}]\n"
LESS_WAITING = 0.5
MORE_COST = 0.03
AREA = 0.95
MARGIN = 1.1
"""The corner up to which areas are measured is so much worse than the worst of both fronts."""


def middle_of(path: Path, days: float, pods: int, minutes: int = 0) -> Recording:
    values = list(_coarser(_values(path), minutes * 60) if minutes else _values(path))
    begin = max((values[-1][0] - days * DAY) / 2, 0.0)
    kept = [(at - begin, value) for at, value in values if begin <= at < begin + days * DAY]
    mean = sum(value for _, value in kept) / len(kept)
    if not mean:
        raise SystemExit(f"{path}: nothing but zeros in the middle {days:g} days; take more with --days")
    read = parse_document(SETTINGS, "bench", "max_workers: 200", "")
    config = build_config(read, {})
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        trace.write_text("seconds,web\n" + "".join(f"{at:g},{value:g}\n" for at, value in kept))
        found = record_trace(trace, TracePods("500m", "512Mi", mean / pods), read.values, START)
    return with_first_nodes(found, config)


def _values(path: Path) -> Iterator[tuple[float, float]]:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        (_, *names), *rows = csv.reader(lines)
    alike = len({name.partition("_")[0] for name in names}) == 1
    for at, *values in rows:
        yield float(at), sum(float(one or 0) for one in (values if alike else values[:1]))


def _coarser(values: Iterator[tuple[float, float]], seconds: int) -> Iterator[tuple[float, float]]:
    for number, several in groupby(values, key=lambda one: int(one[0] // seconds)):
        yield number * seconds, fmean(value for _, value in several)


def exact(row: Row) -> float:
    """The cost before it is rounded to cents: of the one seed that is played."""
    return float(row.cost_low)


@dataclass(frozen=True, slots=True)
class Verdict:
    name: str
    tuned: Tuned
    seconds: float

    @property
    def cost(self) -> float:
        """As a share of that of classic, less one; like the next."""
        return exact(self.tuned.proposal) / exact(self.tuned.today) - 1

    @property
    def waiting(self) -> float:
        before = self.tuned.today.pending_pod_seconds
        return self.tuned.proposal.pending_pod_seconds / before - 1 if before else 0.0

    @property
    def reached(self) -> bool:
        return self.waiting <= -LESS_WAITING and self.cost <= MORE_COST

    def line(self) -> str:
        def shown(row: Row) -> str:
            return f"{exact(row):.3f} {row.currency} | {a_while(round(row.pending_pod_seconds))}"

        return (
            f"| {self.name} | {shown(self.tuned.today)} | {shown(self.tuned.proposal)} | {self.cost:+.1%} | "
            f"{self.waiting:+.1%} | {self.tuned.proposal.evictions - self.tuned.today.evictions:+g} | "
            f"{'yes' if self.reached else 'no'} | {self.seconds:.0f} s |"
        )


def judged(path: Path, asked: argparse.Namespace, sweep: Sweep) -> Verdict:
    recording = middle_of(path, asked.days, asked.pods, asked.minutes)
    began = time.process_time()
    found = tune(recording, path.name, _asked(asked), sweep)
    print(f"{path.name}: {named({one.key: one.proposed for one in found.changes})}", flush=True)
    return Verdict(path.name.partition(".")[0], found, time.process_time() - began)


def _asked(asked: argparse.Namespace) -> Asked:
    return Asked(Plan(asked.evals, asked.seed, ("cost", "waiting")), MORE_COST)


def areas(path: Path, asked: argparse.Namespace, sweep: Sweep) -> tuple[float, float, str]:
    """Of the search and of the Sobol points, as shares of the same rectangle, and the point that is worst."""
    recording = middle_of(path, asked.days, asked.pods, asked.minutes)
    parts = parts_of(recording, story_of(recording, path.name).config, path.name)
    tuning = Tuning(parts, path.name, _asked(asked), sweep, lambda *_: None)
    plan = _asked(asked).plan
    tried = [plan.values(one.run) for one in search(tuning.space, plan, tuning.play_points)]
    evenly: list[Run | None] = []
    for number, point in enumerate(sobol_points(tuning.space, asked.sobol), start=1):
        evenly += tuning.play_points([point])
        if not number % 16:
            print(f"  {path.name}: {number} of {asked.sobol} Sobol points", flush=True)
    spread = [plan.values(run) for run in evenly if run is not None]
    fronts = [*front(tried), *front(spread)]
    corner = (max(one[0] for one in fronts) * MARGIN, max(one[1] for one in fronts) * MARGIN)
    whole = corner[0] * corner[1]
    worst = f"{corner[0]:.2f} in cost, {a_while(round(corner[1]))} of waiting"
    return hypervolume(tried, corner) / whole, hypervolume(spread, corner) / whole, worst


def sobol_points(space: Space, count: int) -> list[Point]:
    return [
        tuple(knob.steps[int(place * len(knob.steps))] for knob, place in zip(space.knobs, at, strict=True))
        for at in points(len(space.knobs), count)
    ]


def front(found: Sequence[tuple[float, ...]]) -> list[tuple[float, ...]]:
    """The cheapest first; each waits less than those before."""
    kept: list[tuple[float, ...]] = []
    for one in sorted(set(found)):
        if not kept or one[1] < kept[-1][1]:
            kept.append(one)
    return kept


def hypervolume(found: Sequence[tuple[float, ...]], corner: tuple[float, float]) -> float:
    """The area of all that costs and waits at least as much as one of these, up to the corner; exact."""
    inside = [one for one in front(found) if one[0] < corner[0] and one[1] < corner[1]]
    ends = [*(one[0] for one in inside[1:]), corner[0]]
    return sum(
        (end - cost) * (corner[1] - waiting) for (cost, waiting), end in zip(inside, ends, strict=True)
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--keep", type=Path, help="a folder for finished runs")
    parser.add_argument("--days", type=float, default=1.5)
    parser.add_argument("--evals", type=int, default=80)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pods", type=int, default=20)
    parser.add_argument("--minutes", type=int, default=0, help="demand changes so rarely; 0: as in the file")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="only files whose name holds this")
    parser.add_argument("--sobol", type=int, default=0, help="compare with so many Sobol points")
    asked = parser.parse_args()
    if asked.data is None:
        print("no --data: nothing to tune")
        return 0
    if asked.keep is not None:
        asked.keep.mkdir(parents=True, exist_ok=True)
    verdicts, shares = [], []
    for path in sorted(one for one in asked.data.glob("*.csv*") if asked.only in one.name):
        kept = Results(asked.keep and asked.keep / f"{path.name}.runs")
        with Sweep(kept, Machines(asked.workers)) as sweep:
            if asked.sobol:
                shares.append((path.name, *areas(path, asked, sweep)))
            else:
                verdicts.append(judged(path, asked, sweep))
    _print_tables(verdicts, shares, asked)
    return 0


def _print_tables(
    verdicts: Sequence[Verdict], shares: Sequence[tuple[str, float, float, str]], asked: argparse.Namespace
) -> None:
    if verdicts:
        print(f"\nThe last third of {asked.days:g} days, {asked.evals} evaluations on the rest, CPU here:\n")
        print(
            "| trace | classic | waiting | proposal | waiting | cost | waiting | evictions | reached | CPU |"
        )
        print("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | ---: |")
        print("\n".join(one.line() for one in verdicts))
        reached = sum(one.reached for one in verdicts)
        print(f"\nreached (waiting -50 %, cost at most +3 %): {reached} of {len(verdicts)}")
    for name, found, spread, worst in shares:
        says = "reached" if found >= AREA * spread else "NOT REACHED"
        print(
            f"{name}: {asked.evals} evaluations cover {found / spread:.1%} of what {asked.sobol} Sobol "
            f"points cover ({found:.4f} and {spread:.4f} of the rectangle up to {worst}); aim 95 %: {says}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
