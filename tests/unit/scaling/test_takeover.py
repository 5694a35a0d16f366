"""Services are taken over before their policy sleeps, and given back when their pods are ready."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.scale_to_zero.wake import first_choice, is_as_wanted, may_not_release, may_not_take_over
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.model.idle import NO_WHY, Phase, PolicyCause, WakeReason
from ebbtide.model.policy import GatePort, Schedule, Takeover
from tests.memory_services import (
    GATES,
    PORTS,
    MemoryServices,
    gate_of,
    make_service,
    service_ref,
    services_over,
)
from tests.policy_harness import PolicyHarness, make_policy, make_ref, make_state, make_workload


class GatedHarness(PolicyHarness):
    memory_services: MemoryServices

    def runner(self, **changes: Any) -> Scaling:
        return super().runner(**{"services": self.memory_services, "gate_ports": PORTS, **changes})


def gated_harness(**overrides: Any) -> GatedHarness:
    services = services_over(make_workload())
    GatedHarness.memory_services = services
    return GatedHarness(
        policies=(make_policy(gate=gate_of("web"), **overrides),), memory_workloads=services.workloads
    )


def test_a_service_is_taken_over_before_its_workload_goes_to_zero() -> None:
    harness = gated_harness()
    harness.sleep()
    assert harness.memory_services.calls == ["take over web", "scale web to 0"]
    (taken,) = harness.memory_services.taken.values()
    assert taken.gates == GATES
    assert [each.name for each in taken.ports] == ["http", "grpc"]
    assert len({each.port for each in taken.ports}) == 2


def test_a_service_is_given_back_when_its_pods_are_ready_and_not_before() -> None:
    harness = gated_harness()
    harness.sleep()
    harness.memory_workloads.slow = True
    harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
    assert harness.scaling.reconcile_gates() == []
    assert list(harness.memory_services.taken) == [service_ref()]
    harness.memory_workloads.put(make_ref(), ready_replicas=2)
    assert len(harness.scaling.reconcile_gates()) == 1
    assert not harness.memory_services.taken
    assert not harness.memory_services.nowhere


def test_a_connection_wakes_what_sleeps_and_counts_as_use_of_what_is_up() -> None:
    harness = gated_harness()
    harness.sleep()
    assert harness.scaling.arrive(harness.policies[0].id) > 0
    assert (harness.phase(), harness.state.wake_count) == (Phase.WAKING, 1)
    harness.round()
    assert harness.phase() is Phase.ACTIVE
    harness.clock.sleep(100)
    assert harness.scaling.arrive(harness.policies[0].id) == 0
    assert harness.state.last_activity_at == harness.now


@pytest.mark.parametrize(
    ("service", "cause"),
    [
        ({"headless": True}, PolicyCause.HEADLESS_SERVICE),
        ({"selects": False}, PolicyCause.NO_SELECTOR),
        ({"external": True}, PolicyCause.EXTERNAL_SERVICE),
        ({"ports": ()}, PolicyCause.NO_PORT),
    ],
)
def test_what_cannot_be_taken_over_stays_up_with_the_reason(
    service: dict[str, Any], cause: PolicyCause
) -> None:
    harness = gated_harness()
    harness.memory_services.services[service_ref()] = make_service(**service)
    harness.rounds(6000)
    assert harness.state.left_alone_cause is cause
    assert harness.memory_services.calls == []


def test_without_a_gate_nothing_goes_to_sleep_behind_it() -> None:
    harness = gated_harness()
    harness.memory_services.standing = ()
    harness.rounds(6000)
    assert harness.state.left_alone_cause is PolicyCause.NO_GATE
    harness.memory_services.standing = GATES
    harness.sleep()
    assert harness.memory_services.taken


def test_without_a_gate_a_policy_with_an_idle_time_of_its_own_stays_up_too() -> None:
    harness = gated_harness(idle_threshold_seconds=300)
    harness.memory_services.standing = ()
    harness.rounds(1500)
    assert (harness.phase(), harness.state.left_alone_cause) == (Phase.IDLE, PolicyCause.NO_GATE)


def test_a_service_that_is_not_there_keeps_its_policy_up() -> None:
    harness = gated_harness()
    harness.memory_services.services.clear()
    harness.rounds(6000)
    assert harness.state.left_alone_cause is PolicyCause.MISSING


def test_a_policy_with_a_gate_stays_up_where_no_gate_is_configured() -> None:
    harness = gated_harness()
    runner = harness.runner(services=None)
    for _ in range(100):
        harness.clock.sleep(60)
        harness.round(runner)
    assert harness.state.left_alone_cause is PolicyCause.NO_GATE
    assert runner.reconcile_gates() == []
    assert not runner.gate_entries()


def test_a_schedule_waits_until_the_service_can_be_taken_over() -> None:
    harness = gated_harness(schedules=(Schedule("*/10 * * * *", replicas=0),), signals=())
    harness.memory_services.standing = ()
    harness.rounds(1200)
    assert harness.phase() is Phase.ACTIVE
    harness.memory_services.standing = GATES
    harness.rounds(120)
    assert harness.phase() is Phase.ZERO
    assert not harness.memory_services.nowhere


def test_takeovers_follow_the_gates_that_are_ready_and_keep_the_last_that_were() -> None:
    harness = gated_harness()
    harness.sleep()
    harness.memory_services.standing = ("10.0.0.9",)
    assert harness.scaling.reconcile_gates() == ["Service default/web points at 1 gates"]
    assert harness.memory_services.taken[service_ref()].gates == ("10.0.0.9",)
    harness.memory_services.standing = ()
    assert harness.scaling.reconcile_gates() == []
    assert harness.memory_services.taken[service_ref()].gates == ("10.0.0.9",)


def test_what_sleeps_without_its_takeover_gets_it() -> None:
    harness = gated_harness()
    harness.sleep()
    harness.memory_services.taken.clear()
    assert harness.scaling.reconcile_gates() == ["Service default/web was taken over"]
    assert list(harness.memory_services.taken) == [service_ref()]


def test_a_takeover_that_no_policy_asks_for_is_removed() -> None:
    harness = gated_harness()
    harness.memory_services.services[service_ref("old")] = make_service("old")
    harness.memory_workloads.there[make_ref("old")] = make_workload("old")
    harness.memory_services.taken[service_ref("old")] = Takeover(service_ref("old"), "7")
    assert "released" in harness.round()
    assert not harness.memory_services.taken


def test_a_service_port_has_the_same_gate_port_for_every_runner_and_no_two_share_one() -> None:
    harness = gated_harness()
    one, other = harness.runner().gate_entries(), harness.runner().gate_entries()
    assert [entry.port for entry in one] == [entry.port for entry in other]
    assert {entry.port for entry in one} <= set(PORTS)
    assert len({entry.port for entry in one}) == len(one) == 2


def test_a_service_port_keeps_its_gate_port_when_its_claim_has_lapsed() -> None:
    """A gate that still listens there must not pass its connections on to another Service."""
    entry = gated_harness().runner().gate_entries()[0]
    assert entry.port == PORTS[first_choice(service_ref(), entry.port_name, len(PORTS))]


def test_when_all_gate_ports_are_taken_the_policy_says_so_and_stays_up() -> None:
    harness = gated_harness()
    runner = harness.runner(gate_ports=range(20_000, 20_001))
    harness.put(phase=Phase.FALLING, idle_since=harness.now - 6000)
    harness.clock.sleep(60)
    assert "widen gate.ports" in harness.round(runner)
    assert harness.memory_workloads.read(make_ref()).replicas == 2


def test_a_release_waits_for_pods_and_for_the_answer_to_the_wake() -> None:
    ready = make_service(ready=1)
    assert may_not_release(ready, make_state(Phase.ACTIVE)) == NO_WHY
    assert may_not_release(ready, make_state(Phase.WAKING, last_scaled_at=5)) == NO_WHY
    assert may_not_release(ready, make_state(Phase.WAKING, last_scaled_at=0)).cause is PolicyCause.WAKING
    assert may_not_release(ready, make_state(Phase.ZERO)).cause is PolicyCause.ASLEEP
    assert may_not_release(ready, make_state(Phase.FALLING)).cause is PolicyCause.ASLEEP
    assert may_not_release(make_service(), make_state(Phase.ACTIVE)).cause is PolicyCause.NO_POD_READY


def test_the_reasons_are_asked_in_order_and_a_whole_service_has_none() -> None:
    assert may_not_take_over(make_service(), GATES) == NO_WHY
    assert may_not_take_over(make_service(), ()).cause is PolicyCause.NO_GATE


def test_a_takeover_is_as_wanted_by_its_ports_and_gates() -> None:
    ports = (GatePort("http", 20_001),)
    there = Takeover(service_ref(), "1", ports, GATES)
    assert is_as_wanted(there, ports, GATES)
    assert is_as_wanted(there, ports, ())
    assert not is_as_wanted(there, ports, GATES[:1])
    assert not is_as_wanted(there, (), GATES)
    assert not is_as_wanted(None, ports, GATES)
    assert first_choice(service_ref(), "http", 7) == first_choice(service_ref(), "http", 7) < 7


def test_a_takeover_that_others_write_all_the_time_is_left_to_the_next_round() -> None:
    harness = gated_harness()
    take, services = harness.memory_services.take_over, harness.memory_services

    def disturbed(seen: Any, ports: Any, gates: Any) -> Takeover:
        take(services.read(seen.ref), ports, gates)
        return take(seen, ports, gates)

    services.take_over = disturbed  # type: ignore[method-assign]
    harness.rounds(2200)
    assert harness.phase() is Phase.FALLING
    assert harness.memory_workloads.read(make_ref()).replicas == 2
    services.take_over = take  # type: ignore[method-assign]
    harness.round()
    assert harness.phase() is Phase.ZERO
