"""Admission to the gate: what each port stands for and which pods are ready behind it, how much the gate
takes on (connections in all, and wakes for each source), and whether a connection wakes its policy, by
its first bytes.
"""

from __future__ import annotations

import time
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from ebbtide.model.policy import GateProtocol, ServiceRef, WakeOnRequest

Address = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Route:
    """One port of one Service of one policy."""

    policy_id: str
    policy: str
    """Its name, for metrics and messages."""
    service: ServiceRef
    port_name: str
    gate: WakeOnRequest
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
    """Ready pods, by Service and port name. `changed` is called for each Service whose pods changed."""

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


MOST_SOURCES = 10_000
"""How many sources are remembered; the one not heard of for longest goes first."""


@dataclass(frozen=True, slots=True)
class GateLimits:
    held: int = 10_000
    """Connections held in all. Each policy has a limit of its own."""
    wakes_per_minute: int = 60
    """For each source, counted only where a connection would start a wake."""
    connect_seconds: float = 2.0
    """To one pod; then the next is tried."""
    retry_seconds: float = 0.1
    """After no ready pod took the connection."""
    knock_seconds: float = 5.0
    """How often a wake is asked for again while connections are held and no pod is ready."""
    head_seconds: float = 10.0
    """How long a client may take until it is clear whether it wakes; it has a place meanwhile."""
    files: int = 1_000_000
    """Descriptors that connections may take."""
    linger_seconds: float = 2.0
    """How long a refused client may take to read its answer."""


class Sources:
    """A token bucket for each source: as many wakes at once as a minute allows, then that many a minute."""

    def __init__(self, per_minute: int, most: int = MOST_SOURCES) -> None:
        self._per_minute = per_minute
        self._most = most
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()

    def allows(self, source: str, now: float) -> bool:
        key = network_of(source)
        tokens, at = self._buckets.pop(key, (float(self._per_minute), now))
        tokens = min(float(self._per_minute), tokens + (now - at) * self._per_minute / 60)
        allowed = tokens >= 1
        self._buckets[key] = (tokens - 1 if allowed else tokens, now)
        if len(self._buckets) > self._most:
            self._buckets.popitem(last=False)
        return allowed

    def __len__(self) -> int:
        return len(self._buckets)


def may_wake(gate: WakeOnRequest, source: str) -> bool:
    """Whether connections of this address may wake; what is awake is open to all."""
    return not gate.sources or is_in(gate.sources, source)


def is_trusted(gate: WakeOnRequest, source: str) -> bool:
    """Whether it is a proxy that says whom a request comes from: then that counts, once it is read."""
    return gate.protocol is GateProtocol.HTTP and is_in(gate.http.trusted_proxies, source)


def is_in(networks: Sequence[str], source: str) -> bool:
    if not networks:
        return False
    try:
        address = ip_address(source.partition("%")[0])
    except ValueError:
        return False
    if isinstance(address, IPv6Address) and address.ipv4_mapped is not None:
        address = address.ipv4_mapped
    return any(address in ip_network(each) for each in networks)


def network_of(source: str) -> str:
    """An IPv6 host has a whole /64 to itself; it counts as one source."""
    try:
        address = ip_address(source.partition("%")[0])
    except ValueError:
        return source
    if isinstance(address, IPv6Address):
        mapped = address.ipv4_mapped
        return str(mapped) if mapped is not None else str(IPv6Address(int(address) >> 64 << 64))
    return source


Talk = Callable[[bytes], tuple[bytes, bool]]
"""From all that a client has said: all that is to be answered to it, and whether that is the end."""


@dataclass(frozen=True, slots=True)
class AdmissionVerdict:
    wakes: bool
    holds: bool
    unread: bool = False
    """Nothing more is to be read of a connection that is held."""
    reply: bytes = b""
    """Said at once to a connection that is not held; without it, it is reset."""
    why: str = ""
    """Why it was not held."""
    talk: Talk | None = None
    """A conversation instead of one reply."""
    source: str = ""
    """Whom it comes from, where a trusted proxy says so."""
    most_seconds: float | None = None
    """Its client gives up after so long."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of a connection when it is judged."""

    head: bytes
    whole: bool
    """Nothing more will be read before the connection is passed on."""
    source: str = ""
    policy: str = ""
    """Its name."""
    eta_seconds: int = 0
    """0: not known."""
    waking: bool = False
    """A wake is in progress."""
    waited_seconds: int = 0
    """Since it began, as far as this gate knows."""
    needs_node: bool | None = None
    """Whether a node must be launched first; None: not known."""
    failing: bool = False
    """The wake could not be recorded so far."""


HOLD = AdmissionVerdict(wakes=True, holds=True)
HOLD_UNREAD = AdmissionVerdict(wakes=True, holds=True, unread=True)
MORE: AdmissionVerdict | None = None
"""Not to be said yet."""


def judge_tcp(gate: WakeOnRequest, heard: Heard) -> AdmissionVerdict | None:
    wanted = bytes.fromhex(gate.first_bytes)
    if heard.head[: len(wanted)] != wanted[: len(heard.head)]:
        return AdmissionVerdict(wakes=False, holds=False, why="first bytes")
    if len(heard.head) >= max(gate.least_bytes, len(wanted)):
        return HOLD
    return AdmissionVerdict(wakes=False, holds=False, why="too few bytes") if heard.whole else MORE
