"""What one tick would launch for many pending pods: from the snapshot to the decision, the real code path.

    python -m bench.bench_launch --data FOLDER [--pods 1000 10000] [--json]

Each line: catalogue, pods, how constrained they are, seconds, seconds of CPU (on a machine with other work
only those tell), cost over the proven bound, and how much cheaper a plan for the same pods is than first-
fit-decreasing under the same rules, in the same run, next to the most that any plan could be by the bound.
First-fit-decreasing leaves some pods pending (`ffd_left`: those that must go next to another workload,
where its nodes are full); both are compared for the pods that it serves. Constrained pods are a sixth each:
spread over zones, spread over hosts, anti-affinity to themselves, affinity to another workload, a zone
selector, plain. Every placement is confirmed by the fit rules once more, one by one.
"""

from __future__ import annotations

import argparse
import json
import resource
import time
from collections.abc import Sequence
from decimal import Decimal
from pathlib import Path

from bench.packing_data import Row, catalogues, resampled
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.fit import Placement
from ebbtide.core.nodes.offers import all_offers
from ebbtide.core.nodes.sizing import LaunchPlan, plan_launch
from ebbtide.model.decision import Decision
from ebbtide.model.pod import (
    AntiAffinity,
    LabelSelector,
    Pod,
    PodNearby,
    PodPhase,
    Requirement,
    Resources,
    Scheduling,
    SelectorOperator,
    Spread,
)
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Snapshot

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
ZONES = ("a", "b", "c")
NOW = 1_800_000_000
WORKLOADS = 20
"""Of each kind of rule."""


def pool_of(rows: Sequence[Row]) -> Pool:
    types = tuple(
        NodeType(name, Resources(cpu, memory), pods, Price(Decimal(str(price)), "USD", "list"))
        for name, cpu, memory, pods, price in rows
    )
    return Pool("general", types, ZONES)


def _selector(app: str) -> LabelSelector:
    return LabelSelector((Requirement("app", SelectorOperator.IN, (app,)),))


def _rules(kind: int, app: str) -> Scheduling:
    own = _selector(app)
    match kind:
        case 0:
            return Scheduling(spread=(Spread(ZONE, 1, own),))
        case 1:
            return Scheduling(spread=(Spread(HOST, 1, own),))
        case 2:
            return Scheduling(anti_affinity=(AntiAffinity(HOST, own),))
        case 3:
            return Scheduling(affinity=(PodNearby(HOST, _selector(app.replace("3-", "5-"))),))
        case 4:
            return Scheduling(node_selector=((ZONE, ZONES[int(app.split("-")[1]) % 3]),))
        case _:
            return Scheduling()


def pending(folder: Path | None, count: int, constrained: bool) -> list[Pod]:
    sizes = resampled(folder, count, distinct=False)
    kinds = 6 if constrained else 1
    apps: dict[tuple[int, int], tuple[Scheduling, tuple[tuple[str, str], ...], Resources]] = {}
    shared: dict[tuple[int, int], Resources] = {}
    pods = []
    for number, (cpu, memory) in enumerate(sizes):
        if not constrained:
            requests = shared.setdefault((cpu, memory), Resources(cpu, memory))
            pods.append(_pod(number, requests, Scheduling(), ()))
            continue
        kind, app = number % kinds, number // kinds % WORKLOADS
        name = f"{kind}-{app}"
        known = apps.setdefault(
            (kind, app), (_rules(kind, name), (("app", name),), Resources(min(cpu, 8000), min(memory, 16384)))
        )
        pods.append(_pod(number, known[2], known[0], known[1]))
    return pods


def _pod(number: int, requests: Resources, rules: Scheduling, labels: tuple[tuple[str, str], ...]) -> Pod:
    return Pod(
        "default",
        f"p{number}",
        f"u{number:06d}",
        phase=PodPhase.PENDING,
        requests=requests,
        controller="ReplicaSet",
        scheduling=rules,
        labels=labels,
        created_at=NOW - 600,
    )


def decided(pool: Pool, pods: Sequence[Pod]) -> tuple[Decision, float, float]:
    """With the seconds that it took, and those of CPU."""
    settings = Settings(pools=(pool,), max_workers=100_000, max_batch_up=100_000)
    snapshot = Snapshot(NOW, ClusterView(pods=tuple(pods)))
    record = Record(pending_since=NOW - 600, ticked_at=NOW - 60)
    began, worked = time.perf_counter(), time.process_time()
    decision = decide(snapshot, record, settings, NOW, "bench")
    return decision, time.perf_counter() - began, time.process_time() - worked


