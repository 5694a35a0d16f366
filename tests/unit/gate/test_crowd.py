"""A crowd at a gate that is full, small enough for every run: `bench.bench_gate_crowd` has the large one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from ebbtide.gate.admission import GateLimits
from ebbtide.gate.held import PEEK_BYTES
from ebbtide.gate.server import listening
from ebbtide.model.policy import GateProtocol, ServiceRef
from tests.unit.gate.house import (
    LOOPBACK,
    SERVICE,
    GateHouse,
    echo,
    free_port,
    gate_house,
    make_route,
    served,
)

Run = Callable[[Coroutine[Any, Any, None]], None]
HELD, REFUSED = 20, 40
HEAD = b"POST /up HTTP/1.1\r\nHost: web\r\nContent-Length: 100000\r\n\r\n"
BODY = bytes(100_000)
SHOP = ServiceRef("default", "shop")


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_a_crowd_is_held_up_to_the_limit_the_rest_told_at_once_and_others_are_served(run: Run) -> None:
    async def story() -> None:
        asleep, port = make_route(protocol=GateProtocol.HTTP), free_port()
        awake = replace(asleep, policy_id="id-2", policy="shop", service=SHOP)
        async with (
            gate_house(asleep, GateLimits(held=HELD, head_seconds=60.0)) as gate,
            served(echo) as pod,
            listening(gate.keeper, LOOPBACK, [port]),
        ):
            gate.routes.replace({gate.port: [asleep], port: [awake]})
            gate.backends.replace({(SHOP, "http"): (pod,)})
            crowd = [await _sends(gate) for _ in range(HELD)]
            await gate.held(HELD)
            for _ in range(REFUSED):
                reader, _writer = await gate.connect()
                assert (await _until_end(reader)).startswith(b"HTTP/1.1 503 ")
                assert await _asks(port) == b"still served"
            assert gate.counted("refused_total", policy="web", reason="gate_full") == REFUSED
            assert gate.keeper.held == HELD
            assert all(len(held.head) <= PEEK_BYTES for held, _ in gate.keeper._hall), "bodies stay unread"
            gate.backends.replace({(SHOP, "http"): (pod,), (SERVICE, "http"): (pod,)})
            for reader, sending in crowd:
                async with asyncio.timeout(60):
                    assert await reader.readexactly(len(HEAD) + len(BODY)) == HEAD + BODY
                await sending
            assert gate.ended("released") == HELD

    run(story())


async def _sends(gate: GateHouse) -> tuple[asyncio.StreamReader, asyncio.Task[None]]:
    reader, writer = await gate.connect()

    async def send() -> None:
        writer.write(HEAD + BODY)
        await writer.drain()

    return reader, asyncio.create_task(send())


async def _asks(port: int) -> bytes:
    reader, writer = await asyncio.open_connection(LOOPBACK, port)
    writer.write(b"still served")
    async with asyncio.timeout(60):
        found = await reader.readexactly(12)
    writer.close()
    await writer.wait_closed()
    return found


async def _until_end(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return await reader.read(-1)
