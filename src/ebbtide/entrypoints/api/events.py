"""Server-sent events: every new entry of the log, and a `tick` whenever the record has moved on.

One poller serves all listeners. An event's id is that of its entry, so a browser that reconnects says with
`Last-Event-ID` where it was and misses nothing that is still near the end of the log.

A listener has its place before anything is awaited: else all who come while the first one waits are let in.
One that does not read is ended: it must not keep a connection forever.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool
from starlette.types import Message, Receive, Scope, Send

from ebbtide.entrypoints.api.guard import NeedsScope
from ebbtide.entrypoints.api.routing import Problem
from ebbtide.entrypoints.api.site import Scope as Right
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.api.views import entry_shape
from ebbtide.errors import EbbtideError
from ebbtide.model.log import LogEntry

POLL_SECONDS = 1.0
BEAT_SECONDS = 15.0
MOST_LISTENERS = 200
MOST_UNREAD = 1000
"""Events that wait for one listener."""
LOOK_BACK = 200
"""Entries that a listener who comes back may have missed and still gets."""


class Listener:
    """One place, and what is still to be sent to it. `None` ends it."""

    def __init__(self) -> None:
        self.queue: asyncio.Queue[str | None] = asyncio.Queue(maxsize=MOST_UNREAD)

    def tell(self, events: Sequence[str]) -> bool:
        """False where it has not read for so long that it is ended; it reconnects and says where it was."""
        if self.queue.qsize() + len(events) <= MOST_UNREAD:
            for event in events:
                self.queue.put_nowait(event)
            return True
        self.end()
        return False

    def end(self) -> None:
        while not self.queue.empty():
            self.queue.get_nowait()
        self.queue.put_nowait(None)

    async def stream(self, missed: Sequence[str]) -> AsyncIterator[str]:
        yield "retry: 2000\n\n"
        for event in missed:
            yield event
        while True:
            try:
                told = await asyncio.wait_for(self.queue.get(), BEAT_SECONDS)
            except TimeoutError:
                told = ": still here\n\n"
            if told is None:
                return
            yield told


class Hub:
    """Looks at the store once a second for as long as anybody listens."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listeners: set[Listener] = set()
        self._poller: asyncio.Task[None] | None = None
        self._last = ""
        self._rev = -1

    @property
    def here(self) -> int:
        return len(self._listeners)

    async def listen(self, since: str) -> StreamingResponse:
        if len(self._listeners) >= MOST_LISTENERS:
            raise Problem(
                503,
                f"{MOST_LISTENERS} listeners are connected already, the most that are allowed",
                headers={"Retry-After": "30"},
            )
        listener = Listener()
        self._listeners.add(listener)
        try:
            missed = await run_in_threadpool(self._missed, since)
        except BaseException:
            self._listeners.discard(listener)
            raise
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        return EventStream(listener, missed, lambda: self._listeners.discard(listener))

    def _missed(self, since: str) -> list[str]:
        if not since:
            return []
        entries = self._site.store.read_log(limit=LOOK_BACK, brief=True)
        return [entry_event(entry) for entry in reversed(entries) if entry.id > since]

    async def _poll(self) -> None:
        while self._listeners:
            try:
                events = await run_in_threadpool(self._look)
            except EbbtideError as error:
                events = [event_text("trouble", {"says": str(error)})]
            for listener in tuple(self._listeners):
                if not listener.tell(events):
                    self._listeners.discard(listener)
            await asyncio.sleep(POLL_SECONDS)

    def _look(self) -> list[str]:
        store = self._site.store
        entries: Sequence[LogEntry] = store.read_log(limit=LOOK_BACK, brief=True)
        fresh = [entry for entry in reversed(entries) if self._last and entry.id > self._last]
        self._last = entries[0].id if entries else self._last or " "
        events = [entry_event(entry) for entry in fresh]
        rev = store.load().rev
        if rev != self._rev:
            self._rev = rev
            events.append(event_text("tick", {"rev": rev, "at": int(self._site.clock.now())}))
        return events


class EventStream(StreamingResponse):
    """Gives its place back however it ends, also when the caller is gone before it begins. It does so as soon
    as it hears of that: under a flood it takes many more turns of the event loop, and so seconds, to end."""

    def __init__(self, listener: Listener, missed: Sequence[str], leave: Callable[[], None]) -> None:
        headers = {"Cache-Control": "no-store"}
        super().__init__(listener.stream(missed), media_type="text/event-stream", headers=headers)
        self._listener = listener
        self._leave = leave

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect":
                self._leave()
                self._listener.end()
            return message

        try:
            await super().__call__(scope, heard, send)
        finally:
            self._leave()


def entry_event(entry: LogEntry) -> str:
    return event_text("entry", entry_shape(entry).model_dump(), entry.id)


def event_text(name: str, data: object, event_id: str = "") -> str:
    head = f"id: {event_id}\n" if event_id else ""
    return f"{head}event: {name}\ndata: {json.dumps(data)}\n\n"


def router(site: Site) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["events"])
    hub = Hub(site)

    @routes.get(
        "/events",
        dependencies=[Depends(NeedsScope(Right.READ))],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def events(
        _request: Request, last_event_id: Annotated[str, Header(max_length=100)] = ""
    ) -> StreamingResponse:
        """Everything that happens, as it happens."""
        return await hub.listen(last_event_id)

    return routes
