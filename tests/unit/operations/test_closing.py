"""What the end of an operation does to the record."""

from __future__ import annotations

from ebbtide.core.operations.closing import back_off, succeed
from tests.builders import NOW, make_record, make_settings


def test_success_starts_the_cooldown_and_forgets_failures() -> None:
    record = make_record(failures=4, backoff_until=NOW + 5, unclean_runs=2, last_scale_at=1)
    assert succeed(record, NOW) == make_record(last_scale_at=NOW)


def test_back_off_doubles_with_every_failure_and_is_capped() -> None:
    record, waits = make_record(), []
    for _ in range(9):
        record = back_off(record, make_settings(), NOW)
        waits.append(record.backoff_until - NOW)
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]
    assert (record.failures, record.last_scale_at) == (9, 0)


def test_back_off_stays_capped_after_any_number_of_failures() -> None:
    record = back_off(make_record(failures=100_000, unclean_runs=3), make_settings(), NOW)
    assert (record.backoff_until, record.unclean_runs) == (NOW + 3600, 0)
