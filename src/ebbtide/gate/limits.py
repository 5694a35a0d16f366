"""How much the gate takes on: connections in all, and wakes for each source."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from ipaddress import IPv6Address, ip_address, ip_network

from ebbtide.model.gate import Gate, GateProtocol

MOST_SOURCES = 10_000
"""How many sources are remembered; the one not heard of for longest goes first."""


@dataclass(frozen=True, slots=True)
class Limits:
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


def may_wake(gate: Gate, source: str) -> bool:
    """Whether connections of this address may wake; what is awake is open to all."""
    return not gate.sources or is_in(gate.sources, source)


def is_trusted(gate: Gate, source: str) -> bool:
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
