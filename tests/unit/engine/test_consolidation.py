"""Consolidation through the tick: logged as the policy asks, stored so it can be computed again."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.core.nodes.decide import decide
from ebbtide.core.operations.facts import part_name, parts, transitions
from ebbtide.engine.journal import read_decision, read_inputs
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.decision import Action
from ebbtide.model.events import OperationClosed
from ebbtide.model.log import LogKind
from ebbtide.model.operation import Consolidate, MoveState, SourceState
from ebbtide.narrate import facts_in
from tests.builders import make_consolidate, make_move, make_pod, make_slot, make_source
from tests.unit.engine.builders import Small, quick_settings

RULES = ConsolidationSettings(
    enabled=True,
    min_uptime_seconds=0,
    min_idle_seconds=0,
    min_savings_per_hour=Decimal("0.01"),
    move_cost=Decimal(0),
    replace=False,
)
FIELDS = [
    "event",
    "nodes_before",
    "nodes_after",
    "nodes_removed",
    "nodes_kept",
    "cost_savings_per_hour",
    "cost_savings_per_month",
    "containers_migrated",
    "reason",
]


def repacking(**rules: object) -> Small:
    """Three workers of which one is enough for the zone, and nothing else that removes nodes."""
    settings = quick_settings(cpu_down=0.0, min_workers=2, consolidation=replace(RULES, **rules))  # type: ignore[arg-type]
    return Small(settings, replicas=3)


def test_a_consolidation_is_decided_begun_and_carried_to_its_end() -> None:
    small = repacking()
    report = small.tick_until(lambda record: record.last_consolidation_at > 0)
    assert report.decision is not None
    assert report.decision.action is Action.CONSOLIDATE
    assert small.record.operation is not None
    small.tick_until(lambda record: record.operation is None and not record.leaving)
    workers = [node for node in small.world.view().workers if node.ready]
    assert len(workers) == 2
    assert small.world.removed == 1
    assert [
        fact.emptied for fact in facts_in(small.store.read_log(limit=500), OperationClosed) if fact.emptied
    ]


def test_every_evaluation_that_is_news_is_logged_with_the_fields_of_the_policy() -> None:
    small = repacking()
    small.tick()
    (entry,) = small.store.read_log([LogKind.CONSOLIDATION])
    assert list(entry.data) == FIELDS
    assert entry.data["event"] == "consolidation.evaluated"
    assert (entry.data["nodes_before"], entry.data["nodes_after"]) == (3, 2)
    assert entry.data["cost_savings_per_hour"] == 0.05
    off = repacking(enabled=False)
    off.tick()
    assert off.store.read_log([LogKind.CONSOLIDATION]) == []


def test_a_stored_consolidation_can_be_read_back_and_computed_again() -> None:
    small = repacking()
    decision = small.tick().decision
    assert decision is not None
    entry = small.store.find_entry(decision.id)
    assert entry is not None
    assert read_decision(entry) == decision
    inputs = read_inputs(entry)
    assert decide(inputs.snapshot, inputs.record, inputs.settings, inputs.now, entry.id) == decision


def test_an_open_consolidation_among_the_inputs_is_read_back() -> None:
    small = repacking()
    small.tick()
    operation = small.record.operation
    assert isinstance(operation, Consolidate)
    before = small.record
    small.put(decision_key="", decision_logged_at=0, operation=None, set_aside=operation)
    small.tick()
    last = small.store.read_log([LogKind.DECISION])[0]
    assert read_inputs(last).record.set_aside == operation
    assert before.operation == operation


def test_each_slot_source_and_move_is_told_of() -> None:
    pod = make_pod(node_name="a1")
    before = make_consolidate([make_source("a1")], [make_move(pod)], slots=(make_slot("op-0"),))
    after = replace(
        before,
        sources=(make_source("a1", state=SourceState.MARKED),),
        moves=(make_move(pod, state=MoveState.LEFT, reason="gone"),),
    )
    assert [part_name(part) for part in parts(before)] == ["op-0", "a1", "default/web-1"]
    assert [(fact.name, fact.before, fact.after, fact.reason) for fact in transitions(before, after)] == [
        ("a1", SourceState.PLANNED, SourceState.MARKED, ""),
        ("default/web-1", MoveState.PLANNED, MoveState.LEFT, "gone"),
    ]
