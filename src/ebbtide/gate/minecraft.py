"""Minecraft: a ping is answered and wakes nobody; a login wakes, and is held for as long as its client
waits."""

from __future__ import annotations

from functools import partial

from ebbtide.gate.judge import MORE, Heard, Verdict
from ebbtide.gate.packets import Asks, Opening, kick, legacy_status, packet, read_opening, status
from ebbtide.gate.page import in_words
from ebbtide.model.gate import Gate

HOLD_SECONDS = 25.0
"""A client gives up after 30 s of silence."""
_PING_BYTES = 8


def judge_minecraft(gate: Gate, heard: Heard) -> Verdict | None:  # noqa: ARG001 - judges have one shape
    opening = read_opening(heard.head)
    if opening.wrong:
        return Verdict(wakes=False, holds=False, why="no Minecraft")
    message = _message(heard)
    if opening.legacy:
        return Verdict(wakes=False, holds=False, reply=legacy_status(message), why="ping")
    if opening.handshake is None:
        return Verdict(wakes=False, holds=False, why="no handshake") if heard.whole else MORE
    if opening.handshake.asks is Asks.STATUS:
        return Verdict(wakes=False, holds=False, talk=partial(talk_status, message), why="ping")
    if opening.player:
        return Verdict(wakes=True, holds=True, unread=True, most_seconds=HOLD_SECONDS)
    if opening.packets or heard.whole:
        return Verdict(wakes=False, holds=False, why="no login")
    return MORE


def talk_status(message: str, said: bytes) -> tuple[bytes, bool]:
    """To the question for the status, and to the ping that may follow it."""
    opening = read_opening(said)
    if opening.wrong or opening.handshake is None:
        return b"", True
    reply = b""
    for place, found in enumerate(opening.packets):
        if place == 0 and found.number == 0:
            reply = status(opening.handshake.version, message)
        elif found.number == 1 and len(found.body) == _PING_BYTES:
            return reply + packet(1, found.body), True
        else:
            return reply, True
    return reply, False


def kick_with(head: bytes, detail: str, eta_seconds: int) -> bytes:
    """For a login that is not held any longer; nothing for anybody else."""
    opening: Opening = read_opening(head)
    if opening.handshake is None or opening.handshake.asks is Asks.STATUS:
        return b""
    when = f" Join again in about {in_words(eta_seconds)}." if eta_seconds else " Join again in a while."
    return kick(f"{detail[:1].upper()}{detail[1:]}.{when}")


def _message(heard: Heard) -> str:
    if heard.waking:
        when = f"Ready in about {in_words(heard.eta_seconds)}." if heard.eta_seconds else "Ready soon."
        return f"{heard.policy} is waking up. {when}"
    return f"{heard.policy} is asleep. Join to wake it."
