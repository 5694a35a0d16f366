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
from ebbtide.engine.ports import Ports, observe
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import LeaseLost, NewerRecord, NotOurs
from ebbtide.model.check import Gate
from ebbtide.model.decision import Action
from ebbtide.model.effect import OutcomeKind, SoftTaint, Uncordon
from ebbtide.model.events import Alarm, AlarmKind, EffectDone, EffectKind, Transition
from ebbtide.model.idle import Phase, WakeReason
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
from ebbtide.model.snapshot import LEAVING, ClusterView, InstanceState
from ebbtide.narrate import fact_in, facts_in
from ebbtide.ports import Cluster
from ebbtide.simulator.faults.catalogue import CrashPlan, Distortion, RandomPlan, Strike
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.rules import Rules, Span
from ebbtide.simulator.world.world import Act, ActKind
from tests.builders import lanes, values_of
from tests.policy_harness import PolicyHarness, make_ref
from tests.simulation.stories import (
    IMPATIENT,
    NO_REMOVALS,
    SETTINGS,
    START,
    Story,
    StoryRun,
    busy_cluster,
    failed_checks,
    first_never_joins,
    idle_cluster,
    no_more_evictions,
    spot_cluster,
    stubborn_cluster,
)

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


def acts(story_run: StoryRun, kind: ActKind) -> list[Act]:
    return [act for act in story_run.checker.acts if act.kind is kind]


def strike(story_run: StoryRun, verb: str, how: Strike) -> None:
    """Tick with a runner that is struck at the first call of this verb, until it is."""
    counting, probe = CrashPlan(), StoryRun(story_run.story)
    probe.tell(counting)
    plan = CrashPlan(counting.calls.index(f"{verb}#1") + 1, how)
    runner = story_run.ports(plan)
    for _ in range(story_run.story.ticks):
        with suppress(RunnerCrashed):
            story_run.tick(runner, "struck")
        if plan.struck:
            return
        story_run.wait(30)
    raise AssertionError(f"{verb} was never called")


def ends_well(story_run: StoryRun) -> None:
    """Whatever happened before: another runner brings it to its proper end."""
    for _ in range(story_run.story.ticks):
        story_run.wait(30)
        story_run.story.before_tick(story_run.world, story_run.store)
        story_run.tick(owner="another")
    story_run.checker.finish(story_run.record)
    assert story_run.problems() == []


class Shows:
    """A cluster that shows this and does what it is told."""

    def __init__(self, inner: Cluster, view: ClusterView) -> None:
        self._inner, self._view = inner, view

    def read(self) -> ClusterView:
        return self._view

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def shown(story_run: StoryRun, view: ClusterView) -> Ports:
    opened = story_run.ports(CrashPlan())
    return replace(opened, cluster=cast(Cluster, Shows(opened.cluster, view)))


def test_lease_expires_while_a_slow_run_still_drains() -> None:
    slow = replace(SETTINGS, lock_ttl_seconds=20, lease_margin_seconds=15)
    story_run = StoryRun(Story("slow", lambda: idle_cluster(Rules(call_seconds=3)), 2, slow))
    story_run.tick_until(lambda record: record.operation is not None)
    assert not acts(story_run, ActKind.EVICT)
    held = story_run.store.acquire(CLUSTER_LEASE, "another", 300)
    with pytest.raises(LeaseLost):
        story_run.store.write(story_run.record, replace(held, owner="runner", token=held.token - 1))
    assert story_run.checker.violations == []


def test_crash_after_cordon() -> None:
    story_run = StoryRun(SCALE_DOWN)
    strike(story_run, "cluster.cordon", Strike.CRASH_AFTER)
    removal = removal_of(story_run.record)
    node = story_run.world.inventory.nodes[removal.node_name]
    assert story_run.record.operation is not None
    assert node.unschedulable
    assert node.owner is not None
    assert node.owner.operation_id == story_run.record.operation.id
    ends_well(story_run)


