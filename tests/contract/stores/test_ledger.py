"""The ledger in every store: days are added up exactly, outlive their policy, and can be replaced."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest

from ebbtide.model.idle import LedgerDay
from ebbtide.ports import PolicyStore
from tests.contract.stores.policy_examples import make_day, make_policy, policy_id
from tests.contract.stores.test_states import put

FINE = Decimal("0.00000000000000000000000000000000000000000000000001")


def test_numbers_are_added_to_the_row_of_their_day_and_currency(policies: PolicyStore) -> None:
    state = put(policies)
    euro, dollar, unpriced = make_day(), make_day(currency="USD"), make_day(currency="", price="0")
    state = policies.write_state(state, [dollar, euro])
    state = policies.write_state(state, [replace(euro, source="")])
    policies.write_state(state, [replace(euro, source="policy", wakes=0), unpriced, unpriced])
    assert list(policies.list_days()) == [
        LedgerDay(
            policy_id(1),
            "2026-01-30",
            "",
            "price book",
            idle_seconds=7200,
            scaled_to_zero_seconds=14_400,
            wakes=2,
        ),
        LedgerDay(
            policy_id(1),
            "2026-01-30",
            "EUR",
            "policy",
            idle_seconds=10_800,
            scaled_to_zero_seconds=21_600,
            idle_price_seconds=Decimal("181.44"),
            zero_price_seconds=Decimal("362.88"),
            wakes=2,
            wake_price_seconds=Decimal("1.512"),
            realised_price_seconds=Decimal("3.024"),
        ),
        dollar,
    ]


def test_sums_are_exact_far_beyond_the_digits_of_a_float(policies: PolicyStore) -> None:
    state = put(policies)
    large = replace(make_day(), zero_price_seconds=Decimal(10) ** 30, idle_seconds=2**60)
    fine = replace(make_day(), zero_price_seconds=FINE, idle_seconds=1)
    for day in (large, fine, fine):
        state = policies.write_state(state, [day])
    (row,) = policies.list_days()
    assert format(row.zero_price_seconds, "f") == "1" + "0" * 30 + "." + "0" * 49 + "2"
    assert row.idle_seconds == 2**60 + 2


def test_days_are_listed_by_date_then_policy_within_both_ends(policies: PolicyStore) -> None:
    dates = ["2025-12-31", "2026-01-01", "2026-01-31", "2026-02-01"]
    for number in (2, 1):
        policies.write_state(put(policies, number), [make_day(number, date) for date in reversed(dates)])
    assert [(day.date, day.policy_id) for day in policies.list_days()] == [
        (date, policy_id(number)) for date in dates for number in (1, 2)
    ]
    assert [day.date for day in policies.list_days(policy_id(2))] == dates
    assert [day.date for day in policies.list_days(policy_id(1), first="2026-01-01")] == dates[1:]
    assert [day.date for day in policies.list_days(policy_id(1), last="2026-01-31")] == dates[:3]
    assert [day.date for day in policies.list_days("", "2026-01-01", "2026-01-31")] == [
        date for date in dates[1:3] for _ in range(2)
    ]
    assert list(policies.list_days(policy_id(3))) == list(policies.list_days("nonsense")) == []
    assert list(policies.list_days(policy_id(1), "2026-02-01", "2026-01-01")) == []
    with pytest.raises(ValueError, match="soon"):
        policies.list_days(first="soon")


def test_the_ledger_outlives_its_policy(policies: PolicyStore) -> None:
    state = policies.write_state(put(policies), [make_day()])
    policies.delete_policy(state.policy_id, 1)
    assert list(policies.list_days()) == list(policies.list_days(state.policy_id)) == [make_day()]
    policies.write_state(put(policies), [make_day()])
    assert policies.list_days()[0].scaled_to_zero_seconds == 2 * make_day().scaled_to_zero_seconds


def test_all_days_of_one_policy_are_replaced(policies: PolicyStore) -> None:
    for number in (1, 2):
        state = put(policies, number)
        policies.write_state(state, [make_day(number, f"2026-{month:02d}-01") for month in range(1, 13)])
    rebuilt = [make_day(1, "2026-03-01", price="9"), make_day(1, "2027-01-01"), make_day(1, "2027-01-02")]
    for _ in range(2):
        policies.replace_days(policy_id(1), rebuilt)
        assert list(policies.list_days(policy_id(1))) == rebuilt
    assert len(policies.list_days(policy_id(2))) == 12
    policies.replace_days(policy_id(1), [])
    policies.replace_days("nonsense", [])
    assert list(policies.list_days(policy_id(1))) == []
    assert len(policies.list_days()) == 12


def test_a_ledger_can_be_rebuilt_for_a_policy_that_is_gone(policies: PolicyStore) -> None:
    policies.replace_days(policy_id(9), [make_day(9)])
    assert list(policies.list_days()) == [make_day(9)]


def test_a_ledger_of_ten_years_is_replaced(policies: PolicyStore) -> None:
    years = [make_day(1, f"{2016 + month // 12}-{month % 12 + 1:02d}-15") for month in range(120)]
    policies.replace_days(policy_id(1), years)
    assert list(policies.list_days()) == years
    policies.replace_days(policy_id(1), years[:1])
    assert list(policies.list_days()) == years[:1]


def test_a_long_time_at_zero_is_one_write(policies: PolicyStore) -> None:
    policies.put_policy(make_policy())
    state = policies.find_state(policy_id(1))
    assert state is not None
    days = [make_day(1, f"2026-{month:02d}-{day:02d}") for month in range(1, 13) for day in range(1, 29)]
    policies.write_state(state, days)
    assert list(policies.list_days()) == days
