"""What every cluster must do.

A cluster is plugged in by a `Lab` of its own, which starts with one worker, a web deployment of three
pods with a budget of one, and nothing else of ours. Add it to `LABS` and every test runs over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Protocol

import pytest

from ebbtide.errors import BudgetExhausted, NotOurs
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import LEAVING, Node, Ownership
from ebbtide.ports import Cluster
from ebbtide.simulator.run.persistent import FileCluster, WorldFile
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCluster
from ebbtide.simulator.world.rules import Demand, Rules
from ebbtide.simulator.world.world import World, deployment, guarded, pool
from tests.integration.kube.lab import KubeLab, WatchedKubeLab


class Lab(Protocol):
    @property
    def cluster(self) -> Cluster: ...

    def settle(self) -> None:
        """Let pods be made, bound, started and ended."""

    def person_cordons(self, node_name: str) -> None: ...


class SimLab:
    def __init__(self, folder: Path) -> None:  # a lab may need a folder; this one does not
        pools = (pool("general"),)
        self.clock = VirtualClock(1_700_000_000)
        self.world = World(Rules(), pools, seed=1, now=self.clock.now())
        self.world.add_node("general", "cpx32", "a")
        self.world.add_workload(*guarded(deployment("web", 100, 128, Demand(low=3)), 1))
        self.cluster: Cluster = SimCluster(self.world, self.clock)
        self.settle()
        self.cluster.read()

    def settle(self) -> None:
        self.clock.sleep(60)

    def person_cordons(self, node_name: str) -> None:
        self.world.plan(self.clock.now(), "person-cordons", node_name)


class FileLab:
    def __init__(self, folder: Path) -> None:
        self.sim = SimLab(folder)
        self.file = WorldFile(folder / "world.json", self.sim.clock)
        self.file.create(self.sim.world)

    @property
    def cluster(self) -> Cluster:
        return FileCluster(WorldFile(self.file.path, self.sim.clock))

    def settle(self) -> None:
        self.sim.settle()

    def person_cordons(self, node_name: str) -> None:
        with self.file.changing() as (world, clock):
            world.plan(clock.now(), "person-cordons", node_name)


LABS: dict[str, Callable[[Path], Lab]] = {
    "simulator": SimLab,
    "simulator in a file": FileLab,
    "kubernetes": KubeLab,
    "kubernetes, watched": WatchedKubeLab,
}


@pytest.fixture(params=sorted(LABS))
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    made = LABS[request.param](tmp_path)
    yield made
    if isinstance(made, KubeLab):
        made.close()


def worker(lab: Lab) -> Node:
    return lab.cluster.read().workers[0]


def cordon(node: Node, operation: str = "op-1") -> Cordon:
    return Cordon(node.name, node.uid, operation)


def taint(node: Node, operation: str = "op-1") -> SoftTaint:
    return SoftTaint(node.name, node.uid, operation)


def uncordon(node: Node, operation: str = "op-1") -> Uncordon:
    return Uncordon(node.name, node.uid, operation)


def evict(pod: Pod) -> Evict:
    return Evict(pod.namespace, pod.name, pod.uid, pod.node_name, pod.grace_seconds)


def web_pods(lab: Lab) -> list[Pod]:
    return [pod for pod in lab.cluster.read_pods_on(worker(lab).name) if pod.controller == "ReplicaSet"]


def test_a_view_shows_nodes_pods_and_budgets(lab: Lab) -> None:
    view = lab.cluster.read()
    assert [node.ready for node in view.workers] == [True]
    assert len(web_pods(lab)) == 3
    assert [budget.disruptions_allowed for budget in view.budgets if budget.name == "web"] == [1]


def test_a_soft_taint_is_signed_and_leaves_the_node_schedulable(lab: Lab) -> None:
    lab.cluster.soft_taint(taint(worker(lab)), token=5)
    lab.cluster.soft_taint(taint(worker(lab)), token=5)
    node = worker(lab)
    assert (node.unschedulable, node.taints) == (False, (LEAVING,))
    assert node.owner == Ownership("op-1", 5, cordoned=False)


def test_a_cordon_after_a_soft_taint_is_ours_and_one_release_lifts_both(lab: Lab) -> None:
    lab.cluster.soft_taint(taint(worker(lab)), token=5)
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    lab.cluster.soft_taint(taint(worker(lab)), token=6)
    node = worker(lab)
    assert (node.cordoned_by_us, node.owner) == (True, Ownership("op-1", 6))
    assert LEAVING in node.taints
    lab.cluster.uncordon(uncordon(node), token=6)
    node = worker(lab)
    assert (node.unschedulable, LEAVING in node.taints, node.owner) == (False, False, None)


def test_a_soft_taint_alone_is_lifted_and_a_persons_cordon_meanwhile_stays(lab: Lab) -> None:
    lab.cluster.soft_taint(taint(worker(lab)), token=5)
    lab.person_cordons(worker(lab).name)
    with pytest.raises(NotOurs):
        lab.cluster.soft_taint(taint(worker(lab)), token=6)
    with pytest.raises(NotOurs):
        lab.cluster.cordon(cordon(worker(lab)), token=6)
    lab.cluster.uncordon(uncordon(worker(lab)), token=6)
    node = worker(lab)
    assert (node.unschedulable, LEAVING in node.taints, node.owner) == (True, False, None)


def test_a_soft_taint_is_fenced_like_a_cordon(lab: Lab) -> None:
    node = worker(lab)
    lab.cluster.soft_taint(taint(node), token=5)
    for wrong in ((taint(node), 4), (taint(node, "op-2"), 9), (SoftTaint(node.name, "another", "op-1"), 9)):
        with pytest.raises(NotOurs):
            lab.cluster.soft_taint(wrong[0], token=wrong[1])
    lab.cluster.uncordon(uncordon(node), token=6)
    with pytest.raises(NotOurs):
        lab.cluster.soft_taint(taint(node), token=5)
    assert worker(lab).taints == ()


def test_a_cordon_is_signed_with_operation_and_token(lab: Lab) -> None:
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    node = worker(lab)
    assert node.unschedulable
    assert node.owner == Ownership("op-1", 5)


def test_repeating_a_cordon_is_harmless_and_a_newer_token_signs_again(lab: Lab) -> None:
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    lab.cluster.cordon(cordon(worker(lab)), token=6)
    assert worker(lab).owner == Ownership("op-1", 6)


def test_a_lower_token_may_neither_cordon_nor_uncordon(lab: Lab) -> None:
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    with pytest.raises(NotOurs):
        lab.cluster.cordon(cordon(worker(lab)), token=4)
    with pytest.raises(NotOurs):
        lab.cluster.uncordon(uncordon(worker(lab)), token=4)
    assert worker(lab).owner == Ownership("op-1", 5)


def test_a_stalled_runner_cannot_cordon_again_what_its_successor_released(lab: Lab) -> None:
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    lab.cluster.uncordon(uncordon(worker(lab)), token=6)
    with pytest.raises(NotOurs):
        lab.cluster.cordon(cordon(worker(lab)), token=5)
    assert not worker(lab).unschedulable


def test_another_operation_may_not_touch_a_cordon(lab: Lab) -> None:
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    with pytest.raises(NotOurs):
        lab.cluster.cordon(cordon(worker(lab), "op-2"), token=9)
    with pytest.raises(NotOurs):
        lab.cluster.uncordon(uncordon(worker(lab), "op-2"), token=9)
    assert worker(lab).owner == Ownership("op-1", 5)


def test_a_released_node_may_be_cordoned_by_another_operation(lab: Lab) -> None:
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    lab.cluster.uncordon(uncordon(worker(lab)), token=5)
    lab.cluster.cordon(cordon(worker(lab), "spot:i-1"), token=1)
    assert worker(lab).owner == Ownership("spot:i-1", 1)


def test_a_cordon_of_a_person_is_neither_taken_over_nor_lifted(lab: Lab) -> None:
    lab.person_cordons(worker(lab).name)
    with pytest.raises(NotOurs):
        lab.cluster.cordon(cordon(worker(lab)), token=5)
    with pytest.raises(NotOurs):
        lab.cluster.uncordon(uncordon(worker(lab)), token=5)
    assert worker(lab).unschedulable
    assert worker(lab).owner is None


def test_another_node_under_the_same_name_is_not_touched(lab: Lab) -> None:
    node = worker(lab)
    with pytest.raises(NotOurs):
        lab.cluster.cordon(Cordon(node.name, "another-uid", "op-1"), token=5)
    with pytest.raises(NotOurs):
        lab.cluster.uncordon(Uncordon(node.name, "another-uid", "op-1"), token=5)
    lab.cluster.delete_node(DeleteNode(node.name, "another-uid"))
    assert worker(lab) == node


def test_lifting_a_cordon_twice_or_from_a_node_that_is_gone_is_success(lab: Lab) -> None:
    node = worker(lab)
    lab.cluster.cordon(cordon(node), token=5)
    lab.cluster.uncordon(uncordon(node), token=5)
    lab.cluster.uncordon(uncordon(node), token=5)
    assert not worker(lab).unschedulable
    lab.cluster.delete_node(DeleteNode(node.name, node.uid))
    lab.cluster.uncordon(uncordon(node), token=5)


def test_a_cordon_of_a_node_that_is_gone_is_refused(lab: Lab) -> None:
    node = worker(lab)
    lab.cluster.delete_node(DeleteNode(node.name, node.uid))
    with pytest.raises(NotOurs):
        lab.cluster.cordon(cordon(node), token=5)


def test_an_evicted_pod_ends_and_is_made_again_elsewhere_than_on_a_cordoned_node(lab: Lab) -> None:
    lab.cluster.cordon(cordon(worker(lab)), token=5)
    pod = web_pods(lab)[0]
    lab.cluster.evict(evict(pod))
    lab.settle()
    view = lab.cluster.read()
    assert pod.uid not in [other.uid for other in view.pods]
    assert [other.controller for other in view.waiting_pods] == ["ReplicaSet"]


def test_a_budget_that_is_used_up_says_not_now(lab: Lab) -> None:
    first, second, _ = web_pods(lab)
    lab.cluster.evict(evict(first))
    with pytest.raises(BudgetExhausted):
        lab.cluster.evict(evict(second))
    lab.settle()
    lab.cluster.evict(evict(second))


def test_evicting_a_pod_twice_or_one_that_is_gone_is_success(lab: Lab) -> None:
    pod = web_pods(lab)[0]
    lab.cluster.evict(evict(pod))
    lab.cluster.evict(evict(pod))
    lab.settle()
    lab.cluster.evict(evict(pod))
    assert pod.uid not in {each.uid for each in web_pods(lab)}


def test_a_new_pod_under_the_name_of_an_evicted_one_is_not_evicted(lab: Lab) -> None:
    before = web_pods(lab)
    pod = before[0]
    lab.cluster.evict(Evict(pod.namespace, pod.name, "another-uid", pod.node_name, 30))
    lab.settle()
    assert web_pods(lab) == before


def test_a_deleted_node_takes_its_pods_with_it_and_deleting_again_is_success(lab: Lab) -> None:
    node = worker(lab)
    lab.cluster.delete_node(DeleteNode(node.name, node.uid))
    lab.cluster.delete_node(DeleteNode(node.name, node.uid))
    view = lab.cluster.read()
    assert not view.workers
    assert not lab.cluster.read_pods_on(node.name)
