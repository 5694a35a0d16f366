"""Thirty simulated days of 100 nodes and 2,000 pods, with a tick of the real engine every minute.

Prints wall and CPU time, ticks per second and peak memory, and how many times the CPU of the bare world
(the same month with nobody looking) the whole takes. Aim: 60 s and 300 MB.

    python -m bench.bench_month [--days N]
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time

from ebbtide.model.settings import Settings
from ebbtide.simulator.run.runner import Runner, stage_of
from ebbtide.simulator.world.catalogue import ZONES, add_system, database, deployment, guarded, pool
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.workload import Curve, Demand
from ebbtide.simulator.world.world import World

DAY_SECONDS = 86_400
TICK_SECONDS = 60
NODES = 100
WORKLOADS = 20
AIM_SECONDS = 60.0
AIM_MEGABYTES = 300.0


def month_world(seed: int = 1) -> tuple[World, Settings]:
    """2,000 pods on average, a fifth more at noon and a fifth fewer at night, on about 100 nodes."""
    pools = (pool("general", ("cpx42",)),)
    settings = Settings(
        cluster="month", pools=pools, min_workers=10, max_workers=130, max_batch_up=5, max_batch_down=5
    )
    world = World(Rules(), pools, seed, 0.0)
    add_system(world)
    for number in range(NODES):
        world.add_node("general", "cpx42", ZONES[number % len(ZONES)], age_seconds=DAY_SECONDS + number)
    for number in range(WORKLOADS):
        # Each workload moves at minutes of its own, as autoscaled workloads do.
        demand = Demand(Curve.DAY, 80, 120, step_seconds=1800 + 60 * number, peak_second=0.5 * DAY_SECONDS)
        world.add_workload(*guarded(deployment(f"web-{number:02d}", 350, 512, demand, 0.38), 10))
    world.add_workload(*database("database", 12))
    world.advance_to(300)
    return world, settings


def bare(days: float) -> float:
    """CPU seconds of the world alone, looked at every minute by nobody."""
    world, _ = month_world()
    began, start = time.process_time(), world.now
    for minute in range(int(days * DAY_SECONDS / TICK_SECONDS)):
        world.advance_to(start + minute * TICK_SECONDS)
    return time.process_time() - began


def with_engine(days: float) -> tuple[float, float, str]:
    """Wall seconds and CPU seconds with the engine, and a sentence about what it did."""
    world, settings = month_world()
    stage = stage_of(world, settings)
    stage.keeps_inputs = False
    world.witnesses.clear()
    runner = Runner(stage, "bench")
    ticks = int(days * DAY_SECONDS / TICK_SECONDS)
    pods = nodes = 0
    began, busy = time.perf_counter(), time.process_time()
    for _ in range(ticks):
        due = stage.clock.now() + TICK_SECONDS
        runner.tick(TICK_SECONDS)
        pods += len(world.inventory.pods)
        nodes += len(world.inventory.nodes)
        stage.clock.move_to(due)
    seconds, busy = time.perf_counter() - began, time.process_time() - busy
    did = f"{world.machines.book.launched} launched, {world.removed} removed, {world.evictions} evictions"
    return seconds, busy, f"{did}; {nodes // ticks} nodes and {pods // ticks} pods on average"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--days", type=float, default=30.0)
    parser.add_argument("--bare", action="store_true", help="only the world, without the engine")
    asked = parser.parse_args()
    if asked.bare:
        print(f"{bare(asked.days):.3f}")
        return 0
    # The baseline runs in a process of its own, so the memory is that of the engine's run alone.
    command = [sys.executable, "-m", "bench.bench_month", "--bare", "--days", str(asked.days)]
    baseline = float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    seconds, busy, did = with_engine(asked.days)
    ticks = int(asked.days * DAY_SECONDS / TICK_SECONDS)
    megabytes = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{asked.days:g} simulated days, {ticks} ticks: {did}")
    print(
        f"wall {seconds:.1f} s (aim {AIM_SECONDS:g}), of that CPU {busy:.1f} s; {ticks / seconds:.0f} ticks/s"
    )
    print(f"peak memory {megabytes:.0f} MB (aim {AIM_MEGABYTES:g})")
    print(
        f"ratio {busy / baseline:.1f}: CPU of engine and world, to that of the bare world ({baseline:.1f} s)"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
