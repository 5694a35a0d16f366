"""Whether a connection wakes its policy, by its first bytes. Pure; one judge for each protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.model.gate import Gate

Talk = Callable[[bytes], bytes | None]
"""What to answer to everything that a client has said so far; None ends it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    wakes: bool
    holds: bool
    reply: bytes = b""
    """Said at once to a connection that is not held; without it, it is reset."""
    why: str = ""
    """For the metrics: why it was not held."""
    talk: Talk | None = None
    """A conversation instead of one reply."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of a connection when it is judged."""

    head: bytes
    whole: bool
    """Nothing more will be read before the connection is passed on."""
    source: str = ""
    eta_seconds: int = 0


HOLD = Verdict(wakes=True, holds=True)
MORE: Verdict | None = None
"""Not to be said yet."""


def judge_tcp(gate: Gate, heard: Heard) -> Verdict | None:
    wanted = bytes.fromhex(gate.first_bytes)
    if heard.head[: len(wanted)] != wanted[: len(heard.head)]:
        return Verdict(wakes=False, holds=False, why="first bytes")
    if len(heard.head) >= max(gate.least_bytes, len(wanted)):
        return HOLD
    return Verdict(wakes=False, holds=False, why="too few bytes") if heard.whole else MORE
