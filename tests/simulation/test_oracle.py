"""The engine compared with the executable specification: all it does is allowed, and what must happen does.

The counts and the table of rules are printed at the end of the run.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from ebbtide.model.operation import SlotState
from ebbtide.simulator.checker.violations import Violation, ViolationKind
from ebbtide.simulator.run.runner import stage_of
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.world import Act, ActKind, World
from tests import oracle
from tests.builders import NOW, make_pod, make_record, make_scale_up, make_settings, make_slot
from tests.oracle.answers import RULES, never_drawn
from tests.oracle.comparisons import COMPARISONS, Found, compare, too_few
from tests.oracle.witness import Witness
from tests.simulation.conftest import ORACLE

NAMES = [one.name for one in COMPARISONS]


def found(name: str) -> Found:
    if name not in ORACLE:
        ORACLE[name] = compare(name)
    return ORACLE[name]


@pytest.mark.timeout(600)
@pytest.mark.parametrize("name", NAMES)
def test_the_engine_does_what_the_documents_say(name: str) -> None:
    assert found(name).report.differences == [], f"python -m tests.oracle --only {name}"


@pytest.mark.timeout(600)
def test_enough_cases_are_compared() -> None:
    cases: Counter[str] = Counter()
    for name in NAMES:
        cases.update(found(name).report.cases)
    assert too_few(cases) == []
    zones = [name for name in cases if name.startswith("schedule instants in ")]
    assert len(zones) >= 6


@pytest.mark.timeout(600)
def test_every_rule_gave_every_answer() -> None:
    """A rule that never said no was not tried."""
    drawn = sum((found(name).drawn for name in NAMES), Counter[tuple[str, str]]())
    assert never_drawn(drawn) == []


def test_the_witness_speaks_up_when_an_act_is_forbidden() -> None:
    settings = make_settings(max_workers=1)
    world = World(Rules(), settings.pools, 1, NOW)
    mine, other = world.add_node("workers", "small", "a"), world.add_control_plane("a")
    stage = stage_of(world, settings)
    Witness(stage)

    def forbidden() -> list[Violation]:
        return [each for each in stage.checker.violations if each.kind is ViolationKind.WITNESSED]

    world.tell(Act(ActKind.CORDON, node_name=mine.name))
    assert not forbidden()
    world.tell(Act(ActKind.CORDON, node_name=other.name))
    world.add_node("workers", "small", "a")
    world.tell(Act(ActKind.LAUNCH, instance_id="i-2", key="op-0"))
    assert [each.about for each in forbidden()] == [other.name, "i-2"]


@pytest.mark.parametrize(("joined_after", "expected"), [(-1, True), (1, False)])
def test_the_witness_excuses_a_machine_that_joined_after_it_was_given_up(
    joined_after: int, expected: bool
) -> None:
    """The call was on its way when it joined; one that had joined before is terminated with its pods."""
    world = World(Rules(), make_settings().pools, 1, NOW)
    node = world.add_node("workers", "small", "a", age_seconds=-joined_after)
    (machine,) = world.machines.book.machines.values()
    world.inventory.put_pod(make_pod(node_name=node.name))
    stage = stage_of(world, make_settings())
    Witness(stage)
    given_up = make_slot(
        instance_id=machine.instance.id, state=SlotState.TERMINATING, terminated=True, since=NOW
    )
    stage.checker.record = make_record(operation=make_scale_up(given_up))
    world.advance_to(NOW + 10)
    world.tell(Act(ActKind.TERMINATE, instance_id=machine.instance.id, node_name=node.name))
    kinds = {each.kind for each in stage.checker.violations}
    assert (ViolationKind.WITNESSED in kinds) is expected


def test_no_rule_of_the_oracle_imports_what_it_judges() -> None:
    """Its rules are written from the documents; only the comparisons call the engine."""
    for rule in RULES.values():
        module = rule.function.partition(".")[0]
        text = (Path(oracle.__file__).parent / f"{module}.py").read_text()
        assert "ebbtide.core" not in text
        assert "ebbtide.engine" not in text
