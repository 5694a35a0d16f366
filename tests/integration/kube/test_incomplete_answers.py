"""A list is whole or an error, and an act without an answer is neither done nor not done."""

from __future__ import annotations

import json
import time

import pytest

from ebbtide.adapters.kube.cluster import KubeCluster, Readers
from ebbtide.adapters.kube.connection import NODES, Connection, read_list
from ebbtide.adapters.kube.usage import MetricsServer
from ebbtide.errors import EbbtideError, Final, Retryable, Throttled, Unanswered, Usage
from ebbtide.model.effect import Cordon, Evict
from ebbtide.model.pod import Resources
from ebbtide.model.snapshot import NodeUse
from tests.builders import make_node
from tests.integration.kube.answering import Answer, api_server, page, status
from tests.integration.kube.objects import node


def read_nodes(connection: Connection) -> list[str]:
    return [found.name for found in read_list(connection, NODES, Readers().node)[0]]


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
def test_a_list_whose_second_page_is_not_available_is_an_error(
    second: Answer, error: type[EbbtideError]
) -> None:
    with (
        api_server(
            lambda _, query: second if "continue" in query else (200, page(["a1"], "p2"))
        ) as connection,
        pytest.raises(error),
    ):
        read_nodes(connection)


def test_a_moment_that_the_server_no_longer_keeps_is_listed_again_and_given_up_in_the_end() -> None:
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

    with api_server(answer) as connection, pytest.raises(Retryable, match="others keep changing the node"):
        KubeCluster(connection).cordon(Cordon("a1", "u", "op-1"), 5)


def test_metrics_server_gives_a_share_of_what_the_nodes_offer_or_says_why_not() -> None:
    usage = {"metadata": {"name": "a1"}, "usage": {"cpu": "1000m"}, "timestamp": "2026-01-01T00:00:00Z"}
    answers = [(200, json.dumps({"items": [usage]}))]
    with api_server(lambda *_: answers[0]) as connection:
        offered = {"a1": 4000, "a2": 4000, "a3": 4000}
        metrics = MetricsServer(connection, lambda: offered, now=lambda: 1767225660.0)
        reading = metrics.read_cpu(["a1"])
        assert (reading.value, reading.at) == (0.25, 1767225600)
        assert "1 of 2 Ready workers have no sample" in metrics.read_cpu(["a1", "a2"]).problem
        late = MetricsServer(connection, lambda: offered, now=lambda: 1767225781.0)
        assert "1 of 1 Ready workers have no sample of the last 3 min" in late.read_cpu(["a1"]).problem
        for answer, says in (
            (status(404), "has no metrics-server"),
            (status(503, "overloaded"), "overloaded"),
            ((200, "{}"), "items"),
            ((200, json.dumps({"items": [{**usage, "usage": {"cpu": "NaN"}}]})), "no sample"),
        ):
            answers[0] = answer
            assert says in metrics.read_cpu(["a1"]).problem


def test_row_27_metrics_server_leaves_out_one_node_of_three_without_a_sample() -> None:
    items = [
        {"metadata": {"name": name}, "usage": {"cpu": cpu}, "timestamp": "2026-01-01T00:00:00Z"}
        for name, cpu in (("a1", "1000m"), ("a2", "3000m"), ("a3", "not a number"))
    ]
    with api_server(lambda *_: (200, json.dumps({"items": items}))) as connection:
        offered = dict.fromkeys(("a1", "a2", "a3"), 4000)
        metrics = MetricsServer(connection, lambda: offered, now=lambda: 1767225660.0)
        assert metrics.read_cpu(["a1", "a2", "a3"]).value == 0.5
        assert metrics.read_cpu(["a1", "a3"]).value is None


def test_metrics_server_tells_what_each_node_uses_and_leaves_out_what_it_does_not_know() -> None:
    fresh, old = "2026-01-01T00:00:00Z", "2025-12-31T23:00:00Z"
    items = [
        {"metadata": {"name": name}, "usage": {"cpu": cpu, "memory": memory}, "timestamp": at}
        for name, cpu, memory, at in (
            ("a1", "1000m", "2Gi", fresh),
            ("a2", "1000m", "2Gi", old),
            ("a3", "NaN", "2Gi", fresh),
            ("gone", "1000m", "2Gi", fresh),
        )
    ]
    answers = [(200, json.dumps({"items": items}))]
    room = Resources(4000, 8192)
    nodes = [make_node(name, allocatable=room) for name in ("a1", "a2", "a3", "b1")]
    with api_server(lambda *_: answers[0]) as connection:
        metrics = MetricsServer(connection, dict, now=lambda: 1767225660.0)
        assert metrics.read_use(nodes) == {"a1": NodeUse(0.25, 0.25, 1767225600)}
        for answer in (status(404), status(503, "overloaded"), (200, "{}")):
            answers[0] = answer
            assert metrics.read_use(nodes) == {}