def test_crash_between_taint_and_cordon() -> None:
    story_run = StoryRun(SCALE_DOWN)
    strike(story_run, "cluster.soft_taint", Strike.CRASH_AFTER)
    node = story_run.world.inventory.nodes[removal_of(story_run.record).node_name]
    assert (node.unschedulable, node.taints) == (False, (LEAVING,))
    story_run.store.write(replace(story_run.record, paused=True, pause_reason="test"), None)
    for _ in range(10):
        story_run.wait(30)
        story_run.tick(owner="another")
    assert story_run.record.operation is None
    released = story_run.world.inventory.nodes[node.name]
    assert (released.taints, released.owner) == ((), None)


def test_a_stray_soft_taint_is_lifted_after_a_grace() -> None:
    story_run = StoryRun(replace(SCALE_DOWN, nodes_at_the_end=4, settings=replace(SETTINGS, min_workers=4)))
    node = next(node for node in story_run.world.inventory.nodes.values() if node.worker)
    cluster = story_run.ports(CrashPlan()).cluster
    cluster.soft_taint(SoftTaint(node.name, node.uid, "closed-long-ago"), 1)
    story_run.checker.violations.clear()  # this is what was left behind by a crash of long ago
    for _ in range(SETTINGS.orphan_grace_seconds // 30 + 3):
        story_run.tick()
        story_run.wait(30)
    released = story_run.world.inventory.nodes[node.name]
    assert (released.taints, released.owner) == ((), None)
    assert story_run.checker.violations == []


def test_only_our_own_cordons_are_ever_lifted() -> None:
    story_run = StoryRun(replace(SCALE_DOWN, nodes_at_the_end=4, settings=replace(SETTINGS, min_workers=4)))
    person = next(name for name, node in story_run.world.inventory.nodes.items() if node.worker)
    story_run.world.plan(START + 1, "person-cordons", person)
    for _ in range(30):
        story_run.tick()
        story_run.wait(30)
    assert story_run.world.inventory.nodes[person].unschedulable


def test_uncordon_on_abort_while_a_stalled_run_still_evicts() -> None:
    story_run = StoryRun(Story("sticks", stubborn_cluster, 3, IMPATIENT, before_tick=no_more_evictions))
    record = story_run.tick_until(draining)
    fence = removal_of(record).fence_until
    story_run.store.write(replace(story_run.record, paused=True, pause_reason="test"), None)
    story_run.wait(1)
    story_run.tick(owner="another")
    assert removal_of(story_run.record).state is RemovalState.RELEASING
    assert not acts(story_run, ActKind.UNCORDON)
    story_run.wait(fence + IMPATIENT.request_timeout_seconds - story_run.clock.now())
    story_run.tick(owner="another")
    assert len(acts(story_run, ActKind.UNCORDON)) == 1
    assert story_run.record.operation is None


def test_a_lower_token_is_refused_by_the_node() -> None:
    story_run = StoryRun(SCALE_DOWN)
    record = story_run.tick_until(draining)
    removal, operation = removal_of(record), record.operation
    assert operation is not None
    late = Uncordon(removal.node_name, removal.node_uid, operation.id)
    with pytest.raises(NotOurs):
        story_run.ports(CrashPlan()).cluster.uncordon(late, record.lock_token - 1)
    assert story_run.world.inventory.nodes[removal.node_name].unschedulable


def test_a_pod_binds_after_the_drain_check() -> None:
    story_run = StoryRun(Story("late bind", lambda: idle_cluster(Rules(late_bind_seconds=40)), 2))
    story_run.tell(CrashPlan())
    evicted_at: dict[str, set[int]] = {}
    for entry in story_run.store.read_log(limit=500):
        done = fact_in(entry, EffectDone)
        if done and (done.effect, done.outcome) == (EffectKind.EVICT, OutcomeKind.DONE):
            evicted_at.setdefault(done.name, set()).add(entry.at)
    assert all(len(times) > 1 for times in evicted_at.values()), "what bound late was evicted as well"
    assert evicted_at
    assert story_run.problems() == []


def test_pods_still_terminating_volumes_attached() -> None:
    story_run = StoryRun(Story("slow detach", lambda: idle_cluster(Rules(detach=Span(100, 100))), 2))
    story_run.tick_until(draining)
    story_run.wait(30)
    story_run.tick()
    assert draining(story_run.record)
    assert "still attached" in removal_of(story_run.record).reason
    ends_well(story_run)


def test_crash_between_terminate_and_record() -> None:
    story_run = StoryRun(SCALE_DOWN)
    strike(story_run, "cloud.terminate", Strike.CRASH_AFTER)
    removal = removal_of(story_run.record)
    assert removal.state is RemovalState.TERMINATING
    ends_well(story_run)
    assert story_run.world.removed == 2


def test_15_minutes_pass() -> None:
    story_run = StoryRun(Story("sticks", stubborn_cluster, 3, IMPATIENT, before_tick=no_more_evictions))
    story_run.tell(CrashPlan())
    assert story_run.problems() == []
    assert story_run.record.rests[0].instance_id.startswith("i-")
    assert story_run.record.removal_failures == 1
    assert story_run.record.removal_backoff_until > 0


def test_15_minutes_pass_and_what_is_terminating_rolls_forward() -> None:
    story_run = StoryRun(SCALE_DOWN)
    record = story_run.tick_until(terminating)
    assert record.operation is not None
    story_run.store.write(replace(record, **lanes(replace(record.operation, started_at=START - 1000))), None)
    story_run.wait(60)
    story_run.tick()
    assert not acts(story_run, ActKind.UNCORDON)
    assert idle(story_run.record)
    assert story_run.world.removed == 1


def test_crash_between_launch_and_record() -> None:
    story_run = StoryRun(SCALE_UP)
    strike(story_run, "cloud.launch", Strike.CRASH_AFTER)
    operation = story_run.record.operation
    assert isinstance(operation, ScaleUp)
    assert operation.slots[0].state is SlotState.LAUNCHING
    ends_well(story_run)
    assert story_run.world.machines.book.launched == 1


@pytest.mark.parametrize("invisible_seconds", [0, 120])
def test_lost_reply_to_a_launch(invisible_seconds: int) -> None:
    story = replace(SCALE_UP, build=lambda: busy_cluster(Rules(invisible_seconds=invisible_seconds)))
    story_run = StoryRun(story)
    strike(story_run, "cloud.launch", Strike.LOST_REPLY)
    ends_well(story_run)
    assert story_run.world.machines.book.launched == 1


def test_launched_never_joined() -> None:
    story_run = StoryRun(
        Story("never", lambda: busy_cluster(Rules(boot=Span(40, 50))), 3, NO_REMOVALS, 60, first_never_joins)
    )
    story_run.tell(CrashPlan())
    assert story_run.problems() == []
    assert story_run.world.machines.book.launched == 2
    assert story_run.world.removed == 1


def test_a_runner_freezes_before_it_terminates_a_machine_that_joins_meanwhile() -> None:
    """It joins while the call is frozen, pods come onto it, and only then does the call land."""
    story = Story(
        "late", lambda: busy_cluster(Rules(boot=Span(40, 50))), 3, NO_REMOVALS, 60, first_never_joins
    )
    counting = CrashPlan()
    StoryRun(story).tell(counting)
    story_run = StoryRun(story)
    states: list[str] = []

    def meanwhile() -> None:
        slot = _first_slot(story_run.record)
        assert slot.state is SlotState.TERMINATING
        story_run.world.plan(story_run.clock.now(), "late-join", slot.instance_id)
        for _ in range(6):
            story_run.wait(30)
            story_run.tick(owner="another")
            states.append(_first_slot(story_run.record).state)
        node = story_run.world.inventory.nodes[_first_slot(story_run.record).node_name]
        assert node.ready
        assert node.unschedulable, "no pod may come onto it any more"

    plan = CrashPlan(counting.calls.index("cloud.terminate#1") + 1, Strike.STALL, on_stall=meanwhile)
    story_run.tell(plan)
    assert plan.struck
    assert set(states) == {SlotState.TERMINATING}, "never a worker"
    assert story_run.problems() == []


def _first_slot(record: Record) -> Slot:
    assert isinstance(record.operation, ScaleUp)
    return record.operation.slots[0]


def test_nobody_works_for_longer_than_a_join_takes_then_the_first_list_is_old() -> None:
    story_run = StoryRun(SCALE_UP)
    story_run.tick_until(launched)
    old = story_run.world.view()
    story_run.wait(story_run.story.settings.join_timeout_seconds + 60)
    assert story_run.ready_workers() == 3
    story_run.tick(shown(story_run, old))
    steps = [(each.before, each.after) for each in facts_in(story_run.store.read_log(limit=500), Transition)]
    assert (SlotState.LAUNCHED, SlotState.RECLAIMING) in steps
    ends_well(story_run)
    assert acts(story_run, ActKind.TERMINATE) == []
    assert story_run.world.machines.book.launched == 1


def test_a_machine_is_interrupted_before_it_has_joined() -> None:
    story_run = StoryRun(replace(SCALE_UP, build=lambda: busy_cluster(Rules(boot=Span(40, 40)))))
    record = story_run.tick_until(launched)
    assert isinstance(record.operation, ScaleUp)
    (slot,) = record.operation.slots
    story_run.world.plan(story_run.world.now, "interrupt", slot.instance_id)
    story_run.wait(1)
    story_run.tick()
    spot = story_run.record.spot_for(slot.instance_id)
    assert spot is not None
    assert spot.removal is None
    while story_run.world.nodes.machine_of(slot_node(story_run, slot.instance_id)) is None:
        story_run.wait(5)
    story_run.tick()
    spot = story_run.record.spot_for(slot.instance_id)
    assert spot is not None
    assert spot.removal is not None
    assert story_run.world.inventory.nodes[slot_node(story_run, slot.instance_id)].unschedulable
    ends_well(story_run)


def slot_node(story_run: StoryRun, instance_id: str) -> str:
    """Under which name it joins."""
    machine = story_run.world.machines.find(instance_id)
    assert machine is not None
    return machine.node.name


def test_one_list_leaves_out_the_node_of_an_interrupted_machine() -> None:
    story_run = StoryRun(Story("spot", lambda: spot_cluster("interrupt"), 3, NO_REMOVALS))
    story_run.wait(75)
    story_run.tick()
    (spot,) = story_run.record.spots
    name = slot_node(story_run, spot.instance_id)
    inventory = story_run.world.inventory
    view = story_run.world.view()
    left_out = replace(view, nodes=tuple(node for node in view.nodes if node.name != name))
    story_run.tick(shown(story_run, left_out))
    (again,) = story_run.record.spots
    assert again.removal == spot.removal
    assert inventory.nodes[name].unschedulable
    ends_well(story_run)


def test_describe_shows_nothing_right_after_launch() -> None:
    story_run = StoryRun(replace(SCALE_UP, build=lambda: busy_cluster(Rules(invisible_seconds=300))))
    story_run.tell(CrashPlan())
    assert story_run.problems() == []
    assert story_run.world.machines.book.launched == 1


def test_describe_shows_running_after_terminate() -> None:
    story_run = StoryRun(SCALE_DOWN)
    record = story_run.tick_until(terminating)
    machine_before = story_run.world.machines.find(removal_of(record).instance_id)
    assert machine_before is not None
    stale = replace(machine_before.instance, state=InstanceState.RUNNING)
    snapshot = observe(story_run.ports(CrashPlan()), SETTINGS)
    others = tuple(i for i in snapshot.instances if i.id != stale.id)
    lease = story_run.store.acquire(CLUSTER_LEASE, "reader", 60)
    now = int(story_run.clock.now())
    seen = replace(snapshot, instances=(*others, stale))
    assert record.operation is not None
    step = machine.advance(record.operation, Situation(seen, record, SETTINGS, lease, now, now + 30))
    assert step.state == record.operation
    assert step.effects == ()


def test_node_name_derived_from_a_reused_ip() -> None:
    story_run = StoryRun(SCALE_DOWN)
    record = story_run.tick_until(terminating)
    removal = removal_of(record)
    story_run.wait(60)
    assert story_run.world.machines.find(removal.instance_id) is not None
    story_run.world.nodes.delete(removal.node_name)
    reborn = story_run.world.add_node("general", "small", removal.zone)
    assert reborn.name == removal.node_name
    assert reborn.uid != removal.node_uid
    story_run.tick()
    assert idle(story_run.record)
    assert reborn.name in story_run.world.inventory.nodes
    assert story_run.checker.violations == []


def test_two_workflows_want_one_node() -> None:
    story_run = StoryRun(SCALE_DOWN)
    record = story_run.tick_until(draining)
    removal = removal_of(record)
    story_run.world.plan(story_run.world.now, "interrupt", removal.instance_id)
    story_run.wait(1)
    story_run.tick(owner="another")
    spot = story_run.record.spot_for(removal.instance_id)
    assert spot is None or (spot.removal is None and not spot.replace)
    ends_well(story_run)
    assert story_run.world.machines.book.launched == 0


@pytest.mark.parametrize("distortion", [Distortion.EMPTY, Distortion.GONE])
@pytest.mark.parametrize("verb", ["cluster.read", "cloud.list_instances"])
def test_an_observation_is_partial_or_empty(verb: str, distortion: Distortion) -> None:
    story_run = StoryRun(SCALE_DOWN)
    blind = story_run.ports(RandomPlan(1, {}, {verb: {distortion: 1.0}}))
    for _ in range(20):
        report = story_run.tick(blind)
        story_run.wait(30)
    assert story_run.checker.acts == []
    assert report.decision is None or report.decision.action is Action.NOTHING
    assert story_run.record.operation is None


def test_an_observation_is_implausibly_smaller_than_the_last() -> None:
    story_run = StoryRun(SCALE_DOWN)
    story_run.tick()
    story_run.store.write(replace(story_run.record, worker_count=40, pod_count=400), None)
    story_run.wait(60)
    implausible = [check for check in failed_checks(story_run.tick()) if check.name == Gate.PLAUSIBLE]
    assert values_of(implausible[0]) == (Gate.PLAUSIBLE, False, 4, 40, "workers")
    assert story_run.record.operation is None


def test_metrics_missing_stale_or_malformed() -> None:
    story_run = StoryRun(SCALE_DOWN)
    blind = story_run.ports(RandomPlan(1, {}, {"metrics.read_cpu": {Distortion.GONE: 1.0}}))
    for _ in range(20):
        assert Gate.CPU_KNOWN in [check.name for check in failed_checks(story_run.tick(blind))]
        story_run.wait(30)
    assert story_run.record.idle_since == 0
    assert story_run.checker.acts == []


def test_clock_stamps_from_the_future() -> None:
    story_run = StoryRun(SCALE_DOWN)
    story_run.tick()
    story_run.store.write(replace(story_run.record, last_scale_at=START + 10**9), None)
    story_run.wait(30)
    story_run.tick()
    assert AlarmKind.OBSERVATION in [fact.alarm for fact in facts_in(story_run.notifier.entries, Alarm)]
    assert story_run.record.last_scale_at <= story_run.clock.now()
    ends_well(story_run)


def test_duplicate_late_out_of_order_spot_events() -> None:
    story_run = StoryRun(Story("spot", lambda: spot_cluster("interrupt"), 3, NO_REMOVALS))
    story_run.wait(75)
    mail = story_run.world.incidents.mail.arrived
    interruption = mail[0]
    recommendation = replace(interruption, kind=SpotKind.REBALANCE)
    stale = SpotNotice(interruption.instance_id, SpotKind.INTERRUPTION, START - 7200, START - 7080)
    mail[:] = [recommendation, interruption, interruption, recommendation, stale]
    story_run.tick()
    assert mail == []
    assert [spot.kind for spot in story_run.record.spots] == [SpotKind.INTERRUPTION]
    ends_well(story_run)
    assert story_run.world.machines.book.launched == 1


def test_an_operation_that_always_crashes_its_runner() -> None:
    story_run = StoryRun(SCALE_DOWN)
    story_run.tick_until(draining)
    crashes = 0
    while story_run.record.set_aside is None and crashes < 20:
        plan = CrashPlan(3, Strike.CRASH_BEFORE)
        story_run.wait(200)
        try:
            story_run.tick(story_run.ports(plan), owner=f"doomed-{crashes}")
        except RunnerCrashed:
            crashes += 1
    # The last one died as well, but only after it had set the operation aside.
    assert crashes == SETTINGS.max_unclean_runs + 1
    assert story_run.record.operation is None
    told = [fact.alarm for fact in facts_in(story_run.notifier.entries, Alarm)]
    assert AlarmKind.OPERATION_CRASHES in told
    story_run.wait(300)
    report = story_run.tick()
    assert report.decision is not None
    assert report.decision.action is Action.NOTHING
    assert story_run.record.set_aside is not None


def test_record_written_by_a_newer_version() -> None:
    database = MemoryDatabase()
    store = MemoryStore(VirtualClock(START), database=database)
    database.items["cluster"] = {**to_item(Record(rev=7)), "formatVersion": 99}
    before = dict(database.items["cluster"])
    with pytest.raises(NewerRecord, match="left as it is"):
        store.load()
    assert database.items["cluster"] == before


def test_k3s_node_re_created_under_the_same_name() -> None:
    story_run = StoryRun(SCALE_DOWN)
    record = story_run.tick_until(terminating)
    name = removal_of(record).node_name
    story_run.wait(60)
    story_run.tick()
    assert name not in story_run.world.inventory.nodes
    assert [act.node_name for act in acts(story_run, ActKind.DELETE_NODE)] == [name]


def test_a_wake_arrives_while_going_to_zero() -> None:
    """The write that commits to zero is refused by the wake's, and the call to zero by the version that the
    wake has changed, at whichever of its calls the sleeper is when the wake comes."""
    for moment in ("policies.write_state#1", "workloads.scale#1", "policies.write_state#2"):
        harness = PolicyHarness()
        harness.rounds(2100)
        harness.clock.sleep(60)
        counting = CrashPlan()
        probe = PolicyHarness()
        probe.rounds(2100)
        probe.clock.sleep(60)
        probe.round(_through(probe, counting))
        place = counting.calls.index(moment) + 1
        wake = partial(_wake, harness)
        harness.round(_through(harness, CrashPlan(place, Strike.STALL, on_stall=wake)))
        assert harness.memory_workloads.read(make_ref()).replicas == 2, moment
        harness.rounds(600)
        assert harness.memory_workloads.read(make_ref()).replicas == 2, moment
        assert harness.state.phase in (Phase.ACTIVE, Phase.IDLE), moment
        assert harness.state.wake_count == 1, moment


def _wake(harness: PolicyHarness) -> None:
    harness.runner().wake(harness.policies[0].id, WakeReason.API_REQUEST)


def _through(harness: PolicyHarness, plan: CrashPlan) -> Scaling:
    opened = faulty_scaling(harness.scaling.ports, plan)
    return harness.runner(store=opened.store, policies=opened.policies, workloads=opened.workloads)
