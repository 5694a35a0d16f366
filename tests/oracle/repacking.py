"""Consolidations compared: the real `decide` on clusters of the types of the document, at rest."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ebbtide.core.nodes.decide import decide
from ebbtide.core.operations import machine
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.decision import Action, Decision
from ebbtide.model.record import Emptied, Record
from tests.builders import NOW, make_move, make_pod, make_scale_up, make_slot
from tests.oracle import consolidation, nodes
from tests.oracle.answers import no
from tests.oracle.clusters import PENDING, SERVERS, PodKind
from tests.oracle.drawing import Source
from tests.oracle.facts import Moment
from tests.oracle.suite import Report
from tests.oracle.translate import moment_of
from tests.unit.consolidation.builders import cheap, cluster, node, rules, settings_with

TYPES = ("cpx22", "cpx32", "cpx42", "cpx52", "cpx62", "cpx62")
AGES = (86_400, 86_400, 1800, 1799, 300)
IDLE = (3600, 900, 899, 0)
NODES = tuple(product(TYPES, AGES, IDLE))
RECORDS: tuple[dict[str, Any], ...] = (
    *({},) * 5,
    {"last_consolidation_at": NOW - 7200},
    {"last_consolidation_at": NOW - 7199},
    {"last_consolidation_at": NOW - 8000, "consolidations_in_vain": 1},
)
LOADS: tuple[PodKind, ...] = (
    lambda name: make_pod(name, 500, 1024, owner_uid="rs"),
    lambda name: make_pod(name, 1500, 3000, owner_uid="rs"),
    lambda name: make_pod(name, 500, 1024, owner_uid="rs", ready=False, created_at=NOW - 20),
)
MOVED: tuple[PodKind, ...] = (*LOADS[:2], *SERVERS, lambda name: make_pod(name, 100, 128, controller=""))


@dataclass(frozen=True, slots=True)
class Packing:
    nodes: tuple[int, ...]
    pods: tuple[int, ...]
    record: int
    queued: bool
    odd: int


LONG_IDLE = tuple(n for n, (_, age, idle) in enumerate(NODES) if age >= 1800 and idle >= 900)


def cases(source: Source) -> Packing:
    calm = source.pick((False, True))
    codes = source.picks(LONG_IDLE if calm else range(len(NODES)), 1, 5)
    pods = source.numbers(0, len(MOVED) * 5 - 1, 0, 5)
    quiet = source.number(0, 5)
    return Packing(
        tuple(codes),
        () if quiet < 2 else tuple(pods),
        source.number(0, len(RECORDS) - 1),
        quiet == 5,
        source.number(0, 9),
    )


def compare(case: Packing, report: Report) -> None:
    drawn = [NODES[code] for code in case.nodes]
    machines = [node(f"a{n}", kind, created_at=NOW - age) for n, (kind, age, _) in enumerate(drawn)]
    pods = []
    for number, code in enumerate(case.pods):
        where, kind = divmod(code, len(MOVED))
        pods.append(
            replace(MOVED[kind](f"s{number}"), node_name=machines[where % len(machines)].name, owner_uid="rs")
        )
    if case.odd == 1:
        pods.append(replace(LOADS[2]("young"), node_name=machines[0].name))
    if case.queued:
        pods.append(PENDING[0]("queued"))
    busy = {one.node_name for one in pods}
    empty = [
        Emptied(each.uid, NOW - idle)
        for each, (_, _, idle) in zip(machines, drawn, strict=True)
        if idle and each.name not in busy
    ]
    record = Record(emptied=tuple(empty), **RECORDS[case.record])
    if case.odd == 2:
        record = machine.written(record, make_scale_up(make_slot()))
    ruled = cheap() if case.odd in (3, 4, 5, 7, 8) else rules(enabled=case.odd != 6)
    snapshot = cluster(machines, pods, cpu=0.5)
    settings = settings_with(ruled)
    decision = decide(snapshot, record, settings, NOW, "d1")
    moment = moment_of(snapshot, record, settings, NOW)
    report.cases["consolidations considered"] += 1
    report.cases["consolidations decided"] += decision.action is Action.CONSOLIDATE
    judge(decision, moment, record.consolidations_in_vain, report)


def judge(decision: Decision, moment: Moment, fruitless: int, report: Report) -> None:
    begins = consolidation.may_begin(moment, fruitless)
    for each in moment.nodes:
        consolidation.may_delete(moment, each)
        consolidation.may_empty(moment, each)
    consolidation.keeps_one(moment, [each.name for each in moment.nodes], 0)
    smallest = min(moment.nodes, key=lambda each: each.allocatable.memory_mib).name
    crowded = [make_move(pod, smallest) for pod in moment.pods if pod.node_name]
    consolidation.leaves_free(moment, crowded, ())
    consolidation.leaves_free(moment, [replace(move, to_node="yet to come") for move in crowded], ())
    must = consolidation.must_proceed(moment, fruitless)
    if decision.action is not Action.CONSOLIDATE:
        if must.demands:
            report.differs(f"a consolidation must proceed: {must.why}: {decision.reason}")
        return
    told = f"{decision.action} ({decision.reason})"
    report.check([begins], told)
    assert decision.consolidation is not None
    plan = decision.consolidation.plan
    if plan is None:
        report.differs(f"no plan: {told}")
        return
    _judge_plan(plan, moment, told, report)


def _judge_plan(plan: ConsolidationPlan, moment: Moment, told: str, report: Report) -> None:
    gone = [one.node_name for one in (*plan.empties, *plan.sources)]
    there = {each.name: each for each in moment.nodes}
    rulings = [consolidation.may_delete(moment, there[one.node_name]) for one in plan.empties]
    rulings += [consolidation.may_empty(moment, there[one.node_name]) for one in plan.sources]
    rulings += [nodes.may_touch(there[name]) for name in gone]
    rulings.append(consolidation.keeps_one(moment, gone, len(plan.slots)))
    rulings += [] if plan.slots else [nodes.keeps_minimum(moment, gone)]
    rulings.append(consolidation.leaves_free(moment, plan.moves, gone))
    launched = [slot.instance_type for slot in plan.slots]
    rulings.append(consolidation.saves_enough(moment, [there[name] for name in gone], launched))
    report.check(rulings, f"{told}: {gone}, {len(plan.moves)} moves")
    stays = [pod.full_name for pod in moment.pods if pod.node_name in gone and not _leaves(pod.uid, plan)]
    left = [name for name in stays if not name.startswith("default/agent-")]
    report.check([no(f"{left[0]} would be left")] if left else [], told)


def _leaves(uid: str, plan: ConsolidationPlan) -> bool:
    return any(move.pod_uid == uid for move in plan.moves)
