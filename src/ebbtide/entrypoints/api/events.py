"""Server-sent events: every new entry of the log, and a `tick` whenever the record has moved on.

One poller serves all listeners. An event's id is that of its entry, so that a browser that reconnects says
with `Last-Event-ID` where it was and misses nothing that is still near the end of the log.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Sequence
from typing import Annotated

from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import StreamingResponse
from starlette.concurrency import run_in_threadpool

from ebbtide.entrypoints.api.guard import Needs
from ebbtide.entrypoints.api.problems import Problem
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.api.telling import entry_shape
from ebbtide.errors import EbbtideError
from ebbtide.model.log import LogEntry

POLL_SECONDS = 1.0
BEAT_SECONDS = 15.0
MOST_LISTENERS = 100
LOOK_BACK = 200
"""Entries that a listener who comes back may have missed and still gets."""


class Hub:
    """Looks at the store once a second for as long as anybody listens."""

    def __init__(self, site: Site) -> None:
        self._site = site
        self._listeners: set[asyncio.Queue[str]] = set()
        self._poller: asyncio.Task[None] | None = None
        self._last = ""
        self._rev = -1

    async def listen(self, since: str) -> AsyncIterator[str]:
        if len(self._listeners) >= MOST_LISTENERS:
            raise Problem(503, f"{MOST_LISTENERS} listeners are here already", headers={"Retry-After": "30"})
        queue: asyncio.Queue[str] = asyncio.Queue(maxsize=1000)
        missed = await run_in_threadpool(self._missed, since)
        self._listeners.add(queue)
        if self._poller is None or self._poller.done():
            self._poller = asyncio.create_task(self._poll())
        return self._stream(queue, missed)

    async def _stream(self, queue: asyncio.Queue[str], missed: list[str]) -> AsyncIterator[str]:
        try:
            yield "retry: 2000\n\n"
            for event in missed:
                yield event
            while True:
                try:
                    yield await asyncio.wait_for(queue.get(), BEAT_SECONDS)
                except TimeoutError:
                    yield ": still here\n\n"
        finally:
            self._listeners.discard(queue)

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
            for queue in tuple(self._listeners):
                for event in events:
                    if queue.full():  # a listener that does not read is let go; it reconnects
                        self._listeners.discard(queue)
                        break
                    queue.put_nowait(event)
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
        dependencies=[Depends(Needs(Scope.READ))],
        response_class=StreamingResponse,
        responses={200: {"content": {"text/event-stream": {}}}},
    )
    async def events(
        _request: Request, last_event_id: Annotated[str, Header(max_length=100)] = ""
    ) -> StreamingResponse:
        """Everything that happens, as it happens."""
        stream = await hub.listen(last_event_id)
        return StreamingResponse(
            stream, media_type="text/event-stream", headers={"Cache-Control": "no-store"}
        )

    return routes
