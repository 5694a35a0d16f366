"""What the API serves: one cluster's record and log, an observation of it, its policies, and who may do
what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from ebbtide.entrypoints.api.scopes import Token
from ebbtide.entrypoints.api.sight import Sight
from ebbtide.model.settings import Settings
from ebbtide.ports import Clock, Store

if TYPE_CHECKING:
    from ebbtide.engine.scale_to_zero.scaling import Scaling


@dataclass(frozen=True, slots=True)
class Fault:
    """Something that can be broken in the demo, and what that will show."""

    id: str
    name: str
    says: str


@dataclass(frozen=True, slots=True)
class SituationLine:
    says: str
    at: int
    """When it was reached; 0 until then."""


@dataclass(frozen=True, slots=True)
class Survived:
    """A fault that was made, and how far its answer is."""

    fault_id: str
    name: str
    explains: str
    began_at: int
    ended_at: int
    """0 while it is being answered."""
    lines: tuple[SituationLine, ...]


class Demo(Protocol):
    """What the demo lets a person do beyond looking."""

    says: str
    faults: tuple[Fault, ...]

    def speed(self) -> float:
        """Simulated seconds for each real one, now."""

    def survived(self) -> Survived | None:
        """The fault that was made last."""

    def strike(self, fault_id: str) -> str:
        """Break it, and say what was done. `NotFound` where there is no such fault."""


@dataclass(frozen=True, slots=True)
class Site:
    store: Store
    settings: Settings
    sight: Sight
    clock: Clock
    new_id: Callable[[], str]
    scaling: Scaling | None = None
    tokens: tuple[Token, ...] = ()
    hosts: tuple[str, ...] = ("localhost", "127.0.0.1", "::1")
    """Names under which it may be asked for. A page of another site that had its name point here would
    ask under that name."""
    open_reading: bool = False
    """Whether reading needs no token; only where nobody but this machine can reach it."""
    webhook_secrets: tuple[str, ...] = ()
    rate_per_minute: int = 600
    wakes_per_minute: int = 120
    max_holds: int = 500
    max_body_bytes: int = 256 * 1024
    kind: str = ""
    demo: Demo | None = None
    metrics: Callable[[], tuple[bytes, str]] | None = None
    """The text of `/metrics` and its media type."""
    healthy: Callable[[], str] = field(default=lambda: "")
    """What is wrong with the process; empty while it is well."""
    ready: Callable[[], str] = field(default=lambda: "")
