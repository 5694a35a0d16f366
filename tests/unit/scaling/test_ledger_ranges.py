"""The ledger over a range of days, of policies that are gone, and rebuilt from a log of many pages."""

from __future__ import annotations

from decimal import Decimal

import pytest

from ebbtide.core.scale_to_zero.savings import fold
from ebbtide.engine.scale_to_zero.ledger import PAGE
from ebbtide.errors import NotFound
from ebbtide.model.events import StretchClosed
from ebbtide.model.idle import Phase, Stretch
from ebbtide.narrate import entry_of
from tests.builders import NOW
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_policy, make_workload, policy_id

DAY = 86_400
DATE, NEXT, LATER = "2023-11-14", "2023-11-15", "2023-12-01"
"""NOW is on the first of them."""


def two() -> PolicyHarness:
    """One sleeps, one is in use."""
    policies = tuple(
        make_policy(name, id=policy_id(number), hourly_cost=Decimal("0.36"))
        for number, name in enumerate(("sleeper", "busy"), start=1)
    )
    harness = PolicyHarness(policies, MemoryWorkloads(make_workload("sleeper"), make_workload("busy")))
    for policy, phase in zip(policies, (Phase.ZERO, Phase.ACTIVE), strict=True):
        state = harness.rows.find_state(policy.id)
        assert state is not None
        days = fold([Stretch(policy.id, "UTC", Phase.ZERO, NOW - 600, NOW)]) if phase is Phase.ZERO else ()
        harness.rows.replace_days(policy.id, days)
    return harness


def test_a_report_says_of_whom_and_of_which_days_it_is() -> None:
    harness = two()
    report = harness.scaling.savings(policy_id(1), DATE, NEXT)
    assert (report.policy_id, report.first, report.last) == (policy_id(1), DATE, NEXT)
    assert [day.date for day in report.days] == [DATE]
    assert harness.scaling.savings(policy_id(1), NEXT, LATER).days == ()


def test_a_policy_without_a_day_has_an_empty_report_and_one_that_never_was_is_not_found() -> None:
    harness = two()
    assert harness.scaling.savings(policy_id(2), "", "").days == ()
    with pytest.raises(NotFound):
        harness.scaling.savings(policy_id(9), "", "")
    gone = harness.rows.find_policy(policy_id(1))
    assert gone is not None
    harness.rows.delete_policy(gone.id, gone.version)
    assert harness.scaling.savings(policy_id(1), LATER, LATER).days == (), "its ledger is still there"


def test_a_summary_names_only_policies_with_a_day_in_its_range() -> None:
    harness = two()
    summary = harness.scaling.summary(DATE, DATE)
    assert [one.policy_id for one in summary.policies] == [policy_id(1)]
    assert (summary.total.policy_id, summary.total.first, summary.total.last) == ("", DATE, DATE)
    assert summary.total.days == tuple(day for one in summary.policies for day in one.days)
    empty = harness.scaling.summary(NEXT, LATER)
    assert (empty.policies, empty.total.days) == ((), ())


def test_a_phase_in_progress_does_not_bring_its_policy_into_a_range_that_is_over() -> None:
    harness = two()
    harness.rounds(7200)
    assert len(harness.scaling.summary(DATE, LATER).policies) == 2
    assert harness.scaling.summary("2023-10-01", "2023-10-31").policies == ()


@pytest.mark.parametrize("number", [PAGE - 1, PAGE, PAGE + 1])
def test_a_ledger_is_rebuilt_from_every_entry_of_its_log_and_each_counts_once(number: int) -> None:
    harness = PolicyHarness()
    stretches = [
        Stretch(policy_id(), "UTC", Phase.ZERO, NOW - DAY + 10 * each, NOW - DAY + 10 * each + 10)
        for each in range(number)
    ]
    harness.store.append(
        [
            entry_of(f"s-{each:06d}", stretch.until, StretchClosed(stretch), policy_id())
            for each, stretch in enumerate(stretches)
        ]
    )
    (rebuilt,) = harness.scaling.rebuild(policy_id())
    assert rebuilt.stretches == number
    days = harness.rows.list_days(policy_id())
    assert sum(day.scaled_to_zero_seconds for day in days) == 10 * number


def test_the_ledger_of_a_policy_that_is_deleted_meanwhile_is_read_all_the_same() -> None:
    harness = two()

    class Deleting:
        """The state is gone when it is asked for."""

        def __getattr__(self, name: str) -> object:
            return getattr(harness.rows, name)

        def find_state(self, _: str) -> None:
            return None

    found = harness.runner(policies=Deleting()).savings(policy_id(1), "", "")
    assert [day.date for day in found.days] == [DATE]
