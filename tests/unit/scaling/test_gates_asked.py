"""What a round asks of gates and Services, and what it says where they do not answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

from ebbtide.errors import Retryable
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.policy import GatePort, Service, ServiceRef, Takeover
from ebbtide.ports import PolicyStore
from tests.memory_services import MemoryServices, gate_of, make_service, service_ref, services_over
from tests.policy_harness import PolicyHarness, make_policy, make_ref, make_workload
from tests.unit.scaling.test_takeover import GatedHarness
from tests.unit.scaling.test_telling_objects import WithoutStates

SILENT = "the API server does not answer"
REFUSING = "the API server refuses it"
HIDING = "the API server does not list them"


class Counted(MemoryServices):
    """How often the gates were asked for, and a Service that cannot be read."""

    asked = 0
    gone_after = 1000
    """After so many questions no gate is ready."""
    broken: ServiceRef | None = None
    held: ServiceRef | None = None
    """Its takeover cannot be removed."""
    unlisted = False

    def gates(self) -> tuple[str, ...]:
        self.asked += 1
        return self.standing if self.asked <= self.gone_after else ()

    def read(self, ref: ServiceRef) -> Service:
        if ref == self.broken:
            raise Retryable(SILENT)
        return super().read(ref)

    def release(self, seen: Takeover) -> None:
        if seen.service == self.held:
            raise Retryable(REFUSING)
        super().release(seen)

    def list_taken(self) -> Sequence[Takeover]:
        if self.unlisted:
            raise Retryable(HIDING)
        return super().list_taken()


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
    assert SILENT in says
    assert "web" in says
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


def test_what_is_about_to_sleep_when_the_last_gate_goes_is_not_scaled_to_zero() -> None:
    """The gate was there when the round looked, and is gone when it acts."""
    harness, services = harness_of("web")
    harness.put(phase=Phase.FALLING, idle_since=harness.now - 6000)
    services.asked, services.gone_after = 0, 1
    harness.round()
    assert services.asked > 1
    assert (services.calls, services.taken) == ([], {})
    assert services.workloads.read(make_ref()).replicas == 2


def test_takeovers_that_cannot_be_listed_are_said_and_the_round_is_done_all_the_same() -> None:
    harness, services = harness_of("web")
    services.unlisted = True
    assert HIDING in harness.round()
    assert harness.phase() is Phase.IDLE


def test_a_takeover_that_cannot_be_removed_is_said_and_keeps_no_other() -> None:
    harness, services = harness_of("web")
    for name in ("old", "older"):
        services.services[service_ref(name)] = make_service(name)
        services.workloads.there[make_ref(name)] = make_workload(name)
        services.taken[service_ref(name)] = Takeover(service_ref(name), "7")
    services.held = service_ref("old")
    assert REFUSING in harness.round()
    assert list(services.taken) == [service_ref("old")]


def test_a_service_that_cannot_be_read_hides_no_other_from_the_gates() -> None:
    harness, services = harness_of("web", "api")
    services.broken = service_ref("web")
    assert [entry.service for entry in harness.scaling.gate_entries()] == [service_ref("api")] * 2


def test_a_takeover_that_meets_another_writer_once_is_made_in_the_same_round() -> None:
    harness, services = harness_of("web")
    take = services.take_over
    met: list[Takeover] = []

    def disturbed(seen: Service, ports: Sequence[GatePort], gates: Sequence[str]) -> Takeover:
        if not met:
            met.append(take(services.read(seen.ref), (), gates))
        return take(seen, ports, gates)

    services.take_over = disturbed  # type: ignore[method-assign]
    harness.sleep()
    assert met
    assert [each.name for each in services.taken[service_ref("web")].ports] == ["http", "grpc"]
    assert services.nowhere == []


def test_a_policy_that_is_deleted_while_its_service_is_given_back_stops_no_round() -> None:
    harness, services = harness_of("web")
    harness.sleep()
    harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    read = services.read

    def deleted(ref: ServiceRef) -> Service:
        for policy in harness.rows.list_policies():
            harness.rows.delete_policy(policy.id, policy.version)
        return read(ref)

    services.read = deleted  # type: ignore[method-assign]
    harness.scaling.reconcile_gates()
    assert list(services.taken) == [service_ref("web")]
    services.read = read  # type: ignore[method-assign]
    harness.scaling.reconcile_gates()
    assert services.taken == {}


def test_a_sleeper_whose_state_was_not_listed_keeps_its_gates() -> None:
    """Its policy was made, or its state written, while the lists were read."""
    harness, services = harness_of("web")
    harness.sleep()
    blind = harness.runner(policies=cast(PolicyStore, WithoutStates(harness.rows)))
    assert blind.reconcile_gates() == []
    assert list(services.taken) == [service_ref("web")]
