"""Where the volumes of a pod bind it, and what is said of those that cannot be followed."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import msgspec
import pytest

from ebbtide.adapters.kube.cluster import (
    IMPOSSIBLE,
    Storage,
    VolumeSeen,
    complete_nodes,
    complete_pod,
    list_pods_on,
    read_volume,
)
from ebbtide.adapters.kube.objects import PodSeen
from ebbtide.adapters.kube.scheduling import Understanding
from ebbtide.adapters.kube.wire import WireVolume
from ebbtide.model.pod import Pod, Requirement, Scheduling, SelectorOperator
from tests.builders import make_node, make_pod
from tests.integration.kube.objects import Json, seen_pod
from tests.unit.kube.scripted import Answer, Server, connected

POD = make_pod("web-1", namespace="shop")
DISK = (Requirement("disk", SelectorOperator.IN, ("ssd",)),)
RACK = (
    (Requirement("rack", SelectorOperator.IN, ("r1",)),),
    (Requirement("rack", SelectorOperator.IN, ("r2",)),),
)
ZONE = "topology.kubernetes.io/zone"


def bound(*volumes: VolumeSeen, pod: Pod = POD, **claims: str) -> Pod:
    """The pod with these claims, by what they are bound to."""
    known = {("shop", claim): volume for claim, volume in claims.items() if volume != "-"}
    storage = Storage(known, {volume.name: volume for volume in volumes})
    return complete_pod(PodSeen(pod, tuple(claims)), storage)


def read(affinity: Any = None, labels: Any = None) -> VolumeSeen:
    spec: Json = {} if affinity is None else {"nodeAffinity": {"required": {"nodeSelectorTerms": affinity}}}
    document = {"metadata": {"name": "v", "labels": labels or {}}, "spec": spec}
    return read_volume(msgspec.json.decode(json.dumps(document), type=WireVolume), Understanding())


def asks(key: str, *values: str, operator: str = "In") -> Json:
    return {"matchExpressions": [{"key": key, "operator": operator, "values": list(values)}]}


@pytest.mark.parametrize("first", ["-", "", "gone"], ids=["no claim", "not bound yet", "no volume"])
def test_a_claim_that_cannot_be_followed_does_not_hide_the_next(first: str) -> None:
    pod = bound(VolumeSeen("v", zones=("b",)), one=first, two="v")
    assert (pod.volumes, pod.scheduling.volume_zones) == (("v",), ("b",))
    problems = {
        "-": ("a volume claim one that is not there",),
        "": (),
        "gone": ("a volume gone that is not there",),
    }
    assert pod.scheduling.unsupported == problems[first]


def test_a_claim_of_another_namespace_is_another_claim() -> None:
    storage = Storage({("other", "data"): "v"}, {"v": VolumeSeen("v")})
    assert complete_pod(PodSeen(POD, ("data",)), storage).scheduling.unsupported


def test_a_pod_is_where_all_its_volumes_are_or_nowhere() -> None:
    a, ab, b = (VolumeSeen(name, zones=tuple(name)) for name in ("a", "ab", "b"))
    assert bound(ab, a, one="ab", two="a").scheduling.volume_zones == ("a",)
    apart = bound(a, b, one="a", two="b").scheduling
    assert (apart.volume_zones, len(apart.unsupported)) == (IMPOSSIBLE, 1)


def test_what_a_volume_asks_of_its_node_comes_next_to_what_the_pod_asks() -> None:
    picky = replace(POD, scheduling=Scheduling(node_affinity=(DISK,)))
    volume = VolumeSeen("v", terms=RACK)
    assert bound(volume, pod=picky, one="v").scheduling.node_affinity == tuple(DISK + term for term in RACK)
    assert bound(volume, one="v").scheduling.node_affinity == RACK


def test_one_local_volume_or_problem_is_enough() -> None:
    plain, local = VolumeSeen("p"), VolumeSeen("l", local=True)
    assert bound(local, plain, one="l", two="p").local_storage
    assert not bound(plain, one="p").local_storage
    assert bound(plain, pod=replace(POD, local_storage=True), one="p").local_storage
    odd = VolumeSeen("o", problem="riddle")
    assert bound(odd, plain, one="o", two="p").scheduling.unsupported == ("riddle",)


@pytest.mark.parametrize(
    ("affinity", "zones"),
    [
        ([asks(ZONE, "b", "a")], ("a", "b")),
        ([asks(ZONE, "a"), asks("topology.ebs.csi.aws.com/zone", "b")], ("a", "b")),
        ([asks(ZONE, "a", operator="NotIn")], ()),
        ([asks("rack", "r1")], ()),
        ([asks(ZONE, "a"), asks("rack", "r1")], ()),
        (
            [
                {
                    "matchExpressions": [
                        *asks(ZONE, "a")["matchExpressions"],
                        *asks("rack", "r")["matchExpressions"],
                    ]
                }
            ],
            (),
        ),
    ],
)
def test_a_volume_is_in_zones_only_where_it_says_nothing_else(affinity: Any, zones: tuple[str, ...]) -> None:
    found = read(affinity)
    assert (found.zones, bool(found.terms)) == (zones, not zones)


def test_a_volume_says_by_its_labels_or_its_affinity_where_it_is() -> None:
    assert read(labels={ZONE: "a__b"}).zones == ("a", "b")
    assert read(labels={"failure-domain.beta.kubernetes.io/zone": "c"}).zones == ("c",)
    assert read([asks(ZONE, "b")], {ZONE: "a"}).zones == ("b",)
    cloud = asks("instance.hetzner.cloud/provided-by", "cloud")["matchExpressions"]
    place = asks("csi.hetzner.cloud/location", "nbg1")["matchExpressions"]
    assert read([{"matchExpressions": [*cloud, *place]}]).zones == ("nbg1",)
    robot = asks("instance.hetzner.cloud/provided-by", "robot")["matchExpressions"]
    assert read([{"matchExpressions": [*robot, *place]}]).zones == ()
    assert read([asks(ZONE, "a", operator="Near")]).problem.startswith("volume v with ")


def test_a_volume_is_attached_under_the_name_of_its_driver() -> None:
    spec = {"csi": {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}}
    wire = msgspec.json.decode(json.dumps({"metadata": {"name": "v"}, "spec": spec}), type=WireVolume)
    volume = read_volume(wire, Understanding())
    node = make_node("a1", volumes_attached=("z", "kubernetes.io/csi/ebs.csi.aws.com^vol-1"))
    (seen, bare) = complete_nodes([node, make_node("b1")], Storage(volumes={"v": volume}))
    assert (seen.volumes_attached, bare) == (("v", "z"), make_node("b1"))


def test_the_pods_of_one_node_are_asked_for_and_their_volumes_only_where_they_have_some() -> None:
    asked: list[tuple[str, str]] = []
    mounts = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
    pods = [seen_pod("p1")]
    claim = {"metadata": {"namespace": "default", "name": "data"}, "spec": {"volumeName": "disk-1"}}
    there: dict[str, list[Json]] = {
        "pods": pods,
        "persistentvolumeclaims": [claim],
        "persistentvolumes": [{"metadata": {"name": "disk-1", "labels": {ZONE: "b"}}, "spec": {}}],
    }

    class Pods(Server):
        def take(self, method: str, path: str, body: Any, kind: str) -> Answer:
            parts = urlsplit(path)
            asked.append(
                (parts.path.rpartition("/")[2], dict(parse_qsl(parts.query)).get("fieldSelector", ""))
            )
            return 200, {"metadata": {}, "items": there[parts.path.rpartition("/")[2]]}

    with connected(Pods()) as connection:
        assert [pod.name for pod in list_pods_on(connection, "a1")] == ["p1"]
        assert asked == [("pods", "spec.nodeName=a1")]
        pods.append(seen_pod("p2", spec=mounts))
        found = list_pods_on(connection, "a1")
    assert [pod.scheduling.volume_zones for pod in found] == [(), ("b",)]
    assert {what for what, _ in asked} == {"pods", "persistentvolumeclaims", "persistentvolumes"}
