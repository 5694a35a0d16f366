"""The last words to a client in its protocol: one reply, or a short conversation, then the end.

A client that still sends would lose the answer if its connection were closed at once, so it may continue
for a moment. Only so many may: a flood of refused clients must not cost more than those that are held.
"""

from __future__ import annotations

import asyncio

from ebbtide.gate.admission import Route, Talk
from ebbtide.gate.http import looks_like_http, problem, unavailable
from ebbtide.gate.minecraft import kick_with
from ebbtide.gate.passing import end_half, reset
from ebbtide.model.policy import GateProtocol


def words(route: Route, head: bytes, detail: str, retry_after: int) -> bytes:
    """Nothing where the protocol has no words: then it is reset."""
    if route.gate.protocol is GateProtocol.MINECRAFT:
        return kick_with(head, detail, retry_after)
    if looks_like_http(head) or (route.gate.protocol is GateProtocol.HTTP and not head):
        return unavailable(route.policy, detail, retry_after)
    return b""


def too_slow(route: Route, head: bytes) -> bytes:
    """To a client that did not say in time what it wants."""
    if not looks_like_http(head):
        return b""
    return problem(408, route.policy, "the head of the request did not arrive in time")


MOST_PARTING = 1000
MOST_TALK_BYTES = 4096


class Parting:
    def __init__(self, linger_seconds: float, most: int = MOST_PARTING) -> None:
        self._linger_seconds = linger_seconds
        self._most = most
        self.count = 0

    def say(self, transport: asyncio.Transport, reply: bytes) -> None:
        """Without a reply, or with too many that still part: a reset."""
        if transport.is_closing():
            return
        if not reply or self.count >= self._most:
            reset(transport)
            return
        self._hand_over(transport, _Farewell(self, transport))
        transport.write(reply)
        end_half(transport)
        if not transport.is_closing():
            transport.resume_reading()

    def talk(self, transport: asyncio.Transport, talk: Talk, said: bytes) -> None:
        if transport.is_closing():
            return
        if self.count >= self._most:
            reset(transport)
            return
        conversation = _Conversation(self, transport, talk)
        self._hand_over(transport, conversation)
        transport.resume_reading()
        conversation.data_received(said)

    def _hand_over(self, transport: asyncio.Transport, protocol: _Farewell) -> None:
        self.count += 1
        # A transport takes another kind of protocol only while it does not read.
        transport.pause_reading()
        transport.set_protocol(protocol)

    @property
    def linger_seconds(self) -> float:
        return self._linger_seconds


class _Farewell(asyncio.Protocol):
    """What still comes is thrown away."""

    __slots__ = ("_parting", "_timer", "_transport")

    def __init__(self, parting: Parting, transport: asyncio.Transport) -> None:
        self._parting = parting
        self._transport = transport
        self._timer = asyncio.get_running_loop().call_later(parting.linger_seconds, transport.abort)

    def data_received(self, data: bytes) -> None:
        pass

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - gone is gone
        self._parting.count -= 1
        self._timer.cancel()


class _Conversation(_Farewell):
    """Answers what is asked, for a moment and up to a number of bytes."""

    __slots__ = ("_answered", "_said", "_talk")

    def __init__(self, parting: Parting, transport: asyncio.Transport, talk: Talk) -> None:
        super().__init__(parting, transport)
        self._talk = talk
        self._said = b""
        self._answered = 0

    def data_received(self, data: bytes) -> None:
        if self._transport.is_closing():
            return
        self._said = (self._said + data)[:MOST_TALK_BYTES]
        reply, done = self._talk(self._said)
        if len(reply) > self._answered:
            self._transport.write(reply[self._answered :])
            self._answered = len(reply)
        if done or len(self._said) >= MOST_TALK_BYTES:
            self._transport.close()
