"""The rows of the table in ARCHITECTURE.md that are about consolidation, each under its name."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.errors import Unanswered
from ebbtide.model.events import OperationClosed, OperationKind
from ebbtide.model.log import LogKind
from ebbtide.model.operation import AbortCause, Consolidate, MoveState
from ebbtide.model.record import Record
from ebbtide.model.snapshot import LEAVING
from ebbtide.narrate import facts_in
from ebbtide.simulator.faults.catalogue import CrashPlan, Strike
from ebbtide.simulator.world.ports import SimCloud
from ebbtide.simulator.world.rules import Demand, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import ActKind
from tests.simulation.repack_stories import REPACK, SETTINGS_REPACK, scattered
from tests.simulation.stories import Story, StoryRun
from tests.simulation.test_crash_table import acts, ends_well, strike

STORY = Story("consolidation", scattered, 2, SETTINGS_REPACK, ticks=40)


def moving(record: Record) -> bool:
    operation = record.operation
    return isinstance(operation, Consolidate) and any(m.state is MoveState.EVICTING for m in operation.moves)


def test_crash_between_the_intent_to_move_a_pod_and_its_eviction() -> None:
    story_run = StoryRun(STORY)
    strike(story_run, "cluster.evict", Strike.CRASH_BEFORE)
    assert moving(story_run.record)
    assert acts(story_run, ActKind.EVICT) == []
    ends_well(story_run)
    evicted = [act.pod_uid for act in acts(story_run, ActKind.EVICT)]
    assert len(evicted) == len(set(evicted)) == 2


def test_crash_after_an_eviction() -> None:
    story_run = StoryRun(STORY)
    strike(story_run, "cluster.evict", Strike.CRASH_AFTER)
    (first,) = acts(story_run, ActKind.EVICT)
    assert moving(story_run.record)
    ends_well(story_run)
    assert [act.pod_uid for act in acts(story_run, ActKind.EVICT)].count(first.pod_uid) == 1


def starts_in(story_run: StoryRun, seconds: float) -> None:
    workload = story_run.world.pods.book.workloads["default/web"]
    workload.spec = replace(workload.spec, start_seconds=seconds)


def test_a_runner_dies_while_pods_are_moved_and_its_lease_outlives_their_time() -> None:
    """As a Lambda that is killed: nobody can act for 300 s, and the pod needs a little longer than that."""
    lease = replace(SETTINGS_REPACK, lock_ttl_seconds=300, max_tick_gap_seconds=600)
    story_run = StoryRun(Story("a long lease", scattered, 2, lease, ticks=40))
    starts_in(story_run, 330.0)
    strike(story_run, "cluster.evict", Strike.CRASH_AFTER)
    died = story_run.clock.now()
    story_run.wait(60)
    starts_in(story_run, 5.0)
    ends_well(story_run)
    assert story_run.clock.now() > died + REPACK.move_timeout_seconds
    ended = facts_in(story_run.store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)
    first = ended[-1]
    assert (first.operation, first.moved) == (OperationKind.CONSOLIDATION, 2)
    assert all(one.succeeded for one in ended)


def test_pods_that_are_never_ready_stop_it_although_runners_die() -> None:
    """A crash starts the time again, but not without limit."""
    story_run = StoryRun(replace(STORY, nodes_at_the_end=3, ticks=60))
    starts_in(story_run, 100_000.0)
    strike(story_run, "cluster.evict", Strike.CRASH_AFTER)
    story_run.tick_until(lambda record: record.operation is None)
    (ended,) = facts_in(story_run.store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)
    assert (ended.succeeded, ended.abort_cause) == (False, AbortCause.NOT_READY)


def test_an_eviction_is_counted_before_it_is_done_and_only_once() -> None:
    for kind in (Strike.CRASH_BEFORE, Strike.CRASH_AFTER):
        story_run = StoryRun(STORY)
        strike(story_run, "cluster.evict", kind)
        assert len(story_run.record.evictions) == 1
        story_run.tick_until(lambda record: bool(record.leaving))
        assert len(story_run.record.evictions) == len(acts(story_run, ActKind.EVICT)) == 2


def test_a_consolidation_is_fruitless_until_its_node_is_gone() -> None:
    story_run = StoryRun(STORY)
    story_run.tick_until(lambda record: isinstance(record.operation, Consolidate))
    assert (story_run.record.consolidations_in_vain, story_run.record.consolidation_owes) == (1, 1)
    ends_well(story_run)
    assert (story_run.record.consolidations_in_vain, story_run.record.consolidation_owes) == (0, 0)


def test_room_goes_while_pods_are_moved() -> None:
    story_run = StoryRun(replace(STORY, nodes_at_the_end=3))
    story_run.tick_until(moving)
    # What comes now takes the very room that was meant for the next pod.
    for name, cpu_milli, count in (("greedy", 1300, 2), ("crumb", 100, 1)):
        story_run.world.add_workload(
            WorkloadSpec(pod_template(name, cpu_milli, 256), demand=Demand(low=count), use_fraction=0.1)
        )
    story_run.wait(30)
    evicted = len(acts(story_run, ActKind.EVICT))
    ends_well(story_run)
    assert len(acts(story_run, ActKind.EVICT)) == evicted == 1
    ended = facts_in(story_run.store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)
    assert AbortCause.NO_ROOM in {one.abort_cause for one in ended}


def test_a_stalled_runner_evicts_after_the_consolidation_was_given_up() -> None:
    story_run = StoryRun(replace(STORY, nodes_at_the_end=3))

    def given_up_meanwhile() -> None:
        story_run.wait(SETTINGS_REPACK.lock_ttl_seconds + 5)
        story_run.store.write(replace(story_run.record, paused=True), None)
        story_run.tick(owner="another")

    counting, probe = CrashPlan(), StoryRun(STORY)
    probe.tell(counting)
    plan = CrashPlan(counting.calls.index("cluster.evict#1") + 1, Strike.STALL, given_up_meanwhile)
    story_run.tick(story_run.ports(plan), "stalled")
    assert plan.struck
    assert len(acts(story_run, ActKind.EVICT)) == 1
    assert story_run.checker.violations == []
    ends_well(story_run)


def test_a_node_that_consolidation_emptied_is_never_removed() -> None:
    lasting = replace(SETTINGS_REPACK, consolidation=replace(REPACK, min_idle_seconds=86_400))
    story_run = StoryRun(Story("never idle enough", scattered, 3, lasting, ticks=10))
    story_run.tick_until(lambda record: bool(record.leaving))
    (one,) = story_run.record.leaving
    story_run.store.write(
        replace(story_run.record, leaving=(replace(one, until=int(story_run.clock.now()) + 60),)), None
    )
    story_run.wait(30)
    story_run.tick()
    assert LEAVING in story_run.world.inventory.nodes[one.node_name].taints
    ends_well(story_run)
    assert story_run.record.leaving == ()
    assert story_run.record.consolidations_in_vain == 1


class Deaf(SimCloud):
    """It never hears that an instance is to go."""

    def terminate(self, instance_id: str) -> None:
        raise Unanswered(f"no answer about {instance_id}")


def test_the_removal_of_a_node_that_consolidation_emptied_is_set_aside() -> None:
    story_run = StoryRun(STORY)
    ports = replace(story_run.ports(CrashPlan()), cloud=Deaf(story_run.world, story_run.clock))
    for _ in range(60):
        story_run.tick(ports)
        if story_run.record.refused:
            break
        story_run.wait(30)
    (aside,) = story_run.record.refused
    assert aside.removal.instance_id in {one.instance_id for one in story_run.record.leaving}
    ends_well(story_run)
    ended = facts_in(story_run.store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)
    assert {one.operation_id for one in ended} == {aside.operation_id}
