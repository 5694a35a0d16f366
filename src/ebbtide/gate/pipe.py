"""Two connections as one: what comes from either side goes to the other, and each end passes on its end.

A side that reads slowly stops the other from being read, so memory is bounded by the transports' own buffers.
Once both are joined, `data_received` of a side *is* `write` of the other transport: no line of Python runs
for the bytes in between.
"""

from __future__ import annotations

import asyncio
import socket
import struct
import sys
from collections.abc import Callable
from typing import Protocol, cast

First = Callable[[], None]
_AT_ONCE = struct.pack("ii", 1, 0)
_BYTES_RECEIVED = slice(128, 136)
"""Where TCP_INFO of Linux has the bytes of the other end, each counted once."""


class Take(Protocol):
    def __call__(self, data: bytes) -> None: ...


class Pipe(asyncio.Protocol):
    """One side. `join` makes two of them one connection."""

    __slots__ = ("_closed", "_early", "_ended", "_first", "_other", "_transport", "data_received")
    data_received: Take

    def __init__(self, closed: Callable[[], None], first: First | None = None) -> None:
        """`closed` is called once this side is gone; `first` when its first byte arrives."""
        self._closed = closed
        self._first = first
        self._other: Pipe | None = None
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._early = b""
        """What a server said before its client was joined: some speak first."""
        self.data_received = self._begin

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def received(self) -> int:
        """Bytes that came from this side, by the kernel's count: it costs nothing while they come."""
        found: socket.socket | None = None if self._transport is None else get_socket(self._transport)
        if found is None:
            return 0
        try:
            facts = found.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, _BYTES_RECEIVED.stop)
        except OSError:
            return 0  # closed a moment ago
        return int.from_bytes(facts[_BYTES_RECEIVED], sys.byteorder)

    def _begin(self, data: bytes) -> None:
        """Until the first bytes went over."""
        first, self._first = self._first, None
        if first is not None:
            first()
        if self._other is None or self._other._transport is None:
            self._early += data
            return
        self._other._transport.write(data)
        if first is None:
            # With the second piece: many a connection has but one, and this costs two calls of the kernel.
            self.shorten()

    def shorten(self) -> None:
        """From now on by the shortest way. Transports may keep `data_received`, so they are told."""
        if self._other is not None and self._other._transport is not None and self._transport is not None:
            self.data_received = self._other._transport.write
            self._transport.set_protocol(self)

    def eof_received(self) -> bool:
        """A client may close its half after the request and still wait for the answer."""
        self._ended = True
        other = self._other
        if other is None or other._transport is None or self._transport is None:
            return True  # not joined yet: `join` continues with it
        if other._ended:
            other._transport.close()
            self._transport.close()
        elif not other._transport.is_closing():
            end_half(other._transport)
        return True

    def pause_writing(self) -> None:
        _pause(self._other)

    def resume_writing(self) -> None:
        _resume(self._other)

    def connection_lost(self, exc: Exception | None) -> None:
        other, self._other, self.data_received = self._other, None, _nowhere
        if other is not None and other._transport is not None and not other._transport.is_closing():
            if exc is None:
                other._transport.close()
            else:
                reset(other._transport)  # a reset is passed on as one: a truncated body must not look whole
        self._closed()

    def abort(self) -> None:
        if self._transport is not None:
            reset(self._transport)


def join(client: Pipe, server: Pipe) -> None:
    """Both have their transports. The client's does not read, and may have another protocol yet."""
    client._other, server._other = server, client
    client.shorten()
    early, server._early = server._early, b""
    if client._transport is None:
        return
    if early:
        client._transport.write(early)
    if server._ended:
        server.eof_received()
    if server._transport is None or server._transport.is_closing():
        client._transport.close()  # it went in between


def reset(transport: asyncio.Transport) -> None:
    """Close so the other side knows that it was cut: `abort` alone would look like an orderly end."""
    found = get_socket(transport)
    if found is not None:
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


def end_half(transport: asyncio.Transport) -> None:
    """Says that nothing more comes. A connection that was reset a moment ago has nobody to say it to."""
    try:
        transport.write_eof()
    except OSError:
        transport.abort()


def get_socket(transport: asyncio.Transport) -> socket.socket | None:
    """None where it is closed."""
    found: socket.socket | None = transport.get_extra_info("socket")
    return None if transport.is_closing() else found


def _nowhere(data: bytes) -> None:
    """What still comes from a side that is gone."""


def _pause(pipe: Pipe | None) -> None:
    if pipe is not None and pipe._transport is not None and not pipe._transport.is_closing():
        pipe._transport.pause_reading()


def _resume(pipe: Pipe | None) -> None:
    if pipe is not None and pipe._transport is not None and not pipe._transport.is_closing():
        pipe._transport.resume_reading()
