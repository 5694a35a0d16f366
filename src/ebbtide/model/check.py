"""One thing that was asked before something is done, and one thing that was passed over."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Check:
    """One precondition: a stable name, whether it held, and a sentence with both figures."""

    name: str
    passed: bool
    says: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """A node that was looked at for removal and passed over, and why."""

    node_name: str
    reason: str
