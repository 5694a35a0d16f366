"""Where a pod may run: exact where understood, named where not."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.model.pod import AntiAffinity, LabelSelector, PodNearby, Requirement, SelectorOperator, Spread
from tests.integration.kube.objects import Json
from tests.integration.kube.values import pod_of

APP = Requirement("app", SelectorOperator.IN, ("web",))
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"
MATCH_WEB = {"matchLabels": {"app": "web"}}


def test_hard_rules_are_read_and_soft_ones_skipped() -> None:
    soft = {"weight": 1, "preference": {}}
    affinity = {
        "nodeAffinity": {
            REQUIRED: {"nodeSelectorTerms": [{"matchExpressions": [{"key": "d", "operator": "Exists"}]}]},
            "preferredDuringSchedulingIgnoredDuringExecution": [soft],
        },
        "podAntiAffinity": {
            REQUIRED: [{"topologyKey": "kubernetes.io/hostname", "labelSelector": MATCH_WEB}]
        },
    }
    spread = [
        {
            "topologyKey": "zone",
            "maxSkew": 1,
            "whenUnsatisfiable": "DoNotSchedule",
            "labelSelector": MATCH_WEB,
        },
        {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "ScheduleAnyway"},
    ]
    rules = pod_of(
        spec={"affinity": affinity, "topologySpreadConstraints": spread, "nodeSelector": {"b": "2", "a": "1"}}
    ).scheduling
    assert rules.node_selector == (("a", "1"), ("b", "2"))
    assert rules.node_affinity == ((Requirement("d", SelectorOperator.EXISTS),),)
    assert rules.anti_affinity == (AntiAffinity("kubernetes.io/hostname", LabelSelector((APP,))),)
    assert rules.spread == (Spread("zone", 1, LabelSelector((APP,))),)
    assert not rules.unsupported


def test_label_keys_of_a_rule_become_the_pods_own_labels() -> None:
    rule = {"topologyKey": "zone", "maxSkew": 1, "whenUnsatisfiable": "DoNotSchedule", "labelSelector": {}}
    rules = pod_of(
        spec={"topologySpreadConstraints": [{**rule, "matchLabelKeys": ["app", "none"]}]}
    ).scheduling
    assert rules.spread == (Spread("zone", 1, LabelSelector((APP,))),)


def _near(**term: Any) -> Json:
    return {"affinity": {"podAntiAffinity": {REQUIRED: [{"topologyKey": "z", "labelSelector": {}, **term}]}}}


def _spread(**rule: Any) -> Json:
    whole = {
        "topologyKey": "z",
        "maxSkew": 1,
        "whenUnsatisfiable": "DoNotSchedule",
        "labelSelector": {},
        **rule,
    }
    return {"topologySpreadConstraints": [whole]}


@pytest.mark.parametrize(
    ("spec", "named"),
    [
        ({"affinity": {"podAffinity": {REQUIRED: [{"topologyKey": "z"}]}}}, "affinity without a selector"),
        (_near(namespaceSelector={}), "namespaceSelector"),
        (_near(namespaces=["other"]), "across namespaces"),
        (_near(somethingNew=True), "somethingNew"),
        (_spread(minDomains=3), "minDomains"),
        (_spread(nodeTaintsPolicy="Honor"), "nodeTaintsPolicy Honor"),
        (_spread(nodeAffinityPolicy="Ignore"), "nodeAffinityPolicy Ignore"),
        (_spread(whenUnsatisfiable="Perhaps"), "topology spread Perhaps"),
        ({"affinity": {"newAffinity": {}}}, "newAffinity"),
        ({"schedulerName": "volcano"}, "volcano"),
        ({"schedulingGates": [{"name": "g"}]}, "scheduling gates"),
        ({"resourceClaims": [{"name": "gpu"}]}, "resource claims"),
        ({"containers": [{"ports": [{"hostPort": 80}]}]}, "host ports"),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["a"]}]}]}}}},
            "node affinity by field",
        ),
        (
            {"affinity": {"nodeAffinity": {REQUIRED: {"nodeSelectorTerms": [
                {"matchExpressions": [{"key": "k", "operator": "Near", "values": ["a"]}]}]}}}},
            "operator Near",
        ),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_named(spec: Json, named: str) -> None:
    unsupported = pod_of(spec=spec).scheduling.unsupported
    assert len(unsupported) == 1
    assert named in unsupported[0]


def test_required_pod_affinity_is_read_and_what_it_cannot_say_is_named() -> None:
    term = {"topologyKey": "kubernetes.io/hostname", "labelSelector": {"matchLabels": {"app": "web"}}}
    near = pod_of(spec={"affinity": {"podAffinity": {REQUIRED: [term]}}}).scheduling
    assert near.affinity == (PodNearby("kubernetes.io/hostname", LabelSelector((APP,))),)
    assert near.unsupported == ()
    far = pod_of(spec={"affinity": {"podAffinity": {REQUIRED: [{**term, "namespaces": ["other"]}]}}})
    assert far.scheduling.unsupported == ("pod affinity across namespaces",)
