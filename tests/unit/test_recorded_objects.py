"""What the pods of a cluster say of their workloads, as a story can say it; and what it cannot."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.model.pod import (
    AntiAffinity,
    Budget,
    LabelSelector,
    Pod,
    PodNearby,
    PodPhase,
    Requirement,
    Scheduling,
    SelectorOperator,
    Spread,
    TaintEffect,
    Toleration,
)
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView
from ebbtide.simulator.recording.objects import (
    Key,
    PodRules,
    budgets_by_workload,
    guarded,
    names_of,
    pods_by_workload,
    rules_by_workload,
    rules_of,
    workload_of,
)
from tests.builders import make_node, make_pod

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
WEB = ("Deployment", "default", "web")


def of_label(key: str, *values: str) -> Requirement:
    return Requirement(key, SelectorOperator.IN, values)


OWN = LabelSelector((of_label("app", "web"),))


def web(scheduling: Scheduling | None = None, **fields: Any) -> Pod:
    labels = (("app", "web"),)
    rules = scheduling or Scheduling()
    given: dict[str, Any] = {"name": "web-5d8f-abcde", "labels": labels, "scheduling": rules}
    return make_pod(**(given | fields))


def settings() -> Settings:
    pool = "{name: general, types: [cpx32], zones: [a, b], labels: {disk: ssd}}"
    return build_config(parse_document(f"pools: [{pool}]", "ebbtide.yaml"), {}).settings


def rules_in(view: ClusterView) -> dict[Key, PodRules]:
    return rules_by_workload(pods_by_workload(view), view, settings())


@pytest.mark.parametrize(
    ("pod", "workload"),
    [
        (web(), WEB),
        (web(name="db-0", controller="StatefulSet"), ("StatefulSet", "default", "db")),
        (web(name="agent-x7k2p", controller="DaemonSet"), ("DaemonSet", "default", "agent")),
        (web(name="report-29384710-x7k2p", controller="Job"), ("Job", "default", "report")),
        (web(name="import-x7k2p", controller="Job"), ("Job", "default", "import")),
        (web(name="solo", controller="Workflow"), ("Workflow", "default", "solo")),
        (web(name="bare", controller=""), None),
        (web(name="etcd-cp", controller="Node", mirror=True), None),
    ],
)  # fmt: skip
def test_the_workload_of_a_pod_is_known_by_its_controller_and_name(pod: Pod, workload: Any) -> None:
    assert workload_of(pod) == workload


def test_all_that_a_story_can_say_of_a_pod_is_kept() -> None:
    rules = Scheduling(
        node_selector=(("disk", "ssd"),),
        node_affinity=((of_label("arch", "amd64"),),),
        tolerations=(
            Toleration("spot", exists=True, effect=TaintEffect.NO_SCHEDULE),
            Toleration("a", value="b"),
        ),
        spread=(Spread(ZONE, 1, OWN),),
        anti_affinity=(AntiAffinity(HOST, OWN),),
        volume_zones=("a",),
    )
    found = rules_of(
        web(
            rules,
            local_storage=True,
            priority_class="high",
            safe_to_evict=False,
            do_not_disrupt=True,
            annotations=(("ebbtide.dev/plan", "reserved"), ("password", "hunter2")),
        )
    )
    assert found.beyond == ()
    assert found.written == {
        "node_selector": {"disk": "ssd", "arch": "amd64"},
        "tolerations": [
            {"key": "spot", "operator": "Exists", "value": "", "effect": "NoSchedule"},
            {"key": "a", "operator": "Equal", "value": "b", "effect": None},
        ],
        "annotations": {
            "ebbtide.dev/plan": "reserved",
            "ebbtide.dev/safe-to-evict": "false",
            "ebbtide.dev/do-not-disrupt": "true",
        },
        "local_storage": True,
        "priority_class": "high",
        "volume": True,
        "spread": "zone",
        "anti_affinity": "host",
    }


@pytest.mark.parametrize(
    "rules",
    [
        Scheduling(node_affinity=((of_label("arch", "amd64", "arm64"),),)),
        Scheduling(node_affinity=((of_label("arch", "amd64"),), (of_label("disk", "ssd"),))),
        Scheduling(node_affinity=((Requirement("gpu", SelectorOperator.EXISTS),),)),
        Scheduling(spread=(Spread(ZONE, 3, OWN),)),
        Scheduling(spread=(Spread("rack", 1, OWN),)),
        Scheduling(spread=(Spread(ZONE, 1, LabelSelector((of_label("app", "other"),))),)),
        Scheduling(anti_affinity=(AntiAffinity("rack", OWN),)),
        Scheduling(anti_affinity=(AntiAffinity(HOST, LabelSelector((of_label("app", "other"),))),)),
        Scheduling(affinity=(PodNearby(HOST, OWN),)),
        Scheduling(unsupported=("a scheduling gate",)),
    ],
)
def test_what_a_story_cannot_say_is_named_and_nothing_is_made_up_for_it(rules: Scheduling) -> None:
    found = rules_of(web(rules))
    assert len(found.beyond) == 1
    assert found.written == {}


def test_the_second_spread_of_a_pod_is_named_and_the_first_is_kept() -> None:
    found = rules_of(web(Scheduling(spread=(Spread(ZONE, 1, OWN), Spread(HOST, 1, OWN)))))
    assert (found.written, len(found.beyond)) == ({"spread": "zone"}, 1)


def test_the_newest_pod_speaks_for_its_workload_and_finished_ones_do_not() -> None:
    old = web(name="web-1a-aaaaa", created_at=1)
    new = web(Scheduling(node_selector=(("disk", "ssd"),)), name="web-2b-aaaaa", created_at=2)
    done = web(name="report-29384710-aaaaa", controller="Job", phase=PodPhase.SUCCEEDED)
    found = rules_in(ClusterView(pods=(new, old, done)))
    assert {key: rules.written for key, rules in found.items()} == {WEB: {"node_selector": {"disk": "ssd"}}}


def test_a_workload_that_no_pool_could_take_and_that_runs_elsewhere_is_left_out() -> None:
    gpu = web(Scheduling(node_selector=(("gpu", "yes"),)), node_name="other")
    (found,) = rules_in(ClusterView((make_node("other", pool=""),), (gpu,))).values()
    assert found.elsewhere


def test_a_workload_that_runs_on_our_nodes_by_labels_of_theirs_is_kept_without_its_selector() -> None:
    labelled = web(Scheduling(node_selector=(("rack", "7"),), volume_zones=("a",)), node_name="a1")
    view = ClusterView((make_node("a1", pool="general"),), (labelled,))
    (found,) = rules_in(view).values()
    assert (found.elsewhere, found.written, len(found.beyond)) == (False, {"volume": True}, 1)


def test_budgets_are_matched_by_their_selectors_and_not_by_their_names() -> None:
    budgets = (
        Budget("default", "something", OWN, 2),
        Budget("default", "other", LabelSelector((of_label("app", "db"),)), 1),
        Budget("elsewhere", "web", OWN, 3),
    )
    view = ClusterView((), (web(), web(name="agent-a", controller="DaemonSet")), budgets)
    assert budgets_by_workload(pods_by_workload(view), view.budgets) == {WEB: {"something": 2}}


def test_several_budgets_of_a_workload_are_all_kept() -> None:
    assert guarded([]) == {}
    assert guarded([1]) == {"pdb": {"max_unavailable": 1}}
    assert guarded([1, 0]) == {"pdb": {"max_unavailable": 1}, "more_pdbs": [{"max_unavailable": 0}]}


def test_workloads_of_two_kinds_with_one_name_have_two_names() -> None:
    keys = [("Job", "shop", "backup"), ("Deployment", "shop", "backup"), ("Job", "shop", "report")]
    assert names_of(keys) == {
        ("Deployment", "shop", "backup"): "shop/backup",
        ("Job", "shop", "backup"): "shop/backup-job",
        ("Job", "shop", "report"): "shop/report",
    }
