"""Timers run only over what was really seen."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.consolidation.emptied_nodes import GRACE_SECONDS
from ebbtide.core.nodes.timers import (
    BACKOFFS,
    STAMPS,
    TimerTrouble,
    TimerWarning,
    clamp_stamps,
    is_idle,
    pressing_at,
    track,
)
from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.record import (
    CapacityBackoff,
    Counted,
    DrainBackoff,
    DrainFailures,
    Emptied,
    EmptiedNode,
    Record,
    Refused,
)
from ebbtide.model.snapshot import Snapshot
from tests.builders import (
    NOW,
    make_consolidate,
    make_daemon,
    make_move,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_removal,
    make_scale_down,
    make_scale_up,
    make_settings,
    make_slot,
    make_snapshot,
    make_source,
    make_spot,
)

NODES = make_nodes("a1", "a2", "b1")
CALM = make_snapshot(NODES)
WAITING = make_pod("web", phase=PodPhase.PENDING)
BUSY = make_snapshot(NODES, [*(make_daemon(node.name) for node in NODES), WAITING])
HOME = make_pod("home", node_name="a1")


def tracked(snapshot: Snapshot, **record: Any) -> Record:
    return track(snapshot, make_record(**record), make_settings(), NOW)[0]


def test_idle_time_starts_when_the_cluster_is_first_seen_idle_and_keeps_its_start() -> None:
    assert tracked(CALM).idle_since == NOW
    assert tracked(CALM, idle_since=NOW - 60, ticked_at=NOW - 60).idle_since == NOW - 60


@pytest.mark.parametrize(
    "snapshot",
    [make_snapshot(NODES, cpu=0.30), make_snapshot(NODES, cpu=None), BUSY],
    ids=["CPU at the threshold", "CPU unknown", "a pod waits"],
)
def test_the_cluster_is_idle_only_with_known_cpu_below_the_threshold_and_no_pod_pending(
    snapshot: Snapshot,
) -> None:
    assert not is_idle(snapshot, make_settings())
    assert tracked(snapshot, idle_since=NOW - 60, ticked_at=NOW - 60).idle_since == 0


def test_a_cpu_just_below_the_threshold_is_idle() -> None:
    assert is_idle(make_snapshot(NODES, cpu=0.2999), make_settings())


def test_an_incomplete_observation_is_not_idle_time_and_changes_nothing_else() -> None:
    before = make_record(idle_since=NOW - 60, pending_since=NOW - 90, worker_count=9, ticked_at=NOW - 60)
    after, warnings = track(make_snapshot(problems=("?",)), before, make_settings(), NOW)
    assert (after.idle_since, after.ticked_at) == (0, NOW)
    assert (after.pending_since, after.worker_count) == (NOW - 90, 9)
    assert warnings == ()


def test_missed_ticks_are_not_idle_time_and_that_is_said() -> None:
    record = make_record(idle_since=NOW - 9000, ticked_at=NOW - 301)
    after, warnings = track(CALM, record, make_settings(), NOW)
    assert after.idle_since == NOW
    assert warnings == (TimerWarning(TimerTrouble.NOT_TICKED, 301),)


def test_a_silence_of_at_most_five_minutes_is_no_gap() -> None:
    record = make_record(idle_since=NOW - 9000, ticked_at=NOW - 300)
    assert track(CALM, record, make_settings(), NOW) == (
        tracked(CALM, idle_since=NOW - 9000, ticked_at=NOW - 300),
        (),
    )
    assert tracked(CALM, idle_since=NOW - 9000, ticked_at=NOW - 300).idle_since == NOW - 9000


def test_a_silence_says_nothing_where_no_idle_time_was_running() -> None:
    assert track(CALM, make_record(ticked_at=NOW - 9000), make_settings(), NOW)[1] == ()


def test_pods_are_pending_from_the_moment_the_first_was_seen_until_none_is() -> None:
    assert tracked(BUSY).pending_since == NOW
    assert tracked(BUSY, pending_since=NOW - 50).pending_since == NOW - 50
    assert tracked(CALM, pending_since=NOW - 50).pending_since == 0


def test_it_is_known_when_pending_pods_or_missing_workers_will_be_worth_a_launch() -> None:
    settings = make_settings(pending_up_seconds=180)
    assert pressing_at(make_record(), settings, NOW) is None
    assert pressing_at(make_record(pending_since=NOW - 30), settings, NOW) == NOW + 150
    both = make_record(pending_since=NOW - 30, short_since=NOW - 100)
    assert pressing_at(both, settings, NOW) == NOW + 80
    assert pressing_at(make_record(pending_since=NOW - 180), settings, NOW) is None, "they are already"


def test_workers_are_short_while_fewer_than_the_minimum_stand_or_are_on_their_way() -> None:
    alone = make_snapshot(make_nodes("a1"))
    assert tracked(alone).short_since == NOW
    assert tracked(alone, operation=make_scale_up(make_slot())).short_since == 0
    assert tracked(CALM, short_since=NOW - 5).short_since == 0


def test_workers_are_short_where_a_single_pool_is_below_its_minimum() -> None:
    settings = make_settings(pools=(make_pool(), make_pool("gpu", min_workers=1)))
    assert track(CALM, make_record(), settings, NOW)[0].short_since == NOW
    coming = make_record(operation=make_scale_up(make_slot(pool="gpu")))
    assert track(CALM, coming, settings, NOW)[0].short_since == 0


@pytest.mark.parametrize("name", STAMPS)
def test_a_stamp_from_the_future_is_taken_as_now_with_a_warning(name: str) -> None:
    record, warnings = clamp_stamps(make_record(**{name: NOW + 40}), make_settings(), NOW)
    assert getattr(record, name) == NOW
    assert warnings == (TimerWarning(TimerTrouble.STAMP_AHEAD, 40, name),)


@pytest.mark.parametrize("name", BACKOFFS)
def test_a_back_off_never_lasts_longer_than_the_longest_from_now(name: str) -> None:
    record, warnings = clamp_stamps(make_record(**{name: NOW + 9000}), make_settings(), NOW)
    assert getattr(record, name) == NOW + 3600
    assert warnings == (TimerWarning(TimerTrouble.STAMP_AHEAD, 9000, name, 3600),)


def test_a_rest_never_lasts_longer_than_the_longest_from_now() -> None:
    resting = make_record(rests=(DrainBackoff("i-a1", NOW + 9000, "stuck"),))
    record, warnings = clamp_stamps(resting, make_settings(), NOW)
    assert (record.rests, warnings) == ((DrainBackoff("i-a1", NOW + 3600, "stuck"),), ())


def test_what_a_clock_that_was_ahead_found_sold_out_is_asked_for_again_in_time() -> None:
    """A spot pool launched on demand for as long as that clock had been ahead."""
    ahead = make_record(offer_rests=(CapacityBackoff("a/spot/small", NOW + 90_000),))
    record, warnings = clamp_stamps(ahead, make_settings(offer_rest_seconds=600), NOW)
    assert (record.offer_rests, warnings) == ((CapacityBackoff("a/spot/small", NOW + 600),), ())


def test_what_a_clock_that_was_ahead_emptied_is_forgotten_in_time() -> None:
    """Until then, nothing else may be chosen to go."""
    ahead = make_record(leaving=(EmptiedNode("a1", "uid-a1", "i-a1", "op", NOW + 90_000),))
    settings = make_settings(consolidation=ConsolidationSettings(min_idle_seconds=900))
    record, warnings = clamp_stamps(ahead, settings, NOW)
    assert [one.until - NOW for one in record.leaving] == [900 + GRACE_SECONDS]
    assert warnings == ()


def test_failed_drains_of_a_clock_that_was_ahead_last_no_longer_than_their_number_says() -> None:
    ahead = make_record(
        drain_failures=(
            DrainFailures("i-a1", 3, NOW + 99_000, NOW + 99_000),
            DrainFailures("i-b1", 1, 0, NOW + 99_000),
        )
    )
    record, _ = clamp_stamps(ahead, make_settings(), NOW)
    assert [(one.until, one.forget_at) for one in record.drain_failures] == [
        (NOW + 14_400, NOW + 28_800),
        (0, NOW + 7200),
    ]


def test_a_node_that_failed_to_drain_is_chosen_again_first_and_its_failures_are_forgotten_later() -> None:
    old = DrainFailures("i-a1", 3, NOW - 5, NOW)
    over, young = DrainFailures("i-b1", 1, NOW, NOW + 1), DrainFailures("i-c1", 1, NOW + 1, NOW + 2)
    record, _ = track(CALM, make_record(drain_failures=(old, over, young)), make_settings(), NOW)
    assert record.drain_failures == (replace(over, until=0), young)
    assert [rest.instance_id for rest in record.skipped] == ["i-c1"]


LATER = NOW + 7200
SAID = (TimerWarning(TimerTrouble.WORK_AHEAD),)


def test_work_that_a_clock_hours_ahead_began_is_taken_as_begun_now() -> None:
    """Else it would time out only hours from now, and machines that are gone would stay until then: swarm,
    seed 4258."""
    removal = make_removal(since=LATER, missing_since=LATER, retry_at=LATER, fence_until=LATER)
    before = make_record(
        launching=make_scale_up(make_slot(since=LATER), started_at=LATER, extended_at=LATER),
        removing=make_scale_down(removal, started_at=LATER, replacements=(make_slot("new", since=LATER),)),
        spots=(make_spot(noticed_at=LATER, removal=removal, slot=make_slot("spot", since=LATER)),),
        refused=(Refused("old", removal, LATER),),
    )
    record, warnings = clamp_stamps(before, make_settings(), NOW)
    settings = make_settings()
    mended = make_removal(
        since=NOW,
        missing_since=NOW,
        retry_at=NOW + max(settings.drain_retry_seconds, settings.request_timeout_seconds),
        fence_until=NOW + 900,
    )
    assert record == make_record(
        launching=make_scale_up(make_slot(since=NOW), started_at=NOW, extended_at=NOW),
        removing=make_scale_down(mended, started_at=NOW, replacements=(make_slot("new", since=NOW),)),
        spots=(make_spot(noticed_at=NOW, removal=mended, slot=make_slot("spot", since=NOW)),),
        refused=(Refused("old", mended, NOW + settings.stuck_seconds),),
    )
    assert warnings == SAID
    assert clamp_stamps(record, settings, NOW) == (record, ())


def test_a_consolidation_that_a_clock_hours_ahead_began_is_taken_as_begun_now() -> None:
    def at(moment: int, fence: int) -> Record:
        sources = [make_source(since=moment, fence_until=fence)]
        moves = [make_move(HOME, since=moment)]
        return make_record(removing=make_consolidate(sources, moves, started_at=moment, watched_since=moment))

    assert clamp_stamps(at(LATER, LATER), make_settings(), NOW) == (at(NOW, NOW + 900), SAID)
    past = at(NOW - 60, NOW + 100)
    assert clamp_stamps(past, make_settings(), NOW) == (past, ()), "a fence of this moment stays as it is"


def test_stamps_of_the_past_are_left_alone() -> None:
    record = make_record(**dict.fromkeys((*STAMPS, *BACKOFFS), NOW))
    assert clamp_stamps(record, make_settings(), NOW) == (record, ())


def test_a_clock_that_jumped_back_does_not_make_idle_time_of_the_future() -> None:
    after, warnings = track(CALM, make_record(idle_since=NOW + 5000), make_settings(), NOW)
    assert after.idle_since == NOW
    assert len(warnings) == 1


def test_a_rest_ends_by_itself() -> None:
    rests = (DrainBackoff("i-a1", NOW, "over"), DrainBackoff("i-a2", NOW + 1, "continues"))
    assert tracked(CALM, rests=rests).rests == rests[1:]


def test_what_is_seen_becomes_the_measure_of_the_next_look() -> None:
    after = tracked(CALM)
    assert (after.worker_count, after.pod_count, after.shrunk_since) == (3, 3, 0)


def test_the_count_of_the_look_before_is_kept_for_one_look_and_not_over_a_silence() -> None:
    four = (Counted("", 4), Counted("workers", 4))
    after = tracked(CALM, counted=four)
    assert after.counted == (Counted("", 3), Counted("workers", 3))
    assert after.counted_before == four
    assert tracked(CALM, counted=four, ticked_at=NOW - 301).counted_before == ()


def test_an_implausibly_small_cluster_is_not_taken_over_before_ten_minutes() -> None:
    before = {"worker_count": 10, "pod_count": 5}
    first = tracked(CALM, **before)
    assert (first.worker_count, first.shrunk_since) == (10, NOW)
    later = tracked(CALM, **before, shrunk_since=NOW - 599)
    assert (later.worker_count, later.shrunk_since) == (10, NOW - 599)
    believed = tracked(CALM, **before, shrunk_since=NOW - 600)
    assert (believed.worker_count, believed.shrunk_since) == (3, 0)


def test_a_cluster_without_any_pod_is_never_taken_over() -> None:
    after = tracked(make_snapshot(NODES, pods=[]), worker_count=3, pod_count=9, shrunk_since=NOW - 9000)
    assert (after.pod_count, after.shrunk_since) == (9, NOW - 9000)


def emptied(snapshot: Snapshot, **record: Any) -> dict[str, int]:
    return {node.node_uid: node.since for node in tracked(snapshot, **record).emptied}


def test_a_worker_is_empty_from_the_first_look_without_a_pod_that_counts() -> None:
    done = make_pod("done", node_name="b1", phase=PodPhase.SUCCEEDED)
    mirror = make_pod("mirror", node_name="a2", mirror=True)
    busy = make_snapshot(NODES, [*(make_daemon(node.name) for node in NODES), HOME, done, mirror])
    assert emptied(busy) == {"uid-a2": NOW, "uid-b1": NOW}
    assert emptied(busy, emptied=(Emptied("uid-a2", NOW - 60),), ticked_at=NOW - 60) == {
        "uid-a2": NOW - 60,
        "uid-b1": NOW,
    }


@pytest.mark.parametrize(
    "pod",
    [HOME, make_pod("new", node_name="a1", phase=PodPhase.PENDING), replace(HOME, terminating=True)],
    ids=["running", "being started", "being stopped"],
)
def test_a_pod_that_comes_ends_the_emptiness_of_its_worker(pod: Pod) -> None:
    full = make_snapshot(NODES[:1], [pod])
    assert emptied(full, emptied=(Emptied("uid-a1", NOW - 60),), ticked_at=NOW - 60) == {}


def test_a_node_that_is_no_worker_or_has_gone_is_not_kept() -> None:
    nodes = (make_node("a1", system=True), make_node("a2", pool=""), make_node("b1", uid=""))
    before = (Emptied("uid-a1", NOW - 60), Emptied("uid-gone", NOW - 60))
    assert emptied(make_snapshot(nodes), emptied=before, ticked_at=NOW - 60) == {}


def test_neither_an_incomplete_look_nor_missed_ticks_are_time_in_which_a_worker_was_empty() -> None:
    before = {"emptied": (Emptied("uid-a1", NOW - 9000),), "ticked_at": NOW - 301}
    assert emptied(make_snapshot(NODES, problems=("?",)), **before) == {}
    after, warnings = track(make_snapshot(NODES[:1]), make_record(**before), make_settings(), NOW)
    assert after.emptied == (Emptied("uid-a1", NOW),)
    assert warnings == (TimerWarning(TimerTrouble.NOT_TICKED, 301),)


def test_an_emptiness_from_the_future_begins_now_with_a_warning() -> None:
    before = make_record(emptied=(Emptied("uid-a1", NOW - 5), Emptied("uid-a2", NOW + 40)))
    record, warnings = clamp_stamps(before, make_settings(), NOW)
    assert record.emptied == (Emptied("uid-a1", NOW - 5), Emptied("uid-a2", NOW))
    assert warnings == (TimerWarning(TimerTrouble.EMPTIED_AHEAD, 40),)


def test_the_record_tells_since_when_a_node_is_empty() -> None:
    record = make_record(emptied=(Emptied("uid-a1", NOW - 5), Emptied("uid-a2", NOW)))
    assert [record.emptied_since(uid) for uid in ("uid-a2", "uid-b1")] == [NOW, None]


@pytest.mark.parametrize(
    ("problems", "record"),
    [
        (("half read",), {"ticked_at": NOW - 60}),
        ((), {"ticked_at": NOW - 301}),
        ((), {"ticked_at": NOW - 60, "unclean_removal_runs": 1}),
    ],
    ids=["nothing could be seen", "nobody looked", "the runner before died"],
)
def test_time_that_nobody_saw_is_not_counted_against_a_consolidation(
    problems: tuple[str, ...], record: dict[str, Any]
) -> None:
    operation = make_consolidate([], [], watched_since=NOW - 900)
    after = tracked(make_snapshot(NODES, problems=problems), operation=operation, **record)
    assert after.operation == replace(operation, watched_since=NOW)
    down = make_scale_down()
    assert tracked(make_snapshot(NODES, problems=problems), operation=down, **record).operation == down


def test_a_consolidation_that_is_looked_at_all_the_time_is_left_as_it_is() -> None:
    operation = make_consolidate([], [], watched_since=NOW - 900)
    assert tracked(CALM, operation=operation, ticked_at=NOW - 300).operation == operation
