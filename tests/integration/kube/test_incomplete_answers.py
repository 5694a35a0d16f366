"""A list is whole or an error, and a watch that fails is never taken for a quiet cluster."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from kubernetes import client

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import Connection
from ebbtide.adapters.kube.lists import NODES, read_list
from ebbtide.adapters.kube.reading import Readers
from ebbtide.adapters.kube.usage import MetricsServer
from ebbtide.errors import EbbtideError, Final, Retryable, Throttled, Unanswered, Usage
from ebbtide.model.effect import Cordon, Evict
from tests.integration.kube.objects import Json, node
from tests.servers.processes import eventually
from tests.servers.prometheus import http_server

Answer = tuple[int, str]


@contextmanager
def api_server(answer: Callable[[str, dict[str, str]], Answer], seconds: float = 5) -> Iterator[Connection]:
    """An API server whose every answer the test gives, by path and query."""

    def asked(path: str) -> Answer:
        parts = urlsplit(path)
        return answer(parts.path, {key: values[0] for key, values in parse_qs(parts.query).items()})

    with http_server(asked) as port:
        connection = Connection(client.ApiClient(client.Configuration(f"http://127.0.0.1:{port}")), seconds)
        try:
            yield connection
        finally:
            connection.close()


def page(names: list[str], more: str = "") -> str:
    items = [node(name) for name in names]
    return json.dumps({"metadata": {"resourceVersion": "7", "continue": more}, "items": items})


def read_nodes(connection: Connection) -> list[str]:
    return [found.name for found in read_list(connection, NODES, Readers().node)[0]]


def status(code: int, message: str = "", **details: Any) -> Answer:
    return code, json.dumps({"kind": "Status", "code": code, "message": message, "details": details})


def test_pages_are_read_to_the_end_and_put_together() -> None:
    def answer(_: str, query: dict[str, str]) -> Answer:
        assert query["limit"] == "500"
        return 200, page(["a3"]) if query.get("continue") == "p2" else page(["a1", "a2"], "p2")

    with api_server(answer) as connection:
        assert read_nodes(connection) == ["a1", "a2", "a3"]


@pytest.mark.parametrize(
    ("second", "error"),
    [
        (status(500, "etcd is gone"), Retryable),
        (status(429, "too many"), Throttled),
        (status(403, "not yours"), Usage),
        ((200, page(["a3"])[:-20]), Retryable),
        ((200, "<html>"), Retryable),
        ((200, json.dumps({"metadata": {}, "items": [{"spec": {}}]})), Retryable),
    ],
)
def test_a_list_whose_second_page_is_not_to_be_had_is_an_error(
    second: Answer, error: type[EbbtideError]
) -> None:
    with (
        api_server(
            lambda _, query: second if "continue" in query else (200, page(["a1"], "p2"))
        ) as connection,
        pytest.raises(error),
    ):
        read_nodes(connection)


def test_a_moment_that_the_server_no_longer_keeps_is_listed_anew_and_given_up_in_the_end() -> None:
    asked: list[str] = []

    def answer(_: str, query: dict[str, str]) -> Answer:
        asked.append(query.get("continue", ""))
        if "continue" in query and len(asked) < enough:
            return status(410, "expired")
        return 200, page(["a1"], "p2" if "continue" not in query else "")

    enough = 4
    with api_server(answer) as connection:
        assert read_nodes(connection) == ["a1", "a1"]
        assert asked == ["", "p2", "", "p2"]
        asked.clear()
        enough = 100
        with pytest.raises(Retryable, match="change faster"):
            read_nodes(connection)


def test_a_slow_or_silent_server_is_an_error_that_may_pass() -> None:
    def slow(_: str, query: dict[str, str]) -> Answer:
        time.sleep(1)
        return 200, page([])

    with api_server(slow, 0.2) as connection, pytest.raises(Retryable, match="no whole answer"):
        read_nodes(connection)


def test_an_act_without_an_answer_may_have_happened_and_one_refused_has_not() -> None:
    there = json.dumps({"metadata": {"name": "web-1", "uid": "uid-1"}})
    answers: dict[str, Answer] = {"web-1": (200, there)}
    pod = Evict("default", "web-1", "uid-1", "a1", 30)

    def answer(path: str, _: dict[str, str]) -> Answer:
        if "events" in path:
            return 201, "{}"
        found = answers.get(path.rpartition("/")[2], (0, ""))
        if not found[0]:
            time.sleep(1)
        return found

    with api_server(answer, 0.3) as connection:
        cluster = KubeCluster(connection)
        with pytest.raises(Unanswered):
            cluster.evict(pod)
        for code, error in (
            (500, Unanswered),
            (504, Unanswered),
            (403, Final),
            (422, Final),
            (401, Retryable),
        ):
            answers["eviction"] = status(code, "no")
            with pytest.raises(error):
                cluster.evict(pod)
        terminating = {"reason": "NamespaceTerminating", "message": "ends"}
        answers["eviction"] = status(403, "forbidden", causes=[terminating])
        with pytest.raises(Retryable):
            cluster.evict(pod)
        answers["eviction"] = status(
            500, "This pod has more than one PodDisruptionBudget, which is not supported"
        )
        with pytest.raises(Final, match="let only one select it"):
            cluster.evict(pod)


def test_a_node_that_others_keep_changing_is_left_for_later() -> None:
    def answer(path: str, _: dict[str, str]) -> Answer:
        if path.startswith("PATCH"):
            return status(409, "the object has been modified")
        return 200, json.dumps(node("a1", metadata={"uid": "u", "resourceVersion": "5", "name": "a1"}))

    with api_server(answer) as connection, pytest.raises(Retryable, match="changed by others"):
        KubeCluster(connection).cordon(Cordon("a1", "u", "op-1"), 5)


class WatchedNodes:
    """A server with nodes to list, and a watch that says what the test puts in, line by line."""

    def __init__(self) -> None:
        self.names = ["a1"]
        self.lists = 0
        self.watches: list[str] = []
        self.says: list[Json] = []
        self.refuse = False
        self.asked = threading.Event()

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


def test_a_watch_is_resumed_where_it_ended_and_listed_anew_when_that_is_forgotten(tmp_path: Path) -> None:
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


def test_while_a_watch_is_broken_lists_are_read_and_their_error_is_the_callers(tmp_path: Path) -> None:
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


def test_metrics_server_gives_a_share_of_what_the_nodes_offer_or_says_why_not() -> None:
    usage = {"metadata": {"name": "a1"}, "usage": {"cpu": "1000m"}, "timestamp": "2026-01-01T00:00:00Z"}
    answers = [(200, json.dumps({"items": [usage]}))]
    with api_server(lambda *_: answers[0]) as connection:
        metrics = MetricsServer(connection, lambda: {"a1": 4000, "a2": 4000})
        reading = metrics.read_cpu(["a1"])
        assert (reading.value, reading.at) == (0.25, 1767225600)
        assert "1 of 2 workers have no sample, a2 first" in metrics.read_cpu(["a1", "a2"]).problem
        for answer, says in (
            (status(404), "has no metrics-server"),
            (status(503, "overloaded"), "overloaded"),
            ((200, "{}"), "items"),
            ((200, json.dumps({"items": [{**usage, "usage": {"cpu": "NaN"}}]})), "no amount of CPU"),
        ):
            answers[0] = answer
            assert says in metrics.read_cpu(["a1"]).problem
