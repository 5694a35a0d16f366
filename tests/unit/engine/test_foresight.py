"""Room ahead of expected demand: asked for where it pays, said in words, and forgotten by no restart."""

from __future__ import annotations

from dataclasses import replace
from itertools import count

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.engine.foresight import Foresight
from ebbtide.engine.notes import PAGE, DemandNotes, read_points
from ebbtide.errors import StoreCause, StoreUnusable
from ebbtide.model.decision import Action
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.model.pool import Headroom
from ebbtide.model.record import Record
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, ForecastSettings, PoolDemand, Settings
from ebbtide.model.snapshot import ClusterView, Snapshot
from tests.builders import POOL, make_node, make_pod, make_pool, make_settings
from tests.unit.engine.builders import Small, quick_settings

MIDNIGHT = 1_699_920_000
"""2023-11-14 00:00 UTC."""
DAY = STEPS_A_DAY * STEP_SECONDS
SETTINGS = make_settings(forecast=ForecastSettings(enabled=True))
EIGHT = 8 * 3600
DAYS = 9


class Midnight:
    def now(self) -> float:
        return MIDNIGHT

    def sleep(self, seconds: float) -> None:
        raise AssertionError


def a_store() -> MemoryStore:
    return MemoryStore(Midnight(), "cluster", MemoryDatabase(100_000))


def seen(at: int, pods: int, problems: tuple[str, ...] = ()) -> Snapshot:
    view = ClusterView(
        (make_node("a1"),), tuple(make_pod(f"web-{n}", 500, 512, node_name="a1") for n in range(pods))
    )
    return Snapshot(at, view, problems=problems)


def office(at: int) -> int:
    return 12 if EIGHT <= at % DAY < 18 * 3600 else 2


def watched(store: MemoryStore, days: int = DAYS, first: int = 0, until: int = 0) -> Foresight:
    """A daemon that saw so many days of an office, and the last of them up to that second."""
    numbers = count(first)
    found = Foresight(store, SETTINGS, lambda: f"{next(numbers):08d}")
    for at in range(MIDNIGHT + first * DAY, MIDNIGHT + days * DAY + until + 1, STEP_SECONDS):
        found.looked(seen(at, office(at)), Record())
    return found


def room(settings: Settings) -> Headroom:
    return settings.headroom[-1]


def test_room_is_asked_for_before_the_morning_and_said_in_words() -> None:
    foresight = watched(a_store(), until=EIGHT - 900)
    at = MIDNIGHT + DAYS * DAY + EIGHT - 900
    found = room(foresight.expecting(SETTINGS, seen(at, 2)))
    says = "2 nodes ahead of 08:00 UTC, expected 12 pods in pool workers"
    assert found == Headroom(500, 512, 10, POOL, expected=says)


def test_the_time_that_is_said_has_not_come_yet() -> None:
    foresight = watched(a_store(), until=EIGHT - 1800)
    at = MIDNIGHT + DAYS * DAY + EIGHT - 1800
    assert "nothing ahead of 07:45 UTC" in room(foresight.expecting(SETTINGS, seen(at, 2))).expected


def test_room_is_counted_in_nodes_by_what_fills_them_first_and_no_pod_is_smaller_than_the_least() -> None:
    foresight = watched(a_store(), until=EIGHT - 900)
    at = MIDNIGHT + DAYS * DAY + EIGHT - 900
    for cpu, memory, nodes in ((1000, 1, "3 nodes"), (1, 3000, "4 nodes"), (0, 0, "1 node")):
        pods = tuple(make_pod(f"web-{n}", cpu, memory, node_name="a1") for n in range(2))
        found = room(foresight.expecting(SETTINGS, Snapshot(at, ClusterView((make_node("a1"),), pods))))
        assert found.expected.startswith(f"{nodes} ahead of")
        assert (found.cpu_milli, found.memory_mib) == (max(cpu, 1), max(memory, 1))


def test_seven_days_and_the_hour_that_is_judged_are_enough_and_a_quarter_less_is_not() -> None:
    store, at = a_store(), MIDNIGHT + 7 * DAY + 3600
    foresight = watched(store, days=7, until=3600)
    assert "it takes" not in foresight.outlooks(SETTINGS, at)[POOL].why_off
    early = Foresight(store, SETTINGS, lambda: "early")
    assert "it takes 7 days" in early.outlooks(SETTINGS, at - STEP_SECONDS)[POOL].why_off


