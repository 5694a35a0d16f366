"""Whatever is seen: a decision keeps minimum, maximum, zones and budget, and can be computed again."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import msgspec
from hypothesis import HealthCheck, given
from hypothesis import settings as trials
from hypothesis import strategies as st

from ebbtide.core.nodes import gates
from ebbtide.core.nodes.capacity import standing, total
from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.orphans import track_orphans
from ebbtide.core.nodes.timers import track
from ebbtide.engine.journal import decision_entry, read_decision, read_inputs
from ebbtide.model.decision import Action, Decision
from ebbtide.model.events import Inputs
from ebbtide.model.operation import ScaleDown
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import DrainBackoff, Missing, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import (
    A_DAY_AGO,
    NOW,
    lanes,
    make_budget,
    make_daemon,
    make_instance,
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
    make_type,
)

Case = tuple[Snapshot, Record, Settings]

ANY_CASE = trials(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    zones = draw(st.lists(st.sampled_from("abc"), max_size=24) | st.just("aaabbbbccc") | st.just("aaab" * 8))
    return [
        make_node(
            f"{zone}{number}",
            created_at=A_DAY_AGO + draw(st.integers(-5, 5)),
            ready=draw(st.integers(0, 19)) > 0,
            unschedulable=draw(st.integers(0, 19)) == 19,
            pool=draw(st.sampled_from(["workers", "workers", "workers", "gpu", ""])),
        )
        for number, zone in enumerate(zones)
    ]


@st.composite
def pods(draw: st.DrawFn, cluster: list[Node], queue: int) -> list[Pod]:
    found = [make_daemon(node.name) for node in cluster]
    for number in range(draw(st.integers(0, 20)) if cluster else 0):
        found.append(
            make_pod(
                f"web-{number}",
                draw(st.integers(0, 3000)),
                node_name=draw(st.sampled_from(cluster)).name,
                controller=draw(st.sampled_from(["ReplicaSet", "ReplicaSet", "ReplicaSet", ""])),
                labels=(("app", draw(st.sampled_from(["web", "db"]))),),
            )
        )
    for number in range(queue):
        found.append(make_pod(f"wait-{number}", draw(st.integers(0, 9000)), phase=PodPhase.PENDING))
    return found


@st.composite
def cases(draw: st.DrawFn) -> Case:
    """Half of them of a calm cluster, where a scale-down is likely."""
    calm = draw(st.booleans())
    cluster = draw(nodes())
    snapshot = make_snapshot(
        cluster,
        draw(pods(cluster, 0 if calm else draw(st.sampled_from([0, 1, 3, 12])))),
        budgets=[make_budget(draw(st.integers(0, 2)), app="web")],
        extra_instances=[make_instance(f"i-x{n}") for n in range(draw(st.integers(0, 2)))],
        cpu=draw(st.sampled_from([0.0, 0.1, 0.29] if calm else [None, 0.1, 0.3, 0.7, 0.9])),
    )
    record = make_record(
        idle_since=NOW - (600 if calm else draw(st.sampled_from([0, 599, 600]))),
        pending_since=NOW - draw(st.sampled_from([0, 179, 180])),
        short_since=0 if calm else draw(st.sampled_from([0, NOW - 300])),
        last_scale_at=draw(st.sampled_from([0, NOW - 400, NOW - 700])),
        worker_count=0 if calm else draw(st.integers(0, 40)),
        rests=tuple(
            DrainBackoff(f"i-{n.name}", NOW + 9, "rests") for n in cluster[:1] if draw(st.booleans())
        ),
        orphans=() if calm else tuple(Missing(id, NOW - 900) for id in draw(orphan_ids)),
        spots=() if calm else draw(st.sampled_from([(), (make_spot("a0"),)])),
        set_aside=None if calm else draw(st.sampled_from(SET_ASIDE)),
    )
    settings = make_settings(
        pools=(
            make_pool(zones=("a", "b", "c"), types=(make_type(), make_type("big", 8000, 16384, "0.09"))),
            make_pool("gpu", min_workers=draw(st.integers(0, 2)), max_workers=3),
        ),
        min_workers=draw(st.integers(0, 5)),
        max_workers=draw(st.integers(5, 40)),
        max_batch_up=draw(st.integers(1, 4)),
        max_batch_down=draw(st.integers(1, 4)),
    )
    return snapshot, record, settings


SET_ASIDE = (None, make_scale_down(make_removal("b1"), id="old"), make_scale_up(make_slot(), id="old"))
orphan_ids = st.sets(st.sampled_from(["i-x0", "i-x1", "uid-a0"]))


def decided(case: Case) -> Decision:
    snapshot, record, settings = case
    return decide(snapshot, record, settings, NOW, "d1")


@ANY_CASE
@given(cases())
def test_no_removal_ever_breaks_the_minimum_a_zone_or_the_budget(case: Case) -> None:
    snapshot, record, settings = case
    decision = decided(case)
    if decision.action is not Action.SCALE_DOWN:
        return
    names = {removal.node_name for removal in decision.removals}
    stand = standing(snapshot, record)
    left = [node for node in stand if node.name not in names]
    assert names <= {node.name for node in stand}
    assert len(left) >= max(1, settings.min_workers)
    assert 1 <= len(names) <= max(1, len(snapshot.cluster.workers) // 10)
    assert len(names) <= settings.max_batch_down
    if len({node.zone for node in snapshot.cluster.workers}) > 1:
        assert {node.zone for node in left} == {node.zone for node in stand}
    in_pool = Counter(node.pool for node in left)
    for pool in settings.pools:
        assert in_pool[pool.name] >= pool.min_workers or not any(
            removal.pool == pool.name for removal in decision.removals
        )


@ANY_CASE
@given(cases())
def test_nodes_are_removed_only_from_an_idle_cluster_that_was_seen_whole(case: Case) -> None:
    snapshot, record, settings = case
    if decided(case).action is Action.SCALE_DOWN:
        assert snapshot.cpu.value is not None
        assert snapshot.cpu.value < settings.cpu_down
        assert not snapshot.cluster.waiting_pods
        assert gates.plausible(snapshot, record, settings).passed
        assert decided((replace(snapshot, problems=("?",)), record, settings)).action is Action.NOTHING


@ANY_CASE
@given(cases())
def test_no_launch_ever_passes_the_maximum_of_the_cluster_or_of_a_pool(case: Case) -> None:
    snapshot, record, settings = case
    decision = decided(case)
    if decision.action is Action.SCALE_UP:
        assert 1 <= len(decision.slots) <= settings.max_batch_up
        assert total(snapshot, record) + len(decision.slots) <= settings.max_workers
        gpus = sum(slot.pool == "gpu" for slot in decision.slots)
        assert not gpus or total(snapshot, record, "gpu") + gpus <= 3


@ANY_CASE
@given(cases())
def test_every_action_not_taken_has_a_sentence_and_no_check_follows_one_that_failed(case: Case) -> None:
    decision = decided(case)
    assert decision.reason
    for verdict in decision.verdicts:
        assert all(check.says for check in verdict.checks)
        assert all(check.passed for check in verdict.checks[:-1])
        assert (verdict.failed is None) == (verdict.action is decision.action)


@ANY_CASE
@given(cases())
def test_a_decision_computed_again_from_its_stored_inputs_is_the_same(case: Case) -> None:
    snapshot, record, settings = case
    record = track_orphans(snapshot, track(snapshot, record, settings, NOW)[0], settings, NOW)
    decision = decide(snapshot, record, settings, NOW, "d1")
    entry = decision_entry(decision, Inputs(snapshot, record, settings, NOW))
    stored = replace(entry, data=msgspec.json.decode(msgspec.json.encode(entry.data)))
    inputs = read_inputs(stored)
    assert (inputs.snapshot, inputs.record, inputs.settings) == (snapshot, record, settings)
    assert decide(inputs.snapshot, inputs.record, inputs.settings, inputs.now, "d1") == decision
    assert read_decision(stored) == decision


@ANY_CASE
@given(cases())
def test_only_launches_are_decided_while_nodes_are_removed(case: Case) -> None:
    snapshot, record, settings = case
    operation: ScaleDown = make_scale_down()
    decision = decided((snapshot, replace(record, **lanes(operation)), settings))
    assert decision.action in (Action.NOTHING, Action.SCALE_UP, Action.ADOPT)


@ANY_CASE
@given(cases())
def test_no_node_is_chosen_to_go_while_nodes_are_launched(case: Case) -> None:
    snapshot, record, settings = case
    decision = decided((snapshot, replace(record, **lanes(make_scale_up())), settings))
    assert decision.action not in (Action.SCALE_DOWN, Action.CONSOLIDATE)
