"""Cron lines in time zones: windows over midnight, days on which clocks change, and lines that are wrong."""

from __future__ import annotations

from bisect import bisect_right
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.schedule import check_cron, check_zone, fires_between, is_open, last_fire, next_fire
from ebbtide.model.pool import CronWindow

BERLIN = "Europe/Berlin"
DAY = 86_400


def at(text: str, zone: str = BERLIN, fold: int = 0) -> int:
    return int(datetime.fromisoformat(text).replace(tzinfo=ZoneInfo(zone), fold=fold).timestamp())


def test_a_line_fires_strictly_after_and_at_or_before() -> None:
    nine = at("2026-06-01T09:00")
    assert next_fire("0 9 * * *", BERLIN, nine - 1) == nine
    assert next_fire("0 9 * * *", BERLIN, nine) == nine + DAY
    assert last_fire("0 9 * * *", BERLIN, nine) == nine
    assert last_fire("0 9 * * *", BERLIN, nine - 1) == nine - DAY


def test_the_same_line_means_another_moment_in_another_zone() -> None:
    after = at("2026-06-01T00:00", "UTC")
    assert next_fire("0 9 * * *", "UTC", after) == at("2026-06-01T09:00", "UTC")
    assert next_fire("0 9 * * *", "America/New_York", after) == at("2026-06-01T13:00", "UTC")


def test_times_between_two_moments_leave_the_first_out_and_take_the_last_in() -> None:
    monday = at("2026-06-01T00:00")
    assert fires_between("0 0 * * *", BERLIN, monday, monday + 2 * DAY) == (monday + DAY, monday + 2 * DAY)
    assert fires_between("* * * * *", BERLIN, monday, monday + DAY, limit=3) == (
        monday + 60,
        monday + 120,
        monday + 180,
    )
    assert fires_between("0 0 1 1 *", BERLIN, monday, monday + DAY) == ()


def test_a_window_is_open_from_its_start_to_just_before_its_end_over_midnight_too() -> None:
    night = CronWindow("0 22 * * *", BERLIN, 8 * 3600)
    assert [is_open(night, at(text)) for text in ("2026-06-01T21:59:59", "2026-06-01T22:00:00")] == [
        False,
        True,
    ]
    assert is_open(night, at("2026-06-02T00:00"))
    assert [is_open(night, at(text)) for text in ("2026-06-02T05:59:59", "2026-06-02T06:00:00")] == [
        True,
        False,
    ]


def test_a_window_longer_than_its_line_comes_round_is_always_open() -> None:
    assert all(
        is_open(CronWindow("@hourly", BERLIN, 3600), at("2026-06-01T00:00") + s) for s in range(0, DAY, 977)
    )


def test_a_time_that_the_change_of_clocks_skips_fires_right_after_it_and_once() -> None:
    spring = at("2026-03-29T00:00")
    assert fires_between("30 2 * * *", BERLIN, spring, spring + DAY) == (at("2026-03-29T03:00"),)
    assert is_open(CronWindow("30 2 * * *", BERLIN, 600), at("2026-03-29T03:09:59"))
    assert not is_open(CronWindow("30 2 * * *", BERLIN, 600), at("2026-03-29T03:10:00"))


def test_a_time_that_comes_twice_fires_the_first_time_and_a_duration_is_real_time() -> None:
    autumn = at("2026-10-25T00:00")
    first = at("2026-10-25T02:30")
    assert fires_between("30 2 * * *", BERLIN, autumn, autumn + DAY) == (first,)
    again = at("2026-10-25T02:10", fold=1)
    assert (last_fire("30 2 * * *", BERLIN, again), next_fire("30 2 * * *", BERLIN, again)) == (
        first,
        at("2026-10-26T02:30"),
    )
    window = CronWindow("30 2 * * *", BERLIN, 3600)
    assert is_open(window, at("2026-10-25T02:29:59", fold=1))
    assert not is_open(window, at("2026-10-25T02:30:00", fold=1))


def test_a_line_of_every_hour_fires_in_both_of_the_hours_that_are_called_the_same() -> None:
    autumn = at("2026-10-25T01:59")
    assert fires_between("0 * * * *", BERLIN, autumn, autumn + 3 * 3600) == (
        at("2026-10-25T02:00"),
        at("2026-10-25T02:00", fold=1),
        at("2026-10-25T03:00"),
    )


NEVER = "0 0 */30 2 MON#3"
"""The first of February is no third Monday."""


