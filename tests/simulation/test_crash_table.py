"""What can happen, and what answers it: a test for each row of the table in ARCHITECTURE.md, under its
name. Rows about a store (a lost reply to a conditional write, a shared SQLite file) are in
`tests/contract`."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, cast

import pytest

from ebbtide.adapters.stores.codec.record import to_item
from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.core.operations import machine
from ebbtide.core.operations.situation import Situation
from ebbtide.engine.observe import observe
from ebbtide.engine.ports import Ports
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import LeaseLost, NewerRecord, NotOurs
from ebbtide.model.effect import SoftTaint, Uncordon
from ebbtide.model.idle import Phase, WakeReason
from ebbtide.model.node import LEAVING, InstanceState
from ebbtide.model.operation import (
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    SpotKind,
    SpotNotice,
)
from ebbtide.model.record import CLUSTER_LEASE, Record
from ebbtide.model.snapshot import ClusterView
from ebbtide.ports import Cluster
from ebbtide.simulator.faults.calls import CrashPlan, Distortion, RandomPlan, Strike
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import Act, ActKind
from tests.builders import lanes
from tests.simulation.stories import (
    IMPATIENT,
    NO_REMOVALS,
    SETTINGS,
    START,
    Story,
    Telling,
    busy_cluster,
    first_never_joins,
    idle_cluster,
    no_more_evictions,
    spot_cluster,
    stubborn_cluster,
)
from tests.yard import Town, make_ref

SCALE_DOWN = Story("scale-down", idle_cluster, 2)
SCALE_UP = Story("scale-up", busy_cluster, 3, NO_REMOVALS)


def removal_of(record: Record) -> Removal:
    assert isinstance(record.operation, ScaleDown)
    return record.operation.removals[0]


def draining(record: Record) -> bool:
    return record.operation is not None and removal_of(record).state is RemovalState.DRAINING


def terminating(record: Record) -> bool:
    return record.operation is not None and removal_of(record).state is RemovalState.TERMINATING


def launched(record: Record) -> bool:
    operation = record.operation
    return isinstance(operation, ScaleUp) and operation.slots[0].state is SlotState.LAUNCHED


def idle(record: Record) -> bool:
    return record.operation is None and record.last_scale_at > 0


def acts(telling: Telling, kind: ActKind) -> list[Act]:
    return [act for act in telling.checker.acts if act.kind is kind]


def strike(telling: Telling, verb: str, how: Strike) -> None:
    """Tick with a runner that is struck at the first call of this verb, until it is."""
    counting, probe = CrashPlan(), Telling(telling.story)
    probe.tell(counting)
    plan = CrashPlan(counting.calls.index(f"{verb}#1") + 1, how)
    runner = telling.ports(plan)
    for _ in range(telling.story.ticks):
        with suppress(RunnerCrashed):
            telling.tick(runner, "struck")
        if plan.struck:
            return
        telling.wait(30)
    raise AssertionError(f"{verb} was never called")


def ends_well(telling: Telling) -> None:
    """Whatever happened before: another runner brings it to its proper end."""
    for _ in range(telling.story.ticks):
        telling.wait(30)
        telling.story.before_tick(telling.world, telling.store)
        telling.tick(owner="another")
    telling.checker.finish(telling.record)
    assert telling.problems() == []


class Shows:
    """A cluster that shows this and does what it is told."""

    def __init__(self, inner: Cluster, view: ClusterView) -> None:
        self._inner, self._view = inner, view

    def read(self) -> ClusterView:
        return self._view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def shown(telling: Telling, view: ClusterView) -> Ports:
    doors = telling.ports(CrashPlan())
    return replace(doors, cluster=cast(Cluster, Shows(doors.cluster, view)))


def test_lease_expires_while_a_slow_run_still_drains() -> None:
    slow = replace(SETTINGS, lock_ttl_seconds=20, lease_margin_seconds=15)
    telling = Telling(Story("slow", lambda: idle_cluster(Rules(call_seconds=3)), 2, slow))
    telling.tick_until(lambda record: record.operation is not None)
    assert not acts(telling, ActKind.EVICT)
    held = telling.store.acquire(CLUSTER_LEASE, "another", 300)
    with pytest.raises(LeaseLost):
        telling.store.write(telling.record, replace(held, owner="runner", token=held.token - 1))
    assert telling.checker.violations == []


def test_crash_after_cordon() -> None:
    telling = Telling(SCALE_DOWN)
    strike(telling, "cluster.cordon", Strike.CRASH_AFTER)
    removal = removal_of(telling.record)
    node = telling.world.inventory.nodes[removal.node_name]
    assert telling.record.operation is not None
    assert node.unschedulable
    assert node.owner is not None
    assert node.owner.operation_id == telling.record.operation.id
    ends_well(telling)


def test_crash_between_taint_and_cordon() -> None:
    telling = Telling(SCALE_DOWN)
    strike(telling, "cluster.soft_taint", Strike.CRASH_AFTER)
    node = telling.world.inventory.nodes[removal_of(telling.record).node_name]
    assert (node.unschedulable, node.taints) == (False, (LEAVING,))
    telling.store.write(replace(telling.record, paused=True, pause_reason="test"), None)
    for _ in range(10):
        telling.wait(30)
        telling.tick(owner="another")
    assert telling.record.operation is None
    released = telling.world.inventory.nodes[node.name]
    assert (released.taints, released.owner) == ((), None)


def test_a_stray_soft_taint_is_lifted_after_a_grace() -> None:
    telling = Telling(replace(SCALE_DOWN, nodes_at_the_end=4, settings=replace(SETTINGS, min_workers=4)))
    node = next(node for node in telling.world.inventory.nodes.values() if node.worker)
    cluster = telling.ports(CrashPlan()).cluster
    cluster.soft_taint(SoftTaint(node.name, node.uid, "closed-long-ago"), 1)
    telling.checker.violations.clear()  # this is what was left behind by a crash of long ago
    for _ in range(SETTINGS.orphan_grace_seconds // 30 + 3):
        telling.tick()
        telling.wait(30)
    released = telling.world.inventory.nodes[node.name]
    assert (released.taints, released.owner) == ((), None)
    assert telling.checker.violations == []


def test_only_our_own_cordons_are_ever_lifted() -> None:
    telling = Telling(replace(SCALE_DOWN, nodes_at_the_end=4, settings=replace(SETTINGS, min_workers=4)))
    person = next(name for name, node in telling.world.inventory.nodes.items() if node.worker)
    telling.world.plan(START + 1, "person-cordons", person)
    for _ in range(30):
        telling.tick()
        telling.wait(30)
    assert telling.world.inventory.nodes[person].unschedulable


def test_uncordon_on_abort_while_a_stalled_run_still_evicts() -> None:
    telling = Telling(Story("sticks", stubborn_cluster, 3, IMPATIENT, before_tick=no_more_evictions))
    record = telling.tick_until(draining)
    fence = removal_of(record).fence_until
    telling.store.write(replace(telling.record, paused=True, pause_reason="test"), None)
    telling.wait(1)
    telling.tick(owner="another")
    assert removal_of(telling.record).state is RemovalState.RELEASING
    assert not acts(telling, ActKind.UNCORDON)
    telling.wait(fence + IMPATIENT.request_timeout_seconds - telling.clock.now())
    telling.tick(owner="another")
    assert len(acts(telling, ActKind.UNCORDON)) == 1
    assert telling.record.operation is None


def test_a_lower_token_is_refused_by_the_node() -> None:
    telling = Telling(SCALE_DOWN)
    record = telling.tick_until(draining)
    removal, operation = removal_of(record), record.operation
    assert operation is not None
    late = Uncordon(removal.node_name, removal.node_uid, operation.id)
    with pytest.raises(NotOurs):
        telling.ports(CrashPlan()).cluster.uncordon(late, record.lock_token - 1)
    assert telling.world.inventory.nodes[removal.node_name].unschedulable


def test_a_pod_binds_after_the_drain_check() -> None:
    telling = Telling(Story("late bind", lambda: idle_cluster(Rules(late_bind_seconds=40)), 2))
    telling.tell(CrashPlan())
    assert any("is on the node" in says for says in telling.sentences) or any(
        says.count("evict ") == 1 for says in telling.sentences
    )
    assert telling.problems() == []


def test_pods_still_terminating_volumes_attached() -> None:
    telling = Telling(Story("slow detach", lambda: idle_cluster(Rules(detach=Span(100, 100))), 2))
    telling.tick_until(draining)
    telling.wait(30)
    telling.tick()
    assert draining(telling.record)
    assert "still attached" in removal_of(telling.record).reason
    ends_well(telling)


def test_crash_between_terminate_and_record() -> None:
    telling = Telling(SCALE_DOWN)
    strike(telling, "cloud.terminate", Strike.CRASH_AFTER)
    removal = removal_of(telling.record)
    assert removal.state is RemovalState.TERMINATING
    ends_well(telling)
    assert telling.world.removed == 2


def test_15_minutes_pass() -> None:
    telling = Telling(Story("sticks", stubborn_cluster, 3, IMPATIENT, before_tick=no_more_evictions))
    telling.tell(CrashPlan())
    assert telling.problems() == []
    assert telling.record.rests[0].instance_id.startswith("i-")
    assert telling.record.removal_failures == 1
    assert telling.record.removal_backoff_until > 0


def test_15_minutes_pass_and_what_is_terminating_rolls_forward() -> None:
    telling = Telling(SCALE_DOWN)
    record = telling.tick_until(terminating)
    assert record.operation is not None
    telling.store.write(replace(record, **lanes(replace(record.operation, started_at=START - 1000))), None)
    telling.wait(60)
    telling.tick()
    assert not acts(telling, ActKind.UNCORDON)
    assert idle(telling.record)
    assert telling.world.removed == 1


def test_crash_between_launch_and_record() -> None:
    telling = Telling(SCALE_UP)
    strike(telling, "cloud.launch", Strike.CRASH_AFTER)
    operation = telling.record.operation
    assert isinstance(operation, ScaleUp)
    assert operation.slots[0].state is SlotState.LAUNCHING
    ends_well(telling)
    assert telling.world.machines.book.launched == 1


@pytest.mark.parametrize("invisible_seconds", [0, 120])
def test_lost_reply_to_a_launch(invisible_seconds: int) -> None:
    story = replace(SCALE_UP, build=lambda: busy_cluster(Rules(invisible_seconds=invisible_seconds)))
    telling = Telling(story)
    strike(telling, "cloud.launch", Strike.LOST_REPLY)
    ends_well(telling)
    assert telling.world.machines.book.launched == 1


def test_launched_never_joined() -> None:
    telling = Telling(
        Story("never", lambda: busy_cluster(Rules(boot=Span(40, 50))), 3, NO_REMOVALS, 60, first_never_joins)
    )
    telling.tell(CrashPlan())
    assert telling.problems() == []
    assert telling.world.machines.book.launched == 2
    assert telling.world.removed == 1


def test_a_runner_freezes_before_it_terminates_a_machine_that_joins_meanwhile() -> None:
    """It joins while the call is frozen, pods come onto it, and only then does the call land."""
    story = Story(
        "late", lambda: busy_cluster(Rules(boot=Span(40, 50))), 3, NO_REMOVALS, 60, first_never_joins
    )
    counting = CrashPlan()
    Telling(story).tell(counting)
    telling = Telling(story)
    states: list[str] = []

    def meanwhile() -> None:
        slot = _first_slot(telling.record)
        assert slot.state is SlotState.TERMINATING
        telling.world.plan(telling.clock.now(), "late-join", slot.instance_id)
        for _ in range(6):
            telling.wait(30)
            telling.tick(owner="another")
            states.append(_first_slot(telling.record).state)
        node = telling.world.inventory.nodes[_first_slot(telling.record).node_name]
        assert node.ready
        assert node.unschedulable, "no pod may come onto it any more"

    plan = CrashPlan(counting.calls.index("cloud.terminate#1") + 1, Strike.STALL, on_stall=meanwhile)
    telling.tell(plan)
    assert plan.struck
    assert set(states) == {SlotState.TERMINATING}, "never a worker"
    assert telling.problems() == []


def _first_slot(record: Record) -> Slot:
    assert isinstance(record.operation, ScaleUp)
    return record.operation.slots[0]


def test_nobody_works_for_longer_than_a_join_takes_then_the_first_list_is_old() -> None:
    telling = Telling(SCALE_UP)
    telling.tick_until(launched)
    old = telling.world.view()
    telling.wait(telling.story.settings.join_timeout_seconds + 60)
    assert telling.ready_workers() == 3
    assert "LAUNCHED -> RECLAIMING" in telling.tick(shown(telling, old))
    ends_well(telling)
    assert acts(telling, ActKind.TERMINATE) == []
    assert telling.world.machines.book.launched == 1


def test_a_machine_is_interrupted_before_it_has_joined() -> None:
    telling = Telling(replace(SCALE_UP, build=lambda: busy_cluster(Rules(boot=Span(40, 40)))))
    record = telling.tick_until(launched)
    assert isinstance(record.operation, ScaleUp)
    (slot,) = record.operation.slots
    telling.world.plan(telling.world.now, "interrupt", slot.instance_id)
    telling.wait(1)
    telling.tick()
    spot = telling.record.spot_for(slot.instance_id)
    assert spot is not None
    assert spot.removal is None
    while telling.world.nodes.machine_of(slot_node(telling, slot.instance_id)) is None:
        telling.wait(5)
    telling.tick()
    spot = telling.record.spot_for(slot.instance_id)
    assert spot is not None
    assert spot.removal is not None
    assert telling.world.inventory.nodes[slot_node(telling, slot.instance_id)].unschedulable
    ends_well(telling)


def slot_node(telling: Telling, instance_id: str) -> str:
    """Under which name it joins."""
    machine = telling.world.machines.find(instance_id)
    assert machine is not None
    return machine.node.name


def test_one_list_leaves_out_the_node_of_an_interrupted_machine() -> None:
    telling = Telling(Story("spot", lambda: spot_cluster("interrupt"), 3, NO_REMOVALS))
    telling.wait(75)
    telling.tick()
    (spot,) = telling.record.spots
    name = slot_node(telling, spot.instance_id)
    inventory = telling.world.inventory
    view = telling.world.view()
    left_out = replace(view, nodes=tuple(node for node in view.nodes if node.name != name))
    telling.tick(shown(telling, left_out))
    (again,) = telling.record.spots
    assert again.removal == spot.removal
    assert inventory.nodes[name].unschedulable
    ends_well(telling)


def test_describe_shows_nothing_right_after_launch() -> None:
    telling = Telling(replace(SCALE_UP, build=lambda: busy_cluster(Rules(invisible_seconds=300))))
    telling.tell(CrashPlan())
    assert telling.problems() == []
    assert telling.world.machines.book.launched == 1


def test_describe_shows_running_after_terminate() -> None:
    telling = Telling(SCALE_DOWN)
    record = telling.tick_until(terminating)
    machine_before = telling.world.machines.find(removal_of(record).instance_id)
    assert machine_before is not None
    stale = replace(machine_before.instance, state=InstanceState.RUNNING)
    snapshot = observe(telling.ports(CrashPlan()), SETTINGS)
    others = tuple(i for i in snapshot.instances if i.id != stale.id)
    lease = telling.store.acquire(CLUSTER_LEASE, "reader", 60)
    now = int(telling.clock.now())
    seen = replace(snapshot, instances=(*others, stale))
    assert record.operation is not None
    step = machine.advance(record.operation, Situation(seen, record, SETTINGS, lease, now, now + 30))
    assert step.operation == record.operation
    assert step.effects == ()


def test_node_name_derived_from_a_reused_ip() -> None:
    telling = Telling(SCALE_DOWN)
    record = telling.tick_until(terminating)
    removal = removal_of(record)
    telling.wait(60)
    assert telling.world.machines.find(removal.instance_id) is not None
    telling.world.nodes.delete(removal.node_name)
    reborn = telling.world.add_node("general", "small", removal.zone)
    assert reborn.name == removal.node_name
    assert reborn.uid != removal.node_uid
    telling.tick()
    assert idle(telling.record)
    assert reborn.name in telling.world.inventory.nodes
    assert telling.checker.violations == []


def test_two_workflows_want_one_node() -> None:
    telling = Telling(SCALE_DOWN)
    record = telling.tick_until(draining)
    removal = removal_of(record)
    telling.world.plan(telling.world.now, "interrupt", removal.instance_id)
    telling.wait(1)
    telling.tick(owner="another")
    spot = telling.record.spot_for(removal.instance_id)
    assert spot is None or (spot.removal is None and not spot.replace)
    ends_well(telling)
    assert telling.world.machines.book.launched == 0


@pytest.mark.parametrize("distortion", [Distortion.EMPTY, Distortion.GONE])
@pytest.mark.parametrize("verb", ["cluster.read", "cloud.list_instances"])
def test_an_observation_is_partial_or_empty(verb: str, distortion: Distortion) -> None:
    telling = Telling(SCALE_DOWN)
    blind = telling.ports(RandomPlan(1, {}, {verb: {distortion: 1.0}}))
    for _ in range(20):
        says = telling.tick(blind)
        telling.wait(30)
    assert telling.checker.acts == []
    assert "no scale-down" in says
    assert telling.record.operation is None


def test_an_observation_is_implausibly_smaller_than_the_last() -> None:
    telling = Telling(SCALE_DOWN)
    telling.tick()
    telling.store.write(replace(telling.record, worker_count=40, pod_count=400), None)
    telling.wait(60)
    assert "4 workers are seen where there were 40 just before" in telling.tick()
    assert telling.record.operation is None


def test_metrics_missing_stale_or_malformed() -> None:
    telling = Telling(SCALE_DOWN)
    blind = telling.ports(RandomPlan(1, {}, {"metrics.read_cpu": {Distortion.GONE: 1.0}}))
    for _ in range(20):
        assert "the metrics server does not answer" in telling.tick(blind)
        telling.wait(30)
    assert telling.record.idle_since == 0
    assert telling.checker.acts == []


def test_clock_stamps_from_the_future() -> None:
    telling = Telling(SCALE_DOWN)
    telling.tick()
    telling.store.write(replace(telling.record, last_scale_at=START + 10**9), None)
    telling.wait(30)
    assert "in the future" in telling.tick()
    assert telling.record.last_scale_at <= telling.clock.now()
    ends_well(telling)


def test_duplicate_late_out_of_order_spot_events() -> None:
    telling = Telling(Story("spot", lambda: spot_cluster("interrupt"), 3, NO_REMOVALS))
    telling.wait(75)
    mail = telling.world.incidents.mail.arrived
    interruption = mail[0]
    recommendation = replace(interruption, kind=SpotKind.REBALANCE)
    stale = SpotNotice(interruption.instance_id, SpotKind.INTERRUPTION, START - 7200, START - 7080)
    mail[:] = [recommendation, interruption, interruption, recommendation, stale]
    telling.tick()
    assert mail == []
    assert [spot.kind for spot in telling.record.spots] == [SpotKind.INTERRUPTION]
    ends_well(telling)
    assert telling.world.machines.book.launched == 1


def test_an_operation_that_always_crashes_its_runner() -> None:
    telling = Telling(SCALE_DOWN)
    telling.tick_until(draining)
    crashes = 0
    while telling.record.set_aside is None and crashes < 20:
        plan = CrashPlan(3, Strike.CRASH_BEFORE)
        telling.wait(200)
        try:
            telling.tick(telling.ports(plan), owner=f"doomed-{crashes}")
        except RunnerCrashed:
            crashes += 1
    # The last one died as well, but only after it had set the operation aside.
    assert crashes == SETTINGS.max_unclean_runs + 1
    assert telling.record.operation is None
    assert any("set aside" in entry.says for entry in telling.notifier.entries)
    telling.wait(300)
    assert "waits for resume" in telling.tick()


def test_record_written_by_a_newer_version() -> None:
    database = MemoryDatabase()
    store = MemoryStore(VirtualClock(START), database=database)
    database.items["cluster"] = {**to_item(Record(rev=7)), "formatVersion": 99}
    before = dict(database.items["cluster"])
    with pytest.raises(NewerRecord, match="left as it is"):
        store.load()
    assert database.items["cluster"] == before


def test_k3s_node_re_created_under_the_same_name() -> None:
    telling = Telling(SCALE_DOWN)
    record = telling.tick_until(terminating)
    name = removal_of(record).node_name
    telling.wait(60)
    telling.tick()
    assert name not in telling.world.inventory.nodes
    assert [act.node_name for act in acts(telling, ActKind.DELETE_NODE)] == [name]


def test_a_wake_arrives_while_going_to_zero() -> None:
    """The write that commits to zero is refused by the wake's, and the call to zero by the version that the
    wake has changed, at whichever of its calls the sleeper is when the wake comes."""
    for moment in ("policies.write_state#1", "workloads.scale#1", "policies.write_state#2"):
        town = Town()
        town.rounds(2100)
        town.clock.sleep(60)
        counting = CrashPlan()
        probe = Town()
        probe.rounds(2100)
        probe.clock.sleep(60)
        probe.round(_through(probe, counting))
        place = counting.calls.index(moment) + 1
        wake = partial(_wake, town)
        town.round(_through(town, CrashPlan(place, Strike.STALL, on_stall=wake)))
        assert town.yard.read(make_ref()).replicas == 2, moment
        town.rounds(600)
        assert town.yard.read(make_ref()).replicas == 2, moment
        assert town.state.phase in (Phase.ACTIVE, Phase.IDLE), moment
        assert town.state.wake_count == 1, moment


def _wake(town: Town) -> None:
    town.runner().wake(town.policies[0].id, WakeReason.API_REQUEST)


def _through(town: Town, plan: CrashPlan) -> Scaling:
    doors = faulty_scaling(town.scaling.ports, plan)
    return town.runner(store=doors.store, policies=doors.policies, workloads=doors.workloads)
