"""Order of the actions, what a crash left behind, and what a decision says of itself."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide, operation_id
from ebbtide.model.decision import Action, Check, Decision
from ebbtide.model.operation import RemovalState, SlotState
from ebbtide.model.record import Missing, Record
from ebbtide.model.snapshot import InstanceState, Market, Ownership, Snapshot
from tests.builders import (
    NOW,
    make_daemon,
    make_instance,
    make_instance_of,
    make_node,
    make_nodes,
    make_pool,
    make_record,
    make_settings,
    make_snapshot,
    values_of,
)

NODES = make_nodes("a1", "b1")
LONG_AGO = NOW - 900


def decided(snapshot: Snapshot, record: Record, **settings: Any) -> Decision:
    return decide(snapshot, record, make_settings(**settings), NOW, "d1")


def overdue(*ids: str, since: int = LONG_AGO, **overrides: Any) -> Record:
    return make_record(orphans=tuple(Missing(id, since) for id in ids), **overrides)


def why_not(decision: Decision, action: Action) -> Check:
    check = next(v.failed for v in decision.verdicts if v.action is action)
    assert check is not None
    return check


LONE = make_instance("i-lone", key="op-0", zone="b", market=Market.SPOT, launched_at=NOW - 5000)
WITH_LONE = make_snapshot(NODES, extra_instances=[LONE])


def test_an_instance_that_a_crash_left_behind_is_adopted_as_a_launched_slot() -> None:
    decision = decided(WITH_LONE, overdue("i-lone"))
    assert decision.action is Action.ADOPT
    (slot,) = decision.slots
    assert (slot.key, slot.instance_id, slot.state) == ("op-0", "i-lone", SlotState.LAUNCHED)
    assert (slot.zone, slot.market, slot.since) == ("b", Market.SPOT, NOW - 5000)


@pytest.mark.parametrize(
    ("overrides", "adopted"),
    [
        ({"launch_hash": "theirs"}, False),
        ({"pool": "gpu"}, False),
        ({"launch_hash": "ours"}, True),
        ({}, True),
    ],
)
def test_a_worker_of_another_cluster_of_the_same_name_is_never_adopted(
    overrides: dict[str, Any], adopted: bool
) -> None:
    """Adopted, it would be terminated, since it never joins here. What was launched before the configurations
    were noted is taken for ours."""
    other = replace(LONE, **overrides)
    settings = make_settings(pools=(make_pool(launch_hash="ours"),))
    snapshot = make_snapshot(NODES, extra_instances=[other])
    decision = decide(snapshot, overdue("i-lone"), settings, NOW, "d1")
    assert (decision.action is Action.ADOPT) is adopted


def test_the_clock_of_an_adopted_instance_never_starts_in_the_future() -> None:
    odd = make_instance("i-odd", key="op-3", launched_at=NOW + 5000)
    (slot,) = decided(make_snapshot(NODES, extra_instances=[odd]), overdue("i-odd")).slots
    assert (slot.key, slot.since) == ("op-3", NOW)


def test_an_instance_that_we_did_not_launch_is_never_adopted() -> None:
    foreign = make_instance("i-odd", key="")
    decision = decided(make_snapshot(NODES, extra_instances=[foreign]), overdue("i-odd"))
    assert (decision.action, why_not(decision, Action.ADOPT).name) == (Action.NOTHING, "orphan instance")


def test_a_lone_instance_is_left_alone_during_its_grace() -> None:
    decision = decided(WITH_LONE, overdue("i-lone", since=NOW - 899))
    assert (decision.action, why_not(decision, Action.ADOPT).name) == (Action.NOTHING, "orphan instance")


@pytest.mark.parametrize(
    ("gate", "snapshot", "record"),
    [
        ("observation complete", replace(WITH_LONE, problems=("?",)), overdue("i-lone")),
        ("plausible", WITH_LONE, overdue("i-lone", worker_count=9)),
        ("not paused", WITH_LONE, overdue("i-lone", paused=True)),
        ("workers matched", make_snapshot(NODES, instances=[LONE]), overdue("i-lone")),
    ],
)
def test_an_instance_is_adopted_only_behind_the_gates_because_it_will_be_terminated_unless_it_joins(
    gate: str, snapshot: Snapshot, record: Record
) -> None:
    assert why_not(decided(snapshot, record), Action.ADOPT).name == gate


DEAD = make_node("c1", ready=False, instance_id="i-label")
WITH_DEAD = make_snapshot([*NODES, DEAD], instances=[make_instance_of(node) for node in NODES])


def test_the_node_object_of_a_vanished_instance_is_forgotten() -> None:
    decision = decided(WITH_DEAD, overdue("uid-c1"))
    assert decision.action is Action.FORGET
    (removal,) = decision.removals
    assert (removal.instance_id, removal.node_name, removal.node_uid) == ("i-label", "c1", "uid-c1")


def test_a_dead_node_is_known_by_its_instance_or_by_the_label_set_at_join() -> None:
    gone = make_instance_of(DEAD, state=InstanceState.GONE)
    listed = make_snapshot([*NODES, DEAD], extra_instances=[], instances=[*WITH_DEAD.instances, gone])
    assert decided(listed, overdue("uid-c1")).removals[0].instance_id == "i-c1"
    assert decided(WITH_DEAD, overdue("uid-c1")).removals[0].instance_id == "i-label"


def test_a_stray_cordon_is_lifted_also_where_only_the_provider_id_tells_the_instance() -> None:
    stray = make_node("c9", unschedulable=True, owner=Ownership("old", 4))
    seen = make_snapshot([*NODES, stray], instances=make_snapshot(NODES).instances)
    (removal,) = decided(seen, overdue("cordon:uid-c9")).removals
    assert (removal.instance_id, removal.state) == (stray.provider_id, RemovalState.RELEASING)


def test_a_dead_node_is_left_alone_during_its_grace() -> None:
    decision = decided(WITH_DEAD, overdue("uid-c1", since=NOW))
    assert (decision.action, why_not(decision, Action.FORGET).name) == (Action.NOTHING, "dead node")


@pytest.mark.parametrize(
    ("gate", "snapshot", "record"),
    [
        ("dead node", WITH_DEAD, overdue("uid-c1", worker_count=9)),
        ("not paused", WITH_DEAD, overdue("uid-c1", paused=True)),
        ("cloud lists instances", replace(WITH_DEAD, instances=()), overdue("uid-c1")),
    ],
)
def test_a_node_is_forgotten_only_behind_the_gates_of_a_removal(
    gate: str, snapshot: Snapshot, record: Record
) -> None:
    assert why_not(decided(snapshot, record), Action.FORGET).name == gate


def test_after_a_mass_loss_all_that_is_gone_is_forgotten_at_once_and_before_anything_is_launched() -> None:
    """They would keep the health gate shut forever, and machines that get their names could not join."""
    dead = make_nodes("c1", "c2", "c3", "c4", ready=False)
    gone = [make_instance_of(node, state=InstanceState.GONE) for node in dead]
    seen = make_snapshot([*NODES, *dead], instances=[*WITH_DEAD.instances, *gone])
    lost = [node.uid for node in dead]
    record = overdue(*lost, since=NOW - 60, worker_count=20, pending_since=NOW - 600)
    decision = decided(seen, record)
    assert decision.action is Action.FORGET
    assert [removal.node_uid for removal in decision.removals] == lost
    assert decided(seen, overdue(*lost, since=NOW - 59)).action is not Action.FORGET


def cordoned(name: str, operation: str, **overrides: Any) -> Any:
    return make_node(name, unschedulable=True, owner=Ownership(operation, 3), **overrides)


def test_cordons_of_one_closed_operation_are_released_together() -> None:
    nodes = [cordoned("a1", "op-1"), cordoned("b1", "op-1", provider_id=""), cordoned("c1", "op-2")]
    record = overdue("cordon:uid-a1", "cordon:uid-b1", "cordon:uid-c1")
    decision = decided(make_snapshot(nodes), record)
    assert decision.action is Action.RELEASE
    assert [(r.node_name, r.instance_id, r.state) for r in decision.removals] == [
        ("a1", "i-a1", RemovalState.RELEASING),
        ("b1", "", RemovalState.RELEASING),
    ]


def test_a_stray_cordon_is_left_alone_during_its_grace() -> None:
    decision = decided(make_snapshot([cordoned("a1", "op")]), overdue("cordon:uid-a1", since=NOW - 1))
    assert (decision.action, why_not(decision, Action.RELEASE).name) == (Action.NOTHING, "stray cordon")


def test_a_release_is_no_removal_and_is_not_stopped_by_the_pause_switch() -> None:
    snapshot = make_snapshot([cordoned("a1", "op")])
    assert decided(snapshot, overdue("cordon:uid-a1", paused=True)).action is Action.RELEASE


def test_what_people_wait_for_comes_before_what_a_crash_left_behind() -> None:
    hot = replace(WITH_LONE, cpu=replace(WITH_LONE.cpu, value=0.95))
    assert decided(hot, overdue("i-lone")).action is Action.SCALE_UP


def test_what_a_crash_left_behind_comes_before_any_removal() -> None:
    decision = decided(WITH_LONE, overdue("i-lone", idle_since=NOW - 900))
    assert decision.action is Action.ADOPT
    assert Action.SCALE_DOWN not in [verdict.action for verdict in decision.verdicts]


def test_scaling_up_comes_before_scaling_down() -> None:
    settings = {"cpu_up": 0.05, "cpu_down": 0.30}
    record = make_record(idle_since=NOW - 900)
    assert decided(make_snapshot(make_nodes("a1", "a2", "a3")), record, **settings).action is Action.SCALE_UP


def test_doing_nothing_is_explained_for_both_directions() -> None:
    decision = decided(make_snapshot(NODES, cpu=0.5), make_record())
    assert decision.action is Action.NOTHING
    assert values_of(why_not(decision, Action.SCALE_UP)) == ("pressure", False, 0.5, 0.7, "")
    assert values_of(why_not(decision, Action.SCALE_DOWN)) == ("CPU low", False, 0.5, 0.3, "")
    assert len(decision.verdicts) == 9


def test_the_last_worker_stays_even_where_the_minimum_is_zero() -> None:
    """Reading 13: always at least one node."""
    record = make_record(idle_since=NOW - 600)
    decision = decided(make_snapshot(make_nodes("a1")), record, min_workers=0)
    assert why_not(decision, Action.SCALE_DOWN).name == "load fits the rest"


def test_a_decision_that_only_repeats_the_last_one_has_the_same_key_whatever_its_numbers() -> None:
    first = decided(make_snapshot(NODES, cpu=0.5), make_record())
    again = decided(make_snapshot(NODES, cpu=0.6), make_record())
    news = decided(make_snapshot(NODES, cpu=None), make_record())
    assert first.key == again.key != news.key
    assert first.key.startswith("nothing|forget:dead node|scale_up:pressure|")


def test_the_key_of_a_decision_that_acts_says_so() -> None:
    assert decided(WITH_LONE, overdue("i-lone")).key.startswith("adopt|forget:dead node|scale_up:pressure|")


def test_an_operation_is_named_after_the_time_and_the_decision_that_began_it() -> None:
    assert operation_id(NOW, "req-xyz") == f"{NOW}-req-xyz"


def test_nothing_is_decided_about_an_empty_cluster() -> None:
    assert decided(make_snapshot(), make_record()).action is Action.NOTHING
    assert decided(make_snapshot(pods=[make_daemon("")]), make_record()).action is Action.NOTHING
