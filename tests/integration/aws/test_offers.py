"""What is asked of EC2, what it refuses, and what a person is told then: nothing is ever left behind."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.aws import Ec2Cloud, Ec2Settings
from ebbtide.errors import ConfigError, Final, NoCapacity, NotOurs, OfferRefused, Retryable, Unanswered
from ebbtide.model.effect import Launch
from ebbtide.model.events import Transition
from ebbtide.model.operation import Slot, SlotState
from ebbtide.model.snapshot import InstanceState, Market
from ebbtide.narrate import facts_in
from tests.builders import make_pool, make_type
from tests.servers.clouds import EC2_JOIN, EC2_POOL, EC2_ZONES, Ec2Bench
from tests.servers.proxy import Fault
from tests.servers.stage import Stage

KEY = "1730000300-abc-0"


def ask(type_name: str = "m7i.large", zone: str = "eu-central-1a", **slot: Any) -> Launch:
    return Launch(
        Slot(**{"key": KEY, "pool": "general", "zone": zone, "instance_type": type_name, **slot}), "op"
    )


def test_a_launch_carries_its_tags_and_demands_version_2_of_the_metadata_service(bench: Ec2Bench) -> None:
    bench.cloud.launch(ask())
    (made,) = bench.made()
    tags = {tag["Key"]: tag["Value"] for tag in made["Tags"]}
    assert tags[identity.CLUSTER] == bench.settings.cluster
    assert (tags[identity.POOL], tags[identity.SLOT], tags[identity.OPERATION]) == ("general", KEY, "op")
    form = next(form for form in bench.proxy.forms if form["Action"] == "RunInstances")
    assert form["MetadataOptions.HttpTokens"] == "required"
    assert form["MetadataOptions.HttpPutResponseHopLimit"] == "1"
    assert (form["MinCount"], form["MaxCount"]) == ("1", "1")


def test_the_user_data_names_the_parameter_and_not_the_token(bench: Ec2Bench) -> None:
    bench.cloud.launch(ask())
    form = next(form for form in bench.proxy.forms if form["Action"] == "RunInstances")
    script = base64.b64decode(form["UserData"]).decode()
    assert "/ebbtide/shop/join-token" in script
    assert 'server: "https://10.0.0.2:6443"' in script


def test_a_spot_slot_is_asked_of_the_spot_market(bench: Ec2Bench) -> None:
    assert bench.cloud.launch(ask(market=Market.SPOT)).market is Market.SPOT
    form = next(form for form in bench.proxy.forms if form["Action"] == "RunInstances")
    assert form["InstanceMarketOptions.MarketType"] == "spot"
    assert form["InstanceMarketOptions.SpotOptions.InstanceInterruptionBehavior"] == "terminate"


def test_a_zone_is_reached_by_its_subnet_and_a_zone_without_one_is_refused() -> None:
    bench = Ec2Bench()
    zones = [{"Name": "availability-zone", "Values": ["eu-central-1b"]}]
    subnet = bench.ec2.describe_subnets(Filters=zones)["Subnets"][0]["SubnetId"]
    settings = Ec2Settings(
        bench.settings.cluster, (EC2_POOL,), image=bench.settings.image, subnets={"eu-central-1b": subnet}
    )
    cloud = Ec2Cloud(bench.cloud._client, settings)
    assert cloud.launch(ask(zone="eu-central-1b")).zone == "eu-central-1b"
    with pytest.raises(Final, match=r"aws\.subnets"):
        cloud.launch(ask(zone="eu-central-1a"))
    bench.close()


def test_an_image_or_a_launch_template_must_be_configured() -> None:
    with pytest.raises(ConfigError, match=r"aws\.image"):
        Ec2Settings("shop", (EC2_POOL,), join=EC2_JOIN)


def test_a_launch_template_gives_what_is_not_said() -> None:
    bench = Ec2Bench()
    template = {"ImageId": bench.settings.image, "InstanceType": "m7i.large"}
    name = f"{bench.settings.cluster}-agents"
    bench.ec2.create_launch_template(LaunchTemplateName=name, LaunchTemplateData=template)
    settings = Ec2Settings(bench.settings.cluster, (EC2_POOL,), launch_template=name)
    made = Ec2Cloud(bench.cloud._client, settings).launch(ask("m7i.xlarge"))
    assert made.instance_type == "m7i.xlarge"
    bench.close()


@pytest.mark.parametrize(
    ("code", "status", "kind", "says"),
    [
        ("InsufficientInstanceCapacity", 500, NoCapacity, "no capacity for it now"),
        ("SpotMaxPriceTooLow", 400, NoCapacity, "spot price"),
        ("MaxSpotInstanceCountExceeded", 400, NoCapacity, "higher quota"),
        ("VcpuLimitExceeded", 400, NoCapacity, "higher quota"),
        ("Unsupported", 400, OfferRefused, "refuses this type there"),
        ("UnauthorizedOperation", 403, Final, "IAM policy"),
        ("AuthFailure", 401, Final, "credentials"),
        ("ExpiredToken", 400, Final, "expired"),
        ("InvalidSubnetID.NotFound", 400, Final, "aws.subnets"),
        ("IncorrectInstanceState", 400, Retryable, "not now"),
    ],
)
def test_each_refusal_has_its_meaning_and_its_next_step(
    bench: Ec2Bench, code: str, status: int, kind: type[Exception], says: str
) -> None:
    bench.proxy.refuse("RunInstances", code, status=status)
    with pytest.raises(kind, match=says) as caught:
        bench.cloud.launch(ask())
    assert code in str(caught.value)
    assert bench.made() == []


def test_a_wrong_image_is_named_with_the_key_to_correct() -> None:
    bench = Ec2Bench(image="ami-00000000")
    with pytest.raises(Final, match=r"correct aws\.image"):
        bench.cloud.launch(ask())
    bench.close()


def test_an_unknown_type_is_refused_and_said(bench: Ec2Bench) -> None:
    with pytest.raises(Final, match="type"):
        bench.cloud.launch(ask("m99.colossal"))
    assert bench.made() == []


def test_a_pool_that_is_not_configured_is_refused_before_the_cloud_is_asked(bench: Ec2Bench) -> None:
    with pytest.raises(Final, match="not configured"):
        bench.cloud.launch(ask(pool="ghosts"))
    assert bench.proxy.calls["RunInstances"] == 0


def test_what_a_changed_configuration_finds_under_its_token_is_taken(bench: Ec2Bench) -> None:
    first = bench.cloud.launch(ask())
    changed = Ec2Settings(bench.settings.cluster, (EC2_POOL,), image=bench.settings.image, key_name="ops")
    assert Ec2Cloud(bench.cloud._client, changed).launch(ask()).id == first.id
    bench.proxy.add(Fault("DescribeInstances", 1, lag=True))
    with pytest.raises(Unanswered, match="not shown yet"):
        Ec2Cloud(bench.cloud._client, changed).launch(ask())


def test_termination_protection_is_said(bench: Ec2Bench) -> None:
    made = bench.cloud.launch(ask())
    bench.proxy.refuse("TerminateInstances", "OperationNotPermitted")
    with pytest.raises(Final, match="termination protection"):
        bench.cloud.terminate(made.id)


def test_terminating_what_ec2_no_longer_knows_is_success(bench: Ec2Bench) -> None:
    bench.cloud.terminate("i-0123456789abcdef0")
    bench.cloud.terminate("aws:///eu-central-1a/i-0123456789abcdef0")
    made = bench.cloud.launch(ask())
    bench.proxy.refuse("TerminateInstances", "InvalidInstanceID.NotFound")
    bench.cloud.terminate(made.id)


def test_an_instance_of_another_cluster_is_not_terminated(bench: Ec2Bench) -> None:
    other = Ec2Bench()
    made = other.cloud.launch(ask())
    with pytest.raises(NotOurs):
        bench.cloud.terminate(made.id)
    assert other.made()[0]["State"]["Name"] == "running"
    assert bench.proxy.calls["TerminateInstances"] == 0
    other.close()


def test_a_long_list_is_read_to_its_end(bench: Ec2Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.adapters.clouds.aws.PAGE", 5)
    for number in range(7):
        bench.cloud.launch(ask(key=f"op-{number}"))
    assert len(bench.cloud.list_instances()) == 7
    assert bench.proxy.calls["DescribeInstances"] == 2


def test_no_capacity_in_one_zone_leads_to_the_next(bench: Ec2Bench) -> None:
    place = {"Placement.AvailabilityZone": "eu-central-1a"}
    bench.proxy.add(Fault("RunInstances", 99, "InsufficientInstanceCapacity", 500, where=place))
    stage = Stage(EC2_POOL)
    stage.ticks(bench.cloud, 5)
    assert [raw["Placement"]["AvailabilityZone"] for raw in bench.made()] == ["eu-central-1b"]


def test_on_demand_is_asked_for_only_after_the_spot_market_said_no() -> None:
    pool = make_pool("general", types=(make_type("m7i.large"),), zones=EC2_ZONES, market=Market.SPOT)
    bench = Ec2Bench(pools=(pool,))
    market = {"InstanceMarketOptions.MarketType": "spot"}
    bench.proxy.add(Fault("RunInstances", 99, "InsufficientInstanceCapacity", 500, where=market))
    stage = Stage(pool)
    stage.ticks(bench.cloud, 6)
    asked = [form for form in bench.proxy.forms if form["Action"] == "RunInstances"]
    assert [form.get("InstanceMarketOptions.MarketType") for form in asked] == ["spot", "spot", None]
    assert [i.market for i in bench.cloud.list_instances()] == [Market.ON_DEMAND]
    bench.close()


def test_no_capacity_anywhere_fails_with_its_reason_backs_off_and_leaks_nothing(bench: Ec2Bench) -> None:
    bench.proxy.add(Fault("RunInstances", 999, "InsufficientInstanceCapacity", 500))
    stage = Stage(EC2_POOL)
    stage.ticks(bench.cloud, 4)
    tries = bench.proxy.calls["RunInstances"]
    assert tries == len(EC2_POOL.zones) * len(EC2_POOL.types)
    assert SlotState.FAILED in [change.after for change in facts_in(stage.log(), Transition)]
    stage.tick(bench.cloud, after_seconds=10)
    assert bench.proxy.calls["RunInstances"] == tries
    assert bench.made() == []


def test_a_type_without_a_price_is_launched_only_where_none_has_one() -> None:
    pool = make_pool(
        "general", types=(make_type("m7i.large", price=None), make_type("m7i.xlarge")), zones=EC2_ZONES
    )
    bench = Ec2Bench(pools=(pool,))
    stage = Stage(pool)
    stage.ticks(bench.cloud, 5)
    assert [i.instance_type for i in bench.cloud.list_instances()] == ["m7i.xlarge"]
    bench.close()


def test_stopped_is_not_gone(bench: Ec2Bench) -> None:
    made = bench.cloud.launch(ask())
    bench.ec2.stop_instances(InstanceIds=[made.id])
    (listed,) = bench.cloud.list_instances()
    assert listed.alive
    assert listed.state is InstanceState.PENDING
