"""Replicas on a real server, with the rights of the service account and those for workloads alone."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace

import pytest

from ebbtide.adapters.kube.connection import MERGE_PATCH, ApiError, Call, connect
from ebbtide.adapters.kube.workloads import MANAGER, KubeWorkloads
from ebbtide.errors import Conflict, NotFound, Usage
from ebbtide.model.pod import Resources, Workload, WorkloadKind, WorkloadRef
from tests.integration.kube.objects import Json, node, template, workload
from tests.servers.kube import NOBODY_TOKEN
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

APPS = "/apis/apps/v1/namespaces/default/"
AUTOSCALERS = "/apis/autoscaling/v2/namespaces/default/horizontalpodautoscalers"
WEB = WorkloadRef(WorkloadKind.DEPLOYMENT, "default", "web")
DB = WorkloadRef(WorkloadKind.STATEFUL_SET, "default", "db")
LONG = 60.0


@pytest.fixture(params=[False, True], ids=["listing", "watching"])
def workloads(kube: SharedKube, rights: None, request: pytest.FixtureRequest) -> Iterator[KubeWorkloads]:
    connection = connect(kube.kubeconfig)
    found = KubeWorkloads(connection, request.param)
    yield found
    found.close()
    connection.close()


@pytest.fixture
def listing(kube: SharedKube, rights: None) -> Iterator[KubeWorkloads]:
    connection = connect(kube.kubeconfig)
    found = KubeWorkloads(connection)
    yield found
    found.close()
    connection.close()


def create(kube: SharedKube, ref: WorkloadRef, replicas: int) -> Json:
    made = workload(ref.kind, ref.name, replicas, template(ref.name))
    found: Json = kube.api.post(f"{APPS}{ref.kind.lower()}s", made)
    return found


def object_of(kube: SharedKube, ref: WorkloadRef) -> Json:
    found: Json = kube.api.get(f"{APPS}{ref.kind.lower()}s/{ref.name}")
    return found


def settled(workloads: KubeWorkloads, ref: WorkloadRef, ready: int) -> Workload:
    """Ready with so many, and its controller has nothing more to write."""
    before = ""

    def reached() -> bool:
        nonlocal before
        seen = workloads.read(ref)
        same, before = seen.version == before, seen.version
        return same and seen.ready_replicas == ready

    eventually(reached, 30, f"{ready} ready")
    return workloads.read(ref)


@pytest.mark.parametrize("ref", [WEB, DB], ids=["Deployment", "StatefulSet"])
def test_replicas_go_to_zero_and_come_back_and_an_event_says_why(
    kube: SharedKube, listing: KubeWorkloads, ref: WorkloadRef
) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    create(kube, ref, 2)
    seen = settled(listing, ref, 2)
    assert (seen.replicas, seen.ready, seen.requests) == (2, True, Resources(100, 128))
    asleep = listing.scale(seen, 0, "idle for 1800 s")
    assert (asleep.replicas, asleep.version != seen.version) == (0, True)
    eventually(lambda: "idle for 1800 s" in told(kube, ref), 30, "the event")
    eventually(lambda: not kube.api.items("/api/v1/namespaces/default/pods"), 30, "no pod")
    eventually(lambda: settled(listing, ref, 0).replicas == 0, 30, "rest")
    woken = listing.scale(listing.read(ref), 2, "woken")
    assert (woken.replicas, woken.ready) == (2, False)
    ready = listing.wait_ready(ref, time.time() + LONG)
    assert (ready.ready, ready.ready_replicas) == (True, 2)


def told(kube: SharedKube, ref: WorkloadRef) -> list[str]:
    events = kube.api.items("/api/v1/namespaces/default/events")
    mine = [each for each in events if each["source"].get("component") == "ebbtide"]
    return [each["message"] for each in mine if each["involvedObject"]["name"] == ref.name]


@pytest.mark.parametrize("replicas", [0, 2])
@pytest.mark.parametrize("ref", [WEB, DB], ids=["Deployment", "StatefulSet"])
def test_a_call_that_saw_an_earlier_version_is_refused_even_if_the_replicas_are_the_same(
    kube: SharedKube, listing: KubeWorkloads, ref: WorkloadRef, replicas: int
) -> None:
    """A wake that finds it up, while somebody who saw the same is about to put it to zero."""
    kube.api.post("/api/v1/nodes", node("w1"))
    create(kube, ref, replicas)
    seen = settled(listing, ref, replicas)
    generation = object_of(kube, ref)["metadata"]["generation"]
    again = seen
    for number in range(3):
        before, again = again, listing.scale(again, replicas, f"wake {number} that found it so")
        assert (again.replicas, again.version != before.version) == (replicas, True)
        with pytest.raises(Conflict, match="nothing was done to it"):
            listing.scale(before, 3 - replicas, "too late")
    found = object_of(kube, ref)
    assert found["spec"]["replicas"] == replicas
    assert found["metadata"]["generation"] == generation  # its controller has nothing to do
    assert found["metadata"]["resourceVersion"] == again.version
    assert listing.read(ref).deployed_at == seen.deployed_at


def owners(kube: SharedKube, ref: WorkloadRef) -> list[str]:
    fields = object_of(kube, ref)["metadata"]["managedFields"]
    return [each["manager"] for each in fields if each["manager"].startswith(MANAGER)]


@pytest.mark.parametrize("replicas", [0, 2])
def test_the_names_of_wakes_that_changed_nothing_go_with_the_next_change(
    kube: SharedKube, listing: KubeWorkloads, replicas: int
) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    create(kube, WEB, replicas)
    again = settled(listing, WEB, replicas)
    for _ in range(3):
        again = listing.scale(again, replicas, "found so")
    assert 1 <= len(owners(kube, WEB)) <= 3
    listing.scale(again, 1, "woken")
    assert owners(kube, WEB) == [MANAGER]


@pytest.mark.parametrize("meddle", [{"spec": {"replicas": 7}}, {"metadata": {"labels": {"by": "others"}}}])
def test_whatever_somebody_else_changed_meanwhile_nothing_is_done(
    kube: SharedKube, listing: KubeWorkloads, meddle: Json
) -> None:
    create(kube, WEB, 0)
    seen = settled(listing, WEB, 0)
    kube.api.patch(f"{APPS}deployments/web", meddle)
    for replicas in (0, 3):
        with pytest.raises(Conflict, match="nothing was done to it"):
            listing.scale(seen, replicas, "wake")
    assert object_of(kube, WEB)["spec"]["replicas"] == meddle.get("spec", {}).get("replicas", 0)


def test_no_right_reaches_what_has_a_workload_deleted(kube: SharedKube, rights: None) -> None:
    """Owner references, through whatever part may be patched: the garbage collector believes them."""
    create(kube, WEB, 0)
    nobody = "00000000-0000-0000-0000-000000000000"
    gone = {"apiVersion": "v1", "kind": "ConfigMap", "name": "gone", "uid": nobody}
    body = {"metadata": {"ownerReferences": [gone]}}
    connection = connect(kube.kubeconfig)
    for part in ("", "/status", "/scale"):
        call = Call("PATCH", f"{APPS}deployments/web{part}", "own it", body, MERGE_PATCH)
        with suppress(ApiError):
            connection.try_act(call)
        assert "ownerReferences" not in object_of(kube, WEB)["metadata"], part
    connection.close()


def test_an_autoscaler_on_the_same_target_is_noticed(kube: SharedKube, workloads: KubeWorkloads) -> None:
    create(kube, WEB, 1)
    create(kube, replace(WEB, name="other"), 1)
    target = {"apiVersion": "apps/v1", "kind": "Deployment", "name": "web"}
    spec: Json = {"maxReplicas": 5, "scaleTargetRef": target}
    kube.api.post(AUTOSCALERS, {"metadata": {"name": "busy"}, "spec": spec})
    try:
        eventually(lambda: workloads.read(WEB).autoscaler == "busy", 10, "the autoscaler")
        assert workloads.read(replace(WEB, name="other")).autoscaler == ""
    finally:
        kube.api.delete(f"{AUTOSCALERS}/busy")
    eventually(lambda: workloads.read(WEB).autoscaler == "", 10, "no autoscaler")


def test_a_new_pod_template_is_a_deployment_and_scaling_is_none(
    kube: SharedKube, listing: KubeWorkloads
) -> None:
    made = create(kube, WEB, 0)
    seen = settled(listing, WEB, 0)
    assert seen.deployed_at == seen.created_at > 0
    scaled = listing.scale(seen, 1, "wake")
    assert listing.read(WEB).deployed_at == seen.deployed_at == scaled.deployed_at
    eventually(lambda: time.time() > seen.created_at + 1, 5, "another second")
    grace = {"spec": {"template": {"spec": {"terminationGracePeriodSeconds": 9}}}}
    kube.api.patch(f"{APPS}deployments/web", grace)
    assert made["metadata"]["uid"]
    assert listing.read(WEB).deployed_at > seen.deployed_at


def test_many_wait_by_one_watch_and_all_are_told_at_once(kube: SharedKube, listing: KubeWorkloads) -> None:
    kube.api.post("/api/v1/nodes", node("w1"))
    create(kube, WEB, 0)
    told: list[Workload] = []
    waiting = [
        threading.Thread(target=lambda: told.append(listing.wait_ready(WEB, time.time() + LONG)))
        for _ in range(20)
    ]
    for thread in waiting:
        thread.start()
    eventually(lambda: listing.waits == {WEB: 20}, 30, "all waiting by one watch")
    assert not told
    listing.scale(settled(listing, WEB, 0), 1, "wake")
    for thread in waiting:
        thread.join(LONG)
    assert [seen.ready for seen in told] == [True] * 20
    assert listing.waits == {}


def test_a_wait_that_times_out_returns_what_was_last_seen(kube: SharedKube, listing: KubeWorkloads) -> None:
    create(kube, WEB, 1)  # and no node to run on
    seen = listing.wait_ready(WEB, time.time() + 0.5)
    assert (seen.replicas, seen.ready) == (1, False)


def test_a_workload_that_is_not_there_or_goes_while_waited_for_is_said_to_be_missing(
    kube: SharedKube, listing: KubeWorkloads
) -> None:
    with pytest.raises(NotFound, match="there is no Deployment default/web"):
        listing.read(WEB)
    with pytest.raises(NotFound):
        listing.scale(Workload(WEB, 1, version="1"), 1, "wake")
    create(kube, WEB, 1)
    gone: list[str] = []

    def wait() -> None:
        with pytest.raises(NotFound) as missing:
            listing.wait_ready(WEB, time.time() + LONG)
        gone.append(str(missing.value))

    thread = threading.Thread(target=wait)
    thread.start()
    eventually(lambda: listing.waits == {WEB: 1}, 30, "the wait")
    kube.api.delete(f"{APPS}deployments/web")
    thread.join(LONG)
    assert gone == ["there is no Deployment default/web"]


def test_without_the_rights_nothing_is_scaled_and_the_message_says_what_to_apply(kube: SharedKube) -> None:
    create(kube, WEB, 1)
    connection = connect(kube.server.kubeconfig("nobody", token=NOBODY_TOKEN))
    with pytest.raises(Usage, match="apply the RBAC rules"):
        KubeWorkloads(connection).read(WEB)
    connection.close()
