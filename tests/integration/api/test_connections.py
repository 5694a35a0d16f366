"""Connections that ask for nothing: they are closed, they give way, and the engine keeps its descriptors."""

from __future__ import annotations

import resource
import socket
import subprocess
import sys
from contextlib import ExitStack, closing
from pathlib import Path

import pytest
from fastapi import FastAPI

from ebbtide.entrypoints.api import serving
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import (
    AT_A_TIME,
    GRACE_SECONDS,
    MOST_CONNECTIONS,
    SHARE,
    ConnectionPlaces,
    Governor,
    LimitedConnection,
    Patience,
    places,
    served,
    waited_for_core,
)
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import make_site
from tests.servers.processes import eventually

WAIT_SECONDS = 30.0
"""Far more than anything here takes: a socket that says nothing for so long is a failure."""
SHORT, LONG = 0.2, 600
PROBE = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
TYPED = b"PUT /api/v1/pause HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 100\r\n\r\n{"
ENDLESS = Patience(LONG, LONG, LONG, LONG)


def knock(port: int, says: bytes = b"") -> socket.socket:
    caller = socket.create_connection(("127.0.0.1", port), WAIT_SECONDS)
    if says:
        caller.sendall(says)
    return caller


def heard(caller: socket.socket) -> bytes:
    """All that comes until the other side closes."""
    text = b""
    try:
        while block := caller.recv(65536):
            text += block
    except ConnectionResetError:
        pass
    return text


@pytest.fixture
def app(live: Live) -> FastAPI:
    return make_app(make_site(live, hosts=("127.0.0.1",)))


HALF = {
    "silent from the start": (b"", Patience(SHORT, LONG, LONG, LONG)),
    "half of a head": (b"GET /healthz HTTP/1.1\r\nHost: 127.0", Patience(SHORT, LONG, LONG, LONG)),
    "half of a body": (TYPED, Patience(LONG, SHORT, LONG, LONG)),
    "silent after an answer": (PROBE.replace(b"close", b"keep-alive"), Patience(LONG, LONG, 1, LONG)),
    "half of a second head": (
        PROBE.replace(b"close", b"keep-alive") + b"GET /healthz HT",
        Patience(SHORT, LONG, LONG, LONG),
    ),
}


@pytest.mark.parametrize("name", HALF)
def test_a_connection_that_does_not_continue_is_closed(app: FastAPI, name: str) -> None:
    says, patience = HALF[name]
    with served(app, "127.0.0.1", 0, patience=patience) as port, closing(knock(port, says)) as caller:
        heard(caller)


def test_a_caller_who_does_not_read_is_dropped(live: Live) -> None:
    """He asks for more than all buffers on the way hold, and takes nothing of it."""
    much = (b"#" * 60_000_000, "text/plain")
    app = make_app(make_site(live, hosts=("127.0.0.1",), tokens=(), open_reading=True, metrics=lambda: much))
    asked = PROBE.replace(b"/healthz", b"/metrics")
    patience = Patience(LONG, LONG, LONG, SHORT)
    with (
        served(app, "127.0.0.1", 0, most=1, patience=patience) as port,
        closing(knock(port, asked)) as caller,
    ):
        assert caller.recv(100).startswith(b"HTTP/1.1 200")
        answers: set[bytes] = set()
        while not any(answer.endswith(b"ok\n") for answer in answers):  # his is the only place
            with closing(knock(port, PROBE)) as next_one:
                answers.add(heard(next_one))
        assert len(heard(caller)) < len(much[0])


@pytest.mark.parametrize("says", [b"", b"GET /", TYPED])
def test_half_open_connections_give_way_to_who_asks(app: FastAPI, says: bytes) -> None:
    with served(app, "127.0.0.1", 0, most=5, patience=ENDLESS) as port, ExitStack() as open_ones:
        half = [open_ones.enter_context(closing(knock(port, says))) for _ in range(50)]
        for _ in range(10):
            with closing(knock(port, PROBE)) as caller:
                assert heard(caller).endswith(b"ok\n")
        heard(half[0])  # the first of them was closed


def test_who_is_being_answered_is_not_closed_for_a_newcomer(live: Live) -> None:
    site = make_site(live, hosts=("127.0.0.1",), tokens=(), open_reading=True)
    listen = PROBE.replace(b"/healthz", b"/api/v1/events")
    with served(make_app(site), "127.0.0.1", 0, most=2, patience=ENDLESS) as port, ExitStack() as open_ones:
        for _ in range(2):
            listener = open_ones.enter_context(closing(knock(port, listen)))
            assert listener.recv(100).startswith(b"HTTP/1.1 200")
        with closing(knock(port)) as refused:
            assert heard(refused).startswith(b"HTTP/1.1 503")


def test_who_goes_while_being_answered_gives_the_place_back(live: Live) -> None:
    site = make_site(live, hosts=("127.0.0.1",), tokens=(), open_reading=True)
    listen = PROBE.replace(b"/healthz", b"/api/v1/events")
    with served(make_app(site), "127.0.0.1", 0, most=1, patience=ENDLESS) as port:
        with closing(knock(port, listen)) as listener:
            assert listener.recv(100).startswith(b"HTTP/1.1 200")

        def answered() -> bool:
            with closing(knock(port, PROBE)) as next_one:
                return heard(next_one).endswith(b"ok\n")

        eventually(answered, WAIT_SECONDS, "the place")


