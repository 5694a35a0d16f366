"""Keep all objects of one kind current: list once, then follow the changes.

    list -> watch -> (connection ends: resume from the last version heard)
                  -> (410: that version is forgotten: list again)
                  -> (several failures: a restored server may never have had that version: list again)

`current` is false from the first failure until it recovers, and when nothing at all
was heard for a while: the server sends a bookmark about every minute, so silence is a dead connection.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Generic, TypeVar

import msgspec
import urllib3

from ebbtide import typed
from ebbtide.adapters.kube.connection import GONE, ApiError, Connection, Resource, StatusBody, read_list
from ebbtide.adapters.kube.wire import Meta, Struct
from ebbtide.errors import UNREADABLE, EbbtideError

WATCH_SECONDS = 300
QUIET_SECONDS = 90.0
PAUSE_SECONDS = (0.2, 1.0, 5.0, 15.0)

Wire = TypeVar("Wire")
Item = TypeVar("Item")


class WatchEvent(Struct, frozen=True):
    type: str
    object: msgspec.Raw


class Marked(Struct, frozen=True):
    metadata: Meta


class Mark(Struct, frozen=True):
    """A bookmark: it has a version and no name."""

    metadata: MarkMeta


class MarkMeta(Struct, frozen=True):
    resource_version: str = ""


class Follower(Generic[Wire, Item]):
    def __init__(
        self,
        connection: Connection,
        resource: Resource[Wire],
        read: Callable[[Wire], Item],
        changed: threading.Condition,
        only: Mapping[str, str] | None = None,
        urgent: Callable[[Item | None, Item], bool] | None = None,
    ) -> None:
        """`only` is a selector, as a query has it; `urgent` says of a change, from what was known before,
        whether somebody should look at once."""
        self._connection = connection
        self._resource = resource
        self._only = dict(only or {})
        self._read = read
        self._urgent = urgent
        self._decoder = typed.decoder(resource.wire)
        self._items: dict[str, tuple[int, Item]] = {}
        self._shown: dict[str, tuple[int, Item]] = {}
        """What answers to calls of our own showed since the last list was asked for."""
        self._gone_at = 0
        """What is not known and not newer than this version has been deleted."""
        self._changed = changed
        self._version = ""
        self._heard_at = -QUIET_SECONDS
        self._broken = True
        self._stop = threading.Event()
        self._response: urllib3.response.BaseHTTPResponse | None = None
        self.changes = 0
        """Grows with every change."""
        self.urgencies = 0
        """Grows with every change that is urgent."""
        self.urgent_at = 0.0
        """When the last of them was heard."""
        self.failures = 0
        """How often in a row listing or watching has failed."""
        self._thread = threading.Thread(target=self._run, name=f"watch {resource.what}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        response = self._response
        if response is not None and isinstance(response, urllib3.HTTPResponse):
            try:
                response.shutdown()
            except (ValueError, OSError, RuntimeError):
                return  # it ended by itself meanwhile

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    @property
    def current(self) -> bool:
        return not self._broken and time.monotonic() - self._heard_at < QUIET_SECONDS

    def items(self) -> list[Item]:
        with self._changed:
            return [item for _, item in self._items.values()]

    def find(self, namespace: str, name: str) -> Item | None:
        found = self._items.get(f"{namespace}/{name}")
        return found[1] if found else None

    def put(self, wire: Wire) -> None:
        """What an answer to a call of our own showed, ahead of the watch; or behind it, where another deleted
        the object before we read the answer: then it must not come back, as nothing would delete it again."""
        key, kept = self._kept(wire)
        with self._changed:
            if key not in self._items and kept[0] <= self._gone_at:
                return
            self._shown[key] = kept
            self._take("MODIFIED", wire)

    def _run(self) -> None:
        while not self._stop.is_set():
            try:
                if not self._version:
                    self._list()
                self._watch()
                self._stop.wait(PAUSE_SECONDS[0])
            except (
                EbbtideError,
                urllib3.exceptions.HTTPError,
                OSError,
                ValueError,
                ApiError,
                *UNREADABLE,
            ) as error:
                self._fail()
                if (isinstance(error, ApiError) and error.code == GONE) or self.failures >= len(
                    PAUSE_SECONDS
                ):
                    self._version = ""

    def _fail(self) -> None:
        with self._changed:
            self._broken = True
            self.failures += 1
            self._changed.notify_all()
        self._stop.wait(PAUSE_SECONDS[min(self.failures, len(PAUSE_SECONDS)) - 1])

    def _list(self) -> None:
        with self._changed:
            self._shown = {}
        pairs, version = read_list(self._connection, self._resource, self._kept, self._only)
        with self._changed:
            self._gone_at = _number(version)
            newer = {key: kept for key, kept in self._shown.items() if kept[0] > self._gone_at}
            self._items = {**dict(pairs), **newer}
            self._version = version
            self._heard()
            self.changes += 1
            self._changed.notify_all()

    def _kept(self, wire: Wire) -> tuple[str, tuple[int, Item]]:
        meta = _meta(wire)
        return f"{meta.namespace}/{meta.name}", (_number(meta.resource_version), self._read(wire))

    def _watch(self) -> None:
        query: Mapping[str, str | int] = {
            **self._only,
            "watch": "1",
            "resourceVersion": self._version,
            "allowWatchBookmarks": "true",
            "timeoutSeconds": WATCH_SECONDS,
        }
        with self._connection.stream(self._resource.path, query, QUIET_SECONDS) as response:
            self._response = response
            self._heard()
            if self._stop.is_set():  # while it was opened: nobody would end it
                return
            try:
                for line in _lines(response):
                    self._hear(line)
                    if self._stop.is_set():
                        return
            finally:
                self._response = None

    def _hear(self, line: bytes) -> None:
        change = typed.decode(line, WatchEvent)
        if change.type == "ERROR":
            status = typed.decode(change.object, StatusBody)
            raise ApiError(status.code, status)
        self._heard()
        if change.type == "BOOKMARK":
            self._version = typed.decode(change.object, Mark).metadata.resource_version
            return
        wire = self._decoder.decode(change.object)
        self._take(change.type, wire)
        self._version = _meta(wire).resource_version

    def _take(self, kind: str, wire: Wire) -> None:
        key, (number, item) = self._kept(wire)
        with self._changed:
            known = self._items.get(key)
            if known is not None and known[0] > number:
                return  # older than what we know already
            if kind == "DELETED":
                self._items.pop(key, None)
                self._gone_at = number
            else:
                self._items[key] = (number, item)
                if self._urgent is not None and self._urgent(known[1] if known else None, item):
                    self.urgent_at = time.time()
                    self.urgencies += 1
            self.changes += 1
            self._changed.notify_all()

    def _heard(self) -> None:
        self._heard_at = time.monotonic()
        self._broken = False
        self.failures = 0


def _lines(response: urllib3.response.BaseHTTPResponse) -> Iterator[bytes]:
    rest = b""
    for chunk in response.stream(2**16):
        *whole, rest = (rest + chunk).split(b"\n")
        yield from (line for line in whole if line)
    if rest:
        raise ValueError("the watch ended in the middle of a change")


def _meta(wire: object) -> Meta:
    meta: Meta = wire.metadata  # type: ignore[attr-defined]
    return meta


def _number(version: str) -> int:
    return int(version) if version.isascii() and version.isdigit() else 0
