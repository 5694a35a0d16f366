"""Consolidation as the last strategy of a decision: with all its checks and within the budgets."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from ebbtide.core.consolidation.evaluate import consolidate
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.question import Answer, Question
from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationSettings
from ebbtide.model.decision import Action, Check, Decision
from ebbtide.model.pool import RemovalBudget, RemovalReason
from ebbtide.model.record import Emptied, EmptiedNode, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Ownership, Snapshot
from tests.builders import (
    NOW,
    kept_by,
    make_daemon,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_settings,
    make_snapshot,
    make_type,
    values_of,
)

RULES = ConsolidationSettings(enabled=True, min_savings_per_hour=Decimal("0.05"), move_cost=Decimal(0))
SETTINGS = make_settings(min_workers=1, cpu_down=0.0, consolidation=RULES)
NAMES = ("a1", "a2", "a3")
NODES = make_nodes(*NAMES)


def loaded(*names: str, cpu_milli: int = 500) -> Snapshot:
    """Three nodes, with a pod on each of those named."""
    pods = [make_pod(f"web-{name}", cpu_milli, node_name=name, owner_uid=f"rs-{name}") for name in names]
    return make_snapshot(NODES, [*pods, *map(make_daemon, NAMES)])


def emptied(*names: str) -> Record:
    return make_record(emptied=tuple(Emptied(f"uid-{name}", NOW - 900) for name in names))


def decided(snapshot: Snapshot, record: Record, settings: Settings = SETTINGS) -> Decision:
    return decide(snapshot, record, settings, NOW, "d1")


def plan_of(decision: Decision) -> ConsolidationPlan:
    assert decision.consolidation is not None
    assert decision.consolidation.plan is not None
    return decision.consolidation.plan


def failed(decision: Decision) -> Check:
    check = decision.verdicts[-1].failed
    assert check is not None
    return check


def test_it_is_asked_last_and_says_that_it_is_off() -> None:
    decision = decided(
        loaded(*NAMES), make_record(), replace(SETTINGS, consolidation=ConsolidationSettings())
    )
    assert decision.verdicts[-1].action is Action.CONSOLIDATE
    assert (failed(decision).name, failed(decision).passed) == ("consolidation on", False)
    assert "consolidation" not in decision.reason


def test_a_refusal_of_the_planner_is_the_reason() -> None:
    cooling = decided(loaded(*NAMES), make_record(last_consolidation_at=NOW - 60))
    assert cooling.action is Action.NOTHING
    assert values_of(failed(cooling)) == ("cooled down", False, 60, 7200, "")
    assert cooling.reason.endswith(f"no consolidation: {failed(cooling).says}")
    assert cooling.consolidation is not None


def test_nothing_is_begun_while_an_operation_is_in_progress() -> None:
    question = Question(loaded(), make_record(operation=make_scale_up()), SETTINGS, NOW, "op")
    checks = list(consolidate(question, Answer()))
    assert next(check.name for check in checks if not check.passed) == "no operation in progress"


def test_empty_nodes_are_removed_as_many_as_may_go_at_once() -> None:
    decision = decided(loaded("a1"), emptied("a2", "a3"))
    assert decision.action is Action.CONSOLIDATE
    assert [removal.node_name for removal in decision.removals] == ["a2"]
    assert [removal.node_name for removal in plan_of(decision).empties] == ["a2", "a3"]
    assert plan_of(decision).savings_per_hour == Decimal("0.10")
    assert kept_by(decision.verdicts[-1].refusals)["a3"] == (NodeCause.CHECK, Gate.WITHIN_BUDGET)


def test_empty_nodes_that_no_gate_lets_go_are_left() -> None:
    none = RemovalBudget(0, reasons=(RemovalReason.EMPTY,))
    decision = decided(loaded("a1"), emptied("a2", "a3"), replace(SETTINGS, budgets=(none,)))
    assert decision.action is Action.NOTHING
    assert values_of(failed(decision)) == ("an empty node can go", False, 0, 1, "a2")


def test_occupied_nodes_are_emptied_by_moves() -> None:
    decision = decided(loaded(*NAMES), make_record())
    plan = plan_of(decision)
    assert decision.action is Action.CONSOLIDATE
    assert (len(plan.sources), len(plan.moves), decision.removals) == (2, 2, ())
    assert plan.savings_per_hour == Decimal("0.10")


@pytest.mark.parametrize("of_pool", [False, True])
def test_budgets_limit_how_many_are_emptied(of_pool: bool) -> None:
    one = (RemovalBudget(1, reasons=(RemovalReason.UNDERUTILISED,)),)
    pools = (make_pool("spare"), make_pool(budgets=one))
    settings = replace(SETTINGS, **({"pools": pools} if of_pool else {"budgets": one}))
    decision = decided(loaded(*NAMES), make_record(), settings)
    plan = plan_of(decision)
    assert (len(plan.sources), len(plan.moves)) == (1, 1)
    assert plan.moves[0].from_node == plan.sources[0].node_name
    assert plan.savings_per_hour == Decimal("0.05")
    check = next(check for check in decision.verdicts[-1].checks if check.name == "within budget")
    assert values_of(check) == ("within budget", True, 1, 1, "")


def test_what_the_budgets_leave_of_it_must_still_be_worth_it() -> None:
    one = RemovalBudget(1, reasons=(RemovalReason.UNDERUTILISED,))
    pricier = replace(RULES, min_savings_per_hour=Decimal("0.06"))
    decision = decided(
        loaded(*NAMES), make_record(), replace(SETTINGS, budgets=(one,), consolidation=pricier)
    )
    assert values_of(failed(decision)) == ("still worth it", False, 0.05, 0.06, "")


def test_a_plan_that_launches_nodes_is_taken_as_a_whole_or_not_at_all() -> None:
    types = (make_type("cheap", 2000, 4096, "0.01"), make_type("small", 4000, 8192, "0.30"))
    pools = (make_pool(types=types, zones=("a",)),)
    settings = replace(SETTINGS, pools=pools)
    snapshot = loaded(*NAMES, cpu_milli=1200)
    decision = decided(snapshot, make_record(), settings)
    plan = plan_of(decision)
    assert plan.slots
    assert decision.slots == plan.slots
    assert f"{len(plan.slots)} launched first" in decision.reason
    one = RemovalBudget(len(plan.sources) - 1, reasons=(RemovalReason.UNDERUTILISED,))
    over = decided(snapshot, make_record(), replace(settings, budgets=(one,)))
    assert values_of(failed(over)) == ("within budget", False, 0, 1, "")


def leaving(idle: int) -> Record:
    return make_record(
        leaving=(EmptiedNode("a1", "uid-a1", "i-a1", "earlier", NOW + 60),),
        emptied=(Emptied("uid-a1", NOW - idle),),
        last_consolidation_at=NOW - 900,
    )


MARKED = make_snapshot((make_node("a1", owner=Ownership("earlier", 3, cordoned=False)), *NODES[1:]))


def test_what_leaves_by_an_earlier_plan_goes_without_cooldown_or_threshold() -> None:
    decision = decided(MARKED, leaving(900))
    assert decision.action is Action.CONSOLIDATE
    assert [removal.node_name for removal in decision.removals] == ["a1"]
    assert decision.consolidation is None


def test_while_a_node_is_leaving_no_other_plan_is_made_and_no_other_node_removed() -> None:
    idle = replace(SETTINGS, cpu_down=0.3, idle_down_seconds=0)
    decision = decided(MARKED, replace(leaving(60), idle_since=NOW - 900), idle)
    assert decision.action is Action.NOTHING
    assert failed(decision).name == "a node that leaves can go"
    down = next(verdict for verdict in decision.verdicts if verdict.action is Action.SCALE_DOWN)
    assert values_of(down.failed) == ("nothing leaves", False, 1, 0, "a1")


def test_after_a_failed_check_there_is_nothing_left_to_do() -> None:
    question = Question(loaded(), make_record(last_consolidation_at=NOW), SETTINGS, NOW, "op")
    answer = Answer()
    assert not all(check.passed for check in consolidate(question, answer))
    assert (answer.removals, answer.slots, answer.reason) == ((), (), "")
