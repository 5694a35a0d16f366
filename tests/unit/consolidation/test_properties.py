"""Whatever the cluster: a plan holds by rules written elsewhere, and comes out the same again."""

from __future__ import annotations

from random import Random

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.core.consolidation.evaluate import evaluate
from tests.builders import NOW
from tests.unit.consolidation.clusters import random_cluster, random_settings
from tests.verify_consolidation import verify_consolidation

SEEDS = st.integers(0, 2**32)


@settings(max_examples=250, deadline=None)
@given(SEEDS)
@example(246439576)  # a cheaper draft with fewer moves is forbidden
def test_every_plan_holds(seed: int) -> None:
    chance = Random(seed)
    wanted = random_settings(chance)
    snapshot, record = random_cluster(chance, wanted)
    report = evaluate(snapshot, record, wanted, NOW, "op")
    if report.plan is not None:
        assert verify_consolidation(report.plan, snapshot, wanted) == []
        rules = wanted.consolidation
        assert len(report.plan.moves) <= rules.moves_per_hour
        assert report.plan.savings_per_hour >= rules.min_savings_per_hour
    assert len(report.nodes) == len(snapshot.cluster.workers)


@settings(max_examples=40, deadline=None)
@given(SEEDS)
def test_the_same_input_gives_the_same_report(seed: int) -> None:
    chance = Random(seed)
    wanted = random_settings(chance)
    snapshot, record = random_cluster(chance, wanted)
    first = evaluate(snapshot, record, wanted, NOW, "op")
    assert evaluate(snapshot, record, wanted, NOW, "op") == first
