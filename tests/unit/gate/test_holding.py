"""Connections at the gate: held while asleep, passed on whole, answered at the deadline, and bounded."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import socket

import pytest

from ebbtide.errors import Retryable
from ebbtide.gate.admission import GateLimits, Sources, network_of
from ebbtide.gate.http import looks_like_http
from tests.unit.gate.house import (
    LOOPBACK,
    echo,
    free_port,
    gate_house,
    make_route,
    served,
    until,
)

BODY = os.urandom(3 * 2**20)
REQUEST = b"GET /hello HTTP/1.1\r\nHost: web\r\n\r\n"


def run(story: object) -> None:
    asyncio.run(story)  # type: ignore[arg-type]


async def whole_answer(reader: asyncio.StreamReader) -> bytes:
    async with asyncio.timeout(60):
        return await reader.read(-1)


def test_a_connection_to_a_sleeper_wakes_it_is_held_and_arrives_byte_for_byte() -> None:
    async def story() -> None:
        async with gate_house() as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            sending = asyncio.create_task(_send(writer, BODY))
            await gate.woken()
            await gate.held(1)
            assert not sending.done(), "3 MB do not fit into what a gate reads of a connection that it holds"
            gate.ready(pod)
            assert hashlib.sha256(await whole_answer(reader)).digest() == hashlib.sha256(BODY).digest()
            await sending
            assert (gate.keeper.held, gate.ended("released")) == (0, 1)
            await until(lambda: gate.keeper.open == 0)

    run(story())


async def _send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(data)
    await writer.drain()
    writer.write_eof()


def test_what_is_awake_gets_its_connection_at_once_and_is_told_that_it_is_in_use() -> None:
    async def story() -> None:
        async with gate_house() as gate, served(echo) as pod:
            gate.ready(pod)
            reader, writer = await gate.connect()
            await _send(writer, b"hello")
            assert await whole_answer(reader) == b"hello"
            await gate.woken()
            assert gate.ended("forwarded") == 1

    run(story())


def test_a_server_that_speaks_first_is_heard() -> None:
    async def banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b"220 ready\r\n")
        writer.write_eof()
        await reader.read()
        writer.close()

    async def story() -> None:
        async with gate_house() as gate, served(banner) as pod:
            reader, _writer = await gate.connect()
            await gate.held(1)
            gate.ready(pod)
            assert await whole_answer(reader) == b"220 ready\r\n"

    run(story())


def test_at_the_deadline_http_gets_503_with_the_time_to_come_again_and_anything_else_a_reset() -> None:
    async def story() -> None:
        async with gate_house(make_route(hold_seconds=0.3)) as gate:
            reader, writer = await gate.connect()
            writer.write(REQUEST)
            other, _silent = await gate.connect()
            head, _, body = (await whole_answer(reader)).partition(b"\r\n\r\n")
            with pytest.raises(ConnectionResetError):
                await whole_answer(other)
            assert head.startswith(b"HTTP/1.1 503 ")
            assert b"\r\nRetry-After: 7" in head
            assert b"application/problem+json" in head
            problem = json.loads(body)
            assert (problem["status"], problem["policy"]) == (503, "web")
            assert gate.ended("timed_out") == 2

    run(story())


def test_a_store_that_is_down_holds_to_the_deadline_and_is_asked_again() -> None:
    async def story() -> None:
        answers = iter([Retryable("the store is down"), None])

        async def wake() -> float:
            if (wrong := next(answers, None)) is not None:
                raise wrong
            return 1.0

        async with gate_house(wake=wake) as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            await gate.woken(2)
            gate.ready(pod)
            await _send(writer, b"late, but whole")
            assert await whole_answer(reader) == b"late, but whole"
            assert gate.counted("wake_failures_total", policy="web") == 1

    run(story())


def test_a_client_that_leaves_gives_its_place_back() -> None:
    async def story() -> None:
        async with gate_house(limits=GateLimits(held=2)) as gate:
            for request in (b"", REQUEST):
                _, writer = await gate.connect()
                writer.write(request)
                await gate.held(1)
                writer.close()
                await gate.held(0)
            assert gate.ended("left") == 2

    run(story())


def test_a_client_that_ends_its_half_is_held_and_served() -> None:
    """Outside HTTP the end of the request may be the end of what the client sends."""

    async def story() -> None:
        async with gate_house() as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            await _send(writer, b"a question")
            await gate.held(1)
            gate.ready(pod)
            assert await whole_answer(reader) == b"a question"

    run(story())


def test_over_the_limits_a_connection_is_refused_at_once_and_the_others_stay() -> None:
    async def story() -> None:
        async with gate_house(make_route(max_held=2)) as gate, served(echo) as pod:
            first = [await gate.connect() for _ in range(2)]
            await gate.held(2)
            reader, _writer = await gate.connect()
            with pytest.raises(ConnectionResetError):
                await whole_answer(reader)
            assert (gate.keeper.held, gate.ended("refused")) == (2, 1)
            gate.ready(pod)
            for ours, theirs in first:
                await _send(theirs, b"still here")
                assert await whole_answer(ours) == b"still here"

    run(story())


def test_a_pod_that_does_not_answer_is_skipped() -> None:
    async def story() -> None:
        async with gate_house() as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            await gate.held(1)
            gate.ready((LOOPBACK, free_port()), pod)
            await _send(writer, b"hello")
            assert await whole_answer(reader) == b"hello"

    run(story())


def test_a_port_that_stands_for_nothing_is_asked_about_and_then_served() -> None:
    async def story() -> None:
        asked: list[bool] = []
        async with gate_house(lost=lambda: asked.append(True)) as gate, served(echo) as pod:
            gate.routes.replace({gate.port: [gate.route, gate.route]})
            reader, writer = await gate.connect()
            await until(lambda: bool(asked))
            assert not gate.wakes, "of two Services for one port neither is guessed"
            gate.routes.replace({gate.port: [gate.route]})
            gate.keeper.routes_changed()
            await gate.held(1)
            gate.ready(pod)
            await _send(writer, b"hello")
            assert await whole_answer(reader) == b"hello"

    run(story())


def test_a_port_is_not_taken_for_unknown_by_a_table_from_before_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """A gate that was started a moment ago, or a store that is slow: the connection waits for the table."""
    monkeypatch.setattr("ebbtide.gate.keeper.UNKNOWN_SECONDS", 0.01)

    async def story() -> None:
        asked: list[bool] = []
        async with gate_house(lost=lambda: asked.append(True)) as gate, served(echo) as pod:
            gate.routes.replace({gate.port: [gate.route, gate.route]})
            reader, writer = await gate.connect()
            await gate.held(1)
            gate.keeper.routes_changed(since=0.0)  # that reading began before the connection came
            await until(lambda: len(asked) > 3)
            assert gate.keeper.held == 1
            gate.routes.replace({gate.port: [gate.route]})
            gate.keeper.routes_changed()
            gate.ready(pod)
            await _send(writer, b"hello")
            assert await whole_answer(reader) == b"hello"

            gate.routes.replace({gate.port: [gate.route, gate.route]})
            reader, _nobody = await gate.connect()
            await gate.held(1)
            gate.keeper.routes_changed()
            with pytest.raises(ConnectionResetError):
                await whole_answer(reader)
            assert gate.counted("refused_total", policy="", reason="unknown_port") == 1

    run(story())


def test_a_reset_of_the_pod_is_a_reset_for_the_client() -> None:
    """A truncated answer must not look like a whole one."""

    async def cut(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read(1)
        writer.write(b"half an ans")
        await writer.drain()
        found: socket.socket = writer.get_extra_info("socket")
        found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\0\0\0\0\0\0\0")
        writer.transport.abort()

    async def story() -> None:
        async with gate_house() as gate, served(cut) as pod:
            gate.ready(pod)
            reader, writer = await gate.connect()
            writer.write(b"?")
            with pytest.raises(ConnectionResetError):
                await whole_answer(reader)
            await until(lambda: gate.keeper.open == 0)

    run(story())


def test_one_source_starts_no_more_wakes_than_it_may_and_joining_costs_nothing() -> None:
    async def story() -> None:
        async def wake() -> float:
            return 0.0  # no wake is in progress that others could join

        async with gate_house(limits=GateLimits(wakes_per_minute=1), wake=wake) as gate:
            _, writer = await gate.connect()
            await gate.held(1)
            _, joins = await gate.connect()
            await gate.held(2)
            writer.close()
            joins.close()
            await gate.held(0)
            reader, _again = await gate.connect()
            with pytest.raises(ConnectionResetError):
                await whole_answer(reader)
            assert gate.ended("refused") == 1

    run(story())


def test_by_first_bytes_and_by_their_number() -> None:
    async def story() -> None:
        async with gate_house(make_route(first_bytes="fe01", least_bytes=4)) as gate:
            _, writer = await gate.connect()
            writer.write(b"\xfe\x01\x02")
            await gate.held(1)
            assert not gate.wakes
            writer.write(b"\x03")
            await gate.woken()
            reader, wrong = await gate.connect()
            wrong.write(b"\xfe\x02")
            with pytest.raises(ConnectionResetError):
                await whole_answer(reader)

    run(story())


def test_open_connections_that_move_bytes_count_as_use() -> None:
    async def story() -> None:
        async with gate_house() as gate, served(echo) as pod:
            gate.ready(pod)
            reader, writer = await gate.connect()
            writer.write(b"a")
            assert await reader.read(1) == b"a"
            await gate.woken()
            assert await gate.keeper.report() == {"id-1"}
            await gate.woken(2)
            assert await gate.keeper.report() == set(), "nothing moved since"

    run(story())


def test_sources_are_remembered_up_to_a_bound_and_an_ipv6_network_is_one() -> None:
    sources = Sources(per_minute=2, most=3)
    assert [sources.allows("10.0.0.1", 0.0) for _ in range(3)] == [True, True, False]
    assert sources.allows("10.0.0.1", 31.0)
    for number in range(10):
        sources.allows(f"10.0.1.{number}", 31.0)
    assert len(sources) == 3
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:10.0.0.1") == "10.0.0.1"
    assert network_of("unix") == "unix"


@pytest.mark.parametrize(
    ("head", "is_http"),
    [
        (REQUEST, True),
        (b"POST /x", True),
        (b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", False),
        (b"\x16\x03\x01\x02\x00", False),
        (b"", False),
    ],
)
def test_http_is_known_by_its_first_bytes(head: bytes, is_http: bool) -> None:
    assert looks_like_http(head) is is_http
