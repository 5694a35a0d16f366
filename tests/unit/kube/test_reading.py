"""What five watches make together, and how they end: a server that says nothing more keeps nobody waiting."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from email.utils import parsedate_to_datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import msgspec
import pytest

from ebbtide.adapters.kube import cluster
from ebbtide.adapters.kube.access import Access
from ebbtide.adapters.kube.cluster import Readers, Storage, Watches, complete_pod, read_volume
from ebbtide.adapters.kube.connection import NODES, Call, Connection
from ebbtide.adapters.kube.objects import PodSeen
from ebbtide.adapters.kube.scheduling import Understanding
from ebbtide.adapters.kube.watch import Follower
from ebbtide.adapters.kube.wire import WirePod, WireVolume
from ebbtide.errors import Unanswered
from ebbtide.model.pod import Pod
from tests.integration.kube.objects import Json, node, seen_pod
from tests.unit.kube.scripted import Answer, Server, connected

WAIT_SECONDS = 20.0
"""Less than a watch may be silent, and far more than anything here takes."""
ZONE = {"topology.kubernetes.io/zone": "b"}
VOLUME: Json = {"metadata": {"name": "disk-1", "labels": ZONE}, "spec": {}}
CLAIM: Json = {"metadata": {"namespace": "default", "name": "data"}, "spec": {"volumeName": "disk-1"}}
MOUNTS = {"volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "data"}}]}
LISTS: dict[str, list[Json]] = {
    "nodes": [node("a1")],
    "pods": [seen_pod("p1", spec=MOUNTS)],
    "persistentvolumeclaims": [CLAIM],
    "persistentvolumes": [VOLUME],
}


class Following:
    """Lists what there is, and then says to each watch what the test says; until the end it closes none."""

    def __init__(self) -> None:
        self.says: dict[str, SimpleQueue[bytes]] = {}
        self.refused = ""
        """The kind that is answered with an error."""
        self.open = threading.Semaphore(0)
        """Once for each watch that has begun."""
        self.connection: Connection

    def tell(self, kind: str, change: str, item: Json, version: int) -> None:
        item = {**item, "metadata": {**item["metadata"], "resourceVersion": str(version)}}
        self.says[kind].put(json.dumps({"type": change, "object": item}).encode() + b"\n")


@contextmanager
def following() -> Iterator[Following]:
    told = Following()
    told.says = {kind: SimpleQueue() for kind in (*LISTS, "poddisruptionbudgets")}

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            parts = urlsplit(self.path)
            kind = parts.path.rpartition("/")[2]
            self.send_response(503 if kind == told.refused else 200)
            self.send_header("Transfer-Encoding", "chunked")
            self.end_headers()
            if "watch=1" in parts.query:
                self.wfile.flush()
                told.open.release()
                while line := told.says[kind].get():
                    self.chunk(line)
            else:
                listed = {"metadata": {"resourceVersion": "7"}, "items": LISTS.get(kind, [])}
                self.chunk(json.dumps(listed).encode())
            self.chunk(b"")

        def chunk(self, data: bytes) -> None:
            self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
            self.wfile.flush()

        def log_message(self, *_: object) -> None:
            return

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    told.connection = Connection(Access(f"http://127.0.0.1:{server.server_port}"), 30)
    try:
        yield told
    finally:
        for queue in told.says.values():
            queue.put(b"")
        told.connection.close()
        server.shutdown()
        server.server_close()


def watching() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("watch ")]


@pytest.fixture
def told() -> Iterator[Following]:
    with following() as told:
        yield told


@pytest.fixture
def watches(told: Following, monkeypatch: pytest.MonkeyPatch) -> Iterator[Watches]:
    monkeypatch.setattr(cluster, "CLOSE_SECONDS", WAIT_SECONDS)
    monkeypatch.setattr(cluster, "OWN_WRITE_SECONDS", 30 * WAIT_SECONDS)
    watches = Watches(told.connection)
    watches.await_first(WAIT_SECONDS)
    yield watches
    watches.close()


def test_watches_that_hear_nothing_end_when_they_are_closed(told: Following, watches: Watches) -> None:
    for _ in watches._all:
        assert told.open.acquire(timeout=WAIT_SECONDS)
    while not all(follower._response for follower in watches._all):
        time.sleep(0.001)
    assert len(watching()) == len(watches._all)
    watches.close()
    assert watching() == []


def test_a_watch_that_is_ended_while_it_is_opened_does_not_wait_for_what_comes(told: Following) -> None:
    follower = Follower(told.connection, NODES, Readers().node, threading.Condition())
    follower.stop()
    watch = threading.Thread(target=follower._watch, name="watch opened late", daemon=True)
    watch.start()
    watch.join(WAIT_SECONDS)
    assert watching() == []


def test_the_first_look_waits_for_no_more_once_one_of_them_has_failed(told: Following) -> None:
    told.refused = "poddisruptionbudgets"
    watches = Watches(told.connection)
    try:
        watches.await_first(30 * WAIT_SECONDS)
        assert watches.view() is None
    finally:
        watches.close()


def test_a_pod_is_where_the_volume_of_its_claim_is(watches: Watches) -> None:
    view = watches.view()
    assert view is not None
    (pod,) = view.pods
    assert (pod.volumes, pod.scheduling.volume_zones, pod.scheduling.unsupported) == (("disk-1",), ("b",), ())


def test_nodes_and_pods_are_urgent_together(told: Following, watches: Watches) -> None:
    at_first, began = watches.urgencies, time.time() - 1
    assert watches.nodes.urgent_at == watches.pods.urgent_at == 0.0
    unready = {"conditions": [{"type": "Ready", "status": "False"}]}
    told.tell("nodes", "ADDED", node("a2", status=unready), 8)
    told.tell("nodes", "MODIFIED", node("a2"), 9)
    given_up = {"phase": "Pending", "conditions": [{"type": "PodScheduled", "status": "False"}]}
    for number in (1, 2):
        told.tell("pods", "ADDED", seen_pod(f"q{number}", "", status=given_up), 8 + number)
    last = seen_pod("last", "")
    told.tell("pods", "ADDED", last, 11)
    told.tell("nodes", "ADDED", node("last", status=unready), 11)
    watches.await_pod("default", "last", lambda pod: pod is not None)
    watches._await(lambda: watches.nodes.find("", "last") is not None, WAIT_SECONDS)
    assert watches.urgencies == at_first + 3
    assert watches.nodes.urgent_at > began
    assert watches.pods.urgent_at > began


def test_a_change_of_our_own_is_waited_for_until_the_watch_shows_it(
    told: Following, watches: Watches
) -> None:
    asked: list[Pod | None] = []

    def gone(pod: Pod | None) -> bool:
        if not asked:
            told.tell("pods", "DELETED", LISTS["pods"][0], 9)
        asked.append(pod)
        return pod is None

    watches.await_pod("default", "p1", gone)
    assert [pod is None for pod in (asked[0], asked[-1])] == [False, True]
    told.tell("nodes", "DELETED", node("a1", metadata={"uid": "u1"}), 9)
    watches.await_node_gone("a1", "")
    assert watches.nodes.find("", "a1") is None


@pytest.mark.parametrize(
    ("spec", "local"),
    [
        ({"hostPath": {"path": "/data"}}, True),
        ({"local": {"path": "/data"}}, True),
        ({"csi": {"driver": "d", "volumeHandle": "h"}}, False),
        ({}, False),
    ],
)
def test_a_volume_on_the_disk_of_its_node_is_local(spec: Json, local: bool) -> None:
    wire = msgspec.json.decode(json.dumps({"metadata": {"name": "v"}, "spec": spec}), type=WireVolume)
    assert read_volume(wire, Understanding()).local is local


def test_a_pod_without_claims_is_complete_as_it_is() -> None:
    seen: PodSeen = Readers().pod(msgspec.json.decode(json.dumps(seen_pod("p1")), type=WirePod))
    assert complete_pod(seen, Storage()) == seen.pod


def test_a_read_asks_for_the_form_it_wants() -> None:
    server = Server()
    server.says("GET /version", (200, {}))
    with connected(server) as connection:
        connection.get("/version", "the version")
        connection.try_get("/version", "the version", accept="application/json;as=Other")
        host = connection.server
    assert server.accepted == ["application/json", "application/json;as=Other"]
    assert server.agents == {"ebbtide"}
    assert host == f"127.0.0.1:{host.rpartition(':')[2]}"


def test_the_time_of_the_server_is_that_of_its_last_answer() -> None:
    server = Server()
    server.says("GET /version", (200, {}))
    with connected(server) as connection:
        before = connection.last_date
        connection.get("/version", "the version")
        assert (before, parsedate_to_datetime(connection.last_date).year >= 2024) == ("", True)


def test_a_call_may_have_less_time_than_others() -> None:
    class Silent(Server):
        def take(self, method: str, path: str, body: Any, kind: str) -> Answer:
            over.wait(WAIT_SECONDS)
            return 200, {}

    over = threading.Event()
    with connected(Silent()) as connection:
        try:
            with pytest.raises(Unanswered):  # the others have half a minute: then it is answered
                connection.try_act(Call("POST", "/", "call", {}), 0.05)
            assert not over.is_set()
        finally:
            over.set()
