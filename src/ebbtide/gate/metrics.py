"""What the gate counts, for Prometheus."""

from __future__ import annotations

from enum import StrEnum
from functools import cache

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

FIRST_BYTE = (0.05, 0.1, 0.5, 1.0, 2.5, 5.0, 10.0, 20.0, 30.0, 60.0, 120.0, 300.0)
OURS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class ConnectionOutcome(StrEnum):
    """How a connection ended for the gate; each has one."""

    RELEASED = "released"
    """Held, then passed on to a pod."""
    FORWARDED = "forwarded"
    """Passed on at once: a pod was ready."""
    TIMED_OUT = "timed_out"
    REFUSED = "refused"
    """Over a limit, not allowed to wake, or for no known Service."""
    ANSWERED = "answered"
    """By the gate itself, and not held: a waiting page, a status ping, a rule."""
    LEFT = "left"
    """The client went while it was held."""


class ConnectionRefusal(StrEnum):
    """Why a connection was refused."""

    GATE_FULL = "gate_full"
    POLICY_FULL = "policy_full"
    SOURCE = "source"
    """Its address may not wake."""
    WAKES = "wakes"
    """Its source started too many."""
    RULE = "rule"
    """By its first bytes."""
    SLOW = "slow"
    UNKNOWN_PORT = "unknown_port"
    SHUTDOWN = "shutdown"

    @property
    def detail(self) -> str:
        match self:
            case ConnectionRefusal.GATE_FULL | ConnectionRefusal.POLICY_FULL:
                return "too many connections wait for it already"
            case _:
                return "this address may not wake it"


class GateMetrics:
    def __init__(self, registry: CollectorRegistry | None = None) -> None:
        self.registry = registry or CollectorRegistry()
        # The children are kept: finding them by their labels takes longer than counting.
        self._held = cache(
            Gauge("ebbtide_gate_held", "Connections held now.", ["policy"], registry=self.registry).labels
        )
        self._open = cache(
            Gauge(
                "ebbtide_gate_open",
                "Connections passed on and still open.",
                ["policy"],
                registry=self.registry,
            ).labels
        )
        self._ended = cache(
            Counter(
                "ebbtide_gate_connections",
                "Connections by how they ended for the gate.",
                ["policy", "outcome"],
                registry=self.registry,
            ).labels
        )
        self._refused = cache(
            Counter(
                "ebbtide_gate_refused",
                "Connections refused, by reason.",
                ["policy", "reason"],
                registry=self.registry,
            ).labels
        )
        self._woken = cache(
            Counter(
                "ebbtide_gate_wakes",
                "Wakes that were requested and answered.",
                ["policy"],
                registry=self.registry,
            ).labels
        )
        self._failed = cache(
            Counter(
                "ebbtide_gate_wake_failures", "Wakes that got no answer.", ["policy"], registry=self.registry
            ).labels
        )
        self._first_byte = cache(
            Histogram(
                "ebbtide_gate_first_byte_seconds",
                "From a held connection's arrival to the first byte of its answer.",
                ["policy"],
                buckets=FIRST_BYTE,
                registry=self.registry,
            ).labels
        )
        self._ours = cache(
            Histogram(
                "ebbtide_gate_release_seconds",
                "From the first ready pod to the first byte passed on.",
                ["policy"],
                buckets=OURS,
                registry=self.registry,
            ).labels
        )

    def held(self, policy: str, count: int) -> None:
        self._held(policy).set(count)

    def opened(self, policy: str, change: int) -> None:
        self._open(policy).inc(change)

    def ended(self, policy: str, outcome: ConnectionOutcome) -> None:
        self._ended(policy, outcome.value).inc()

    def refused(self, policy: str, why: ConnectionRefusal) -> None:
        self.ended(policy, ConnectionOutcome.REFUSED)
        self._refused(policy, why.value).inc()

    def woke(self, policy: str, answered: bool) -> None:
        (self._woken if answered else self._failed)(policy).inc()

    def first_byte(self, policy: str, seconds: float) -> None:
        self._first_byte(policy).observe(seconds)

    def ours(self, policy: str, seconds: float) -> None:
        self._ours(policy).observe(seconds)
