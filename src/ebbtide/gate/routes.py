"""What each port of the gate stands for, and which pods are ready behind it. For the event loop alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from ebbtide.model.gate import Gate, ServiceRef

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Route:
    """One port of one Service of one policy."""

    policy_id: str
    policy: str
    """Its name, for metrics and messages."""
    service: ServiceRef
    port_name: str
    gate: Gate
    hold_seconds: float


class Routes:
    """The table of ports. Routes are replaced, never emptied: a connection that comes after the Service was
    released, by a proxy that has not heard of it yet, is passed on as well."""

    def __init__(self) -> None:
        self._by_port: dict[int, Route] = {}
        self._unclear: frozenset[int] = frozenset()

    def find(self, port: int) -> Route | None:
        """None where the port stands for nothing, or two Services claim it: never guess whose bytes these
        are."""
        return None if port in self._unclear else self._by_port.get(port)

    def replace(self, found: Mapping[int, Sequence[Route]]) -> None:
        self._unclear = frozenset(port for port, routes in found.items() if len(routes) > 1)
        self._by_port |= {port: routes[0] for port, routes in found.items() if routes}

    def __len__(self) -> int:
        return len(self._by_port)


class Backends:
    """Pods that are ready, by Service and port name. `changed` is told of each Service whose pods changed."""

    def __init__(self) -> None:
        self._ready: Mapping[tuple[ServiceRef, str], tuple[Address, ...]] = {}
        self._next = 0
        self.changed: Callable[[ServiceRef, float], None] = lambda _service, _at: None

    def ready(self, route: Route) -> tuple[Address, ...]:
        return self._ready.get((route.service, route.port_name), ())

    def in_turn(self, route: Route) -> tuple[Address, ...]:
        """All that are ready, beginning with another one each time."""
        found = self.ready(route)
        if len(found) < 2:  # noqa: PLR2004 - one pod has no turn to take
            return found
        self._next = (self._next + 1) % len(found)
        return found[self._next :] + found[: self._next]

    def replace(
        self, ready: Mapping[tuple[ServiceRef, str], tuple[Address, ...]], at: float | None = None
    ) -> None:
        """`at`: when that was heard of, by the monotonic clock; now where it is left out."""
        heard = time.monotonic() if at is None else at
        before, self._ready = self._ready, dict(ready)
        keys = {key for key in {*before, *ready} if before.get(key) != ready.get(key)}
        for service in sorted({service for service, _ in keys}):
            self.changed(service, heard)
