"""What has befallen users of other autoscalers, played with this one. Each test has the incident's name."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from ebbtide.engine.loop import guarded_tick
from ebbtide.engine.ports import Ports
from ebbtide.model.node import Instance, InstanceState
from ebbtide.model.record import Record
from ebbtide.model.snapshot import ClusterView
from ebbtide.simulator.faults.calls import CrashPlan, Strike
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import ActKind
from tests.simulation.stories import (
    NO_REMOVALS,
    SETTINGS,
    TICK_SECONDS,
    Story,
    Telling,
    busy_cluster,
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


def through(telling: Telling, lens: Lens) -> Ports:
    cluster, cloud = SeenCluster(telling.world, telling.clock), SeenCloud(telling.world, telling.clock)
    cluster.lens = cloud.lens = lens
    return replace(telling.ports(CrashPlan()), cluster=cluster, cloud=cloud)


def run(telling: Telling, doors: Ports, seconds: float) -> None:
    end = telling.clock.now() + seconds
    while telling.clock.now() < end:
        said = guarded_tick(doors, telling.story.settings, "runner", TICK_SECONDS).says
        telling.sentences.append(said)
        telling.wait(TICK_SECONDS)


def done(telling: Telling, *kinds: ActKind) -> list[str]:
    return [
        f"{act.kind} {act.node_name or act.instance_id}" for act in telling.checker.acts if act.kind in kinds
    ]


def unregistered(view: ClusterView) -> ClusterView:
    """The nodes have lost all that ties them to an instance."""
    nodes = [replace(node, provider_id="", instance_id="", private_ip="") for node in view.nodes]
    return ClusterView(tuple(nodes), view.pods, view.budgets)


def test_all_nodes_seen_as_unregistered() -> None:
    """An upgrade changed the provider ids: each instance seemed never to have joined, all were deleted."""
    telling = Telling(Story("unregistered", idle_cluster, 4))
    lens = Lens(view=unregistered)
    run(telling, through(telling, lens), 2 * HOUR)
    assert done(telling, *REMOVING, ActKind.LAUNCH) == []
    assert telling.ready_workers() == 4
    assert telling.checker.violations == []


def test_all_nodes_seen_as_unregistered_while_one_is_being_launched() -> None:
    telling = Telling(Story("unregistered", busy_cluster, 3, NO_REMOVALS))
    lens = Lens()
    doors = through(telling, lens)
    telling.tick_until(lambda record: record.operation is not None, doors)
    lens.view = unregistered
    run(telling, doors, 45 * 60)
    assert done(telling, *REMOVING) == []
    lens.view = lambda view: view
    run(telling, doors, HOUR)
    assert telling.problems() == []


def test_the_same_node_deleted_every_tick_until_min() -> None:
    """A node that was slow to go was chosen, and counted as removed, in every tick."""
    slow = Rules(terminate=Span(900, 900), unready_seconds=900)
    telling = Telling(Story("slow to go", lambda: idle_cluster(slow), 2, ticks=30))
    for _ in range(30):
        telling.tick()
        telling.wait(TICK_SECONDS)
    assert len(set(done(telling, ActKind.TERMINATE))) == 1
    assert len(done(telling, ActKind.CORDON)) == 1
    alive = [m for m in telling.world.machines.book.machines.values() if m.ours and m.instance.alive]
    assert len(alive) == 3
    assert telling.checker.violations == []


def test_pod_cache_empty_so_all_nodes_look_empty() -> None:
    """The list of pods came back empty from a cache that had not filled yet."""
    telling = Telling(Story("no pods", idle_cluster, 4))
    lens = Lens(view=lambda view: ClusterView(view.nodes, (), view.budgets))
    run(telling, through(telling, lens), 2 * HOUR)
    assert done(telling, *REMOVING) == []
    assert "no pod at all is seen" in telling.sentences[-1]


def test_pod_cache_empty_while_a_node_is_being_drained() -> None:
    telling = Telling(Story("no pods", lambda: idle_cluster(Rules(detach=Span(300, 300))), 2))
    lens = Lens()
    doors = through(telling, lens)
    telling.tick_until(lambda record: record.operation is not None, doors)
    lens.view = lambda view: ClusterView(view.nodes, (), view.budgets)
    run(telling, doors, 600)
    assert done(telling, ActKind.TERMINATE) == []
    lens.view = lambda view: view
    run(telling, doors, HOUR)
    assert telling.problems() == []


def test_min_filled_by_broken_nodes() -> None:
    """Nodes that were not ready were counted towards the minimum, and the working ones removed."""
    telling = Telling(Story("broken", idle_cluster, 4, replace(SETTINGS, min_workers=3, max_workers=6)))
    workers = [node for node in telling.world.inventory.nodes.values() if node.worker]
    broken = [telling.world.nodes.machine_of(node.name) for node in workers[:2]]
    for machine in broken:
        assert machine is not None
        machine.reachable = False
        telling.world.nodes.stop_answering(machine)
    telling.wait(60)
    assert telling.ready_workers() == 2
    for _ in range(60):
        telling.tick()
        telling.wait(TICK_SECONDS)
        assert telling.ready_workers() >= 2
    assert done(telling, ActKind.TERMINATE) == []
    assert telling.ready_workers() >= 3
    assert telling.checker.violations == []


def test_orphans_after_a_crash() -> None:
    """The process died between the cloud's answer and its own notes: unknown machines ran on for months."""
    story = Story("orphans", lambda: busy_cluster(Rules(boot=Span(40, 50))), 3, NO_REMOVALS, ticks=120)
    for number in range(1, 8):
        for strike in (Strike.CRASH_BEFORE, Strike.CRASH_AFTER):
            telling = Telling(story)
            telling.tell(CrashPlan(number * 2, strike))
            assert telling.problems() == []


