"""Most of the workers die at once. What the cloud says is gone must not keep pods from getting new ones."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.model.snapshot import Node
from ebbtide.simulator.faults.catalogue import CrashPlan
from ebbtide.simulator.world.rules import Demand, Rules, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import ActKind, World
from tests.simulation.stories import NO_REMOVALS, ZONES, Story, StoryRun, small_world
from tests.simulation.test_incidents import Lens, done, run, through

LOST = 5
WORKERS = 8
FULL = replace(NO_REMOVALS, min_workers=2, max_workers=WORKERS, max_batch_up=4)
HOUR = 3600


def full_cluster(rules: Rules) -> World:
    """Eight workers, which is the maximum, with one large pod on each."""
    world = small_world(rules)
    for number in range(WORKERS):
        world.add_node("general", "small", ZONES[number % 2])
    spec = WorkloadSpec(pod_template("web", 1200, 256), demand=Demand(low=WORKERS), use_fraction=0.1)
    world.add_workload(spec)
    return world


def lose(story_run: StoryRun) -> list[Node]:
    """The cloud takes more than 45 % of the workers at once, without notice."""
    story_run.wait(60)
    lost = [node for node in story_run.world.inventory.nodes.values() if node.worker][:LOST]
    for node in lost:
        machine = story_run.world.nodes.machine_of(node.name)
        assert machine is not None
        story_run.world.plan(story_run.clock.now(), "machine-dies", machine.instance.id)
    return lost


@pytest.mark.parametrize(
    "rules",
    [Rules(listed_seconds=60.0, names_from_address=False), Rules(listed_seconds=86_400.0)],
    ids=["no longer listed", "listed as gone, and new machines get the names of the old"],
)
def test_pods_get_new_nodes_promptly_after_a_mass_loss(rules: Rules) -> None:
    """Once pods were pending for eight hours: the dead nodes counted against the maximum, and forgetting them
    needed the very health that they kept from coming back."""
    story_run = StoryRun(Story("mass loss", lambda: full_cluster(rules), WORKERS, FULL))
    opened = story_run.ports(CrashPlan())
    run(story_run, opened, 120)
    lost = lose(story_run)
    run(story_run, opened, 15 * 60)
    assert len(done(story_run, ActKind.LAUNCH)) == LOST, story_run.sentences[-1]
    assert story_run.ready_workers() == WORKERS
    run(story_run, opened, HOUR)
    left = {node.uid for node in story_run.world.inventory.nodes.values()} & {node.uid for node in lost}
    assert left == set(), "their Node objects are forgotten"
    assert story_run.problems() == []


def test_a_partial_list_of_the_cloud_does_not_make_dark_nodes_gone() -> None:
    """A zone is dark, and the cloud shows a page too few: a Ready worker is missing from it as well."""
    story_run = StoryRun(Story("dark", lambda: full_cluster(Rules()), WORKERS, FULL))
    lens = Lens()
    opened = through(story_run, lens)
    run(story_run, opened, 120)
    dark = {m.instance.id for m in story_run.world.machines.book.machines.values() if m.instance.zone == "a"}
    ready = next(
        m for m in story_run.world.machines.book.machines.values() if m.ours and m.instance.zone == "b"
    )
    story_run.world.plan(story_run.clock.now(), "zone-down", "a")
    hidden = dark | {ready.instance.id}
    lens.instances = lambda instances: tuple(one for one in instances if one.id not in hidden)
    run(story_run, opened, HOUR)
    assert done(story_run, ActKind.DELETE_NODE, ActKind.LAUNCH) == []
    lens.instances = lambda instances: instances
    story_run.world.plan(story_run.clock.now(), "zone-up", "a")
    run(story_run, opened, HOUR)
    assert story_run.ready_workers() == WORKERS
    assert story_run.problems() == []
