"""Headroom: as if so many pods of one size ran there, without any that does."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest

from ebbtide.core.nodes.decide import decide
from ebbtide.core.nodes.gates import may_terminate
from ebbtide.core.nodes.headroom import (
    described,
    gives_way,
    keeps_headroom,
    lacking,
    look,
    phantoms,
    wanted_now,
)
from ebbtide.core.nodes.sizing import plan_launch
from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.nodes.timers import track
from ebbtide.core.nodes.underused import choose_underused
from ebbtide.core.operations import scale_down
from ebbtide.core.operations.stopping import why_yield
from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.decision import Action, Decision
from ebbtide.model.operation import AbortCause, RemovalState, SlotState
from ebbtide.model.pod import PlanStop, Pod, PodPhase, Scheduling, StopCause, Taint, TaintEffect
from ebbtide.model.pool import CronWindow, Headroom, HeadroomSeen, PoolLimits, RemovalReason
from ebbtide.model.record import Emptied, Record
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Snapshot
from tests.builders import (
    NOW,
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
    make_type,
    values_of,
)
from tests.unit.operations.builders import cordoned, make_situation, with_work

TWO = Headroom(3000, 4096, 2)
"""Two nodes of 4 CPU hold it, if next to nothing else is on them."""
ONE_ZONE = (make_pool(zones=("a",)),)
MONDAY_SEVEN = int(datetime(2026, 1, 5, 6, tzinfo=UTC).timestamp())
"""In Berlin."""


def settings_with(*headroom: Headroom, **overrides: Any) -> Settings:
    given = {"pools": ONE_ZONE, "min_workers": 1, "headroom": headroom or (TWO,), **overrides}
    return make_settings(**given)


def busy(*names: str, cpu_milli: int = 2000) -> list[Pod]:
    return [make_pod(f"busy-{name}", cpu_milli, 128, node_name=name) for name in names]


def waiting(name: str, cpu_milli: int, **overrides: Any) -> Pod:
    return make_pod(name, cpu_milli, 128, phase=PodPhase.PENDING, **overrides)


def seen(
    snapshot: Snapshot, settings: Settings | None = None, record: Record | None = None
) -> list[tuple[int, int]]:
    found = look(snapshot, record or make_record(), settings or settings_with())
    return [(one.wanted, one.there) for one in found]


def decided(snapshot: Snapshot, settings: Settings, record: Record | None = None) -> Decision:
    return decide(snapshot, record or make_record(), settings, snapshot.at, "d")


def test_room_is_counted_node_by_node_after_all_pods() -> None:
    nodes = make_nodes("a1", "a2", "a3")
    assert seen(make_snapshot(nodes, [])) == [(2, 2)]
    assert seen(make_snapshot(nodes, busy("a1", "a2"))) == [(2, 1)]
    assert seen(make_snapshot(nodes, [*busy("a1"), waiting("new", 2000)])) == [(2, 2)]
    assert seen(make_snapshot(nodes, [*busy("a1", "a2"), waiting("new", 3000)])) == [(2, 0)]
    assert seen(make_snapshot((), [])) == [(2, 0)]


def test_two_headrooms_do_not_share_a_place() -> None:
    small, large = Headroom(1000, 1024, 2), Headroom(4000, 4096, 1)
    nodes = make_nodes("a1", "a2")
    assert seen(make_snapshot(nodes, []), settings_with(small, large)) == [(2, 2), (1, 1)]
    assert seen(make_snapshot(nodes, busy("a1", cpu_milli=3500)), settings_with(small, large)) == [
        (2, 0),
        (1, 1),
    ]


def test_memory_and_pod_slots_are_counted_like_cpu() -> None:
    nodes = make_nodes("a1", "a2")
    full = [make_pod("big", 0, 6000, node_name="a1")]
    assert seen(make_snapshot(nodes, full)) == [(2, 1)]
    tight = make_nodes("a1", max_pods=1)
    assert seen(make_snapshot(tight, []), settings_with(Headroom(100, 100, 5))) == [(5, 1)]
    assert seen(make_snapshot(tight, busy("a1")), settings_with(Headroom(100, 100, 5))) == [(5, 0)]


def test_nodes_on_their_way_count_and_nodes_on_their_way_out_do_not() -> None:
    nodes = make_nodes("a1", "a2")
    snapshot = make_snapshot(nodes, busy("a1"))
    coming = make_record(operation=make_scale_up(make_slot(state=SlotState.LAUNCHED, instance_id="i-new")))
    going = make_record(operation=make_scale_down(make_removal("a2", state=RemovalState.TERMINATING)))
    assert seen(snapshot) == [(2, 1)]
    assert seen(snapshot, record=coming) == [(2, 2)]
    assert seen(snapshot, record=going) == [(2, 0)]


def test_what_we_cordoned_and_give_back_counts_and_what_a_person_cordoned_does_not() -> None:
    ours = cordoned("a2", taints=(Taint("node.kubernetes.io/unschedulable", TaintEffect.NO_SCHEDULE),))
    assert seen(make_snapshot((*make_nodes("a1"), ours), [])) == [(2, 2)]
    assert seen(make_snapshot((*make_nodes("a1"), replace(ours, owner=None)), [])) == [(2, 1)]
    assert seen(make_snapshot((*make_nodes("a1"), replace(ours, ready=False)), [])) == [(2, 1)]


def test_it_is_kept_where_it_is_asked_for() -> None:
    taint = Taint("gpu", TaintEffect.NO_SCHEDULE, "yes")
    pools = (make_pool(), make_pool("gpu", taints=(taint,)))
    nodes = (*make_nodes("a1", "b1"), *make_nodes("a2", pool="gpu", taints=(taint,)))
    snapshot = make_snapshot(nodes, [])

    def there(**overrides: Any) -> int:
        headroom = Headroom(3000, 4096, 9, **overrides)
        return seen(snapshot, make_settings(pools=pools, headroom=(headroom,)))[0][1]

    assert there() == 2
    assert there(zones=("b",)) == 1
    assert there(pool="gpu") == 1
    assert there(pool="gpu", zones=("b",)) == 0
    foreign = make_snapshot(make_nodes("a1", pool=""), [])
    assert seen(foreign, make_settings(headroom=(Headroom(3000, 4096),))) == [(1, 0)]


def test_it_is_kept_while_its_window_is_open_in_its_time_zone() -> None:
    window = CronWindow("0 7 * * mon-fri", "Europe/Berlin", 7200)
    settings = settings_with(replace(TWO, window=window))
    for at, wanted in ((-1, 0), (0, 2), (7199, 2), (7200, 0)):
        snapshot = make_snapshot(make_nodes("a1"), [], at=MONDAY_SEVEN + at)
        assert seen(snapshot, settings) == [(wanted, min(wanted, 1))]
    assert described(settings.headroom[0]).endswith("from '0 7 * * mon-fri' in Europe/Berlin for 2 h")


def test_a_pool_that_sleeps_is_not_kept_awake() -> None:
    pools = (make_pool(may_be_empty=True), make_pool("other"))
    named = make_settings(pools=pools, headroom=(replace(TWO, pool="workers"),))
    anywhere = make_settings(pools=pools, headroom=(TWO,))
    assert phantoms(named, NOW) == []
    snapshot = make_snapshot((*make_nodes("a1"), *make_nodes("b1", pool="other")), [])
    assert seen(snapshot, anywhere) == [(2, 1)]
    plan = plan_launch(make_snapshot((), []), make_record(), replace(anywhere, max_batch_up=5), 0)
    assert {offer.pool.name for offer in plan.offers} == {"other"}


def test_what_is_missing_is_launched_at_once() -> None:
    decision = decided(make_snapshot(make_nodes("a1"), busy("a1")), settings_with())
    assert decision.action is Action.SCALE_UP
    assert [(slot.instance_type, slot.zone) for slot in decision.slots] == [("small", "a")] * 2
    full = decided(make_snapshot(make_nodes("a1", "a2"), []), settings_with())
    assert full.action is Action.NOTHING


def test_no_headroom_is_no_pressure() -> None:
    settings = make_settings(pools=ONE_ZONE, min_workers=1)
    assert decided(make_snapshot(make_nodes("a1"), busy("a1")), settings).action is Action.NOTHING
    assert look(make_snapshot(make_nodes("a1"), []), make_record(), settings) == ()
    assert wanted_now(settings, NOW) == ()
    check = keeps_headroom(make_snapshot(make_nodes("a1"), []), make_record(), settings, ["a1"])
    assert check.passed


def test_pending_pods_come_first_and_headroom_uses_what_they_leave() -> None:
    snapshot = make_snapshot(make_nodes("a1"), [*busy("a1"), waiting("new", 3500)])
    settings = settings_with(max_workers=3, max_batch_up=9)
    plan = plan_launch(snapshot, make_record(), settings, 0)
    assert plan.pods == (("uid-new",), ())
    assert plan.spare == (0, 1)
    assert plan.hopeless == ()
    last = plan_launch(snapshot, make_record(), replace(settings, max_workers=2), 0)
    assert (last.pods, last.spare, last.stopped) == ((("uid-new",),), (0,), None)


def test_a_pod_that_fits_nowhere_does_not_hold_up_headroom_nor_is_headroom_called_hopeless() -> None:
    hopeless = waiting("huge", 99_000)
    plan = plan_launch(make_snapshot((), [hopeless]), make_record(), settings_with(), 0)
    assert plan.spare == (1, 1)
    assert [each.pod for each in plan.hopeless] == ["default/huge"]
    elsewhere = settings_with(replace(TWO, zones=("b",)))
    nothing = plan_launch(make_snapshot((), []), make_record(), elsewhere, 0)
    assert (nothing.offers, nothing.hopeless) == ((), ())


def test_headroom_larger_than_a_pool_may_grow_says_so() -> None:
    pools = (make_pool(zones=("a",), max_workers=1),)
    snapshot = make_snapshot(make_nodes("a1"), [])
    plan = plan_launch(snapshot, make_record(), settings_with(pools=pools), 0)
    assert (plan.offers, plan.stopped) == ((), PlanStop(StopCause.AT_LIMITS))
    verdict = decided(snapshot, settings_with(max_workers=1)).verdicts[1]
    assert values_of(verdict.failed) == ("below maximum", False, 1, 1, "")


def test_headroom_alone_never_asks_for_more_than_a_node_brings() -> None:
    """Residents take so much of every node that no pod of headroom fits: nothing is launched for them."""
    agents = [make_pod("agent", 2000, 64, node_name="a1", controller="DaemonSet")]
    plan = plan_launch(make_snapshot(make_nodes("a1"), agents), make_record(), settings_with(), 0)
    assert plan.offers == ()


def idle_record(*names: str) -> Record:
    since = NOW - 9999
    return make_record(
        idle_since=since,
        emptied=tuple(Emptied(f"uid-{name}", since) for name in names),
        underused=tuple(Emptied(f"uid-{name}", since) for name in names),
    )


@pytest.mark.parametrize("judged_by", list(JudgedBy))
def test_a_scale_down_leaves_the_headroom_that_there_is(judged_by: JudgedBy) -> None:
    snapshot, record = make_snapshot(make_nodes("a1", "a2", "a3")), idle_record("a1", "a2", "a3")
    choose = choose_underused if judged_by is JudgedBy.NODE else choose_targets
    settings = settings_with(scale_down_by=judged_by)
    removals, refusals = choose(snapshot, record, settings, NOW, 3)
    assert len(removals) == 1
    assert {refusal.cause for refusal in refusals} == {NodeCause.HEADROOM}
    closed = replace(TWO, window=CronWindow("0 0 1 1 *", "UTC", 1))
    removals, _ = choose(snapshot, record, replace(settings, headroom=(closed,), min_workers=0), NOW, 3)
    assert len(removals) == 3


@pytest.mark.parametrize("judged_by", list(JudgedBy))
def test_pods_that_would_move_into_the_headroom_keep_their_node(judged_by: JudgedBy) -> None:
    """Each node alone could go, if nothing had to be free: its pod fits on the next node."""
    pods = [make_pod(f"p-{name}", 1000, 64, node_name=name) for name in ("a1", "a2")]
    snapshot, record = make_snapshot(make_nodes("a1", "a2"), pods), idle_record("a1", "a2")
    choose = choose_underused if judged_by is JudgedBy.NODE else choose_targets
    settings = settings_with(Headroom(3000, 4096, 1), scale_down_by=judged_by)
    removals, refusals = choose(snapshot, record, settings, NOW, 1)
    assert removals == ()
    assert len(refusals) == 2
    without = replace(settings, headroom=())
    assert len(choose(snapshot, record, without, NOW, 1)[0]) == 1


def test_a_scale_down_shows_that_headroom_was_asked_for() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2", "a3", "a4"))
    settings = settings_with(cooldown_down_seconds=0)
    decision = decided(snapshot, settings, idle_record("a1", "a2", "a3", "a4"))
    assert decision.action is Action.SCALE_DOWN
    checks = {check.name: check for check in decision.verdicts[-1].checks}
    assert checks[Gate.HEADROOM_KEPT].passed


def test_what_makes_nothing_worse_may_go_although_headroom_is_missing() -> None:
    """A node of another pool holds none of it."""
    pools = (make_pool(zones=("a",), max_workers=1), make_pool("other", zones=("a",)))
    nodes = (*make_nodes("a1"), *make_nodes("a2", pool="other"))
    settings = settings_with(replace(TWO, pool="workers"), pools=pools)
    removals, _ = choose_targets(make_snapshot(nodes), idle_record("a1", "a2"), settings, NOW, 1)
    assert [removal.node_name for removal in removals] == ["a2"]


def drained(headroom: Headroom, pods: list[Pod]) -> tuple[str, AbortCause]:
    """What the last gate and the rule of giving way say about a1, which is drained."""
    down = make_scale_down(make_removal("a1", state=RemovalState.DRAINED))
    snapshot = make_snapshot((cordoned("a1"), *make_nodes("a2", "a3")), pods)
    settings = settings_with(headroom)
    record = with_work(down, worker_count=3, pod_count=len(pods))
    failed = may_terminate(down.removals[0], snapshot, record, settings)
    gives_way = why_yield(down, make_situation(snapshot, record=record, settings=settings))
    return (failed.name if failed else ""), gives_way.cause if gives_way else AbortCause.NONE


def test_headroom_is_asked_for_again_before_a_removal_is_irrevocable() -> None:
    assert drained(TWO, busy("a2", cpu_milli=500)) == ("", AbortCause.NONE)
    assert drained(TWO, busy("a2")) == (Gate.HEADROOM_KEPT, AbortCause.HEADROOM)


@pytest.mark.parametrize(("attempts", "excused"), [(0, True), (1, False)], ids=["not yet", "begun"])
def test_a_drain_that_headroom_ended_backs_off_where_it_had_begun(attempts: int, excused: bool) -> None:
    """The pods that it moved may be what took the headroom: the next drain would move them again."""
    down = make_scale_down(make_removal("a1", state=RemovalState.DRAINED, attempts=attempts))
    snapshot = make_snapshot((cordoned("a1"), *make_nodes("a2", "a3")), busy("a2"))
    record = with_work(down, worker_count=3, pod_count=2)
    situation = make_situation(snapshot, record=record, settings=settings_with(TWO))
    assert scale_down.gives_way(down, situation), "before anything is launched in its place"
    after = scale_down.advance(down, situation).state
    assert (after.abort_cause, after.excused) == (AbortCause.HEADROOM, excused)


def test_a_node_that_would_bring_nothing_back_is_not_given_back() -> None:
    """Headroom is missing with it as without it: it is too small for a pod of it."""
    assert drained(Headroom(5000, 4096, 1), busy("a2")) == ("", AbortCause.NONE)
    down = make_scale_down(make_removal("a1", state=RemovalState.DRAINED))
    dead = make_snapshot((cordoned("a1", ready=False), *make_nodes("a2")), busy("a2"))
    assert keeps_headroom(dead, with_work(down), settings_with(), ["a1", "not-there"]).passed


def test_a_node_that_is_replaced_is_not_kept_for_headroom() -> None:
    """Its successor is there; headroom that is missing anyway would keep it forever."""
    removal = make_removal("a1", state=RemovalState.DRAINED)
    down = make_scale_down(removal, cause=RemovalReason.EXPIRED)
    snapshot = make_snapshot((cordoned("a1"), *make_nodes("a2", "a3")), busy("a2"))
    record = with_work(down, worker_count=3, pod_count=1)
    assert may_terminate(removal, snapshot, record, settings_with()) is None
    assert why_yield(down, make_situation(snapshot, record=record, settings=settings_with())) is None


def test_each_look_is_kept_in_the_record() -> None:
    record, _ = track(make_snapshot(make_nodes("a1"), []), make_record(), settings_with(), NOW)
    assert record.headroom == (HeadroomSeen("2 pods of 3000m CPU and 4096 MiB", 2, 1),)
    assert record.headroom[0].missing == 1
    assert lacking(record.headroom) == ("headroom for 2 pods of 3000m CPU and 4096 MiB has room for 1 of 2")


def test_it_is_described_as_it_was_configured() -> None:
    whole = Headroom(500, 256, 1, "gpu", ("a", "b"))
    assert described(whole) == "1 pod of 500m CPU and 256 MiB in pool gpu in a or b"


def test_phantoms_are_in_nobodys_way() -> None:
    """Pods that keep apart from all others of their namespace have nothing to do with them."""
    found = phantoms(settings_with(), NOW)
    assert len({pod.uid for pod in found}) == 2
    assert {pod.namespace for pod in found} == {"headroom"}
    assert all(pod.scheduling != Scheduling() for pod in found)
    assert make_type().allocatable.cpu_milli > found[0].requests.cpu_milli


def test_nothing_is_launched_in_place_of_a_node_that_is_being_given_back() -> None:
    snapshot = make_snapshot((*make_nodes("a1"), cordoned("a2")), [])
    assert plan_launch(snapshot, make_record(), settings_with(), 0).offers == ()
    assert not keeps_headroom(snapshot, make_record(), settings_with(), ["a2"]).passed


GPU = Scheduling(node_selector=(("gpu", "yes"),))
TWO_POOLS = (
    make_pool(zones=("a",)),
    make_pool("gpu", zones=("a",), labels=(("gpu", "yes"),), max_workers=2),
)
EMPTY = make_record(
    underused=tuple(Emptied(f"uid-a{n}", NOW - 600) for n in (1, 2, 3)), worker_count=3, pod_count=1
)


def at_the_maximum(**overrides: Any) -> Settings:
    given = {"scale_down_by": JudgedBy.NODE, "idle_down_seconds": 60, "max_workers": 3, "pools": TWO_POOLS}
    return settings_with(Headroom(3000, 4096, 3), **{**given, **overrides})


def test_at_the_maximum_headroom_gives_way_to_a_pod_that_needs_another_pool() -> None:
    nodes = make_nodes("a1", "a2", "a3")
    needy = make_snapshot(nodes, [*busy("a1", cpu_milli=100), waiting("train", 500, scheduling=GPU)])
    settings = at_the_maximum(max_batch_down=9, budget_fraction=1.0)
    assert gives_way(needy, EMPTY, settings) == {"workers", "gpu"}
    decision = decided(needy, settings, EMPTY)
    assert decision.action is Action.SCALE_DOWN
    assert [one.node_name for one in decision.removals] == ["a2"], "one at a time: it may be enough"
    removal = make_removal("a2", state=RemovalState.DRAINED)
    going = replace(EMPTY, removing=make_scale_down(removal))
    assert may_terminate(removal, needy, going, settings) is None
    calm = make_snapshot(nodes, busy("a1", cpu_milli=100))
    kept = may_terminate(removal, calm, going, settings)
    assert kept is not None
    assert kept.name == Gate.HEADROOM_KEPT, "the pod has gone: headroom counts again"


@pytest.mark.parametrize(
    ("pods", "overrides"),
    [
        ([waiting("train", 500, scheduling=GPU)], {"max_workers": 4}),
        ([waiting("train", 500, scheduling=GPU)], {"headroom": ()}),
        ([waiting("huge", 99_000, scheduling=GPU)], {}),
        ([waiting("fits", 500)], {}),
        ([waiting("agent", 500, controller="DaemonSet")], {}),
        ([], {}),
    ],
)
def test_headroom_gives_way_only_where_a_maximum_keeps_a_pod_from_a_node(
    pods: list[Pod], overrides: dict[str, Any]
) -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2", "a3"), [*busy("a1"), *pods])
    assert gives_way(snapshot, EMPTY, at_the_maximum(**overrides)) == frozenset()


def test_at_the_maximum_of_a_pool_only_its_own_headroom_gives_way() -> None:
    own = Scheduling(node_selector=(("ebbtide.dev/pool", "gpu"), ("disk", "fast")))
    pools = (TWO_POOLS[0], replace(TWO_POOLS[1], labels=(("disk", "fast"),)))
    nodes = (*make_nodes("a1", "a2", "a3"), *make_nodes("a4", "a5", pool="gpu"))
    needy = make_snapshot(nodes, [*busy("a1"), waiting("train", 500, scheduling=own)])
    settings = at_the_maximum(max_workers=20, pools=pools)
    assert gives_way(needy, EMPTY, settings) == {"gpu"}
    limited = (pools[0], replace(pools[1], max_workers=None, limits=PoolLimits(cpu_milli=10_000)))
    assert gives_way(needy, EMPTY, replace(settings, pools=limited)) == {"gpu"}
    roomy = (pools[0], replace(pools[1], max_workers=None, limits=PoolLimits(cpu_milli=12_000)))
    assert gives_way(needy, EMPTY, replace(settings, pools=roomy)) == frozenset()
    kept = keeps_headroom(needy, EMPTY, replace(settings, headroom=(Headroom(3000, 4096, 9),)), ["a2", "a4"])
    assert not kept.passed, "the node of the other pool is kept"
