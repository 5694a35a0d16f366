"""The band of expected pods: from the notes in the log, and said why where there is none."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fastapi.testclient import TestClient

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.entrypoints.api.site import Sight, Site
from ebbtide.errors import StoreCause, StoreUnusable
from ebbtide.model.events import CostNoted
from ebbtide.model.log import Kinds, LogEntry
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, ForecastSettings
from ebbtide.model.snapshot import Snapshot
from ebbtide.narrate import entry_of
from ebbtide.ports import Store
from ebbtide.simulator.faults.ports import PassedStore
from ebbtide.simulator.run.live import Live
from ebbtide.simulator.world.clock import VirtualClock
from tests.builders import POOL, make_pool, make_settings
from tests.integration.api.conftest import client_of, make_site

MIDNIGHT = 1_699_920_000
"""2023-11-14 00:00 UTC."""
DAY = STEPS_A_DAY * STEP_SECONDS
SEVEN, EIGHT = 7 * 3600, 8 * 3600
SETTINGS = make_settings(
    pools=(make_pool(), replace(make_pool(), name="more")), forecast=ForecastSettings(enabled=True)
)


def office(at: int) -> int:
    return 12 if EIGHT <= at % DAY < 18 * 3600 else 2


def note(at: int, pods: int) -> LogEntry:
    """Written when its quarter is over."""
    demand = {POOL: (pods, pods * 500, pods * 512), "more": (1, 500, 512)}
    return entry_of(
        f"{at:012d}", at + STEP_SECONDS, CostNoted({}, 0, demand=demand, demandSince=at), "demand"
    )


def noted(clock: VirtualClock, days: int) -> MemoryStore:
    store = MemoryStore(clock, "cluster", MemoryDatabase(100_000))
    now = int(clock.now())
    store.append([note(at, office(at)) for at in range(now - days * DAY, now, STEP_SECONDS)])
    return store


def client_over(live: Live, store: Store, clock: VirtualClock) -> TestClient:
    return client_of(site_over(live, store, clock))


def site_over(live: Live, store: Store, clock: VirtualClock) -> Site:
    sight = Sight(lambda: Snapshot(int(clock.now())), clock)
    return replace(make_site(live), store=store, settings=SETTINGS, clock=clock, sight=sight)


def test_where_it_is_off_nothing_is_asked_of_the_store(client: TestClient) -> None:
    said = {"enabled": False, "why_not": "forecast.enabled is off", "past": [], "expected": []}
    assert client.get("/api/v1/forecast").json() == said


def test_a_week_of_notes_gives_a_band_that_rises_before_the_morning(live: Live) -> None:
    clock = VirtualClock(MIDNIGHT + SEVEN)
    found = client_over(live, noted(clock, 9), clock).get("/api/v1/forecast").json()
    assert (found["enabled"], found["why_not"]) == (True, "")
    assert [len(found["past"]), len(found["expected"])] == [STEPS_A_DAY, STEPS_A_DAY // 2]
    assert found["past"][-1] == {"at": MIDNIGHT + SEVEN - STEP_SECONDS, "pods": 3}
    first, later = found["expected"][0], found["expected"][4]
    assert (first["at"], later["at"]) == (MIDNIGHT + SEVEN, MIDNIGHT + EIGHT)
    assert all(band["p50"] <= band["p90"] <= band["p95"] for band in found["expected"])
    assert (round(first["p50"]), round(later["p50"])) == (3, 13)


def test_with_too_few_notes_it_says_how_long_it_takes(live: Live) -> None:
    clock = VirtualClock(MIDNIGHT + SEVEN)
    found = client_over(live, noted(clock, 2), clock).get("/api/v1/forecast").json()
    assert found["expected"] == []
    assert found["why_not"] == "demand is noted for 2 days, it takes 3 days 12 h"
    assert len(found["past"]) == STEPS_A_DAY


def test_a_quarter_that_is_noted_later_is_seen_and_a_store_that_is_gone_changes_nothing(live: Live) -> None:
    clock = VirtualClock(MIDNIGHT + SEVEN)
    store = Breakable(noted(clock, 9))
    client = client_over(live, store, clock)
    before = client.get("/api/v1/forecast").json()
    clock.sleep(STEP_SECONDS)
    store.gone = True
    missing = client.get("/api/v1/forecast").json()
    assert missing["expected"][0]["at"] == MIDNIGHT + SEVEN + STEP_SECONDS
    clock.sleep(60)
    assert client.get("/api/v1/forecast").json() == missing
    store.gone = False
    store.append([note(MIDNIGHT + SEVEN, 40)])
    clock.sleep(60)
    after = client.get("/api/v1/forecast").json()
    assert after["past"][-1] == {"at": MIDNIGHT + SEVEN, "pods": 41}
    assert after["expected"][0]["p50"] > before["expected"][0]["p50"]


class Breakable(PassedStore):
    """A store that can be out of reach."""

    gone = False

    def read_log(
        self, kinds: Kinds = (), subject: str = "", limit: int = 100, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        if self.gone:
            raise StoreUnusable(StoreCause.UNREACHABLE, "the store does not answer")
        return super().read_log(kinds, subject, limit, before, brief)
