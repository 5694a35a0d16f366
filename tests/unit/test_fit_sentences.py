"""What is said of a pod that does not fit, or may not be evicted: each cause has a sentence."""

from __future__ import annotations

import pytest

from ebbtide.core.nodes.drain import Disruptions, judge
from ebbtide.model.pod import Budget, FitCause, Misfit, PlanStop, Pod, Scheduling, StopCause, Unplaced
from tests.builders import make_budget, make_pod, make_settings

SENTENCES = [
    (Misfit(FitCause.UNKNOWN), "the cause is not known"),
    (Misfit(FitCause.CPU, 1501, 1500), "needs 1501m CPU, 1500m free"),
    (Misfit(FitCause.MEMORY, 9000, 8192), "needs 9000 MiB memory, 8192 MiB free"),
    (Misfit(FitCause.SLOTS, 1), "has no pod slot left"),
    (Misfit(FitCause.EXTENDED, 1, 0, "nvidia.com/gpu"), "needs 1 nvidia.com/gpu, 0 free"),
    (
        Misfit(FitCause.UNSUPPORTED, about="minDomains"),
        "has minDomains, which Ebbtide does not understand",
    ),
    (Misfit(FitCause.TAINT, about="gpu"), "does not tolerate taint gpu"),
    (Misfit(FitCause.NODE_SELECTOR, about="disk={ssd}"), "asks for a node with disk={ssd}"),
    (Misfit(FitCause.NODE_AFFINITY), "its node affinity does not match"),
    (Misfit(FitCause.VOLUME_ZONE, about="a, b"), "has a volume in a, b"),
    (
        Misfit(FitCause.ANTI_AFFINITY, about="zone"),
        "anti-affinity keeps it away from a pod in the same zone",
    ),
    (
        Misfit(FitCause.ANTI_AFFINITY_OF_OTHERS, about="zone"),
        "the anti-affinity of a pod in the same zone keeps it away",
    ),
    (
        Misfit(FitCause.AFFINITY, about="zone"),
        "affinity asks for a pod in the same zone, and none is there",
    ),
    (
        Misfit(FitCause.NO_LABEL_FOR_AFFINITY, about="rack"),
        "the node has no label rack to be near anything",
    ),
    (Misfit(FitCause.NO_LABEL_FOR_SPREAD, about="rack"), "the node has no label rack to spread over"),
    (Misfit(FitCause.SPREAD, 2, 1, "a", least=0), "would be 2 in a, the least is 0, skew at most 1"),
    (Misfit(FitCause.UNSIZED), "nothing is known of what the pod needs"),
    (Misfit(FitCause.UNSIZED_FULL), "holds as many pods of unknown size as a node is taken to"),
    (Misfit(FitCause.NO_POOL), "no pool is configured"),
    (Misfit(FitCause.NO_SUCH_POOL, about="gpu"), "there is no node pool gpu"),
    (Misfit(FitCause.POOLS_FULL), "no pool may have another node"),
    (Misfit(FitCause.OTHER), "another cause"),
]


@pytest.mark.parametrize(("misfit", "says"), SENTENCES, ids=[str(each.cause) for each, _ in SENTENCES])
def test_what_does_not_fit_says_why(misfit: Misfit, says: str) -> None:
    assert misfit.says == says


def test_every_cause_has_a_sentence() -> None:
    assert {misfit.cause for misfit, _ in SENTENCES} == set(FitCause)
    assert FitCause("of a newer version") is FitCause.OTHER


def test_a_pod_that_nothing_takes_is_named() -> None:
    says = Unplaced("default/web", Misfit(FitCause.NO_POOL)).says
    assert says == "default/web fits no type of any pool: no pool is configured"


def test_what_ends_a_launch_says_so() -> None:
    assert [PlanStop(cause, "default/web").says for cause in StopCause] == [
        "every pool is at its maximum",
        "every pool is at its maximum or its limits",
        "default/web fits no further node that may be launched now",
    ]


WEB = make_pod("web-0", labels=(("app", "web"),))
PLAYED = make_pod(
    "mc-0", 500, 2048, annotations=(("ebbtide.dev/plan", "payperplay"), ("ebbtide.dev/players", "2"))
)


@pytest.mark.parametrize(
    ("pod", "budgets", "says"),
    [
        (WEB, [], "default/web-0 has not left yet"),
        (
            WEB,
            [make_budget(0, name="web-pdb", app="web")],
            "default/web-0 must wait: PodDisruptionBudget web-pdb allows no disruption now",
        ),
        (
            WEB,
            [make_budget(5, "b", app="web"), make_budget(5, "a", app="web")],
            "default/web-0 is covered by several budgets (a and b)",
        ),
        (
            make_pod("web-0", scheduling=Scheduling(unsupported=("pod affinity",))),
            [],
            "default/web-0 has pod affinity, which Ebbtide does not understand",
        ),
        (
            make_pod("web-0", priority_class="system-node-critical"),
            [],
            "default/web-0 has priority class system-node-critical",
        ),
        (PLAYED, [], "default/mc-0 has 2 players; only servers with 0 players are moved"),
    ],
)
def test_what_stands_in_the_way_of_an_eviction_is_said(pod: Pod, budgets: list[Budget], says: str) -> None:
    assert judge(pod, Disruptions(budgets), make_settings(), {}).says == says
