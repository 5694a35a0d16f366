"""The checker must see every violation: each test commits one, by hand, and reads the sentence."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, Uncordon
from ebbtide.model.operation import Removal, RemovalState, ScaleDown, Slot, Spot, SpotKind
from ebbtide.model.pool import Headroom
from ebbtide.model.record import Record, Refused
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market, Node
from ebbtide.simulator.checker.checker import Checker, WatchedStore
from ebbtide.simulator.checker.violations import ViolationKind
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from ebbtide.simulator.world.rules import Demand, Rules
from ebbtide.simulator.world.world import World, add_system, database, deployment, pool
from tests.builders import lanes

SETTINGS = Settings(pools=(pool("general"),), min_workers=2, max_workers=4)


class Scene:
    """Two workers in zone a, one in b, a pod on each, a control plane and a foreign node."""

    def __init__(self) -> None:
        self.clock = VirtualClock(0)
        self.world = World(Rules(), SETTINGS.pools, seed=1, now=0)
        add_system(self.world)
        self.workers = [self.world.add_node("general", "cpx32", zone) for zone in "aab"]
        self.world.add_workload(deployment("web", 2000, 100, Demand(low=3)))
        self.checker = Checker(self.world, SETTINGS)
        self.store = WatchedStore(MemoryStore(self.clock), self.checker)
        self.cluster = SimCluster(self.world, self.clock)
        self.cloud = SimCloud(self.world, self.clock)
        self.wait(60)

    @property
    def said(self) -> list[str]:
        return [each.says for each in self.checker.violations]

    @property
    def found(self) -> list[tuple[ViolationKind, str]]:
        return [(each.kind, each.about) for each in self.checker.violations]

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.world.advance_to(self.clock.now())

    def plan(self, node: Node) -> None:
        """Written before the node is touched, as every removal is."""
        record = self.store.load()
        if record.operation is None:
            planned = Removal(instance_of(node), node.name, node.uid, node.zone, node.pool)
            self.store.write(replace(record, removing=ScaleDown("op", 0, (planned,))), None)

    def cordon(self, node: Node) -> None:
        self.plan(node)
        self.cluster.cordon(Cordon(node.name, node.uid, "op"), 1)

    def drain(self, node: Node) -> None:
        self.cordon(node)
        for pod in self.world.pods_on(node.name):
            if pod.controller not in ("DaemonSet", "Node"):
                self.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, node.name, 30))
        self.wait(60)

    def intend(self, *nodes: Node, record: Record | None = None) -> Record:
        removals = tuple(
            Removal(instance_of(n), n.name, n.uid, n.zone, n.pool, RemovalState.TERMINATING) for n in nodes
        )
        before = record or self.store.load()
        return self.store.write(replace(before, **lanes(ScaleDown("op", 0, removals))), None)


def instance_of(node: Node) -> str:
    return node.provider_id.rsplit("/", 1)[1]


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_removal_that_keeps_every_rule_is_not_complained_about(scene: Scene) -> None:
    node = scene.workers[0]
    scene.drain(node)
    record = scene.intend(node)
    scene.cloud.terminate(instance_of(node))
    scene.wait(120)
    scene.cluster.delete_node(DeleteNode(node.name, node.uid))
    record = scene.store.write(replace(record, **lanes(None)), None)
    scene.checker.finish(record)
    assert scene.said == []


def test_terminating_without_a_written_intent_is_seen(scene: Scene) -> None:
    scene.store.write(scene.store.load(), None)
    scene.drain(scene.workers[0])
    scene.cloud.terminate(instance_of(scene.workers[0]))
    assert scene.found == [(ViolationKind.NO_INTENT, instance_of(scene.workers[0]))]


def test_terminating_a_node_with_pods_is_seen(scene: Scene) -> None:
    scene.intend(scene.workers[0])
    (pod,) = (one for one in scene.world.pods_on(scene.workers[0].name) if one.controller == "ReplicaSet")
    scene.cloud.terminate(instance_of(scene.workers[0]))
    assert scene.found == [(ViolationKind.POD_LOST, pod.full_name)]


def test_terminating_a_node_with_pods_that_still_end_is_seen(scene: Scene) -> None:
    node = scene.workers[0]
    scene.cordon(node)
    (pod,) = (one for one in scene.world.pods_on(node.name) if one.controller == "ReplicaSet")
    scene.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, node.name, 30))
    scene.intend(node)
    scene.cloud.terminate(instance_of(node))
    assert scene.found == [(ViolationKind.POD_LOST, pod.full_name)]


def test_terminating_a_node_with_a_volume_attached_is_seen(scene: Scene) -> None:
    scene.world.add_workload(*database("db", 1))
    scene.wait(60)
    node = next(n for n in scene.cluster.read().workers if n.volumes_attached)
    scene.cordon(node)
    for pod in scene.world.pods_on(node.name):
        if pod.controller not in ("DaemonSet", "Node"):
            scene.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, node.name, 30))
    scene.wait(5.5)
    scene.intend(node)
    scene.cloud.terminate(instance_of(node))
    assert (ViolationKind.VOLUME_LOST, instance_of(node)) in scene.found


def test_an_interrupted_node_may_go_with_its_pods_and_below_the_minimum(scene: Scene) -> None:
    for node in scene.workers:
        instance_id = instance_of(node)
        scene.world.machines.book.machines[instance_id].noticed = True
        spot = Spot(f"spot:{instance_id}", instance_id, SpotKind.INTERRUPTION, 0, 120)
        record = scene.store.load()
        scene.store.write(replace(record, spots=(*record.spots, spot)), None)
        scene.intend(node)
        scene.cloud.terminate(instance_id)
        scene.store.write(replace(scene.store.load(), removing=None), None)
    assert scene.said == [], "a scale-down that had it continues"


def test_terminating_what_the_cloud_takes_by_itself_is_seen(scene: Scene) -> None:
    node = scene.workers[0]
    removal = Removal(instance_of(node), node.name, node.uid, node.zone, state=RemovalState.DRAINED)
    for state, told in ((RemovalState.DRAINED, 0), (RemovalState.TERMINATING, 1)):
        spot = Spot("spot:i", instance_of(node), SpotKind.INTERRUPTION, 0, 120)
        spot = replace(spot, removal=replace(removal, state=state))
        scene.store.write(replace(scene.store.load(), spots=(spot,)), None)
        assert len(scene.said) == told
    assert scene.found == [(ViolationKind.CLOUD_TAKES_IT, instance_of(node))]


def test_going_below_the_minimum_and_emptying_a_zone_are_seen(scene: Scene) -> None:
    one, two, alone = scene.workers
    scene.intend(alone)
    assert scene.found == [(ViolationKind.ZONE_EMPTIED, alone.name)]
    scene.intend(alone, one)
    assert scene.found[1:] == [
        (ViolationKind.BELOW_MINIMUM, one.name),
        (ViolationKind.BUDGET_EXCEEDED, one.name),
    ]
    assert two.ready


def test_what_the_cloud_refuses_counts_towards_no_budget(scene: Scene) -> None:
    kept, other, _ = scene.workers
    removal = Removal(instance_of(kept), kept.name, kept.uid, kept.zone, kept.pool, RemovalState.TERMINATING)
    scene.checker.follow(replace(SETTINGS, min_workers=1))
    scene.store.write(replace(scene.store.load(), refused=(Refused("op", removal, 900),)), None)
    scene.intend(other)
    assert ViolationKind.BUDGET_EXCEEDED not in dict(scene.found)


def test_nodes_lost_just_now_do_not_count_against_the_minimum(scene: Scene) -> None:
    scene.world.plan(scene.world.now, "machine-dies", instance_of(scene.workers[2]))
    scene.wait(45)
    scene.intend(scene.workers[0])
    assert scene.said == []


def test_nodes_lost_long_ago_do_count(scene: Scene) -> None:
    scene.world.plan(scene.world.now, "machine-dies", instance_of(scene.workers[2]))
    scene.wait(300)
    scene.intend(scene.workers[0])
    assert scene.found == [(ViolationKind.BELOW_MINIMUM, scene.workers[0].name)]


def test_more_instances_than_the_maximum_are_seen(scene: Scene) -> None:
    for number in range(2):
        scene.cloud.launch(Launch(Slot(f"k{number}", "general", "a", "cpx32"), "op"))
    assert scene.found == [(ViolationKind.ABOVE_MAXIMUM, "")]


def test_two_instances_for_one_slot_are_seen(scene: Scene) -> None:
    effect = Launch(Slot("k", "general", "a", "cpx32", Market.ON_DEMAND), "op")
    scene.cloud.launch(effect)
    scene.world.machines.book.id_of_key.clear()
    scene.world.machines.book.machines.popitem()
    scene.cloud.launch(effect)
    assert scene.found == [(ViolationKind.TWO_INSTANCES, "k")]


def test_a_second_terminate_is_seen_unless_a_fault_explains_it(scene: Scene) -> None:
    node = scene.workers[0]
    scene.drain(node)
    scene.intend(node)
    scene.cloud.terminate(instance_of(node))
    scene.world.disturbances += 1
    scene.cloud.terminate(instance_of(node))
    assert scene.said == []
    scene.cloud.terminate(instance_of(node))
    assert scene.found == [(ViolationKind.TERMINATED_TWICE, instance_of(node))]


def test_evicting_from_a_node_that_is_not_cordoned_by_us_is_seen(scene: Scene) -> None:
    pod = next(p for p in scene.world.pods_on(scene.workers[0].name) if p.controller == "ReplicaSet")
    scene.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, pod.node_name, 30))
    assert scene.found == [(ViolationKind.NOT_CORDONED, pod.full_name)]


def test_evicting_a_daemon_is_seen(scene: Scene) -> None:
    scene.cordon(scene.workers[0])
    pod = next(p for p in scene.world.pods_on(scene.workers[0].name) if p.controller == "DaemonSet")
    scene.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, pod.node_name, 30))
    assert scene.found == [(ViolationKind.PROTECTED_POD, pod.full_name)]


def test_draining_after_terminating_is_seen(scene: Scene) -> None:
    node = scene.workers[0]
    scene.cordon(node)
    scene.intend(node)
    pod = next(p for p in scene.world.pods_on(node.name) if p.controller == "ReplicaSet")
    scene.cloud.terminate(instance_of(node))
    scene.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, node.name, 30))
    assert (ViolationKind.AFTER_TERMINATION, node.name) in scene.found


def test_lifting_a_cordon_after_the_intent_is_seen(scene: Scene) -> None:
    node = scene.workers[0]
    scene.drain(node)
    scene.intend(node)
    scene.cluster.uncordon(Uncordon(node.name, node.uid, "op"), 1)
    assert scene.found == [(ViolationKind.AFTER_TERMINATION, node.name)]


def test_touching_the_control_plane_or_a_foreign_node_is_seen(scene: Scene) -> None:
    for node in list(scene.world.inventory.nodes.values()):
        if not node.worker:
            scene.cordon(node)
            scene.cluster.delete_node(DeleteNode(node.name, node.uid))
    assert sum(kind is ViolationKind.NOT_OURS for kind, _ in scene.found) == 4


def test_deleting_the_node_object_of_a_running_instance_is_seen(scene: Scene) -> None:
    scene.cluster.delete_node(DeleteNode(scene.workers[0].name, scene.workers[0].uid))
    assert scene.found == [(ViolationKind.INSTANCE_RUNS, scene.workers[0].name)]


def expected(count: int) -> tuple[Headroom, ...]:
    return (Headroom(1000, 64, count, "general", expected=f"{count} pods in pool general"),)


@pytest.mark.parametrize(
    ("asked", "told"),
    [
        (((0, 5),), True),
        (((0, 2),), False),
        (((0, 9), (600, 5)), True),
        (((0, 2), (600, 5)), False),
        (((0, 2), (200, 5)), True),
        (((0, 5), (600, 0)), False),
    ],
    ids=["kept", "room is left", "less, but kept", "only just more", "more for minutes", "no longer"],
)
def test_nodes_that_a_forecast_keeps_are_missed_and_what_no_runner_can_know_is_not(
    scene: Scene, asked: tuple[tuple[int, int], ...], told: bool
) -> None:
    """Two pods of that size fit without the node. A runner acts on what it saw up to 300 s before."""
    scene.drain(scene.workers[0])
    until = 0
    for at, count in asked:
        scene.wait(at - until)
        until = at
        scene.checker.expects(expected(count))
    scene.wait(601 - until)
    scene.intend(scene.workers[0])
    assert (ViolationKind.HEADROOM in dict(scene.found)) is told


def test_a_runner_that_does_not_look_ahead_keeps_nothing_for_a_forecast(scene: Scene) -> None:
    scene.drain(scene.workers[0])
    scene.wait(600)
    for headrooms in (expected(5), (), expected(5)):
        scene.checker.expects(headrooms)
    scene.intend(scene.workers[0])
    assert scene.said == []