def test_orphans_after_a_crash_and_a_record_restored_from_yesterday() -> None:
    """Even a record that knows nothing of the launch leaves no machine behind."""
    telling = Telling(Story("restored", busy_cluster, 3, NO_REMOVALS, ticks=120))
    launched = telling.tick_until(lambda record: telling.world.machines.book.launched > 0)
    machine = list(telling.world.machines.book.machines.values())[-1]
    machine.joins = False
    telling.store.write(Record(rev=launched.rev), None)
    telling.tell(CrashPlan())
    assert telling.problems() == []
    assert machine.instance.state is InstanceState.GONE


def test_endless_replacement() -> None:
    """A broken image: each new machine failed to join, was replaced at once, and that all night."""
    telling = Telling(Story("never joins", lambda: busy_cluster(Rules(never_join=1.0)), 2, NO_REMOVALS))
    for _ in range(12 * HOUR // TICK_SECONDS):
        telling.tick()
        telling.wait(TICK_SECONDS)
    launched = telling.world.machines.book.launched
    # Join timeout and a back-off that grows to an hour: a dozen and a few in twelve hours, not 150.
    assert 2 <= launched <= 20
    alive = [m for m in telling.world.machines.book.machines.values() if m.ours and m.instance.alive]
    assert len(alive) <= SETTINGS.max_workers
    assert telling.checker.violations == []


def half_is_missing(view: ClusterView) -> ClusterView:
    kept = [node for number, node in enumerate(view.nodes) if number % 2 == 0]
    names = {node.name for node in kept} | {""}
    return ClusterView(tuple(kept), tuple(p for p in view.pods if p.node_name in names), view.budgets)


def nobody_is_ready(view: ClusterView) -> ClusterView:
    return ClusterView(tuple(replace(node, ready=False) for node in view.nodes), view.pods, view.budgets)


def test_mass_deletion_after_an_api_blip() -> None:
    """For minutes the API showed no node ready, half of them, or none: machines were taken for dead."""
    for blip in (nobody_is_ready, half_is_missing, lambda _: ClusterView()):
        telling = Telling(Story("blip", idle_cluster, 4, replace(SETTINGS, min_workers=4, max_workers=4)))
        lens = Lens()
        doors = through(telling, lens)
        run(telling, doors, 300)
        lens.view = blip
        run(telling, doors, 3 * SETTINGS.orphan_grace_seconds)
        assert done(telling, *REMOVING) == []
        lens.view = lambda view: view
        run(telling, doors, HOUR)
        assert done(telling, *REMOVING) == []
        assert telling.problems() == []


def test_mass_deletion_after_a_blip_of_the_cloud() -> None:
    """The same with the cloud: it lists no machine, or half of them."""

    def half(instances: Sequence[Instance]) -> Sequence[Instance]:
        return instances[::2]

    for blip in (lambda _: (), half):
        telling = Telling(Story("blip", idle_cluster, 4, replace(SETTINGS, min_workers=4, max_workers=4)))
        lens = Lens()
        doors = through(telling, lens)
        run(telling, doors, 300)
        lens.instances = blip
        run(telling, doors, 1800)
        assert done(telling, *REMOVING) == []
        lens.instances = lambda instances: instances
        run(telling, doors, HOUR)
        assert telling.problems() == []