def test_two_runners_that_judge_within_the_same_hour_come_to_the_same_verdict() -> None:
    store = a_store()
    first = watched(store)
    at = MIDNIGHT + DAYS * DAY
    found = first.outlooks(SETTINGS, at)[POOL].verdict
    assert found is not None
    for quarter in range(1, 4):
        first.looked(seen(at + quarter * STEP_SECONDS, 40), Record())
    later = Foresight(store, SETTINGS, lambda: "later")
    assert later.outlooks(SETTINGS, at + 3 * STEP_SECONDS)[POOL].verdict == found


def test_what_has_come_already_needs_no_more_room() -> None:
    foresight = watched(a_store(), until=EIGHT - 900)
    at = MIDNIGHT + DAYS * DAY + EIGHT - 900
    assert room(foresight.expecting(SETTINGS, seen(at + 60, 9))).count == 3
    enough = room(foresight.expecting(SETTINGS, seen(at + 120, 30)))
    assert (enough.count, enough.expected) == (
        0,
        "nothing ahead of 08:00 UTC, expected 12 pods in pool workers",
    )


def test_settings_stay_the_same_value_while_nothing_changes() -> None:
    foresight = watched(a_store())
    at = MIDNIGHT + DAYS * DAY
    first = foresight.expecting(SETTINGS, seen(at, 2))
    assert foresight.expecting(SETTINGS, seen(at + 60, 2)) is first
    assert foresight.expecting(SETTINGS, seen(at + 120, 1)) is not first


def test_configured_headroom_stays_next_to_what_is_expected() -> None:
    own = Headroom(1000, 1024)
    settings = replace(SETTINGS, headroom=(own,))
    found = watched(a_store()).expecting(settings, seen(MIDNIGHT + DAYS * DAY, 2))
    assert found.headroom[0] is own
    assert len(found.headroom) == 2


def test_pods_are_as_large_as_the_last_that_ran_where_none_runs_now() -> None:
    foresight = watched(a_store(), until=EIGHT - 900)
    found = room(foresight.expecting(SETTINGS, seen(MIDNIGHT + DAYS * DAY + EIGHT - 900, 0)))
    assert (found.cpu_milli, found.memory_mib, found.count) == (500, 512, 12)


def test_a_short_past_prepares_nothing_and_says_why() -> None:
    foresight = watched(a_store(), days=2)
    found = room(foresight.expecting(SETTINGS, seen(MIDNIGHT + 2 * DAY, 2)))
    says = "forecast for pool workers: off, demand is noted for 2 days and it takes 7 days"
    assert found == Headroom(1, 1, 0, POOL, expected=says)
    fresh = Foresight(a_store(), SETTINGS, lambda: "1")
    assert "off, demand is noted for 0 s" in room(fresh.expecting(SETTINGS, seen(MIDNIGHT, 2))).expected


def test_a_past_with_gaps_prepares_nothing_and_says_why() -> None:
    store = a_store()
    watched(store)
    at = MIDNIGHT + (DAYS + 3) * DAY
    foresight = Foresight(store, SETTINGS, lambda: "later")
    assert "known for only 57% of the last week" in room(foresight.expecting(SETTINGS, seen(at, 2))).expected


def test_where_a_constant_headroom_is_as_good_nothing_is_prepared() -> None:
    store, numbers = a_store(), count()
    foresight = Foresight(store, SETTINGS, lambda: f"{next(numbers):08d}")
    for at in range(MIDNIGHT, MIDNIGHT + DAYS * DAY + 1, STEP_SECONDS):
        foresight.looked(seen(at, 5), Record())
    found = room(foresight.expecting(SETTINGS, seen(MIDNIGHT + DAYS * DAY, 5)))
    assert found.count == 0
    assert "a constant headroom of 0.0 pods would have cost the same" in found.expected


def test_a_pool_that_stops_repeating_itself_is_off_again() -> None:
    """A week of offices, then a week in which the same rise comes at another hour each day."""
    store, numbers = a_store(), count()
    foresight = Foresight(store, SETTINGS, lambda: f"{next(numbers):08d}")
    asked = {}
    for day in range(20):
        for step in range(STEPS_A_DAY):
            at = MIDNIGHT + day * DAY + step * STEP_SECONDS
            moved = at - (day * 7 % 13) * 3600 if day >= DAYS else at
            foresight.looked(seen(at, office(moved)), Record())
        if day in (DAYS - 1, 19):
            asked[day] = room(foresight.expecting(SETTINGS, seen(at + STEP_SECONDS, 2))).expected
    assert "expected 2 pods" in asked[DAYS - 1]
    assert "off, over the last 7 days a constant headroom" in asked[19]


