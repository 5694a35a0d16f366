"""Launching on EC2 when the network, the cloud or the runner fails in between: one instance for one slot."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.adapters.clouds.aws import Ec2Cloud
from ebbtide.errors import Retryable, Throttled, Unanswered
from ebbtide.model.effect import Launch
from ebbtide.model.events import Transition
from ebbtide.model.operation import Slot, SlotState
from ebbtide.model.snapshot import InstanceState
from ebbtide.narrate import facts_in
from ebbtide.simulator.faults.ports import RunnerCrashed
from tests.servers.clouds import EC2_POOL, Ec2Bench
from tests.servers.proxy import Fault
from tests.servers.stage import CrashesAfterLaunch, Stage

SLOT = Slot("1730000300-abc-0", "general", "eu-central-1a", "m7i.large")
ASK = Launch(SLOT, "1730000300-abc")


def repeat_until_answered(cloud: Ec2Cloud, most: int) -> str:
    for _ in range(most):
        try:
            return cloud.launch(ASK).id
        except Unanswered:
            continue
    raise AssertionError(f"no answer to {most} launches")


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_a_launch_whose_reply_is_lost_creates_exactly_one_instance(bench: Ec2Bench, lost: int) -> None:
    bench.proxy.lose_replies("RunInstances", lost)
    answered = repeat_until_answered(bench.cloud, lost + 1)
    assert [raw["InstanceId"] for raw in bench.made()] == [answered]
    assert bench.proxy.calls["RunInstances"] == lost + 1


@pytest.mark.parametrize("lost", [1, 2, 5])
def test_the_engine_repeats_a_lost_launch_until_it_knows_its_one_instance(bench: Ec2Bench, lost: int) -> None:
    """The list lags behind as well, so only the repeated launch itself can tell."""
    bench.proxy.lose_replies("RunInstances", lost)
    bench.proxy.add(Fault("DescribeInstances", 10_000, lag=True))
    stage = Stage(EC2_POOL)
    stage.ticks(bench.cloud, lost + 5)
    (slot,), (made,) = stage.slots, bench.made()
    assert (slot.state, slot.instance_id) == (SlotState.LAUNCHED, made["InstanceId"])


def test_a_launch_that_the_network_delivers_twice_creates_one_instance(bench: Ec2Bench) -> None:
    bench.proxy.add(Fault("RunInstances", 1, repeat=True))
    bench.cloud.launch(ASK)
    assert len(bench.made()) == 1


def test_two_runners_that_launch_the_same_slot_get_the_same_instance(bench: Ec2Bench) -> None:
    other = bench.connect()
    assert other.launch(ASK).id == bench.cloud.launch(ASK).id
    other.close()
    assert len(bench.made()) == 1


@pytest.mark.parametrize(("code", "status"), [("InternalError", 500), ("Unavailable", 503)])
def test_a_failing_cloud_gave_no_answer(bench: Ec2Bench, code: str, status: int) -> None:
    bench.proxy.refuse("RunInstances", code, status=status)
    with pytest.raises(Unanswered, match="may have been done"):
        bench.cloud.launch(ASK)


def test_a_throttled_launch_was_not_done_and_may_be_repeated(bench: Ec2Bench) -> None:
    bench.proxy.refuse("RunInstances", "RequestLimitExceeded", status=503)
    with pytest.raises(Throttled):
        bench.cloud.launch(ASK)
    assert bench.made() == []
    assert bench.cloud.launch(ASK).alive


def test_a_cloud_that_was_never_reached_did_nothing(bench: Ec2Bench) -> None:
    bench.proxy.stop()
    with pytest.raises(Retryable, match="cannot be reached"):
        bench.cloud.launch(ASK)


def test_a_crash_between_launch_and_record_leaves_no_instance_unaccounted_for(bench: Ec2Bench) -> None:
    stage = Stage(EC2_POOL)
    with pytest.raises(RunnerCrashed):
        stage.ticks(CrashesAfterLaunch(bench.cloud), 5)
    (made,) = bench.made()
    assert stage.slots[0].instance_id == ""
    successor = bench.connect()
    stage.tick(successor, after_seconds=stage.settings.lock_ttl_seconds + 1)
    successor.close()
    assert [slot.instance_id for slot in stage.slots] == [made["InstanceId"]]
    assert len(bench.made()) == 1


def test_an_instance_whose_record_was_lost_is_adopted_and_reclaimed(bench: Ec2Bench) -> None:
    stage = Stage(EC2_POOL)
    worker = bench.cloud.launch(Launch(replace(SLOT, key="1730000000-xyz-0"), "1730000000-xyz"))
    stage.join(worker)
    lost = bench.cloud.launch(ASK)
    stage.ticks(bench.cloud, 80)
    states = {instance.id: instance.state for instance in bench.cloud.list_instances()}
    assert states == {worker.id: InstanceState.RUNNING, lost.id: InstanceState.GONE}
    assert any("adopt" in said for said in stage.said)


def test_a_node_that_never_joins_is_gone_after_the_join_timeout(bench: Ec2Bench) -> None:
    stage = Stage(EC2_POOL, join_timeout_seconds=240)
    stage.ticks(bench.cloud, 5)
    (launched,) = bench.cloud.list_instances()
    assert launched.alive
    stage.ticks(bench.cloud, 10)
    states = {i.id: i.state for i in bench.cloud.list_instances()}
    assert states[launched.id] is InstanceState.GONE
    changes = facts_in(stage.log(), Transition)
    assert (launched.id, SlotState.RECLAIMING) in [(one.instance_id, one.after) for one in changes]


def test_a_node_that_joins_is_a_worker_and_stays(bench: Ec2Bench) -> None:
    stage = Stage(EC2_POOL, join_timeout_seconds=240)
    stage.ticks(bench.cloud, 5)
    (launched,) = bench.cloud.list_instances()
    stage.join(launched)
    stage.ticks(bench.cloud, 20)
    assert [i.alive for i in bench.cloud.list_instances()] == [True]
    assert stage.store.load().operation is None
