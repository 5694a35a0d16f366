"""What every cloud must do.

A cloud is plugged in by a `Lab` of its own: how to reach it, how to ask for a node there, and how to
let time pass until what was begun is over. Add it to `LABS` and every test below runs over it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Protocol

import pytest

from ebbtide.errors import NoCapacity, NotOurs
from ebbtide.model.effect import Launch
from ebbtide.model.operation import Slot
from ebbtide.model.snapshot import InstanceState, Market
from ebbtide.ports import Cloud
from ebbtide.simulator.run.persistent import FileCloud, WorldFile
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.world import World, pool
from tests.servers.clouds import Ec2Bench, HetznerBench
from tests.servers.proxy import Fault

POOLS = (pool("general"),)


class Lab(Protocol):
    foreign_id: str
    """An instance in the same account that does not carry the cluster's tag."""
    zones: Mapping[str, str]
    """What the zones `a` and `b` of these tests are called there."""
    type_name: str

    @property
    def cloud(self) -> Cloud: ...

    def settle(self) -> None:
        """Let everything that was begun come to its end."""

    def exhaust(self, zone: str) -> None:
        """From now on this zone has no capacity for the slots of these tests."""

    def close(self) -> None: ...


class SimLab:
    zones: Mapping[str, str] = {"a": "a", "b": "b"}
    type_name = "cpx32"

    def __init__(self, folder: Path) -> None:  # a lab may need a folder; this one does not
        self.clock = VirtualClock(1_700_000_000)
        self.world = World(Rules(), POOLS, seed=1, now=self.clock.now())
        foreign = self.world.add_foreign_node("a")
        self.foreign_id = foreign.provider_id.rsplit("/", 1)[1]
        self.cloud: Cloud = SimCloud(self.world, self.clock)

    def settle(self) -> None:
        self.clock.sleep(120)

    def exhaust(self, zone: str) -> None:
        self.world.plan(self.clock.now(), "capacity", f"{zone}/on-demand/cpx32=0")

    def close(self) -> None:
        return


class FileLab:
    """The simulator kept in a file, as separate processes use it: a fresh handle for every look."""

    zones = SimLab.zones
    type_name = SimLab.type_name

    def __init__(self, folder: Path) -> None:
        self.sim = SimLab(folder)
        self.foreign_id = self.sim.foreign_id
        self.file = WorldFile(folder / "world.json", self.sim.clock)
        self.file.create(self.sim.world)

    @property
    def cloud(self) -> Cloud:
        return FileCloud(WorldFile(self.file.path, self.sim.clock))

    def settle(self) -> None:
        self.sim.settle()

    def exhaust(self, zone: str) -> None:
        with self.file.changing() as (world, clock):
            world.plan(clock.now(), "capacity", f"{zone}/on-demand/cpx32=0")

    def close(self) -> None:
        return


class Ec2Lab:
    zones: Mapping[str, str] = {"a": "eu-central-1a", "b": "eu-central-1b"}
    type_name = "m7i.large"

    def __init__(self, folder: Path) -> None:
        self._bench = Ec2Bench()
        self.foreign_id = self._bench.foreign_id
        self.cloud: Cloud = self._bench.cloud

    def settle(self) -> None:
        """moto is done as soon as it answers."""

    def exhaust(self, zone: str) -> None:
        place = {"Placement.AvailabilityZone": self.zones[zone]}
        self._bench.proxy.add(Fault("RunInstances", 99, "InsufficientInstanceCapacity", 500, where=place))

    def close(self) -> None:
        self._bench.close()


class HetznerLab:
    zones: Mapping[str, str] = {"a": "fsn1", "b": "nbg1"}
    type_name = "cpx32"

    def __init__(self, folder: Path) -> None:
        self._bench = HetznerBench()
        self.foreign_id = self._bench.foreign_id
        self.cloud: Cloud = self._bench.cloud

    def settle(self) -> None:
        self._bench.server.boot_all()

    def exhaust(self, zone: str) -> None:
        self._bench.server.closed_locations.add(self.zones[zone])

    def close(self) -> None:
        self._bench.close()


LABS: dict[str, Callable[[Path], Lab]] = {
    "simulator": SimLab,
    "simulator in a file": FileLab,
    "EC2": Ec2Lab,
    "Hetzner": HetznerLab,
}


