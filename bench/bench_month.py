"""A backtest of thirty days of 100 nodes and 2,000 pods, as `ebbtide backtest` plays it: each profile with
its own interval and consolidation, every tick of the daemon, all events of the cluster.

    python -m bench.bench_month [--days N] [--nodes 1000] [--profile balanced] [--no-skip]
    python -m bench.bench_month --series 200

Prints for each profile the CPU seconds of the process that plays it (its start and the reading of the
recording among them), ticks for each of these seconds, the share of the ticks that were skipped or used
the last decision again, peak memory, and how many times the CPU of the bare world it takes: the same
recording, played with nobody looking. Aim: 20 s for 100 nodes, 300 s for 1,000 nodes and 20,000 pods.

With `--series`, so many series of 8,640 points are loaded and replayed instead. Aim: 5 s for 200.
"""

from __future__ import annotations

import argparse
import hashlib
import resource
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import msgspec

from ebbtide.engine.ports import Always
from ebbtide.engine.steady import Steady
from ebbtide.simulator.backtest.runs import Played, Work, candidates, played, story_for
from ebbtide.simulator.recording.file import VERSION, Recording, Series, read_recording, write_recording
from ebbtide.simulator.story.build import build_world
from ebbtide.simulator.world.rules import DAY, Curve, Demand

WORKLOADS = 20
POINTS = 8640
PROFILES = ("balanced", "classic")
AIM_SECONDS = {100: 20.0, 1000: 300.0}
ZONES = ("a", "b", "c")
DAEMON_SET = {
    "kind": "DaemonSet", "name": "node-exporter", "namespace": "monitoring", "cpu": "50m", "memory": "64Mi",
    "tolerations": [{"operator": "Exists"}],
}  # fmt: skip
DATABASE = {
    "kind": "StatefulSet", "name": "database", "cpu": "500m", "memory": "1Gi", "replicas": 12, "volume": True,
    "pdb": {"max_unavailable": 1},
}  # fmt: skip


