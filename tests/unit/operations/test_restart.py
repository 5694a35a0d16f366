"""A machine whose runner dies after any write, before or after the effects, comes to the same end.

The machine is run on a small simulated world; at the point of the interruption everything but the
stored record is thrown away.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import StrEnum
from itertools import count

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.core.operations import machine
from ebbtide.core.operations.machine import Work
from ebbtide.core.operations.situation import Situation
from ebbtide.engine.ports import observe
from ebbtide.engine.rounds import perform
from ebbtide.model.effect import Cordon
from ebbtide.model.operation import Removal, RemovalState, SpotKind
from ebbtide.model.record import Lease, Record
from ebbtide.model.snapshot import Node
from tests.builders import make_removal, make_scale_down, make_scale_up, make_slot, make_spot
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.operations.builders import breaches

MOST_STEPS = 120


class Dies(StrEnum):
    BEFORE_EFFECTS = "before its effects"
    AFTER_EFFECTS = "after its effects"


@dataclass(frozen=True)
class End:
    workers: int
    zones: frozenset[str]
    cordoned: int
    launched: int
    removed: int
    record: Record


def found(small: Small, node: Node) -> Removal:
    instance = next(i for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    return make_removal(
        node.name, instance_id=instance.id, node_uid=node.uid, zone=node.zone, pool=node.pool, since=small.now
    )


def scale_up(small: Small) -> Work:
    return make_scale_up(make_slot(), make_slot("op-1", zone="b"), started_at=small.now)


def scale_up_without_capacity(small: Small) -> Work:
    small.world.machines.book.closed_zones.append("a")
    return make_scale_up(make_slot(), started_at=small.now)


def scale_down(small: Small) -> Work:
    return make_scale_down(found(small, small.nodes[0]), started_at=small.now)


def aborted_scale_down(small: Small) -> Work:
    node = small.nodes[0]
    small.ports.cluster.cordon(Cordon(node.name, node.uid, "op"), 1)
    draining = replace(found(small, node), state=RemovalState.DRAINING, fence_token=1, fence_until=small.now)
    return make_scale_down(draining, started_at=small.now, abort_reason="removals were paused")


def interruption(small: Small) -> Work:
    victim = small.add_node("b", 600, "spot")
    instance_id = found(small, victim).instance_id
    small.world.plan(small.clock.now(), "interrupt", instance_id)
    return _spot(small, instance_id, SpotKind.INTERRUPTION)


def rebalance(small: Small) -> Work:
    return _spot(small, found(small, small.add_node("b", 600, "spot")).instance_id, SpotKind.REBALANCE)


def _spot(small: Small, instance_id: str, kind: SpotKind) -> Work:
    return replace(
        make_spot(kind=kind, pool="spot", noticed_at=small.now, deadline=small.now + 120),
        id=f"spot:{instance_id}",
        instance_id=instance_id,
    )


BEGINNINGS = (scale_up, scale_up_without_capacity, scale_down, aborted_scale_down, interruption, rebalance)


def play(beginning: object, dies_at: int = 0, dies: Dies = Dies.BEFORE_EFFECTS) -> tuple[End, int]:
    """Run to the end, dying once at the write of that number; how it ended and how many writes it took."""
    assert callable(beginning)
    small = Small(settings=quick_settings())
    work = beginning(small)
    small.put(**({"spots": (work,)} if work.id.startswith("spot:") else {"operation": work}))
    writes, tokens = 0, count(1)
    token = next(tokens)
    for _ in range(MOST_STEPS):
        store = MemoryStore(small.clock, database=small.database)
        record = store.load()
        current = next((w for w in (record.operation, *record.spots) if w is not None), None)
        if current is None:
            return _end(small), writes
        lease = Lease("cluster", "runner", token, small.now + 300)
        seen = observe(small.ports, small.settings)
        situation = Situation(seen, record, small.settings, lease, small.now, small.now + 30)
        step = machine.advance(current, situation)
        assert breaches(machine.check_invariants(current, step.state)) == []
        if machine.is_settled(step.state):
            store.write(machine.close(step.state, situation).record, None)
            continue
        written = store.write(machine.written(record, step.state), None)
        writes += step.state != current
        died = writes == dies_at
        if not died or dies is Dies.AFTER_EFFECTS:
            outcomes = perform(step.effects, small.ports, small.settings, lease, small.now + 30)
            if not died:
                after = machine.absorb(step.state, outcomes, situation)
                store.write(machine.written(written, after), None)
        if died:
            dies_at, token = 0, next(tokens)
            small.wait(30)
        small.wait(5)
    raise AssertionError(f"not at its end after {MOST_STEPS} steps: {small.record}")


def _end(small: Small) -> End:
    view = small.world.view()
    return End(
        len(view.workers),
        frozenset(node.zone for node in view.workers),
        sum(node.unschedulable for node in view.nodes),
        small.world.machines.book.launched,
        small.world.removed,
        replace(
            small.record,
            rev=0,
            last_scale_at=bool(small.record.last_scale_at),
            removal_backoff_until=0,
            offer_rests=tuple(replace(rest, until=0) for rest in small.record.offer_rests),
        ),
    )


@pytest.mark.parametrize("beginning", BEGINNINGS, ids=lambda beginning: beginning.__name__)
def test_a_restart_after_any_interrupted_transition_comes_to_the_same_end(beginning: object) -> None:
    expected, writes = play(beginning)
    assert writes
    assert expected.cordoned == 0
    for number in range(1, writes + 1):
        for dies in Dies:
            end, _ = play(beginning, number, dies)
            assert end == expected, f"died {dies} of write {number}"
