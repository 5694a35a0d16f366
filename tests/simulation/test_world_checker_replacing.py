"""The checker must see every violation of a replacement: each test commits one and reads the sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.model.effect import Cordon, SoftTaint
from ebbtide.model.operation import Removal, RemovalState, ScaleDown, Slot, SlotState
from ebbtide.model.pool import RemovalReason
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node
from ebbtide.simulator.checker.checker import Checker, WatchedStore
from ebbtide.simulator.checker.violations import ViolationKind
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCluster
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.world import World, add_system, pool

START = 1_700_000_000
POOL = replace(pool("general"), expire_seconds=86_400)
SETTINGS = Settings(repair=True, pools=(POOL,), min_workers=1, max_workers=9, repair_conditions=("X=True",))
UNHEALTHY, EXPIRED, DRIFTED = RemovalReason.UNHEALTHY, RemovalReason.EXPIRED, RemovalReason.DRIFTED


class Scene:
    """Six workers in one zone; the first is about to be replaced."""

    def __init__(self, age: int = 7200) -> None:
        self.clock = VirtualClock(START)
        self.world = World(Rules(unready_seconds=1), SETTINGS.pools, seed=1, now=START)
        add_system(self.world)
        self.workers = [self.world.add_node("general", "cpx32", "a", age_seconds=age) for _ in range(6)]
        self.checker = Checker(self.world, SETTINGS)
        self.store = WatchedStore(MemoryStore(self.clock), self.checker)
        self.cluster = SimCluster(self.world, self.clock)

    @property
    def said(self) -> list[str]:
        return [each.says for each in self.checker.violations]

    @property
    def found(self) -> list[tuple[ViolationKind, str]]:
        return [(each.kind, each.about) for each in self.checker.violations]

    def falls_silent(self, node: Node, for_long: float = 900) -> None:
        machine = self.world.nodes.machine_of(node.name)
        assert machine is not None
        self.world.nodes.fall_silent(machine)
        self.wait(for_long)

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.world.advance_to(self.clock.now())

    def write(
        self, cause: RemovalReason, state: RemovalState, slot: SlotState = SlotState.READY, made: str = ""
    ) -> None:
        node = self.workers[0]
        machine = self.world.nodes.machine_of(node.name)
        assert machine is not None
        goes = Removal(machine.instance.id, node.name, node.uid, "a", "general", state, unhealthy=True)
        new = Slot("op-0", "general", "a", "cpx32", instance_id=made, state=slot)
        work = ScaleDown("op", START, (goes,), cause=cause, replacements=(new,))
        self.store.write(replace(self.store.load(), removing=work), None)

    def intend(self, cause: RemovalReason) -> None:
        self.write(cause, RemovalState.DRAINED)
        self.write(cause, RemovalState.TERMINATING)


@pytest.mark.parametrize("effect", [SoftTaint, Cordon])
def test_a_node_is_touched_before_its_replacement_is_ready(effect: type[SoftTaint] | type[Cordon]) -> None:
    for slot, wrong in ((SlotState.LAUNCHED, True), (SlotState.READY, False)):
        scene = Scene(age=90_000)
        node = scene.workers[0]
        scene.write(EXPIRED, RemovalState.PLANNED, slot)
        act = effect(node.name, node.uid, "op")
        (scene.cluster.soft_taint if isinstance(act, SoftTaint) else scene.cluster.cordon)(act, 1)  # type: ignore[arg-type]
        touched = f"node {node.name} was touched before its replacement was Ready"
        assert (touched in scene.said) is wrong


def test_a_replacement_that_joins_too_late_may_be_cordoned_before_it_is_terminated() -> None:
    """Swarm seed 689: the machine joined while its termination was irrevocable already."""
    scene = Scene(age=90_000)
    late = scene.workers[1]
    machine = scene.world.nodes.machine_of(late.name)
    assert machine is not None
    scene.write(EXPIRED, RemovalState.PLANNED, SlotState.RECLAIMING, machine.instance.id)
    scene.cluster.cordon(Cordon(late.name, late.uid, "op"), 1)
    assert not any("touched before" in sentence for sentence in scene.said)


def test_what_the_cloud_takes_does_not_wait_for_its_replacement() -> None:
    scene = Scene(age=90_000)
    node = scene.workers[0]
    machine = scene.world.nodes.machine_of(node.name)
    assert machine is not None
    machine.noticed = True
    scene.write(EXPIRED, RemovalState.PLANNED, SlotState.LAUNCHED)
    scene.cluster.cordon(Cordon(node.name, node.uid, "op"), 1)
    assert scene.said == []


def test_a_node_that_is_well_is_repaired() -> None:
    scene = Scene()
    scene.intend(UNHEALTHY)
    assert scene.found == [(ViolationKind.NOT_UNWELL, scene.workers[0].name)]


def test_a_node_that_is_silent_or_reports_a_condition_may_be_repaired() -> None:
    scene = Scene()
    scene.falls_silent(scene.workers[0])
    scene.intend(UNHEALTHY)
    assert scene.said == []
    scene = Scene()
    scene.world.inventory.put_node(replace(scene.workers[0], conditions=("X=True",)))
    scene.intend(UNHEALTHY)
    assert scene.said == []


def test_a_node_is_repaired_while_much_of_its_pool_is_silent() -> None:
    scene = Scene()
    for node in scene.workers[:3]:
        scene.falls_silent(node)
    scene.intend(UNHEALTHY)
    assert scene.found == [(ViolationKind.BRAKE, scene.workers[0].name)]


def test_silent_nodes_whose_machines_are_gone_hold_no_brake() -> None:
    """Swarm seed 16425 and the explorer's path 27:3,7:1 of repair: the rule does not count them."""
    for ends, counts in ((True, False), (False, True)):
        scene = Scene()
        for node in scene.workers[:3]:
            scene.falls_silent(node)
        for node in scene.workers[1:3] if ends else ():
            machine = scene.world.nodes.machine_of(node.name)
            assert machine is not None
            scene.world.plan(scene.world.now, "machine-dies", machine.instance.id)
        scene.wait(3600)
        scene.intend(UNHEALTHY)
        assert bool(scene.said) is counts


