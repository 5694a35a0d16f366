"""So many requests a minute for each caller, in memory that does not grow with the number of callers."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

MINUTE = 60.0
MOST_CALLERS = 10_000
"""Counted one by one. Callers beyond this number are counted together."""
CROWD = "all others"


@dataclass(slots=True)
class Count:
    minute: int
    now: int = 0
    before: int = 0

    def moved_to(self, minute: int) -> None:
        if minute != self.minute:
            self.before = self.now if minute == self.minute + 1 else 0
            self.minute, self.now = minute, 0


class Limiter:
    """A sliding minute: what was counted in the minute before weighs as much as of it still lies in the
    last sixty seconds. What is refused is not counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_CALLERS) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], Count] = {}

    def allows(self, what: str, who: str, per_minute: int) -> bool:
        with self._lock:
            minute, passed = divmod(self._clock(), MINUTE)
            count = self._count(what, who, int(minute))
            if round(count.before * (1 - passed / MINUTE)) + count.now >= per_minute:
                return False
            count.now += 1
            return True

    def _count(self, what: str, who: str, minute: int) -> Count:
        key = (what, who)
        if key not in self._counts and len(self._counts) >= self._most:
            self._counts = {each: count for each, count in self._counts.items() if count.minute >= minute - 1}
            if len(self._counts) >= self._most:
                key = (what, CROWD)
        count = self._counts.setdefault(key, Count(minute))
        count.moved_to(minute)
        return count


def address_key(address: str) -> str:
    """For IPv6, the network of a site: a caller with one address there has all of them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:  # noqa: PLR2004 # the number of the protocol
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
