"""Machines that somebody else launched, as `ebbtide adopt` finds and tags them.

Tagging is the only change, and repeating it is harmless. What another autoscaler looks after is refused: it
would replace every machine that Ebbtide removes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.aws_errors import GONE, Answered, translated
from ebbtide.adapters.clouds.hetzner_errors import translated as translated_hetzner
from ebbtide.adapters.clouds.identity import label_value, read_label_value
from ebbtide.model.node import Node

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
class Machine:
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
    def find(self, nodes: Iterable[Node]) -> Mapping[str, Machine]:
        """The machine of each node, by the name of the node; those that are not found are left out."""

    def tag(self, machine: Machine, cluster: str, pool: str) -> None:
        """Repeating it is harmless. Other tags stay as they are."""


class Ec2Adopter:
    def __init__(self, client: Any) -> None:
        self._client = client

    def find(self, nodes: Iterable[Node]) -> Mapping[str, Machine]:
        return {node.name: found for node in nodes if (found := self._of(node)) is not None}

    def tag(self, machine: Machine, cluster: str, pool: str) -> None:
        tags = [{"Key": identity.CLUSTER, "Value": cluster}, {"Key": identity.POOL, "Value": pool}]
        with translated(f"tagging of {machine.id}"):
            self._client.create_tags(Resources=[machine.id], Tags=tags)

    def _of(self, node: Node) -> Machine | None:
        """By its id; without one by its address, if just one machine has it."""
        id = node.instance_id or _last_part(node.provider_id)
        asked: dict[str, Any] = {"InstanceIds": [id]}
        if not id:
            states = {"Name": "instance-state-name", "Values": ["pending", "running"]}
            asked = {"Filters": [{"Name": "private-ip-address", "Values": [node.private_ip]}, states]}
        try:
            with translated(f"looking for the instance of node {node.name}", GONE):
                page = self._client.describe_instances(**asked)
        except Answered:
            return None
        found = [_ec2_machine(raw) for part in page["Reservations"] for raw in part["Instances"]]
        return found[0] if len(found) == 1 else None


class HetznerAdopter:
    def __init__(self, client: Client) -> None:
        self._client = client
        self._servers: dict[str, BoundServer] = {}

    def find(self, nodes: Iterable[Node]) -> Mapping[str, Machine]:
        with translated_hetzner("the list of servers"):
            servers = self._client.servers.get_all()
        self._servers = {str(server.id): server for server in servers}
        by_address: dict[str, list[BoundServer]] = {}
        for server in servers:
            for address in _addresses(server):
                by_address.setdefault(address, []).append(server)
        found: dict[str, Machine] = {}
        for node in nodes:
            id = node.instance_id or _last_part(node.provider_id)
            at = by_address.get(node.private_ip, [])
            named = self._servers.get(id) if id else (at[0] if len(at) == 1 else None)
            if named is not None:
                found[node.name] = _hetzner_machine(named)
        return found

    def tag(self, machine: Machine, cluster: str, pool: str) -> None:
        server = self._servers[machine.id]
        ours = {identity.CLUSTER: label_value(cluster), identity.POOL: label_value(pool)}
        with translated_hetzner(f"labelling of server {machine.id}"):
            server.update(labels={**(server.labels or {}), **ours})


def _last_part(provider_id: str) -> str:
    return provider_id.rpartition("/")[2]


def _ec2_machine(raw: Mapping[str, Any]) -> Machine:
    tags = {tag["Key"]: tag["Value"] for tag in raw.get("Tags", ())}
    return Machine(
        raw["InstanceId"], raw.get("InstanceType", ""), raw["State"]["Name"] in ("pending", "running"), tags
    )


def _hetzner_machine(server: BoundServer) -> Machine:
    labels = server.labels or {}
    ours = {key: read_label_value(labels[key]) for key in (identity.CLUSTER, identity.POOL) if key in labels}
    type_name = (server.server_type.name if server.server_type else "") or ""
    return Machine(str(server.id), type_name, server.status != "deleting", {**labels, **ours})


def _addresses(server: BoundServer) -> Iterator[str]:
    yield from (net.ip for net in server.private_net or () if net.ip)
    if server.public_net and server.public_net.ipv4 and server.public_net.ipv4.ip:
        yield server.public_net.ipv4.ip
