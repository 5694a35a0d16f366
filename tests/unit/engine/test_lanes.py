"""The two lanes of a tick: each runs, each counts its own crashes, each is set aside alone."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.engine.switch import resumed, taken_up
from ebbtide.errors import Final
from ebbtide.model.decision import Action
from ebbtide.model.effect import Cordon, Launch
from ebbtide.model.events import Alarm, AlarmKind, Transition
from ebbtide.model.operation import Removal, RemovalState, ScaleDown, SlotState
from ebbtide.model.record import Record, Refused
from ebbtide.model.snapshot import Instance
from ebbtide.narrate import facts_in
from ebbtide.simulator.world.ports import SimCloud
from tests.builders import NOW, make_record, make_removal, make_scale_down, make_scale_up, make_slot
from tests.unit.engine.builders import Small, quick_settings
from tests.unit.engine.test_tick import BuggyCluster


class BuggyLaunch(SimCloud):
    def launch(self, effect: Launch) -> Instance:
        raise ZeroDivisionError


class Protected(SimCloud):
    """Says a definite no to every terminate."""

    def terminate(self, instance_id: str) -> None:
        raise Final(f"{instance_id} is protected")


def terminating(small: Small) -> ScaleDown:
    node = small.nodes[0]
    instance = next(i for i in small.ports.cloud.list_instances() if i.provider_id == node.provider_id)
    removal = Removal(instance.id, node.name, node.uid, "a", "workers", RemovalState.TERMINATING, small.now)
    return make_scale_down(replace(removal, terminated=True), started_at=small.now)


def test_a_launch_that_crashes_its_runner_is_set_aside_and_the_removal_continues() -> None:
    small = Small(settings=quick_settings(min_workers=1))
    small.put(
        launching=make_scale_up(make_slot(), started_at=small.now), removing=terminating(small), paused=True
    )
    buggy = replace(small.ports, cloud=BuggyLaunch(small.world, small.clock))
    for run in range(1, 6):
        with pytest.raises(ZeroDivisionError):
            small.tick(buggy)
        assert (small.record.unclean_runs, small.record.unclean_removal_runs) == (run, 0)
    small.tick(buggy)
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert (alarm.alarm, alarm.operation_id, alarm.runs) == (AlarmKind.OPERATION_CRASHES, "op", 5)
    assert small.record.launching is None
    assert small.record.launching_aside is not None
    small.tick_until(lambda record: record.removing is None)
    assert small.record.removing_aside is None


def test_a_removal_that_crashes_its_runner_is_set_aside_while_a_launch_is_open() -> None:
    small = Small(settings=quick_settings(min_workers=1))
    doomed = replace(terminating(small).removals[0], terminated=False)
    small.put(
        launching=make_scale_up(make_slot("up-0"), id="up", started_at=small.now),
        removing=make_scale_down(doomed, id="down", started_at=small.now),
        paused=True,
    )
    buggy = replace(small.ports, cluster=BuggyCluster(small.world, small.clock))
    for run in range(1, 6):
        with pytest.raises(ZeroDivisionError):
            small.tick(buggy)
        assert (small.record.unclean_runs, small.record.unclean_removal_runs) == (0, run)
    small.tick(buggy)
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert (alarm.alarm, alarm.operation_id, alarm.runs) == (AlarmKind.OPERATION_CRASHES, "down", 5)
    assert small.record.removing is None
    assert small.record.removing_aside is not None
    small.tick_until(lambda record: record.launching is None)
    assert small.record.launching_aside is None


def test_what_is_set_aside_in_both_lanes_is_taken_up_in_both() -> None:
    up, down = make_scale_up(id="up"), make_scale_down(id="down")
    aside = make_record(launching_aside=up, removing_aside=down)
    after = taken_up(aside, NOW + 9)
    assert after == make_record(
        launching=replace(up, started_at=NOW + 9), removing=replace(down, started_at=NOW + 9)
    )
    assert "Operation down, up, which had been set aside, continues" in resumed(aside)
    busy = replace(aside, launching=make_scale_up(id="newer"))
    assert taken_up(busy, NOW).launching_aside == up
    assert "Operation up stays set aside, and removals wait, until newer is done" in resumed(busy)


def test_a_resume_asks_again_for_what_the_cloud_refused() -> None:
    record = make_record(refused=(Refused("op", make_removal(), NOW + 900),))
    assert taken_up(record, NOW).refused[0].retry_at == NOW


def closed(record: Record) -> bool:
    return record.removing is None


def test_a_refused_termination_is_told_at_once_set_aside_and_finished_when_it_is_allowed() -> None:
    small = Small(settings=quick_settings(min_workers=3, stuck_seconds=60))
    allowing = small.ports
    small.put(operation=terminating(small))
    small.ports = replace(allowing, cloud=Protected(small.world, small.clock))
    small.tick_until(lambda _: bool(small.notifier.entries))
    (alarm,) = facts_in(small.notifier.entries, Alarm)
    assert (alarm.alarm, alarm.operation_id) == (AlarmKind.TERMINATE_REFUSED, "op")
    small.tick_until(closed)
    assert len(small.notifier.entries) == 1, "told once"
    (kept,) = small.record.refused
    assert kept.operation_id == "op"
    small.put(paused=True)
    small.wait(70)
    small.tick()
    assert small.record.refused == (kept,), "a pause holds the next try back"
    small.put(paused=False)
    retried = small.tick()
    assert retried.decision is not None
    assert retried.decision.action is Action.RETRY
    assert (small.record.removing, len(small.record.refused)) == (None, 1)
    assert small.record.removal_failures == 1, "the first failure counts, a try does not"
    small.ports = allowing
    small.wait(70)
    small.tick_until(lambda record: not record.refused and record.removing is None)
    assert small.nodes[0].name not in small.world.view().node_named


def test_a_launch_is_extended_in_place_and_told_as_such() -> None:
    small = Small(settings=quick_settings(cooldown_up_seconds=0, max_workers=10), replicas=150)
    small.wait(30)
    stuck = make_slot("op-0", pool="gone", state=SlotState.LAUNCHED, instance_id="i-lost", since=small.now)
    small.put(launching=make_scale_up(stuck, started_at=small.now - 10))
    report = small.tick()
    assert report.decision is not None
    assert report.decision.action is Action.SCALE_UP
    extended = small.record.launching
    assert extended is not None
    asked = len(report.decision.slots)
    assert (extended.id, extended.requested, len(extended.slots)) == ("op", 1 + asked, 1 + asked)
    assert (extended.slots[0].key, extended.extended_at) == ("op-0", small.now)
    steps = [(each.before, each.after) for each in facts_in(small.store.read_log(limit=500), Transition)]
    assert ("new", SlotState.RESERVED) in steps
    assert not any(says.startswith("begun") for says in small.said())


def test_a_node_that_is_needed_after_all_is_given_back_in_the_tick_that_sees_it() -> None:
    """Before anything is launched in its place: here the minimum was raised."""
    small = Small(settings=quick_settings(min_workers=3))
    node = small.nodes[0]
    removal = terminating(small).removals[0]
    small.put(
        removing=make_scale_down(
            replace(removal, state=RemovalState.DRAINING, attempts=1, drain_deadline=small.now + 300),
            started_at=small.now,
        )
    )
    small.ports.cluster.cordon(Cordon(node.name, node.uid, "op"), 1)
    small.tick()
    removing = small.record.removing
    assert removing is None or isinstance(removing, ScaleDown)
    states = {one.state for one in removing.removals} if removing is not None else set()
    assert states <= {RemovalState.RELEASING, RemovalState.RELEASED}
