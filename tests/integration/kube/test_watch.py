"""A watch that fails is never taken for a quiet cluster."""

from __future__ import annotations

import json
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from ebbtide.adapters.kube.cluster import KubeCluster, Readers, became_unschedulable
from ebbtide.adapters.kube.connection import NODES
from ebbtide.adapters.kube.objects import PodSeen
from ebbtide.adapters.kube.watch import Follower
from ebbtide.adapters.kube.wire import WireNode, WirePod
from ebbtide.errors import Retryable
from tests.integration.kube.answering import Answer, api_server, page, status
from tests.integration.kube.objects import Json, node
from tests.servers.processes import eventually


class WatchedNodes:
    """A server with nodes to list, and a watch that says what the test puts in, line by line."""

    def __init__(self) -> None:
        self.names = ["a1"]
        self.lists = 0
        self.watches: list[str] = []
        self.says: list[Json] = []
        self.refuse = False

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        if self.refuse:
            return status(503, "going down")
        if "watch" in query:
            if path.endswith("/nodes"):
                self.watches.append(query["resourceVersion"])
                said, self.says = self.says, []
                return 200, "".join(json.dumps(line) + "\n" for line in said)
            time.sleep(0.05)
            return 200, ""
        self.lists += path.endswith("/nodes")
        return 200, page(self.names if path.endswith("/nodes") else [])


def names_in(cluster: KubeCluster) -> list[str]:
    return sorted(found.name for found in cluster.read().nodes)


def change(kind: str, name: str, version: str) -> Json:
    made = node(name)
    made["metadata"]["resourceVersion"] = version
    return {"type": kind, "object": made}


def wire_node(name: str, version: str) -> WireNode:
    """Cordoned."""
    made = node(name, metadata={"resourceVersion": version}, spec={"unschedulable": True})
    return msgspec.json.decode(json.dumps(made), type=WireNode)


def test_a_watch_is_resumed_where_it_ended_and_listed_again_when_that_is_forgotten() -> None:
    nodes = WatchedNodes()
    with api_server(nodes.answer) as connection:
        cluster = KubeCluster(connection, watching=True)
        assert names_in(cluster) == ["a1"]
        assert nodes.lists == 1
        bookmark = {"type": "BOOKMARK", "object": {"kind": "Node", "metadata": {"resourceVersion": "20"}}}
        nodes.says = [change("ADDED", "a2", "9"), change("DELETED", "a1", "12"), bookmark]
        eventually(lambda: names_in(cluster) == ["a2"], 10, "the change")
        eventually(lambda: "20" in nodes.watches, 10, "the watch resumed from the bookmark")
        assert nodes.lists == 1
        nodes.names = ["b1"]
        nodes.says = [{"type": "ERROR", "object": {"kind": "Status", "code": 410, "message": "too old"}}]
        eventually(lambda: names_in(cluster) == ["b1"], 10, "a new list")
        cluster.close()


def test_a_version_that_the_server_never_had_is_given_up_for_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    """etcd was restored from a backup: its versions begin again below the one we heard last, and the server
    refuses to continue from a version of the future. It does not say 410."""
    monkeypatch.setattr("ebbtide.adapters.kube.watch.PAUSE_SECONDS", (0.01, 0.02, 0.03))
    nodes = WatchedNodes()

    def answer(path: str, query: dict[str, str]) -> Answer:
        if "watch" in query and int(query["resourceVersion"]) > 7:
            return status(504, "Too large resource version: 900, current: 7")
        return nodes.answer(path, query)

    with api_server(answer) as connection:
        follower = Follower(connection, NODES, Readers().node, threading.Condition())
        nodes.says = [change("ADDED", "a2", "900")]
        follower.start()
        eventually(lambda: len(follower.items()) == 2, 60, "the change")
        eventually(lambda: [found.name for found in follower.items()] == ["a1"], 60, "a new list")
        eventually(lambda: follower.current, 60, "a watch that continues from it")
        follower.stop()


def test_while_a_watch_is_broken_lists_are_read_and_their_error_is_the_callers() -> None:
    nodes = WatchedNodes()
    with api_server(nodes.answer) as connection:
        cluster = KubeCluster(connection, watching=True)
        assert names_in(cluster) == ["a1"]
        nodes.refuse = True

        def refused() -> bool:
            try:
                cluster.read()
            except Retryable:
                return True
            return False

        eventually(refused, 10, "the error")
        nodes.refuse = False
        nodes.names = ["a1", "a2"]
        assert names_in(cluster) == ["a1", "a2"]
        cluster.close()


KINDS = ("nodes", "pods", "poddisruptionbudgets", "persistentvolumeclaims", "persistentvolumes")


@pytest.mark.parametrize("broken", KINDS)
def test_while_any_one_of_the_watches_is_broken_no_kept_view_is_shown(broken: str) -> None:
    """Pods that are current next to nodes that are not make a cluster that never was."""
    nodes = WatchedNodes()
    refused = threading.Event()

    def answer(path: str, query: dict[str, str]) -> Answer:
        if refused.is_set() and "watch" in query and path.endswith(f"/{broken}"):
            return status(503, "no watch")
        return nodes.answer(path, query)

    with api_server(answer) as connection:
        cluster = KubeCluster(connection, watching=True)
        assert names_in(cluster) == ["a1"]
        assert nodes.lists == 1
        refused.set()

        def listed() -> bool:
            before = nodes.lists
            names_in(cluster)
            return nodes.lists > before

        eventually(listed, 10, "a list instead of the view")
        cluster.close()


