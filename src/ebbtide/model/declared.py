"""Policies that objects of the cluster declare, and what those objects are told about them.

A `SleepPolicy` has a status that says how its policy is doing. A Deployment or StatefulSet with the sleep
annotation has none: only what is wrong is told, by an Event.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum

from ebbtide.model.policy import Policy

ORIGIN = "kubernetes:"
"""How the origin of a policy begins that an object of the cluster declares."""


class Declarer(StrEnum):
    SLEEP_POLICY = "SleepPolicy"
    DEPLOYMENT = "Deployment"
    STATEFUL_SET = "StatefulSet"


@dataclass(frozen=True, slots=True)
class ObjectRef:
    kind: Declarer
    namespace: str
    name: str

    @property
    def origin(self) -> str:
        """Of its policy. Without the UID: an object that is made again under its name keeps its policy."""
        return f"{ORIGIN}{self.kind}/{self.namespace}/{self.name}"

    def __str__(self) -> str:
        return f"{self.kind} {self.namespace}/{self.name}"


def declared_by(policy: Policy) -> str:
    """The object that declares the policy, as people name it; empty where it is none of the cluster."""
    kind, name = _declarer(policy)
    return f"{kind} {name}" if kind else ""


def declaring_kind(policy: Policy) -> str:
    return _declarer(policy)[0]


def _declarer(policy: Policy) -> tuple[str, str]:
    if not policy.origin.startswith(ORIGIN):
        return "", ""
    kind, _, name = policy.origin.removeprefix(ORIGIN).partition("/")
    return kind, name


class Readiness(StrEnum):
    """Whether the policy is as its object says; the reason of the condition `Ready`."""

    APPLIED = "Applied"
    CONFLICT = "Conflict"
    """Another policy has its target or its name."""
    INVALID = "Invalid"
    TARGET_ASLEEP = "TargetAsleep"
    """The target may change only while it is awake."""
    FAILED = "Failed"
    """The store did not take it; it is tried again."""


@dataclass(frozen=True, slots=True)
class SavedLately:
    """What the ledger has of the last days, up to and including `until`."""

    until: str
    asleep_seconds: int = 0
    amount: str = ""
    """Net, with two digits; empty where no price is known."""
    currency: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """What an object is told. It is written only where it differs from what the object says already."""

    ready: Readiness
    says: str
    generation: int
    """Of the object, when this was true."""
    target: str = ""
    phase: str = ""
    since: int = 0
    """When the phase began, as far as is known."""
    why_awake: str = ""
    saved: SavedLately | None = None
    transitions: tuple[tuple[str, str, str], ...] = field(default=(), compare=False)
    """Of each condition that the object has: its type, its status, and since when."""


@dataclass(frozen=True, slots=True)
class Declaration:
    ref: ObjectRef
    uid: str
    version: str
    """Of the object as it was read: the condition of what it is told."""
    generation: int
    created_at: int
    policy: Policy | None
    """As it should be, without id and version; None where it cannot be understood."""
    problem: str = ""
    """Why not."""
    told: Report | None = None
    """What the object says now; None where nobody has told it anything, or it has no status."""