def test_a_line_that_never_comes_fires_neither_before_nor_after() -> None:
    now = at("2026-06-01T00:00")
    assert (next_fire(NEVER, "UTC", now), last_fire(NEVER, "UTC", now)) == (None, None)
    assert fires_between(NEVER, "UTC", now, now + DAY) == ()
    assert not is_open(CronWindow(NEVER, "UTC", 60), now)


CHANGES = {
    "UTC": "2026-03-29T01:00",
    BERLIN: "2026-10-25T03:00",
    "America/New_York": "2026-11-01T02:00",
    "Australia/Lord_Howe": "2026-04-05T02:00",
    "Pacific/Apia": "2011-12-29T23:59",
    "Africa/Casablanca": "2026-02-15T03:00",
    "Asia/Kathmandu": "2026-01-01T00:00",
}
LINES = (
    "30 2 * * *",
    "*/15 * * * *",
    "7 * * * *",
    "0-59 1,2 * * *",
    "*/20 0-3 * * *",
    "45 1 * * 0",
    "@daily",
)


@given(st.sampled_from(sorted(CHANGES)), st.sampled_from(LINES), st.integers(-DAY, DAY), st.booleans())
@settings(deadline=None)
def test_what_fired_last_is_what_going_forward_would_have_found(
    zone: str, line: str, offset: int, spring: bool
) -> None:
    change = at("2026-03-29T02:00" if spring else CHANGES[zone], zone)
    fires = fires_between(line, zone, change - 9 * DAY, change + 2 * DAY)
    assert list(fires) == sorted(set(fires))
    moment = change + offset
    if len(fires) < 1000:
        assert last_fire(line, zone, moment) == fires[bisect_right(fires, moment) - 1]
    assert last_fire(line, zone, next_fire(line, zone, moment) or 0) == next_fire(line, zone, moment)


@given(
    st.builds(CronWindow, st.sampled_from(LINES), st.sampled_from(sorted(CHANGES)), st.integers(0, 2 * DAY)),
    st.integers(1_600_000_000, 1_900_000_000),
)
@settings(deadline=None)
def test_a_window_is_open_exactly_while_a_start_lies_within_its_duration(
    window: CronWindow, now: int
) -> None:
    starts = fires_between(window.cron, window.zone, now - window.duration_seconds, now)
    assert is_open(window, now) == bool(starts)


@pytest.mark.parametrize(
    "line",
    ["* * * * *", "0 9 * * MON-FRI", "0 0 29 2 *", "0 0 L * *", "*/5 8-18 1,15 JAN *", "@daily", "@Hourly "],
)
def test_a_right_line_has_nothing_wrong_with_it(line: str) -> None:
    assert check_cron(line) == ""


@pytest.mark.parametrize(
    ("line", "says"),
    [
        ("", "'' has 0 fields; a cron line has five: minute, hour, day of month, month, day of week"),
        ("* * * * * *", "'* * * * * *' has 6 fields"),
        ("60 * * * *", "the minute of '60 * * * *' is '60', which no minute can be"),
        ("0 24 * * *", "the hour of"),
        ("0 0 0 * *", "the day of month of"),
        ("0 0 * 13 *", "the month of"),
        ("0 0 * * NOD", "the day of week of"),
        ("0 0 31 4,6 *", "'0 0 31 4,6 *' never comes"),
        (NEVER, "never comes"),
        ("@often", "'@often' is not a schedule name; known names are @hourly"),
    ],
)
def test_a_wrong_line_is_told_with_the_field_that_is_wrong(line: str, says: str) -> None:
    assert says in check_cron(line)


@given(st.text(alphabet="0123456789*/-,#LW@MONJAN ", max_size=20))
@settings(deadline=None, max_examples=200)
def test_a_line_that_passes_the_check_can_be_asked(line: str) -> None:
    if not check_cron(line):
        assert next_fire(line, BERLIN, 1_700_000_000)


@pytest.mark.parametrize("zone", ["UTC", BERLIN, "America/Argentina/Buenos_Aires"])
def test_a_zone_of_the_database_is_right(zone: str) -> None:
    assert check_zone(zone) == ""


@pytest.mark.parametrize(
    "zone", ["", "Europe", "Mars/Olympus", "../etc/passwd", "/etc/passwd", "nul\0", "x" * 5000]
)
def test_anything_else_is_not_a_zone(zone: str) -> None:
    assert "is not a time zone; write one like UTC" in check_zone(zone)
