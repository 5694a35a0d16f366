"""A cluster that loses 60 % of its work: how fast each profile shrinks, and what that costs in evictions.

    python -m bench.bench_shrink [--nodes 100 300 1000] [--profiles classic balanced eager]

The real engine on the simulated cluster. Costs are those of the nodes that are there at that time, over the
cheapest set of nodes for the pods that are left (the packer's plan, with the same types). The first ten
minutes after the loss nothing is removed, whatever the profile: a cluster that suddenly looks much smaller
is believed only then (`shrink_accepted_sec`).
"""

from __future__ import annotations

import argparse
import time

import yaml

from ebbtide.core.packing import Item, NodeType, pack
from ebbtide.core.prices import CATALOGUE
from ebbtide.simulator.story import parse_story, play
from ebbtide.simulator.story.judge import StoryResult

WORKLOADS, PODS_PER_NODE, LEFT = 8, 13, 0.4
CPU_MILLI, MEMORY_MIB = 500, 800
TYPES, FIRST_TYPE, ZONES = ("cpx32", "cpx42"), "cpx42", "abc"
LOSS_AT, MINUTES = 600, (20, 30, 60, 120)


def story_of(nodes: int, profile: str) -> str:
    each = nodes * PODS_PER_NODE // WORKLOADS
    counts = [nodes // 3 + (number < nodes % 3) for number in range(3)]
    names = [f"w{number}" for number in range(WORKLOADS)]
    return yaml.safe_dump(
        {
            "name": f"{nodes} nodes lose 60 % of their work, {profile}",
            "tick_sec": 60 if profile == "classic" else 15,
            "until": LOSS_AT + MINUTES[-1] * 60 + 60,
            "settings": {
                "profile": profile,
                "min_workers": 2,
                "max_workers": 2 * nodes,
                "pools": [{"name": "general", "types": list(TYPES), "zones": list(ZONES)}],
            },
            "nodes": [
                {"name": f"n{zone}", "type": FIRST_TYPE, "zone": zone, "count": count, "age_sec": 86400}
                for zone, count in zip(ZONES, counts, strict=True)
            ],
            "workloads": [
                {
                    "name": name,
                    "replicas": each,
                    "cpu": f"{CPU_MILLI}m",
                    "memory": f"{MEMORY_MIB}Mi",
                    "cpu_use": 0.5,
                }
                for name in names
            ],
            "events": [{"at": LOSS_AT, "replicas": dict.fromkeys(names, int(each * LEFT))}],
        }
    )


def price_of(name: str) -> float:
    price = CATALOGUE[name].price
    assert price is not None
    return float(price.per_hour)


def cheapest(pods: int) -> float:
    types = [
        NodeType(name, t.allocatable.cpu_milli, t.allocatable.memory_mib, t.max_pods, price_of(name))
        for name, t in ((name, CATALOGUE[name]) for name in TYPES)
    ]
    items = [Item(CPU_MILLI, MEMORY_MIB, tuple(map(str, range(pods))))]
    return pack(items, types, deadline=time.perf_counter() + 2, clock=time.perf_counter).cost


def cost_at(result: StoryResult, nodes: int, at: float) -> tuple[int, float]:
    """Nodes, and what they cost an hour, by what was launched and terminated until then."""
    types = {act.instance: act.type for act in result.acts if act.act == "launch"}
    launched = [act for act in result.acts if act.act == "launch" and act.at <= at]
    gone = {act.instance for act in result.acts if act.act == "terminate" and act.at <= at}
    cost = nodes * price_of(FIRST_TYPE) + sum(price_of(act.type) for act in launched)
    cost -= sum(price_of(types.get(instance, FIRST_TYPE)) for instance in gone)
    return nodes + len(launched) - len(gone), cost


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", maxsplit=1)[0])
    parser.add_argument("--nodes", type=int, nargs="*", default=[100, 300, 1000])
    parser.add_argument("--profiles", nargs="*", default=["classic", "balanced", "eager"])
    asked = parser.parse_args()
    for nodes in asked.nodes:
        pods = int(nodes * PODS_PER_NODE // WORKLOADS * LEFT) * WORKLOADS
        best = cheapest(pods)
        for profile in asked.profiles:
            began = time.perf_counter()
            result = play(parse_story(story_of(nodes, profile)))
            seconds = time.perf_counter() - began
            shown = []
            for minutes in MINUTES:
                count, cost = cost_at(result, nodes, LOSS_AT + minutes * 60)
                shown.append(f"{minutes} min: {count} nodes, {cost / best - 1:+.0%}")
            print(
                f"{nodes} nodes, {profile}: "
                + "; ".join(shown)
                + f"; {result.evictions} evictions of {pods} pods,"
                f" {result.launched} launched, {result.pending_pod_seconds} pod-seconds pending,"
                f" {len(result.violations)} violations, {seconds:.0f} s",
                flush=True,
            )


if __name__ == "__main__":
    main()
