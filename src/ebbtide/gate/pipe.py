"""Two connections as one: what comes from either side goes to the other, and each end passes on its end.

A side that reads slowly stops the other from being read, so memory is bounded by the transports' own buffers.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from typing import cast

First = Callable[[], None]
_AT_ONCE = struct.pack("ii", 1, 0)


class Pipe(asyncio.Protocol):
    """One side. `join` makes two of them one connection."""

    __slots__ = ("_closed", "_early", "_ended", "_first", "_other", "_transport", "_write", "moved")

    def __init__(self, closed: Callable[[], None], first: First | None = None) -> None:
        """`closed` is called once this side is gone; `first` when its first byte arrives."""
        self._closed = closed
        self._first = first
        self._other: Pipe | None = None
        self._transport: asyncio.Transport | None = None
        self._ended = False
        self._write: Callable[[bytes], None] | None = None
        """Of the other side, once the first byte went there: what follows takes the shortest way."""
        self._early = b""
        """What a server said before its client was joined: some speak first."""
        self.moved = 0
        """Grows with what comes from this side."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        self.moved += 1
        if self._write is not None:
            self._write(data)
        else:
            self._begin(data)

    def _begin(self, data: bytes) -> None:
        if self._first is not None:
            self._first()
            self._first = None
        if self._other is None or self._other._transport is None:
            self._early += data
        else:
            self._write = self._other._transport.write
            self._write(data)

    def eof_received(self) -> bool:
        """A client may close its half after the request and still wait for the answer."""
        self._ended = True
        other = self._other
        if other is None or other._transport is None or self._transport is None:
            return True  # not joined yet: `join` goes on with it
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
        other, self._other, self._write = self._other, None, None
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
    """Both have their transports."""
    client._other, server._other = server, client
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
    found: socket.socket | None = transport.get_extra_info("socket")
    if found is not None and not transport.is_closing():
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _AT_ONCE)
    transport.abort()


def end_half(transport: asyncio.Transport) -> None:
    """Says that nothing more comes. A connection that was reset a moment ago has nobody to say it to."""
    try:
        transport.write_eof()
    except OSError:
        transport.abort()


def _pause(pipe: Pipe | None) -> None:
    if pipe is not None and pipe._transport is not None and not pipe._transport.is_closing():
        pipe._transport.pause_reading()


def _resume(pipe: Pipe | None) -> None:
    if pipe is not None and pipe._transport is not None and not pipe._transport.is_closing():
        pipe._transport.resume_reading()
