"""What people's commands ask of the clouds, outside of any tick: what machines were launched with (`ebbtide
init`), what the clouds list as prices (`ebbtide prices update`), and machines that somebody else launched
(`ebbtide adopt`).

Tagging what is adopted is the only change, and repeating it is harmless. What another autoscaler looks
after is refused: it would replace every machine that Ebbtide removes.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Protocol

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.aws_errors import GONE, AwsAnswered, translated
from ebbtide.adapters.clouds.hetzner import translated as translated_hetzner
from ebbtide.adapters.clouds.identity import label_value, read_label_value
from ebbtide.core.prices import PriceBook
from ebbtide.model.pool import Price
from ebbtide.model.snapshot import Market, Node

if TYPE_CHECKING:
    from hcloud import Client
    from hcloud.servers.client import BoundServer

AUTO_SCALING_GROUP = "aws:autoscaling:groupName"
OTHERS = {
    AUTO_SCALING_GROUP: "Auto Scaling group",
    "karpenter.sh/nodepool": "Karpenter node pool",
    "hcloud/node-group": "cluster-autoscaler node group",
}
"""Tags of those who replace what goes, and what people call them."""


@dataclass(frozen=True, slots=True)
class LaunchedWith:
    """Empty if it is unknown."""

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


def read_ec2_spot(client: Any, type_names: Iterable[str], zones: Iterable[str], day: str) -> PriceBook:
    """The spot prices of now. Where zones differ the highest counts, so no saving is promised too much.

    `day` is today, ISO 8601. A type that EC2 has no price for is left out.
    """
    wanted = set(zones)
    found: dict[tuple[str, str], tuple[Any, Decimal]] = {}
    with translated("reading the spot prices"):
        pages = client.get_paginator("describe_spot_price_history").paginate(
            InstanceTypes=sorted(set(type_names)),
            ProductDescriptions=["Linux/UNIX"],
            StartTime=f"{day}T00:00:00Z",
        )
        for page in pages:
            for row in page["SpotPriceHistory"]:
                key = (row["InstanceType"], row["AvailabilityZone"])
                latest = (row["Timestamp"], Decimal(row["SpotPrice"]))
                if (not wanted or key[1] in wanted) and latest[1] > 0:
                    found[key] = max(found.get(key, latest), latest)
    highest: dict[str, Decimal] = {}
    for (name, _), (_, per_hour) in found.items():
        highest[name] = max(highest.get(name, per_hour), per_hour)
    return PriceBook(
        {(n, Market.SPOT): Price(p, "USD", "EC2 spot price history", day) for n, p in highest.items()}
    )


def read_hetzner(client: Client, locations: Iterable[str], day: str) -> PriceBook:
    """Net prices of the API; where locations differ the highest counts. Without any named, all count."""
    wanted = set(locations)
    with translated_hetzner("reading the prices"):
        pricing = client.request("GET", "/pricing")["pricing"]
        rows = [
            (entry["name"], Decimal(offer["price_hourly"]["net"]))
            for entry in pricing["server_types"]
            for offer in entry["prices"]
            if not wanted or offer["location"] in wanted
        ]
        currency = str(pricing["currency"])
    highest: dict[str, Decimal] = {}
    for name, per_hour in rows:
        if per_hour > 0:
            highest[name] = max(highest.get(name, per_hour), per_hour)
    return PriceBook(
        {(n, Market.ON_DEMAND): Price(p, currency, "Hetzner API", day) for n, p in highest.items()}
    )


@dataclass(frozen=True, slots=True)
class ListedMachine:
    id: str
    instance_type: str
    running: bool
    tags: Mapping[str, str] = field(default_factory=dict)

    @property
    def cluster(self) -> str:
        return self.tags.get(identity.CLUSTER, "")

    @property
    def pool(self) -> str:
        return self.tags.get(identity.POOL, "")

    @property
    def keeper(self) -> str:
        """Who else looks after it; empty where nobody does."""
        return next((f"{what} {self.tags[tag]}" for tag, what in OTHERS.items() if tag in self.tags), "")


class Adopter(Protocol):
    def find(self, nodes: Iterable[Node]) -> Mapping[str, ListedMachine]:
        """The machine of each node, by the name of the node; those that are not found are left out."""

    def tag(self, machine: ListedMachine, cluster: str, pool: str) -> None:
        """Repeating it is harmless. Other tags stay as they are."""


class Ec2Adopter:
    def __init__(self, client: Any) -> None:
        self._client = client

    def find(self, nodes: Iterable[Node]) -> Mapping[str, ListedMachine]:
        return {node.name: found for node in nodes if (found := self._of(node)) is not None}

    def tag(self, machine: ListedMachine, cluster: str, pool: str) -> None:
        tags = [{"Key": identity.CLUSTER, "Value": cluster}, {"Key": identity.POOL, "Value": pool}]
        with translated(f"tagging of {machine.id}"):
            self._client.create_tags(Resources=[machine.id], Tags=tags)

    def _of(self, node: Node) -> ListedMachine | None:
        """By its id; without one by its address, if just one machine has it."""
        id = node.instance_id or _last_part(node.provider_id)
        asked: dict[str, Any] = {"InstanceIds": [id]}
        if not id:
            states = {"Name": "instance-state-name", "Values": ["pending", "running"]}
            asked = {"Filters": [{"Name": "private-ip-address", "Values": [node.private_ip]}, states]}
        try:
            with translated(f"looking for the instance of node {node.name}", GONE):
                page = self._client.describe_instances(**asked)
        except AwsAnswered:
            return None
        found = [_ec2_machine(raw) for part in page["Reservations"] for raw in part["Instances"]]
        return found[0] if len(found) == 1 else None


class HetznerAdopter:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._servers: dict[str, BoundServer] = {}

    def find(self, nodes: Iterable[Node]) -> Mapping[str, ListedMachine]:
        with translated_hetzner("the list of servers"):
            servers = self._client.servers.get_all()
        self._servers = {str(server.id): server for server in servers}
        by_address: dict[str, list[BoundServer]] = {}
        for server in servers:
            for address in _addresses(server):
                by_address.setdefault(address, []).append(server)
        found: dict[str, ListedMachine] = {}
        for node in nodes:
            id = node.instance_id or _last_part(node.provider_id)
            at = by_address.get(node.private_ip, [])
            named = self._servers.get(id) if id else (at[0] if len(at) == 1 else None)
            if named is not None:
                found[node.name] = _hetzner_machine(named)
        return found

    def tag(self, machine: ListedMachine, cluster: str, pool: str) -> None:
        server = self._servers[machine.id]
        ours = {identity.CLUSTER: label_value(cluster), identity.POOL: label_value(pool)}
        with translated_hetzner(f"labelling of server {machine.id}"):
            server.update(labels={**(server.labels or {}), **ours})


def _last_part(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _ec2_machine(raw: Mapping[str, Any]) -> ListedMachine:
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
    return ListedMachine(
        raw["InstanceId"], raw.get("InstanceType", ""), raw["State"]["Name"] in ("pending", "running"), tags
    )


def _hetzner_machine(server: BoundServer) -> ListedMachine:
    labels = server.labels or {}
    ours = {key: read_label_value(labels[key]) for key in (identity.CLUSTER, identity.POOL) if key in labels}
    type_name = (server.server_type.name if server.server_type else "") or ""
    return ListedMachine(str(server.id), type_name, server.status != "deleting", {**labels, **ours})


def _addresses(server: BoundServer) -> Iterator[str]:
    yield from (net.ip for net in server.private_net or () if net.ip)
    if server.public_net and server.public_net.ipv4 and server.public_net.ipv4.ip:
        yield server.public_net.ipv4.ip
