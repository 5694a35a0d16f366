"""A simulation computes nothing again that provably comes out the same. Here all of it is computed as well
and compared, in every tick, and so are the bytes that come of it.

`python -m tests.steady --seeds 200` does it for all stories and many seeds, as part of `make torture`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from ebbtide.simulator.run.runner import Runner, stage_of
from ebbtide.simulator.story import read_story
from ebbtide.simulator.world.catalogue import add_system, deployment, pool
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.workload import Demand
from ebbtide.simulator.world.world import World
from tests.builders import make_settings
from tests.steady import Audited, compare_seed, compare_story

STORIES = sorted((Path(__file__).parents[1] / "stories").glob("*.yaml"))[::4]
SEEDS = range(1, 7)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_comes_out_the_same(path: Path) -> None:
    compare_story(read_story(path))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_swarm_comes_out_the_same(seed: int) -> None:
    compare_seed(seed)


def test_a_quiet_cluster_is_decided_on_once_until_its_log_is_due() -> None:
    pools = (pool("general", ("cpx32",)),)
    world = World(Rules(), pools, 1, 0.0)
    add_system(world)
    world.add_node("general", "cpx32", "a")
    world.add_node("general", "cpx32", "b")
    world.add_workload(deployment("web", 1000, 512, Demand(low=4), 0.9))
    stage = stage_of(world, make_settings(pools=pools, min_workers=2, cpu_up=0.95, cpu_down=0.1))
    thinking = Audited()
    stage.think = lambda: thinking
    runner = Runner(stage, "quiet")
    world.advance_to(300)
    stage.clock.move_to(300)
    for _ in range(50):
        due = stage.clock.now() + 60
        runner.tick(60)
        stage.clock.move_to(due)
    assert thinking.repeated > 40
    assert thinking.computed < 10
