"""A process that ends stays while an interruption is open, and fails where it could not see."""

from __future__ import annotations

import pytest

from ebbtide.engine.notices import lease_seconds
from tests.builders import make_settings


@pytest.mark.parametrize(
    ("configured", "margin", "seconds"),
    [(180, 10, 30), (20, 10, 20), (180, 40, 80), (60, 40, 60)],
    ids=["short", "never above what is configured", "longer than its margin", "as far as that goes"],
)
def test_row_33_the_lease_on_a_notice_is_short(configured: int, margin: int, seconds: int) -> None:
    settings = make_settings(spot_lock_ttl_seconds=configured, lease_margin_seconds=margin)
    assert lease_seconds(settings) == seconds