def planned(pool: Pool, pods: Sequence[Pod]) -> LaunchPlan:
    settings = Settings(pools=(pool,), max_workers=100_000, max_batch_up=100_000)
    return plan_launch(Snapshot(NOW, ClusterView(pods=tuple(pods))), Record(), settings, 0)


def refused(plan: LaunchPlan, pods: Sequence[Pod]) -> int:
    """Placements that the fit rules do not agree to, asked one by one in an order a scheduler could take."""
    of = {pod.uid: pod for pod in pods}
    rooms = [offer.room(f"n{number}") for number, offer in enumerate(plan.offers)]
    placement = Placement(rooms, pods)
    todo = [(room, of[uid]) for room, uids in zip(rooms, plan.pods, strict=True) for uid in uids]
    todo.sort(key=lambda pair: bool(pair[1].scheduling.affinity))
    while todo:
        again = []
        for room, pod in todo:
            if placement.why_not(pod, room):
                again.append((room, pod))
            else:
                placement.place(pod, room)
        if len(again) == len(todo):
            return len(again)
        todo = again
    return 0


def first_fit_decreasing(pool: Pool, pods: Sequence[Pod]) -> tuple[float, list[Pod]]:
    """Its cost, and the pods that it serves. Largest first into the first planned node that takes it, else
    onto the type of the least price for what its largest resource offers: what most autoscalers do, with the
    same rules."""
    settings = Settings(pools=(pool,))
    offers = all_offers(Snapshot(NOW), Record(), settings)
    placement = Placement((), pods)
    by_kin: dict[int, int] = {}
    cost = Decimal(0)
    order = sorted(
        pods,
        key=lambda p: (bool(p.scheduling.affinity), -p.requests.cpu_milli, -p.requests.memory_mib),
    )
    opened: list[object] = []
    served: list[Pod] = []
    ranked = sorted(offers, key=lambda o: float(o.price or 0) / o.node_type.allocatable.cpu_milli)
    for pod in order:
        kin = hash((pod.requests, pod.labels))
        rooms = list(placement.rooms.values())
        start = by_kin.get(kin, 0) if not pod.scheduling.carries_rules else 0
        found = None
        for index in range(start, len(rooms)):
            room = rooms[index]
            if room.cpu_milli < pod.requests.cpu_milli or room.memory_mib < pod.requests.memory_mib:
                continue
            if not placement.why_not(pod, room):
                found = room
                by_kin[kin] = index
                break
        if found is None:
            for offer in ranked:
                room = offer.room(f"f{len(opened)}")
                placement.open(room)
                if not placement.why_not(pod, room):
                    found = room
                    opened.append(offer)
                    cost += offer.price or 0
                    break
                placement.close(room.name)
        if found is not None:
            placement.place(pod, found)
            served.append(pod)
    return float(cost), served


def against_first_fit(pool: Pool, pods: Sequence[Pod]) -> dict[str, object]:
    base, served = first_fit_decreasing(pool, pods)
    plan = planned(pool, served)
    return {
        "cheaper_than_ffd_percent": round(100 * (1 - cost_of(plan) / base), 1),
        "most_possible_percent": round(100 * (1 - plan.bound / base), 1),
        "ffd_left": len(pods) - len(served),
        "left": len(served) - sum(map(len, plan.pods)),
    }


def cost_of(plan: LaunchPlan) -> float:
    return float(sum((offer.price or 0 for offer in plan.offers), Decimal(0)))


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--data", type=Path)
    parser.add_argument("--pods", type=int, nargs="*", default=[300, 1000, 10_000, 50_000])
    parser.add_argument("--no-baseline", action="store_true")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    for name, rows in catalogues(asked.data).items():
        pool = pool_of(rows)
        for count in asked.pods:
            for constrained in (False, True):
                pods = pending(asked.data, count, constrained)
                decision, seconds, cpu = decided(pool, pods)
                plan = planned(pool, pods)
                cost = cost_of(plan)
                line: dict[str, object] = {
                    "catalogue": name,
                    "pods": count,
                    "constrained": constrained,
                    "seconds": round(seconds, 2),
                    "cpu_seconds": round(cpu, 2),
                    "nodes": len(decision.slots),
                    "served": sum(map(len, plan.pods)),
                    "over_bound_percent": round(100 * (cost / plan.bound - 1), 2) if plan.bound else 0.0,
                    "refused": refused(plan, pods),
                    "peak_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
                }
                if not asked.no_baseline and count <= 10_000:
                    line |= against_first_fit(pool, pods)
                told = json.dumps(line) if asked.json else "  ".join(f"{k}={v}" for k, v in line.items())
                print(told, flush=True)


if __name__ == "__main__":
    main()