@pytest.fixture(params=sorted(LABS))
def lab(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Lab]:
    made = LABS[request.param](tmp_path)
    yield made
    made.close()


def ask(lab: Lab, key: str = "op-1-0", zone: str = "a") -> Launch:
    return Launch(Slot(key, "general", lab.zones[zone], lab.type_name, Market.ON_DEMAND), "op-1")


def state_of(lab: Lab, instance_id: str) -> InstanceState:
    found = {instance.id: instance.state for instance in lab.cloud.list_instances()}
    return found.get(instance_id, InstanceState.GONE)


def test_a_launched_instance_is_what_was_asked_for(lab: Lab) -> None:
    instance = lab.cloud.launch(ask(lab, zone="b"))
    assert (instance.key, instance.pool, instance.zone) == ("op-1-0", "general", lab.zones["b"])
    assert (instance.instance_type, instance.market) == (lab.type_name, Market.ON_DEMAND)
    assert instance.alive


def test_a_repeated_launch_finds_the_instance_of_the_first(lab: Lab) -> None:
    first = lab.cloud.launch(ask(lab))
    lab.settle()
    again = lab.cloud.launch(ask(lab))
    assert again.id == first.id
    assert [i.id for i in lab.cloud.list_instances() if i.key == "op-1-0"] == [first.id]


def test_another_key_gets_another_instance(lab: Lab) -> None:
    assert lab.cloud.launch(ask(lab, "op-1-0")).id != lab.cloud.launch(ask(lab, "op-1-1")).id


def test_a_launched_instance_is_listed_and_comes_to_run(lab: Lab) -> None:
    instance = lab.cloud.launch(ask(lab))
    lab.settle()
    assert state_of(lab, instance.id) is InstanceState.RUNNING


def test_a_listed_instance_says_who_it_is(lab: Lab) -> None:
    launched = lab.cloud.launch(ask(lab))
    lab.settle()
    listed = next(i for i in lab.cloud.list_instances() if i.id == launched.id)
    assert listed.provider_id == launched.provider_id != ""
    assert listed.private_ip != ""
    assert listed.launched_at > 0
    assert (listed.key, listed.pool, listed.zone) == (launched.key, launched.pool, launched.zone)


def test_no_capacity_is_a_definite_answer_and_leaves_nothing_behind(lab: Lab) -> None:
    lab.exhaust("a")
    with pytest.raises(NoCapacity):
        lab.cloud.launch(ask(lab, zone="a"))
    lab.settle()
    assert not [i for i in lab.cloud.list_instances() if i.key == "op-1-0"]


def test_after_no_capacity_the_same_key_may_be_used_in_another_zone(lab: Lab) -> None:
    lab.exhaust("a")
    with pytest.raises(NoCapacity):
        lab.cloud.launch(ask(lab, zone="a"))
    assert lab.cloud.launch(ask(lab, zone="b")).zone == lab.zones["b"]


def test_a_terminated_instance_is_never_shown_as_alive_again(lab: Lab) -> None:
    instance = lab.cloud.launch(ask(lab))
    lab.settle()
    lab.cloud.terminate(instance.id)
    assert state_of(lab, instance.id) in (InstanceState.TERMINATING, InstanceState.GONE)
    lab.settle()
    assert state_of(lab, instance.id) is InstanceState.GONE


def test_terminating_what_is_going_or_gone_is_success(lab: Lab) -> None:
    instance = lab.cloud.launch(ask(lab))
    lab.cloud.terminate(instance.id)
    lab.cloud.terminate(instance.id)
    lab.settle()
    lab.cloud.terminate(instance.id)
    assert state_of(lab, instance.id) is InstanceState.GONE


def test_an_instance_may_be_terminated_while_it_still_boots(lab: Lab) -> None:
    instance = lab.cloud.launch(ask(lab))
    lab.cloud.terminate(instance.id)
    lab.settle()
    assert state_of(lab, instance.id) is InstanceState.GONE


def test_instances_without_the_tag_of_the_cluster_are_not_listed(lab: Lab) -> None:
    assert lab.foreign_id not in [instance.id for instance in lab.cloud.list_instances()]


def test_an_instance_without_the_tag_of_the_cluster_is_never_terminated(lab: Lab) -> None:
    with pytest.raises(NotOurs):
        lab.cloud.terminate(lab.foreign_id)
