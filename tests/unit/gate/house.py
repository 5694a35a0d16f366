"""A gate on loopback with a policy that wakes when the test says so, and servers behind it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from ebbtide.gate.admission import Address, Backends, GateLimits, Route, Routes
from ebbtide.gate.keeper import House, Keeper
from ebbtide.gate.knocking import Expects, nothing_known
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.server import listening
from ebbtide.model.policy import ServiceRef, WakeOnRequest

SERVICE = ServiceRef("default", "web")
LOOPBACK = "127.0.0.1"
PATIENT = GateLimits(head_seconds=60.0)
"""On a machine with other work, the first bytes of a client may take long."""
Serve = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]


def make_gate(**changes: Any) -> WakeOnRequest:
    return WakeOnRequest(**{"services": (SERVICE,), **changes})


def make_route(hold_seconds: float = 30.0, **changes: Any) -> Route:
    return Route("id-1", "web", SERVICE, "http", make_gate(**changes), hold_seconds)


@dataclass
class GateHouse:
    """One gate, one route, one policy."""

    keeper: Keeper
    metrics: GateMetrics
    backends: Backends
    routes: Routes
    port: int
    route: Route
    wakes: list[str]
    clients: list[asyncio.StreamWriter] = field(default_factory=list)

    def ready(self, *addresses: Address) -> None:
        self.backends.replace({(SERVICE, self.route.port_name): addresses})

    async def connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        reader, writer = await asyncio.open_connection(LOOPBACK, self.port)
        self.clients.append(writer)
        return reader, writer

    async def held(self, count: int) -> None:
        await until(lambda: self.keeper.held == count)

    async def woken(self, count: int = 1) -> None:
        await until(lambda: len(self.wakes) >= count)

    def counted(self, name: str, **labels: str) -> float:
        return self.metrics.registry.get_sample_value(f"ebbtide_gate_{name}", labels) or 0.0

    def ended(self, outcome: str, policy: str = "web") -> float:
        return self.counted("connections_total", policy=policy, outcome=outcome)


async def until(true: Callable[[], bool], seconds: float = 60.0) -> None:
    async with asyncio.timeout(seconds):
        while not true():
            await asyncio.sleep(0.005)


def free_port() -> int:
    with socket.socket() as found:
        found.bind((LOOPBACK, 0))
        port: int = found.getsockname()[1]
        return port


def free_ports(count: int) -> int:
    """The first of so many in a row, below those that the system hands out."""
    for first in range(12_000, 30_000, count):
        with ExitStack() as bound, suppress(OSError):
            for port in range(first, first + count):
                bound.enter_context(socket.socket()).bind((LOOPBACK, port))
            return first
    raise RuntimeError(f"there are no {count} free ports in a row")


@asynccontextmanager
async def gate_house(
    route: Route | None = None,
    limits: GateLimits | None = None,
    wake: Callable[[], Awaitable[float]] | None = None,
    lost: Callable[[], None] = lambda: None,
    expects: Expects = nothing_known,
) -> AsyncIterator[GateHouse]:
    found = route or make_route()
    wakes: list[str] = []

    async def woken(policy_id: str) -> float:
        wakes.append(policy_id)
        return 7.0 if wake is None else await wake()

    routes, backends, metrics, port = Routes(), Backends(), GateMetrics(), free_port()
    routes.replace({port: [found]})
    keeper = Keeper(House(routes, backends, woken, lost, limits or PATIENT, expects=expects), metrics)
    async with listening(keeper, LOOPBACK, [port], knock_seconds=0.2):
        house = GateHouse(keeper, metrics, backends, routes, port, found, wakes)
        try:
            yield house
        finally:
            await keeper.close()
            for each in house.clients:
                each.close()
                with suppress(OSError):
                    await each.wait_closed()


@asynccontextmanager
async def served(serve: Serve) -> AsyncIterator[Address]:
    server = await asyncio.start_server(serve, LOOPBACK, 0)
    try:
        yield LOOPBACK, server.sockets[0].getsockname()[1]
    finally:
        server.close()


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Says back all it hears, and ends when its client does."""
    while data := await reader.read(65536):
        writer.write(data)
        await writer.drain()
    writer.close()
