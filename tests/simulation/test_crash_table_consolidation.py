"""The rows of the table in ARCHITECTURE.md that are about consolidation, each under its name."""

from __future__ import annotations

from dataclasses import replace

from ebbtide.model.node import LEAVING
from ebbtide.model.operation import Consolidate, MoveState
from ebbtide.model.record import Record
from ebbtide.simulator.plans import CrashPlan, Strike
from ebbtide.simulator.rules import WorkloadSpec, pod_template
from ebbtide.simulator.workload import Demand
from ebbtide.simulator.world import ActKind
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
    assert any("would fit on no other node any more" in said for said in telling.sentences)


def test_a_stalled_runner_evicts_after_the_consolidation_was_given_up() -> None:
    telling = Telling(replace(STORY, nodes_at_the_end=3))

    def given_up_meanwhile() -> None:
        telling.wait(SETTINGS_REPACK.lock_ttl_seconds + 5)
        telling.store.write(replace(telling.record, paused=True), None)
        telling.tick(owner="another")

    counting, probe = CrashPlan(), Telling(STORY)
    probe.tell(counting)
    plan = CrashPlan(counting.calls.index("cluster.evict#1") + 1, Strike.STALL, given_up_meanwhile)
    telling.tick(telling.outside(plan), "stalled")
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
