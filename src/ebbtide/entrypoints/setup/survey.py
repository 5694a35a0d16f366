"""What the nodes of a cluster say of it (its distribution, its cloud, its pools), and what the cloud says of
the machines that are there, asked only where it may be. Nothing is changed.

Only what a node says is used. What no node says stays empty, and the caller asks a person for it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import msgspec

from ebbtide import typed
from ebbtide.adapters.clouds.looking import (
    EksCluster,
    LaunchedWith,
    look_at_ec2,
    look_at_eks,
    look_at_hetzner,
)
from ebbtide.adapters.kube.dump import ASK, Kinded, read_dump
from ebbtide.adapters.kube.wire import Struct
from ebbtide.errors import UNREADABLE, EbbtideError, Usage
from ebbtide.model.pod import Resources, Taint
from ebbtide.model.snapshot import LEAVING, Market, Node

GROUPS = (
    "ebbtide.dev/pool",
    "eks.amazonaws.com/nodegroup",
    "alpha.eksctl.io/nodegroup-name",
    "karpenter.sh/nodepool",
    "kops.k8s.io/instancegroup",
    "hcloud/node-group",
)
"""Labels by which others name a group of equal nodes."""
OTHERS = re.compile(
    r"(^|\.)(kubernetes\.io|k8s\.io|k3s\.io|amazonaws\.com|eksctl\.io|karpenter\.sh|hetzner\.cloud)/"
)
OWN = "ebbtide.dev/"
PASSING_TAINTS = ("node.kubernetes.io/", "node.cloudprovider.kubernetes.io/", "ToBeDeleted", LEAVING.key)
LAUNCH_TEMPLATE = "eks.amazonaws.com/sourceLaunchTemplateId"
LAUNCH_TEMPLATE_VERSION = "eks.amazonaws.com/sourceLaunchTemplateVersion"
NODE_GROUP_IMAGE = "eks.amazonaws.com/nodegroup-image"
MANAGED = "eks.amazonaws.com/nodegroup"
CLUSTER_NAMES = ("alpha.eksctl.io/cluster-name", "kops.k8s.io/cluster", "hcloud/cluster")
CLOUDS = {"aws": "aws", "hcloud": "hetzner"}
DATACENTRE = re.compile(r"^([a-z]{3}\d)-dc\d+$")


class NodeInfo(Struct, frozen=True):
    kubelet_version: str = ""


class SurveyStatus(Struct, frozen=True):
    node_info: NodeInfo = NodeInfo()


class SurveyTold(Struct, frozen=True):
    """What is read of a node next to what the autoscaler reads."""

    status: SurveyStatus = SurveyStatus()


class Items(Struct, frozen=True):
    items: list[msgspec.Raw] = []  # noqa: RUF012 - msgspec copies it


@dataclass(frozen=True, slots=True)
class PoolDraft:
    name: str
    market: Market
    zones: tuple[str, ...]
    types: Mapping[str, tuple[Resources, int]]
    """What the smallest node of each type offers to pods, and how many pods it takes."""
    labels: tuple[tuple[str, str], ...]
    taints: tuple[Taint, ...]
    nodes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Survey:
    distribution: str
    """k3s, rke2, eks or kubeadm; the last also stands for whatever is none of the others."""
    cloud: str
    """aws, hetzner, or empty where no node says."""
    region: str
    cluster: str
    server: str
    """Address of a control-plane node inside the cluster's network; empty where none is shown."""
    pools: tuple[PoolDraft, ...]
    image: str = ""
    launch_template: str = ""
    version: str = ""
    managed: tuple[str, ...] = ()
    """Groups of nodes that somebody else replaces when one of them goes."""
    instances: tuple[str, ...] = ()
    """Ids of the machines of the workers, as far as their nodes say."""


def survey(body: bytes) -> Survey:
    """`body` is a list of Kubernetes objects with nodes in it. `Usage` for anything else."""
    nodes = read_dump(body).view.nodes
    workers = [node for node in nodes if not (node.control_plane or node.system)]
    if not workers:
        raise Usage(
            f"all {len(nodes)} nodes are control-plane or system nodes; nothing was written. "
            "Ebbtide scales workers: add one to the cluster, and run `ebbtide init` again."
        )
    version = _version(body)
    distribution = _distribution(version, nodes)
    cloud = _cloud(nodes)
    labels = {key: value for node in nodes for key, value in node.labels}
    return Survey(
        distribution,
        cloud,
        _region(workers, labels),
        next((labels[name] for name in CLUSTER_NAMES if name in labels), ""),
        next((n.private_ip for n in nodes if n.control_plane and n.private_ip), ""),
        tuple(_drafts(workers, cloud)),
        labels.get(NODE_GROUP_IMAGE, ""),
        _template(labels),
        version,
        tuple(sorted({value for node in workers for key, value in node.labels if key == MANAGED})),
        tuple(sorted(id for node in workers if (id := node.provider_id.rpartition("/")[2]))),
    )


def _version(body: bytes) -> str:
    """Of the first node that has it."""
    try:
        items = typed.decode(body, Items).items
        kinds = [(typed.decode(raw, Kinded).kind, raw) for raw in items]
        told = [typed.decode(raw, SurveyTold) for kind, raw in kinds if kind in ("Node", "")]
    except UNREADABLE as cause:
        raise Usage(
            f"a node cannot be read ({cause}); nothing was written. Make the dump with {ASK}"
        ) from cause
    return next(
        (one.status.node_info.kubelet_version for one in told if one.status.node_info.kubelet_version), ""
    )


