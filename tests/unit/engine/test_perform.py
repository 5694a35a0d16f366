"""Effects: each only while there is time, each answer told apart, each termination after a last look."""

from __future__ import annotations

import threading
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest

from ebbtide.engine.rounds import perform
from ebbtide.errors import (
    BudgetExhausted,
    EbbtideError,
    LeaseLost,
    NoCapacity,
    NotOurs,
    Throttled,
    Unanswered,
)
from ebbtide.model.effect import (
    Cordon,
    DeleteNode,
    Effect,
    Evict,
    Launch,
    Outcome,
    OutcomeKind,
    Terminate,
    Uncordon,
)
from ebbtide.model.record import Lease
from ebbtide.model.snapshot import Instance
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from tests.builders import make_pod, make_slot
from tests.unit.engine.builders import Small


def do(small: Small, *effects: Effect, seconds: float = 60, ports: object = None) -> tuple[Outcome, ...]:
    opened = small.ports if ports is None else ports
    assert isinstance(opened, type(small.ports))
    lease = Lease("cluster", "runner", 5, small.now + 300)
    return perform(effects, opened, small.settings, lease, small.clock.now() + seconds)


class FailingCloud(SimCloud):
    error: EbbtideError = Unanswered("")

    def launch(self, effect: Launch) -> Instance:
        raise self.error


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (NoCapacity("none left"), OutcomeKind.NO_CAPACITY),
        (Throttled("slow down"), OutcomeKind.LATER),
        (BudgetExhausted("not now"), OutcomeKind.LATER),
        (NotOurs("a newer token"), OutcomeKind.REFUSED),
        (Unanswered("timed out"), OutcomeKind.UNKNOWN),
        (LeaseLost("odd"), OutcomeKind.UNKNOWN),
    ],
)
def test_every_kind_of_failure_is_told_apart(error: EbbtideError, kind: OutcomeKind) -> None:
    small = Small()
    cloud = FailingCloud(small.world, small.clock)
    cloud.error = error
    effect = Launch(make_slot(), "op")
    (outcome,) = do(small, effect, ports=replace(small.ports, cloud=cloud))
    assert outcome == Outcome(effect, kind, str(error))


def test_a_launch_brings_its_instance_back() -> None:
    (outcome,) = do(Small(), Launch(make_slot("op-0"), "op"))
    assert outcome.kind is OutcomeKind.DONE
    assert outcome.instance is not None
    assert outcome.instance.key == "op-0"


def test_cordon_evict_uncordon_and_delete_reach_the_cluster_with_the_token() -> None:
    small = Small()
    pod = next(pod for pod in small.world.view().pods if pod.controller == "ReplicaSet")
    node = small.world.view().node_named[pod.node_name]
    outcomes = do(
        small,
        Cordon(node.name, node.uid, "op"),
        Evict(pod.namespace, pod.name, pod.uid, node.name, 0),
    )
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE] * 2
    owner = small.world.view().node_named[node.name].owner
    assert owner is not None
    assert (owner.operation_id, owner.token) == ("op", 5)
    outcomes = do(small, Uncordon(node.name, node.uid, "op"), DeleteNode(node.name, node.uid))
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE] * 2
    assert node.name not in small.world.view().node_named


def test_no_effect_is_started_when_the_time_of_the_tick_or_the_lease_is_over() -> None:
    small = Small()
    node = small.nodes[0]
    effect = Cordon(node.name, node.uid, "op")
    assert do(small, effect, seconds=0) == (
        Outcome(effect, OutcomeKind.SKIPPED, "no time left in this tick or its lease"),
    )
    assert not small.world.view().node_named[node.name].unschedulable


def test_time_is_looked_at_before_each_effect_and_not_once() -> None:
    small = Small()
    slow = replace(small.ports, cloud=SlowCloud(small.world, small.clock))
    first, second = (Launch(make_slot(f"op-{n}"), "op") for n in (0, 1))
    outcomes = do(small, first, second, ports=slow)
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE, OutcomeKind.SKIPPED]


class MeetingCloud(SimCloud):
    """Answers a launch only when all are asked for."""

    def __init__(self, small: Small, number: int) -> None:
        super().__init__(small.world, small.clock)
        self._all_are_here = threading.Barrier(number)
        self._one_answers = threading.Lock()

    def launch(self, effect: Launch) -> Instance:
        self._all_are_here.wait(60)
        with self._one_answers:
            return super().launch(effect)


@pytest.mark.parametrize("number", [2, 3])
def test_launches_do_not_wait_for_each_other_where_the_cloud_allows_it(number: int) -> None:
    small = Small()
    ports = replace(small.ports, cloud=MeetingCloud(small, number), launches_at_once=8)
    launches = [Launch(make_slot(f"op-{n}"), "op") for n in range(number)]
    node = small.nodes[0]
    outcomes = do(small, *launches, Cordon(node.name, node.uid, "op"), ports=ports)
    assert [outcome.effect for outcome in outcomes[:-1]] == launches, "in the order they were asked for"
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE] * (number + 1)
    keys = [outcome.instance.key for outcome in outcomes if outcome.instance]
    assert keys == [f"op-{n}" for n in range(number)]


