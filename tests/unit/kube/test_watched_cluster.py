"""A cluster that is kept current by watches: what was done through it is in the next view."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.model import names
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.snapshot import LEAVING
from tests.integration.kube.objects import Json, node, seen_pod
from tests.unit.kube.scripted import Answer, Server, connected

LATE_SECONDS = 0.4
"""When a watch tells what was done. A daemon does not decide again before that."""
NODES, PODS = "/api/v1/nodes", "/api/v1/pods"
EVICT = Evict("shop", "web-1", "u-pod", "a1", 30)


def versioned(item: Json, version: int, **metadata: Any) -> Json:
    return {**item, "metadata": {**item["metadata"], "resourceVersion": str(version), **metadata}}


def pod(version: int = 5, uid: str = "u-pod", **metadata: Any) -> Json:
    return versioned(seen_pod("web-1"), version, namespace="shop", uid=uid, **metadata)


def worker(version: int = 5, **spec: Any) -> Json:
    return versioned(node("a1", spec={"providerID": "test://i-a1", **spec}), version, uid="u1")


class Changing(Server):
    """A node and a pod. After a change of ours, the watches tell `then`, a little later."""

    def __init__(self) -> None:
        super().__init__()
        self.then: dict[str, list[tuple[str, Json]]] = {}
        self.first = {NODES: [worker()], PODS: [pod()]}
        self.told_at: float | None = None
        self.patched: Callable[[Json], Json] = lambda body: worker(20)

    def take(self, method: str, path: str, body: Any, kind: str) -> Answer:
        place, query = urlsplit(path).path, dict(parse_qsl(urlsplit(path).query))
        if place.endswith("/events"):
            return 201, {}
        if method != "GET":
            self.calls.append((method, path, body, kind))
            self.told_at = time.monotonic() + LATE_SECONDS
            return (200, self.patched(body)) if method == "PATCH" else (201, {})
        if "watch" in query:
            due = self.told_at is not None and time.monotonic() >= self.told_at
            events = self.then.pop(place, []) if due else []
            lines = [json.dumps({"type": said, "object": item}) for said, item in events]
            return 200, "".join(f"{line}\n" for line in lines).encode()
        if place == f"{NODES}/a1":
            return 200, worker()
        if place == "/api/v1/namespaces/shop/pods/web-1":
            return 200, pod()
        return 200, {"metadata": {"resourceVersion": "7"}, "items": self.first.get(place, [])}


@pytest.fixture
def server() -> Changing:
    return Changing()


@pytest.fixture
def cluster(server: Changing, monkeypatch: pytest.MonkeyPatch) -> Iterator[KubeCluster]:
    monkeypatch.setattr("ebbtide.adapters.kube.cluster.OWN_WRITE_SECONDS", 60.0)
    with connected(server) as connection:
        found = KubeCluster(connection, watching=True)
        found.read()
        yield found
        found.close()


@pytest.mark.parametrize(
    "event",
    [
        ("MODIFIED", pod(9, deletionTimestamp="2026-01-01T00:00:00Z")),
        ("DELETED", pod(9)),
        ("MODIFIED", pod(9, uid="u-next")),
    ],
    ids=["ends", "is gone", "is another of that name"],
)
def test_an_eviction_is_over_when_the_view_shows_it(
    server: Changing, cluster: KubeCluster, event: tuple[str, Json]
) -> None:
    server.then = {PODS: [event]}
    before = time.monotonic()
    cluster.evict(EVICT)
    assert time.monotonic() - before < 30, "it did not wait for the wrong thing"
    assert not [one for one in cluster.read().pods if one.uid == "u-pod" and not one.terminating]


@pytest.mark.parametrize(
    "event", [("DELETED", worker(9)), ("MODIFIED", versioned(worker(), 9, uid="u-next"))]
)
def test_a_node_is_deleted_when_the_view_no_longer_has_it(
    server: Changing, cluster: KubeCluster, event: tuple[str, Json]
) -> None:
    server.then = {NODES: [event]}
    before = time.monotonic()
    cluster.delete_node(DeleteNode("a1", "u1"))
    assert time.monotonic() - before < 30
    assert "u1" not in {one.uid for one in cluster.read().nodes}


SIGNED = {names.OWNER: "op", names.TOKEN: "5"}
TAINT = {"key": LEAVING.key, "effect": LEAVING.effect}


def test_a_change_of_a_node_is_in_the_view_before_any_watch_tells_of_it(
    server: Changing, cluster: KubeCluster
) -> None:
    server.patched = lambda body: worker(20, unschedulable=True)
    cluster.cordon(Cordon("a1", "u1", "op"), 5)
    assert cluster.read().node_named["a1"].unschedulable
    server.patched = lambda body: worker(21, taints=[TAINT])
    cluster.soft_taint(SoftTaint("a1", "u1", "op"), 5)
    (found,) = cluster.read().nodes
    assert (found.unschedulable, [taint.key for taint in found.taints]) == (False, [LEAVING.key])


def test_a_node_that_is_given_back_is_schedulable_in_the_next_view(
    server: Changing, cluster: KubeCluster
) -> None:
    ours = versioned(worker(unschedulable=True), 5, uid="u1", annotations=SIGNED)
    server.first = {NODES: [ours]}
    server.patched = lambda body: worker(20)
    take = server.take

    def signed(method: str, path: str, body: Any, kind: str) -> Answer:
        return (200, ours) if (method, path) == ("GET", f"{NODES}/a1") else take(method, path, body, kind)

    server.take = signed  # type: ignore[method-assign]
    cluster.uncordon(Uncordon("a1", "u1", "op", 5), 5)
    assert not cluster.read().node_named["a1"].unschedulable
    assert [method for method, *_ in server.calls] == ["PATCH"]


def test_a_node_is_labelled_by_its_name_and_only_under_its_uid(
    server: Changing, cluster: KubeCluster
) -> None:
    server.patched = lambda body: worker(20)
    cluster.label_node("a1", "u1", {names.POOL: "general", "team": "shop"})
    ((path, body, _),) = server.sent("PATCH")
    assert path == f"{NODES}/a1"
    assert body["metadata"]["resourceVersion"] == "5"


def test_the_cpu_of_each_node_is_known_as_last_read(cluster: KubeCluster) -> None:
    assert dict(cluster.cpu_milli_of) == {"a1": 4000}


def test_a_pod_that_no_node_takes_is_heard_with_its_time(server: Changing, cluster: KubeCluster) -> None:
    heard, began = cluster.urgencies(), time.time()
    assert cluster.arrived_at() == 0.0
    pending = pod(9, uid="u-next")
    pending["spec"].pop("nodeName")
    refusal = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    pending["status"] = {"phase": "Pending", "conditions": [refusal]}
    server.then, server.told_at = {PODS: [("MODIFIED", pending)]}, 0.0
    end = time.monotonic() + 30
    while cluster.urgencies() == heard and time.monotonic() < end:
        time.sleep(0.01)
    assert cluster.urgencies() == heard + 1
    assert began <= cluster.arrived_at() <= time.time()


def test_without_watches_nothing_is_heard(server: Changing) -> None:
    with connected(server) as connection:
        cluster = KubeCluster(connection)
        assert len(cluster.read().nodes) == 1
        assert (cluster.urgencies(), cluster.arrived_at()) == (0, 0.0)
        cluster.close()
