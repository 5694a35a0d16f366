"""What must be true of every write and acknowledgement that takes effect, next to what the checker asks."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from ebbtide.core.nodes.capacity import expected_slots, open_removals, removals_in_progress
from ebbtide.model.operation import Removal, RemovalState, SpotKind, SpotNotice
from ebbtide.model.record import Record
from ebbtide.simulator.run.runner import Stage


def wrong_with_write(
    stage: Stage, before: Record | None, after: Record, blind: Collection[str], misled: bool
) -> Iterator[str]:
    """`blind`: what its writer could not see in its last look; `misled`: whether it was shown an old list."""
    if before is not None and after.rev != before.rev + 1:
        yield f"a write on revision {after.rev - 1} landed on revision {before.rev}"
    new = _irrevocable(after) - (set() if before is None else _irrevocable(before))
    for instance_id in sorted(new) if blind else ():
        yield f"{instance_id} is to go, decided without {', '.join(sorted(blind))}"
    if new:
        yield from _over_budget(stage, after)
    if not blind and not misled:
        yield from _over_maximum(stage, before, after)


def _irrevocable(record: Record) -> set[str]:
    return {r.instance_id for r in open_removals(record) if r.state is RemovalState.TERMINATING}


def _over_budget(stage: Stage, record: Record) -> Iterator[str]:
    """Of our own will at most a tenth, or one, is on its way out at the same time. What the cloud refuses and
    was set aside holds up no other removal (row 31)."""
    interrupted = {spot.instance_id for spot in record.spots if spot.kind is SpotKind.INTERRUPTION}
    mine = [r for r in removals_in_progress(record) if _voluntary(r)]
    going = [r for r in mine if r.instance_id not in interrupted]
    workers = sum(1 for node in stage.world.inventory.nodes.values() if node.worker)
    limit = max(1, int(stage.settings.budget_fraction * workers))
    if len(going) > limit:
        yield f"{len(going)} of {workers} workers are being removed at once, the budget is {limit}"


def _voluntary(removal: Removal) -> bool:
    return removal.state is RemovalState.TERMINATING


def _over_maximum(stage: Stage, before: Record | None, after: Record) -> Iterator[str]:
    """What exists and what is reserved together stay within the maximum whenever something is reserved."""
    known = set() if before is None else {slot.key for slot in expected_slots(before)}
    if all(slot.key in known for slot in expected_slots(after)):
        return
    machines = stage.world.machines.book.machines.values()
    keys = {machine.instance.key for machine in machines}
    alive = sum(1 for machine in machines if machine.ours and machine.instance.alive)
    reserved = sum(1 for slot in expected_slots(after) if slot.key not in keys and not slot.instance_id)
    if alive + reserved > stage.settings.max_workers:
        yield f"{alive} instances and {reserved} reserved, max_workers is {stage.settings.max_workers}"


def wrong_with_acknowledgement(stage: Stage, notice: SpotNotice) -> Iterator[str]:
    """A notice that still means something is in the record before it leaves the inbox."""
    machine = stage.world.machines.find(notice.instance_id)
    record = stage.checker.record
    lost = machine is not None and machine.ours and machine.instance.alive
    current = notice.kind is SpotKind.INTERRUPTION and stage.clock.now() < notice.deadline
    if lost and current and (record is None or record.spot_for(notice.instance_id) is None):
        yield f"the interruption of {notice.instance_id} was acknowledged and is not in the record"
