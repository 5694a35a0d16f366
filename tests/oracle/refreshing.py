"""Repair, expiry and drift compared: the real `decide` on drawn clusters of which some nodes are unfit."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from ebbtide.core.nodes.decide import decide
from ebbtide.model.decision import Action, Decision
from ebbtide.model.pod import Pod, PodPhase, Taint, TaintEffect
from ebbtide.model.record import Record, Unwell
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import (
    NOW,
    make_daemon,
    make_instance_of,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
    make_spot,
)
from tests.oracle import refresh
from tests.oracle.drawing import Source
from tests.oracle.facts import Moment
from tests.oracle.suite import Report
from tests.oracle.translate import moment_of

DAY = 86_400
CONDITION = "KernelDeadlock=True"
TAINT = Taint("dedicated", TaintEffect.NO_SCHEDULE, "game")
NODES: tuple[dict[str, Any], ...] = (
    *({},) * 12,
    {"ready": False},
    {"ready": False},
    {"ready": False},
    {"conditions": (CONDITION,)},
    {"conditions": ("DiskPressure=True",)},
    {"created_at": NOW - 3 * DAY},
    {"created_at": NOW - 3 * DAY + 1},
    {"instance_type": "former"},
    {"labels": (("tier", "new"),), "taints": (TAINT,)},
    {"unschedulable": True},
    {"control_plane": True},
)
HASHES = ("", "", "h1", "h2")
POOLS: tuple[dict[str, Any], ...] = (
    {},
    {"expire_seconds": 3 * DAY},
    {"launch_hash": "h2"},
    {"labels": (("tier", "new"),)},
    {"labels": (("tier", "new"),), "taints": (TAINT,), "launch_hash": "h2"},
    {"expire_seconds": 3 * DAY, "may_be_empty": True},
)


@dataclass(frozen=True, slots=True)
class Refreshing:
    snapshot: Snapshot
    record: Record
    settings: Settings


def cases(source: Source) -> Refreshing:
    zones = source.picks("aabb", 1, 8)
    drawn = tuple(make_node(f"{zone}{n}", **source.pick(NODES)) for n, zone in enumerate(zones))
    pods = [make_daemon(node.name) for node in drawn]
    pods += [_pod(source, node, number) for number, node in enumerate(drawn) if source.number(0, 1)]
    if source.number(0, 7) == 7:
        pods.append(make_pod("queued", phase=PodPhase.PENDING, created_at=NOW - 30))
    snapshot = make_snapshot(
        drawn,
        pods,
        instances=[make_instance_of(node, launch_hash=source.pick(HASHES)) for node in drawn],
        cpu=source.pick((0.35, 0.5, 0.5, None)),
    )
    settings = make_settings(
        pools=(make_pool(**source.pick(POOLS)),),
        min_workers=source.pick((0, 1, len(drawn))),
        max_workers=len(drawn) + source.pick((0, 1, 3)),
        repair=source.number(0, 4) > 0,
        repair_conditions=(CONDITION,),
        replace_drifted=source.number(0, 4) > 0,
        budget_fraction=0.5,
    )
    record = make_record(
        unwell=_unwell(source, drawn),
        last_scale_at=source.pick((0, 0, 0, NOW - 599)),
        removal_backoff_until=source.pick((0, 0, 0, NOW + 60)),
        removal_failures=1,
        paused=source.number(0, 9) == 9,
        spots=(make_spot(drawn[0].name),) if source.number(0, 9) == 9 else (),
        worker_count=len(drawn),
        pod_count=len(pods),
    )
    return Refreshing(snapshot, record, settings)


def _unwell(source: Source, drawn: tuple[Node, ...]) -> tuple[Unwell, ...]:
    found = []
    for node in drawn:
        condition = "Ready=False" if not node.ready else CONDITION if CONDITION in node.conditions else ""
        if condition:
            found.append(Unwell(node.uid, condition, NOW - source.pick((600, 600, 599, 5000))))
    return tuple(found)


def _pod(source: Source, node: Node, number: int) -> Pod:
    kind: dict[str, Any] = source.pick(
        (
            {},
            {},
            {},
            {"do_not_disrupt": True},
            {"controller": ""},
            {"terminating": True, "ends_at": NOW - 100},
        )
    )
    return replace(make_pod(f"p{number}", 500, 512, node_name=node.name), **kind)


def compare(case: Refreshing, report: Report) -> None:
    decision = decide(case.snapshot, case.record, case.settings, NOW, "d1")
    moment = moment_of(case.snapshot, case.record, case.settings, NOW)
    report.cases["replacements"] += 1
    for node in moment.nodes:
        refresh.may_repair(moment, node)
        refresh.may_refresh(moment, node)
        refresh.launches_enough(moment, node, 2)
        refresh.launches_enough(moment, node, 0)
        refresh.keeps_its_place(moment, node, "b", "small")
    _judge(decision, moment, report)


def _judge(decision: Decision, moment: Moment, report: Report) -> None:
    told = f"{decision.action} ({decision.reason})"
    must = refresh.must_repair(moment)
    if must.demands and decision.action not in (Action.REPAIR, Action.SCALE_UP):
        report.differs(f"a worker must be repaired: {must.why}: {told}")
    if decision.action not in (Action.REPAIR, Action.REPLACE):
        return
    names = [removal.node_name for removal in decision.removals]
    if len(names) != 1:
        report.differs(f"more than one at a time: {told}")
        return
    node = moment.named(names[0])
    if node is None:
        report.differs(f"{names[0]} does not exist: {told}")
        return
    repairs = decision.action is Action.REPAIR
    report.cases[f"replacements by {decision.action}"] += 1
    allowed = refresh.may_repair(moment, node) if repairs else refresh.may_refresh(moment, node)
    rulings = [allowed, refresh.launches_enough(moment, node, len(decision.slots))]
    rulings += [refresh.keeps_its_place(moment, node, s.zone, s.instance_type) for s in decision.slots]
    report.check(rulings, f"{names[0]}: {told}")
