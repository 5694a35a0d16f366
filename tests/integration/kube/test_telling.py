"""Events on nodes say why they are kept: once an hour for each reason, and never at the cost of a tick."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import connect
from ebbtide.adapters.kube.events import MOST_AT_ONCE, Events, NodeTeller
from ebbtide.model.decision import Action, Check, Decision, Refusal, Verdict
from ebbtide.model.operation import RemovalState
from tests.builders import NOW, make_removal, make_scale_down, make_spot
from tests.integration.kube.answering import Answer, api_server
from tests.integration.kube.objects import Json, node
from tests.servers.processes import eventually
from tests.servers.shared_kube import SharedKube

EVENTS = "/api/v1/namespaces/default/events"


def refusing(*refusals: Refusal) -> Decision:
    check = Check("a node can go", False, "none may go")
    return Decision("d1", NOW, Action.NOTHING, "", (Verdict(Action.SCALE_DOWN, (check,), refusals),))


def told(kube: SharedKube) -> list[Json]:
    return [event for event in kube.api.items(EVENTS) if event["reason"] == "NotRemoved"]


@pytest.fixture
def cluster(kube: SharedKube) -> Iterator[KubeCluster]:
    kube.api.post("/api/v1/nodes", node("w1"))
    found = KubeCluster(connect(kube.kubeconfig))
    found.read()
    yield found
    found.close()


def test_a_node_that_is_kept_says_why_once(kube: SharedKube, cluster: KubeCluster) -> None:
    for seconds in (60, 75):
        reason = f"default/web is {seconds} s from its budget"
        cluster.teller.decided(refusing(Refusal("w1", reason), Refusal("gone", "it is not there")))
    cluster.teller.decided(refusing(Refusal("w1", "it is the last ready worker in zone a")))
    cluster.teller.close()
    events = told(kube)
    assert {event["message"] for event in events} == {
        "kept: default/web is 60 s from its budget",
        "kept: it is the last ready worker in zone a",
    }
    assert {event["involvedObject"]["uid"] for event in events} == {
        kube.api.get("/api/v1/nodes/w1")["metadata"]["uid"]
    }
    assert {event["source"]["component"] for event in events} == {"ebbtide"}


def test_a_node_that_is_given_back_says_why(kube: SharedKube, cluster: KubeCluster) -> None:
    uid = kube.api.get("/api/v1/nodes/w1")["metadata"]["uid"]
    going = make_removal("w1", node_uid=uid, state=RemovalState.DRAINING)
    kept = make_removal("w1", node_uid=uid, state=RemovalState.RELEASING, reason="pods have waited")
    cluster.teller.advanced(make_scale_down(going), make_scale_down(kept))
    cluster.teller.advanced(make_scale_down(kept), make_scale_down(kept))
    cluster.teller.advanced(make_spot("w1"), make_spot("w1", removal=None))
    cluster.teller.close()
    assert [event["message"] for event in told(kube)] == ["given up by op: pods have waited"]


def test_an_api_server_that_does_not_answer_holds_nobody_up_and_few_nodes_are_told_at_a_time() -> None:
    asked, answers = list[str](), threading.Event()

    def slow(path: str, query: dict[str, str]) -> Answer:
        asked.append(path)
        answers.wait(30)
        return 201, "{}"

    names = [f"w{number}" for number in range(3 * MOST_AT_ONCE)]
    with api_server(slow) as connection:
        teller = NodeTeller(Events(connection), lambda: {name: f"uid-{name}" for name in names})
        teller.decided(refusing(*(Refusal(name, "it rests") for name in names)))
        eventually(lambda: bool(asked), 10, "a first event in progress")
        assert asked == [EVENTS]
        answers.set()
        eventually(lambda: len(asked) == MOST_AT_ONCE, 10, "the others")
        teller.decided(refusing(*(Refusal(name, "it rests") for name in names)))
        teller.close()
    assert asked == [EVENTS] * (2 * MOST_AT_ONCE)
