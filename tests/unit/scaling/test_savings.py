"""Seconds per day and the money made of them: exact, also on days of 23 and 25 hours."""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime
from decimal import Decimal
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ebbtide.core.scale_to_zero.savings import add, cut, fold, local_date, open_stretch, report
from ebbtide.model.idle import LedgerDay, Phase, Rate, Stretch
from tests.builders import NOW
from tests.policy_harness import make_policy, make_state, policy_id

RATE = Rate(Decimal("0.10"), "EUR", "list", realised_per_hour=Decimal("0.04"))
HOUR = 3600


def at(text: str, zone: str) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone)).timestamp())


def make_stretch(since: int, until: int, phase: Phase = Phase.ZERO, **overrides: object) -> Stretch:
    values: dict[str, object] = {"zone": "UTC", "rate": RATE, **overrides}
    return Stretch(policy_id(), phase=phase, since=since, until=until, **values)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("zone", "day", "hours"),
    [
        ("Europe/Berlin", "2026-03-29", 23),
        ("Europe/Berlin", "2026-10-25", 25),
        ("America/New_York", "2026-03-08", 23),
        ("America/New_York", "2026-11-01", 25),
        ("Africa/Cairo", "2024-04-26", 23),
        ("Asia/Kolkata", "2026-03-29", 24),
    ],
)
def test_a_day_has_as_many_hours_as_really_pass(zone: str, day: str, hours: int) -> None:
    noon = at(f"{day}T12:00:00", zone)
    pieces = dict(cut(make_stretch(noon - 40 * HOUR, noon + 40 * HOUR, zone=zone)))
    assert pieces[day] == hours * HOUR
    assert sum(pieces.values()) == 80 * HOUR


def test_where_clocks_go_back_over_midnight_the_day_before_can_come_again() -> None:
    """In Newfoundland, until 2011, at one minute past midnight."""
    noon = at("2010-11-07T12:00:00", "America/St_Johns")
    again = noon - 12 * HOUR - 600
    assert list(cut(make_stretch(again, noon, zone="America/St_Johns"))) == [
        ("2010-11-06", 600),
        ("2010-11-07", 12 * HOUR),
    ]
    whole = list(cut(make_stretch(noon - 36 * HOUR, noon, zone="America/St_Johns")))
    assert sum(seconds for _, seconds in whole) == 36 * HOUR


def test_each_phase_has_its_own_numbers() -> None:
    since = at("2026-01-30T10:00:00", "UTC")
    (zero,) = fold([make_stretch(since, since + HOUR, wakes=1)])
    assert (zero.scaled_to_zero_seconds, zero.zero_price_seconds) == (HOUR, Decimal(360))
    assert (zero.realised_price_seconds, zero.wakes, zero.unpriced_seconds) == (Decimal(144), 1, 0)
    (idle,) = fold([make_stretch(since, since + HOUR, Phase.IDLE)])
    assert (idle.idle_seconds, idle.idle_price_seconds) == (HOUR, Decimal(360))
    (waking,) = fold([make_stretch(since, since + 60, Phase.WAKING)])
    assert (waking.wake_price_seconds, waking.idle_seconds) == (Decimal(6), 0)


def test_what_has_no_price_is_time_without_money() -> None:
    (row,) = fold([make_stretch(NOW, NOW + 60, rate=None)])
    assert (row.currency, row.unpriced_seconds, row.zero_price_seconds) == ("", 60, Decimal(0))
    assert report(policy_id(), "", "", [row]).total.money == ()


def test_no_more_is_realised_than_was_freed() -> None:
    (row,) = fold([make_stretch(NOW, NOW + 60, rate=replace(RATE, realised_per_hour=Decimal(5)))])
    assert row.realised_price_seconds == row.zero_price_seconds


def test_a_wake_is_counted_on_the_day_it_ends() -> None:
    midnight = at("2026-01-31T00:00:00", "UTC")
    rows = fold([make_stretch(midnight - 60, midnight + 60, wakes=1)])
    assert [(row.date, row.wakes) for row in rows] == [("2026-01-30", 0), ("2026-01-31", 1)]


def test_a_wake_is_counted_although_no_second_passed() -> None:
    state = make_state(Phase.ZERO, stretch_since=NOW)
    stretch = open_stretch(make_policy(), state, NOW, wakes=1)
    assert stretch is not None
    assert [row.wakes for row in fold([stretch])] == [1]


def test_what_is_active_is_in_no_ledger() -> None:
    assert open_stretch(make_policy(), make_state(), NOW) is None
    assert open_stretch(make_policy(), make_state(Phase.ZERO, stretch_since=NOW), NOW) is None


def test_going_to_zero_is_still_idle() -> None:
    stretch = open_stretch(make_policy(), make_state(Phase.FALLING), NOW)
    assert stretch is not None
    assert (stretch.phase, stretch.wake_seconds) == (Phase.IDLE, 0)


