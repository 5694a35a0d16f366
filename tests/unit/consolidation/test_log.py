"""The entry of the log, and the four numbers that are followed."""

from __future__ import annotations

from decimal import Decimal

from ebbtide.core.consolidation.evaluate import evaluation_fact, tracked
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.record import Record
from tests.unit.consolidation.builders import cheap, cluster, idle, node, pod, report_on, settings_with


def test_moves_and_launches_are_told() -> None:
    large, full, idle_one = node("a1", "cpx62"), node("a2", "cpx22"), node("a3", "cpx22")
    pods = [pod("web", large, 1500, 2000), pod("db", full, 1390, 2850)]
    given = settings_with(cheap(min_idle_seconds=600))
    report = report_on(cluster([large, full, idle_one], pods), idle(idle_one), given)
    fields = evaluation_fact(report, given.consolidation)
    assert fields.nodes_removed == ("a3", "a1")
    assert fields.nodes_after == 2
    assert fields.containers_migrated == 1
    assert fields.reason == (
        "1 node idle >10min, 1 node emptied by 1 move, 1 cheaper node launched first, savings significant"
    )


def test_a_report_without_a_check_says_that_nothing_was_looked_for() -> None:
    assert evaluation_fact(ConsolidationReport(())).reason == "not evaluated"


def _entry(kind: LogKind, **data: object) -> LogEntry:
    return LogEntry("1", 0, kind, "", data=data)


def test_the_numbers_of_a_day() -> None:
    entries = [
        _entry(LogKind.CONSOLIDATION, nodes_removed=["a"], cost_savings_per_hour=0.1368, reason="ok"),
        _entry(LogKind.CONSOLIDATION, nodes_removed=["b"], cost_savings_per_hour=0.2, reason="ok"),
        _entry(LogKind.CONSOLIDATION, nodes_removed=[], cost_savings_per_hour=0.0, reason="too small"),
        _entry(LogKind.DECISION, nodes_removed=["c"]),
    ]
    found = tracked(entries, 43_200, provisioned=1, decommissioned=4)
    assert found.consolidations_per_day == 4
    assert found.average_savings_per_hour == Decimal("0.1684")
    assert found.failed == {"too small": 1}
    assert found.churn == 0.25


def test_the_numbers_of_a_quiet_time() -> None:
    found = tracked([], 0, provisioned=2, decommissioned=0)
    assert (found.consolidations_per_day, found.average_savings_per_hour, found.churn) == (0, Decimal(0), 2)


def test_an_entry_of_what_was_refused_keeps_all_nodes() -> None:
    nodes = [node("a1"), node("a2")]
    fields = evaluation_fact(report_on(cluster(nodes), Record()))
    assert (fields.nodes_before, fields.nodes_after, fields.nodes_kept) == (2, 2, ("a1", "a2"))
