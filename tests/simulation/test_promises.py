"""For every promise of docs/guarantees.md a history that breaks it, and is reported.

Each history commits one violation by hand, on the real world and store of the simulator, and must be found by
the checker, or by what the explorer asks at each write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from ebbtide.core.operations.slots import check_invariants
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.idle import Phase
from ebbtide.model.operation import (
    Consolidate,
    Removal,
    RemovalState,
    ScaleDown,
    ScaleUp,
    Slot,
    SlotState,
    Source,
    Spot,
    SpotKind,
    SpotNotice,
)
from ebbtide.model.pod import Pod
from ebbtide.model.pool import Headroom, PoolLimits, RemovalBudget, RemovalReason
from ebbtide.model.record import Lease, Missing, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node
from ebbtide.simulator.run.runner import Stage, stage_of
from ebbtide.simulator.world.rules import BudgetSpec, Kind, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import Act, ActKind
from tests.explorer.scenes import PLAIN, SETTINGS, idle_world
from tests.explorer.sleeping import drowsy_world, lull, state_of, wrong_with_scale, wrong_with_state
from tests.explorer.watching import wrong_with_acknowledgement, wrong_with_write
from tests.simulation.stories import START
from tests.simulation.test_world_checker import SETTINGS as SCENE_SETTINGS
from tests.simulation.test_world_checker import Scene, instance_of
from tests.simulation.test_world_checker_replacing import Scene as ReplacingScene

GUARANTEES = Path(__file__).parents[2] / "docs/guarantees.md"
END = "operations are closed"


@dataclass(frozen=True, slots=True)
class History:
    """What was done, which promise that breaks, and what must be said of it."""

    promise: str
    told: str
    play: Callable[[], list[str]]

    @property
    def name(self) -> str:
        return self.play.__name__.replace("_", " ")


HISTORIES: list[History] = []


def breaks(promise: str, told: str) -> Callable[[Callable[[], list[str]]], Callable[[], list[str]]]:
    def kept(play: Callable[[], list[str]]) -> Callable[[], list[str]]:
        HISTORIES.append(History(promise, told, play))
        return play

    return kept


def promises() -> list[str]:
    """The bullets of what must never happen, and the one sentence about the end."""
    text = GUARANTEES.read_text().partition("## What must never happen")[2].partition("\n## ")[0]
    bullets, _, end = text.partition("\nOnce no fault has happened for a while, all of this holds: ")
    found = [" ".join(one.split()) for one in re.split(r"^- ", bullets, flags=re.MULTILINE)[1:]]
    return [*found, " ".join(end.split())]


@pytest.mark.parametrize("history", HISTORIES, ids=lambda history: history.name)
def test_a_history_that_breaks_a_promise_is_reported(history: History) -> None:
    said = history.play()
    assert any(history.told in sentence for sentence in said), said


def test_no_promise_is_without_a_history_that_breaks_it_and_no_history_without_its_promise() -> None:
    kept = promises()
    assert len(kept) >= 15
    without = [promise for promise in kept if not any(promise.startswith(one.promise) for one in HISTORIES)]
    assert without == []
    unknown = [one.name for one in HISTORIES if not any(p.startswith(one.promise) for p in kept)]
    assert unknown == []
    print(f"{len(kept)} promises, {len(HISTORIES)} histories that break them")


# -- the pieces that histories are made of ------------------------------------------------------------


def removal_of(node: Node, state: RemovalState) -> Removal:
    return Removal(instance_of(node), node.name, node.uid, node.zone, node.pool, state)


def evict(scene: Scene, pod: Pod) -> None:
    scene.cluster.evict(Evict(pod.namespace, pod.name, pod.uid, pod.node_name, 30))


def running(scene: Scene, node: Node) -> Pod:
    return next(pod for pod in scene.world.pods_on(node.name) if pod.controller == "ReplicaSet")


def evicted(template: Pod, kind: Kind = Kind.DEPLOYMENT) -> list[str]:
    """A pod like this is evicted from a node that is cordoned as it must be."""
    scene = Scene()
    scene.world.add_workload(WorkloadSpec(template, kind))
    scene.wait(60)
    pod = next(one for one in scene.world.inventory.pods.values() if one.name.startswith(template.name))
    scene.cordon(scene.world.inventory.nodes[pod.node_name])
    evict(scene, pod)
    return scene.said


def stage_with(settings: Settings = SETTINGS) -> Stage:
    world = idle_world()
    world.advance_to(START + 15)
    return stage_of(world, settings)


# -- terminating --------------------------------------------------------------------------------------

NO_PODS = "no instance is terminated with a pod"
INTENT = "before every terminate, an intent was written"
UNCORDON = "no node is uncordoned after that intent"
MINIMUM = "whenever Ebbtide decides on its own to remove a node, enough workers"
PROTECTED = "except for interruptions, no pod is evicted"
SERVERS = "except for interruptions, no game server is evicted"
ONE = "a node has one owner"
LIMITS = "existing and reserved nodes"
HEADROOM = "Ebbtide does not choose to remove a node that configured or forecast headroom needs"
TOKENS = "tokens and revisions never decrease"
OTHERS = "instances and nodes that are not Ebbtide's"
WHOLE = "an incomplete observation"
INBOX = "a spot notice leaves the inbox"
ANNOUNCED = "an instance that the cloud has announced it will take"
REPLACED_FIRST = "a node that is to be replaced is not touched before"
REALLY_UNFIT = "a node is repaired only if it is really unwell"
WAKES = "no wake is lost"
INVARIANTS = "no state machine breaks its own invariants"


@breaks(NO_PODS, "running on it")
def a_node_goes_with_its_pods() -> list[str]:
    scene = Scene()
    scene.intend(scene.workers[0])
    scene.cloud.terminate(instance_of(scene.workers[0]))
    return scene.said


@breaks(NO_PODS, "ending on it")
def a_node_goes_while_its_pods_end() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    scene.cordon(node)
    evict(scene, running(scene, node))
    scene.intend(node)
    scene.cloud.terminate(instance_of(node))
    return scene.said


@breaks(INTENT, "without a written intent")
def a_drained_node_goes_by_a_plan_alone() -> list[str]:
    scene = Scene()
    scene.drain(scene.workers[0])
    scene.cloud.terminate(instance_of(scene.workers[0]))
    return scene.said


@breaks(INTENT, "without a written intent")
def an_orphan_that_was_only_noted_goes() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    scene.drain(node)
    noted = replace(scene.store.load(), orphans=(Missing(instance_of(node), 0),))
    scene.store.write(noted, None)
    scene.cloud.terminate(instance_of(node))
    return scene.said


@breaks(INTENT, "before any record was written")
def a_machine_goes_before_the_first_record() -> list[str]:
    scene = Scene()
    scene.cloud.terminate(instance_of(scene.workers[0]))
    return scene.said


@breaks(INTENT, "was taken back after it was written down")
def an_irrevocable_removal_is_released() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    record = scene.intend(node)
    released = ScaleDown("op", 0, (removal_of(node, RemovalState.RELEASED),))
    scene.store.write(replace(record, removing=released), None)
    return scene.said


@breaks(INTENT, "was taken back after it was written down")
def a_machine_that_was_being_terminated_becomes_a_worker() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    slot = Slot("k", "general", "a", "cpx32", state=SlotState.TERMINATING, terminated=True)
    slot = replace(slot, instance_id=instance_of(node))
    record = scene.store.write(replace(scene.store.load(), launching=ScaleUp("op", 0, 1, (slot,))), None)
    ready = replace(slot, state=SlotState.READY, terminated=False)
    scene.store.write(replace(record, launching=ScaleUp("op", 0, 1, (ready,))), None)
    return scene.said


@breaks(INTENT, "which no record holds")
def a_node_is_cordoned_by_an_unknown_operation() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    scene.plan(node)
    scene.cluster.cordon(Cordon(node.name, node.uid, "made-up"), 1)
    return scene.said


@breaks(INTENT, "which no record holds")
def a_node_is_marked_before_that_is_written() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    scene.cluster.soft_taint(SoftTaint(node.name, node.uid, "op"), 1)
    return scene.said


@breaks(UNCORDON, "was uncordoned after its termination was written down")
def a_cordon_is_lifted_after_the_intent() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    scene.cordon(node)
    scene.intend(node)
    scene.cluster.uncordon(Uncordon(node.name, node.uid, "op"), 1)
    return scene.said


@breaks(UNCORDON, "which is not cordoned by us")
def a_pod_is_evicted_from_a_node_that_was_given_back() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    scene.cordon(node)
    scene.cluster.uncordon(Uncordon(node.name, node.uid, "op"), 1)
    evict(scene, running(scene, node))
    return scene.said


# -- what must stay -----------------------------------------------------------------------------------


@breaks(MINIMUM, "min_workers is 2")
def fewer_stay_than_the_minimum() -> list[str]:
    scene = Scene()
    scene.intend(scene.workers[0], scene.workers[1])
    return scene.said


@breaks(MINIMUM, "in pool general, its minimum is 3")
def fewer_stay_than_the_minimum_of_a_pool() -> list[str]:
    scene = Scene()
    pool = replace(SCENE_SETTINGS.pools[0], min_workers=3)
    scene.checker.follow(replace(SCENE_SETTINGS, pools=(pool,)))
    scene.intend(scene.workers[0])
    return scene.said


@breaks(MINIMUM, "in pools that are awake, min_workers is 3")
def fewer_stay_awake_than_the_minimum_of_the_cluster() -> list[str]:
    scene = Scene()
    asleep = replace(SCENE_SETTINGS.pools[0], name="batch", may_be_empty=True)
    pools = (*SCENE_SETTINGS.pools, asleep)
    scene.checker.follow(replace(SCENE_SETTINGS, pools=pools, min_workers=1, awake_min_workers=3))
    scene.intend(scene.workers[0])
    return scene.said


@breaks(MINIMUM, "empties zone b")
def a_zone_is_emptied() -> list[str]:
    scene = Scene()
    scene.intend(scene.workers[2])
    return scene.said


@breaks(LIMITS, "are leaving at once, the budget is 1")
def too_many_leave_at_once() -> list[str]:
    scene = Scene()
    scene.intend(scene.workers[0], scene.workers[1])
    return scene.said


@breaks(LIMITS, "exceeds a budget of pool general")
def a_budget_of_a_pool_is_exceeded() -> list[str]:
    scene = Scene()
    pool = replace(SCENE_SETTINGS.pools[0], budgets=(RemovalBudget(nodes=0),))
    scene.checker.follow(replace(SCENE_SETTINGS, pools=(pool,)))
    scene.intend(scene.workers[0])
    return scene.said


@breaks(LIMITS, "exceeds a budget of the cluster")
def a_budget_of_the_cluster_is_exceeded() -> list[str]:
    scene = Scene()
    scene.checker.follow(replace(SCENE_SETTINGS, budgets=(RemovalBudget(nodes=0),)))
    scene.intend(scene.workers[0])
    return scene.said


@breaks(LIMITS, "max_workers is 4")
def more_is_launched_than_the_maximum() -> list[str]:
    scene = Scene()
    for key in ("one", "two"):
        scene.cloud.launch(Launch(Slot(key, "general", "a", "cpx32"), "op"))
    return scene.said


@breaks(LIMITS, "reserved, max_workers is 4")
def more_is_reserved_than_the_maximum() -> list[str]:
    stage = stage_with()
    slots = tuple(Slot(f"k{number}", "general", "a", "small") for number in range(2))
    after = Record(rev=1, launching=ScaleUp("op", 0, 2, slots))
    return list(wrong_with_write(stage, None, after, (), misled=False))


@breaks(HEADROOM, "leaves headroom for 2 pods of 1000m CPU and 64 MiB, 5 are asked for")
def a_node_that_holds_headroom_is_removed() -> list[str]:
    scene = Scene()
    node = scene.workers[0]
    scene.drain(node)
    scene.wait(600)
    scene.checker.follow(replace(SCENE_SETTINGS, headroom=(Headroom(1000, 64, 5),)))
    scene.intend(node)
    return scene.said


@breaks(HEADROOM, "leaves headroom for 2 pods of 1000m CPU and 64 MiB, 5 are asked for by a forecast")
def a_node_that_a_forecast_keeps_is_removed() -> list[str]:
    scene = Scene()
    node = scene.workers[0]
    scene.drain(node)
    scene.wait(600)
    for count in (9, 5):
        scene.checker.expects((Headroom(1000, 64, count, "general", expected="5 pods in pool general"),))
    scene.intend(node)
    return scene.said


@breaks(HEADROOM, "by nodes of weight [5]")
def a_node_is_replaced_by_one_of_another_weight() -> list[str]:
    scene = Scene()
    general = SCENE_SETTINGS.pools[0]
    heavy = replace(general, name="heavy", weight=5)
    scene.checker.follow(replace(SCENE_SETTINGS, pools=(general, heavy)))
    node = scene.workers[0]
    source = Source(instance_of(node), node.name, node.uid, node.zone, node.pool)
    slot = Slot("op-0", "heavy", "a", "cpx32")
    before = scene.store.load()
    scene.store.write(before, None)
    operation = Consolidate("op", 0, sources=(source,), slots=(slot,))
    scene.store.write(replace(scene.store.load(), removing=operation), None)
    return scene.said


@breaks(LIMITS, "offer 15200m CPU, its limit is 12000m")
def more_is_launched_than_the_limits_of_a_pool() -> list[str]:
    scene = Scene()
    pool = replace(SCENE_SETTINGS.pools[0], limits=PoolLimits(cpu_milli=12_000))
    scene.checker.follow(replace(SCENE_SETTINGS, pools=(pool,)))
    scene.cloud.launch(Launch(Slot("one", "general", "a", "cpx32"), "op"))
    return scene.said


# -- evicting -----------------------------------------------------------------------------------------


@breaks(PROTECTED, "is annotated do-not-disrupt")
def a_pod_that_must_not_be_disrupted_is_evicted() -> list[str]:
    return evicted(replace(pod_template("lone", 100, 64), do_not_disrupt=True))


@breaks(PROTECTED, "is annotated safe-to-evict=false")
def a_pod_that_is_not_safe_to_evict_is_evicted() -> list[str]:
    return evicted(replace(pod_template("lone", 100, 64), safe_to_evict=False))


@breaks(PROTECTED, "has no controller")
def a_bare_pod_is_evicted() -> list[str]:
    return evicted(pod_template("lone", 100, 64), Kind.BARE)


@breaks(PROTECTED, "is in kube-system")
def a_pod_of_the_system_is_evicted() -> list[str]:
    return evicted(pod_template("lone", 100, 64, "kube-system"))


@breaks(PROTECTED, "is critical")
def a_critical_pod_is_evicted() -> list[str]:
    return evicted(replace(pod_template("lone", 100, 64), priority_class="system-cluster-critical"))


@breaks(PROTECTED, "keeps data on its node")
def a_pod_with_data_on_its_node_is_evicted() -> list[str]:
    return evicted(replace(pod_template("lone", 100, 64), local_storage=True))


@breaks(PROTECTED, "which belongs to its node")
def a_pod_of_a_daemon_set_is_evicted() -> list[str]:
    return evicted(pod_template("lone", 100, 64), Kind.DAEMON_SET)


@breaks(SERVERS, "is a reserved game server")
def a_reserved_game_server_is_evicted() -> list[str]:
    reserved = (("ebbtide.dev/plan", "reserved"),)
    return evicted(replace(pod_template("lone", 100, 64), annotations=reserved))


# -- one of each, and in order ------------------------------------------------------------------------


@breaks(ONE, "is being removed by two operations")
def a_node_has_two_owners() -> list[str]:
    scene = Scene()
    removal = removal_of(scene.workers[0], RemovalState.DRAINING)
    spot = Spot("spot:i", removal.instance_id, SpotKind.INTERRUPTION, 0, 120, removal=removal)
    both = replace(scene.store.load(), removing=ScaleDown("op", 0, (removal,)), spots=(spot,))
    scene.store.write(both, None)
    return scene.said


@breaks(ONE, "has two instances")
def a_slot_has_two_instances() -> list[str]:
    scene = Scene()
    slot = Slot("k", "general", "a", "cpx32")
    scene.cloud.launch(Launch(slot, "op"))
    scene.world.machines.book.id_of_key.clear()
    scene.cloud.launch(Launch(slot, "op"))
    return scene.said


@breaks(ONE, "began while one was open")
def an_operation_begins_on_top_of_another() -> list[str]:
    scene = Scene()
    removal = removal_of(scene.workers[0], RemovalState.PLANNED)
    for name in ("one", "two"):
        scene.checker.wrote(Record(removing=ScaleDown(name, 0, (removal,))), None)
    return scene.said


@breaks(TOKENS, "went back to 6")
def a_token_goes_back() -> list[str]:
    scene = Scene()
    scene.checker.leased(Lease("cluster", "new", 7, 100))
    scene.checker.leased(Lease("cluster", "old", 6, 100))
    return scene.said


@breaks(TOKENS, "a write under the old token 6")
def a_write_under_an_old_token_lands() -> list[str]:
    scene = Scene()
    scene.checker.leased(Lease("cluster", "new", 7, 100))
    scene.checker.wrote(Record(), Lease("cluster", "old", 6, 100))
    return scene.said


@breaks(TOKENS, "went back from 5 to 4")
def a_revision_goes_back() -> list[str]:
    scene = Scene()
    scene.checker.wrote(Record(rev=5), None)
    scene.checker.wrote(Record(rev=4), None)
    return scene.said


# -- others, and the cloud ----------------------------------------------------------------------------


@breaks(OTHERS, "which is not a worker of ours")
def a_foreign_node_is_cordoned() -> list[str]:
    scene = Scene()
    foreign = scene.world.add_foreign_node("a")
    scene.cordon(foreign)
    return scene.said


@breaks(OTHERS, "breaks disruption budget")
def a_disruption_budget_is_broken() -> list[str]:
    """Past the API server, which would refuse it."""
    scene, node = (one := Scene()), one.workers[0]
    scene.cordon(node)
    pod = running(scene, node)
    scene.world.controllers.budget_specs.append(BudgetSpec("all", "default/web", max_unavailable=0))
    scene.checker.saw(Act(ActKind.EVICT, node_name=pod.node_name, pod_uid=pod.uid))
    return scene.said


@breaks(OTHERS, "was deleted while its instance runs")
def the_node_object_of_a_running_machine_is_deleted() -> list[str]:
    scene, node = (one := Scene()), one.workers[0]
    scene.cluster.delete_node(DeleteNode(node.name, node.uid))
    return scene.said


@breaks(WHOLE, "decided without cluster.read")
def a_removal_is_decided_without_having_seen() -> list[str]:
    stage = stage_with()
    node = next(one for one in stage.world.inventory.nodes.values() if one.worker)
    going = ScaleDown("op", 0, (removal_of(node, RemovalState.TERMINATING),))
    return list(wrong_with_write(stage, None, Record(rev=1, removing=going), {"cluster.read"}, misled=False))


@breaks(INBOX, "was acknowledged and is not in the record")
def a_notice_is_acknowledged_before_it_is_written() -> list[str]:
    stage = stage_with()
    node = next(one for one in stage.world.inventory.nodes.values() if one.worker)
    now = int(stage.clock.now())
    notice = SpotNotice(instance_of(node), SpotKind.INTERRUPTION, now, now + 120)
    return list(wrong_with_acknowledgement(stage, notice))


@breaks(INBOX, "was forgotten before it came")
def a_notice_is_forgotten() -> list[str]:
    scene = Scene()
    node, now = scene.workers[0], int(scene.world.now)
    spot = Spot("spot:i", instance_of(node), SpotKind.INTERRUPTION, now, now + 120)
    scene.store.write(replace(scene.store.load(), spots=(spot,)), None)
    scene.store.write(replace(scene.store.load(), spots=()), None)
    return scene.said


@breaks(ANNOUNCED, "which the cloud is taking, was to be terminated")
def an_announced_spot_machine_is_terminated_by_us() -> list[str]:
    scene = Scene()
    removal = removal_of(scene.workers[0], RemovalState.TERMINATING)
    spot = Spot("spot:i", removal.instance_id, SpotKind.INTERRUPTION, 0, 120, removal=removal)
    scene.store.write(replace(scene.store.load(), spots=(spot,)), None)
    return scene.said


# -- replacements -------------------------------------------------------------------------------------


@breaks(REPLACED_FIRST, "was touched before its replacement was Ready")
def a_node_is_tainted_before_its_replacement_is_ready() -> list[str]:
    scene = ReplacingScene(age=90_000)
    node = scene.workers[0]
    scene.write(RemovalReason.EXPIRED, RemovalState.PLANNED, SlotState.LAUNCHED)
    scene.cluster.soft_taint(SoftTaint(node.name, node.uid, "op"), 1)
    return scene.said


@breaks(REALLY_UNFIT, "was replaced as expired at an age of 7200 s")
def a_node_is_replaced_as_expired_before_its_time() -> list[str]:
    scene = ReplacingScene()
    scene.intend(RemovalReason.EXPIRED)
    return scene.said


# -- sleep, invariants, the end -----------------------------------------------------------------------


@breaks(WAKES, "a wake was passed over")
def a_wake_is_passed_over() -> list[str]:
    stage = _asleep()
    waking = replace(state_of(stage), phase=Phase.WAKING, rev=4, wake_count=1)
    return list(wrong_with_state(stage, waking, replace(waking, phase=Phase.FALLING, rev=5)))


@breaks(WAKES, "it was scaled to zero while its state was")
def a_workload_is_scaled_to_zero_before_that_is_written() -> list[str]:
    return list(wrong_with_scale(_asleep(), 0))


def _asleep() -> Stage:
    world = drowsy_world(PLAIN)
    world.advance_to(START + 15)
    stage = stage_of(world, SETTINGS)
    lull(stage, 30)
    return stage


@breaks(INVARIANTS, "went from TERMINATING to READY")
def a_machine_of_states_takes_a_step_that_is_not_allowed() -> list[str]:
    slot = Slot("k", "general", "a", "cpx32", state=SlotState.TERMINATING)
    return [broken.says for broken in check_invariants(slot, replace(slot, state=SlotState.READY))]


def _left_at_the_end() -> Iterator[Scene]:
    marked = Scene()
    marked.cordon(marked.workers[0])
    marked.checker.finish(replace(marked.store.load(), removing=None))
    yield marked
    alone = Scene()
    alone.world.machines.launch(Slot("k", "general", "a", "cpx32")).joins = False
    alone.wait(3600)
    alone.checker.finish(alone.store.load())
    yield alone


@breaks(END, "is left marked by op")
def a_mark_is_left_at_the_end() -> list[str]:
    return next(_left_at_the_end()).said


@breaks(END, "is left without a node and without an operation")
def a_machine_is_left_without_a_node() -> list[str]:
    return list(_left_at_the_end())[1].said
