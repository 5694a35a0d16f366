"""What has befallen users of other autoscalers, played with this one. Each test has the incident's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ebbtide.engine.loop import guarded_tick
from ebbtide.engine.ports import Ports
from ebbtide.model.check import Gate
from ebbtide.model.record import Record
from ebbtide.model.snapshot import ClusterView, Instance, InstanceState
from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import ActKind
from tests.simulation.stories import (
    NO_REMOVALS,
    SETTINGS,
    TICK_SECONDS,
    Story,
    StoryRun,
    busy_cluster,
    failed_checks,
    idle_cluster,
)

HOUR = 3600
REMOVING = (ActKind.TERMINATE, ActKind.DELETE_NODE, ActKind.CORDON, ActKind.EVICT)


@dataclass
class Lens:
    """A way of seeing that can be changed while it is looked through."""

    view: Callable[[ClusterView], ClusterView] = lambda view: view
    instances: Callable[[Sequence[Instance]], Sequence[Instance]] = lambda instances: instances


class SeenCluster(SimCluster):
    lens = Lens()

    def read(self) -> ClusterView:
        return self.lens.view(super().read())


class SeenCloud(SimCloud):
    lens = Lens()

    def list_instances(self) -> Sequence[Instance]:
        return self.lens.instances(super().list_instances())


def through(story_run: StoryRun, lens: Lens) -> Ports:
    cluster, cloud = (
        SeenCluster(story_run.world, story_run.clock),
        SeenCloud(story_run.world, story_run.clock),
    )
    cluster.lens = cloud.lens = lens
    return replace(story_run.ports(CrashPlan()), cluster=cluster, cloud=cloud)


def run(story_run: StoryRun, opened: Ports, seconds: float) -> None:
    end = story_run.clock.now() + seconds
    while story_run.clock.now() < end:
        said = guarded_tick(opened, story_run.story.settings, "runner", TICK_SECONDS).says
        story_run.sentences.append(said)
        story_run.wait(TICK_SECONDS)


def done(story_run: StoryRun, *kinds: ActKind) -> list[str]:
    return [
        f"{act.kind} {act.node_name or act.instance_id}"
        for act in story_run.checker.acts
        if act.kind in kinds
    ]


def unregistered(view: ClusterView) -> ClusterView:
    """The nodes have lost all that ties them to an instance."""
    nodes = [replace(node, provider_id="", instance_id="", private_ip="") for node in view.nodes]
    return ClusterView(tuple(nodes), view.pods, view.budgets)


def test_all_nodes_seen_as_unregistered() -> None:
    """An upgrade changed the provider ids: each instance seemed never to have joined, all were deleted."""
    story_run = StoryRun(Story("unregistered", idle_cluster, 4))
    lens = Lens(view=unregistered)
    run(story_run, through(story_run, lens), 2 * HOUR)
    assert done(story_run, *REMOVING, ActKind.LAUNCH) == []
    assert story_run.ready_workers() == 4
    assert story_run.checker.violations == []


def test_all_nodes_seen_as_unregistered_while_one_is_being_launched() -> None:
    story_run = StoryRun(Story("unregistered", busy_cluster, 3, NO_REMOVALS))
    lens = Lens()
    opened = through(story_run, lens)
    story_run.tick_until(lambda record: record.operation is not None, opened)
    lens.view = unregistered
    run(story_run, opened, 45 * 60)
    assert done(story_run, *REMOVING) == []
    lens.view = lambda view: view
    run(story_run, opened, HOUR)
    assert story_run.problems() == []


def test_the_same_node_deleted_every_tick_until_min() -> None:
    """A node that was slow to go was chosen, and counted as removed, in every tick."""
    slow = Rules(terminate=Span(900, 900), unready_seconds=900)
    story_run = StoryRun(Story("slow to go", lambda: idle_cluster(slow), 2, ticks=30))
    for _ in range(30):
        story_run.tick()
        story_run.wait(TICK_SECONDS)
    assert len(set(done(story_run, ActKind.TERMINATE))) == 1
    assert len(done(story_run, ActKind.CORDON)) == 1
    alive = [m for m in story_run.world.machines.book.machines.values() if m.ours and m.instance.alive]
    assert len(alive) == 3
    assert story_run.checker.violations == []


def test_pod_cache_empty_so_all_nodes_look_empty() -> None:
    """The list of pods came back empty from a cache that had not filled yet."""
    story_run = StoryRun(Story("no pods", idle_cluster, 4))
    lens = Lens(view=lambda view: ClusterView(view.nodes, (), view.budgets))
    run(story_run, through(story_run, lens), 2 * HOUR)
    assert done(story_run, *REMOVING) == []
    found = failed_checks(story_run.tick(through(story_run, lens)))
    assert (Gate.PLAUSIBLE, "pods") in [(check.name, check.values and check.values.about) for check in found]


def test_pod_cache_empty_while_a_node_is_being_drained() -> None:
    story_run = StoryRun(Story("no pods", lambda: idle_cluster(Rules(detach=Span(300, 300))), 2))
    lens = Lens()
    opened = through(story_run, lens)
    story_run.tick_until(lambda record: record.operation is not None, opened)
    lens.view = lambda view: ClusterView(view.nodes, (), view.budgets)
    run(story_run, opened, 600)
    assert done(story_run, ActKind.TERMINATE) == []
    lens.view = lambda view: view
    run(story_run, opened, HOUR)
    assert story_run.problems() == []


def test_min_filled_by_broken_nodes() -> None:
    """Nodes that were not ready were counted towards the minimum, and the working ones removed."""
    story_run = StoryRun(Story("broken", idle_cluster, 4, replace(SETTINGS, min_workers=3, max_workers=6)))
    workers = [node for node in story_run.world.inventory.nodes.values() if node.worker]
    broken = [story_run.world.nodes.machine_of(node.name) for node in workers[:2]]
    for machine in broken:
        assert machine is not None
        machine.reachable = False
        story_run.world.nodes.stop_answering(machine)
    story_run.wait(60)
    assert story_run.ready_workers() == 2
    for _ in range(60):
        story_run.tick()
        story_run.wait(TICK_SECONDS)
        assert story_run.ready_workers() >= 2
    assert done(story_run, ActKind.TERMINATE) == []
    assert story_run.ready_workers() >= 3
    assert story_run.checker.violations == []


def test_orphans_after_a_crash() -> None:
    """The process died between the cloud's answer and its own notes: unknown machines ran on for months."""
    story = Story("orphans", lambda: busy_cluster(Rules(boot=Span(40, 50))), 3, NO_REMOVALS, ticks=120)
    for number in range(1, 8):
        for strike in (Strike.CRASH_BEFORE, Strike.CRASH_AFTER):
            story_run = StoryRun(story)
            story_run.tell(CrashPlan(number * 2, strike))
            assert story_run.problems() == []


