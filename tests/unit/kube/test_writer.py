"""What is sent to the API server for each change, and what is made of each answer to it."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from ebbtide.adapters.kube.access import Access
from ebbtide.adapters.kube.connection import MERGE_PATCH, Connection
from ebbtide.adapters.kube.events import Events
from ebbtide.adapters.kube.writer import TRIES, Actor
from ebbtide.errors import BudgetExhausted, EbbtideError, Final, NotOurs, Retryable, Throttled, Unanswered
from ebbtide.model import names
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.snapshot import LEAVING
from tests.unit.kube.scripted import Answer, Server, connected, refusal

NODE, POD = "/api/v1/nodes/w1", "/api/v1/namespaces/shop/pods/web-1"
PASSWORD = "/api/v1/namespaces/kube-system/secrets/w1.node-password.k3s"
EVICTION = f"{POD}/eviction"
EVICT = Evict("shop", "web-1", "u-pod", "w1", 45)
SIGNED = {names.OWNER: "op", names.TOKEN: "5"}
ACTS = {
    "taint": lambda actor: actor.soft_taint(SoftTaint("w1", "u1", "op"), 5),
    "cordon": lambda actor: actor.cordon(Cordon("w1", "u1", "op"), 5),
    "uncordon": lambda actor: actor.uncordon(Uncordon("w1", "u1", "op", 5), 5),
    "label": lambda actor: actor.label("w1", "u1", {names.POOL: "general"}),
    "evict": lambda actor: actor.evict(EVICT),
    "delete": lambda actor: actor.delete_node(DeleteNode("w1", "u1")),
}


def node(uid: str = "u1", signed: bool = False) -> Answer:
    spec = {"unschedulable": True, "taints": [{"key": LEAVING.key, "effect": LEAVING.effect}]}
    meta = {"name": "w1", "uid": uid, "resourceVersion": "77", "annotations": SIGNED if signed else {}}
    return 200, {"metadata": meta, "spec": spec if signed else {}}


def pod(uid: str = "u-pod") -> Answer:
    return 200, {"metadata": {"name": "web-1", "uid": uid}}


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def actor(server: Server) -> Iterator[Actor]:
    with connected(server) as connection:
        yield Actor(connection, Events(connection))


@pytest.mark.parametrize(
    ("act", "before", "reason"),
    [
        ("taint", node(), "Leaving"),
        ("cordon", node(), "Cordoned"),
        ("uncordon", node(signed=True), "Uncordoned"),
        ("label", node(), "Adopted"),
    ],
)
def test_a_node_is_patched_as_it_was_seen_and_an_event_says_so(
    server: Server, actor: Actor, act: str, before: Answer, reason: str
) -> None:
    server.says(f"GET {NODE}", before)
    server.says(f"PATCH {NODE}", node("as it is now"))
    changed = ACTS[act](actor)
    assert changed.metadata.uid == "as it is now"
    ((path, body, kind),) = server.sent("PATCH")
    assert (path, kind, body["metadata"]["resourceVersion"]) == (NODE, MERGE_PATCH, "77")
    assert server.reasons == [(reason, "Normal", "Node", "u1")]


@pytest.mark.parametrize("act", ["cordon", "uncordon"])
def test_what_is_so_already_is_not_patched_and_not_told(server: Server, actor: Actor, act: str) -> None:
    server.says(f"GET {NODE}", node(signed=act == "cordon"))
    assert ACTS[act](actor) is None
    assert (server.sent("PATCH"), server.told) == ([], [])


@pytest.mark.parametrize("act", ["taint", "cordon"])
def test_a_node_that_is_not_there_cannot_be_signed(server: Server, actor: Actor, act: str) -> None:
    with pytest.raises(NotOurs, match="there is no node w1 with UID u1"):
        ACTS[act](actor)
    assert server.sent("PATCH") == []


def test_a_node_that_is_not_there_needs_no_uncordon(server: Server, actor: Actor) -> None:
    assert ACTS["uncordon"](actor) is None


@pytest.mark.parametrize("code", [409, 404])
def test_a_patch_that_met_another_write_is_planned_again_on_what_is_there_then(
    server: Server, actor: Actor, code: int
) -> None:
    server.says(f"GET {NODE}", node())
    server.says(f"PATCH {NODE}", refusal(code), node("second"))
    assert ACTS["cordon"](actor).metadata.uid == "second"
    assert len(server.sent("GET")) == len(server.sent("PATCH")) == 2


def test_a_node_that_others_change_all_the_time_is_left_for_later(server: Server, actor: Actor) -> None:
    server.says(f"GET {NODE}", node())
    server.says(f"PATCH {NODE}", refusal(409))
    with pytest.raises(Retryable, match="cordon w1: others keep changing the node"):
        ACTS["cordon"](actor)
    assert len(server.sent("PATCH")) == TRIES
    assert server.told == []


@pytest.mark.parametrize(
    ("code", "kind"), [(403, Final), (429, Throttled), (500, Unanswered), (401, Retryable)]
)
def test_a_change_that_is_refused_says_what_and_by_whom(
    server: Server, actor: Actor, code: int, kind: type[EbbtideError]
) -> None:
    server.says(f"GET {NODE}", node())
    server.says(f"PATCH {NODE}", refusal(code))
    with pytest.raises(kind, match=r"^cordon w1: "):
        ACTS["cordon"](actor)
    assert len(server.sent("PATCH")) == 1


@pytest.mark.parametrize(("act", "path"), [("cordon", NODE), ("evict", POD)])
def test_a_look_that_is_refused_changes_nothing(server: Server, actor: Actor, act: str, path: str) -> None:
    server.says(f"GET {path}", refusal(403))
    with pytest.raises(Final, match="apply the RBAC rules"):
        ACTS[act](actor)
    assert [method for method, *_ in server.calls] == ["GET"]


@pytest.mark.parametrize(("act", "path"), [("cordon", NODE), ("evict", POD)])
def test_an_answer_that_is_none_of_an_api_server_is_no_answer(
    server: Server, actor: Actor, act: str, path: str
) -> None:
    server.says(f"GET {path}", (200, b"<html>"))
    with pytest.raises(Unanswered, match="the answer is not one of an API server"):
        ACTS[act](actor)


def test_an_eviction_names_the_very_pod_and_its_grace(server: Server, actor: Actor) -> None:
    server.says(f"GET {POD}", pod())
    server.says(f"POST {EVICTION}", (201, {}))
    ACTS["evict"](actor)
    ((path, body, kind),) = server.sent("POST")
    assert (path, kind) == (EVICTION, "application/json")
    assert body == {
        "apiVersion": "policy/v1",
        "kind": "Eviction",
        "metadata": {"name": "web-1", "namespace": "shop"},
        "deleteOptions": {"preconditions": {"uid": "u-pod"}, "gracePeriodSeconds": 45},
    }
    assert server.reasons == [("Evicted", "Normal", "Pod", "u-pod")]


@pytest.mark.parametrize("there", [pod("another"), refusal(404)])
def test_a_pod_that_is_gone_or_another_by_now_is_not_even_asked_for(
    server: Server, actor: Actor, there: Answer
) -> None:
    """The server takes a disruption off the budget before it compares the UID."""
    server.says(f"GET {POD}", there)
    ACTS["evict"](actor)
    assert server.sent("POST") == []


@pytest.mark.parametrize(("code", "after"), [(404, pod()), (409, pod("another")), (409, refusal(404))])
def test_a_pod_that_went_meanwhile_is_evicted(server: Server, actor: Actor, code: int, after: Answer) -> None:
    server.says(f"GET {POD}", pod(), after)
    server.says(f"POST {EVICTION}", refusal(code))
    ACTS["evict"](actor)
    assert server.reasons == [("Evicted", "Normal", "Pod", "u-pod")]


BUDGET = {"causes": [{"reason": "DisruptionBudget", "message": "web needs 2 healthy pods"}]}
SEVERAL = "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support."


@pytest.mark.parametrize(
    ("answer", "kind", "says", "event"),
    [
        (refusal(429, "Cannot evict", **BUDGET), BudgetExhausted, "web needs 2 healthy", "EvictionDelayed"),
        (refusal(429, "violates the budget"), BudgetExhausted, "violates the budget", "EvictionDelayed"),
        (
            refusal(429, "violates the budget", causes=[{"reason": "Other"}]),
            BudgetExhausted,
            "violates the budget",
            "EvictionDelayed",
        ),
        (refusal(500, SEVERAL), Final, "let only one select it", "EvictionRefused"),
        (refusal(403), Final, "apply the RBAC rules", "EvictionRefused"),
        (refusal(403, "not with your budget", **BUDGET), Final, "apply the RBAC rules", "EvictionRefused"),
    ],
)
def test_an_eviction_that_is_refused_is_told_on_the_pod(
    server: Server, actor: Actor, answer: Answer, kind: type[EbbtideError], says: str, event: str
) -> None:
    server.says(f"GET {POD}", pod())
    server.says(f"POST {EVICTION}", answer)
    with pytest.raises(kind, match=f"^evict shop/web-1: .*{says}"):
        ACTS["evict"](actor)
    assert len(server.sent("GET")) == 1, "nobody says that the pod is another"
    weight = "Normal" if event == "EvictionDelayed" else "Warning"
    assert server.reasons == [(event, weight, "Pod", "u-pod")]


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (refusal(429, "too many requests"), Throttled),
        (refusal(500, "etcd is gone"), Unanswered),
        (refusal(409), Retryable),
        (refusal(503, SEVERAL), Unanswered),
    ],
)
def test_an_eviction_without_an_answer_of_its_own_is_no_news_of_the_pod(
    server: Server, actor: Actor, answer: Answer, kind: type[EbbtideError]
) -> None:
    server.says(f"GET {POD}", pod())
    server.says(f"POST {EVICTION}", answer)
    with pytest.raises(kind):
        ACTS["evict"](actor)
    assert server.told == []


def test_a_node_is_deleted_by_its_uid_and_its_password_forgotten(server: Server, actor: Actor) -> None:
    server.says(f"DELETE {NODE}", (200, {}))
    server.says(f"DELETE {PASSWORD}", (200, {}))
    ACTS["delete"](actor)
    assert [(path, body) for path, body, _ in server.sent("DELETE")] == [
        (NODE, {"preconditions": {"uid": "u1"}}),
        (PASSWORD, None),
    ]
    assert server.reasons == [("Removed", "Normal", "Node", "u1")]


@pytest.mark.parametrize("act", ["cordon", "evict"])
def test_a_server_that_cannot_be_trusted_for_the_moment_is_asked_again_before_an_act(act: str) -> None:
    """A certificate that is being renewed must not end an operation: nothing has been done yet."""
    server = Server()
    with connected(server) as plain:
        untrusted = Connection(Access(f"https://{plain.server}"), 30)
        try:
            with pytest.raises(Retryable):
                ACTS[act](Actor(untrusted, Events(untrusted)))
        finally:
            untrusted.close()
    assert server.calls == []


@pytest.mark.parametrize("code", [403, 404])
def test_a_node_that_is_gone_already_only_has_its_password_forgotten(
    server: Server, actor: Actor, code: int
) -> None:
    server.says(f"DELETE {PASSWORD}", refusal(code))
    ACTS["delete"](actor)
    assert [path for path, *_ in server.sent("DELETE")] == [NODE, PASSWORD]
    assert server.told == []


def test_another_node_of_that_name_keeps_its_password(server: Server, actor: Actor) -> None:
    server.says(f"DELETE {NODE}", refusal(409))
    server.says(f"GET {NODE}", node("another"))
    ACTS["delete"](actor)
    assert [path for path, *_ in server.sent("DELETE")] == [NODE]


@pytest.mark.parametrize(("code", "kind"), [(409, Retryable), (403, Final), (500, Unanswered)])
def test_a_node_that_could_not_be_deleted_keeps_its_password(
    server: Server, actor: Actor, code: int, kind: type[EbbtideError]
) -> None:
    server.says(f"DELETE {NODE}", refusal(code))
    server.says(f"GET {NODE}", node())
    with pytest.raises(kind, match=r"^delete node w1: "):
        ACTS["delete"](actor)
    assert [path for path, *_ in server.sent("DELETE")] == [NODE]


def test_a_password_that_could_not_be_forgotten_is_tried_again(server: Server, actor: Actor) -> None:
    server.says(f"DELETE {NODE}", (200, {}))
    server.says(f"DELETE {PASSWORD}", refusal(500))
    with pytest.raises(Unanswered, match=r"^forget the node password: "):
        ACTS["delete"](actor)


def test_names_are_sent_as_one_part_of_the_path(server: Server, actor: Actor) -> None:
    calls: dict[str, Callable[[], object]] = {
        "/api/v1/nodes/a%3Fb": lambda: actor.uncordon(Uncordon("a?b", "u1", "op"), 5),
        "/api/v1/namespaces/n%3Fs/pods/p%3Fq": lambda: actor.evict(Evict("n?s", "p?q", "u", "w1", 1)),
    }
    for path, call in calls.items():
        call()
        assert server.calls[-1][1] == path
