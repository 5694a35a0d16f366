"""Requests that are not whole: what is kept of them for callers without a token is bounded."""

from __future__ import annotations

import asyncio
import select
import socket
from contextlib import ExitStack, closing
from typing import Any

import pytest

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.guard import MOST_HELD, MOST_HELD_EACH, BodyLimit, HeldBodies
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import Scope
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import TOKENS, make_site
from tests.integration.api.test_connections import ENDLESS, WAIT_SECONDS, heard, knock

ONE, OTHER, THIRD = "192.0.2.1", "192.0.2.2", "192.0.2.3"
MOST_HEAD = 16 * 1024
DATA = {"type": "http.request", "body": b"x" * 100, "more_body": True}
LAST = {"type": "http.request", "body": b"", "more_body": False}
GONE = {"type": "http.disconnect"}


class Caller:
    """Sends what it is told to, a part at a time."""

    def __init__(self, limit: BodyLimit, address: str, token: str = "") -> None:
        self._coming: asyncio.Queue[Any] = asyncio.Queue()
        self.answers: list[int] = []
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        scope = {"type": "http", "path": "/", "method": "POST", "headers": headers, "client": (address, 1)}
        self._task = asyncio.ensure_future(limit(scope, self._coming.get, self._hears))

    async def says(self, *messages: Any) -> list[int]:
        for message in messages:
            self._coming.put_nowait(message)
        for _ in range(20):  # the turns that the other side takes
            await asyncio.sleep(0)
        return self.answers

    async def _hears(self, message: Any) -> None:
        if message["type"] == "http.response.start":
            self.answers.append(message["status"])

    def ends(self) -> None:
        self._task.cancel()


async def answers_200(scope: Any, receive: Any, send: Any) -> None:
    while (await receive()).get("more_body"):
        pass
    await send({"type": "http.response.start", "status": 200})


def limited(live: Live, held: HeldBodies) -> BodyLimit:
    return BodyLimit(answers_200, 1000, make_site(live), held)


def test_bodies_of_callers_without_a_token_have_a_limit_together(live: Live) -> None:
    async def play() -> None:
        held = HeldBodies(together=250, each=200)
        limit = limited(live, held)
        one, other, third = (Caller(limit, address) for address in (ONE, OTHER, THIRD))
        assert await one.says(DATA, DATA) == []
        assert await other.says(DATA) == [503]
        assert held.all == 200
        assert await one.says(LAST) == [200]
        assert held.all == 0
        assert await third.says(DATA, DATA, LAST) == [200]

    asyncio.run(play())


def test_no_address_takes_all_of_it_alone(live: Live) -> None:
    async def play() -> None:
        held = HeldBodies(together=1000, each=200)
        limit = limited(live, held)
        first, second = Caller(limit, ONE), Caller(limit, ONE)
        assert await first.says(DATA, DATA) == []
        assert await second.says(DATA) == [503]
        assert await Caller(limit, OTHER).says(DATA, LAST) == [200]

    asyncio.run(play())


def test_a_caller_with_a_token_has_no_part_in_it(live: Live) -> None:
    async def play() -> None:
        held = HeldBodies(together=0, each=0)
        limit = limited(live, held)
        assert await Caller(limit, ONE, TOKENS[Scope.READ]).says(DATA, LAST) == [200]
        assert await Caller(limit, ONE, "ebb_made_up").says(DATA, LAST) == [503]
        assert await Caller(limit, ONE).says(LAST) == [200]  # nothing is kept for it

    asyncio.run(play())


@pytest.mark.parametrize("way", ["gone", "cut", "too long"])
def test_what_was_kept_for_a_body_that_never_became_whole_is_given_back(live: Live, way: str) -> None:
    async def play() -> None:
        held = HeldBodies(together=2000, each=2000)
        caller = Caller(limited(live, held), ONE)
        await caller.says(DATA, DATA)
        assert held.all == 200
        if way == "gone":
            await caller.says(GONE)
        elif way == "cut":
            caller.ends()
            await asyncio.sleep(0)
        else:
            assert await caller.says(*[DATA] * 9) == [413]
        assert held.all == 0
        assert held.takes(ONE, 2000)

    asyncio.run(play())


def test_half_bodies_in_every_place_take_no_more_than_the_limit(live: Live) -> None:
    """Over a real socket: a refused connection is closed, with what it sent."""
    app = make_app(make_site(live, hosts=("127.0.0.1",), max_body_bytes=256 * 1024))
    long = 250_000
    path = b"/api/v1/scaling/webhooks/wake"  # not counted before its signature, which needs the whole body
    half = b"POST %s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 262000\r\n\r\n" % path + b"x" * long
    with served(app, "127.0.0.1", 0, most=50, patience=ENDLESS) as port, ExitStack() as open_ones:
        callers = [open_ones.enter_context(closing(knock(port, half))) for _ in range(12)]
        held = MOST_HELD_EACH // long
        answered: set[socket.socket] = set()
        while len(answered) < len(callers) - held:
            waiting = [caller for caller in callers if caller not in answered]
            found, _, _ = select.select(waiting, [], [], WAIT_SECONDS)
            assert found, f"only {len(answered)} were refused"
            answered.update(found)
        assert all(heard(caller).startswith(b"HTTP/1.1 503 ") for caller in answered)
    assert MOST_HELD_EACH * 4 <= MOST_HELD


def test_a_head_that_does_not_end_is_refused_before_it_is_long(live: Live) -> None:
    app = make_app(make_site(live, hosts=("127.0.0.1",)))
    endless = b"GET /healthz HTTP/1.1\r\nX-Much: " + b"a" * (MOST_HEAD + 1)
    with (
        served(app, "127.0.0.1", 0, patience=ENDLESS) as port,
        closing(knock(port, endless)) as caller,
    ):
        assert heard(caller).startswith(b"HTTP/1.1 400 ")
