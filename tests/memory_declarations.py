"""Objects of a cluster that declare policies, in memory: what they are told is what they say from then on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from ebbtide.errors import EbbtideError
from ebbtide.model.policy import (
    Declaration,
    Declarer,
    GateProtocol,
    HttpRules,
    NeverWake,
    ObjectRef,
    Report,
    ServiceRef,
    WakeHeader,
    WakeOnRequest,
)
from tests.builders import NOW
from tests.policy_harness import make_policy, make_ref, policy_id

FULL_GATE = {
    "services": ["web"],
    "protocol": "http",
    "hold": "1m30s",
    "maxHeld": 50,
    "sources": ["10.0.0.0/8", "fd00::/8"],
    "http": {
        "waitingPage": True,
        "neverWake": {
            "known": False,
            "hosts": ["*.example.com"],
            "paths": ["/robots.txt", "/static/*"],
            "agents": ["curl"],
            "requests": ["HEAD /", "GET /healthz"],
        },
        "wakeHeader": {"name": "X-Wake", "value": "yes"},
        "trustedProxies": ["10.1.0.0/16"],
    },
}
"""Every rule that a gate has for HTTP, as a SleepPolicy says it, and as it must arrive."""
GATE_OF_FULL = WakeOnRequest(
    (ServiceRef("default", "web"),),
    GateProtocol.HTTP,
    hold_seconds=90,
    max_held=50,
    sources=("10.0.0.0/8", "fd00::/8"),
    http=HttpRules(
        True,
        NeverWake(
            False, ("*.example.com",), ("/robots.txt", "/static/*"), ("curl",), ("HEAD /", "GET /healthz")
        ),
        WakeHeader("X-Wake", "yes"),
        ("10.1.0.0/16",),
    ),
)


def make_object(name: str = "nights", *workloads: str, number: int = 101, **overrides: Any) -> Declaration:
    """A SleepPolicy of the default namespace, over the Deployment `web`."""
    refs = [make_ref(each) for each in workloads or ("web",)]
    kind = overrides.pop("kind", Declarer.SLEEP_POLICY)
    changes = overrides.pop("policy", {})
    policy = make_policy(f"default.{name}", *refs, id=policy_id(number), created_at=NOW, updated_at=NOW)
    defaults: dict[str, Any] = {
        "ref": ObjectRef(kind, "default", name),
        "uid": f"uid-{name}",
        "version": "1",
        "generation": 1,
        "created_at": NOW,
        "policy": replace(policy, **changes) if changes is not None else None,
    }
    return Declaration(**{**defaults, **overrides})


@dataclass
class MemoryDeclarations:
    there: list[Declaration] = field(default_factory=list)
    told: list[tuple[str, Report]] = field(default_factory=list)
    """Every report that was written."""
    problem: EbbtideError | None = None
    kinds: frozenset[Declarer] = frozenset(Declarer)

    def read(self) -> Sequence[Declaration]:
        if self.problem is not None:
            raise self.problem
        return list(self.there)

    def tell(self, declaration: Declaration, report: Report) -> None:
        if self.problem is not None:
            raise self.problem
        self.told.append((declaration.ref.name, report))
        self.there = [
            replace(each, told=report) if each.ref == declaration.ref else each for each in self.there
        ]

    def put(self, declaration: Declaration) -> None:
        """As somebody would apply it again: what it was told stays."""
        told = {each.ref: each.told for each in self.there}
        self.remove(declaration.ref.name)
        self.there.append(replace(declaration, told=told.get(declaration.ref)))

    def remove(self, name: str) -> None:
        self.there = [each for each in self.there if each.ref.name != name]

    def report(self, name: str = "nights") -> Report:
        found = next(each.told for each in self.there if each.ref.name == name)
        assert found is not None
        return found
