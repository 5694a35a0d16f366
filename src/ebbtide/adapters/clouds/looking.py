"""What the machines of a cluster were launched with, as `ebbtide init` looks it up. Nothing is changed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ebbtide.adapters.clouds.aws_errors import translated
from ebbtide.adapters.clouds.hetzner_errors import translated as translated_hetzner

if TYPE_CHECKING:
    from hcloud import Client


@dataclass(frozen=True, slots=True)
class LaunchedWith:
    """Empty is what nobody could tell."""

    image: str = ""
    subnets: Mapping[str, str] = field(default_factory=dict)
    security_groups: tuple[str, ...] = ()
    instance_profile: str = ""
    key_name: str = ""
    networks: tuple[int, ...] = ()
    firewalls: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class EksCluster:
    server_url: str
    ca_certificate: str
    service_cidr: str


def look_at_ec2(client: Any, ids: Sequence[str]) -> LaunchedWith:
    """Of those that are there; where they differ, as the first of them."""
    by_id = [{"Name": "instance-id", "Values": list(ids)}]
    with translated("looking at the instances of the cluster"):
        pages = client.get_paginator("describe_instances").paginate(Filters=by_id)
        found = [raw for page in pages for part in page["Reservations"] for raw in part["Instances"]]
    if not found:
        return LaunchedWith()
    first: Mapping[str, Any] = min(found, key=lambda raw: str(raw["InstanceId"]))
    profile = str(first.get("IamInstanceProfile", {}).get("Arn", ""))
    return LaunchedWith(
        image=first.get("ImageId", ""),
        subnets={raw["Placement"]["AvailabilityZone"]: raw["SubnetId"] for raw in found if "SubnetId" in raw},
        security_groups=tuple(group["GroupId"] for group in first.get("SecurityGroups", ())),
        instance_profile=profile.rpartition("/")[2],
        key_name=first.get("KeyName", ""),
    )


def look_at_eks(client: Any, name: str) -> EksCluster:
    with translated(f"looking at the EKS cluster {name}"):
        found = client.describe_cluster(name=name)["cluster"]
    return EksCluster(
        found.get("endpoint", ""),
        found.get("certificateAuthority", {}).get("data", ""),
        found.get("kubernetesNetworkConfig", {}).get("serviceIpv4Cidr", ""),
    )


def look_at_hetzner(client: Client, ids: Collection[str]) -> LaunchedWith:
    with translated_hetzner("the list of servers"):
        servers = [server for server in client.servers.get_all() if str(server.id) in ids]
    if not servers:
        return LaunchedWith()
    first = min(servers, key=lambda server: server.id or 0)
    public = first.public_net
    firewalls = [each.firewall.id for each in (public.firewalls if public else None) or ()]
    return LaunchedWith(
        image=str((first.image.name or first.image.id) if first.image else ""),
        networks=tuple(
            sorted({id for net in first.private_net or () if net.network and (id := net.network.id)})
        ),
        firewalls=tuple(sorted(id for id in firewalls if id)),
    )
