"""Whose an instance is on EC2: nothing is terminated whose tag was not seen just before."""

from __future__ import annotations

import pytest

from ebbtide.errors import NotOurs, Retryable
from ebbtide.model.effect import Launch
from ebbtide.model.operation import Slot
from tests.servers.clouds import Ec2Bench
from tests.servers.proxy import Fault

ASK = Launch(Slot("1730000300-abc-0", "general", "eu-central-1a", "m7i.large"), "1730000300-abc")


def state_of(bench: Ec2Bench, instance_id: str) -> str:
    """As EC2 itself has it."""
    found = bench.ec2.describe_instances(InstanceIds=[instance_id])["Reservations"]
    (raw,) = (raw for reservation in found for raw in reservation["Instances"])
    return str(raw["State"]["Name"])


def test_what_ec2_does_not_show_now_is_not_terminated_whoevers_it_is(bench: Ec2Bench) -> None:
    """A description may lag behind, and is then empty."""
    launched = bench.cloud.launch(ASK)
    for instance_id in (bench.foreign_id, launched.id):
        bench.proxy.add(Fault("DescribeInstances", 1, lag=True))
        with pytest.raises(Retryable):
            bench.cloud.terminate(instance_id)
        assert state_of(bench, instance_id) == "running"
    assert bench.proxy.calls["TerminateInstances"] == 0


def test_it_is_terminated_as_soon_as_its_tag_is_shown(bench: Ec2Bench) -> None:
    launched = bench.cloud.launch(ASK)
    bench.proxy.add(Fault("DescribeInstances", 2, lag=True))
    for _ in range(2):
        with pytest.raises(Retryable):
            bench.cloud.terminate(launched.id)
    bench.cloud.terminate(launched.id)
    assert state_of(bench, launched.id) == "terminated"


def test_an_instance_of_another_cluster_in_the_same_account_is_not_terminated(bench: Ec2Bench) -> None:
    other = Ec2Bench()
    theirs = other.cloud.launch(ASK)
    with pytest.raises(NotOurs):
        bench.cloud.terminate(theirs.id)
    assert state_of(bench, theirs.id) == "running"
    other.close()


def test_what_is_going_already_is_not_asked_to_go_again_even_if_its_tags_are_gone(bench: Ec2Bench) -> None:
    """EC2 takes the tags off an instance soon after it has ended."""
    launched = bench.cloud.launch(ASK)
    bench.cloud.terminate(launched.id)
    bench.ec2.delete_tags(Resources=[launched.id], Tags=[{"Key": "ebbtide.dev/cluster"}])
    bench.cloud.terminate(launched.id)
    assert bench.proxy.calls["TerminateInstances"] == 1
