"""From JSON of Kubernetes to values of the model: nodes, pods, volumes, budgets."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from ebbtide.adapters.kube.objects import read_quantity
from ebbtide.adapters.kube.workloads import WireWorkload, read_workload
from ebbtide.model.pod import (
    Requirement,
    Resources,
    SelectorOperator,
    Taint,
    TaintEffect,
    Toleration,
    WorkloadKind,
    WorkloadRef,
)
from ebbtide.model.snapshot import Market, Ownership
from tests.integration.kube.objects import Json, budget, node, seen_pod, template, workload
from tests.integration.kube.values import node_of, pod_of, view_of


@pytest.mark.parametrize(
    ("text", "value"),
    [("100m", 0.1), ("1.5Gi", 1.5 * 2**30), ("2e3", 2000), ("1E2", 100), (".5", 0.5), ("12345n", 12345e-9),
     ("1k", 1000), ("-3", -3), ("1Ei", 2**60), ("3.", 3)],
)  # fmt: skip
def test_quantities_are_read_exactly(text: str, value: float) -> None:
    assert float(read_quantity(text)) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "m", "1 Gi", "1GB", "one", "0x10", "1e", "1e9999"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="not a quantity"):
        read_quantity(text)


def test_what_a_node_offers_is_rounded_down_and_what_a_pod_asks_for_up() -> None:
    offer = {"cpu": "3920500u", "memory": "8123456Ki", "pods": "58", "nvidia.com/gpu": "2"}
    found = node_of(status={"allocatable": offer})
    assert found.allocatable == Resources(3920, 7933, (("nvidia.com/gpu", 2),))
    assert found.max_pods == 58
    container = {"resources": {"requests": {"cpu": "100500u", "memory": "1000001"}}}
    assert pod_of(spec={"containers": [container]}).requests == Resources(101, 1)


def test_requests_count_init_containers_sidecars_overhead_and_a_resize_as_the_scheduler_does() -> None:
    def ask(cpu: str, **more: str) -> Json:
        return {"resources": {"requests": {"cpu": cpu}}, **more}

    main = [ask("100m"), ask("200m")]
    assert pod_of(spec={"containers": main, "initContainers": [ask("1")]}).requests.cpu_milli == 1000
    sidecar = ask("50m", restartPolicy="Always")
    assert pod_of(spec={"containers": main, "initContainers": [sidecar]}).requests.cpu_milli == 350
    both = [sidecar, ask("320m")]
    assert pod_of(spec={"containers": main, "initContainers": both}).requests.cpu_milli == 370
    assert pod_of(spec={"containers": main, "overhead": {"cpu": "10m"}}).requests.cpu_milli == 310
    assert pod_of(spec={"containers": main, **ask("2")}).requests.cpu_milli == 2000
    shrinking = {"containerStatuses": [{"allocatedResources": {"cpu": "400m"}}]}
    assert pod_of(spec={"containers": main}, status=shrinking).requests.cpu_milli == 400


def test_a_node_tells_its_roles_pool_market_and_identity() -> None:
    found = node_of(labels={"ebbtide.dev/market": "spot", "ebbtide.dev/instance-id": "i-7"})
    assert (found.pool, found.zone, found.instance_type) == ("general", "a", "cpx32")
    assert (found.market, found.instance_id, found.worker) == (Market.SPOT, "i-7", True)
    assert not node_of(labels={"node-role.kubernetes.io/control-plane": "true"}).worker
    assert not node_of(labels={"node-role.kubernetes.io/master": ""}).worker
    assert not node_of(labels={"ebbtide.dev/system": "true"}).worker
    assert not node_of(metadata={"annotations": {"ebbtide.dev/system": ""}, "name": "a1"}).worker
    assert not node_of(pool="").worker


def test_a_node_on_hetzner_is_in_the_location_that_its_data_centre_is_in() -> None:
    labels = {"topology.kubernetes.io/zone": "fsn1-dc14"}
    assert node_of(labels=labels, spec={"providerID": "hcloud://101"}).zone == "fsn1"
    assert node_of(labels=labels, spec={"providerID": "test://1"}).zone == "fsn1-dc14"
    assert node_of(labels=labels, spec={"providerID": "hcloud://101"}).labels == node_of(labels=labels).labels


def test_a_provider_id_that_k3s_made_up_from_the_name_is_none() -> None:
    address = {
        "addresses": [{"type": "Hostname", "address": "a1"}, {"type": "InternalIP", "address": "10.0.0.7"}]
    }
    found = node_of(spec={"providerID": "k3s://a1"}, status=address)
    assert (found.provider_id, found.private_ip) == ("", "10.0.0.7")
    assert node_of(spec={"providerID": "aws:///eu-central-1a/i-1"}).provider_id == "aws:///eu-central-1a/i-1"


def test_a_node_without_a_ready_condition_is_not_ready() -> None:
    assert not node_of(status={"conditions": []}).ready
    assert not node_of(status={"conditions": [{"type": "Ready", "status": "Unknown"}]}).ready


def test_conditions_are_read_without_what_every_node_says() -> None:
    said = {"Ready": "True", "DiskPressure": "False", "MemoryPressure": "True", "KernelDeadlock": "False"}
    conditions = [{"type": kind, "status": status} for kind, status in said.items()]
    assert node_of(status={"conditions": conditions}).conditions == (
        "KernelDeadlock=False",
        "MemoryPressure=True",
    )


def test_our_cordon_is_told_by_its_annotations_and_a_mangled_token_fences_everyone_off() -> None:
    signed = {"ebbtide.dev/cordoned-by": "op-1", "ebbtide.dev/cordon-token": "5"}
    assert node_of(metadata={"name": "a1", "annotations": signed}).owner == Ownership("op-1", 5)
    signed["ebbtide.dev/cordon-token"] = "five"
    owner = node_of(metadata={"name": "a1", "annotations": signed}).owner
    assert owner is not None
    assert owner.token > 10**18


def test_taints_and_tolerations_keep_their_meaning_and_unknown_ones_err_on_the_safe_side() -> None:
    taints = [{"key": "k", "value": "v", "effect": "NoSchedule"}, {"key": "x", "effect": "Later"}]
    found = node_of(spec={"taints": taints}).taints
    assert found == (Taint("k", TaintEffect.NO_SCHEDULE, "v"), Taint("x", TaintEffect.NO_EXECUTE))
    asked = [
        {"key": "k", "operator": "Equal", "value": "v", "effect": "NoSchedule"},
        {"operator": "Exists"},
        {"key": "n", "operator": "Gt", "value": "5"},
    ]
    rules = pod_of(spec={"tolerations": asked}).scheduling
    assert rules.tolerations == (Toleration("k", False, "v", TaintEffect.NO_SCHEDULE), Toleration("", True))


def test_what_keeps_a_pod_where_it_is() -> None:
    assert pod_of(spec={"volumes": [{"name": "d", "emptyDir": {}}]}).local_storage
    assert pod_of(spec={"volumes": [{"name": "d", "hostPath": {"path": "/x"}}]}).local_storage
    assert not pod_of(spec={"volumes": [{"name": "d", "emptyDir": {"medium": "Memory"}}]}).local_storage
    harmless = {
        "name": "w",
        "annotations": {"cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes": "d"},
    }
    assert not pod_of(spec={"volumes": [{"name": "d", "emptyDir": {}}]}, metadata=harmless).local_storage
    for name in ("karpenter.sh/do-not-disrupt", "ebbtide.dev/do-not-disrupt"):
        assert pod_of(metadata={"name": "w", "annotations": {name: "true"}}).do_not_disrupt
    unsafe = {"cluster-autoscaler.kubernetes.io/safe-to-evict": "false"}
    assert pod_of(metadata={"name": "w", "annotations": unsafe}).safe_to_evict is False
    assert pod_of(metadata={"name": "w", "annotations": {"kubernetes.io/config.mirror": "x"}}).mirror
    assert pod_of(metadata={"name": "w", "ownerReferences": []}).controller == ""
    owners = [{"kind": "X", "uid": "x"}, {"kind": "ReplicaSet", "uid": "uid-rs", "controller": True}]
    owned = pod_of(metadata={"name": "w", "ownerReferences": owners})
    assert (owned.controller, owned.owner_uid) == ("ReplicaSet", "uid-rs")
    assert pod_of(metadata={"name": "w", "ownerReferences": owners[:1]}).owner_uid == ""
    assert pod_of(spec={"priority": 2_000_001_000}).priority_class == "system-cluster-critical"


def _claim(name: str, volume: str) -> Json:
    return {
        "kind": "PersistentVolumeClaim",
        "metadata": {"name": name, "namespace": "default"},
        "spec": {"volumeName": volume},
    }


def _volume(name: str, key: str, value: str, **spec: Any) -> Json:
    terms = [{"matchExpressions": [{"key": key, "operator": "In", "values": [value]}]}]
    affinity = {"required": {"nodeSelectorTerms": terms}}
    return {
        "kind": "PersistentVolume",
        "metadata": {"name": name},
        "spec": {"nodeAffinity": affinity, **spec},
    }


def _mounting(*claims: str) -> Json:
    return seen_pod(
        "web-1",
        spec={"volumes": [{"name": c, "persistentVolumeClaim": {"claimName": c}} for c in claims]},
    )


def test_a_volume_binds_its_pod_to_its_zone_and_is_known_by_one_name_on_node_and_pod() -> None:
    attached = {"volumesAttached": [{"name": "kubernetes.io/csi/ebs.csi.aws.com^vol-1"}]}
    csi = {"driver": "ebs.csi.aws.com", "volumeHandle": "vol-1"}
    view = view_of(
        node("a1", status=attached),
        _mounting("data"),
        _claim("data", "pv-1"),
        _volume("pv-1", "topology.ebs.csi.aws.com/zone", "a", csi=csi),
    )
    assert view.pods[0].scheduling.volume_zones == ("a",)
    assert view.pods[0].volumes == view.nodes[0].volumes_attached == ("pv-1",)


def test_a_volume_of_hetzner_binds_its_pod_to_a_location_and_to_no_label_of_joined_nodes() -> None:
    volume = _volume("pv-1", "csi.hetzner.cloud/location", "fsn1")
    terms = volume["spec"]["nodeAffinity"]["required"]["nodeSelectorTerms"]
    by_cloud = {"key": "instance.hetzner.cloud/provided-by", "operator": "In", "values": ["cloud"]}
    for more in ([], [by_cloud]):
        terms[0]["matchExpressions"] = [*terms[0]["matchExpressions"][:1], *more]
        pod = view_of(node("a1"), _mounting("data"), _claim("data", "pv-1"), volume).pods[0]
        assert pod.scheduling.volume_zones == ("fsn1",)
        assert not pod.scheduling.node_affinity
    by_cloud["values"] = ["robot"]
    pod = view_of(node("a1"), _mounting("data"), _claim("data", "pv-1"), volume).pods[0]
    assert pod.scheduling.node_affinity, "a machine that is not of the cloud is never launched for it"


def test_a_volume_on_one_node_binds_its_pod_to_that_node() -> None:
    volume = _volume("pv-1", "kubernetes.io/hostname", "a1", local={"path": "/data"})
    pod = view_of(node("a1"), _mounting("data"), _claim("data", "pv-1"), volume).pods[0]
    assert pod.scheduling.node_affinity == (
        (Requirement("kubernetes.io/hostname", SelectorOperator.IN, ("a1",)),),
    )
    assert pod.local_storage


def test_a_claim_that_cannot_be_followed_or_volumes_apart_make_a_pod_unmovable() -> None:
    lost = view_of(node("a1"), _mounting("data")).pods[0].scheduling.unsupported
    assert "volume claim data that is not there" in lost[0]
    lost = view_of(node("a1"), _mounting("data"), _claim("data", "pv-1")).pods[0].scheduling.unsupported
    assert "volume pv-1 that is not there" in lost[0]
    zone = "topology.kubernetes.io/zone"
    apart = view_of(
        node("a1"), _mounting("one", "two"), _claim("one", "pv-1"), _claim("two", "pv-2"),
        _volume("pv-1", zone, "a"), _volume("pv-2", zone, "b"),
    )  # fmt: skip
    assert "different zones" in apart.pods[0].scheduling.unsupported[0]


def test_a_budget_without_selector_covers_nothing_and_one_not_yet_looked_at_allows_nothing() -> None:
    fresh = {**budget("web"), "status": {"disruptionsAllowed": 1}}
    fresh["metadata"]["generation"] = 2
    assert [b.disruptions_allowed for b in view_of(node("a1"), fresh).budgets] == [0]
    fresh["status"]["observedGeneration"] = 2
    assert [b.disruptions_allowed for b in view_of(node("a1"), fresh).budgets] == [1]
    del fresh["spec"]["selector"]
    assert view_of(node("a1"), fresh).budgets == ()


def test_the_pods_of_a_workload_at_zero_are_known_by_its_template() -> None:
    """Whether a sleeper needs a node is asked before it has a pod."""
    tolerated = [{"key": "gpu", "operator": "Exists"}]
    made = workload(
        "Deployment", "web", 0, template("web", nodeSelector={"gpu": "yes"}, tolerations=tolerated)
    )
    wire = msgspec.json.decode(msgspec.json.encode(made), type=WireWorkload)
    found = read_workload(wire, WorkloadRef(WorkloadKind.DEPLOYMENT, "default", "web"))
    assert (found.labels, found.requests) == ((("app", "web"),), Resources(100, 128))
    assert found.scheduling.node_selector == (("gpu", "yes"),)
    assert found.scheduling.tolerations == (Toleration("gpu", exists=True),)
    bare = msgspec.json.decode(b'{"metadata": {"name": "web"}}', type=WireWorkload)
    assert read_workload(bare, found.ref).labels == ()
