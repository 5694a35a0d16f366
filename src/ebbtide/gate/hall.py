"""Who is held now, by policy and in the order of arrival. For the event loop alone."""

from __future__ import annotations

from collections.abc import Iterator

from ebbtide.gate.held import Held
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.routes import Route
from ebbtide.model.gate import ServiceRef


class Hall:
    def __init__(self, metrics: GateMetrics) -> None:
        self._metrics = metrics
        self._held: dict[str, dict[Held, None]] = {}
        self._by_service: dict[ServiceRef, dict[Held, None]] = {}
        self._names: dict[str, str] = {}
        self.count = 0
        """In all."""

    def __iter__(self) -> Iterator[tuple[Held, Route]]:
        """As they are now: a caller may let them go meanwhile."""
        for ours in list(self._held.values()):
            for held in list(ours):
                if held.route is not None:
                    yield held, held.route

    def of(self, service: ServiceRef) -> list[tuple[Held, Route]]:
        """Those of one Service: pods of many change at once, and no look may take all that are held."""
        ours = self._by_service.get(service, ())
        return [(held, held.route) for held in ours if held.route is not None]

    def has(self, service: ServiceRef) -> bool:
        return bool(self._by_service.get(service))

    def awaited(self) -> list[str]:
        """The policies that somebody waits for. A client that has not said yet what it wants waits for none:
        it may be a scanner that never ends its request."""
        return [
            policy_id
            for policy_id, ours in self._held.items()
            if any(held.judged or held.passing is not None for held in ours)
        ]

    def name_of(self, policy_id: str) -> str:
        return self._names.get(policy_id, policy_id)

    def count_of(self, policy_id: str) -> int:
        return len(self._held.get(policy_id, ()))

    def add(self, held: Held, route: Route) -> None:
        self._names[route.policy_id] = route.policy
        self._held.setdefault(route.policy_id, {})[held] = None
        self._by_service.setdefault(route.service, {})[held] = None
        self.count += 1
        self._metrics.held(route.policy, self.count_of(route.policy_id))

    def drop(self, held: Held, route: Route) -> bool:
        """Whether it was still here."""
        ours = self._held.get(route.policy_id, {})
        if held not in ours:
            return False
        del ours[held]
        del self._by_service[route.service][held]
        self.count -= 1
        self._metrics.held(route.policy, len(ours))
        return True
