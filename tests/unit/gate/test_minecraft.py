"""Minecraft at the gate: a ping is answered and wakes nobody; a login wakes, is held, and is kicked with the
time to come again. The expected bytes are those of the protocol's description."""

from __future__ import annotations

import asyncio
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.gate.admission import Heard, Route
from ebbtide.gate.minecraft import (
    HOLD_SECONDS,
    MOST_BYTES,
    Asks,
    judge_minecraft,
    kick_with,
    packet,
    read_opening,
    string,
    talk_status,
    varint,
)
from ebbtide.gate.parting import MOST_TALK_BYTES
from ebbtide.model.policy import GateProtocol
from tests.unit.gate.house import echo, gate_house, make_gate, make_route, served, until

STATUS_REQUEST = b"\x01\x00"
PING = b"\x09\x01" + bytes(range(8))


def handshake(state: int, address: str = "play.example.com", version: int = 767) -> bytes:
    body = varint(version) + string(address) + (25565).to_bytes(2, "big") + varint(state)
    return packet(0, body)


def login(name: str = "Steve") -> bytes:
    return handshake(2) + packet(0, string(name) + bytes(16))


def minecraft(hold_seconds: float = 30.0) -> Route:
    return make_route(hold_seconds, protocol=GateProtocol.MINECRAFT)


def read_packet(data: bytes) -> tuple[int, bytes, bytes]:
    """Number, body, rest."""
    size = shift = at = 0
    while True:
        size |= (data[at] & 0x7F) << shift
        shift, at = shift + 7, at + 1
        if not data[at - 1] & 0x80:
            break
    return data[at], data[at + 1 : at + size], data[at + size :]


def text_of(body: bytes) -> dict[str, object]:
    found: dict[str, object] = json.loads(body[body.index(b"{") :])
    return found


def test_the_first_bytes_of_a_real_client_are_understood() -> None:
    """A handshake of 1.21 for localhost:25565, as its client sends it."""
    said = bytes.fromhex("1000ff05096c6f63616c686f737463dd01")
    opening = read_opening(said)
    assert opening.handshake is not None
    assert (opening.handshake.version, opening.handshake.address) == (767, "localhost")
    assert opening.handshake.asks is Asks.STATUS
    assert handshake(1, "localhost") == said


def test_a_ping_is_answered_and_wakes_nobody() -> None:
    async def story() -> None:
        async with gate_house(minecraft()) as gate:
            reader, writer = await gate.connect()
            writer.write(handshake(1, version=-1))
            await gate.held(0)
            writer.write(STATUS_REQUEST)
            async with asyncio.timeout(60):
                number, body, rest = read_packet(await reader.read(4096))
                writer.write(PING)
                assert (number, rest) == (0, b"")
                shown = text_of(body)
                assert shown["description"] == {"text": "web is asleep. Join to wake it."}
                assert shown["version"] == {"name": "asleep", "protocol": -1}
                assert await reader.read(-1) == PING
            assert (gate.wakes, gate.ended("answered")) == ([], 1)

    asyncio.run(story())


def test_a_ping_of_an_old_client_is_answered_too() -> None:
    async def story() -> None:
        async with gate_house(minecraft()) as gate:
            reader, writer = await gate.connect()
            writer.write(b"\xfe\x01")
            said = await reader.read(-1)
            assert said[:1] == b"\xff"
            assert "web is asleep. Join to wake it." in said[3:].decode("utf-16-be").split("\0")
            assert not gate.wakes

    asyncio.run(story())


def test_a_login_wakes_is_held_and_arrives_byte_for_byte() -> None:
    async def story() -> None:
        async with gate_house(minecraft()) as gate, served(echo) as pod:
            reader, writer = await gate.connect()
            said = login()
            writer.write(said[:9])
            await gate.held(1)
            assert not gate.wakes
            writer.write(said[9:])
            await gate.woken()
            gate.ready(pod)
            assert await reader.readexactly(len(said)) == said
            assert gate.ended("released") == 1

    asyncio.run(story())


def test_while_it_wakes_a_ping_says_how_long_it_takes() -> None:
    async def story() -> None:
        async with gate_house(minecraft()) as gate:
            _, first = await gate.connect()
            first.write(login())
            await until(lambda: gate.counted("wakes_total", policy="web") > 0)
            reader, writer = await gate.connect()
            writer.write(handshake(1) + STATUS_REQUEST + PING)
            _, body, _ = read_packet(await reader.read(-1))
            assert text_of(body)["description"] == {"text": "web is waking up. Ready in about 7 seconds."}

    asyncio.run(story())


