"""How long is waited after failures."""

from __future__ import annotations

from ebbtide.core.operations.closing import backoff_until
from tests.builders import NOW, make_settings


def test_back_off_doubles_with_every_failure_and_is_capped() -> None:
    waits = [backoff_until(failures, make_settings(), NOW) - NOW for failures in range(1, 10)]
    assert waits == [60, 120, 240, 480, 960, 1920, 3600, 3600, 3600]


def test_back_off_stays_capped_after_any_number_of_failures() -> None:
    assert backoff_until(100_000, make_settings(), NOW) == NOW + 3600