def test_another_runner_reads_the_notes_and_comes_to_the_same_answer() -> None:
    store = a_store()
    first = watched(store, until=EIGHT - 900)
    second = Foresight(store, SETTINGS, lambda: "other")
    at = MIDNIGHT + DAYS * DAY + EIGHT - 900
    assert second.expecting(SETTINGS, seen(at, 2)) == first.expecting(SETTINGS, seen(at, 2))
    assert len(store.read_log([LogKind.COST], "demand", 10_000)) > PAGE


def test_a_runner_that_dies_within_a_quarter_costs_no_more_than_what_it_saw_of_it() -> None:
    store = a_store()
    notes = DemandNotes(store, lambda: "first")
    notes.saw(seen(MIDNIGHT, 9), SETTINGS)
    following = DemandNotes(store, lambda: "second")
    following.saw(seen(MIDNIGHT + 600, 4), SETTINGS)
    following.saw(seen(MIDNIGHT + 900, 3), SETTINGS)
    assert following.series(POOL, (MIDNIGHT + 900) // STEP_SECONDS).pods == (4,)
    notes.saw(seen(MIDNIGHT + 905, 9), SETTINGS)  # it was only frozen
    third = DemandNotes(store, lambda: "third")
    third.catch_up((MIDNIGHT + 900) // STEP_SECONDS)
    assert third.series(POOL, (MIDNIGHT + 900) // STEP_SECONDS).pods == (9,)
    assert third.last(POOL) == PoolDemand(9, 4500, 4608)


def test_a_note_is_one_of_cost_as_well() -> None:
    store = a_store()
    watched(store, days=0, until=1800)
    one = store.read_log([LogKind.COST])[0]
    assert (one.subject, one.data["demand"], one.data["demandSince"]) == (
        "demand",
        {POOL: [2, 1000, 1024]},
        MIDNIGHT + 900,
    )
    assert [point.workers for point in read_points(store, 10)] == [1, 1]


def test_what_is_missing_in_between_is_as_a_day_before() -> None:
    store = a_store()
    watched(store, days=1)
    notes = DemandNotes(store, lambda: "later")
    step = MIDNIGHT // STEP_SECONDS
    notes.catch_up(step + 2 * STEPS_A_DAY)
    series = notes.series(POOL, step + 2 * STEPS_A_DAY)
    assert series.pods[STEPS_A_DAY:] == series.pods[:STEPS_A_DAY]
    assert series.known == 0.5


class Away(MemoryStore):
    def read_log(self, *_: object, **__: object) -> list[LogEntry]:
        raise StoreUnusable(StoreCause.UNREACHABLE, "away")


def test_without_a_view_or_without_notes_the_settings_are_as_they_are() -> None:
    foresight = watched(a_store(), days=0)
    assert foresight.expecting(SETTINGS, seen(MIDNIGHT, 2, ("blind",))) is SETTINGS
    blind = Foresight(Away(Midnight(), "cluster"), SETTINGS, lambda: "1")
    assert blind.expecting(SETTINGS, seen(MIDNIGHT, 2)) is SETTINGS
    blind.looked(seen(MIDNIGHT, 2, ("blind",)), Record())
    assert blind.expecting(SETTINGS, seen(MIDNIGHT, 2)) is SETTINGS


def test_a_pool_that_sleeps_is_left_asleep() -> None:
    settings = replace(SETTINGS, pools=(make_pool(may_be_empty=True),))
    assert watched(a_store()).expecting(settings, seen(MIDNIGHT + DAYS * DAY, 2)).headroom == ()


def test_a_tick_launches_for_what_is_expected_and_the_record_says_so() -> None:
    says = "1 node ahead of 08:00 UTC, expected 3 to 4 pods in pool workers"
    small = Small(settings=quick_settings(cpu_down=0.0))

    def expecting(settings: Settings, _: Snapshot) -> Settings:
        return replace(settings, headroom=(Headroom(3950, 512, 4, POOL, expected=says),))

    report = small.tick(replace(small.ports, expecting=expecting))
    assert f"headroom for {says} has room for 2 of 4" in report.says
    assert report.decision is not None
    assert report.decision.action is Action.SCALE_UP
    assert small.store.load().headroom[0].says == says
