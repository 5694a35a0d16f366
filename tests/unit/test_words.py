"""Times, durations, counts and ids as people read them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ebbtide.core.words import (
    a_measured_while,
    a_price,
    a_price_range,
    a_time,
    a_while,
    count_of,
    names_of,
    short_id,
    time_of_day,
    two_prices,
)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (-5, "0 s"),
        (119, "119 s"),
        (120, "2 min"),
        (150, "2 min 30 s"),
        (3600, "1 h"),
        (37_218, "10 h 20 min"),
        (86_400, "1 day"),
        (3 * 86_400 + 4 * 3600 + 59, "3 days 4 h"),
    ],
)
def test_durations_have_two_units_at_most_and_none_that_is_zero(seconds: int, said: str) -> None:
    assert a_while(seconds) == said


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (40.23, "40.2 s"), (119.9, "119.9 s"), (120, "2 min"), (260.4, "4 min 20 s")],
)
def test_what_was_measured_has_tenths_while_it_is_short(seconds: float, said: str) -> None:
    assert a_measured_while(seconds) == said


def test_counts_agree_with_their_nouns() -> None:
    assert [count_of(number, "pod") for number in (0, 1, 2)] == ["0 pods", "1 pod", "2 pods"]
    assert count_of(2, "entry", "entries") == "2 entries"


def test_times_are_times() -> None:
    assert time_of_day(1_793_602_800) == "07:00 UTC"
    assert a_time(1_793_602_800) == "2026-11-02 07:00 UTC"


def test_long_lists_are_cut_and_say_so() -> None:
    assert names_of(["a1", "a2"]) == "a1, a2"
    assert names_of(["a1", "a2", "a3"], most=1) == "a1 and 2 more"
    assert names_of([]) == ""


def test_ids_are_short() -> None:
    assert short_id("op") == "op"
    assert short_id("1793602800-01kq7x3v9pzzz0a1b2c") == "…0a1b2c"


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        ("0", "0.00"),
        ("2", "2.00"),
        ("0.100", "0.10"),
        ("0.1368", "0.1368"),
        ("0.084672", "0.0847"),
        ("9.386496", "9.39"),
        ("-0.018528", "-0.0185"),
        ("0.0000512", "0.000051"),
        ("1234.5", "1234.50"),
    ],
)
def test_money_has_as_many_digits_as_people_read(amount: str, said: str) -> None:
    assert a_price(Decimal(amount)) == said


def test_the_ends_of_a_range_have_the_same_digits() -> None:
    """It was 0.3736 to 0.514."""
    assert a_price_range(Decimal("0.3736"), Decimal("0.5140")).split(" to ") == ["0.3736", "0.5140"]
    assert a_price_range(Decimal("1.5"), Decimal("2")).split(" to ") == ["1.50", "2.00"]


@pytest.mark.parametrize(
    ("amount", "limit", "said"),
    [
        ("0.084672", "0.1032", ("0.0847", "0.1032")),
        ("0.10318", "0.1032", ("0.10318", "0.1032")),
        ("1.001", "1", ("1.001", "1.00")),
        ("0.1", "0.1", ("0.10", "0.10")),
        ("0.10000001", "0.1", ("0.10", "0.10")),
    ],
)
def test_two_amounts_that_differ_are_told_apart(amount: str, limit: str, said: tuple[str, str]) -> None:
    assert two_prices(Decimal(amount), Decimal(limit)) == said
