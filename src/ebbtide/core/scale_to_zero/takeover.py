"""Whether a Service may be pointed at the gates, when it may be given back to its pods, and what stands out.

A Service that sleeps is taken over before its workloads go to zero and given back after its pods are ready.
So at any moment it has pods, or gates that wake.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from zlib import crc32

from ebbtide.model.gate import GatePort, Service, ServiceRef, Takeover
from ebbtide.model.idle import NO_WHY, IdleState, Phase, PolicyCause, PolicyWhy

ASLEEP = (Phase.FALLING, Phase.ZERO)


def may_not_take_over(service: Service, gates: Collection[str]) -> PolicyWhy:
    """Why not; nothing where it may be."""
    ref = service.ref
    if service.external:
        says = f"{ref} is an ExternalName: it has no endpoints that a gate could stand in for"
        return PolicyWhy(PolicyCause.EXTERNAL_SERVICE, says, str(ref))
    if service.headless:
        says = f"{ref} is headless: its clients ask DNS for pods and connect to them directly"
        return PolicyWhy(PolicyCause.HEADLESS_SERVICE, says, str(ref))
    if not service.selects:
        says = f"{ref} has no selector: its endpoints are written by hand"
        return PolicyWhy(PolicyCause.NO_SELECTOR, says, str(ref))
    if not service.ports:
        return PolicyWhy(PolicyCause.NO_PORT, f"{ref} has no TCP port", str(ref))
    if not gates:
        return PolicyWhy(PolicyCause.NO_GATE, f"no gate is ready to stand in for {ref}", str(ref))
    return NO_WHY


def may_not_release(service: Service, state: IdleState) -> PolicyWhy:
    """Why not; nothing where it may be. `state` must have been read after the takeover was seen: who falls
    asleep later writes the takeover again, and the release of the version that was seen is refused."""
    if state.phase in ASLEEP:
        return PolicyWhy(PolicyCause.ASLEEP, f"its policy is {state.phase}", state.phase)
    if state.phase is Phase.WAKING and not state.last_scaled_at:
        # A call to zero may still be on its way: the calls of the wake refuse it, and are not answered yet.
        return PolicyWhy(PolicyCause.WAKING, "the calls of its wake are not answered yet")
    if not service.ready:
        return PolicyWhy(
            PolicyCause.NO_POD_READY, f"{service.ref} has no pod that is ready", str(service.ref)
        )
    return NO_WHY


def is_as_wanted(takeover: Takeover | None, ports: Sequence[GatePort], gates: Sequence[str]) -> bool:
    """Gates that are all gone are left as they are: an empty list would help nobody."""
    if takeover is None:
        return False
    return set(takeover.ports) == set(ports) and (not gates or tuple(gates) == takeover.gates)


def first_choice(service: ServiceRef, port_name: str, ports: int) -> int:
    """Which of so many gate ports is tried first: the same each time."""
    return crc32(f"{service.namespace}/{service.name}/{port_name}".encode()) % ports