def test_orphans_after_a_crash_and_a_record_restored_from_yesterday() -> None:
    """Even a record that does not know the launch leaves no machine behind."""
    story_run = StoryRun(Story("restored", busy_cluster, 3, NO_REMOVALS, ticks=120))
    launched = story_run.tick_until(lambda record: story_run.world.machines.book.launched > 0)
    machine = list(story_run.world.machines.book.machines.values())[-1]
    machine.joins = False
    story_run.store.write(Record(rev=launched.rev), None)
    story_run.tell(CrashPlan())
    assert story_run.problems() == []
    assert machine.instance.state is InstanceState.GONE


def test_endless_replacement() -> None:
    """A broken image: each new machine failed to join, was replaced at once, and that all night."""
    story_run = StoryRun(Story("never joins", lambda: busy_cluster(Rules(never_join=1.0)), 2, NO_REMOVALS))
    for _ in range(12 * HOUR // TICK_SECONDS):
        story_run.tick()
        story_run.wait(TICK_SECONDS)
    launched = story_run.world.machines.book.launched
    # Join timeout and a back-off that grows to an hour: a dozen and a few in twelve hours, not 150.
    assert 2 <= launched <= 20
    alive = [m for m in story_run.world.machines.book.machines.values() if m.ours and m.instance.alive]
    assert len(alive) <= SETTINGS.max_workers
    assert story_run.checker.violations == []


def half_is_missing(view: ClusterView) -> ClusterView:
    kept = [node for number, node in enumerate(view.nodes) if number % 2 == 0]
    names = {node.name for node in kept} | {""}
    return ClusterView(tuple(kept), tuple(p for p in view.pods if p.node_name in names), view.budgets)


def nobody_is_ready(view: ClusterView) -> ClusterView:
    return ClusterView(tuple(replace(node, ready=False) for node in view.nodes), view.pods, view.budgets)


def test_mass_deletion_after_an_api_blip() -> None:
    """For minutes the API showed no node ready, half of them, or none: machines were taken for dead."""
    for blip in (nobody_is_ready, half_is_missing, lambda _: ClusterView()):
        story_run = StoryRun(Story("blip", idle_cluster, 4, replace(SETTINGS, min_workers=4, max_workers=4)))
        lens = Lens()
        opened = through(story_run, lens)
        run(story_run, opened, 300)
        lens.view = blip
        run(story_run, opened, 3 * SETTINGS.orphan_grace_seconds)
        assert done(story_run, *REMOVING) == []
        lens.view = lambda view: view
        run(story_run, opened, HOUR)
        assert done(story_run, *REMOVING) == []
        assert story_run.problems() == []


def test_mass_deletion_after_a_blip_of_the_cloud() -> None:
    """The same with the cloud: it lists no machine, or half of them."""

    def half(instances: Sequence[Instance]) -> Sequence[Instance]:
        return instances[::2]

    for blip in (lambda _: (), half):
        story_run = StoryRun(Story("blip", idle_cluster, 4, replace(SETTINGS, min_workers=4, max_workers=4)))
        lens = Lens()
        opened = through(story_run, lens)
        run(story_run, opened, 300)
        lens.instances = blip
        run(story_run, opened, 1800)
        assert done(story_run, *REMOVING) == []
        lens.instances = lambda instances: instances
        run(story_run, opened, HOUR)
        assert story_run.problems() == []
