"""What is said of the end of a seed where it is not in order: the judge of the swarm is itself judged."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.model.operation import ScaleUp, Spot, SpotKind
from ebbtide.model.pool import PoolLimits
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.simulator.run.runner import Stage, stage_of, store_of
from ebbtide.simulator.world.rules import Demand, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import Act, ActKind
from tests.explorer.scenes import SETTINGS, idle_world
from tests.swarm.ending import CHURN_SECONDS, LATELY_SECONDS, Churn, wrong_at_the_end

POOL = SETTINGS.pools[0]


def stage_after(settings: Settings = SETTINGS, pods: int = 0, seconds: float = 2 * LATELY_SECONDS) -> Stage:
    """Three workers, and nobody who scales them; so many pods that each need most of a node."""
    stage = stage_of(idle_world(), settings)
    if pods:
        spec = WorkloadSpec(pod_template("large", 1800, 256), demand=Demand(low=pods))
        stage.world.add_workload(spec)
    stage.clock.sleep(seconds)
    stage.world.advance_to(stage.clock.now())
    return stage


def said(stage: Stage) -> list[str]:
    return [sentence.split(",")[0] for sentence in wrong_at_the_end(stage)]


def about(stage: Stage) -> list[str]:
    """The first word of each: the pod, the operation, or how many workers are ready."""
    return [sentence.split()[0] for sentence in wrong_at_the_end(stage)]


def test_nothing_is_said_where_all_is_in_order() -> None:
    assert said(stage_after()) == []


def test_a_pod_that_is_pending_for_long_and_could_have_a_node_is_told() -> None:
    assert about(stage_after(pods=1)) == ["default/large-1"]
    assert said(stage_after(pods=1, seconds=LATELY_SECONDS / 2)) == []


@pytest.mark.parametrize(
    "changes",
    [
        {"max_workers": 3},
        {"pools": (replace(POOL, max_workers=3),)},
        {"pools": (replace(POOL, limits=PoolLimits(cpu_milli=6000)),)},
        {"pools": (replace(POOL, may_be_empty=True),)},
    ],
    ids=["the maximum is reached", "that of the pool", "its limits are", "the pool sleeps"],
)
def test_a_pod_that_can_have_no_node_is_not_told(changes: dict[str, object]) -> None:
    assert said(stage_after(replace(SETTINGS, **changes), pods=1)) == []  # type: ignore[arg-type]


def test_too_few_workers_are_told_for_the_cluster_and_for_a_pool() -> None:
    lacking = stage_after(replace(SETTINGS, min_workers=4, pools=(replace(POOL, min_workers=4),)))
    assert about(lacking) == ["3", "3"]


def test_what_changed_lately_may_still_be_on_its_way() -> None:
    stage = stage_after(replace(SETTINGS, min_workers=4))
    machine = next(m for m in stage.world.machines.book.machines.values() if m.ours)
    machine.instance = replace(machine.instance, launched_at=int(stage.clock.now()))
    assert said(stage) == []


@pytest.mark.parametrize(("times", "told"), [(8, False), (9, True)])
def test_a_pod_that_is_evicted_again_and_again_is_told(times: int, told: bool) -> None:
    stage = stage_after(seconds=60)
    pod = next(pod for pod in stage.world.inventory.pods.values() if pod.name == "db-0")
    churn = Churn(stage, stage.clock.now() + CHURN_SECONDS)
    for _ in range(times):
        churn.saw(Act(ActKind.EVICT, node_name=pod.node_name, pod_uid=pod.uid))
    assert bool(list(churn.wrong_at_the_end())) is told


def test_work_that_does_not_end_is_told_unless_it_waits_for_a_person() -> None:
    stage = stage_after(seconds=10_000)
    began = int(stage.clock.now()) - 9000
    spot = Spot("spot", "i-1", SpotKind.INTERRUPTION, began, began)
    store_of(stage).write(
        Record(stage.settings.cluster, launching=ScaleUp("up", began, 0), spots=(spot,)), None
    )
    assert about(stage) == ["up", "spot"]
    aside = replace(store_of(stage).load(), launching=None, launching_aside=ScaleUp("up", began, 0))
    store_of(stage).write(aside, None)
    assert said(stage) == []
