"""Views that never were, runners frozen in each other's freeze, stories with faults laid over them."""

from __future__ import annotations

import pytest

from ebbtide.errors import Unanswered
from ebbtide.simulator.faults.catalogue import CrashPlan, Distortion
from ebbtide.simulator.faults.ports import MOST_HOLES, TORN_SECONDS, CallGate, FaultyCluster
from ebbtide.simulator.run.frames import Frame
from ebbtide.simulator.run.scenarios import build
from ebbtide.simulator.run.simulate import NESTED, Simulation
from ebbtide.simulator.world.ports import SimCluster
from tests.swarm.stories import STORIES, run_story
from tests.unit.engine.builders import Small

FEW = range(0, len(STORIES), 5)


class Distorted(CrashPlan):
    """Every look at the cluster is distorted in this way."""

    def __init__(self, how: Distortion, pick: int = 0) -> None:
        super().__init__()
        self.how, self._pick = how, pick

    def distort(self, verb: str) -> Distortion:
        return self.how if verb == "cluster.read" else Distortion.NONE

    def pick(self, count: int) -> int:
        return min(self._pick, count - 1)


def looking(small: Small, plan: Distorted) -> FaultyCluster:
    return FaultyCluster(SimCluster(small.world, small.clock), CallGate(plan), small.clock)


@pytest.mark.parametrize("old_nodes", [True, False])
def test_a_torn_view_has_nodes_and_pods_of_different_moments(old_nodes: bool) -> None:
    small = Small()
    plan = Distorted(Distortion.TORN, 0 if old_nodes else 1)
    cluster = looking(small, plan)
    before = cluster.read()
    small.add_node("b", 10)
    small.wait(30)
    now, seen = small.world.view(), cluster.read()
    assert len(now.nodes) > len(before.nodes)
    assert len(now.pods) > len(before.pods), "the agent on the new node"
    assert seen.nodes == (before if old_nodes else now).nodes
    assert seen.pods == (now if old_nodes else before).pods


def test_lists_are_not_further_apart_than_that() -> None:
    small = Small()
    cluster = looking(small, Distorted(Distortion.TORN))
    cluster.read()
    small.add_node("b", 10)
    small.wait(TORN_SECONDS + 1)
    assert cluster.read().nodes == small.world.view().nodes


def test_pods_are_missing_and_all_nodes_are_there() -> None:
    small = Small()
    whole = small.world.view()
    seen = looking(small, Distorted(Distortion.PODS_HOLED)).read()
    assert seen.nodes == whole.nodes
    assert seen.budgets == whole.budgets
    assert 1 <= len(whole.pods) - len(seen.pods) <= MOST_HOLES


def test_a_runner_is_frozen_while_another_is_and_a_third_takes_over() -> None:
    depths: set[int] = set()
    simulation = Simulation(
        build("burst", seed=3), ("nested-stall",), lambda _: depths.add(simulation._frozen)
    )
    result = simulation.run()
    assert depths == set(range(NESTED + 1))
    assert result.violations == ()


def test_an_eviction_lands_no_later_than_its_client_waits() -> None:
    """Swarm seeds 12850 and 19429: the tick of the other, and its freeze, came on top of the timeout."""
    simulation = Simulation(build("burst", seed=3), ("nested-stall",))
    clock, timeout = simulation.stage.clock, simulation.scenario.settings.request_timeout_seconds
    before = clock.now()
    simulation._while_stalled("cluster.evict")
    assert timeout / 2 <= clock.now() - before < timeout
    before = clock.now()
    simulation._tick = lambda _: clock.sleep(timeout / 2) or True  # type: ignore[assignment, method-assign, func-returns-value]
    with pytest.raises(Unanswered):
        simulation._while_stalled("cluster.evict")
    simulation._while_stalled("cloud.terminate")
    assert simulation._frozen == 0


def test_without_that_fault_one_is_frozen_at_a_time() -> None:
    frames: list[tuple[int, Frame]] = []
    simulation = Simulation(
        build("burst", seed=3), ("stall",), lambda frame: frames.append((simulation._frozen, frame))
    )
    simulation.run()
    assert {frozen for frozen, _ in frames} == {0, 1}


@pytest.mark.parametrize("seed", FEW, ids=lambda seed: STORIES[seed].stem)
def test_a_story_with_faults_laid_over_it_breaks_no_rule(seed: int) -> None:
    assert run_story(seed).violations == (), f"python -m tests.swarm --stories --seed {seed}"