def _distribution(version: str, nodes: Iterable[Node]) -> str:
    for mark, name in (("+k3s", "k3s"), ("+rke2", "rke2"), ("-eks-", "eks")):
        if mark in version:
            return name
    marked = any(key.startswith("eks.amazonaws.com/") for node in nodes for key, _ in node.labels)
    return "eks" if marked else "kubeadm"


def _cloud(nodes: Iterable[Node]) -> str:
    schemes = {node.provider_id.partition("://")[0] for node in nodes if node.provider_id}
    found = {CLOUDS[scheme] for scheme in schemes if scheme in CLOUDS}
    return found.pop() if len(found) == 1 else ""


def _region(workers: Iterable[Node], labels: Mapping[str, str]) -> str:
    told = labels.get("topology.kubernetes.io/region", "")
    zone = next((node.zone for node in workers if node.zone), "")
    return told or (zone[:-1] if re.fullmatch(r"[a-z-]+\d[a-z]", zone) else "")


def _template(labels: Mapping[str, str]) -> str:
    name, version = labels.get(LAUNCH_TEMPLATE, ""), labels.get(LAUNCH_TEMPLATE_VERSION, "")
    return f"{name}:{version}" if name and version else name


def _drafts(workers: list[Node], cloud: str) -> Iterable[PoolDraft]:
    groups: dict[str, list[Node]] = {}
    for node in workers:
        groups.setdefault(_group(node), []).append(node)
    for name, nodes in sorted(groups.items()):
        yield PoolDraft(
            name,
            nodes[0].market,
            tuple(sorted({_zone(node.zone, cloud) for node in nodes if node.zone})),
            _types(nodes),
            tuple(sorted(set.intersection(*(set(_own_labels(node)) for node in nodes)))),
            tuple(taint for taint in nodes[0].taints if not taint.key.startswith(PASSING_TAINTS)),
            tuple(sorted(node.name for node in nodes)),
        )


def _group(node: Node) -> str:
    """Named by the creator of the group; otherwise by what keeps pods apart: taints and the market."""
    labels = dict(node.labels)
    named = next((labels[key] for key in GROUPS if labels.get(key)), "")
    if not named:
        kept = [taint for taint in node.taints if not taint.key.startswith(PASSING_TAINTS)]
        parts = ["workers", *(taint.value or taint.key.rpartition("/")[2] for taint in kept)]
        named = "-".join(parts)
    plain = re.sub(r"[^a-z0-9.-]+", "-", named.lower()).strip("-.")[:50] or "workers"
    return f"{plain}-spot" if node.market is Market.SPOT and "spot" not in plain else plain


def _zone(zone: str, cloud: str) -> str:
    """Servers of Hetzner are launched in a location; its cloud controller labels nodes with a data centre."""
    found = DATACENTRE.match(zone) if cloud == "hetzner" else None
    return found[1] if found else zone


def _types(nodes: Iterable[Node]) -> Mapping[str, tuple[Resources, int]]:
    least: dict[str, Node] = {}
    for node in nodes:
        known = least.setdefault(node.instance_type, node)
        if node.allocatable.memory_mib < known.allocatable.memory_mib:
            least[node.instance_type] = node
    return {name: (node.allocatable, node.max_pods) for name, node in sorted(least.items()) if name}


def _own_labels(node: Node) -> Iterable[tuple[str, str]]:
    """Those that a person chose: pods may select nodes by them, so new nodes need them too."""
    return (
        (key, value)
        for key, value in node.labels
        if not OTHERS.search(key)
        and not key.startswith(OWN)
        and key not in GROUPS
        and key not in CLUSTER_NAMES
    )


SECONDS = 20
TOKEN, ENDPOINT = "HCLOUD_TOKEN", "HETZNER_ENDPOINT"


@dataclass(frozen=True, slots=True)
class CloudLook:
    launched: LaunchedWith = field(default_factory=LaunchedWith)
    eks: EksCluster | None = None
    says: str = ""
    """How the look went, for people."""


def look_at_cloud(found: Survey, cloud: str, region: str, cluster: str) -> CloudLook:
    try:
        return _hetzner(found) if cloud == "hetzner" else _aws(found, region, cluster)
    except ImportError as error:
        return CloudLook(says=f"the cloud was not asked: {error.name} is not installed")
    except EbbtideError as error:
        return CloudLook(says=f"the cloud did not help: {error}")


def _hetzner(found: Survey) -> CloudLook:
    token = os.environ.get(TOKEN, "").strip()
    if not token:
        return CloudLook(says=f"the cloud was not asked: {TOKEN} is not set")
    from ebbtide.adapters.clouds.hetzner import make_client

    client = make_client(token, os.environ.get(ENDPOINT, ""), SECONDS)
    return _told(look_at_hetzner(client, set(found.instances)), None)


def _aws(found: Survey, region: str, cluster: str) -> CloudLook:
    import boto3

    from ebbtide.adapters.clouds.aws import make_client

    if not region or boto3.Session().get_credentials() is None:
        return CloudLook(says="the cloud was not asked: there are no credentials of AWS, or no region")
    launched = look_at_ec2(make_client("ec2", region, "", SECONDS), found.instances)
    eks = None
    if found.distribution == "eks":
        eks = look_at_eks(make_client("eks", region, "", SECONDS), cluster)
    return _told(launched, eks)


def _told(launched: LaunchedWith, eks: EksCluster | None) -> CloudLook:
    if launched == LaunchedWith():
        return CloudLook(launched, eks, "the cloud lists none of the workers")
    return CloudLook(launched, eks, "image, networks and groups are those of the workers, as the cloud says")
