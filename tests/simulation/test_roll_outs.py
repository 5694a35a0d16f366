"""A new configuration in the middle of a simulation: who runs by which, and what each runner is judged by."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.engine.ports import Always, Tracked
from ebbtide.errors import Final
from ebbtide.model.effect import Launch
from ebbtide.model.operation import RemovalState, ScaleDown, ScaleUp, Slot
from ebbtide.model.pod import Taint, TaintEffect
from ebbtide.model.pool import Headroom
from ebbtide.model.record import Record
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.simulator.checker.violations import ViolationKind
from ebbtide.simulator.run.runner import ConfiguredCloud
from ebbtide.simulator.run.scenarios import RollOut, Scenario
from ebbtide.simulator.run.simulate import Simulation
from ebbtide.simulator.world.world import pool
from tests.explorer.scenes import idle_world
from tests.simulation.test_promises import removal_of
from tests.simulation.test_world_checker import SETTINGS, Scene

BEFORE = Settings(pools=(pool("general"),), min_workers=2, max_workers=6, cpu_down=0)
AFTER = replace(BEFORE, max_workers=9)


def ticked_by(roll_out: RollOut) -> list[int]:
    """The maximum that each tick decided by, and was judged by, in ten ticks of a minute."""
    scenario = Scenario("roll-out", 1, idle_world(), BEFORE, 600, 60, roll_outs=(roll_out,))
    simulation, seen = Simulation(scenario), list[int]()

    class Noting(Always):
        def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked:
            assert simulation.stage.checker.settings == settings
            seen.append(settings.max_workers)
            return super().track(snapshot, record, settings, now)

    simulation.stage.think = Noting
    simulation.run()
    return seen


def test_from_a_roll_out_on_runners_have_the_new_configuration() -> None:
    assert ticked_by(RollOut(300, AFTER)) == [6] * 5 + [9] * 5


def test_for_a_while_a_runner_is_still_on_the_one_before() -> None:
    assert ticked_by(RollOut(300, AFTER, 180)) == [6] * 5 + [9, 6] * 3 + [9] * 2


def test_a_runner_can_only_launch_what_it_is_configured_for() -> None:
    scene = Scene()
    cloud = ConfiguredCloud(scene.cloud, SETTINGS)
    for wrong in (Slot("k", "other", "a", "cpx32"), Slot("k", "general", "a", "cx22")):
        with pytest.raises(Final):
            cloud.launch(Launch(wrong, "op"))
    assert cloud.launch(Launch(Slot("k", "general", "a", "cpx32"), "op")).pool == "general"


def test_a_pool_with_more_than_its_maximum_forbids_no_launch_in_another() -> None:
    scene, extra = Scene(), pool("extra")
    scene.world.machines.book.pools["extra"] = extra
    lowered = replace(SETTINGS.pools[0], max_workers=2)
    scene.checker.follow(replace(SETTINGS, pools=(lowered, extra), max_workers=9))
    scene.cloud.launch(Launch(Slot("one", "extra", "a", "cpx32"), "op"))
    assert scene.found == []
    scene.cloud.launch(Launch(Slot("two", "general", "a", "cpx32"), "op"))
    assert scene.found == [(ViolationKind.ABOVE_MAXIMUM, "general")]


@pytest.mark.parametrize(("node_taint", "told"), [(True, False), (False, True)])
def test_headroom_is_held_by_what_nodes_are_and_not_by_what_their_pool_is_by_now(
    node_taint: bool, told: bool
) -> None:
    """The pool has no taint any more; of its nodes only new ones have none."""
    scene = Scene()
    node = scene.workers[0]
    if node_taint:
        taint = Taint("dedicated", TaintEffect.NO_SCHEDULE)
        scene.world.inventory.put_node(replace(scene.world.inventory.nodes[node.name], taints=(taint,)))
    scene.drain(node)
    scene.wait(600)
    scene.checker.follow(replace(SETTINGS, headroom=(Headroom(1000, 64, 5),)))
    scene.intend(node)
    assert (ViolationKind.HEADROOM in dict(scene.found)) is told


def test_a_node_of_a_pool_that_is_gone_still_holds_headroom() -> None:
    scene = Scene()
    first, second = scene.workers[:2]
    scene.drain(first)
    scene.wait(600)
    moved = replace(scene.world.inventory.nodes[second.name], pool="old")
    scene.world.inventory.put_node(moved)
    scene.checker.follow(replace(SETTINGS, headroom=(Headroom(1000, 64, 2),)))
    scene.intend(first)
    assert ViolationKind.HEADROOM not in dict(scene.found)


def test_what_was_decided_is_judged_by_the_settings_of_that_time() -> None:
    scene = Scene()
    slots = Slot("first", "general", "a", "cpx32"), Slot("second", "general", "a", "cpx32")
    launch = ScaleUp("op", 0, 1, slots[:1])
    written = scene.store.write(replace(scene.store.load(), launching=launch), None)
    scene.checker.follow(AFTER)
    scene.store.write(replace(written, launching=replace(launch, requested=2, slots=slots)), None)
    decided = [scene.checker.decided_by(slot.key) for slot in slots]
    assert decided == [SETTINGS, AFTER]


@pytest.mark.parametrize(("sees_old_pods", "told"), [(False, True), (True, False)])
def test_judged_one_by_one_a_node_goes_next_to_a_launch_only_without_pods_that_were_shown(
    sees_old_pods: bool, told: bool
) -> None:
    scene = Scene()
    scene.checker.sees_old_pods = sees_old_pods
    scene.checker.follow(replace(SETTINGS, scale_down_by=JudgedBy.NODE))
    slot = Slot("k", "general", "a", "cpx32")
    before: Record = replace(scene.store.load(), launching=ScaleUp("up", 0, 1, (slot,)))
    before = scene.store.write(before, None)
    removal = removal_of(scene.workers[0], RemovalState.PLANNED)
    scene.store.write(replace(before, removing=ScaleDown("down", 0, (removal,))), None)
    assert (ViolationKind.NEXT_TO_A_LAUNCH in dict(scene.found)) is told
