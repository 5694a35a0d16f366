"""What a client is told when it is not held any longer, in the words of its protocol. Pure."""

from __future__ import annotations

from ebbtide.gate.answers import looks_like_http, problem, unavailable
from ebbtide.gate.minecraft import kick_with
from ebbtide.gate.routes import Route
from ebbtide.model.gate import GateProtocol


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
