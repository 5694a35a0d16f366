"""One kind of object, listed and followed: what is asked for, and what is made of each answer."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from ebbtide.adapters.kube.cluster import Readers
from ebbtide.adapters.kube.connection import GONE, NODES, ApiError
from ebbtide.adapters.kube.watch import PAUSE_SECONDS, QUIET_SECONDS, WATCH_SECONDS, Follower
from tests.integration.kube.objects import Json, node
from tests.unit.kube.scripted import Answer, Server, connected, refusal

ONLY = {"labelSelector": "pool=general"}


def seen(name: str, version: int) -> Json:
    return node(name, metadata={"resourceVersion": str(version)})


def line(kind: str, item: Any) -> bytes:
    return json.dumps({"type": kind, "object": item}).encode() + b"\n"


class Nodes(Server):
    """A list at version 7, and a watch that says `lines` and ends."""

    def __init__(self) -> None:
        super().__init__()
        self.listed = [seen("a1", 5)]
        self.lines: list[bytes] = []
        self.queries: list[dict[str, str]] = []

    def take(self, method: str, path: str, body: Any, kind: str) -> Answer:
        query = dict(parse_qsl(urlsplit(path).query))
        self.queries.append(query)
        if "watch" in query:
            return 200, b"".join(self.lines)
        return 200, {"metadata": {"resourceVersion": "7"}, "items": self.listed}


@pytest.fixture
def nodes() -> Nodes:
    return Nodes()


@pytest.fixture
def follower(nodes: Nodes) -> Iterator[Follower[Any, Any]]:
    """Driven by the test: its thread is not started."""
    with connected(nodes) as connection:
        yield Follower(connection, NODES, Readers().node, threading.Condition(), ONLY)


def names_of(follower: Follower[Any, Any]) -> list[str]:
    return sorted(item.name for item in follower.items())


def test_a_watch_continues_from_its_list_with_bookmarks_and_an_end(
    nodes: Nodes, follower: Follower[Any, Any]
) -> None:
    follower._list()
    follower._watch()
    assert nodes.queries[-1] == {
        **ONLY,
        "watch": "1",
        "resourceVersion": "7",
        "allowWatchBookmarks": "true",
        "timeoutSeconds": str(WATCH_SECONDS),
    }
    assert nodes.queries[0]["labelSelector"] == ONLY["labelSelector"]


def test_changes_are_taken_in_order_and_the_next_watch_continues_after_them(
    nodes: Nodes, follower: Follower[Any, Any]
) -> None:
    follower._list()
    assert (names_of(follower), follower.changes) == (["a1"], 1)
    nodes.lines = [line("ADDED", seen("a2", 8)), line("DELETED", seen("a1", 9))]
    follower._watch()
    assert (names_of(follower), follower.changes) == (["a2"], 3)
    nodes.lines = [line("BOOKMARK", {"metadata": {"resourceVersion": "30"}})]
    follower._watch()
    assert nodes.queries[-1]["resourceVersion"] == "9"
    assert (names_of(follower), follower.changes) == (["a2"], 3)
    follower._watch()
    assert nodes.queries[-1]["resourceVersion"] == "30"


def test_an_older_object_neither_replaces_nor_deletes_a_newer_one(
    nodes: Nodes, follower: Follower[Any, Any]
) -> None:
    nodes.listed = [seen("a1", 20)]
    follower._list()
    nodes.lines = [line("DELETED", seen("a1", 19))]
    follower._watch()
    assert (names_of(follower), follower.changes) == (["a1"], 1)
    nodes.lines = [line("DELETED", seen("a1", 20))]
    follower._watch()
    assert names_of(follower) == []


def test_a_server_that_has_forgotten_the_version_says_so_in_the_watch(
    nodes: Nodes, follower: Follower[Any, Any]
) -> None:
    follower._list()
    nodes.lines = [line("ERROR", {"kind": "Status", "code": GONE, "message": "too old"})]
    with pytest.raises(ApiError) as refused:
        follower._watch()
    assert refused.value.code == GONE


def test_a_watch_that_ends_in_the_middle_of_a_change_is_a_failure(
    nodes: Nodes, follower: Follower[Any, Any]
) -> None:
    follower._list()
    nodes.lines = [line("ADDED", seen("a2", 8)), b'{"type": "ADDED"']
    with pytest.raises(ValueError, match="in the middle of a change"):
        follower._watch()
    assert names_of(follower) == ["a1", "a2"]


def test_it_is_current_once_it_heard_something_and_no_more_after_a_failure(
    follower: Follower[Any, Any],
) -> None:
    heard = [follower.current]
    follower._list()
    assert [*heard, follower.current] == [False, True]
    follower._stop.set()  # so no failure is waited for
    for _ in PAUSE_SECONDS:
        follower._fail()
    assert (follower.current, follower.failures) == (False, len(PAUSE_SECONDS))
    follower._watch()
    assert (follower.current, follower.failures) == (True, 0)


def test_a_version_that_is_forgotten_is_asked_for_once_and_one_that_fails_several_times(
    nodes: Nodes, follower: Follower[Any, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("ebbtide.adapters.kube.watch.PAUSE_SECONDS", (0.0, 0.0, 0.0))
    wanted = ["list", "gone", "list", "unwell", "unwell", "unwell", "list"]
    asked: list[str] = []

    def take(method: str, path: str, body: Any, kind: str) -> Answer:
        says = wanted[len(asked)]
        asked.append("list" if "watch=" not in path else says)
        if len(asked) == len(wanted):
            follower.stop()
        if "watch=" not in path:
            return 200, {"metadata": {"resourceVersion": "7"}, "items": []}
        return refusal(GONE if says == "gone" else 504)

    monkeypatch.setattr(nodes, "take", take)
    follower._run()
    assert asked == wanted


def test_whatever_is_heard_shows_that_the_watch_is_alive(follower: Follower[Any, Any]) -> None:
    follower._list()
    for line_heard in (
        line("ADDED", seen("a2", 9)),
        line("BOOKMARK", {"metadata": {"resourceVersion": "11"}}),
    ):
        follower._heard_at = time.monotonic() - QUIET_SECONDS
        assert not follower.current
        follower._hear(line_heard)
        assert follower.current


def test_each_failure_in_a_row_is_followed_by_a_longer_pause(follower: Follower[Any, Any]) -> None:
    class Noted(threading.Event):
        def wait(self, timeout: float | None = None) -> bool:
            pauses.append(timeout)
            return False

    pauses: list[float | None] = []
    follower._stop = Noted()
    for _ in range(len(PAUSE_SECONDS) + 2):
        follower._fail()
    assert pauses == [*PAUSE_SECONDS, PAUSE_SECONDS[-1], PAUSE_SECONDS[-1]]
