"""Demand over the last while: a rise holds back the removal of nodes with pods, a fall does not."""

from __future__ import annotations

import pytest

from ebbtide.core.consolidation.evaluate import evaluate
from ebbtide.core.consolidation.pace import PARTS, settled, track_demand
from ebbtide.core.nodes.timers import track
from ebbtide.core.nodes.underused import choose_underused
from ebbtide.model.check import NodeCause
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import PodPhase
from ebbtide.model.record import DemandNote, Emptied
from ebbtide.model.settings import JudgedBy, Settings
from tests.builders import (
    NOW,
    kept_by,
    make_nodes,
    make_pod,
    make_record,
    make_settings,
    make_snapshot,
    values_of,
)

HOUR = 3600
PART = HOUR // PARTS


def an_hour(**overrides: object) -> Settings:
    return make_settings(settled_seconds=HOUR, settled_rise=0.10, **overrides)


def seen(*cpus: int, memory_mib: int = 1000) -> tuple[DemandNote, ...]:
    first = NOW - PART * len(cpus)
    return tuple(DemandNote(first + PART * number, cpu, memory_mib) for number, cpu in enumerate(cpus))


def test_what_is_asked_for_is_what_runs_or_is_pending_and_is_not_tied_to_a_node() -> None:
    pods = [
        make_pod("runs", 500, 100, node_name="a1"),
        make_pod("pending", 300, 50, phase=PodPhase.PENDING),
        make_pod("agent", 999, 999, controller="DaemonSet", node_name="a1"),
        make_pod("ends", 999, 999, node_name="a1", terminating=True),
        make_pod("ended", 999, 999, node_name="a1", phase=PodPhase.SUCCEEDED),
    ]
    snapshot = make_snapshot(make_nodes("a1"), pods)
    assert track_demand(snapshot, (), an_hour(), NOW) == (DemandNote(NOW, 800, 150),)
    assert track(snapshot, make_record(), an_hour(), NOW)[0].demand == (DemandNote(NOW, 800, 150),)
    assert track_demand(snapshot, seen(1), make_settings(), NOW) == (), "no time is set"


def test_each_part_of_the_time_keeps_its_highest_and_what_is_older_is_forgotten() -> None:
    snapshot = make_snapshot(make_nodes("a1"), [make_pod("runs", 500, 100, node_name="a1")])
    recent = DemandNote(NOW - PART + 1, 700, 50)
    assert track_demand(snapshot, (recent,), an_hour(), NOW) == (DemandNote(recent.at, 700, 100),)
    before = DemandNote(NOW - PART, 700, 50)
    assert track_demand(snapshot, (before,), an_hour(), NOW) == (before, DemandNote(NOW, 500, 100))
    assert track_demand(snapshot, (DemandNote(NOW - HOUR, 9, 9),), an_hour(), NOW) == (
        DemandNote(NOW, 500, 100),
    )
    ahead = DemandNote(NOW + 5, 9000, 9000)
    assert track_demand(snapshot, (ahead,), an_hour(), NOW) == (DemandNote(NOW, 500, 100),), (
        "a clock went back"
    )
    every_tick: tuple[DemandNote, ...] = ()
    for second in range(0, 2 * HOUR, 15):
        every_tick = track_demand(snapshot, every_tick, an_hour(), NOW + second)
    assert len(every_tick) <= PARTS


@pytest.mark.parametrize(
    ("cpus", "calm"),
    [
        ((), True),
        ((1000,), True),
        ((1000, 400, 400), True),
        ((1000, 900, 1000), True),
        ((1000, 899, 1000), False),
        ((0, 0), True),
        ((0, 100), False),
        ((900, 1000, 400), True),
        ((800, 1000, 400), False),
    ],
)
def test_only_a_rise_unsettles(cpus: tuple[int, ...], calm: bool) -> None:
    check = settled(make_record(demand=seen(*cpus)), an_hour())
    assert check.passed is calm


def test_the_rise_and_its_limit_are_given() -> None:
    check = settled(make_record(demand=seen(500, 1000)), an_hour())
    assert values_of(check) == ("demand settled", False, 0.5, 0.1, "")


def test_memory_unsettles_as_well() -> None:
    demand = (DemandNote(NOW - 600, 1000, 500), DemandNote(NOW - 60, 1000, 1000))
    assert not settled(make_record(demand=demand), an_hour()).passed


@pytest.mark.parametrize(
    ("cpus", "seconds", "gone"),
    [
        ((500, 1000), 600, ["a1"]),
        ((500, 1000), 1799, ["a1"]),
        ((500, 1000), 1800, ["a1", "a2"]),
        ((1000, 500), 600, ["a1", "a2"]),
    ],
)
def test_while_demand_rises_only_empty_nodes_go_and_those_underused_for_long(
    cpus: tuple[int, ...], seconds: int, gone: list[str]
) -> None:
    nodes = make_nodes("a1", "a2", "a3")
    pods = [make_pod("p", 1000, 100, node_name="a2"), make_pod("q", 2500, 100, node_name="a3")]
    underused = (Emptied("uid-a1", NOW - 300), Emptied("uid-a2", NOW - seconds))
    record = make_record(underused=underused, demand=seen(*cpus))
    settings = an_hour(scale_down_by=JudgedBy.NODE, idle_down_seconds=300)
    removals, refusals = choose_underused(make_snapshot(nodes, pods), record, settings, NOW, 9)
    assert sorted(removal.node_name for removal in removals) == gone
    if "a2" not in gone:
        assert kept_by(refusals)["a2"] == (NodeCause.NOT_IDLE, "demand settled")


def test_consolidation_waits_while_demand_rises() -> None:
    rules = ConsolidationSettings(enabled=True)
    snapshot, record = make_snapshot(make_nodes("a1", "a2")), make_record(demand=seen(500, 1000))
    report = evaluate(snapshot, record, an_hour(consolidation=rules), NOW, "op")
    assert values_of(report.failed) == ("demand settled", False, 0.5, 0.1, "")
    plain = evaluate(snapshot, record, make_settings(consolidation=rules), NOW, "op")
    assert "demand settled" not in [check.name for check in plain.checks]