def test_at_its_deadline_a_login_is_kicked_with_the_time_to_come_again() -> None:
    async def story() -> None:
        async with gate_house(minecraft(hold_seconds=0.3)) as gate:
            reader, writer = await gate.connect()
            writer.write(login())
            number, body, rest = read_packet(await reader.read(-1))
            assert (number, rest) == (0, b"")
            assert text_of(body) == {
                "text": "Web was asked to wake, and it is not awake yet. Join again in about 7 seconds."
            }
            assert gate.ended("timed_out") == 1

    asyncio.run(story())


def test_a_login_is_held_for_less_than_its_client_waits() -> None:
    verdict = judge_minecraft(make_gate(), Heard(login(), False))
    assert verdict is not None
    assert verdict.wakes
    assert verdict.most_seconds == HOLD_SECONDS < 30


@pytest.mark.parametrize(
    "said",
    [
        b"GET / HTTP/1.1\r\n\r\n",
        b"\x00",
        b"\xff\xff\xff\xff\xff\xff",
        b"\x80\x80\x80\x80\x80",
        handshake(7),
        packet(5, b""),
        handshake(2) + packet(1, b""),
        handshake(2) + packet(0, string("a name that is too long")),
        handshake(2) + packet(0, b"\x02\xff\xff"),
    ],
)
def test_what_is_no_minecraft_is_reset_and_wakes_nobody(said: bytes) -> None:
    async def story() -> None:
        async with gate_house(minecraft()) as gate:
            reader, writer = await gate.connect()
            writer.write(said)
            with pytest.raises(ConnectionResetError):
                await reader.read(-1)
            assert not gate.wakes

    asyncio.run(story())


def test_a_conversation_ends_with_what_is_no_ping() -> None:
    reply, done = talk_status("hello", handshake(1) + STATUS_REQUEST + packet(7, b""))
    assert done
    assert b"hello" in reply
    assert talk_status("hello", b"\x00") == (b"", True)


def test_who_does_not_log_in_is_not_kicked() -> None:
    assert kick_with(handshake(1), "asleep", 3) == b""
    assert kick_with(b"", "asleep", 3) == b""
    assert b"in a while" in kick_with(handshake(3), "asleep", 0)


@given(st.binary(max_size=64), st.booleans())
def test_whatever_arrives_is_judged_and_nothing_raises(said: bytes, whole: bool) -> None:
    verdict = judge_minecraft(make_gate(), Heard(said, whole))
    assert verdict is not None or not whole
    talk_status("hello", said)
    kick_with(said, "asleep", 1)


@given(
    st.integers(-(2**31), 2**31 - 1),
    st.text(max_size=255),
    st.sampled_from([1, 2, 3]),
    st.lists(st.tuples(st.integers(0, 3), st.binary(max_size=40)), max_size=4),
    st.integers(0, 400),
)
def test_packets_cut_anywhere_never_mean_something_else(
    version: int, address: str, state: int, more: list[tuple[int, bytes]], cut: int
) -> None:
    """What was understood of a part stays true when the rest arrives."""
    whole = handshake(state, address, version) + b"".join(packet(*each) for each in more)
    part, all_of_it = read_opening(whole[:cut]), read_opening(whole)
    assert not all_of_it.wrong
    assert all_of_it.handshake is not None
    assert (all_of_it.handshake.version, all_of_it.handshake.address) == (version, address)
    assert not part.wrong
    if part.handshake is not None:
        assert part.handshake == all_of_it.handshake
        assert all_of_it.packets[: len(part.packets)] == part.packets


@given(st.binary(min_size=1, max_size=64), st.integers(1, 300))
def test_no_more_than_the_limit_is_looked_at(said: bytes, times: int) -> None:
    long = said * (MOST_BYTES * 2 // len(said) + times)
    assert read_opening(long) == read_opening(long[:MOST_BYTES])
    verdict = judge_minecraft(make_gate(), Heard(long[:MOST_BYTES], True))
    assert verdict is not None, "nothing waits for more than is read"
    assert MOST_TALK_BYTES <= MOST_BYTES
