"""Ports of scale-to-zero that fail as planned: policies and workloads, next to those of `faults`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from ebbtide.adapters.stores.guards import each_alone
from ebbtide.engine.scale_to_zero.scaling import ScalingPorts
from ebbtide.errors import EbbtideError
from ebbtide.model.idle import Days, IdleState, LedgerDay, Once
from ebbtide.model.log import Entries, LogEntry
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.policy import GatePort, Policy, Service, ServiceRef, Takeover
from ebbtide.ports import PolicyPut, PolicyStore, Services, Workloads
from ebbtide.simulator.faults.catalogue import FaultPlan
from ebbtide.simulator.faults.ports import CallGate, FaultyStore


def faulty_scaling(
    ports: ScalingPorts, plan: FaultPlan, on_fault: Callable[[], None] = lambda: None
) -> ScalingPorts:
    """The same ports, failing as planned."""
    gate = CallGate(plan, on_fault)
    return replace(
        ports,
        store=FaultyStore(ports.store, gate),
        policies=FaultyPolicies(ports.policies, gate),
        workloads=FaultyWorkloads(ports.workloads, gate),
        services=FaultyServices(ports.services, gate) if ports.services is not None else None,
    )


class FaultyPolicies:
    def __init__(self, inner: PolicyStore, gate: CallGate) -> None:
        self._inner = inner
        self._gate = gate

    def list_policies(self, after: str = "", limit: int = 100) -> Sequence[Policy]:
        return self._inner.list_policies(after, limit)

    def find_policy(self, policy_id: str) -> Policy | None:
        self._gate.read("policies.find_policy")
        return self._inner.find_policy(policy_id)

    def find_policy_named(self, name: str) -> Policy | None:
        return self._inner.find_policy_named(name)

    def put_policy(
        self, policy: Policy, entries: Sequence[LogEntry] = (), state: IdleState | None = None
    ) -> Policy:
        return self._gate.act("policies.put_policy", lambda: self._inner.put_policy(policy, entries, state))

    def put_policies(self, puts: Sequence[PolicyPut]) -> Sequence[Policy | EbbtideError]:
        """One after the other: a runner may die, and a store fail, between any two of them."""
        return each_alone(lambda put: self.put_policy(*put), puts)

    def delete_policy(self, policy_id: str, version: int, entries: Sequence[LogEntry] = ()) -> None:
        self._gate.act(
            "policies.delete_policy", lambda: self._inner.delete_policy(policy_id, version, entries)
        )

    def find_state(self, policy_id: str) -> IdleState | None:
        return self._inner.find_state(policy_id)

    def list_states(self) -> Sequence[IdleState]:
        return self._inner.list_states()

    def write_state(
        self, state: IdleState, days: Days = (), entries: Entries = (), once: Once | None = None
    ) -> IdleState:
        return self._gate.act(
            "policies.write_state", lambda: self._inner.write_state(state, days, entries, once)
        )

    def write_states(self, states: Sequence[IdleState]) -> Sequence[IdleState]:
        return self._gate.act("policies.write_states", lambda: self._inner.write_states(states))

    def list_days(self, policy_id: str = "", first: str = "", last: str = "") -> Sequence[LedgerDay]:
        return self._inner.list_days(policy_id, first, last)

    def replace_days(self, policy_id: str, days: Sequence[LedgerDay]) -> None:
        self._gate.act("policies.replace_days", lambda: self._inner.replace_days(policy_id, days))

    def keep_once(self, key: str, value: str, expires_at: int, now: int) -> str:
        return self._gate.act(
            "policies.keep_once", lambda: self._inner.keep_once(key, value, expires_at, now)
        )


class FaultyWorkloads:
    def __init__(self, inner: Workloads, gate: CallGate) -> None:
        self._inner = inner
        self._gate = gate

    def read(self, ref: WorkloadRef) -> Workload:
        self._gate.read("workloads.read")
        return self._inner.read(ref)

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        return self._gate.act("workloads.scale", lambda: self._inner.scale(seen, replicas, note))

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        self._gate.read("workloads.wait_ready")
        return self._inner.wait_ready(ref, until)


class FaultyServices:
    def __init__(self, inner: Services, gate: CallGate) -> None:
        self._inner = inner
        self._gate = gate

    def read(self, ref: ServiceRef) -> Service:
        self._gate.read("services.read")
        return self._inner.read(ref)

    def gates(self) -> Sequence[str]:
        self._gate.read("services.gates")
        return self._inner.gates()

    def take_over(self, seen: Service, ports: Sequence[GatePort], gates: Sequence[str]) -> Takeover:
        return self._gate.act("services.take_over", lambda: self._inner.take_over(seen, ports, gates))

    def release(self, seen: Takeover) -> None:
        self._gate.act("services.release", lambda: self._inner.release(seen))

    def list_taken(self) -> Sequence[Takeover]:
        self._gate.read("services.list_taken")
        return self._inner.list_taken()
