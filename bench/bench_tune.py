"""What `ebbtide tune` finds on real series, next to `classic`, on the third that the search does not see.

    python -m bench.bench_tune --data FOLDER [--days 1.5] [--evals 16] [--workers 1] [--only NAME]

FOLDER holds CSV files, seconds in the first column. Of each file the middle `--days` of its first series are
taken, scaled to `--pods` pods on average.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import tempfile
import time
from pathlib import Path

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.entrypoints.views.tunings import difference
from ebbtide.simulator.backtest.runs import Results
from ebbtide.simulator.backtest.sweep import Machines, Sweep
from ebbtide.simulator.recording.file import Recording
from ebbtide.simulator.recording.start import with_first_nodes
from ebbtide.simulator.recording.trace import Pods, record_trace
from ebbtide.simulator.tuning.search import Plan
from ebbtide.simulator.tuning.space import named
from ebbtide.simulator.tuning.tune import Asked, tune

DAY = 86_400
START = "2026-01-05T00:00:00Z"
SETTINGS = "max_workers: 200\npools: [{name: general, types: [cpx32], zones: [a, b]}]\n"


def middle_of(path: Path, days: float, pods: int) -> Recording:
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        _, *body = csv.reader(lines)
    rows = [(float(row[0]), float(row[1] or 0)) for row in body]
    begin = max((rows[-1][0] - days * DAY) / 2, 0.0)
    kept = [(at - begin, value) for at, value in rows if begin <= at < begin + days * DAY]
    mean = sum(value for _, value in kept) / len(kept)
    read = parse_document(SETTINGS, "bench", "max_workers: 200", "")
    config = build_config(read, {})
    with tempfile.TemporaryDirectory() as folder:
        trace = Path(folder) / "trace.csv"
        trace.write_text("seconds,web\n" + "".join(f"{at:g},{value:g}\n" for at, value in kept))
        found = record_trace(trace, Pods("500m", "512Mi", mean / pods), read.values, START)
    return with_first_nodes(found, config)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--days", type=float, default=1.5)
    parser.add_argument("--evals", type=int, default=16)
    parser.add_argument("--pods", type=int, default=30)
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--only", default="", help="only files whose name holds this")
    asked = parser.parse_args()
    if asked.data is None:
        print("no --data: nothing to tune")
        return 0
    for path in sorted(one for one in asked.data.glob("*.csv*") if asked.only in one.name):
        recording = middle_of(path, asked.days, asked.pods)
        began = time.process_time()
        with Sweep(Results(None), Machines(asked.workers)) as sweep:
            found = tune(recording, path.name, Asked(Plan(asked.evals, 1, ("cost", "waiting")), 0.03), sweep)
        print(
            f"{path.name}: {difference(found.today, found.proposal)} against classic "
            f"({found.today.cost} {found.today.currency}); {time.process_time() - began:.0f} s of CPU here",
            flush=True,
        )
        print(f"  {named({one.key: one.proposed for one in found.changes})}", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
