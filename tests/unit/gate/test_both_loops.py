"""The pipe on both event loops: asyncio's own, and uvloop, which `ebbtide gate` runs on."""

from __future__ import annotations

import asyncio
import hashlib
import os
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from typing import Any

import pytest
import uvloop

from ebbtide.gate.admission import GateLimits
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.server import listening
from ebbtide.model.policy import ServiceRef
from tests.unit.gate.house import LOOPBACK, SERVICE, echo, free_port, gate_house, make_route, served, until

Run = Callable[[Coroutine[Any, Any, None]], None]
both_loops = pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
PIECES = [os.urandom(size) for size in (1, 70_000, 3, 2_000_000, 5)]


async def exactly(reader: asyncio.StreamReader, count: int) -> bytes:
    async with asyncio.timeout(60):
        return await reader.readexactly(count)


@both_loops
def test_many_pieces_go_both_ways_whole(run: Run) -> None:
    async def story() -> None:
        async with gate_house() as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            writer.write(PIECES[0])
            await gate.held(1)
            gate.ready(pod)
            assert await exactly(reader, 1) == PIECES[0]
            for piece in PIECES[1:]:
                writer.write(piece)
                assert await exactly(reader, len(piece)) == piece
            assert await gate.keeper.report() == {"id-1"}
            assert await gate.keeper.report() == set(), "nothing moved since"
            writer.write(b"more")
            assert await exactly(reader, 4) == b"more"
            assert await gate.keeper.report() == {"id-1"}

    run(story())


@both_loops
def test_a_client_that_reads_slowly_stops_its_pod_and_gets_all(run: Run) -> None:
    """What a pod says to a client that does not read stays with the pod."""
    body = os.urandom(24 * 2**20)
    sent = 0

    async def story() -> None:
        async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            nonlocal sent
            await reader.read(1)
            for start in range(0, len(body), 2**16):
                writer.write(body[start : start + 2**16])
                await writer.drain()
                sent += 2**16
            writer.close()

        async with gate_house() as gate, served(talk) as pod:
            gate.ready(pod)
            reader, writer = await gate.connect()
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(b"?")
            await until(lambda: sent > 0)
            before = -1
            while before != sent:  # until it stands still
                before = sent
                await asyncio.sleep(0.2)
            assert sent < len(body)
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            async with asyncio.timeout(60):
                found = await reader.read(-1)
            assert hashlib.sha256(found).digest() == hashlib.sha256(body).digest()

    run(story())


def test_own_time_begins_with_this_wake_also_where_a_policy_has_two_services() -> None:
    """The time of the first ready pod is forgotten for each Service once nobody waits for it."""

    async def story() -> None:
        shop = ServiceRef("default", "shop")
        first, port = make_route(), free_port()
        second = replace(first, service=shop)
        async with gate_house(first) as gate, served(echo) as pod, listening(gate.keeper, LOOPBACK, [port]):
            own = _own_times(gate.metrics)
            gate.routes.replace({gate.port: [first], port: [second]})
            for at in (0.0, time.monotonic() + 1000):
                for each in (gate.port, port):
                    gate.clients.append((await asyncio.open_connection(LOOPBACK, each))[1])
                await gate.held(2)
                gate.backends.replace({(SERVICE, "http"): (pod,)}, at)
                await gate.held(1)
                gate.backends.replace({(SERVICE, "http"): (pod,), (shop, "http"): (pod,)}, at)
                await gate.held(0)
                gate.backends.replace({})
            assert [seconds < 0 for seconds in own] == [False, False, True, True]

    asyncio.run(story())


def test_a_gate_that_is_full_still_passes_on_what_has_a_ready_pod() -> None:
    """A crowd that waits for one policy must not shut out the clients of another."""

    async def story() -> None:
        shop = ServiceRef("default", "shop")
        asleep, port = make_route(), free_port()
        awake = replace(asleep, policy_id="id-2", policy="shop", service=shop)
        full = GateLimits(held=1, head_seconds=60.0)
        async with (
            gate_house(asleep, full) as gate,
            served(echo) as pod,
            listening(gate.keeper, LOOPBACK, [port]),
        ):
            gate.routes.replace({gate.port: [asleep], port: [awake]})
            gate.backends.replace({(shop, "http"): (pod,)})
            await gate.connect()
            await gate.held(1)
            reader, writer = await asyncio.open_connection(LOOPBACK, port)
            gate.clients.append(writer)
            writer.write(b"served")
            assert await exactly(reader, 6) == b"served"
            late, _ = await gate.connect()
            with pytest.raises(ConnectionResetError):
                await exactly(late, 1)
            assert gate.counted("refused_total", policy="web", reason="gate_full") == 1

    asyncio.run(story())


def _own_times(metrics: GateMetrics) -> list[float]:
    found: list[float] = []
    metrics.ours = lambda policy, seconds: found.append(seconds)  # type: ignore[method-assign]
    return found
