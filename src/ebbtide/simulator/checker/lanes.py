"""What must never happen to the two lanes of a record, whatever was seen."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from ebbtide.model.operation import Operation, RemovalState, Removing, ScaleDown, ScaleUp
from ebbtide.model.record import Record


def lane_faults(before: Record, after: Record, competes: Callable[[str], bool]) -> Iterator[str]:
    """Sentences about what is wrong with this write; none when all is well. `competes` tells whether an
    instance may not be removed next to a launch."""
    yield from _swapped(before.launching, after.launching)
    yield from _swapped(before.removing, after.removing)
    if before.launching is not None and after.launching is not None:
        yield from _shrunk(before.launching, after.launching)
    if before.removing is not None or after.removing is None or after.launching is None:
        return
    if any(competes(instance_id) for instance_id in _chosen(after.removing)):
        yield f"{after.removing.id} began to remove nodes while {after.launching.id} launches some"


def _swapped(before: Operation | None, after: Operation | None) -> Iterator[str]:
    if before is not None and after is not None and before.id != after.id:
        yield f"operation {after.id} began while {before.id} was open"


def _shrunk(before: ScaleUp, after: ScaleUp) -> Iterator[str]:
    """Slots are appended, never removed or reordered. An offer that had no capacity gives a slot a new
    key."""
    kept = after.slots[: len(before.slots)]
    if len(kept) < len(before.slots):
        yield f"scale-up {before.id} lost slots"
    for old, new in zip(before.slots, kept, strict=False):
        if old.instance_id and new.instance_id != old.instance_id:
            yield f"slot {old.key} of {before.id} changed its place or its instance"
    if after.requested < before.requested:
        yield f"scale-up {before.id} asks for {after.requested} nodes, {before.requested} before"


def _chosen(operation: Removing) -> Iterator[str]:
    """What is to go; what only clears up after a crash or a refusal chooses nothing."""
    if not isinstance(operation, ScaleDown):
        yield from (source.instance_id for source in operation.sources)
        return
    yield from (one.instance_id for one in operation.removals if one.state is RemovalState.PLANNED)