def test_an_older_object_never_replaces_a_newer_one() -> None:
    """An answer to a call of our own may be ahead of the watch, which then brings what was before it."""
    changed = threading.Condition()

    def wire(version: str, cordoned: bool) -> WireNode:
        made = node("a1", metadata={"resourceVersion": version}, spec={"unschedulable": cordoned})
        return msgspec.json.decode(json.dumps(made), type=WireNode)

    with api_server(lambda *_: status(503)) as connection:
        follower = Follower(connection, NODES, Readers().node, changed)
        follower.put(wire("10", True))
        follower.put(wire("9", False))
        assert [found.unschedulable for found in follower.items()] == [True]
        follower.put(wire("10", False))
        assert [found.unschedulable for found in follower.items()] == [False], "the same version, read again"
        follower.put(wire("100", True))
        assert [found.unschedulable for found in follower.items()] == [True], "versions are numbers"
        assert follower.changes == 3


def test_an_answer_that_is_older_than_a_deletion_brings_no_node_back() -> None:
    """Somebody deletes the node that we have just cordoned, and the watch tells it before our own answer is
    read: nothing would ever take the node out of the view again."""
    nodes = WatchedNodes()
    with api_server(nodes.answer) as connection:
        follower = Follower(connection, NODES, Readers().node, threading.Condition())
        follower.start()
        eventually(lambda: len(follower.items()) == 1, 60, "the list")
        nodes.says = [change("ADDED", "a2", "9"), change("DELETED", "a1", "12")]
        eventually(lambda: [found.name for found in follower.items()] == ["a2"], 60, "the deletion")
        follower.put(wire_node("a1", "10"))
        assert [found.name for found in follower.items()] == ["a2"]
        follower.put(wire_node("a2", "11"))
        assert [found.unschedulable for found in follower.items()] == [True], "what is there is still shown"
        follower.put(wire_node("a1", "13"))
        assert len(follower.items()) == 2, "made again, under the same name"
        follower.stop()


def test_a_list_does_not_take_back_what_an_answer_newer_than_it_has_shown() -> None:
    """The list is of version 7. What it lacks although it is older was deleted before."""
    nodes = WatchedNodes()

    def answer(path: str, query: dict[str, str]) -> Answer:
        if "watch" not in query:
            follower.put(wire_node("a1", "10"))
            follower.put(wire_node("a2", "6"))
        return nodes.answer(path, query)

    with api_server(answer) as connection:
        follower = Follower(connection, NODES, Readers().node, threading.Condition())
        follower.put(wire_node("a3", "30"))  # of a server that was restored from a backup since
        follower.start()
        eventually(lambda: nodes.lists == 1 and follower.current, 60, "the list")
        assert [(found.name, found.unschedulable) for found in follower.items()] == [("a1", True)]
        follower.stop()


def test_many_who_read_at_the_same_time_share_the_watches() -> None:
    nodes = WatchedNodes()
    with api_server(nodes.answer) as connection:
        cluster = KubeCluster(connection, watching=True)
        together = threading.Barrier(8)

        def read() -> list[str]:
            together.wait()
            return names_in(cluster)

        with ThreadPoolExecutor(8) as pool:
            seen = [future.result() for future in [pool.submit(read) for _ in range(8)]]
        cluster.close()
    assert seen == [["a1"]] * 8
    assert nodes.lists == 1


def test_a_node_that_becomes_ready_and_a_pod_that_no_node_takes_are_urgent_once() -> None:
    ready, before = change("MODIFIED", "a1", "30"), change("MODIFIED", "a1", "29")
    before["object"]["status"]["conditions"] = [{"type": "Ready", "status": "False"}]
    nodes = WatchedNodes()
    with api_server(nodes.answer) as connection:
        cluster = KubeCluster(connection, watching=True)
        assert cluster.urgencies() == 0, "nothing is watched yet"
        assert names_in(cluster) == ["a1"]
        at_first = cluster.urgencies()
        nodes.says = [before, ready]
        eventually(lambda: cluster.urgencies() == at_first + 1, 10, "the node that became Ready")
        nodes.says = [change("MODIFIED", "a1", "31")]
        eventually(lambda: "31" in nodes.watches, 10, "a further change of it")
        assert cluster.urgencies() == at_first + 1
        cluster.close()


def test_only_a_pod_that_the_scheduler_gave_up_on_is_urgent() -> None:
    def seen(scheduled: str | None, uid: str = "u1") -> PodSeen:
        conditions = [] if scheduled is None else [{"type": "PodScheduled", "status": scheduled}]
        raw = {
            "metadata": {"name": "p", "uid": uid},
            "status": {"phase": "Pending", "conditions": conditions},
        }
        return Readers().pod(msgspec.convert(raw, WirePod))

    new, given_up, other = seen(None), seen("False"), seen("False", "u2")
    assert not became_unschedulable(None, new), "the scheduler has not looked at it yet"
    assert became_unschedulable(new, given_up)
    assert not became_unschedulable(given_up, given_up)
    assert became_unschedulable(given_up, other), "another pod under the same name"
