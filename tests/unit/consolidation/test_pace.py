"""How often consolidation may act: a cooldown that doubles while it is fruitless, evictions in an hour."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.consolidation import pace
from ebbtide.core.nodes.timers import track
from ebbtide.core.operations import consolidate, machine, scale_down
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationSettings
from ebbtide.model.effect import Evict
from ebbtide.model.operation import Consolidate, MoveState, RemovalState
from ebbtide.model.record import Record
from tests.builders import (
    NOW,
    lanes,
    make_move,
    make_record,
    make_removal,
    make_scale_down,
    make_settings,
    make_slot,
    make_snapshot,
)
from tests.unit.consolidation.builders import (
    cluster,
    idle,
    node,
    pod,
    refusal,
    removed,
    report_on,
    rules,
    settings_with,
)
from tests.unit.operations.test_consolidate import at, evicting, planned, pods_of, seen

RULES = ConsolidationSettings()
NODES = (node("a1"), node("a2", "cpx62"))
LARGE, SMALL = node("a1", "cpx62"), node("a2", "cpx42")


@pytest.mark.parametrize(
    ("fruitless", "hours"), [(0, 2), (1, 4), (2, 8), (3, 16), (4, 24), (5, 24), (1000, 24)]
)
def test_the_cooldown_doubles_with_each_fruitless_one_up_to_a_day(fruitless: int, hours: int) -> None:
    record = make_record(consolidations_in_vain=fruitless)
    assert pace.wait_seconds(record, RULES) == hours * 3600
    longer = replace(RULES, cooldown_seconds=30 * 3600)
    assert pace.wait_seconds(record, longer) == 30 * 3600


def test_a_fruitless_consolidation_prolongs_the_cooldown() -> None:
    record = idle(*NODES, last_consolidation_at=NOW - 14_399, consolidations_in_vain=1)
    assert refusal(report_on(cluster(NODES), record)) == ("cooled down", False, 14_399, 14_400, "")
    later = replace(record, last_consolidation_at=NOW - 14_400)
    assert removed(report_on(cluster(NODES), later)) == ["a2"]


@pytest.mark.parametrize(("nodes", "launched", "owes"), [(1, 0, 1), (2, 0, 1), (5, 0, 3), (2, 1, 2)])
def test_one_that_begins_is_fruitless_until_its_nodes_go(nodes: int, launched: int, owes: int) -> None:
    names = [f"a{number}" for number in range(nodes)]
    plan = ConsolidationPlan(
        empties=(make_removal(names[0]),),
        sources=tuple(make_removal(name) for name in names[1:]),
        slots=(make_slot(),) * launched,
    )
    record = pace.charge_cooldown(make_record(consolidations_in_vain=2), plan, NOW)
    assert (record.last_consolidation_at, record.consolidations_in_vain) == (NOW, 3)
    assert record.consolidation_owes == owes
    for count in range(1, owes):
        record = gone(record)
        assert (record.consolidations_in_vain, record.consolidation_owes) == (3, owes - count)
    record = gone(record)
    assert (record.consolidations_in_vain, record.consolidation_owes) == (0, 0)
    assert gone(record).consolidations_in_vain == 0


def gone(record: Record, only_empty: bool = True) -> Record:
    """After a scale-down that removed a node."""
    removal = make_removal("a1", state=RemovalState.GONE, terminated=True)
    operation = make_scale_down(removal, only_empty=only_empty)
    return scale_down.close(record, operation, make_settings(), NOW).record


def test_an_ordinary_removal_says_nothing_about_it() -> None:
    record = make_record(consolidations_in_vain=1, consolidation_owes=1)
    assert gone(record, only_empty=False).consolidations_in_vain == 1


def intended(operation: Consolidate, record: Record | None = None, now: int = NOW) -> Record:
    """What is written before the evictions that this step asks for."""
    pods = pods_of(*(move.owner_uid for move in operation.moves))
    situation = at(seen(*pods), operation, now)
    record = replace(record or make_record(), **lanes(operation))
    step = consolidate.advance(operation, replace(situation, record=record))
    return machine.written(record, step.state)


def test_an_eviction_is_in_the_record_before_it_is_done() -> None:
    operation = planned(*pods_of("one", "two"))
    assert intended(operation).evictions == (NOW, NOW)


def test_one_that_is_asked_for_again_is_the_same_one_later() -> None:
    (first,) = pods_of("one")
    operation = replace(planned(first), moves=(evicting(first),))
    record = intended(operation, make_record(evictions=(NOW - 5, NOW)), NOW + 30)
    assert record.evictions == (NOW - 5, NOW + 30)
    # Where the clock went back meanwhile it is counted twice rather than not at all.
    record = intended(operation, make_record(evictions=(NOW - 5,)), NOW + 30)
    assert record.evictions == (NOW - 5, NOW + 30)


def test_what_else_changes_adds_nothing() -> None:
    first, second = pods_of("one", "two")
    before = replace(planned(first, second), moves=(evicting(first), make_move(second)))
    record = make_record(operation=before, evictions=(NOW,))
    after = replace(before, moves=(replace(before.moves[0], reason="put off"), before.moves[1]))
    assert machine.written(record, after).evictions == (NOW,)
    settled = replace(before, moves=tuple(replace(m, state=MoveState.LEFT) for m in before.moves))
    assert machine.written(record, settled).evictions == (NOW,)
    assert machine.written(make_record(), before).evictions == (NOW,)


def test_after_an_hour_an_eviction_is_forgotten() -> None:
    record = make_record(evictions=(NOW - 3600, NOW - 3599, NOW + 50))
    assert pace.evicted_lately(record, NOW) == 2
    tracked, _ = track(make_snapshot(), record, make_settings(), NOW)
    assert tracked.evictions == (NOW - 3599, NOW)


def test_moves_of_earlier_plans_count_against_those_of_an_hour() -> None:
    pods = [pod(f"web-{number}", LARGE, 100, 100) for number in range(4)]
    scene = cluster([LARGE, SMALL], pods)
    six = settings_with(rules(moves_per_hour=6))
    assert removed(report_on(scene, make_record(evictions=(NOW - 60,) * 2), six)) == [LARGE.name]
    report = report_on(scene, make_record(evictions=(NOW - 60,) * 3), six)
    assert refusal(report) == ("moves in budget", False, 4, 3, "")
    later = make_record(evictions=(NOW - 3600,) * 3)
    assert removed(report_on(scene, later, six)) == [LARGE.name]


@pytest.mark.parametrize(("done", "started"), [(0, 2), (1, 1), (2, 0), (9, 0)])
def test_no_eviction_passes_what_an_hour_allows(done: int, started: int) -> None:
    """Asked again before each: the limit may have been lowered since it was planned."""
    pods = pods_of("one", "two")
    operation = planned(*pods)
    settings = make_settings()
    limited = replace(settings.consolidation, enabled=True, moves_per_hour=2)
    settings = replace(settings, consolidation=limited)
    situation = at(seen(*pods), operation, evictions=(NOW - 60,) * done)
    step = consolidate.advance(operation, replace(situation, settings=settings))
    assert sum(isinstance(effect, Evict) for effect in step.effects) == started
    assert step.state.abort_reason == ""
