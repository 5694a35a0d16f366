"""How long a wake is expected to take, before any was asked for. The gate's starter may hand it in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class Eta:
    seconds: int
    needs_node: bool | None = None
    """Whether a node must be launched first; None: not known."""


class Expects(Protocol):
    def __call__(self, policy_id: str, /) -> Eta | None:
        """From the policy's history; None where nothing is known. Must not block."""


def nothing_known(policy_id: str) -> Eta | None:  # noqa: ARG001 - as the protocol says
    return None
