"""What the checker sees at the end, and in what is written to the store."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.model.operation import Removal, RemovalState, ScaleDown, Slot, Spot, SpotKind
from ebbtide.model.record import Lease, Missing, Record
from ebbtide.simulator.checker.violations import ViolationKind
from tests.builders import lanes
from tests.simulation.test_world_checker import Scene, instance_of


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_cordon_left_behind_is_seen_at_the_end(scene: Scene) -> None:
    scene.cordon(scene.workers[0])
    scene.checker.finish(replace(scene.store.load(), removing=None))
    assert scene.found == [(ViolationKind.MARK_LEFT, scene.workers[0].name)]


def test_a_mark_that_is_known_to_be_nobodys_has_its_grace(scene: Scene) -> None:
    node, grace = scene.workers[0], scene.checker._settings.orphan_grace_seconds
    scene.cordon(node)
    now = int(scene.world.now)
    closed = replace(scene.store.load(), removing=None)
    known = replace(closed, orphans=(Missing(f"cordon:{node.uid}", now - grace),))
    scene.checker.finish(known)
    assert scene.said == []
    scene.checker.finish(replace(known, orphans=(Missing(f"cordon:{node.uid}", now - grace - 1),)))
    assert scene.found == [(ViolationKind.MARK_LEFT, node.name)]


def test_a_node_object_left_without_its_instance_is_seen_at_the_end(scene: Scene) -> None:
    scene.world.plan(scene.world.now, "machine-dies", instance_of(scene.workers[0]))
    scene.wait(7200)
    scene.checker.finish(scene.store.load())
    assert scene.found == [(ViolationKind.NODE_LEFT, scene.workers[0].name)]


def test_an_instance_left_without_a_node_is_seen_at_the_end(scene: Scene) -> None:
    machine = scene.world.machines.launch(Slot("k", "general", "a", "cpx32"))
    machine.joins = False
    scene.wait(3600)
    scene.checker.finish(scene.store.load())
    assert scene.found == [(ViolationKind.INSTANCE_LEFT, machine.instance.id)]


def test_a_token_that_goes_back_and_a_write_under_an_old_one_are_seen(scene: Scene) -> None:
    scene.checker.leased(Lease("cluster", "new", 7, 100))
    scene.checker.leased(Lease("cluster", "old", 6, 100))
    scene.checker.wrote(Record(), Lease("cluster", "old", 6, 100))
    assert scene.found == [
        (ViolationKind.TOKEN_WENT_BACK, "cluster"),
        (ViolationKind.OLD_TOKEN_WROTE, "cluster"),
    ]


def test_an_operation_begun_on_top_of_another_and_two_owners_of_a_node_are_seen(scene: Scene) -> None:
    removal = Removal("i-1", state=RemovalState.DRAINING)
    first = Record(**lanes(ScaleDown("op-1", 0, (removal,))))
    scene.checker.wrote(first, None)
    scene.checker.wrote(replace(first, **lanes(ScaleDown("op-2", 0, (removal,)))), None)
    spot = Spot("spot:i-1", "i-1", SpotKind.INTERRUPTION, 0, 120, removal=removal)
    scene.checker.wrote(Record(**lanes(ScaleDown("op-2", 0, (removal,))), spots=(spot,)), None)
    assert scene.found == [(ViolationKind.TWO_IN_A_LANE, "op-2"), (ViolationKind.TWO_OWNERS, "i-1")]
