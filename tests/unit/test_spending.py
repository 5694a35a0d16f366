"""What was paid and saved by day, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.core.prices import CostPoint
from ebbtide.entrypoints.views.spending import (
    DAYS_A_MONTH,
    Gone,
    Share,
    SpendingDay,
    projection,
    removals_of,
    shares_of,
    spending_days,
    with_sleepers,
)
from ebbtide.model.events import OperationClosed, OperationKind
from ebbtide.model.pod import PodPhase
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView
from tests.builders import make_pod
from tests.unit.test_costs import SETTINGS, node

DAY = 86_400
HOUR = 3600
FIRST, SECOND = "1970-01-01", "1970-01-02"


def point(at: int, paid: str, on_demand: str | None = None) -> CostPoint:
    listed = {"EUR": Decimal(on_demand)} if on_demand else None
    return CostPoint(at, {"EUR": Decimal(paid)}, on_demand=listed)


def test_savings_are_shared_without_overlap_between_the_busiest_moment_and_what_was_paid() -> None:
    """12 h at 6 an hour (10 on demand), then 12 h at 2 (4 on demand): 10 stays the measure for the day."""
    points = [point(0, "6", "10"), point(12 * HOUR, "2", "4")]
    removed = [Gone(12 * HOUR, False)] * 3 + [Gone(12 * HOUR, True)]
    (day,) = spending_days(points, "EUR", DAY, removed, {FIRST: Decimal(12)})
    assert day.paid == 12 * 6 + 12 * 2
    assert day.spot == 12 * (10 - 6) + 12 * (4 - 2)
    assert day.sleep == 12
    assert (day.consolidation, day.scale_down) == (Decimal(60) / 4, Decimal(60) * 3 / 4)
    assert day.paid + day.saved == 24 * 10
    assert day.whole


def test_sleep_saves_no_more_than_the_nodes_that_are_gone() -> None:
    points = [point(0, "10"), point(23 * HOUR, "9")]
    (day,) = spending_days(points, "EUR", DAY, [], {FIRST: Decimal(50)})
    assert (day.sleep, day.saved) == (Decimal(1), Decimal(1))
    (day,) = spending_days(points, "EUR", DAY, [], {FIRST: Decimal(-3)})
    assert (day.sleep, day.scale_down) == (Decimal(0), Decimal(1))


def test_a_busy_moment_is_no_measure_any_more_after_a_day_and_costs_are_cut_at_midnight() -> None:
    points = [point(22 * HOUR, "8"), point(23 * HOUR, "2"), point(DAY + 23 * HOUR, "2")]
    first, second = spending_days(points, "EUR", 2 * DAY, [], {})
    assert (first.date, first.known_seconds) == (FIRST, 2 * HOUR)
    assert (first.paid, first.scale_down) == (Decimal(10), Decimal(6))
    assert (second.date, second.paid, second.scale_down) == (SECOND, Decimal(48), Decimal(23 * 6))
    assert not first.whole
    assert second.whole


def test_other_money_is_not_counted_and_no_point_is_not_a_day() -> None:
    (day,) = spending_days([CostPoint(0, {"USD": Decimal(1)})], "EUR", HOUR, [], {})
    assert (day.paid, day.saved) == (Decimal(0), Decimal(0))
    assert spending_days([], "EUR", DAY, [], {}) == []


def closed(kind: OperationKind, **lists: tuple[str, ...]) -> OperationClosed:
    return OperationClosed("op", kind, True, 0, **lists)  # type: ignore[arg-type]


def test_a_node_that_consolidation_emptied_counts_once() -> None:
    """`c1` is another node under the same name when it is removed the second time; `c2` was emptied so long
    before that it was in use again."""
    log = [
        (0, closed(OperationKind.CONSOLIDATION, emptied=("c1", "c2"), removed=("c3",))),
        (60, closed(OperationKind.SCALE_DOWN, removed=("c1", "s1"))),
        (90, closed(OperationKind.SCALE_UP, ready=("n1",))),
        (DAY, closed(OperationKind.SCALE_DOWN, removed=("c1", "c2"))),
    ]
    assert removals_of(log) == [
        Gone(0, True),
        Gone(60, True),
        Gone(60, False),
        Gone(DAY, False),
        Gone(DAY, False),
    ]


def test_what_a_node_saves_is_said_to_come_from_what_was_removed_until_then() -> None:
    """Ten an hour at first. From 6 h on nothing but scale-down had removed nodes, from 18 h on also a
    consolidation, as many: 12 h at 4 saved by scale-down alone, 6 h at 6 shared in halves."""
    points = [point(0, "10"), point(6 * HOUR, "6"), point(18 * HOUR, "4")]
    (day,) = spending_days(points, "EUR", DAY, [Gone(6 * HOUR, False), Gone(18 * HOUR, True)], {})
    assert (day.scale_down, day.consolidation) == (Decimal(12 * 4 + 6 * 3), Decimal(6 * 3))


def test_a_removal_within_a_piece_counts_from_then_on_and_no_longer_than_the_busiest_moment() -> None:
    """A cost that holds for two days: 12 h without a known removal, then a day after a consolidation, of
    which 12 h fall on the second day; after that no moment of the day before was busier."""
    points = [point(-HOUR, "10"), point(0, "6"), point(DAY + 6 * HOUR, "6")]
    first, second = spending_days(points, "EUR", 2 * DAY, [Gone(12 * HOUR, True)], {}, since=0)
    assert (first.scale_down, first.consolidation) == (Decimal(12 * 4), Decimal(12 * 4))
    assert (second.scale_down, second.consolidation) == (Decimal(0), Decimal(6 * 4))


def test_past_days_stay_as_they_were_whatever_comes_later_and_wherever_the_time_begins() -> None:
    """What the morning saved came from scale-down at noon and from consolidation in the evening. The first of
    the days that were read forgot what had been busiest before it, and what had emptied its nodes."""
    points = [point(number * 6 * HOUR, str(20 - number % 5)) for number in range(16)]
    log = [
        (20 * HOUR, closed(OperationKind.CONSOLIDATION, emptied=("c1",))),
        (26 * HOUR, closed(OperationKind.SCALE_DOWN, removed=("c1", "s1"))),
        (50 * HOUR, closed(OperationKind.SCALE_DOWN, removed=("s2",))),
        (80 * HOUR, closed(OperationKind.CONSOLIDATION, removed=("c2",))),
    ]

    def told(until: int, since: int = 0) -> dict[str, SpendingDay]:
        """As they are read: with the points of a day before, and the operations of two."""
        known = [one for one in points if since - DAY <= one.at < until]
        operations = [each for each in log if since - 2 * DAY <= each[0] < until]
        found = spending_days(known, "EUR", until, removals_of(operations), {}, since)
        return {day.date: day for day in found}

    whole = told(4 * DAY)
    assert any(day.consolidation for day in whole.values())
    assert len(whole) == 4
    for number in range(1, 4):
        by_then = told(number * DAY)
        assert {date: whole[date] for date in by_then} == by_then
        from_then = told(4 * DAY, number * DAY)
        assert {date: whole[date] for date in from_then} == from_then


def days(*paid: int, seconds: int = DAY) -> list[SpendingDay]:
    return [SpendingDay(str(number), seconds, Decimal(each)) for number, each in enumerate(paid)]


def test_a_month_is_projected_from_whole_days_with_the_range_of_their_weeks() -> None:
    assert projection(days(5, seconds=DAY - 1)) is None
    one = projection(days(10))
    assert one is not None
    assert (one.expected, one.low, one.high, one.days) == (10 * DAYS_A_MONTH, None, None, 1)
    few = projection(days(8, 12))
    assert few is not None
    assert (few.expected, few.low, few.high) == (10 * DAYS_A_MONTH, 8 * DAYS_A_MONTH, 12 * DAYS_A_MONTH)
    weeks = projection(days(*[7] * 7, 14))
    assert weeks is not None
    assert (weeks.low, weeks.high, weeks.days) == (7 * DAYS_A_MONTH, 8 * DAYS_A_MONTH, 8)


def test_a_node_is_paid_for_by_the_pods_that_ask_for_it_and_the_rest_is_idle() -> None:
    """`a` (0.10): web asks for half of its CPU. `b` (0.10): twice as much as there is. `c`: no price."""

    from ebbtide.model.pod import Resources

    room = Resources(2000, 4096)
    nodes = tuple(
        replace(node(name, kind), allocatable=room)
        for name, kind in (("a", "small"), ("b", "small"), ("c", "huge"))
    )
    pods = (
        make_pod("web", 1000, memory_mib=1024, node_name="a", namespace="shop"),
        make_pod("big", 3000, memory_mib=0, node_name="b", namespace="shop"),
        make_pod("other", 1000, memory_mib=0, node_name="b", namespace="data"),
        make_pod("lost", 100, memory_mib=0, node_name="c", namespace="data"),
    )
    pools, namespaces = shares_of(ClusterView(nodes, pods), SETTINGS, "EUR")
    assert pools == [Share("p", Decimal("0.20"), Decimal("0.05"), 3, 1)]
    assert namespaces == [
        Share("shop", Decimal("0.125"), Decimal(0), 2, 0),
        Share("data", Decimal("0.025"), Decimal(0), 2, 1),
    ]
    assert shares_of(ClusterView(), Settings(), "EUR") == ([], [])


def test_a_namespace_of_which_all_pods_are_pending_is_listed() -> None:
    """It was left out of the money by namespace."""
    nodes = (node("a", "small"),)
    pods = (
        make_pod("web", 1000, node_name="a", namespace="shop"),
        make_pod("encoder", 1000, phase=PodPhase.PENDING, namespace="media"),
    )
    _, namespaces = shares_of(ClusterView(nodes, pods), SETTINGS, "EUR")
    assert [(one.name, one.count) for one in namespaces] == [("shop", 1), ("media", 0)]


def test_a_namespace_in_which_all_sleep_is_listed_with_what_its_sleep_saved() -> None:
    awake = [Share("shop", Decimal(2), count=1)]
    slept = {"shop": Decimal(3), "dev": Decimal(5), "idle": Decimal(0)}
    assert with_sleepers(awake, slept) == [*awake, Share("dev")]
