"""How good `ebbtide forecast` is on real series, 24 hours ahead, next to the same time a day before and the
last value. Ratios are of the mean scaled error (MASE) and of the loss of the 95 % quantile: lower is better.

    python -m bench.bench_forecast --data FOLDER      # of CSV files, seconds in the first column
"""

from __future__ import annotations

import argparse
import csv
import gzip
import time
from pathlib import Path

import numpy as np

from ebbtide.core.forecast.combine import forecast, judged_origins, past_errors
from ebbtide.core.forecast.members import Floats

DAY = 86_400
FINEST_SECONDS = 300
ORIGINS = 30


def series_in(path: Path) -> tuple[int, dict[str, Floats]]:
    """Values a day, and each column. Minutes are added up to five minutes."""
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        names, *rows = list(csv.reader(lines))
    table = np.array([[float(cell or 0) for cell in row] for row in rows])
    step = float(np.median(np.diff(table[:, 0])))
    many = max(round(FINEST_SECONDS / step), 1)
    whole = len(table) // many * many
    columns = {
        name: table[:whole, place].reshape(-1, many).sum(axis=1) for place, name in enumerate(names) if place
    }
    return round(DAY / (step * many)), columns


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    asked = parser.parse_args()
    if asked.data is None:
        print("no --data: nothing to forecast")
        return 0
    kinds = []
    for path in sorted(asked.data.glob("*.csv*")):
        per_day, columns = series_in(path)
        found = [
            past_errors(values, per_day, per_day, judged_origins(len(values), per_day, per_day, ORIGINS))
            for values in columns.values()
        ]
        own, naive, last = (
            np.mean([[e[name].mase, e[name].pinball, e[name].coverage] for e in found], axis=0)
            for name in ("forecast", "seasonal naive", "last value")
        )
        kinds.append((own[0] / naive[0], own[1] / naive[1], own[2]))
        print(
            f"{path.name}: MASE {own[0] / naive[0]:.3f} of seasonal naive, "
            f"{own[0] / last[0]:.3f} of last value; p95 loss {own[1] / naive[1]:.3f} of seasonal naive; "
            f"p95 covers {own[2]:.3f}"
        )
    mean = np.mean(kinds, axis=0)
    print(f"mean of the files: MASE {mean[0]:.3f}, p95 loss {mean[1]:.3f}, coverage {mean[2]:.3f}")
    steps = np.arange(96 * 30, dtype=np.float64)
    values = np.asarray(np.abs(np.sin(steps / 96 * 2 * np.pi)) * 50 + steps % 7)
    began = time.process_time()
    for _ in range(200):
        forecast(values, 96, 96)
    print(f"200 series of 30 days at 15 minutes: {time.process_time() - began:.1f} s of CPU")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