def test_silent_nodes_that_we_terminated_hold_no_brake() -> None:
    scene = Scene()
    for node in scene.workers[:3]:
        scene.falls_silent(node)
    for node in scene.workers[1:3]:
        machine = scene.world.nodes.machine_of(node.name)
        assert machine is not None
        machine.asked_to_go = True
    scene.intend(UNHEALTHY)
    assert scene.said == []


def test_what_fell_silent_just_now_cannot_have_been_known() -> None:
    scene = Scene()
    scene.falls_silent(scene.workers[0])
    for node in scene.workers[1:3]:
        scene.falls_silent(node, 5)
    scene.intend(UNHEALTHY)
    assert scene.said == []


def test_a_node_is_replaced_as_expired_before_its_time() -> None:
    scene = Scene()
    scene.intend(EXPIRED)
    says = f"{scene.workers[0].name} was replaced as expired at an age of 7200 s, 86400 are allowed"
    assert scene.said == [says]
    ahead = Scene()
    ahead.checker.clocks_jump = True
    ahead.intend(EXPIRED)
    assert ahead.said == []
    old = Scene(age=90_000)
    old.intend(EXPIRED)
    assert old.said == []


def test_a_node_is_replaced_as_drifted_although_it_is_not() -> None:
    scene = Scene()
    scene.intend(DRIFTED)
    name = scene.workers[0].name
    assert scene.found == [(ViolationKind.NOT_DRIFTED, name)]
    for changed in (
        replace(POOL, labels=(("tier", "gold"),)),
        replace(POOL, types=(replace(POOL.types[0], name="other"),)),
    ):
        scene = Scene()
        scene.checker.follow(replace(SETTINGS, pools=(changed,)))
        scene.intend(DRIFTED)
        assert scene.said == []


def test_a_hash_says_more_than_labels() -> None:
    hashed = replace(POOL, labels=(("tier", "gold"),), launch_hash="new")
    for known, wrong in (("new", True), ("old", False)):
        scene = Scene()
        scene.checker.follow(replace(SETTINGS, pools=(hashed,)))
        machine = scene.world.nodes.machine_of(scene.workers[0].name)
        assert machine is not None
        machine.instance = replace(machine.instance, launch_hash=known)
        scene.intend(DRIFTED)
        assert bool(scene.said) is wrong
    scene = Scene()
    scene.checker.follow(replace(SETTINGS, pools=()))
    scene.intend(DRIFTED)
    assert len(scene.said) == 1
