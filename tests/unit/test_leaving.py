"""Nodes that consolidation has emptied: noted, removed when idle for long enough, or forgotten."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ebbtide.core.consolidation.emptied_nodes import (
    GRACE_SECONDS,
    choose_leaving,
    keeps_mark,
    note_leaving,
    stable,
    track_leaving,
)
from ebbtide.core.nodes.orphans import stray_cordons
from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.operation import RemovalState
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import DrainBackoff, Emptied, EmptiedNode, Record, Refused
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Ownership, Snapshot
from tests.builders import (
    NOW,
    kept_by,
    make_daemon,
    make_instance,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_settings,
    make_snapshot,
    make_spot,
)

RULES = ConsolidationSettings(enabled=True)
SETTINGS = make_settings(min_workers=1, budget_fraction=0.5, consolidation=RULES)
MARK = Ownership("op", 5, cordoned=False)
NODES = (make_node("a1", owner=MARK), *make_nodes("a2", "b1", "b2"))


def leaving(*names: str, operation_id: str = "op", until: int = NOW + 60) -> tuple[EmptiedNode, ...]:
    return tuple(EmptiedNode(name, f"uid-{name}", f"i-{name}", operation_id, until) for name in names)


def record_of(*names: str, idle: int = 900, **overrides: object) -> Record:
    emptied = tuple(Emptied(f"uid-{name}", NOW - idle) for name in names)
    return make_record(**{"leaving": leaving(*names), "emptied": emptied, **overrides})


def chosen(
    snapshot: Snapshot, record: Record, settings: Settings = SETTINGS
) -> tuple[list[str], dict[str, tuple[NodeCause, str]]]:
    removals, refusals = choose_leaving(snapshot, record, settings, NOW)
    return [r.node_name for r in removals], kept_by(refusals)


def test_what_is_emptied_is_noted_with_a_time_to_be_gone_by() -> None:
    record = note_leaving(make_record(), [make_removal("a1")], "op", SETTINGS, NOW)
    assert record.leaving == leaving("a1", until=NOW + 900 + GRACE_SECONDS)


@pytest.mark.parametrize(
    ("nodes", "pods", "now", "stays"),
    [
        pytest.param(NODES, [make_daemon("a1")], NOW, True, id="still empty"),
        pytest.param(NODES, [make_pod(node_name="a1")], NOW, False, id="in use again"),
        pytest.param(NODES[1:], [], NOW, False, id="gone"),
        pytest.param((make_node("a1", uid="new"),), [], NOW, False, id="another node"),
        pytest.param(NODES, [], NOW + 60, False, id="out of time"),
    ],
)
def test_what_is_gone_in_use_again_or_out_of_time_is_forgotten(
    nodes: tuple[Node, ...], pods: list[object], now: int, stays: bool
) -> None:
    snapshot = make_snapshot(nodes, pods)  # type: ignore[arg-type]
    assert bool(track_leaving(snapshot, record_of("a1"), SETTINGS, now).leaving) is stays


@pytest.mark.parametrize(
    "changed",
    [{"consolidation": ConsolidationSettings()}, {"pools": (make_pool("other"),)}],
    ids=["consolidation is off", "its pool is gone"],
)
def test_what_nothing_will_remove_any_more_is_forgotten_at_once(changed: dict[str, object]) -> None:
    """As long as a node is leaving, no other is drained."""
    settings = make_settings(**{"consolidation": RULES, **changed})
    assert track_leaving(make_snapshot(NODES), record_of("a1"), settings, NOW).leaving == ()


def test_nothing_is_forgotten_by_a_look_that_was_not_whole() -> None:
    record = record_of("a1")
    assert track_leaving(make_snapshot((), problems=("half read",)), record, SETTINGS, NOW) is record
    assert track_leaving(make_snapshot(()), make_record(), SETTINGS, NOW) == make_record()


def test_its_mark_is_no_stray_one_until_it_is_forgotten() -> None:
    snapshot = make_snapshot(NODES)
    assert keeps_mark(NODES[0], record_of("a1"))
    assert not keeps_mark(NODES[1], record_of("a2"))
    assert stray_cordons(snapshot, record_of("a1")) == ()
    assert stray_cordons(snapshot, make_record(leaving=leaving("a1", operation_id="x"))) == (NODES[0],)
    assert stray_cordons(snapshot, record_of("b1")) == (NODES[0],)


def test_what_the_cloud_was_told_to_end_is_not_chosen_a_second_time() -> None:
    """Its removal was set aside since the cloud had not ended it in time. A second one could be taken back
    when a pod came, with the node uncordoned, while the first can still land."""
    refused = Refused("op", make_removal("a1", state=RemovalState.SET_ASIDE), NOW + 600)
    names, reasons = chosen(make_snapshot(NODES), record_of("a1", "b1", refused=(refused,)))
    assert names == ["b1"]
    assert reasons == {"a1": (NodeCause.GOING, "")}


def test_as_many_as_the_gates_allow_go_at_once() -> None:
    snapshot = make_snapshot(NODES)
    assert chosen(snapshot, record_of("a1", "b1")) == (["a1", "b1"], {})
    assert chosen(snapshot, record_of("a1", "b1", "b2")) == (
        ["a1", "b1"],
        {"b2": (NodeCause.CHECK, Gate.ZONE_KEPT)},
    )
    names, reasons = chosen(snapshot, record_of("a1", "b1"), replace(SETTINGS, budget_fraction=0.1))
    assert names == ["a1"]
    assert reasons["b1"] == (NodeCause.CHECK, Gate.WITHIN_BUDGET)
    names, reasons = chosen(snapshot, record_of("a1", "b1"), replace(SETTINGS, min_workers=3))
    assert reasons == {"b1": (NodeCause.CHECK, Gate.MINIMUM_KEPT)}


def test_the_last_node_stays() -> None:
    rules = replace(RULES, min_nodes=1)
    settings = replace(SETTINGS, min_workers=0, budget_fraction=1.0, consolidation=rules)
    one_zone = make_snapshot(make_nodes("a1", "a2"))
    assert chosen(one_zone, record_of("a1", "a2"), settings) == (
        ["a1"],
        {"a2": (NodeCause.CHECK, "nodes kept")},
    )


@pytest.mark.parametrize(
    ("change", "record", "cause", "about"),
    [
        ({"created_at": NOW - 1799}, {}, NodeCause.TOO_YOUNG, ""),
        ({"uid": "new"}, {}, NodeCause.CHANGED, ""),
        ({"pool": "old"}, {}, NodeCause.NO_POOL, "old"),
        ({"unschedulable": True, "owner": None}, {}, NodeCause.CORDONED, ""),
        ({"owner": Ownership("other", 1)}, {}, NodeCause.MARKED, "other"),
        ({}, {"idle": 899}, NodeCause.NOT_IDLE, ""),
        ({}, {"emptied": ()}, NodeCause.NOT_IDLE, ""),
        (
            {},
            {"rests": (DrainBackoff("i-b1", NOW, "x"), DrainBackoff("i-a1", NOW, "failed"))},
            NodeCause.BACKED_OFF,
            "",
        ),
    ],
)
def test_a_node_that_may_not_go_yet_says_why(
    change: dict[str, object], record: dict[str, object], cause: NodeCause, about: str
) -> None:
    snapshot = make_snapshot((make_node("a1", **change), *NODES[1:]))
    found = chosen(snapshot, record_of("a1", **record))  # type: ignore[arg-type]
    assert found == ([], {"a1": (cause, about)})


def test_exactly_old_and_idle_enough_is_enough() -> None:
    young = make_node("a1", created_at=NOW - 1800)
    assert chosen(make_snapshot((young, *NODES[1:])), record_of("a1", idle=900))[0] == ["a1"]


def test_our_own_cordon_and_that_of_the_same_consolidation_do_not_stand_in_the_way() -> None:
    node = make_node("a1", unschedulable=True, owner=Ownership("op", 5))
    assert chosen(make_snapshot((node, *NODES[1:])), record_of("a1"))[0] == ["a1"]


def test_a_node_that_left_or_runs_on_another_instance_is_skipped() -> None:
    assert chosen(make_snapshot(NODES[1:]), record_of("a1")) == ([], {"a1": (NodeCause.CHANGED, "")})
    other = make_snapshot(NODES, instances=[make_instance("i-zz", provider_id="sim://i-a1")])
    assert chosen(other, record_of("a1")) == ([], {"a1": (NodeCause.CHANGED, "")})
    assert chosen(make_snapshot(NODES, instances=[]), record_of("a1"))[0] == []


def test_only_nodes_of_one_consolidation_go_together() -> None:
    record = record_of("a1")
    record = replace(
        record,
        leaving=(*record.leaving, *leaving("b1", operation_id="later")),
        emptied=(*record.emptied, Emptied("uid-b1", NOW - 900)),
    )
    assert chosen(make_snapshot(NODES), record) == (["a1"], {})


def test_nothing_goes_while_pods_are_pending_or_a_notice_is_answered() -> None:
    def failed(snapshot: Snapshot, record: Record) -> list[str]:
        return [check.name for check in stable(snapshot, record, SETTINGS) if not check.passed]

    assert failed(make_snapshot(NODES), record_of("a1")) == []
    waiting = make_pod(phase=PodPhase.PENDING)
    assert failed(make_snapshot(NODES, [waiting, make_daemon("a1")]), record_of("a1")) == ["no pod pending"]
    spots = make_record(spots=(make_spot("b1"),), paused=True)
    assert failed(make_snapshot(NODES), spots) == ["not paused", "no spot notice open"]
