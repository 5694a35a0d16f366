"""Every scene, explored within the bounds of a push. The counts are printed at the end of the run."""

from __future__ import annotations

import pytest

from tests.explorer.copying import copy_world
from tests.explorer.scenes import PLAIN, SCENES, Scene
from tests.explorer.search import Search, explore, read_path, replay, write_path
from tests.explorer.sometimes import never_met
from tests.simulation.conftest import EXPLORED
from tests.simulation.stories import small_world

STATES_AT_LEAST = 200_000


@pytest.mark.timeout(900)
@pytest.mark.parametrize("scene", SCENES, ids=lambda scene: scene.name)
def test_nothing_that_may_happen_in_a_scene_does_harm(scene: Scene) -> None:
    explored = explore(scene, scene.quick)
    EXPLORED[scene.name] = explored
    assert [f"{finding.says}\n{finding.command()}" for finding in explored.findings] == []
    assert explored.complete


def test_every_state_of_an_operation_and_every_fault_was_met() -> None:
    if len(EXPLORED) < len(SCENES):
        pytest.skip("only where all scenes were explored")
    assert never_met({one for explored in EXPLORED.values() for one in explored.met}) == []


def test_enough_states_were_explored() -> None:
    if len(EXPLORED) < len(SCENES):
        pytest.skip("only where all scenes were explored")
    assert sum(explored.states for explored in EXPLORED.values()) >= STATES_AT_LEAST


def test_a_path_is_written_so_it_can_be_gone_again() -> None:
    scene = SCENES[0]
    choices = (0, 0, 0, 1, 0, 2)
    assert read_path(write_path(choices)) == choices
    assert read_path(write_path(())) == ()
    path = replay(scene, scene.quick, (0, 0, 0, 1))
    assert [line for line in path.trail if "crash" in line or "unread" in line]


def test_a_scene_that_leaves_anything_to_chance_is_refused() -> None:
    """Paths that share a generator of chance change one another, and none of them can be gone again."""
    scene = SCENES[0]
    snapshot = Search(scene, scene.quick).beginning()
    world = snapshot.stage.world
    with pytest.raises(AssertionError, match="must not leave anything to chance"):
        world.timeline.chance(0.5)
    assert copy_world(world).timeline.random is world.timeline.random
    with pytest.raises(TypeError, match="must not share"):
        copy_world(small_world(PLAIN))
