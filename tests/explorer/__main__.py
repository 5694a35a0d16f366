"""Explore every scene within its bounds, and say what was found and how much was seen."""

from __future__ import annotations

import argparse
import multiprocessing
import sys
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait

from tests.explorer.ending import what_is_wrong_at_the_end
from tests.explorer.jobs import run
from tests.explorer.scenes import SCENES, Scene
from tests.explorer.search import Explored, read_path, replay
from tests.explorer.sometimes import never_met


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.explorer", description=__doc__)
    parser.add_argument("--scene", help="only this one")
    parser.add_argument(
        "--deep", action="store_true", help="the bounds of `make torture`, not those of a push"
    )
    parser.add_argument("--limit", type=int, default=0, help="stop each scene after so many states")
    parser.add_argument(
        "--total",
        type=int,
        default=0,
        help="so many states of all scenes, shared; the bounds of a push come first",
    )
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--path", help="go this one path and tell it step by step; needs --scene")
    arguments = parser.parse_args()
    scenes = [scene for scene in SCENES if arguments.scene in (None, scene.name)]
    if not scenes:
        parser.error(f"there is no scene {arguments.scene!r}; there are {', '.join(s.name for s in SCENES)}")
    if arguments.path:
        return tell(scenes[0], arguments.deep, arguments.path)
    start = time.monotonic()
    before: list[Explored] = []
    if arguments.total:
        # Whatever is left out of a share, the narrow bounds are gone through whole; not counted, as most of
        # it is met again.
        before = explored(scenes, False, 0, 0, arguments.workers)
        print(f"the bounds of a push: {sum(one.states for one in before):,} states, not counted", flush=True)
    found = explored(scenes, arguments.deep, arguments.limit, arguments.total, arguments.workers)
    missing = [] if arguments.scene else never_met({one for run in (*before, *found) for one in run.met})
    for what in missing:
        print(f"never met: {what}")
    states = sum(one.states for one in found)
    wrong = sum(len(one.findings) for one in (*before, *found))
    print(f"{states:,} states explored in {time.monotonic() - start:.0f} s, {wrong} violations")
    return 1 if wrong or missing else 0


def explored(scenes: Sequence[Scene], deep: bool, limit: int, total: int, workers: int) -> list[Explored]:
    """Each scene in a process of its own. What a small scene leaves of its share of a total goes to those
    that come after it."""
    waiting = list(scenes)
    running: dict[Future[Explored], int] = {}
    found: list[Explored] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, context, max_tasks_per_child=1) as pool:
        while waiting or running:
            while waiting and len(running) < workers:
                left = total - sum(one.states for one in found) - sum(running.values())
                weights = sum(scene.weight for scene in waiting)
                scene = waiting.pop(0)
                share = max(1, left * scene.weight // weights) if total else limit
                running[pool.submit(run, (scene.name, deep, share))] = share
            done, _ = wait(running, return_when=FIRST_COMPLETED)
            for future in done:
                del running[future]
                found.append(show(future.result()))
    return found


def show(explored: Explored) -> Explored:
    whole = "all" if explored.complete else "not all"
    print(f"{explored.scene}: {explored.states:,} states, {whole}, {explored.seconds:.0f} s", flush=True)
    for finding in explored.findings:
        print(f"  {finding.says}\n    {finding.command()}", flush=True)
    return explored


def tell(scene: Scene, deep: bool, path: str) -> int:
    told = replay(scene, scene.deep if deep else scene.quick, read_path(path))
    print("\n".join(told.trail))
    problems = list(map(str, told.stage.checker.violations)) or what_is_wrong_at_the_end(
        told.stage, scene, told.actors
    )
    print("\n".join(problems) or "all is well")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
