"""Listeners of the event stream: no more than there is room for, and each that goes gives its place back."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from typing import Any

import pytest

from ebbtide.entrypoints.api import events
from ebbtide.entrypoints.api.events import EventStream, Hub, Listener
from ebbtide.entrypoints.api.routing import Problem
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import make_site

SCOPE = {"type": "http", "asgi": {"spec_version": "2.3"}, "method": "GET", "headers": []}


class Slow:
    """A store that answers nobody until all have asked who will."""

    def __init__(self, store: Any) -> None:
        self._store = store
        self.gate = threading.Event()

    def read_log(self, *args: Any, **named: Any) -> Any:
        self.gate.wait()
        return self._store.read_log(*args, **named)

    def load(self) -> Any:
        return self._store.load()


def test_three_hundred_at_once_are_not_more_than_the_limit(live: Live) -> None:
    store = Slow(live.ports.store)
    hub = Hub(make_site(live, store=store))

    async def ask() -> str:
        try:
            await hub.listen("")
        except Problem as problem:
            return str(problem.status)
        return "let in"

    async def all_of_them() -> Counter[str]:
        asking = [asyncio.create_task(ask()) for _ in range(300)]
        await asyncio.sleep(0)  # each has come as far as it gets without the store
        store.gate.set()
        return Counter(await asyncio.gather(*asking))

    assert asyncio.run(all_of_them()) == {"let in": events.MOST_LISTENERS, "503": 300 - events.MOST_LISTENERS}


def test_one_whose_store_fails_gives_its_place_back(live: Live) -> None:
    class Broken:
        def read_log(self, *_: Any, **__: Any) -> Any:
            raise RuntimeError("no store")

    hub = Hub(make_site(live, store=Broken()))

    async def ask() -> None:
        with pytest.raises(RuntimeError):
            await hub.listen("some-entry")

    asyncio.run(ask())
    assert hub.here == 0


def test_one_that_does_not_read_is_ended(live: Live) -> None:
    listener = Listener()
    assert listener.tell(["one"] * events.MOST_UNREAD)
    assert not listener.tell(["one too many"])

    async def read() -> list[str]:
        return [event async for event in listener.stream(())]

    assert asyncio.run(read()) == ["retry: 2000\n\n"]


def test_one_that_is_gone_before_its_answer_begins_gives_its_place_back(live: Live) -> None:
    hub = Hub(make_site(live))

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(_: Any) -> None:
        raise OSError("nobody is there")

    async def ask() -> None:
        response = await hub.listen("")
        assert isinstance(response, EventStream)
        assert hub.here == 1
        with pytest.raises((OSError, ExceptionGroup)):
            await response(SCOPE, receive, send)

    asyncio.run(ask())
    assert hub.here == 0


def test_one_that_goes_gives_its_place_back_before_its_answer_has_ended(live: Live) -> None:
    """The end of an answer takes many turns of the event loop: nobody could listen meanwhile."""
    hub = Hub(make_site(live))

    async def play() -> list[int]:
        gone = asyncio.Event()
        here: list[int] = []

        async def receive() -> Any:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            gone.set()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                here.append(hub.here)

        await (await hub.listen(""))(SCOPE, receive, send)
        return here

    assert asyncio.run(play()) == [0]


def test_the_answer_to_one_that_goes_ends_by_itself() -> None:
    """What it has not heard yet is not sent any more."""
    listener = Listener()
    listener.tell(["event: tick\n\n"] * 3)

    async def play() -> list[str]:
        listener.end()
        return [event async for event in listener.stream([])]

    assert asyncio.run(play()) == ["retry: 2000\n\n"]
