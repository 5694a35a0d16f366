"""What a round asks of gates and Services, and what it says where they do not answer."""

from __future__ import annotations

from ebbtide.errors import Retryable
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.policy import Service, ServiceRef
from tests.memory_services import MemoryServices, gate_of, service_ref, services_over
from tests.policy_harness import PolicyHarness, make_policy, make_ref, make_workload
from tests.unit.scaling.test_takeover import GatedHarness


class Counted(MemoryServices):
    """How often the gates were asked for, and a Service that cannot be read."""

    asked = 0
    broken: ServiceRef | None = None

    def gates(self) -> tuple[str, ...]:
        self.asked += 1
        return self.standing

    def read(self, ref: ServiceRef) -> Service:
        if ref == self.broken:
            raise Retryable("the API server does not answer")
        return super().read(ref)


def harness_of(*names: str, gated: bool = True) -> tuple[PolicyHarness, Counted]:
    found = services_over(*(make_workload(name) for name in names))
    services = Counted(found.workloads, found.services)
    found.workloads.memory_services = services  # type: ignore[attr-defined]
    GatedHarness.memory_services = services
    policy = make_policy("web", *map(make_ref, names), gate=gate_of(*names) if gated else None)
    return GatedHarness((policy,), services.workloads), services


def test_gates_are_asked_for_only_where_a_policy_has_one() -> None:
    harness, services = harness_of("web", gated=False)
    harness.round()
    assert services.asked == 0
    harness, services = harness_of("web")
    harness.round()
    assert services.asked > 0


def test_a_group_of_which_one_service_is_left_with_the_gates_gets_it_back() -> None:
    harness, services = harness_of("web", "api")
    harness.sleep()
    assert set(services.taken) == {service_ref("web"), service_ref("api")}
    kept = services.taken[service_ref("api")]
    harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    harness.rounds(120)
    assert services.taken == {}
    services.taken[service_ref("api")] = kept
    harness.round()
    assert services.taken == {}


def test_a_service_that_cannot_be_read_is_said_with_its_policy_and_stops_no_other() -> None:
    harness, services = harness_of("web", "api")
    harness.sleep()
    services.taken.clear()
    services.broken = service_ref("web")
    says = harness.round()
    assert "web: the API server does not answer" in says
    assert harness.phase() is Phase.ZERO


def test_the_port_of_a_service_is_asked_for_again_only_after_a_while() -> None:
    harness, _ = harness_of("web")
    asked: list[str] = []
    keep_once = harness.rows.keep_once

    def noted(key: str, value: str, expires_at: int, now: int) -> str:
        asked.append(key)
        return keep_once(key, value, expires_at, now)

    harness.rows.keep_once = noted  # type: ignore[method-assign]
    scaling = harness.runner()
    first = scaling.gate_entries()
    begun = len(asked)
    assert begun >= len(first) == 2
    assert scaling.gate_entries() == first
    assert len(asked) == begun
    harness.clock.sleep(7 * 86_400)
    assert scaling.gate_entries() == first
    assert len(asked) > begun
