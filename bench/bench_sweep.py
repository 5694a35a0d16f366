"""The same runs in this process, on loky, on Dask and on Ray, two workers each: whether the hashes are equal,
and what sending a task costs (aim: at most 10 ms).

    python -m bench.bench_sweep [--tasks 200]

Dask and Ray run where they are installed (`pip install distributed`, `pip install ray`); a cluster of two
workers is started on this machine.
"""

from __future__ import annotations

import argparse
import hashlib
import importlib.util
import time
from collections.abc import Sequence

import msgspec

from ebbtide.simulator.backtest.runs import Results, Run, Work, candidates
from ebbtide.simulator.backtest.sweep import Machines, Sweep
from ebbtide.simulator.recording.file import VERSION, Recording, Series

LIBRARIES = {"loky": "joblib", "dask": "distributed", "ray": "ray"}
ROUNDS = 5
STORY = {
    "name": "a short one",
    "until": 1800,
    "settings": {"pools": [{"name": "general", "types": ["cpx32"], "zones": ["a", "b"]}]},
    "nodes": [{"name": "a1", "zone": "a"}, {"name": "b1", "zone": "b"}],
    "workloads": [{"name": "web", "cpu": "500m", "memory": "512Mi"}],
}
MONTH = Recording(VERSION, STORY, {"default/web": Series([0.0, 600.0], [4, 24])})


def works() -> list[Work]:
    found = candidates(STORY["settings"], [], ["balanced", "eager"], [])  # type: ignore[arg-type]
    return [Work(MONTH, "short.ebb", one, 1 + seed) for one in found for seed in range(2)]


def hash_of(runs: Sequence[Run]) -> str:
    return hashlib.sha256(msgspec.json.encode(list(runs))).hexdigest()[:16]


def only_sent(work: Work) -> int:
    return work.seed


def sending_milliseconds(sweep: Sweep, tasks: int) -> list[float]:
    """For each task, with all processes there already: several rounds, the best first. What else runs on the
    machine only makes it longer."""
    one = works()[0]
    list(sweep.each(only_sent, [(one,)] * 4))
    found = []
    for _ in range(ROUNDS):
        began = time.perf_counter()
        list(sweep.each(only_sent, [(one,)] * tasks))
        found.append((time.perf_counter() - began) / tasks * 1000)
    return sorted(found)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    asked = parser.parse_args()
    with Sweep(Results(None), Machines()) as alone:
        expected = hash_of(alone.play(works()))
    print(f"this process: {expected}")
    differ = 0
    for backend, library in LIBRARIES.items():
        if importlib.util.find_spec(library) is None:
            print(f"{backend}: not run, {library} is not installed")
            continue
        with Sweep(Results(None), Machines(2, backend)) as sweep:
            found = hash_of(sweep.play(works()))
            each = sending_milliseconds(sweep, asked.tasks)
        differ += found != expected
        says = "equal" if found == expected else "DIFFERENT"
        print(f"{backend}: {found}, {says}; {each[0]:.1f} to {each[-1]:.1f} ms to send a task")
    return 1 if differ else 0


if __name__ == "__main__":
    raise SystemExit(main())
