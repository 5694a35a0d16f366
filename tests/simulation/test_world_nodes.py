"""The simulated cloud and its nodes: how they come, go, and are lost."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.errors import Final, NoCapacity
from ebbtide.model.effect import DeleteNode, Launch
from ebbtide.model.operation import Slot, SpotKind
from ebbtide.model.snapshot import InstanceState, Market
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud, SimCluster, SimInbox, SimMetrics
from ebbtide.simulator.world.rules import Identity, Rules, Span
from ebbtide.simulator.world.world import World, pool

POOLS = (pool("general"), pool("spot", market=Market.SPOT))


class Site:
    def __init__(self, rules: Rules = Rules(), seed: int = 1) -> None:  # noqa: B008 - frozen
        self.clock = VirtualClock(1000)
        self.world = World(rules, POOLS, seed, 1000)
        self.cloud = SimCloud(self.world, self.clock)
        self.cluster = SimCluster(self.world, self.clock)

    def launch(self, key: str = "k", zone: str = "a", market: Market = Market.ON_DEMAND) -> str:
        name = "spot" if market is Market.SPOT else "general"
        return self.cloud.launch(Launch(Slot(key, name, zone, "cpx32", market), "op")).id

    def state(self, instance_id: str) -> InstanceState | None:
        return {i.id: i.state for i in self.cloud.list_instances()}.get(instance_id)


def test_an_instance_boots_joins_and_becomes_ready_in_the_times_given() -> None:
    site = Site(Rules(boot=Span(10, 10), join=Span(20, 20), ready=Span(5, 5)))
    instance_id = site.launch()
    assert site.state(instance_id) is InstanceState.PENDING
    site.clock.sleep(11)
    assert site.state(instance_id) is InstanceState.RUNNING
    assert not site.cluster.read().workers
    site.clock.sleep(20)
    assert [node.ready for node in site.cluster.read().workers] == [False]
    site.clock.sleep(5)
    node = site.cluster.read().workers[0]
    assert node.ready
    assert node.provider_id.endswith(instance_id)


def test_an_instance_that_never_joins_runs_without_a_node() -> None:
    site = Site(Rules(never_join=1.0))
    instance_id = site.launch()
    site.clock.sleep(3600)
    assert site.state(instance_id) is InstanceState.RUNNING
    assert not site.cluster.read().workers


def test_a_new_instance_is_not_listed_at_first_when_the_list_lags() -> None:
    site = Site(Rules(invisible_seconds=15))
    instance_id = site.launch()
    assert site.state(instance_id) is None
    site.clock.sleep(16)
    assert site.state(instance_id) is not None


def test_a_terminated_instance_is_listed_as_gone_for_a_while_and_then_not_at_all() -> None:
    site = Site(Rules(terminate=Span(30, 30), listed_seconds=100))
    instance_id = site.launch()
    site.clock.sleep(200)
    site.cloud.terminate(instance_id)
    assert site.state(instance_id) is InstanceState.TERMINATING
    site.clock.sleep(31)
    assert site.state(instance_id) is InstanceState.GONE
    site.clock.sleep(101)
    assert site.state(instance_id) is None


def test_the_node_object_outlives_its_instance_until_somebody_deletes_it() -> None:
    site = Site()
    instance_id = site.launch()
    site.clock.sleep(200)
    site.cloud.terminate(instance_id)
    site.clock.sleep(600)
    node = site.cluster.read().workers[0]
    assert not node.ready
    site.cluster.delete_node(DeleteNode(node.name, node.uid))
    assert not site.cluster.read().workers


def test_an_address_is_reused_and_its_name_waits_for_the_old_node_object_to_go() -> None:
    site = Site()
    first = site.launch("one")
    site.clock.sleep(200)
    old = site.cluster.read().workers[0]
    site.cloud.terminate(first)
    site.clock.sleep(200)
    site.launch("two")
    site.clock.sleep(300)
    assert [node.uid for node in site.cluster.read().workers] == [old.uid]
    site.cluster.delete_node(DeleteNode(old.name, old.uid))
    site.clock.sleep(60)
    new = site.cluster.read().workers[0]
    assert (new.name, new.private_ip) == (old.name, old.private_ip)
    assert new.uid != old.uid


def test_a_name_can_be_taken_over_from_a_dead_machine_and_never_from_a_living_one() -> None:
    site = Site(Rules(names_taken_over=True))
    first = site.launch("one")
    site.clock.sleep(200)
    old = site.cluster.read().workers[0]
    other = site.launch("other")
    site.clock.sleep(200)
    assert len(site.cluster.read().workers) == 2, "another address, another name"
    site.cloud.terminate(other)
    site.cloud.terminate(first)
    site.clock.sleep(200)
    site.launch("two")
    site.clock.sleep(200)
    new = next(node for node in site.cluster.read().workers if node.name == old.name)
    assert new.private_ip == old.private_ip
    assert (new.uid != old.uid, new.ready) == (True, True)


def test_capacity_that_is_used_up_refuses_and_comes_back_when_an_instance_goes() -> None:
    site = Site()
    site.world.plan(1000, "capacity", "a/on-demand/cpx32=1")
    first = site.launch("one")
    with pytest.raises(NoCapacity):
        site.launch("two")
    site.launch("three", zone="b")
    site.cloud.terminate(first)
    site.clock.sleep(100)
    site.launch("four")


def test_an_unknown_type_is_a_final_refusal() -> None:
    site = Site()
    with pytest.raises(Final):
        site.cloud.launch(Launch(Slot("k", "general", "a", "cpx99"), "op"))


def test_an_interrupted_spot_instance_is_announced_two_minutes_before_it_goes() -> None:
    site = Site()
    inbox = SimInbox(site.world, site.clock)
    instance_id = site.launch(market=Market.SPOT)
    site.clock.sleep(200)
    site.world.plan(site.clock.now(), "interrupt", instance_id)
    (notice,) = inbox.receive()
    assert (notice.kind, notice.deadline - notice.noticed_at) == (SpotKind.INTERRUPTION, 120)
    site.clock.sleep(119)
    assert site.state(instance_id) is InstanceState.RUNNING
    site.clock.sleep(2)
    assert site.state(instance_id) is InstanceState.TERMINATING
    inbox.acknowledge(notice)
    assert not inbox.receive()


def test_notices_may_come_twice_and_each_copy_is_acknowledged_by_itself() -> None:
    site = Site(Rules(duplicate_notices=1.0))
    inbox = SimInbox(site.world, site.clock)
    instance_id = site.launch(market=Market.SPOT)
    site.clock.sleep(200)
    site.world.plan(site.clock.now(), "rebalance", instance_id)
    first, second = inbox.receive()
    assert first == second
    inbox.acknowledge(first)
    assert list(inbox.receive()) == [second]


def test_spot_instances_live_for_a_time_drawn_from_the_seed() -> None:
    site = Site(Rules(spot_life_seconds=3600))
    for number in range(10):
        site.launch(f"k{number}", market=Market.SPOT)
    site.clock.sleep(20 * 3600)
    site.cluster.read()
    assert site.world.incidents.mail.interruptions == 10


def test_a_dark_zone_makes_its_nodes_unready_and_refuses_launches_until_it_is_back() -> None:
    site = Site()
    site.world.add_node("general", "cpx32", "a")
    site.world.add_node("general", "cpx32", "b")
    site.world.plan(site.clock.now(), "zone-down", "b")
    site.clock.sleep(60)
    assert {node.zone: node.ready for node in site.cluster.read().workers} == {"a": True, "b": False}
    with pytest.raises(NoCapacity):
        site.launch(zone="b")
    site.world.plan(site.clock.now(), "zone-up", "b")
    assert all(node.ready for node in site.cluster.read().workers)


def test_cpu_is_the_average_of_the_nodes_that_answer() -> None:
    site = Site()
    one, two = site.world.add_node("general", "cpx32", "a"), site.world.add_node("general", "cpx32", "b")
    metrics = SimMetrics(site.world, site.clock)
    idle = Rules().node_overhead_milli / one.allocatable.cpu_milli
    assert metrics.read_cpu([one.name, two.name]).value == pytest.approx(idle, abs=1e-6)
    assert metrics.read_cpu(["unknown"]).value is None


@pytest.mark.parametrize("identity", list(Identity))
def test_nodes_show_only_the_identity_they_are_told_to(identity: Identity) -> None:
    site = Site(replace(Rules(), identity=identity))
    node = site.world.add_node("general", "cpx32", "a")
    assert bool(node.provider_id) == (identity is Identity.PROVIDER)
    assert bool(node.instance_id) == (identity is not Identity.ADDRESS)
    assert node.private_ip


def test_a_cost_is_that_of_the_hours_of_our_own_instances() -> None:
    site = Site()
    site.world.add_foreign_node("a")
    site.world.add_control_plane("a")
    instance_id = site.launch()
    site.clock.sleep(3600)
    site.cluster.read()
    assert f"{site.world.machines.cost():.4f}" == "0.0168"
    site.cloud.terminate(instance_id)
    site.clock.sleep(7200)
    site.cluster.read()
    assert 0.0168 < float(site.world.machines.cost()) < 0.0171
    assert 1.0 < site.world.machines.node_seconds() / 3600 < 1.02


def test_an_incident_nobody_knows_is_refused() -> None:
    with pytest.raises(ValueError, match="no incident is called 'earthquake'"):
        Site().world.plan(0, "earthquake")
