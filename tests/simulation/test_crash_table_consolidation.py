"""The rows of the table in ARCHITECTURE.md that are about consolidation, each under its name."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.model.events import OperationClosed, OperationKind
from ebbtide.model.log import LogKind
from ebbtide.model.node import LEAVING
from ebbtide.model.operation import AbortCause, Consolidate, MoveState
from ebbtide.model.record import Record
from ebbtide.narrate import facts_in
from ebbtide.simulator.faults.calls import CrashPlan, Strike
from ebbtide.simulator.world.rules import WorkloadSpec, pod_template
from ebbtide.simulator.world.workload import Demand
from ebbtide.simulator.world.world import ActKind
from tests.simulation.repack_stories import REPACK, SETTINGS_REPACK, scattered
from tests.simulation.stories import Story, Telling
from tests.simulation.test_crash_table import acts, ends_well, strike

STORY = Story("consolidation", scattered, 2, SETTINGS_REPACK, ticks=40)


def moving(record: Record) -> bool:
    operation = record.operation
    return isinstance(operation, Consolidate) and any(m.state is MoveState.EVICTING for m in operation.moves)


def test_crash_between_the_intent_to_move_a_pod_and_its_eviction() -> None:
    telling = Telling(STORY)
    strike(telling, "cluster.evict", Strike.CRASH_BEFORE)
    assert moving(telling.record)
    assert acts(telling, ActKind.EVICT) == []
    ends_well(telling)
    evicted = [act.pod_uid for act in acts(telling, ActKind.EVICT)]
    assert len(evicted) == len(set(evicted)) == 2


def test_crash_after_an_eviction() -> None:
    telling = Telling(STORY)
    strike(telling, "cluster.evict", Strike.CRASH_AFTER)
    (first,) = acts(telling, ActKind.EVICT)
    assert moving(telling.record)
    ends_well(telling)
    assert [act.pod_uid for act in acts(telling, ActKind.EVICT)].count(first.pod_uid) == 1


def starts_in(telling: Telling, seconds: float) -> None:
    workload = telling.world.pods.book.workloads["default/web"]
    workload.spec = replace(workload.spec, start_seconds=seconds)


def test_a_runner_dies_while_pods_are_moved_and_its_lease_outlives_their_time() -> None:
    """As a Lambda that is killed: nobody can act for 300 s, and the pod needs a little longer than that."""
    lease = replace(SETTINGS_REPACK, lock_ttl_seconds=300, max_tick_gap_seconds=600)
    telling = Telling(Story("a long lease", scattered, 2, lease, ticks=40))
    starts_in(telling, 330.0)
    strike(telling, "cluster.evict", Strike.CRASH_AFTER)
    died = telling.clock.now()
    telling.wait(60)
    starts_in(telling, 5.0)
    ends_well(telling)
    assert telling.clock.now() > died + REPACK.move_timeout_seconds
    ended = facts_in(telling.store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)
    first = ended[-1]
    assert (first.operation, first.moved) == (OperationKind.CONSOLIDATION, 2)
    assert all(one.succeeded for one in ended)


def test_pods_that_are_never_ready_stop_it_although_runners_die() -> None:
    """The time anew is given for a death, not for ever."""
    telling = Telling(replace(STORY, nodes_at_the_end=3, ticks=60))
    starts_in(telling, 100_000.0)
    strike(telling, "cluster.evict", Strike.CRASH_AFTER)
    telling.tick_until(lambda record: record.operation is None)
    (ended,) = facts_in(telling.store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)
    assert (ended.succeeded, ended.abort_cause) == (False, AbortCause.NOT_READY)


def test_an_eviction_is_counted_before_it_is_done_and_only_once() -> None:
    for kind in (Strike.CRASH_BEFORE, Strike.CRASH_AFTER):
        telling = Telling(STORY)
        strike(telling, "cluster.evict", kind)
        assert len(telling.record.evictions) == 1
        telling.tick_until(lambda record: bool(record.leaving))
        assert len(telling.record.evictions) == len(acts(telling, ActKind.EVICT)) == 2


def test_a_consolidation_is_in_vain_until_its_node_is_gone() -> None:
    telling = Telling(STORY)
    telling.tick_until(lambda record: isinstance(record.operation, Consolidate))
    assert (telling.record.consolidations_in_vain, telling.record.consolidation_owes) == (1, 1)
    ends_well(telling)
    assert (telling.record.consolidations_in_vain, telling.record.consolidation_owes) == (0, 0)


def test_room_goes_while_pods_are_moved() -> None:
    telling = Telling(replace(STORY, nodes_at_the_end=3))
    telling.tick_until(moving)
    # What comes now takes the very room that was meant for the next pod.
    for name, cpu_milli, count in (("greedy", 1300, 2), ("crumb", 100, 1)):
        telling.world.add_workload(
            WorkloadSpec(pod_template(name, cpu_milli, 256), demand=Demand(low=count), use_fraction=0.1)
        )
    telling.wait(30)
    evicted = len(acts(telling, ActKind.EVICT))
    ends_well(telling)
    assert len(acts(telling, ActKind.EVICT)) == evicted == 1
    ended = facts_in(telling.store.read_log([LogKind.OPERATION_CLOSED]), OperationClosed)
    assert AbortCause.NO_ROOM in {one.abort_cause for one in ended}


def test_a_stalled_runner_evicts_after_the_consolidation_was_given_up() -> None:
    telling = Telling(replace(STORY, nodes_at_the_end=3))

    def given_up_meanwhile() -> None:
        telling.wait(SETTINGS_REPACK.lock_ttl_seconds + 5)
        telling.store.write(replace(telling.record, paused=True), None)
        telling.tick(owner="another")

    counting, probe = CrashPlan(), Telling(STORY)
    probe.tell(counting)
    plan = CrashPlan(counting.calls.index("cluster.evict#1") + 1, Strike.STALL, given_up_meanwhile)
    telling.tick(telling.ports(plan), "stalled")
    assert plan.struck
    assert len(acts(telling, ActKind.EVICT)) == 1
    assert telling.checker.violations == []
    ends_well(telling)


def test_a_node_that_consolidation_emptied_is_never_removed() -> None:
    lasting = replace(SETTINGS_REPACK, consolidation=replace(REPACK, min_idle_seconds=86_400))
    telling = Telling(Story("never idle enough", scattered, 3, lasting, ticks=10))
    telling.tick_until(lambda record: bool(record.leaving))
    (one,) = telling.record.leaving
    telling.store.write(
        replace(telling.record, leaving=(replace(one, until=int(telling.clock.now()) + 60),)), None
    )
    telling.wait(30)
    telling.tick()
    assert LEAVING in telling.world.inventory.nodes[one.node_name].taints
    ends_well(telling)
    assert telling.record.leaving == ()
    assert telling.record.consolidations_in_vain == 1
