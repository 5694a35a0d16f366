"""Consolidation of a large cluster that lost half of its pods: cost over the bound, seconds, pods moved.

    python -m bench.bench_consolidation --data FOLDER

The cluster is packed well with the types of a catalogue; then every second pod, by lot, is gone. The plan is
made by the function that `ebbtide consolidate --dry-run` calls, from the snapshot on, and is checked before
it is counted. Next to it stands a model of how Karpenter consolidates.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.consolidation_baseline import Reached, as_karpenter
from bench.consolidation_data import NOW, Case, halved
from bench.packing_data import catalogues
from ebbtide.core.consolidation.evaluate import explore
from ebbtide.core.nodes.question import Question
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.pod import Resources
from ebbtide.model.record import Record

_SECONDS = 2.0
_PODS = 100_000
_CATALOGUE = 1
"""Of the three catalogues, the one with few modern types: its cluster has some 5,500 nodes."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Consolidation: cost over the bound, seconds, moves.")
    parser.add_argument("--data", type=Path, help="folder with openb, ec2 and kwok; made up if not given")
    parser.add_argument("--pods", type=int, default=_PODS, help="pods before half of them are gone")
    parser.add_argument("--repeat", type=int, default=3, help="plans made; the median is shown")
    parser.add_argument("--no-baselines", action="store_true", help="leave out the slow comparison")
    parser.add_argument("--cpu", action="store_true", help="count CPU time, for a machine that is shared")
    options = parser.parse_args(arguments)
    if options.data is None:
        print("no --data given: pods and types of the same shape are made up", file=sys.stderr)
    catalogue = list(catalogues(options.data))[_CATALOGUE]
    case = halved(options.data, catalogue, options.pods, _SECONDS)
    clock = time.process_time if options.cpu else time.perf_counter
    runs = sorted((_run(case, clock) for _ in range(options.repeat)), key=lambda run: run[1])
    plan, seconds = runs[len(runs) // 2]
    table = Table(title=f"{catalogue}: {_size(case)}")
    for name in ("", "over the bound, %", "seconds", "pods moved", "launched", "commands"):
        table.add_column(name, justify="left" if not name else "right")
    table.add_row("before", _over(float(plan.cost_before), plan), "", "", "", "")
    table.add_row("Ebbtide", _over(float(plan.cost_after), plan), f"{seconds:.2f}", *_counts(plan, case))
    if not options.no_baselines:
        start = clock()
        reached = as_karpenter(case.snapshot, case.settings)
        for row in _compared(reached, clock() - start, plan, case):
            table.add_row(*row)
    Console(width=120).print(table)
    return 0


def _run(case: Case, clock: Callable[[], float]) -> tuple[ConsolidationPlan, float]:

    start = clock()
    report = explore(Question(case.snapshot, Record(), case.settings, NOW, "bench"), {}, clock)
    seconds = clock() - start
    assert report.plan is not None, report.failed
    _check(report.plan, case)
    return report.plan, seconds


def _check(plan: ConsolidationPlan, case: Case) -> None:
    """Stop the benchmark at a plan that does not hold."""
    nodes = {node.name: (node.allocatable, node.max_pods) for node in case.snapshot.cluster.nodes}
    for removal in (*plan.sources, *plan.empties):
        del nodes[removal.node_name]
    (pool,) = case.settings.pools
    types = {each.name: (each.allocatable, each.max_pods) for each in pool.types}
    nodes |= {slot.key: types[slot.instance_type] for slot in plan.slots}
    to = {move.pod_uid: move.to_node for move in plan.moves}
    assert len(to) == len(plan.moves), "a pod is moved twice"
    used: dict[str, list[Resources]] = {}
    for pod in case.snapshot.cluster.pods:
        place = to.get(pod.uid, pod.node_name)
        assert place in nodes, "a pod is left without a node"
        used.setdefault(place, []).append(pod.requests)
    for name, requests in used.items():
        offer, slots = nodes[name]
        assert len(requests) <= slots, "too many pods"
        assert sum(each.cpu_milli for each in requests) <= offer.cpu_milli, "too much CPU"
        assert sum(each.memory_mib for each in requests) <= offer.memory_mib, "too much memory"


def _size(case: Case) -> str:
    return f"{len(case.snapshot.cluster.nodes)} nodes, {len(case.snapshot.cluster.pods)} pods left on them"


def _over(cost: float, plan: ConsolidationPlan) -> str:
    return f"{100 * (cost / float(plan.bound) - 1):.2f}"


def _counts(plan: ConsolidationPlan, case: Case) -> tuple[str, str, str]:
    share = len(plan.moves) / len(case.snapshot.cluster.pods)
    return f"{len(plan.moves)} ({share:.0%})", str(len(plan.slots)), "1"


def _compared(reached: Reached, seconds: float, plan: ConsolidationPlan, case: Case) -> list[tuple[str, ...]]:
    pods = len(case.snapshot.cluster.pods)
    moved = f"{reached.moved} ({reached.moved / pods:.0%}), {reached.evictions} evictions"
    row = ("as Karpenter", _over(reached.cost, plan), f"{seconds:.0f}", moved, "", str(reached.commands))
    enough = [point for point in plan.frontier if float(point.cost_per_hour) <= reached.cost]
    if not enough:
        return [row]
    point = enough[0]
    least = f"{point.pods_moved} ({point.pods_moved / pods:.0%})"
    return [row, ("Ebbtide, as cheap as that", _over(float(point.cost_per_hour), plan), "", least, "", "1")]


if __name__ == "__main__":
    sys.exit(main())