def month(days: float, nodes: int) -> Recording:
    """Twenty pods for each node on average, a fifth more at noon and a fifth fewer at night."""
    scale, demand, workloads = nodes / 100, {}, []
    for number in range(WORKLOADS):
        name = f"web-{number:02d}"
        # Each workload moves at minutes of its own, as autoscaled workloads do.
        curve = Demand(
            Curve.DAY,
            round(80 * scale),
            round(120 * scale),
            step_seconds=1800 + 60 * number,
            peak_second=DAY / 2,
        )
        workloads.append(
            {"name": name, "cpu": "350m", "memory": "512Mi", "cpu_use": 0.38, "pdb": {"max_unavailable": 10}}
        )
        demand[f"default/{name}"] = _sampled(curve, days * DAY)
    pool = {"name": "general", "types": ["cpx42"], "zones": list(ZONES)}
    first = {"pool": "general", "age_sec": DAY}
    story: dict[str, Any] = {
        "name": "month",
        "until": days * DAY,
        "settings": {"pools": [pool], "min_workers": nodes // 10, "max_workers": nodes * 13 // 10},
        "nodes": [
            {"name": f"start-{zone}", "zone": zone, "count": len(range(place, nodes, len(ZONES))), **first}
            for place, zone in enumerate(ZONES)
        ],
        "workloads": [*workloads, DATABASE, DAEMON_SET],
    }
    return Recording(VERSION, story, demand)


def _sampled(curve: Demand, until: float) -> Series:
    at, wanted = [0.0], [curve.wanted_at(0)]
    following = curve.next_change(0)
    while following is not None and following < until:
        if curve.wanted_at(following) != wanted[-1]:
            at.append(following)
            wanted.append(curve.wanted_at(following))
        following = curve.next_change(following)
    return Series(at, wanted)


def work_of(path: Path, profile: str) -> Work:
    recording = read_recording(path)
    chosen = candidates(recording.story["settings"], [], [profile], [])[1]
    return Work(recording, path.name, chosen, 1)


def play(path: Path, profile: str, skip: bool) -> str:
    """What one process says that plays one run."""
    done: Played = played(work_of(path, profile), Steady if skip else Always)
    busy = cpu_seconds()
    run, ticks = done.run, done.ticks
    digest = hashlib.sha256(msgspec.json.encode(run)).hexdigest()[:12]
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return (
        f"{busy:.1f} s of CPU, {ticks.made / busy:.0f} ticks/s, {ticks.saved:.0%} of "
        f"{ticks.made} ticks not computed, {megabytes:.0f} MB; {run.launched} launched, "
        f"{run.evictions} evictions, {run.cost} {run.currency}, {len(run.violations)} violations, "
        f"result {digest}"
    )


def bare(path: Path) -> str:
    """CPU seconds of the world alone."""
    story = story_for(work_of(path, PROFILES[0]))
    world = build_world(story)
    world.advance_to(world.now + story.keys.until)
    return f"{cpu_seconds():.2f}"


def replay_series(path: Path) -> str:
    """Every change of every series, as the controllers of the world ask for it."""
    began, count = cpu_seconds(), 0
    story = story_for(work_of(path, PROFILES[1]))
    loaded = cpu_seconds()
    for demand in story.demands.values():
        at: float | None = 0.0
        while at is not None:
            count += demand.wanted_at(at) >= 0
            at = demand.next_change(at)
    return (
        f"{count} points: loaded in {loaded - began:.1f} s of CPU, replayed in {cpu_seconds() - loaded:.1f} s"
    )


def many_series(count: int) -> Recording:
    """Each changes with every point."""
    until = POINTS * 300.0
    at = [number * 300.0 for number in range(POINTS)]
    names = [f"web-{number:03d}" for number in range(count)]
    pool = {"name": "general", "types": ["cpx42"], "zones": list(ZONES)}
    workloads = [{"name": name, "cpu": "350m", "memory": "512Mi"} for name in names]
    story: dict[str, Any] = {
        "name": "series", "until": until, "settings": {"pools": [pool]}, "workloads": workloads,
    }  # fmt: skip
    demand = {
        f"default/{name}": Series(at, [5 + (number + point) % 7 for point in range(POINTS)])
        for number, name in enumerate(names)
    }
    return Recording(VERSION, story, demand)


def cpu_seconds() -> float:
    """Of this process since it began."""
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def in_process(*arguments: str) -> str:
    """Each run has a process of its own, so CPU and memory are that of this run alone."""
    command = [sys.executable, "-m", "bench.bench_month", *arguments]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--nodes", type=int, default=100)
    parser.add_argument("--profile", choices=PROFILES, action="append", help="only this one")
    parser.add_argument("--no-skip", action="store_true", help="compute every tick")
    parser.add_argument("--series", type=int, help="load and replay so many series, and play nothing")
    parser.add_argument("--play", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--bare", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.bare:
        print(bare(asked.bare))
        return 0
    if asked.play:
        print(play(asked.play, asked.profile[0], not asked.no_skip))
        return 0
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "month.ebb"
        if asked.series:
            write_recording(path, many_series(asked.series))
            print(f"{asked.series} series, {replay_series(path)}")
            return 0
        size = write_recording(path, month(asked.days, asked.nodes))
        baseline = float(in_process("--bare", str(path)))
        aim = AIM_SECONDS.get(asked.nodes)
        print(f"{asked.days:g} days, {asked.nodes} nodes, {20 * asked.nodes} pods; recording of {size} bytes")
        if aim is not None:
            print(f"aim: {aim:g} s of CPU for 30 days")
        print(f"bare world: {baseline:.1f} s of CPU", flush=True)
        skipping = ("--no-skip",) if asked.no_skip else ()
        for profile in asked.profile or PROFILES:
            says = in_process("--play", str(path), "--profile", profile, *skipping)
            ratio = float(says.partition(" ")[0]) / baseline
            print(f"{profile}: {says}; {ratio:.1f} times the bare world", flush=True)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
