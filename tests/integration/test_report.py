"""A report of a simulated morning, and of a log that means harm."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.core.operations.facts import closed, transitions
from ebbtide.core.operations.spot import close
from ebbtide.core.prices import CostPoint
from ebbtide.core.scale_to_zero.savings import Saved, SavingsDay
from ebbtide.engine.journal import decision_entry
from ebbtide.entrypoints.report.collect import ReportData, collect, period_of
from ebbtide.entrypoints.report.page import Bar, bar_chart, line_chart, page
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport
from ebbtide.model.decision import Action, Decision
from ebbtide.model.events import EffectDone, EffectKind, Event, OperationClosed, OperationKind
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.operation import RemovalState, SpotEnd
from ebbtide.narrate import entry_of, facts_in
from ebbtide.simulator.run.live import Live
from tests.builders import make_record, make_removal, make_scale_down, make_settings, make_spot

START = 1_793_602_800
"""Seven in the morning of 2 November 2026, in UTC."""
MIDNIGHT = START - 7 * 3600


@pytest.fixture(scope="module")
def live() -> Live:
    live = Live(1, START)
    while live.stage.clock.now() < START + 2700:
        live.step()
    return live


def figures_of(live: Live, first: str = "", last: str = "") -> ReportData:
    period = period_of(first, last, int(live.stage.clock.now()))
    days = live.scaling.summary(period.first, period.last).total.days
    return collect(live.ports.store, "demo", days, period)


def test_what_was_done_is_counted_as_the_log_has_it(live: Live) -> None:
    figures = figures_of(live, "2026-11-02")
    store = live.ports.store
    effects = facts_in(store.read_log([LogKind.EFFECT], limit=5000), EffectDone)
    ended = store.read_log([LogKind.OPERATION_CLOSED], limit=5000)
    assert figures.done.evictions == sum(one.effect is EffectKind.EVICT for one in effects) > 0
    assert sum(done + failed for _, done, failed in figures.done.operations) == len(ended) > 0
    gone = {one.instance_id for one in effects if one.effect is EffectKind.TERMINATE}
    assert figures.done.nodes_removed == len(gone) > 0
    assert figures.done.nodes_added >= 1
    assert figures.done.unknown == 0


def told(*facts: Event, entries: tuple[LogEntry, ...] = ()) -> ReportData:
    store = MemoryStore(Live(1, START).stage.clock, "demo")
    store.append([*(entry_of(f"{number:04d}", START, fact) for number, fact in enumerate(facts)), *entries])
    return collect(store, "demo", (), period_of("2026-11-02", "2026-11-02", START + 60))


def test_an_answered_spot_loss_is_completed_and_one_that_was_not_answered_is_not() -> None:
    lost = make_spot(removal=make_removal(state=RemovalState.GONE), closing=SpotEnd.ANSWERED)
    stays = make_spot("b1", closing=SpotEnd.NODE_STAYS)
    hurried = make_spot("c1", closing=SpotEnd.REMOVED_MEANWHILE)
    settings = make_settings()
    ended = [
        closed(one, close(make_record(), one, settings, START).succeeded) for one in (lost, stays, hurried)
    ]
    assert told(*ended).done.operations == (("interruption", 2, 1),)


def test_a_node_that_was_gone_in_the_middle_of_its_drain_counts_as_removed() -> None:
    before = make_scale_down(make_removal(state=RemovalState.DRAINING), make_removal("b1"))
    after = make_scale_down(make_removal(state=RemovalState.GONE), make_removal("b1"))
    assert told(*transitions(before, after)).done.nodes_removed == 1


def ended(number: int, **parts: Any) -> OperationClosed:
    kind = parts.pop("operation", OperationKind.SCALE_UP)
    return OperationClosed(f"op-{number}", kind, True, START - 60, **parts)


def test_nodes_are_counted_by_the_ends_of_operations_where_the_log_has_no_steps() -> None:
    """A month of the demo had 981 scale-ups and 14 nodes: the steps of all but the last hour are not kept."""
    taken = {"operation": OperationKind.INTERRUPTION, "instance_id": "i-7"}
    figures = told(
        ended(1, ready=("a1", "a2")),
        ended(2, ready=("a3",)),
        ended(3, operation=OperationKind.SCALE_DOWN, removed=("a1",), gone_already=("a2",)),
        ended(4, operation=OperationKind.CONSOLIDATION, emptied=("a3",), moved=5),
        ended(5, removed=("a9",), **taken),
    )
    done = figures.done
    assert (done.nodes_added, done.nodes_removed, done.evictions, done.spot_notices) == (3, 3, 5, 1)
    assert done.without_steps == 2
    assert "Of 2 operations that removed nodes, the log has the end and not the single steps" in page(figures)


def test_a_node_with_its_steps_and_the_end_of_its_operation_counts_once() -> None:
    before = make_scale_down(make_removal(state=RemovalState.DRAINING), make_removal("b1"))
    after = make_scale_down(make_removal(state=RemovalState.GONE), make_removal("b1"))
    figures = told(*transitions(before, after), closed(after, True))
    assert figures.done.nodes_removed == 1


def test_sums_above_one_have_cents_and_no_more() -> None:
    figures = told()
    points = (
        CostPoint(START, {"USD": Decimal("9.918720")}),
        CostPoint(START + 30, {"USD": Decimal("0.084672")}),
    )
    saved = Saved("USD", "", Decimal("1012.345678"), Decimal("347.612345"), Decimal("0.123456"))
    day = SavingsDay("2026-11-02", money=(saved,))
    text = page(replace(figures, currency="USD", points=points, days=(day,), paid=Decimal("3.14159")))
    assert not re.search(
        r"[1-9]\d*\.\d{3,}(?! ?%)", re.sub(r"<(svg|style).*?</\1>", "", text, flags=re.DOTALL)
    )
    for shown in ("3.14 USD", "0.0847 USD", "9.92 USD", "1,012.35 USD", "347.61 USD"):
        assert shown in text


@pytest.mark.parametrize(("action", "begun"), [(Action.CONSOLIDATE, START), (Action.NOTHING, 0)])
def test_what_was_begun_is_not_told_as_what_could_still_be_saved(action: Action, begun: int) -> None:
    plan = ConsolidationPlan(cost_before=Decimal("1.60"), cost_after=Decimal("1.00"), currency="EUR")
    decision = Decision(
        "0001", START, action, "because", (), consolidation=ConsolidationReport((), plan=plan)
    )
    figures = told(entries=(decision_entry(decision, None),))
    assert figures.look is not None
    assert (figures.look.found.plan, figures.look.begun_at) == (plan, begun)
    assert ("What consolidation could still save" in page(figures)) is (action is Action.NOTHING)


def test_entries_of_an_older_version_are_not_counted_and_that_is_said() -> None:
    old = LogEntry("0009", START, LogKind.OPERATION_CLOSED, "scale-down op completed: a1 removed", "op")
    figures = told(entries=(old,))
    assert (figures.done.operations, figures.done.unknown) == ((), 1)
    assert "Not counted: 1 entry that an older version logged without data." in page(figures)


def test_money_is_that_of_the_costs_over_the_period(live: Live) -> None:
    figures = figures_of(live, "2026-11-02")
    assert figures.currency == "EUR"
    most = max(point.per_hour["EUR"] for point in figures.points)
    least = min(point.per_hour["EUR"] for point in figures.points)
    hours = Decimal(figures.period.until - figures.points[0].at) / 3600
    assert figures.paid is not None
    assert least * hours <= figures.paid <= most * hours


def test_a_period_without_anything_says_so_and_invents_nothing(live: Live) -> None:
    figures = figures_of(live, "2026-10-01", "2026-10-05")
    assert not figures.points
    assert not figures.days
    assert not figures.alarms
    assert figures.paid is None
    text = page(figures)
    assert "Nothing slept in the period." in text
    assert "No operation ended." in text


def test_a_log_that_is_too_long_is_reported_by_its_newest_part_and_that_is_said(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert not figures_of(live, "2026-11-02").cut
    monkeypatch.setattr("ebbtide.entrypoints.views.inputs.PAGE", 5)
    monkeypatch.setattr("ebbtide.entrypoints.report.collect.MOST_ENTRIES", 10)
    figures = figures_of(live, "2026-11-02")
    assert figures.cut
    assert "its oldest part is left out" in page(figures)
    # What came after the period is skipped, and does not make it cut.
    assert not figures_of(live, "2026-10-01", "2026-10-05").cut


def test_what_held_when_the_period_began_counts_from_its_beginning(live: Live) -> None:
    """A day later nothing was noted yet but what was noted the day before."""
    store = live.ports.store
    newest = store.read_log([LogKind.COST], limit=1)[0]
    later = LogEntry("9" * 14, MIDNIGHT + 90_000, LogKind.COST, "", "", dict(newest.data))
    store.append([later])
    figures = collect(store, "demo", (), period_of("2026-11-03", "2026-11-03", MIDNIGHT + 93_600))
    assert [point.at for point in figures.points] == [MIDNIGHT + 86_400, MIDNIGHT + 90_000]
    assert figures.paid == figures.points[0].per_hour["EUR"] * 2


HOSTILE = '"><script>alert(1)</script><img src=//evil.example/x onerror=alert(1)>'


def hostile(live: Live) -> ReportData:
    figures = figures_of(live, "2026-11-02")
    alarm = LogEntry("1", START, LogKind.ALARM, HOSTILE)
    done = replace(figures.done, operations=((HOSTILE, 1, 0),))
    saved = SavingsDay("2026-11-02", money=(Saved(HOSTILE, "x", Decimal(2), Decimal(1), Decimal(3)),))
    points = (CostPoint(START, {HOSTILE: Decimal("0.5")}),)
    return replace(
        figures,
        cluster=HOSTILE,
        currency=HOSTILE,
        points=points,
        alarms=(alarm,),
        alarms_in_all=30,
        done=done,
        days=(saved,),
        cut=True,
    )


def axis_of(svg: str) -> list[str]:
    return re.findall(r'text-anchor="end">([^<]*)<', svg)


@pytest.mark.parametrize(
    ("most", "marks"),
    [
        ("12.34", ["0", "5", "10", "15"]),
        ("0.0847", ["0.00", "0.02", "0.04", "0.06", "0.08", "0.10"]),
        ("1", ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
        ("4800", ["0", "1000", "2000", "3000", "4000", "5000"]),
        ("0", ["0.0", "0.2", "0.4", "0.6", "0.8", "1.0"]),
    ],
)
def test_the_axes_of_charts_have_round_numbers_up_to_one_that_nothing_is_above(
    most: str, marks: list[str]
) -> None:
    """It was cut into four: 0, 3.08, 6.17, 9.26 and 12.34."""
    assert axis_of(line_chart([(START, Decimal(most))], START + 3600, "cost")) == marks
    bars = [("2026-11-02", [Bar("net", Decimal(most), "net")])]
    assert most == "0" or axis_of(bar_chart(bars, "saved")) == marks


@pytest.mark.parametrize(
    ("seconds", "marks"),
    [
        (3600, ["07:00", "07:15", "07:30", "07:45", "08:00"]),
        (86_400, ["08:00", "12:00", "16:00", "20:00", "11-03", "04:00"]),
        (14 * 86_400, ["11-05", "11-12"]),
        (365 * 86_400, 7),
    ],
)
def test_the_times_of_a_chart_are_whole_hours_and_days(seconds: int, marks: list[str] | int) -> None:
    """It had the two ends of the period and nothing between them."""
    svg = line_chart([(START, Decimal(1))], START + seconds, "cost")
    found = re.findall(r'text-anchor="middle">([^<]*)<', svg)
    assert found == marks or (isinstance(marks, int) and 2 <= len(found) <= marks)


def test_what_comes_from_outside_stays_text(live: Live) -> None:
    text = page(hostile(live))
    assert "<script" not in text
    assert "<img" not in text
    assert HOSTILE not in text
    assert "and 29 older ones" in text


def test_the_file_needs_nothing_but_itself(live: Live) -> None:
    text = page(figures_of(live))
    assert not re.search(r"(?:src|href)=|url\(|@import|<script", text)
    assert text.count("<svg") == 2
