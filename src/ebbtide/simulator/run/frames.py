"""A picture of a simulation at one moment, for a live view. Plain values; nothing to compute later."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

from ebbtide.model.operation import Consolidate, MoveState, Operation, Removal, ScaleUp, Slot, Spot
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Node
from ebbtide.simulator.world.world import World


@dataclass(frozen=True, slots=True)
class NodeFrame:
    name: str
    zone: str
    pool: str
    instance_type: str
    market: str
    state: str
    """booting, joining, ready, not ready, cordoned, draining, leaving, interrupted."""
    pods: int
    requested: float
    """How much of its CPU is asked for by pods, 0 to 1."""
    used: float
    """How much of its CPU is really used, 0 to 1."""


@dataclass(frozen=True, slots=True)
class Frame:
    at: float
    nodes: tuple[NodeFrame, ...]
    """Workers of ours, those that boot among them, by zone and then by name."""
    pods: int
    waiting: int
    cpu: float | None
    operation: str
    """The open operation in a few words; empty when there is none."""
    says: str
    cost: Decimal
    currency: str
    quiet: bool = False
    """Whether the tick did nothing that is worth a line."""
    faulty: bool = False
    """Whether the runner did not survive the tick; `says` is then how it ended."""
    events: tuple[str, ...] = ()
    """What happened outside the tick since the last frame, such as a crash of the runner."""


def draw(world: World, record: Record) -> tuple[NodeFrame, ...]:
    frames = []
    for machine in world.machines.book.machines.values():
        if not machine.ours or (machine.ended_at and machine.node.name not in world.inventory.nodes):
            continue
        node = world.inventory.nodes.get(machine.node.name)
        if node is None or node.uid != machine.node.uid:
            if machine.instance.alive:
                frames.append(_empty(machine.node, "booting"))
            continue
        pods = world.pods_on(node.name)
        asked = sum(pod.requests.cpu_milli for pod in pods if not pod.finished)
        state = _state(node, machine.instance.alive, machine.noticed, record)
        frames.append(
            NodeFrame(
                node.name,
                node.zone,
                node.pool,
                node.instance_type,
                node.market,
                state,
                len(pods),
                round(asked / max(node.allocatable.cpu_milli, 1), 3),
                round(world.usage.of(node.name) or 0.0, 3),
            )
        )
    return tuple(sorted(frames, key=lambda frame: (frame.zone, frame.name)))


def _empty(node: Node, state: str) -> NodeFrame:
    return NodeFrame(node.name, node.zone, node.pool, node.instance_type, node.market, state, 0, 0.0, 0.0)


def _state(node: Node, alive: bool, noticed: bool, record: Record) -> str:
    if not alive:
        return "leaving"
    if noticed:
        return "interrupted"
    if node.owner is not None:
        return "draining"
    if node.unschedulable:
        return "cordoned"
    if not node.ready:
        young = any(
            slot.node_name == node.name for operation in record.operations for slot in _slots(operation)
        )
        return "joining" if young else "not ready"
    return "ready"


def _slots(operation: Operation) -> tuple[Slot, ...]:
    return operation.slots if isinstance(operation, ScaleUp | Consolidate) else ()


def describe(record: Record) -> str:
    """All that is in progress, in a few words."""
    parts = [_spot(spot) for spot in record.spots]
    for operation in record.operations:
        match operation:
            case ScaleUp():
                parts.append("adding " + ", ".join(_slot(slot) for slot in operation.slots))
            case Consolidate():
                parts.append(_consolidate(operation))
            case _:
                parts.append("removing " + ", ".join(_removal(removal) for removal in operation.removals))
    return "; ".join(parts)


def _consolidate(operation: Consolidate) -> str:
    nodes = ", ".join(f"{source.node_name} ({source.state})" for source in operation.sources)
    moved = sum(1 for move in operation.moves if move.state is MoveState.MOVED)
    coming = "".join(f", adding {_slot(slot)}" for slot in operation.slots)
    return f"emptying {nodes}, {moved} of {len(operation.moves)} pods moved{coming}"


def _slot(slot: Slot) -> str:
    return f"{slot.instance_type} in {slot.zone} ({slot.state})"


def _removal(removal: Removal) -> str:
    return f"{removal.node_name or removal.instance_id} ({removal.state})"


def _spot(spot: Spot) -> str:
    going = _removal(spot.removal) if spot.removal else spot.instance_id
    coming = f", replaced by {_slot(spot.slot)}" if spot.slot else ""
    return f"{spot.kind} of {going}{coming}"
