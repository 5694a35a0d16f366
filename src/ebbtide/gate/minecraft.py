"""Minecraft: a ping is answered and wakes nobody; a login wakes, and is held for as long as its client
waits. The first packets of a client are read as far as a gate must understand them.

The first packets of a Minecraft client, as far as a gate must understand them. Pure: reads what is there,
never raises, and looks at no more than `MOST_BYTES`.

    packet     length (VarInt), then that many bytes: id (VarInt), fields
    handshake  id 0: protocol version (VarInt), address (String), port (2 bytes), next state (VarInt)
    login      id 0: name of the player (String), more in newer versions
    status     id 0, empty; then a ping: id 1 with 8 bytes, which is answered as it is
    legacy     FE, or FE 01 with more in 1.6: a ping of versions before 1.7
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from enum import IntEnum
from functools import partial

from ebbtide.gate.admission import MORE, AdmissionVerdict, Heard
from ebbtide.gate.page import in_words
from ebbtide.model.policy import WakeOnRequest

MOST_BYTES = 4096
MOST_PACKETS = 3
LONGEST_ADDRESS = 4 * 255
"""In bytes. Mods and proxies write more than the name of the host into it."""
NAME = re.compile(r"[^\s\x00-\x1f]{1,16}")
LEGACY = 0xFE
LEGACY_MORE = 0xFA
_VARINT_BYTES = 5
_SIGN, _WRAP = 1 << 31, 1 << 32


class Asks(IntEnum):
    """The next state of a handshake."""

    STATUS = 1
    LOGIN = 2
    TRANSFER = 3
    """A login of a player whom another server sent here."""


@dataclass(frozen=True, slots=True)
class Packet:
    number: int
    body: bytes


@dataclass(frozen=True, slots=True)
class Handshake:
    version: int
    address: str
    asks: Asks


@dataclass(frozen=True, slots=True)
class Opening:
    """What a client has said so far."""

    handshake: Handshake | None = None
    packets: tuple[Packet, ...] = ()
    """After the handshake; whole ones."""
    wrong: bool = False
    """This is no Minecraft."""
    legacy: bool = False

    @property
    def player(self) -> str:
        """Of a login whose first packet is whole; else empty."""
        if self.handshake is None or self.handshake.asks is Asks.STATUS or not self.packets:
            return ""
        first = self.packets[0]
        name = _string(first.body, 0, 4 * 16)
        return name[0] if first.number == 0 and name and NAME.fullmatch(name[0]) else ""


WRONG = Opening(wrong=True)


def read_opening(said: bytes) -> Opening:
    head = said[:MOST_BYTES]
    if head[:1] == bytes([LEGACY]) and (len(head) <= 2 or head[2] == LEGACY_MORE):  # noqa: PLR2004
        # A handshake of 254 bytes begins with FE 01 too; its third byte is another.
        return Opening(legacy=True)
    packets: list[Packet] = []
    at = 0
    while len(packets) <= MOST_PACKETS:
        found = _varint(head, at)
        if found is None:
            break
        length, start = found
        # A handshake has the id 0: of other protocols that is known before all of a packet is here.
        if not 0 < length <= MOST_BYTES or (not packets and head[start : start + 1] not in (b"", b"\0")):
            return WRONG
        if start + length > len(head):
            break
        number = _varint(head[: start + length], start)
        if number is None or number[0] < 0:
            return WRONG
        packets.append(Packet(number[0], head[number[1] : start + length]))
        at = start + length
    if not packets:
        # The length of a packet takes at most five bytes.
        return WRONG if len(head) >= MOST_BYTES or _never_ends(head) else Opening()
    handshake = _handshake(packets[0])
    return WRONG if handshake is None else Opening(handshake, tuple(packets[1:]))


def _handshake(packet: Packet) -> Handshake | None:
    version = _varint(packet.body, 0)
    address = _string(packet.body, version[1], LONGEST_ADDRESS) if version else None
    state = _varint(packet.body, address[1] + 2) if address else None
    if packet.number != 0 or version is None or address is None or state is None:
        return None
    if state[1] != len(packet.body) or state[0] not in tuple(Asks):
        return None
    return Handshake(version[0], address[0], Asks(state[0]))


def _never_ends(data: bytes) -> bool:
    return len(data) >= _VARINT_BYTES and _varint(data, 0) is None


def _varint(data: bytes, at: int) -> tuple[int, int] | None:
    """Its value, and where it ends; None where it does not end."""
    value = 0
    for place in range(_VARINT_BYTES):
        if at + place >= len(data):
            return None
        byte = data[at + place]
        value |= (byte & 0x7F) << 7 * place
        if not byte & 0x80:
            value %= _WRAP
            return (value - _WRAP if value >= _SIGN else value), at + place + 1
    return None


def _string(data: bytes, at: int, most: int) -> tuple[str, int] | None:
    size = _varint(data, at)
    if size is None or not 0 <= size[0] <= most or size[1] + size[0] > len(data):
        return None
    end = size[1] + size[0]
    try:
        return data[size[1] : end].decode(), end
    except UnicodeDecodeError:
        return None


def packet(number: int, body: bytes) -> bytes:
    inner = varint(number) + body
    return varint(len(inner)) + inner


def varint(value: int) -> bytes:
    value %= _WRAP
    out = bytearray()
    while value > 0x7F:  # noqa: PLR2004 - seven bits a byte
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def string(text: str) -> bytes:
    data = text.encode()
    return varint(len(data)) + data


def status(version: int, message: str) -> bytes:
    """What a list of servers shows."""
    shown = {
        "version": {"name": "asleep", "protocol": version},
        "players": {"max": 0, "online": 0, "sample": []},
        "description": {"text": message},
    }
    return packet(0, string(json.dumps(shown)))


def kick(message: str) -> bytes:
    """Ends a login with a message."""
    return packet(0, string(json.dumps({"text": message})))


def legacy_status(message: str) -> bytes:
    text = "\0".join(("\xa71", "127", "asleep", message, "0", "0"))
    return b"\xff" + len(text).to_bytes(2, "big") + text.encode("utf-16-be")


HOLD_SECONDS = 25.0
"""A client gives up after 30 s of silence."""
_PING_BYTES = 8


def judge_minecraft(gate: WakeOnRequest, heard: Heard) -> AdmissionVerdict | None:  # noqa: ARG001 - judges have one shape
    opening = read_opening(heard.head)
    if opening.wrong:
        return AdmissionVerdict(wakes=False, holds=False, why="no Minecraft")
    message = _message(heard)
    if opening.legacy:
        return AdmissionVerdict(wakes=False, holds=False, reply=legacy_status(message), why="ping")
    if opening.handshake is None:
        return AdmissionVerdict(wakes=False, holds=False, why="no handshake") if heard.whole else MORE
    if opening.handshake.asks is Asks.STATUS:
        return AdmissionVerdict(wakes=False, holds=False, talk=partial(talk_status, message), why="ping")
    if opening.player:
        return AdmissionVerdict(wakes=True, holds=True, unread=True, most_seconds=HOLD_SECONDS)
    if opening.packets or heard.whole:
        return AdmissionVerdict(wakes=False, holds=False, why="no login")
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
