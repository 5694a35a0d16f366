"""`ebbtide init` asks EC2 and EKS what the workers were launched with; nothing is changed."""

from __future__ import annotations

from pathlib import Path

import yaml

from ebbtide.adapters.clouds.looking import LaunchedWith, look_at_ec2, look_at_eks
from tests.dumps import VERSIONS, as_dump, node, place
from tests.e2e.shell import Shell
from tests.servers.clouds import Ec2Bench
from tests.servers.moto import CREDENTIALS, shared_moto

REGION = "eu-central-1"


def launched(bench: Ec2Bench) -> str:
    made = bench.ec2.run_instances(
        ImageId=bench.settings.image, MinCount=1, MaxCount=1, InstanceType="m7i.large", KeyName="ops"
    )
    return str(made["Instances"][0]["InstanceId"])


def test_image_subnets_and_groups_are_those_of_the_workers(bench: Ec2Bench) -> None:
    id = launched(bench)
    (raw,) = bench.ec2.describe_instances(InstanceIds=[id])["Reservations"][0]["Instances"]
    found = look_at_ec2(bench.ec2, [id, "i-00000000000000000"])
    assert (found.image, found.key_name) == (bench.settings.image, "ops")
    assert found.subnets == {raw["Placement"]["AvailabilityZone"]: raw["SubnetId"]}
    assert found.security_groups == tuple(group["GroupId"] for group in raw["SecurityGroups"])
    assert look_at_ec2(bench.ec2, ["i-00000000000000000"]) == LaunchedWith()


def test_init_writes_the_join_of_the_eks_cluster_that_is_there(bench: Ec2Bench, tmp_path: Path) -> None:
    moto = shared_moto()
    eks = moto.client("eks")
    eks.create_cluster(
        name="shop-eks",
        roleArn="arn:aws:iam::123456789012:role/eks",
        resourcesVpcConfig={"subnetIds": []},
        kubernetesNetworkConfig={"serviceIpv4Cidr": "10.100.0.0/16"},
    )
    found = look_at_eks(eks, "shop-eks")
    assert found.server_url.startswith("https://")
    labels = {
        **place("m7i.large", f"{REGION}a", REGION),
        "alpha.eksctl.io/cluster-name": "shop-eks",
    }
    dump = as_dump([node("ip-1", VERSIONS["eks"], labels, f"aws:///{REGION}a/{launched(bench)}")])
    (tmp_path / "dump.json").write_bytes(dump)
    access = {**CREDENTIALS, "AWS_ENDPOINT_URL": f"http://127.0.0.1:{moto.port}"}
    shell = Shell(tmp_path)
    shell.run("init", "--dump", "dump.json", environ=access)
    written = yaml.safe_load((tmp_path / "ebbtide.yaml").read_text())
    assert written["join"] == {
        "kind": "eks",
        "cluster_name": "shop-eks",
        "server_url": found.server_url,
        "ca_certificate": found.ca_certificate,
        "service_cidr": found.service_cidr,
    }
    assert written["aws"]["image"] == bench.settings.image
    assert "The configuration is valid" in shell.run("config", "check").out