def test_money_of_different_currencies_is_never_added_up() -> None:
    dollars = replace(RATE, currency="USD")
    rows = fold([make_stretch(NOW, NOW + HOUR), make_stretch(NOW + HOUR, NOW + 2 * HOUR, rate=dollars)])
    total = report(policy_id(), "", "", rows).total
    assert [(saved.currency, saved.potential) for saved in total.money] == [
        ("EUR", Decimal("0.1000")),
        ("USD", Decimal("0.1000")),
    ]
    assert total.scaled_to_zero_seconds == 2 * HOUR


def test_money_is_said_three_ways() -> None:
    rows = fold([make_stretch(NOW, NOW + HOUR), make_stretch(NOW + HOUR, NOW + HOUR + 360, Phase.WAKING)])
    (saved,) = report(policy_id(), "", "", rows).total.money
    assert (saved.potential, saved.realised) == (Decimal("0.1000"), Decimal("0.0400"))
    assert saved.net == Decimal("0.0400") - Decimal("0.0100")


def test_a_report_holds_only_the_days_asked_for() -> None:
    rows = fold([make_stretch(NOW, NOW + 5 * 24 * HOUR)])
    days = [row.date for row in rows]
    found = report(policy_id(), days[1], days[2], rows)
    assert [day.date for day in found.days] == days[1:3]
    assert found.total.scaled_to_zero_seconds == 48 * HOUR


def test_the_newest_source_of_a_row_is_named_and_several_in_a_sum() -> None:
    row = LedgerDay(policy_id(), "2026-01-30", "EUR", "old")
    assert add(row, replace(row, source="new")).source == "new"
    assert add(row, replace(row, source="")).source == "old"
    other = LedgerDay(policy_id(), "2026-01-31", "EUR", "new")
    assert report(policy_id(), "", "", [row, row]).total.money[0].source == "old"
    assert report(policy_id(), "", "", [row, other]).total.money[0].source == "several sources"


def test_dates_are_those_of_the_zone() -> None:
    assert local_date("Pacific/Auckland", at("2026-01-30T20:00:00", "UTC")) == "2026-01-31"


ZONES = ("UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Africa/Cairo")
PRICES = st.decimals("0.0001", "10", places=4)
STRETCHES = st.lists(
    st.builds(
        lambda since, length, phase, zone, price, wakes: make_stretch(
            since,
            since + length,
            phase,
            zone=zone,
            wakes=wakes,
            rate=None if price is None else Rate(price, "EUR", "list", price / 2),
        ),
        st.integers(1_700_000_000, 1_800_000_000),
        st.integers(0, 400_000),
        st.sampled_from([Phase.IDLE, Phase.ZERO, Phase.WAKING]),
        st.sampled_from(ZONES),
        st.none() | PRICES,
        st.integers(0, 1),
    ),
    max_size=12,
)


@given(STRETCHES)
def test_totals_are_the_sum_of_the_days_and_no_second_is_lost(stretches: list[Stretch]) -> None:
    rows = fold(stretches)
    found = report("", "", "", rows)
    for name in ("idle_seconds", "scaled_to_zero_seconds", "wakes", "unpriced_seconds"):
        assert getattr(found.total, name) == sum(getattr(day, name) for day in found.days)
    for name in ("potential", "realised", "net", "missed"):
        by_day = sum((getattr(saved, name) for day in found.days for saved in day.money), Decimal(0))
        assert sum((getattr(saved, name) for saved in found.total.money), Decimal(0)) == by_day
    at_zero = sum(s.until - s.since for s in stretches if s.phase is Phase.ZERO)
    assert found.total.scaled_to_zero_seconds == at_zero


@given(STRETCHES, st.integers(0, 12))
def test_folding_in_parts_gives_the_same_rows_as_folding_all(stretches: list[Stretch], place: int) -> None:
    """A ledger that is added up over time equals one that is rebuilt."""
    rows: dict[tuple[str, str], LedgerDay] = {}
    for part in (stretches[:place], stretches[place:]):
        for row in fold(part):
            key = (row.date, row.currency)
            rows[key] = add(rows[key], row) if key in rows else row
    assert [rows[key] for key in sorted(rows)] == list(fold(stretches))


@given(STRETCHES)
def test_a_stretch_cut_in_two_weighs_the_same(stretches: list[Stretch]) -> None:
    halves = []
    for stretch in stretches:
        middle = (stretch.since + stretch.until) // 2
        halves += [replace(stretch, until=middle, wakes=0), replace(stretch, since=middle)]
    assert [row for row in fold(halves) if _says(row)] == [row for row in fold(stretches) if _says(row)]


def _says(row: LedgerDay) -> bool:
    """Whether there is a number in it: a stretch of no length leaves a row of noughts."""
    empty = LedgerDay(row.policy_id, row.date, row.currency, row.source)
    return row != empty


def test_idle_hours_include_the_time_at_zero() -> None:
    """As in the examples of the document: 450.5 idle hours, 380.2 of them at zero."""
    row = LedgerDay(policy_id(), "2026-01-30", idle_seconds=HOUR, scaled_to_zero_seconds=4 * HOUR)
    found = report(policy_id(), "", "", [row])
    assert (found.total.idle_seconds, found.total.scaled_to_zero_seconds) == (5 * HOUR, 4 * HOUR)