class CrowdedCloud(SimCloud):
    """Notes whether three launches were ever in flight at once."""

    crowded = False

    def __init__(self, small: Small) -> None:
        super().__init__(small.world, small.clock)
        self._three = threading.Barrier(3)
        self._one_answers = threading.Lock()

    def launch(self, effect: Launch) -> Instance:
        with suppress(threading.BrokenBarrierError):
            self._three.wait(0.3)
            self.crowded = True
        with self._one_answers:
            return super().launch(effect)


@pytest.mark.parametrize("most", [1, 2])
def test_no_more_launches_are_in_flight_than_the_client_of_the_cloud_allows(most: int) -> None:
    small = Small()
    cloud = CrowdedCloud(small)
    launches = [Launch(make_slot(f"op-{n}"), "op") for n in range(5)]
    outcomes = do(small, *launches, ports=replace(small.ports, cloud=cloud, launches_at_once=most))
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE] * 5
    assert not cloud.crowded


class CrowdedCluster(SimCluster):
    """Notes whether two cordons were ever in flight at once."""

    crowded = False

    def __init__(self, small: Small) -> None:
        super().__init__(small.world, small.clock)
        self._two = threading.Barrier(2)

    def cordon(self, effect: Cordon, token: int) -> None:
        with suppress(threading.BrokenBarrierError):
            self._two.wait(0.3)
            self.crowded = True
        super().cordon(effect, token)


def test_nodes_are_touched_one_after_the_other_however_many_launches_may_be_in_flight() -> None:
    small = Small()
    cluster = CrowdedCluster(small)
    cordons = [Cordon(node.name, node.uid, "op") for node in small.nodes]
    outcomes = do(small, *cordons, ports=replace(small.ports, cluster=cluster, launches_at_once=8))
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE] * 3
    assert not cluster.crowded


class SlowCloud(SimCloud):
    def launch(self, effect: Launch) -> Instance:
        self._clock.sleep(60)
        return super().launch(effect)


def test_a_pod_that_binds_after_the_drain_check_keeps_its_node_from_being_terminated() -> None:
    small = Small()
    pod = next(pod for pod in small.world.view().pods if pod.controller == "ReplicaSet")
    node = small.world.view().node_named[pod.node_name]
    instance_id = next(i.id for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    (outcome,) = do(small, Terminate(instance_id, node.name, node.uid, "op"))
    assert outcome.kind is OutcomeKind.LATER
    assert pod.full_name in outcome.detail
    assert small.world.removed == 0


@pytest.mark.parametrize(
    "left", [{"terminating": True}, {"do_not_disrupt": True}, {"safe_to_evict": False}, {"controller": ""}]
)
def test_a_pod_that_is_ending_or_may_not_be_evicted_keeps_its_node_too(left: dict[str, Any]) -> None:
    """The last look is for pods, not for pods that could be evicted."""
    small = Small(replicas=0)
    node = small.nodes[0]
    pod = make_pod("late", node_name=node.name, **left)
    small.world.inventory.put_pod(pod)
    (known,) = (i for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    (outcome,) = do(small, Terminate(known.id, node.name, node.uid, "op"))
    assert outcome.kind is OutcomeKind.LATER
    assert "default/late" in outcome.detail
    assert small.world.removed == 0


def test_a_pod_that_was_lost_with_its_node_does_not_hide_another_that_still_runs() -> None:
    small = Small(replicas=0)
    node = small.nodes[0]
    lost = make_pod("a-lost", node_name=node.name, terminating=True, ends_at=small.now - 600)
    for pod in (lost, make_pod("b-late", node_name=node.name)):
        small.world.inventory.put_pod(pod)
    (known,) = (i for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    (outcome,) = do(small, Terminate(known.id, node.name, node.uid, "op", lost_before=small.now - 60))
    assert (outcome.kind, small.world.removed) == (OutcomeKind.LATER, 0)
    assert "default/b-late" in outcome.detail


def test_an_empty_node_and_an_instance_without_one_are_terminated() -> None:
    small = Small(replicas=0)
    node = small.nodes[0]
    (known,) = (i for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    (launched,) = do(small, Launch(make_slot(), "op"))
    assert launched.instance is not None
    outcomes = do(
        small, Terminate(known.id, node.name, node.uid, "op"), Terminate(launched.instance.id, "", "", "op")
    )
    assert [outcome.kind for outcome in outcomes] == [OutcomeKind.DONE] * 2
    assert small.world.removed == 2


def test_without_an_answer_to_the_last_look_nothing_is_terminated() -> None:
    small = Small(replicas=0)
    node = small.nodes[0]
    blind = replace(small.ports, cluster=ForgetfulCluster(small.world, small.clock))
    (outcome,) = do(small, Terminate("i-00000002", node.name, node.uid, "op"), ports=blind)
    assert outcome.kind is OutcomeKind.UNKNOWN
    assert small.world.removed == 0


class ForgetfulCluster(SimCluster):
    def read_pods_on(self, node_name: str) -> tuple[()]:
        raise Unanswered("timed out")
