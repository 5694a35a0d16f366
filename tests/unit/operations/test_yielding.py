"""Removals give way: to pods that their nodes could take, and to load."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.operations import machine, scale_down
from ebbtide.core.operations.stopping import why_may_not_go, why_yield
from ebbtide.model.operation import AbortCause, RemovalState, ScaleDown
from ebbtide.model.pod import AntiAffinity, Pod, PodPhase, Resources, Scheduling, Taint, TaintEffect
from ebbtide.model.snapshot import Snapshot
from tests.builders import (
    NOW,
    make_consolidate,
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_removal,
    make_scale_down,
    make_selector,
    make_settings,
    make_snapshot,
    make_spot,
)
from tests.unit.operations.builders import cordoned, make_situation, with_work

DRAINING, TERMINATING = RemovalState.DRAINING, RemovalState.TERMINATING
CORDON = Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE)
FULL = [make_pod(f"full-{name}", 3500, node_name=name) for name in ("a2", "b1")]
ONE = make_scale_down(make_removal("a1", state=DRAINING, attempts=1, drain_deadline=NOW + 300))


def pending(name: str = "new", cpu_milli: int = 1000, **overrides: Any) -> Pod:
    return make_pod(name, cpu_milli, phase=PodPhase.PENDING, **overrides)


def seen(*pods: Pod, cpu: float | None = 0.1) -> Snapshot:
    nodes = (cordoned("a1", taints=(CORDON,)), *make_nodes("a2", "b1"))
    return make_snapshot(nodes, [*FULL, *pods], cpu=cpu)


def advanced(snapshot: Snapshot, operation: ScaleDown = ONE, **record: Any) -> ScaleDown:
    situation = make_situation(snapshot, record=with_work(operation, **record))
    after = scale_down.advance(operation, situation).state
    assert machine.gives_way(operation, situation) == after.excused
    return after


def test_it_is_released_at_once_for_a_pod_that_only_its_node_could_take() -> None:
    after = advanced(seen(pending()))
    assert after.abort_cause is AbortCause.PODS_WAITING
    assert (after.excused, after.removals[0].state) == (True, RemovalState.RELEASING)


def test_load_that_ends_the_removal_of_a_node_that_is_not_ready_is_no_failure() -> None:
    """Row 32: no back-off where load ended it. The last gate would refuse it, whatever the node is."""
    drained = make_scale_down(make_removal("a1", state=RemovalState.DRAINED, attempts=1))
    nodes = (cordoned("a1", taints=(CORDON,), ready=False), *make_nodes("a2", "b1"))
    hot = make_snapshot(nodes, FULL, cpu=0.71)
    after = advanced(hot, drained)
    assert after.abort_cause is AbortCause.LOAD
    assert (after.excused, after.removals[0].state) == (True, RemovalState.RELEASING)
    started = make_scale_down(make_removal("a1", state=DRAINING, attempts=1, drain_deadline=NOW + 300))
    assert advanced(hot, started).abort_reason == "", "a node that is not Ready carries no load"


def test_every_pending_pod_is_asked_about_and_not_only_the_first() -> None:
    situation = make_situation(seen(pending("fits-elsewhere", 400), pending("second")), record=with_work(ONE))
    stop = why_yield(ONE, situation)
    assert stop is not None
    assert (stop.cause, stop.about) == (AbortCause.PODS_WAITING, "default/second")


@pytest.mark.parametrize(
    "pod",
    [
        pending("fits-elsewhere", 400),
        pending("too-large", 5000),
        pending("agent", 1000, controller="DaemonSet"),
        pending("elsewhere", 1000, scheduling=Scheduling(node_selector=(("disk", "ssd"),))),
        pending("unknown", 0, requests=Resources(0, 0)),
    ],
    ids=lambda pod: pod.name,
)
def test_a_pod_that_it_would_not_help_stops_nothing(pod: Pod) -> None:
    assert advanced(seen(pod)).abort_reason == ""


def test_a_pod_of_which_nothing_is_known_is_believed_to_need_it_after_a_while() -> None:
    unknown = pending("unknown", requests=Resources(0, 0))
    assert advanced(seen(unknown), pending_since=NOW - 179).abort_reason == ""
    assert advanced(seen(unknown), pending_since=NOW - 180).excused
    strange = pending("strange", scheduling=Scheduling(unsupported=("something",)))
    assert advanced(seen(strange), pending_since=NOW - 180).excused


def test_it_is_released_when_load_is_back() -> None:
    assert advanced(seen(cpu=0.70)).abort_reason == ""
    after = advanced(seen(cpu=0.95))
    assert (after.abort_cause, after.excused) == (AbortCause.LOAD, True)
    drained = make_scale_down(make_removal("a1", state=RemovalState.DRAINED))
    assert advanced(seen(cpu=0.5), drained).abort_cause is AbortCause.LOAD
    assert advanced(seen(cpu=0.4), drained).abort_cause is AbortCause.NONE


@pytest.mark.parametrize("state", list(RemovalState))
def test_only_what_is_terminating_or_refused_can_no_longer_be_given_back(state: RemovalState) -> None:
    rolls_forward = (RemovalState.TERMINATING, RemovalState.SET_ASIDE)
    assert make_removal("a1", state=state).irrevocable == (state in rolls_forward)


def test_what_cannot_be_given_back_does_not_give_way() -> None:
    rolling = make_scale_down(make_removal("a1", state=TERMINATING))
    after = advanced(seen(pending(), cpu=0.95), rolling)
    assert (after.abort_reason, after.removals[0].state) == ("", TERMINATING)
    dead = make_snapshot([make_node("a1", ready=False), *make_nodes("a2", "b1")], [*FULL, pending()])
    assert not advanced(dead).excused
    other = make_snapshot([cordoned("a1", uid="uid-of-its-successor"), *make_nodes("a2")], [pending()])
    assert not scale_down.gives_way(ONE, make_situation(other, record=with_work(ONE)))


def test_what_is_being_given_back_runs_before_anything_is_launched() -> None:
    releasing = make_scale_down(
        make_removal("a1", state=RemovalState.RELEASING), abort_reason="needed", excused=True
    )
    situation = make_situation(seen())
    assert machine.gives_way(releasing, situation)
    assert not machine.gives_way(make_scale_down(abort_reason="needed"), situation)
    half_seen = make_situation(make_snapshot(problems=("?",)))
    assert not machine.gives_way(releasing, half_seen)
    assert not machine.gives_way(make_consolidate([], []), situation)
    assert not machine.gives_way(None, situation)


MORE = ("a2", "b1")


@pytest.mark.parametrize("state", [RemovalState.PLANNED, DRAINING, RemovalState.DRAINED])
@pytest.mark.parametrize(
    ("others", "settings", "says"),
    [
        (("a2",), {"min_workers": 2}, "1 ready worker would be left, min_workers is 2"),
        (MORE, {"min_workers": 3}, "2 ready workers would be left, min_workers is 3"),
        (
            MORE,
            {"min_workers": 1, "pools": (make_pool(min_workers=3),)},
            "2 would be left in pool workers, its minimum is 3",
        ),
        (("b1", "b2"), {"min_workers": 1}, "zone a would be left without a ready worker"),
        (MORE, {"pools": (make_pool("other"),)}, "pool workers of a1 is no longer configured"),
    ],
)
def test_it_is_released_at_once_where_it_may_no_longer_go(
    state: RemovalState, others: tuple[str, ...], settings: dict[str, Any], says: str
) -> None:
    """A worker was lost, a minimum raised, or its pool taken out of the configuration. Its pods were evicted
    for nothing, and another node launched. It backs off: neither demand nor load ended it (row 32)."""
    operation = make_scale_down(make_removal("a1", state=state, attempts=1, drain_deadline=NOW + 300))
    snapshot = make_snapshot((cordoned("a1", taints=(CORDON,)), *make_nodes(*others)))
    situation = make_situation(snapshot, record=with_work(operation), settings=make_settings(**settings))
    after = scale_down.advance(operation, situation).state
    assert (after.abort_cause, after.abort_reason) == (AbortCause.NOT_ALLOWED, says)
    assert (after.excused, after.removals[0].state) == (False, RemovalState.RELEASING)
    assert machine.gives_way(operation, situation), "before anything is launched in its place"


def test_it_continues_where_giving_it_back_would_help_nobody() -> None:
    """What the cloud takes anyway cannot be kept, and a node that is not Ready is no capacity."""
    settings = make_settings(min_workers=3)
    lost = make_snapshot((cordoned("a1", taints=(CORDON,)), *make_nodes(*MORE)))
    noticed = make_situation(
        lost, record=with_work(ONE, spots=(make_spot("a1", replace=False),)), settings=settings
    )
    assert scale_down.advance(ONE, noticed).state.abort_reason == ""
    dead = make_snapshot((cordoned("a1", taints=(CORDON,), ready=False), *make_nodes(*MORE)))
    silent = make_situation(dead, record=with_work(ONE), settings=settings)
    assert scale_down.advance(ONE, silent).state.abort_reason == ""


def test_a_list_that_may_not_be_whole_gives_no_node_back_for_the_minimum() -> None:
    few = make_snapshot((cordoned("a1", taints=(CORDON,)), *make_nodes("a2")))
    situation = make_situation(few, record=with_work(ONE, worker_count=20))
    assert scale_down.advance(ONE, situation).state.abort_reason == ""


TWO = make_scale_down(
    *(make_removal(name, state=DRAINING, attempts=1, drain_deadline=NOW + 300) for name in ("a1", "a3"))
)


def test_one_of_several_nodes_on_their_way_is_enough_for_a_pod() -> None:
    """The first is too small for it."""
    small = cordoned("a1", taints=(CORDON,), allocatable=Resources(500, 8192))
    nodes = (small, cordoned("a3", taints=(CORDON,)), *make_nodes("a2", "b1"))
    stop = why_yield(TWO, make_situation(make_snapshot(nodes, [*FULL, pending()]), record=with_work(TWO)))
    assert stop is not None
    assert stop.cause is AbortCause.PODS_WAITING
    apart = replace(nodes[0], allocatable=Resources(4000, 8192), labels=(("disk", "ssd"),))
    asks = pending(scheduling=Scheduling(node_selector=(("disk", "ssd"),)))
    stop = why_yield(
        TWO,
        make_situation(make_snapshot((apart, *nodes[1:]), [*FULL, asks]), record=with_work(TWO)),
    )
    assert stop is not None
    assert stop.cause is AbortCause.PODS_WAITING


def test_pods_that_are_still_on_the_node_keep_others_off_it() -> None:
    apart = Scheduling(anti_affinity=(AntiAffinity("kubernetes.io/hostname", make_selector(app="db")),))
    asks = pending("db-2", scheduling=apart)
    assert advanced(seen(asks)).excused
    there = make_pod("db-1", node_name="a1", labels=(("app", "db"),), controller="StatefulSet")
    assert advanced(seen(asks, there)).abort_cause is AbortCause.NONE


def test_another_node_on_the_same_instance_is_not_given_back_for_a_pod() -> None:
    nodes = (cordoned("a1", taints=(CORDON,), uid="its-successor"), *make_nodes("a2", "b1"))
    snapshot = make_snapshot(nodes, [*FULL, pending()])
    assert why_yield(ONE, make_situation(snapshot, record=with_work(ONE))) is None


def test_load_brings_nothing_back_where_the_last_node_is_dead_and_every_pool_sleeps() -> None:
    drained = make_scale_down(make_removal("a1", state=RemovalState.DRAINED, attempts=1))
    dead = make_snapshot([cordoned("a1", taints=(CORDON,), ready=False)], [], cpu=0.95)
    sleeping = make_settings(pools=(make_pool(may_be_empty=True),))
    situation = make_situation(dead, record=with_work(drained), settings=sleeping)
    assert why_yield(drained, situation) is None


def test_a_removal_that_names_only_its_instance_is_counted_against_the_minimum() -> None:
    unnamed = make_scale_down(replace(make_removal("a1"), node_name="", node_uid="", zone="", pool=""))
    snapshot = make_snapshot(make_nodes("a1", "a2", "b1"), [make_pod("web", node_name="a2")])
    settings = make_settings(min_workers=3)
    situation = make_situation(snapshot, record=with_work(unnamed), settings=settings)
    assert scale_down.advance(unnamed, situation).state.abort_cause is AbortCause.NOT_ALLOWED


def test_a_removal_of_a_pool_that_is_gone_names_its_node_although_only_its_instance_was_written() -> None:
    unnamed = make_scale_down(replace(make_removal("a1"), node_name="", node_uid="", zone="", pool=""))
    situation = make_situation(
        make_snapshot(make_nodes("a1", "a2", "b1")),
        record=with_work(unnamed),
        settings=make_settings(pools=(make_pool("other"),)),
    )
    stop = why_may_not_go(unnamed, situation)
    assert stop is not None
    assert (stop.cause, stop.about) == (AbortCause.NOT_ALLOWED, "a1")


@pytest.mark.parametrize("excused", [False, True])
def test_a_release_that_takes_too_long_is_no_failure_and_a_removal_is(excused: bool) -> None:
    """What was begun only to lift a stray cordon has removed nothing because nothing was to be removed."""
    late = replace(ONE, started_at=NOW - 100_000, excused=excused)
    after = scale_down.advance(late, make_situation(seen(), record=with_work(late))).state
    assert (after.abort_reason != "", after.excused) == (True, excused)


def test_an_operation_with_one_node_gone_and_another_on_its_way_is_not_over() -> None:
    gone = make_removal("a2", state=RemovalState.GONE)
    assert not scale_down.is_settled(make_scale_down(gone, *ONE.removals))
    assert not scale_down.is_settled(make_scale_down(*ONE.removals, gone))
    assert scale_down.is_settled(make_scale_down(gone))


@pytest.mark.parametrize(("name", "stays"), [("a1", False), ("b1", True)])
def test_of_a_removal_that_names_only_its_machine_the_zone_and_the_pool_are_those_of_its_node(
    name: str, stays: bool
) -> None:
    """An adopted one knows no more: the last worker of a zone stays all the same."""
    removal = make_removal(name, state=DRAINING, zone="", pool="", drain_deadline=NOW + 300)
    nodes = (make_node("a2"), *(cordoned(each) if each == name else make_node(each) for each in ("a1", "b1")))
    operation = make_scale_down(removal)
    stop = why_may_not_go(operation, make_situation(make_snapshot(nodes), record=with_work(operation)))
    assert (stop is not None) is stays
