"""Which pods may be evicted, and why not: the strict drain of the specification."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.drain import Disruptions, DrainReason, Judgement, Treatment, judge, plan_drain
from ebbtide.model.operation import NO_OBSTACLE, Obstacle, RemovalCause
from ebbtide.model.pod import (
    Budget,
    LabelSelector,
    Pod,
    PodPhase,
    Requirement,
    Scheduling,
    SelectorOperator,
)
from tests.builders import make_budget, make_node, make_pod, make_selector, make_settings

FREE = Disruptions(())


def judged(pod: Pod, **settings: Any) -> tuple[Treatment, DrainReason]:
    judgement = judge(pod, FREE, make_settings(**settings), {})
    return judgement.treatment, judgement.reason


def blocked(reason: DrainReason) -> tuple[Treatment, DrainReason]:
    return Treatment.BLOCK, reason


EVICTED = (Treatment.EVICT, DrainReason.MOVABLE)


def test_a_pod_of_a_controller_may_be_evicted() -> None:
    assert judged(make_pod()) == EVICTED


def test_a_daemonset_pod_does_not_keep_a_node_from_being_drained() -> None:
    assert judged(make_pod(controller="DaemonSet")) == (Treatment.SKIP, DrainReason.DAEMON_SET)


def test_a_mirror_pod_is_never_touched() -> None:
    assert judged(make_pod(mirror=True, controller="Node")) == (Treatment.SKIP, DrainReason.MIRROR)


@pytest.mark.parametrize("phase", [PodPhase.SUCCEEDED, PodPhase.FAILED])
def test_a_finished_pod_is_skipped(phase: PodPhase) -> None:
    assert judged(make_pod(phase=phase)) == (Treatment.SKIP, DrainReason.FINISHED)


@pytest.mark.parametrize("priority_class", ["system-node-critical", "system-cluster-critical"])
def test_a_pod_of_critical_priority_aborts_the_drain(priority_class: str) -> None:
    assert judged(make_pod(priority_class=priority_class)) == blocked(DrainReason.CRITICAL)


def test_a_kube_system_pod_outside_a_daemonset_is_treated_as_critical() -> None:
    assert judged(make_pod(namespace="kube-system")) == blocked(DrainReason.KUBE_SYSTEM)


@pytest.mark.parametrize(
    "kind", [{"mirror": True}, {"controller": "DaemonSet"}, {"phase": PodPhase.SUCCEEDED}]
)
def test_reading_6_finished_mirror_and_daemonset_pods_are_skipped_before_any_is_judged_critical(
    kind: dict[str, Any],
) -> None:
    pod = make_pod(namespace="kube-system", priority_class="system-node-critical", **kind)
    assert judge(pod, FREE, make_settings(), {}).treatment is Treatment.SKIP


COREDNS = make_pod("coredns-7db6d8ff4d-x2zvq", namespace="kube-system")


def test_reading_25_the_refusal_names_the_pod_and_the_setting_that_would_allow_it() -> None:
    says = judge(COREDNS, FREE, make_settings(), {}).says
    assert "kube-system/coredns-7db6d8ff4d-x2zvq" in says
    assert "movable_system_workloads" in says


@pytest.mark.parametrize("name", ["coredns", "core*", "coredns-7db6d8ff4d-x2zvq"])
def test_reading_25_a_setting_names_system_workloads_that_may_be_moved(name: str) -> None:
    assert judged(COREDNS, movable_system_workloads=("metrics-server", name)) == EVICTED


@pytest.mark.parametrize("name", ["core", "dns", "coredns-7db6d8ff4d-x2zvq-1", "metrics*", "corf*"])
def test_another_name_does_not_free_a_system_workload(name: str) -> None:
    assert judged(COREDNS, movable_system_workloads=(name,)) == blocked(DrainReason.KUBE_SYSTEM)


def test_reading_25_coredns_of_k3s_may_be_named_although_its_priority_is_critical() -> None:
    pod = make_pod("coredns-x", namespace="kube-system", priority_class="system-cluster-critical")
    assert judged(pod, movable_system_workloads=("coredns",)) == EVICTED
    refusal = judge(pod, FREE, make_settings(), {})
    assert refusal.treatment is Treatment.BLOCK
    assert "movable_system_workloads" in refusal.says


def test_naming_a_system_workload_frees_nothing_outside_kube_system() -> None:
    pod = make_pod("coredns-x", priority_class="system-cluster-critical")
    assert judged(pod, movable_system_workloads=("coredns",)) == blocked(DrainReason.CRITICAL)


def test_annotations_keep_a_pod_where_it_is() -> None:
    assert judged(make_pod(do_not_disrupt=True)) == blocked(DrainReason.DO_NOT_DISRUPT)
    assert judged(make_pod(safe_to_evict=False)) == blocked(DrainReason.NOT_SAFE_TO_EVICT)


def test_do_not_disrupt_is_stronger_than_safe_to_evict() -> None:
    assert judged(make_pod(do_not_disrupt=True, safe_to_evict=True)) == blocked(DrainReason.DO_NOT_DISRUPT)


def test_a_bare_pod_is_not_evicted_because_nothing_would_create_it_again() -> None:
    assert judged(make_pod(controller="")) == blocked(DrainReason.BARE)
    assert judged(make_pod(controller="", safe_to_evict=True)) == EVICTED


def test_local_storage_keeps_a_pod_unless_its_owner_or_the_setting_says_otherwise() -> None:
    pod = make_pod(local_storage=True)
    assert judged(pod) == blocked(DrainReason.LOCAL_STORAGE)
    assert "evict_local_storage" in judge(pod, FREE, make_settings(), {}).says
    assert judged(pod, evict_local_storage=True) == EVICTED
    assert judged(make_pod(local_storage=True, safe_to_evict=True)) == EVICTED


def test_a_pod_that_is_not_understood_is_unmovable_with_that_reason() -> None:
    pod = make_pod(scheduling=Scheduling(unsupported=("pod affinity",)))
    assert judged(pod) == blocked(DrainReason.UNSUPPORTED)
    assert judge(pod, FREE, make_settings(), {}).about == "pod affinity"


def test_a_pod_that_is_terminating_is_waited_for() -> None:
    assert judged(make_pod(terminating=True, controller="")) == (Treatment.WAIT, DrainReason.TERMINATING)


LABELS = (("app", "web"),)
WEB = [make_pod(f"web-{n}", labels=LABELS) for n in range(3)]


def under(*budgets: Budget, spends: bool = True, pods: list[Pod] = WEB) -> list[Judgement]:
    disruptions = Disruptions(budgets, spends)
    return [judge(pod, disruptions, make_settings(), {}) for pod in pods]


def test_a_disruption_budget_is_shared_by_all_that_is_drained_at_the_same_time() -> None:
    treatments = [j.treatment for j in under(make_budget(2, app="web"))]
    assert treatments == [Treatment.EVICT, Treatment.EVICT, Treatment.WAIT]


def test_a_used_up_budget_is_waited_for_and_named() -> None:
    (judgement, *_) = under(make_budget(0, name="web-pdb", app="web"))
    assert judgement.reason is DrainReason.BUDGET_USED_UP
    assert (judgement.pod.name, judgement.about) == ("web-0", "web-pdb")


def test_a_budget_that_is_only_asked_is_not_spent() -> None:
    treatments = {j.treatment for j in under(make_budget(1, app="web"), spends=False)}
    assert treatments == {Treatment.EVICT}


def test_a_budget_covers_matching_pods_of_its_own_namespace_alone() -> None:
    pods = [make_pod("web-0", labels=LABELS, namespace="other"), make_pod("db-0", labels=(("app", "db"),))]
    assert {j.treatment for j in under(make_budget(0, app="web"), pods=pods)} == {Treatment.EVICT}


@pytest.mark.parametrize("key", ["tier", "app"])
def test_a_budget_counts_whichever_of_its_requirements_comes_first(key: str) -> None:
    here = Requirement("app", SelectorOperator.IN, ("web",))
    not_there = Requirement("tier", SelectorOperator.NOT_IN, ("batch",))
    asked = (not_there, here) if key == "tier" else (here, not_there)
    budget = Budget("default", "web", LabelSelector(asked), 0)
    batch = make_pod("web-batch", labels=(*LABELS, ("tier", "batch")))
    treatments = [j.treatment for j in under(budget, pods=[WEB[0], batch])]
    assert treatments == [Treatment.WAIT, Treatment.EVICT]


def test_a_pod_under_several_budgets_is_not_evicted_because_the_api_would_refuse() -> None:
    (judgement, *_) = under(make_budget(5, "b", app="web"), make_budget(5, "a", app="web"))
    assert judgement.reason is DrainReason.SEVERAL_BUDGETS
    assert (judgement.pod.name, judgement.about) == ("web-0", "a and b")


def test_a_node_is_drained_when_only_what_is_skipped_is_left() -> None:
    daemon, worker = make_pod("agent", controller="DaemonSet"), make_pod("web")
    assert plan_drain(make_node(), [daemon], FREE, make_settings(), {}).drained
    plan = plan_drain(make_node(), [daemon, worker], FREE, make_settings(), {})
    assert not plan.drained
    assert plan.obstacle == Obstacle(RemovalCause.POD_LEAVES, "default/web has not left yet", "default/web")


def test_a_node_is_not_drained_while_a_volume_of_a_pod_that_left_is_attached() -> None:
    plan = plan_drain(make_node(volumes_attached=("vol-1",)), [], FREE, make_settings(), {})
    assert not plan.drained
    assert plan.obstacle == Obstacle(RemovalCause.VOLUME, "volume vol-1 is still attached", "vol-1")


def test_the_volume_of_a_pod_that_stays_keeps_no_node() -> None:
    daemon = make_pod("agent", controller="DaemonSet", volumes=("vol-1",))
    plan = plan_drain(make_node(volumes_attached=("vol-1",)), [daemon], FREE, make_settings(), {})
    assert plan.drained
    assert plan.obstacle == NO_OBSTACLE


def test_the_worst_obstacle_is_named_first() -> None:
    pods = [make_pod("movable"), make_pod("leaving", terminating=True), make_pod("bare", controller="")]
    plan = plan_drain(make_node(), pods, FREE, make_settings(), {})
    assert (plan.obstacle.cause, plan.obstacle.about) == (RemovalCause.POD_BLOCKS, "default/bare")
    assert [j.pod.name for j in plan.treated(Treatment.WAIT)] == ["leaving"]


def covered(selector: LabelSelector, **labels: str) -> bool:
    """Whether a used up budget with this selector keeps such a pod."""
    pod = make_pod("web", labels=tuple(sorted(labels.items())))
    budget = Budget("default", "budget", selector, 0)
    return judge(pod, Disruptions((budget,)), make_settings(), {}).treatment is Treatment.WAIT


@pytest.mark.parametrize(
    ("asked", "yes", "no"),
    [
        (Requirement("app", SelectorOperator.IN, ("web", "api")), {"app": "api"}, {"app": "db"}),
        (Requirement("app", SelectorOperator.NOT_IN, ("db",)), {"tier": "front"}, {"app": "db"}),
        (Requirement("app", SelectorOperator.EXISTS, ()), {"app": "db"}, {"tier": "front"}),
        (Requirement("app", SelectorOperator.DOES_NOT_EXIST, ()), {"tier": "front"}, {"app": "db"}),
    ],
    ids=lambda each: each.operator if isinstance(each, Requirement) else "",
)
def test_a_budget_is_found_by_whatever_its_selector_asks(
    asked: Requirement, yes: dict[str, str], no: dict[str, str]
) -> None:
    assert covered(LabelSelector((asked,)), **yes)
    assert not covered(LabelSelector((asked,)), **no)


def test_a_budget_covers_only_pods_that_have_all_its_labels() -> None:
    both = make_selector(app="web", tier="front")
    assert covered(both, app="web", tier="front")
    assert not covered(both, app="web")
    assert not covered(both, tier="front")