def test_who_reads_for_a_while_and_then_stops_is_dropped_too(live: Live) -> None:
    much = (b"#" * 60_000_000, "text/plain")
    app = make_app(make_site(live, hosts=("127.0.0.1",), tokens=(), open_reading=True, metrics=lambda: much))
    patience = Patience(LONG, LONG, LONG, SHORT)
    with (
        served(app, "127.0.0.1", 0, most=1, patience=patience) as port,
        closing(knock(port, PROBE.replace(b"/healthz", b"/metrics"))) as caller,
    ):
        for _ in range(200):
            assert caller.recv(65536)

        def answered() -> bool:
            with closing(knock(port, PROBE)) as next_one:
                return heard(next_one).endswith(b"ok\n")

        eventually(answered, WAIT_SECONDS, "the place")


CHILD = """
import os, resource, sys
resource.setrlimit(resource.RLIMIT_NOFILE, (256, 256))
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import START, make_site

def work():
    mine = [os.open(os.devnull, os.O_RDONLY) for _ in range(40)]  # what a tick may need at once
    for each in mine:
        os.close(each)
    return ""

site = make_site(Live(1, START), hosts=("127.0.0.1",), healthy=work)
with served(make_app(site), "127.0.0.1", 0) as port:
    print(port, flush=True)
    sys.stdin.read()
"""


def test_half_open_connections_leave_the_engine_its_descriptors() -> None:
    """More of them than this process may have descriptors, none with a token; its work continues."""
    root = Path(__file__).parents[3]
    child = subprocess.Popen(
        [sys.executable, "-c", CHILD], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with child, ExitStack() as open_ones:
        assert child.stdin is not None
        assert child.stdout is not None
        port = int(child.stdout.readline())
        for _ in range(600):
            open_ones.enter_context(closing(knock(port)))
        for _ in range(20):
            with closing(knock(port, PROBE)) as caller:
                assert heard(caller).endswith(b"ok\n")
        child.stdin.close()


def test_the_places_are_well_below_the_limit_of_descriptors() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (1024, before[1]))
        assert places() + AT_A_TIME <= 576
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
    assert places() <= MOST_CONNECTIONS


class Thread:
    """A clock, and the time that the thread had of the interpreter, or waited for a core."""

    def __init__(self) -> None:
        self.now = self.used = self.waited = 0.0
        self.rests: list[float] = []
        self.governor = Governor(lambda: self.now, lambda: self.used, self.rest, lambda: self.waited)

    def work(self, seconds: float, share: float, waits: float = 0.0) -> None:
        self.now += seconds
        self.used += seconds * share
        self.waited += seconds * waits
        self.governor.turn()

    def rest(self, seconds: float) -> None:
        self.now += seconds
        self.rests.append(round(seconds, 3))


def test_the_thread_of_the_api_rests_when_it_has_had_its_share() -> None:
    thread = Thread()
    for _ in range(20):
        thread.work(0.02, share=1.0)
    assert thread.used / thread.now == pytest.approx(SHARE, abs=0.01)
    before = list(thread.rests)
    for _ in range(20):
        thread.work(0.02, share=SHARE / 2)
    assert thread.rests == before


def test_in_a_container_with_a_tenth_of_a_core_the_api_has_its_share_of_that_tenth() -> None:
    """A flood would otherwise take all of it, since the whole is less than the share of a core."""
    thread = Thread()
    for _ in range(50):
        thread.work(0.05, share=0.1, waits=0.9)
    assert thread.used / thread.now == pytest.approx(SHARE * 0.1, abs=0.005)


def test_where_the_system_does_not_tell_a_thread_never_waited_for_a_core(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = tmp_path / "schedstat"
    monkeypatch.setattr(serving, "SCHEDULED", told)
    assert waited_for_core() == 0.0
    for text in ("", "nonsense", "1 x 2"):
        told.write_text(text)
        assert waited_for_core() == 0.0
    told.write_text("1 2500000000 2")
    assert waited_for_core() == 2.5


def test_time_that_a_thread_waited_for_a_core_only_grows() -> None:
    first = waited_for_core()
    assert waited_for_core() >= first >= 0.0


def test_a_new_connection_waits_until_a_silent_one_has_had_its_grace(app: FastAPI) -> None:
    with served(app, "127.0.0.1", 0, most=1, patience=ENDLESS) as port, closing(knock(port)) as silent:
        with closing(knock(port, PROBE)) as caller:
            assert heard(caller).endswith(b"ok\n")
        assert heard(silent) == b""


def test_only_a_connection_that_has_had_its_grace_loses_its_place() -> None:
    now = 0.0
    room = ConnectionPlaces(1, lambda: now)
    dropped: list[str] = []

    class Silent(LimitedConnection):
        def __init__(self) -> None:
            """Of a connection only what a room asks of it."""

        def drop(self) -> None:
            dropped.append("dropped")
            room.leave(self)

    room.let_in()
    assert room.enter(Silent())
    now = GRACE_SECONDS - 0.01
    assert not room.has_place()
    now = GRACE_SECONDS
    assert room.has_place()
    assert dropped == ["dropped"]
