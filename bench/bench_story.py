"""A story of 1,000 nodes and 10,000 pods over one day: how long it takes and how much memory it needs.

python -m bench.bench_story                 # the whole day
python -m bench.bench_story --hours 2 --nodes 200
"""

from __future__ import annotations

import argparse
import resource
import time

import yaml

from ebbtide.simulator.story import parse_story, play

PODS_PER_NODE = 10
WORKLOADS = 50


def text_of(nodes: int, hours: float) -> str:
    """Nodes of two types in three zones; 50 Deployments, of which a quarter follow the day."""
    pods = nodes * PODS_PER_NODE
    zones = ["a", "b", "c"]
    share = [nodes // 3 + (number < nodes % 3) for number in range(3)]
    each = pods // WORKLOADS
    workloads: list[dict[str, object]] = []
    for number in range(WORKLOADS):
        one: dict[str, object] = {"name": f"app-{number}", "cpu": "350m", "memory": "600Mi", "cpu_use": 0.3}
        if number % 4:
            one["replicas"] = each
        else:
            one["demand"] = {"curve": "day", "low": each // 2, "high": each * 3 // 2}
        workloads.append({**one, "pdb": {"max_unavailable": max(each // 10, 1)}})
    story = {
        "name": f"{nodes} nodes and {pods} pods for {hours:g} hours",
        "until": hours * 3600,
        "settings": {
            "min_workers": 3,
            "max_workers": nodes * 2,
            "max_batch_up": 20,
            "max_batch_down": 10,
            "pools": [{"name": "general", "types": ["cpx32", "cpx42"], "zones": zones}],
        },
        "nodes": [
            {"name": f"node-{zone}", "type": "cpx32", "zone": zone, "count": count}
            for zone, count in zip(zones, share, strict=True)
        ],
        "workloads": workloads,
        "expect": [{"at_end": {"waiting": 0}}],
    }
    return yaml.safe_dump(story, sort_keys=False)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0] if __doc__ else "")
    parser.add_argument("--nodes", type=int, default=1000)
    parser.add_argument("--hours", type=float, default=24.0)
    chosen = parser.parse_args()
    began, busy = time.perf_counter(), time.process_time()
    story = parse_story(text_of(chosen.nodes, chosen.hours), "bench")
    read = time.process_time() - busy
    result = play(story)
    spent, seconds = time.process_time() - busy, time.perf_counter() - began
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"{result.name}: {'holds' if result.ok else 'DOES NOT HOLD'}")
    for one in (*(f"{f.expect}: {f.seen}" for f in result.failed), *result.violations[:5]):
        print(f"  {one}")
    done = f"{result.launched} launched, {result.removed} removed, {result.evictions} evictions"
    print(f"  {len(result.ticks)} sentences, {len(result.acts)} acts, {done}")
    print(f"  {spent:.1f} s of CPU ({read:.1f} s to read it), {seconds:.1f} s in all, {most:.0f} MiB at most")


if __name__ == "__main__":
    main()
