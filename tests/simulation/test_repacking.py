"""Consolidation in the simulator: days of it, and the rules by which it is watched."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal

import pytest

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.errors import Usage
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.operation import (
    Consolidate,
    Move,
    MoveState,
    Removal,
    RemovalState,
    ScaleDown,
    Slot,
    SlotState,
    Source,
    SourceState,
)
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import LEAVING, Node, Ownership
from ebbtide.simulator.checker.checker import Checker, WatchedStore
from ebbtide.simulator.checker.consolidation import Bookkeeper, Repacking
from ebbtide.simulator.checker.violations import Violation, ViolationKind
from ebbtide.simulator.run.scenarios import build
from ebbtide.simulator.run.simulate import Simulation, compared, needs_consolidation, without_consolidation
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.rules import Demand, Rules, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import Act, ActKind, World
from tests.builders import lanes
from tests.simulation.stories import POOL

DAY = 86_400
SETTINGS = Settings(
    pools=(POOL,), min_workers=0, consolidation=ConsolidationSettings(enabled=True, min_idle_seconds=900)
)


def days(count: float, *faults: str, seed: int = 1) -> dict[str, object]:
    scenario = build("consolidation", seed)
    scenario = replace(scenario, duration_seconds=round(count * DAY), tick_seconds=120)
    result: dict[str, object] = json.loads(Simulation(scenario, faults).run().to_json())
    return result


def test_days_of_consolidation_leave_no_pod_without_a_place_and_break_no_rule() -> None:
    result = days(2)
    assert result["violations"] == []
    totals = result["consolidation"]
    assert isinstance(totals, dict)
    assert totals["begun"] >= 4
    assert totals["pods_moved"] > 10
    assert totals["nodes_removed"] > totals["nodes_launched"] > 0
    assert Decimal(totals["saved_per_hour"]) > Decimal("0.2")
    assert (result["launched"], result["removed"]) >= (1, totals["nodes_removed"])


def test_the_same_rules_hold_with_crashes_lost_replies_and_a_second_runner() -> None:
    result = days(1, "crash", "lost-reply", "failed-call", "second-runner", "stall")
    assert result["violations"] == []
    assert isinstance(result["consolidation"], dict)
    assert result["consolidation"]["begun"] >= 1


def test_with_and_without_it_are_compared() -> None:
    with_it = Simulation(replace(build("consolidation", 1), duration_seconds=DAY // 6)).run()
    other = without_consolidation(replace(build("consolidation", 1), duration_seconds=DAY // 6))
    assert (other.settings.consolidation.enabled, other.settings.cpu_down) == (False, 0.3)
    without = Simulation(other).run()
    told = json.loads(compared(with_it, without))
    assert told["without_consolidation"]["cost"] == without.cost
    assert Decimal(told["saved"]) == Decimal(without.cost) - Decimal(with_it.cost) > 0
    assert told["saved_percent"] == round(float(100 * Decimal(told["saved"]) / Decimal(without.cost)), 2)
    assert (without.consolidation.begun, told["consolidation"]["begun"]) == (
        0,
        with_it.consolidation.begun,
    )


def test_a_scenario_without_it_cannot_be_compared() -> None:
    with pytest.raises(Usage, match="scenario day has no consolidation"):
        needs_consolidation(build("day", 1))
    needs_consolidation(build("consolidation", 1))


def test_evictions_of_one_plan_count_against_the_next_also_where_runners_die() -> None:
    scenario = build("consolidation", 1)
    rules = replace(scenario.settings.consolidation, cooldown_seconds=600, backoff_max_seconds=0)
    rules = replace(rules, moves_per_hour=8)
    scenario = replace(scenario, settings=replace(scenario.settings, consolidation=rules))
    scenario = replace(scenario, duration_seconds=DAY // 2, tick_seconds=120)
    result = Simulation(scenario, ("crash", "lost-reply")).run()
    assert result.violations == ()
    assert (result.consolidation.begun, result.consolidation.pods_moved) >= (3, 8)


class Scene:
    """Two nodes with a watched store, to play an autoscaler that does what it must not."""

    def __init__(self, pods: int = 0, age_seconds: int = 7200, idle_seconds: int = 1200) -> None:
        self.world = World(Rules(), (POOL,), 1, 0)
        self.nodes = [self.world.add_node("general", "small", "a", age_seconds=age_seconds) for _ in "ab"]
        if pods:
            spec = WorkloadSpec(pod_template("web", 1500, 256), demand=Demand(low=pods))
            self.world.add_workload(spec)
        self.world.advance_to(idle_seconds)
        self.checker = Checker(self.world, SETTINGS)
        clock = VirtualClock(self.world.now)
        self.store = WatchedStore(MemoryStore(clock, database=MemoryDatabase()), self.checker)
        self.store.write(self.store.load(), None)

    def instance_id(self, node: Node) -> str:
        machine = self.world.nodes.machine_of(node.name)
        assert machine is not None
        return machine.instance.id

    def intend(self, *nodes: Node, only_empty: bool = True) -> list[Violation]:
        removals = tuple(
            Removal(self.instance_id(node), node.name, node.uid, "a", state=RemovalState.TERMINATING)
            for node in nodes
        )
        operation = ScaleDown("op", 0, removals, only_empty=only_empty)
        self.store.write(replace(self.store.load(), **lanes(operation)), None)
        return self.checker.violations


def test_an_idle_old_node_may_go_and_the_last_one_may_not() -> None:
    scene = Scene()
    assert scene.intend(scene.nodes[0]) == []
    scene = Scene()
    scene.intend(*scene.nodes)
    assert any(each.kind is ViolationKind.BELOW_MINIMUM for each in scene.checker.violations)


@pytest.mark.parametrize(
    ("scene", "kind"),
    [
        (Scene(age_seconds=0, idle_seconds=1000), ViolationKind.TOO_YOUNG),
        (Scene(idle_seconds=600), ViolationKind.NOT_IDLE),
        (Scene(pods=2), ViolationKind.NOT_IDLE),
    ],
    ids=["young", "not idle", "in use"],
)
def test_a_node_that_is_young_or_not_idle_may_not_go(scene: Scene, kind: ViolationKind) -> None:
    assert [each.kind for each in scene.intend(scene.nodes[0])] == [kind]
    other = Scene(age_seconds=0, idle_seconds=600)
    assert other.intend(other.nodes[0], only_empty=False) == []


def test_what_came_too_late_to_be_seen_is_nobodys_fault() -> None:
    scene = Scene()
    scene.world.add_workload(WorkloadSpec(pod_template("web", 1500, 256), demand=Demand(low=2)))
    scene.world.advance_to(scene.world.now + 10)
    assert scene.world.pods_on(scene.nodes[0].name)
    assert scene.intend(scene.nodes[0]) == []


def test_a_node_that_is_gone_or_another_is_not_judged() -> None:
    scene = Scene(idle_seconds=600)
    assert scene.intend(replace(scene.nodes[0], uid="other")) == []


@pytest.mark.parametrize(("second", "broken"), [(1000 + 7199, True), (1000 + 7200, False)])
def test_two_consolidations_are_a_cooldown_apart(second: int, broken: bool) -> None:
    scene = Scene()
    scene.store.write(replace(scene.store.load(), last_consolidation_at=1000), None)
    machine = scene.world.machines.find(scene.instance_id(scene.nodes[0]))
    assert machine is not None
    scene.world.machines.end(machine)
    scene.store.write(replace(scene.store.load(), last_consolidation_at=second), None)
    assert bool(scene.checker.violations) is broken


def moving(scene: Scene, node: Node, pod_uid: str) -> Record:
    source = Source(scene.instance_id(node), node.name, node.uid, state=SourceState.MARKED)
    move = Move(pod_uid, "default/web", node.name, "", state=MoveState.EVICTING)
    operation = Consolidate("op", 0, sources=(source,), moves=(move,))
    return replace(scene.store.load(), **lanes(operation))


@pytest.mark.parametrize("marked", [True, False])
def test_a_pod_is_evicted_only_from_a_node_with_the_mark_of_its_consolidation(marked: bool) -> None:
    scene = Scene(pods=2)
    owner = Ownership("op" if marked else "other", 1, cordoned=False)
    node = replace(scene.nodes[0], owner=owner, taints=(LEAVING,))
    scene.world.inventory.put_node(node)
    (pod,) = scene.world.pods_on(node.name)
    scene.store.write(moving(scene, node, pod.uid), None)
    scene.world.tell(Act(ActKind.EVICT, node_name=node.name, pod_uid=pod.uid))
    assert bool(scene.checker.violations) is not marked


def test_more_evictions_in_an_hour_than_allowed_are_told_of() -> None:
    few = replace(SETTINGS, consolidation=replace(SETTINGS.consolidation, moves_per_hour=1))
    scene = Scene(pods=2)
    told_of: list[ViolationKind] = []
    rules = Repacking(scene.world, few, lambda kind, *_: told_of.append(kind))
    for seconds, told in ((0, 0), (3600, 0), (60, 1)):
        scene.world.advance_to(scene.world.now + seconds)
        node = replace(scene.nodes[0], owner=Ownership("op", 1, cordoned=False), taints=(LEAVING,))
        (pod,) = scene.world.pods_on(node.name)
        rules.evicts(Act(ActKind.EVICT, pod_uid=pod.uid), moving(scene, node, pod.uid))
        assert told_of == [ViolationKind.TOO_MANY_MOVES] * told


@pytest.mark.parametrize(
    ("happens", "seconds", "told"),
    [
        ("no-saving", 14_399, 1),
        ("no-saving", 14_400, 0),
        ("node-goes", 14_399, 0),
        ("demand-rises", 14_399, 0),
    ],
)
def test_one_that_follows_too_soon_after_one_that_saved_nothing_is_told_of(
    happens: str, seconds: int, told: int
) -> None:
    scene = Scene(pods=2)
    told_of: list[ViolationKind] = []
    longer = replace(SETTINGS.consolidation, payback_seconds=100_000)
    rules = Repacking(
        scene.world, replace(SETTINGS, consolidation=longer), lambda kind, *_: told_of.append(kind)
    )
    records = [Record(last_consolidation_at=at) for at in (0, 1000, 1000, 1000 + seconds)]
    rules.wrote(records[0], records[1])
    if happens == "node-goes":
        machine = scene.world.machines.find(scene.instance_id(scene.nodes[0]))
        assert machine is not None
        scene.world.machines.end(machine)
    if happens == "demand-rises":
        scene.world.add_workload(WorkloadSpec(pod_template("more", 100, 64), demand=Demand(low=1)))
    scene.world.advance_to(scene.world.now + 300)
    rules.wrote(records[1], records[2])
    if happens == "demand-rises":
        scene.world.controllers.set_wanted("default/more", 0)
    rules.wrote(records[2], records[3])
    assert told_of == [ViolationKind.COOLDOWN] * told


def test_what_others_evict_meanwhile_does_not_count() -> None:
    few = replace(SETTINGS, consolidation=replace(SETTINGS.consolidation, moves_per_hour=0))
    scene = Scene(pods=2)
    told_of: list[ViolationKind] = []
    rules = Repacking(scene.world, few, lambda kind, *_: told_of.append(kind))
    (pod,) = scene.world.pods_on(scene.nodes[0].name)
    rules.evicts(Act(ActKind.EVICT, pod_uid=pod.uid), moving(scene, scene.nodes[1], "another"))
    assert told_of == []


def test_a_pod_that_finds_no_place_again_is_told_of() -> None:
    scene = Scene(pods=2)
    node = replace(scene.nodes[0], owner=Ownership("op", 1, cordoned=False), unschedulable=True)
    scene.world.inventory.put_node(node)
    (pod,) = scene.world.pods_on(node.name)
    scene.store.write(moving(scene, node, pod.uid), None)
    act = Act(ActKind.EVICT, node_name=node.name, pod_uid=pod.uid)
    scene.world.controllers.evict(pod, 30, lambda: scene.world.tell(act))
    scene.world.advance_to(scene.world.now + 61)
    assert [each.kind for each in scene.checker.violations] == [ViolationKind.NO_PLACE]


def test_one_that_finds_a_place_or_is_not_wanted_any_more_is_well() -> None:
    scene = Scene(pods=1)
    (pod,) = (pod for node in scene.nodes for pod in scene.world.pods_on(node.name))
    node = replace(scene.world.inventory.nodes[pod.node_name], owner=Ownership("op", 1, cordoned=False))
    scene.world.inventory.put_node(node)
    scene.store.write(moving(scene, node, pod.uid), None)
    act = Act(ActKind.EVICT, node_name=node.name, pod_uid=pod.uid)
    scene.world.controllers.evict(pod, 30, lambda: scene.world.tell(act))
    scene.world.advance_to(scene.world.now + 120)
    assert scene.checker.violations == []


@pytest.mark.parametrize(("others", "told"), [(2, 0), (1, 1)], ids=["by others who came", "by nobody"])
def test_a_place_that_was_taken_meanwhile_is_nobodys_fault(others: int, told: int) -> None:
    scene = Scene(pods=1)
    (pod,) = (pod for node in scene.nodes for pod in scene.world.pods_on(node.name))
    node = replace(scene.world.inventory.nodes[pod.node_name], owner=Ownership("op", 1, cordoned=False))
    scene.world.inventory.put_node(replace(node, unschedulable=others == 1))
    more = WorkloadSpec(pod_template("more", 400 if others == 1 else 1500, 256), demand=Demand(low=others))
    scene.world.add_workload(more)
    if others == 1:
        other = next(one for one in scene.nodes if one.name != node.name)
        scene.world.inventory.put_node(replace(other, unschedulable=True))
    scene.world.advance_to(scene.world.now + 2)
    scene.store.write(moving(scene, node, pod.uid), None)
    act = Act(ActKind.EVICT, node_name=node.name, pod_uid=pod.uid)
    scene.world.controllers.evict(pod, 30, lambda: scene.world.tell(act))
    scene.world.advance_to(scene.world.now + 61)
    assert len(scene.world.inventory.waiting) == (1 if others == 2 else 2)
    assert len(scene.checker.violations) == told


@pytest.mark.parametrize(
    ("cpu", "grown", "told"), [(200, 3, 0), (400, 2, 1)], ids=["more came", "only the moved one came"]
)
def test_a_place_that_a_growing_workload_took_is_nobodys_fault_although_one_of_it_was_moved(
    cpu: int, grown: int, told: int
) -> None:
    scene = Scene(pods=1)
    told_of: list[ViolationKind] = []
    rules = Repacking(scene.world, SETTINGS, lambda kind, *_: told_of.append(kind))
    (pod,) = (pod for node in scene.nodes for pod in scene.world.pods_on(node.name))
    rest = next(node for node in scene.nodes if node.name != pod.node_name)
    scene.world.inventory.put_node(replace(rest, unschedulable=True))
    scene.world.add_workload(WorkloadSpec(pod_template("more", cpu, 256), demand=Demand(low=1)))
    scene.world.advance_to(scene.world.now + 200)
    (other,) = (one for one in scene.world.pods_on(pod.node_name) if one.uid != pod.uid)
    for each in (other, pod):
        rules.evicts(Act(ActKind.EVICT, pod_uid=each.uid), moving(scene, rest, each.uid))
    scene.world.controllers.set_wanted("default/more", grown)
    scene.world.controllers.evict(pod, 30, lambda: None)
    scene.world.advance_to(scene.world.now + 61)
    assert len(told_of) == told


def test_the_books_are_kept_by_what_is_told() -> None:
    scene = Scene()
    gone, new = map(scene.instance_id, scene.nodes)
    books = Bookkeeper(scene.world.machines)
    removal = Removal(gone, state=RemovalState.GONE, terminated=True)
    work = ScaleDown("op", 0, (removal,), only_empty=True)
    for told in (work, ScaleDown("other", 0, (removal,)), Consolidate("op", 0), Consolidate("op-2", 0)):
        books.began(told)
        books.closed(told, True)
    books.closed(
        Consolidate(
            "op-3",
            0,
            slots=(Slot("k", "general", "a", "small", state=SlotState.READY, instance_id=new),),
            moves=(Move("u", "p", "n", "", state=MoveState.MOVED),),
            sources=(Source("i", "n", "u", state=SourceState.EMPTIED),),
            abort_reason="paused",
        ),
        False,
    )
    totals = books.totals
    assert (totals.begun, totals.nodes_removed, totals.nodes_launched) == (2, 1, 1)
    assert (totals.pods_moved, totals.nodes_emptied) == (1, 1)
    assert totals.saved_per_hour == 0
    assert totals.given_up == {"paused": 1}
