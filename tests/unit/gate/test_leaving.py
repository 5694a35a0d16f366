"""Clients that leave, stay half open or never end: their places are given back, and the others are served."""

from __future__ import annotations

import asyncio
import os
import resource
import select
import socket
from collections import Counter
from typing import cast

import pytest
import uvloop

from ebbtide.gate.held import has_left
from ebbtide.gate.parting import Parting
from ebbtide.model.policy import GateProtocol
from tests.unit.gate.house import LOOPBACK, echo, gate_house, make_route, served

POST = b"POST /up HTTP/1.1\r\nHost: web\r\nContent-Length: 50000\r\n\r\n"
RESET = b"\x01\0\0\0\0\0\0\0"


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def runner(request: pytest.FixtureRequest) -> asyncio.Runner:
    return asyncio.Runner(loop_factory=request.param)


@pytest.mark.parametrize("protocol", [GateProtocol.TCP, GateProtocol.HTTP])
def test_a_client_that_leaves_with_an_unread_body_gives_its_place_back(
    runner: asyncio.Runner, protocol: GateProtocol
) -> None:
    """More than a gate reads of it is in the kernel: its end is seen all the same."""

    async def story() -> None:
        async with gate_house(make_route(protocol=protocol)) as gate:
            for number in range(3):  # the later ones get the file of the first
                _, writer = await gate.connect()
                writer.write(POST + bytes(50_000))
                await writer.drain()
                await gate.woken()
                await gate.held(1)
                writer.close()
                await gate.held(0)
                assert gate.ended("left") == number + 1

    with runner:
        runner.run(story())


def test_a_reset_is_seen_in_any_protocol(runner: asyncio.Runner) -> None:
    async def story() -> None:
        async with gate_house() as gate:
            _, writer = await gate.connect()
            writer.write(os.urandom(50_000))
            await writer.drain()
            await gate.held(1)
            found: socket.socket = writer.get_extra_info("socket")
            found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            writer.transport.abort()
            await gate.held(0)
            assert gate.ended("left") == 1

    with runner:
        runner.run(story())


def test_a_half_that_is_closed_is_no_leaving_outside_http(runner: asyncio.Runner) -> None:
    body = os.urandom(50_000)

    async def story() -> None:
        async with gate_house() as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            writer.write(body)
            writer.write_eof()
            await gate.woken()
            other, theirs = await gate.connect()
            await gate.held(2)
            gate.ready(pod)
            assert await reader.read(-1) == body
            theirs.write(b"next")
            assert await other.readexactly(4) == b"next"

    with runner:
        runner.run(story())


def test_those_that_are_held_together_are_not_asked_after_in_the_same_second() -> None:
    """Thousands of questions in one moment are more than a network takes, and who does not answer is gone."""

    async def story() -> None:
        async with gate_house() as gate:
            for _ in range(30):
                await gate.connect()
            await gate.held(30)
            idle = Counter(
                held.transport.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE)
                for held, _ in gate.keeper._hall
            )
            assert sorted(idle) == list(range(20, 50))

    asyncio.run(story())


def test_what_an_end_means() -> None:
    assert has_left(b"\x16\x03", select.EPOLLHUP)
    assert has_left(b"GET / HTTP/1.1", select.EPOLLRDHUP)
    assert not has_left(b"\x16\x03", select.EPOLLRDHUP)


def test_clients_that_never_end_a_head_take_no_place_from_others(runner: asyncio.Runner) -> None:
    """Slow loris: as many as fit, each with a byte now and then. They go, and the next client is served."""

    async def story() -> None:
        route = make_route(protocol=GateProtocol.HTTP, max_held=20)
        async with gate_house(route) as gate, served(echo) as pod:
            for _ in range(20):
                _, slow = await gate.connect()
                slow.write(b"GET / HTTP/1.1\r\nX: ")
            await gate.held(20)
            for held, found in gate.keeper._hall:
                gate.keeper._expire(held, found)  # their time is up
            assert gate.counted("refused_total", policy="web", reason="slow") == 20
            await gate.held(0)
            reader, writer = await gate.connect()
            writer.write(POST)
            await gate.woken()
            gate.ready(pod)
            assert await reader.readexactly(len(POST)) == POST

    with runner:
        runner.run(story())


def test_a_huge_body_to_a_sleeper_stays_with_its_client(runner: asyncio.Runner) -> None:
    """It sends until its own kernel is full; of this process's memory it takes what is read of a head."""

    async def story() -> None:
        async with gate_house(make_route(protocol=GateProtocol.HTTP)) as gate:
            before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
            with socket.socket() as client:
                client.setblocking(False)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 65_536)
                loop = asyncio.get_running_loop()
                await loop.sock_connect(client, (LOOPBACK, gate.port))
                await loop.sock_sendall(client, POST)
                await gate.woken()
                sent, block = 0, bytes(65_536)
                try:
                    while sent < 2**30:
                        sent += client.send(block)
                except BlockingIOError:
                    pass
                assert sent < 64 * 2**20
                await gate.held(1)
                client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET)
            await gate.held(0)
            grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
            assert grown < 16 * 1024, f"{grown} KiB more"

    with runner:
        runner.run(story())


def test_a_flood_of_refused_clients_is_bounded() -> None:
    """Beyond a number of last words, a refused client is reset without any."""

    async def story() -> None:
        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            transports.append(cast(asyncio.Transport, writer.transport))

        transports: list[asyncio.Transport] = []
        parting = Parting(20.0, most=1)
        async with served(serve) as address:
            first, second = [await asyncio.open_connection(*address) for _ in range(2)]
            while len(transports) < 2:
                await asyncio.sleep(0)
            parting.say(transports[0], b"sorry")
            parting.say(transports[1], b"sorry")
            assert await first[0].read(5) == b"sorry"
            with pytest.raises(ConnectionResetError):
                await second[0].read(5)
            first[1].close()
            while parting.count:
                await asyncio.sleep(0)

    asyncio.run(story())
