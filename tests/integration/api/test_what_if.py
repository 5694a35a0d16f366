"""The backtest that was published last, by month and by day."""

from __future__ import annotations

from fastapi.testclient import TestClient

from ebbtide.entrypoints.published import publish
from ebbtide.model.events import BacktestPublished, TriedSettings
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.simulator.run.live import Live

DAYS_10 = 10 * 86_400.0
TODAY = TriedSettings("as recorded", "100.00", 36_000, 90, 40, True, True)
BETTER = TriedSettings("profile balanced", "80.00", 18_000, 60, 50, True, False)


def test_there_is_none_before_one_is_published_and_the_newest_counts(live: Live, client: TestClient) -> None:
    assert client.get("/api/v1/backtest").json() == {"backtest": None}
    for at, tried in ((5, (TODAY,)), (6, (TODAY, BETTER))):
        fact = BacktestPublished("month.ebb", DAYS_10, "EUR", "calibration: not possible", tried)
        publish(live.ports.store, f"9{at}", at, fact)
    found = client.get("/api/v1/backtest").json()["backtest"]
    assert (found["published_at"], found["recording"], found["currency"]) == (6, "month.ebb", "EUR")
    assert [(one["name"], one["today"], one["front"]) for one in found["tried"]] == [
        ("as recorded", True, True),
        ("profile balanced", False, True),
    ]
    # 730 hours cost 3.0417 times as much as 240 hours.
    assert [(one["cost_a_month"], one["saves_a_month"]) for one in found["tried"]] == [
        ("304.17", "0.00"),
        ("243.33", "60.83"),
    ]
    assert [(one["pending_seconds_a_day"], one["evictions_a_day"]) for one in found["tried"]] == [
        (3600, 4),
        (1800, 5),
    ]


def test_without_todays_settings_nothing_is_said_to_be_saved(live: Live, client: TestClient) -> None:
    publish(live.ports.store, "95", 5, BacktestPublished("month.ebb", DAYS_10, "EUR", "", (BETTER,)))
    found = client.get("/api/v1/backtest").json()["backtest"]
    assert [one["saves_a_month"] for one in found["tried"]] == [None]


def test_one_in_the_shape_of_a_newer_version_is_not_shown(live: Live, client: TestClient) -> None:
    newer = LogEntry("95", 5, LogKind.SWITCH, "backtest of month.ebb published", "backtest", {"form": 2})
    live.ports.store.append([newer])
    assert client.get("/api/v1/backtest").json() == {"backtest": None}
