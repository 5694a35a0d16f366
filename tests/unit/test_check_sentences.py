"""What checks, decisions and warnings say. Elsewhere their values are compared: only here their words.

Each is made within its test: what is made while this file is read is not seen by a change of the code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.core.consolidation.pace import settled
from ebbtide.core.nodes import gates
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.orphans import Foreign
from ebbtide.core.nodes.timers import TimerTrouble, TimerWarning
from ebbtide.core.nodes.unwell import NOT_READY, pool_well
from ebbtide.model.check import Check, Gate
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.decision import Action, Decision, Verdict
from ebbtide.model.operation import SlotState
from ebbtide.model.pod import NOTHING, Pod, PodPhase
from ebbtide.model.pool import Headroom, RemovalBudget, RemovalReason
from ebbtide.model.record import DemandNote, Emptied, EmptiedNode, Missing, Record, Unwell
from ebbtide.model.settings import JudgedBy
from ebbtide.model.snapshot import Ownership, Snapshot
from tests.builders import (
    NOW,
    make_daemon,
    make_instance,
    make_instance_of,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
)
from tests.unit import test_refused as refusing
from tests.unit.consolidation import builders as repacking

SETTINGS, IDLE = make_settings(), RemovalReason.IDLE
BY_NODE = make_settings(scale_down_by=JudgedBy.NODE)
TWO, THREE = make_nodes("a1", "b1"), make_nodes("a1", "a2", "b1")
FULL = [make_pod(f"full-{node.name}", 4000, node_name=node.name) for node in TWO]


def pending(name: str = "web", cpu_milli: int = 1000, **overrides: Any) -> Pod:
    return make_pod(name, cpu_milli, **{"phase": PodPhase.PENDING, **overrides})


def decided(snapshot: Snapshot, record: Record | None = None, **settings: Any) -> Decision:
    return decide(snapshot, record or make_record(), make_settings(**settings), NOW, "d1")


def verdict_on(decision: Decision, action: Action) -> Verdict:
    return next(verdict for verdict in decision.verdicts if verdict.action is action)


def why_not(decision: Decision, action: Action) -> str:
    failed = verdict_on(decision, action).failed
    assert failed is not None
    return failed.says


def sized(count: int, unready: int) -> Snapshot:
    return make_snapshot([make_node(f"a{n}", ready=n >= unready) for n in range(count)])


ONE_WORKER = make_snapshot(make_nodes("a1"))
LEAVING = make_record(operation=make_scale_down(make_removal("a0")))
GATES: list[tuple[Callable[[], Check], str]] = [
    (lambda: gates.not_paused(make_record(paused=True)), "removals are paused"),
    (
        lambda: gates.not_paused(make_record(paused=True, pause_reason="freeze")),
        "removals are paused (freeze)",
    ),
    (
        lambda: gates.not_paused(make_record(set_aside=make_scale_down(id="op-7"))),
        "operation op-7 was set aside until `ebbtide resume`",
    ),
    (lambda: gates.not_paused(make_record()), "removals are not paused"),
    (
        lambda: gates.complete(make_snapshot(problems=("the cloud could not be read",))),
        "the cloud could not be read",
    ),
    (lambda: gates.complete(make_snapshot()), "cluster and cloud were read completely"),
    (
        lambda: gates.plausible(make_snapshot(TWO, pods=[]), make_record(), SETTINGS),
        "no pods are seen on 2 nodes",
    ),
    (
        lambda: gates.plausible(sized(4, 0), make_record(worker_count=8), SETTINGS),
        "4 workers are seen where there were 8 just before",
    ),
    (
        lambda: gates.plausible(sized(4, 0), make_record(worker_count=4, pod_count=40), SETTINGS),
        "4 pods are seen where there were 40 just before",
    ),
    (
        lambda: gates.plausible(make_snapshot(), make_record(), SETTINGS),
        "0 workers and 0 pods, seen for the first time",
    ),
    (
        lambda: gates.plausible(ONE_WORKER, make_record(), SETTINGS),
        "1 worker and 1 pod, seen for the first time",
    ),
    (
        lambda: gates.plausible(ONE_WORKER, make_record(worker_count=1), SETTINGS),
        "1 worker and 1 pod, after 1 and 0 just before",
    ),
    (
        lambda: gates.plausible(ONE_WORKER, make_record(pod_count=1), SETTINGS),
        "1 worker and 1 pod, after 0 and 1 just before",
    ),
    (
        lambda: gates.healthy(sized(20, 10), make_record(), SETTINGS),
        "10 of 20 workers are not ready; removals stop at more than 45% and more than 3",
    ),
    (lambda: gates.load_known(make_snapshot(cpu=0.7)), "CPU is known"),
    (lambda: gates.load_known(make_snapshot(cpu=None)), "the metrics were not read"),
    (
        lambda: gates.load_not_high(make_snapshot(cpu=0.7), make_settings(cpu_up=0.7)),
        "CPU is not above cpu_up 0.70",
    ),
    (
        lambda: gates.load_not_high(make_snapshot(cpu=0.71), make_settings(cpu_up=0.7)),
        "CPU 0.71 is above cpu_up 0.70",
    ),
    (
        lambda: gates.load_on(1, make_snapshot(TWO, cpu=0.2), make_settings(cpu_up=0.7)),
        "CPU would be 0.40 with 1 worker left, cpu_up is 0.70",
    ),
    (lambda: gates.load_on(0, make_snapshot(cpu=0.0), SETTINGS), "no worker would be left"),
    (
        lambda: gates.load_on(0, make_snapshot(), make_settings(pools=(make_pool(may_be_empty=True),))),
        "no worker would be left, and every pool may be empty",
    ),
    (lambda: gates.no_pod_pending(make_snapshot(TWO)), "no pod is pending"),
    (lambda: gates.none_pending_for(TWO[0], make_snapshot(TWO), BY_NODE), "no pod is pending"),
    (
        lambda: gates.no_pod_pending(make_snapshot(TWO, [pending(), pending("db")])),
        "2 pods are pending, default/web first",
    ),
    (lambda: gates.all_matched(make_snapshot(TWO)), "all match"),
    (
        lambda: gates.all_matched(make_snapshot(TWO, instances=[])),
        "2 ready workers match no instance, a1 first",
    ),
    (lambda: gates.all_matched(make_snapshot([make_node(ready=False)], instances=[])), "no worker is ready"),
    (
        lambda: gates.keeps_minimum(make_snapshot(TWO), make_record(), SETTINGS, [make_removal("a1")]),
        "1 ready worker would be left, min_workers is 2",
    ),
    (
        lambda: gates.keeps_minimum(
            make_snapshot([*THREE, make_node("b2", pool="gpu")]),
            make_record(),
            make_settings(pools=(make_pool("gpu", min_workers=1),)),
            [make_removal("b2", pool="gpu")],
        ),
        "0 would be left in pool gpu, its minimum is 1",
    ),
    (
        lambda: gates.keeps_minimum(make_snapshot(THREE), make_record(), SETTINGS, [make_removal("a1")]),
        "2 ready workers are left, min_workers is 2",
    ),
    (
        lambda: gates.keeps_zones(make_snapshot(THREE), make_record(), SETTINGS, [make_removal("b1")]),
        "zone b would be left without a ready worker",
    ),
    (
        lambda: gates.within_budget(sized(10, 0), LEAVING, SETTINGS, [make_removal("a2")], IDLE),
        "1 asked for, 0 may go: 1 of at most 1 are leaving (budget_fraction is 0.1)",
    ),
    (
        lambda: gates.budget_left(sized(10, 0), LEAVING, SETTINGS, IDLE),
        "0 more may go: 1 of at most 1 are leaving (budget_fraction is 0.1)",
    ),
    (
        lambda: gates.budget_left(
            sized(10, 0),
            make_record(),
            make_settings(budgets=(RemovalBudget(0, reasons=(IDLE,)),)),
            IDLE,
        ),
        "0 more may go: 0 of at most 0 are leaving; budget of the cluster: 0 nodes for idle",
    ),
    (
        lambda: pool_well("workers", sized(5, 2), make_record(), make_settings(repair=True)),
        "2 of 5 workers of pool workers are unwell; repair stops above 1 (20%)",
    ),
    (
        lambda: settled(
            make_record(demand=(DemandNote(NOW - 60, 500, 100), DemandNote(NOW, 1000, 100))),
            make_settings(settled_seconds=3600, settled_rise=0.1),
        ),
        "demand rose by 50% within the last 1 h, at most 10% is allowed",
    ),
]


@pytest.mark.parametrize(("check", "says"), GATES, ids=[says for _, says in GATES])
def test_a_gate_says_what_it_found_and_its_limit(check: Callable[[], Check], says: str) -> None:
    assert check().says == says


QUEUE = make_snapshot(TWO, [*FULL, pending()])
HOT = make_snapshot(TWO, cpu=0.90)
WAITED = make_record(pending_since=NOW - 180)
UP: list[tuple[Callable[[], Decision], str]] = [
    (lambda: decided(make_snapshot(TWO, cpu=0.5)), "CPU 0.50 is not above 0.70, no pod is pending"),
    (lambda: decided(make_snapshot(TWO, cpu=None)), "the metrics were not read, no pod is pending"),
    (
        lambda: decided(QUEUE, make_record(pending_since=NOW - 179)),
        "CPU 0.10 is not above 0.70, 1 pod has been pending for 2 min 59 s, pending_up_sec is 3 min",
    ),
    (
        lambda: decided(
            make_snapshot(TWO, [*FULL, pending(), pending("api", created_at=NOW - 90)]),
            make_record(pending_since=NOW - 60),
        ),
        "CPU 0.10 is not above 0.70, 2 pods are pending, the oldest for 60 s, pending_up_sec is 3 min",
    ),
    (
        lambda: decided(HOT, make_record(launching=make_scale_up(make_slot(state=SlotState.LAUNCHED)))),
        "CPU 0.90 is above 0.70, and enough nodes are being launched, no pod is pending",
    ),
    (
        lambda: decided(HOT, make_record(last_scale_at=NOW - 299)),
        "the last scaling was 4 min 59 s ago, cooldown_up_sec is 5 min",
    ),
    (
        lambda: decided(HOT, make_record(launch_failures=1, launch_backoff_until=NOW + 60)),
        "1 failure in a row, 60 s of back-off left",
    ),
    (lambda: decided(HOT, max_workers=2), "2 nodes exist or are expected, max_workers is 2"),
    (
        lambda: decided(make_snapshot(TWO, [*FULL, pending("huge", 64_000)]), WAITED),
        "default/huge fits no type of any pool: needs 64000m CPU, 4000m free",
    ),
    (
        lambda: decided(make_snapshot(TWO, [make_pod("db", node_name="a1"), pending()]), WAITED),
        "the pending pods fit on existing nodes or on nodes being launched",
    ),
    (lambda: decided(HOT, pools=(make_pool(max_workers=2),)), "every pool is at its maximum"),
]


@pytest.mark.parametrize(("decision", "says"), UP, ids=[says for _, says in UP])
def test_why_nothing_is_launched(decision: Callable[[], Decision], says: str) -> None:
    made = decision()
    assert why_not(made, Action.SCALE_UP) == says
    assert f"no scale-up: {says}" in made.reason


def calm(**overrides: Any) -> Record:
    return make_record(**{"idle_since": NOW - 600, "worker_count": 3, "pod_count": 3, **overrides})


LAUNCH = make_scale_up(make_slot(state=SlotState.LAUNCHED), id="1800000000-abcdef", started_at=NOW - 300)
SMALLER = make_snapshot(THREE, cpu=0.55)
DOWN: list[tuple[Callable[[], Decision], str]] = [
    (lambda: decided(make_snapshot(THREE, cpu=0.41), calm()), "CPU 0.41 is not below 0.30"),
    (
        lambda: decided(make_snapshot(THREE), calm(idle_since=NOW - 599)),
        "idle for 9 min 59 s, idle_down_sec is 10 min",
    ),
    (
        lambda: decided(make_snapshot(THREE), calm(last_scale_at=NOW - 599)),
        "the last scaling was 9 min 59 s ago, cooldown_down_sec is 10 min",
    ),
    (
        lambda: decided(make_snapshot(make_nodes("a1", "a2")), calm()),
        "2 ready and schedulable workers, min_workers is 2",
    ),
    (
        lambda: decided(make_snapshot(THREE), calm(operation=make_scale_down(id="op-7"))),
        "a scale-down is in progress (operation op-7)",
    ),
    (
        lambda: decided(make_snapshot(THREE), calm(launching=LAUNCH)),
        "a scale-up is in progress (operation …abcdef)",
    ),
    (
        lambda: decided(make_snapshot(THREE), calm(spots=(make_spot("b1"),))),
        "1 spot notice is being answered",
    ),
    (
        lambda: decided(make_snapshot(THREE), calm(removal_failures=2, removal_backoff_until=NOW + 30)),
        "2 failures in a row, 30 s of back-off left",
    ),
    (
        lambda: decided(SMALLER, calm(), cpu_down=0.60, cpu_up=0.70),
        "CPU would be 0.83 with 2 workers left, cpu_up is 0.70",
    ),
    (
        lambda: decided(make_snapshot(make_nodes("a1", "b1", "c1")), calm()),
        "none of 3 ready workers may go; a1: it is the last ready worker in zone a",
    ),
    (
        lambda: decided(
            make_snapshot(THREE), calm(leaving=(EmptiedNode("a1", "uid-a1", "i-a1", "op", NOW + 60),))
        ),
        "a1 is leaving",
    ),
]


def test_the_load_is_told_for_the_workers_that_are_removed_and_not_for_the_batch() -> None:
    rules = {"max_batch_down": 2, "budget_fraction": 1.0, "min_workers": 1}
    removing = decided(make_snapshot(THREE), calm(), **rules)
    (load,) = [c for c in verdict_on(removing, Action.SCALE_DOWN).checks if c.name == "load fits the rest"]
    # Each zone keeps a worker, so one of the three goes. The two that are left carry 3 x 0.10.
    assert [removal.node_name for removal in removing.removals] == ["a1"]
    assert load.says == "CPU would be 0.15 with 2 workers left, cpu_up is 0.70"


@pytest.mark.parametrize(("decision", "says"), DOWN, ids=[says for _, says in DOWN])
def test_why_nothing_is_removed(decision: Callable[[], Decision], says: str) -> None:
    made = decision()
    assert why_not(made, Action.SCALE_DOWN) == says
    assert f"no scale-down: {says}" in made.reason


def test_a_reason_that_holds_for_several_actions_is_said_once() -> None:
    """While the cluster could not be read, the sentence said so three times."""
    unseen = decided(make_snapshot(THREE, problems=("the API server does not answer",)), calm())
    why = why_not(unseen, Action.SCALE_UP)
    assert why_not(unseen, Action.SCALE_DOWN) == why
    assert unseen.reason == f"no scale-up, no scale-down: {why}"


def test_what_is_done_is_said_with_its_reason() -> None:
    assert decided(make_snapshot(THREE), calm()).reason == (
        "remove a1: CPU 0.10 and no pod pending for 10 min"
    )
    assert decided(make_snapshot(TWO, cpu=0.71)).reason == "launch small in a: CPU 0.71 is above 0.70"
    assert decided(QUEUE, WAITED).reason == (
        "launch small in a: 1 pod has been pending for 3 min, pending_up_sec is 3 min"
    )
    two_new = [pending(created_at=NOW - 20), pending("api", created_at=NOW - 15)]
    assert decided(make_snapshot(TWO, [*FULL, *two_new]), make_record(pending_since=NOW - 3600)).reason == (
        "launch small in a: 2 pods are pending, the oldest for 20 s (there have been pending pods for 1 h), "
        "pending_up_sec is 3 min"
    )
    assert decided(ONE_WORKER, make_record(short_since=NOW - 180)).reason == (
        "launch small in b: 1 ready worker is below min_workers 2"
    )
    one_zone = (make_pool(zones=("a",)),)
    room = (Headroom(3000, 4096, 2),)
    busy = make_snapshot(make_nodes("a1"), [make_pod("busy", 3500, node_name="a1")])
    short = decided(busy, pools=one_zone, headroom=room, min_workers=1, max_batch_up=5)
    assert short.reason == (
        "launch 2 x small in a: headroom for 2 pods of 3000m CPU and 4096 MiB has room for 0 of 2"
    )
    full = decided(ONE_WORKER, pools=one_zone, headroom=room, min_workers=1, max_workers=1)
    assert why_not(full, Action.SCALE_UP) == (
        "1 node exists or is expected, max_workers is 1; "
        "headroom for 2 pods of 3000m CPU and 4096 MiB has room for 1 of 2"
    )


def test_what_a_crash_left_behind_is_said_with_its_reason() -> None:
    lone = make_instance("i-lone", key="op-0", zone="b", launched_at=NOW - 5000)
    long_ago = NOW - 9999
    adopted = decided(
        make_snapshot(TWO, extra_instances=[lone]), make_record(orphans=(Missing("i-lone", long_ago),))
    )
    assert adopted.reason == "adopt i-lone: the instance runs, but has no node and no operation"
    dead = [make_node(name, ready=False, instance_id=f"i-{name}") for name in ("c1", "c2")]
    seen = make_snapshot([*TWO, *dead], instances=[make_instance_of(node) for node in TWO])
    one = decided(seen, make_record(orphans=(Missing("uid-c1", long_ago),)))
    assert one.reason == "forget node c1: not ready, and its instance is gone"
    both = decided(seen, make_record(orphans=(Missing("uid-c1", long_ago), Missing("uid-c2", long_ago))))
    assert both.reason == "forget nodes c1, c2: not ready, and their instances are gone"
    stray = [make_node(name, unschedulable=True, owner=Ownership("op-1", 3)) for name in ("a1", "b1")]
    orphans = tuple(Missing(f"cordon:uid-{node.name}", long_ago) for node in stray)
    released = decided(make_snapshot(stray), make_record(orphans=orphans))
    assert released.reason == "release a1, b1: cordoned by an operation that is closed"
    refused = refusing.decided(refusing.record_with(NOW))
    assert refused.reason == "terminate a1 again: the cloud refused it before (no)"


def test_a_cooldown_that_is_skipped_is_said() -> None:
    server = make_node("a9", control_plane=True, unschedulable=True)
    alone = make_snapshot([server], [make_pod("agent", node_name="a9"), pending()])
    decision = decided(alone, make_record(pending_since=NOW - 180, last_scale_at=NOW - 1))
    (cooldown,) = [one for one in decision.verdicts[-1].checks if one.name == "cooldown over"]
    assert cooldown.says == "pods are pending and there is no worker: the cooldown is skipped"


def test_pods_that_are_pending_next_to_workers_that_carry_nothing() -> None:
    nodes = make_nodes("a1", "a2", "a3", "b1")
    full = [make_pod(f"full-{name}", 3000, node_name=name) for name in ("a3", "b1")]
    underused = tuple(Emptied(f"uid-{name}", NOW - 600) for name in ("a1", "a2"))
    record = make_record(underused=underused, worker_count=4, pod_count=3)
    by_node: dict[str, Any] = {
        "scale_down_by": JudgedBy.NODE,
        "idle_down_seconds": 60,
        "cooldown_down_seconds": 0,
    }
    decision = decided(make_snapshot(nodes, [*full, pending("late", 16_000)]), record, **by_node)
    checks = verdict_on(decision, Action.SCALE_DOWN).checks
    (asked,) = [check for check in checks if check.name == Gate.NO_POD_PENDING]
    assert asked.says == ("default/late is pending; none may go onto 2 workers that carry nothing")
    last = gates.none_pending_for(
        nodes[0], make_snapshot(nodes, [*full, pending("late", 500)]), make_settings(**by_node)
    )
    assert last.says == "default/late is pending and may go onto a1"


def test_why_nothing_is_replaced_or_repaired() -> None:
    seen = make_snapshot(THREE, [make_pod("p", node_name="a1", requests=NOTHING)])
    plain = decided(seen, calm(), cpu_down=0.0)
    assert why_not(plain, Action.REPLACE) == "0 of 3 ready workers are drifted or expired"
    assert why_not(plain, Action.REPAIR) == "repair is off"
    asked = decided(seen, calm(), cpu_down=0.0, repair=True)
    assert why_not(asked, Action.REPAIR) == "0 of 3 workers are unwell for too long"
    sick = make_snapshot(
        [*make_nodes("a1", "a2", ready=False), *make_nodes("a3", "b1", "b2")],
        [make_pod("p", node_name="a3")],
    )
    unwell = tuple(Unwell(f"uid-{name}", NOT_READY, NOW - 700) for name in ("a1", "a2"))
    braked = decided(sick, make_record(unwell=unwell, worker_count=5), repair=True, cpu_down=0.0)
    assert why_not(braked, Action.REPAIR) == (
        "none may be replaced; a1: 2 of 5 workers of pool workers are unwell; repair stops above 1 (20%)"
    )


def refused(record: Record, snapshot: Snapshot, **rules: Any) -> str:
    report = repacking.report_on(snapshot, record, repacking.settings_with(repacking.rules(**rules)))
    assert report.failed is not None
    return report.failed.says


def test_why_nothing_is_consolidated() -> None:
    pair = [repacking.node("a1"), repacking.node("a2", "cpx62")]
    empty, idle = repacking.cluster(pair), repacking.idle
    assert refused(idle(*pair), empty, enabled=False) == "consolidation is off"
    assert refused(idle(*pair, last_consolidation_at=NOW - 7199), empty) == (
        "the last consolidation was 1 h 59 min ago, the cooldown is 2 h"
    )
    vain = idle(*pair, last_consolidation_at=NOW - 14_399, consolidations_in_vain=1)
    assert refused(vain, empty) == (
        "the last consolidation was 3 h 59 min ago, the cooldown is 2 h, "
        "4 h after 1 without result (too few of their nodes were removed so far)"
    )
    assert refused(Record(), repacking.cluster([])) == "0 ready workers, at least 2 required"
    queue = repacking.cluster(pair, [pending("server")])
    assert refused(idle(*pair), queue) == "1 pod is pending (default/server first)"
    starting = repacking.cluster(pair, [repacking.pod("new", pair[0], phase=PodPhase.PENDING)])
    assert refused(idle(*pair), starting) == "1 pod is starting (default/new first)"


def test_why_a_plan_to_consolidate_is_not_taken() -> None:
    large, small = repacking.node("a1", "cpx62"), repacking.node("a2", "cpx32")
    ten = [repacking.pod(f"web-{number}", large, 100, 100) for number in range(10)]
    assert refused(
        Record(), repacking.cluster([large, small], ten), move_cost=Decimal("0.0423"), replace=False
    ) == ("10 moves cost about 0.423 EUR, 4 h of the savings bring 0.4224 EUR")
    four = repacking.cluster([large, small], ten[:4])
    assert refused(Record(), four, moves_per_hour=3) == "4 moves, 3 an hour are allowed"
    assert refused(make_record(evictions=(NOW - 60,) * 3), four, moves_per_hour=6) == (
        "4 moves, 6 an hour are allowed, 3 were made in the last"
    )
    two = [repacking.node("a1"), repacking.node("a2")]
    assert refused(repacking.idle(*two), repacking.cluster(two)) == (
        "savings 0.0168 EUR/h fall short of 0.10 by 0.0832"
    )


def test_why_new_nodes_are_not_launched_to_consolidate() -> None:
    large, full = repacking.node("a1", "cpx62"), repacking.node("a2", "cpx22")
    pods = [
        repacking.pod("web", large, 1000, 2000),
        repacking.pod("db", full, 1390, 2850, controller=""),
    ]
    snapshot = repacking.cluster([large, full], pods)

    def said(rules: ConsolidationSettings, **settings: Any) -> str:
        report = repacking.report_on(snapshot, Record(), repacking.settings_with(rules, **settings))
        assert report.failed is not None
        return report.failed.says

    cheap = repacking.cheap
    assert said(cheap(), max_workers=2) == "1 new node next to 2, max_workers is 2"
    pool = make_pool(types=repacking.TYPES, zones=("a",), max_workers=2)
    assert said(cheap(), pools=(pool,)) == "1 new node next to 2 in pool workers, its maximum is 2"
    assert said(cheap(move_cost=Decimal(0), payback_seconds=110)) == (
        "1 move and 1 new node, next to the old for about 18 min 30 s, cost about 0.003 EUR, "
        "110 s of the savings bring 0.0029 EUR"
    )


def test_what_consolidation_does_is_said() -> None:
    rules = ConsolidationSettings(enabled=True, min_savings_per_hour=Decimal("0.05"), move_cost=Decimal(0))
    on: dict[str, Any] = {"min_workers": 1, "cpu_down": 0.0, "consolidation": rules}
    nodes = make_nodes("a1", "a2", "a3")
    daemons = [make_daemon(node.name) for node in nodes]
    web = [make_pod(f"web-{node.name}", 500, node_name=node.name, owner_uid=node.name) for node in nodes]
    emptied = make_record(emptied=tuple(Emptied(f"uid-{name}", NOW - 3600) for name in ("a2", "a3")))
    empty = decided(make_snapshot(nodes, [web[0], *daemons]), emptied, **on)
    assert empty.reason == "consolidation: remove a2, a3, empty and idle; saves 0.10 EUR/h"
    moving = decided(make_snapshot(nodes, [*web, *daemons]), **on)
    assert moving.reason.startswith("consolidation: empty ")
    assert moving.reason.endswith(" by 2 moves; saves 0.10 EUR/h")
    one = RemovalBudget(1, reasons=(RemovalReason.UNDERUTILISED,))
    within = decided(make_snapshot(nodes, [*web, *daemons]), budgets=(one,), **on)
    says = next(check.says for check in within.verdicts[-1].checks if check.name == "within budget")
    assert says.startswith("1 node may be emptied, no more: 0 of at most 1 are leaving")
    pricier = on | {"consolidation": replace(rules, min_savings_per_hour=Decimal("0.06"))}
    little = decided(make_snapshot(nodes, [*web, *daemons]), budgets=(one,), **pricier)
    assert why_not(little, Action.CONSOLIDATE) == (
        "0.05 EUR/h are saved within the budgets, 0.06 are required"
    )
    marked = (make_node("a1", owner=Ownership("earlier", 3, cordoned=False)), *nodes[1:])
    leaving = make_record(
        leaving=(EmptiedNode("a1", "uid-a1", "i-a1", "earlier", NOW + 60),),
        emptied=(Emptied("uid-a1", NOW - 900),),
        last_consolidation_at=NOW - 900,
    )
    gone = decided(make_snapshot(marked), leaving, **on)
    assert gone.reason == "remove a1: emptied by consolidation"


WARNINGS: list[tuple[TimerWarning | Foreign, str]] = [
    (TimerWarning(TimerTrouble.NOT_TICKED, 301), "no tick for 5 min 1 s: that time does not count as idle"),
    (
        TimerWarning(TimerTrouble.STAMP_AHEAD, 40, "last_scale_at"),
        "last_scale_at was 40 s in the future and is taken as now",
    ),
    (
        TimerWarning(TimerTrouble.STAMP_AHEAD, 9000, "last_scale_at", 3600),
        "last_scale_at was 2 h 30 min in the future and is taken as 1 h from now",
    ),
    (
        TimerWarning(TimerTrouble.EMPTIED_AHEAD, 60),
        "a node was empty from 60 s in the future and is taken as empty from now",
    ),
    (TimerWarning(TimerTrouble.WORK_AHEAD), "work that was stamped in the future is taken as begun now"),
    (
        Foreign("shop", "i-7", "general"),
        "i-7 has the tag of cluster shop but no node here, and was launched with another configuration of "
        "pool general: it is left alone. If another cluster has the same cluster.name, rename one of them; "
        "else remove the instance by hand",
    ),
]


@pytest.mark.parametrize(("warning", "says"), WARNINGS, ids=[says for _, says in WARNINGS])
def test_what_warnings_say(warning: TimerWarning | Foreign, says: str) -> None:
    assert str(warning) == says
