"""Whether a connection wakes its policy, by its first bytes. Pure; one judge for each protocol."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from ebbtide.model.gate import Gate

Talk = Callable[[bytes], tuple[bytes, bool]]
"""From all that a client has said: all that is to be answered to it, and whether that is the end."""


@dataclass(frozen=True, slots=True)
class Verdict:
    wakes: bool
    holds: bool
    unread: bool = False
    """Nothing more is to be read of a connection that is held."""
    reply: bytes = b""
    """Said at once to a connection that is not held; without it, it is reset."""
    why: str = ""
    """Why it was not held."""
    talk: Talk | None = None
    """A conversation instead of one reply."""
    source: str = ""
    """Whom it comes from, where a trusted proxy says so."""
    most_seconds: float | None = None
    """Its client gives up after so long."""


@dataclass(frozen=True, slots=True)
class Heard:
    """What is known of a connection when it is judged."""

    head: bytes
    whole: bool
    """Nothing more will be read before the connection is passed on."""
    source: str = ""
    policy: str = ""
    """Its name."""
    eta_seconds: int = 0
    """0: not known."""
    waking: bool = False
    """A wake is in progress."""
    waited_seconds: int = 0
    """Since it began, as far as this gate knows."""
    needs_node: bool | None = None
    """Whether a node must be launched first; None: not known."""
    failing: bool = False
    """The wake could not be recorded so far."""


HOLD = Verdict(wakes=True, holds=True)
HOLD_UNREAD = Verdict(wakes=True, holds=True, unread=True)
MORE: Verdict | None = None
"""Not to be said yet."""


def judge_tcp(gate: Gate, heard: Heard) -> Verdict | None:
    wanted = bytes.fromhex(gate.first_bytes)
    if heard.head[: len(wanted)] != wanted[: len(heard.head)]:
        return Verdict(wakes=False, holds=False, why="first bytes")
    if len(heard.head) >= max(gate.least_bytes, len(wanted)):
        return HOLD
    return Verdict(wakes=False, holds=False, why="too few bytes") if heard.whole else MORE
