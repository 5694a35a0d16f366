"""Notices clients that leave while nothing is read of them.

The loop sees an end only by reading. A connection that is held unread is watched by an epoll of its own, for
its end alone: that costs no read and no memory here, whatever is still in the kernel.
"""

from __future__ import annotations

import asyncio
import select
from collections.abc import Callable
from contextlib import suppress

from ebbtide.gate.answers import looks_like_http
from ebbtide.gate.held import Held

AT_ONCE = 256


class Leaving:
    """For the event loop alone."""

    def __init__(self, left: Callable[[Held], None]) -> None:
        self._left = left
        self._epoll = select.epoll()
        self._watched: dict[int, Held] = {}
        asyncio.get_running_loop().add_reader(self._epoll.fileno(), self._look)

    def watch(self, held: Held) -> None:
        number = held.file_number()
        if number < 0 or self._watched.get(number) is held:
            return
        # Once: an end that is no reason to go, as a half that is closed, would be told again and again.
        self._epoll.register(number, select.EPOLLRDHUP | select.EPOLLONESHOT)
        self._watched[number] = held
        held.watched = number

    def forget(self, held: Held) -> None:
        """Its file may be closed by now, and the number that of another, who is watched in its place."""
        number, held.watched = held.watched, -1
        if number >= 0 and self._watched.get(number) is held:
            del self._watched[number]
            with suppress(OSError):
                self._epoll.unregister(number)

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._epoll.fileno())
        self._epoll.close()

    def _look(self) -> None:
        for number, events in self._epoll.poll(0, AT_ONCE):
            held = self._watched.get(number)
            if held is not None and has_left(held.head, events):
                self._left(held)


def has_left(head: bytes, events: int) -> bool:
    """A reset always says so. The end of its half does only in HTTP; elsewhere it may be the end of the
    request."""
    return bool(events & (select.EPOLLERR | select.EPOLLHUP)) or looks_like_http(head)
