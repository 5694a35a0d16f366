"""Whether a Service may be pointed at the gates, when it may be given back to its pods, and what stands out.

A Service that sleeps is taken over before its workloads go to zero and given back after its pods are ready.
So at any moment it has pods, or gates that wake.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from zlib import crc32

from ebbtide.model.gate import GatePort, Service, ServiceRef, Takeover
from ebbtide.model.idle import IdleState, Phase

ASLEEP = (Phase.FALLING, Phase.ZERO)


def may_not_take_over(service: Service, gates: Collection[str]) -> str:
    """Why not; nothing where it may be."""
    if service.external:
        return f"{service.ref} is an ExternalName: it has no endpoints that a gate could stand in for"
    if service.headless:
        return f"{service.ref} is headless: its clients ask DNS for pods and connect to them directly"
    if not service.selects:
        return f"{service.ref} has no selector: its endpoints are written by hand"
    if not service.ports:
        return f"{service.ref} has no TCP port"
    if not gates:
        return f"no gate is ready to stand in for {service.ref}"
    return ""


def may_not_release(service: Service, state: IdleState) -> str:
    """Why not; nothing where it may be. `state` must have been read after the takeover was seen: who falls
    asleep later writes the takeover again, and the release of the version that was seen is refused."""
    if state.phase in ASLEEP:
        return f"its policy is {state.phase}"
    if state.phase is Phase.WAKING and not state.last_scaled_at:
        # A call to zero may still be on its way: the calls of the wake refuse it, and are not answered yet.
        return "the calls of its wake are not answered yet"
    if not service.ready:
        return f"{service.ref} has no pod that is ready"
    return ""


def is_as_wanted(takeover: Takeover | None, ports: Sequence[GatePort], gates: Sequence[str]) -> bool:
    """Gates that are all gone are left as they are: an empty list would help nobody."""
    if takeover is None:
        return False
    return set(takeover.ports) == set(ports) and (not gates or tuple(gates) == takeover.gates)


def first_choice(service: ServiceRef, port_name: str, ports: int) -> int:
    """Which of so many gate ports is tried first: the same each time."""
    return crc32(f"{service.namespace}/{service.name}/{port_name}".encode()) % ports
