"""What is launched: how many nodes, of which type, in which zone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ebbtide.core.nodes.sizing import LaunchPlan, nodes_for_cpu, plan_launch, without_minimum
from ebbtide.model.operation import SlotState
from ebbtide.model.pod import (
    NOTHING,
    AntiAffinity,
    FitCause,
    Misfit,
    PlanStop,
    Pod,
    PodPhase,
    Scheduling,
    StopCause,
    Unplaced,
)
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Market, Snapshot
from tests.builders import (
    make_node,
    make_nodes,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_selector,
    make_settings,
    make_slot,
    make_snapshot,
    make_spot,
    make_type,
)


def waiting(name: str = "web", cpu_milli: int = 1000, **overrides: Any) -> Pod:
    return make_pod(name, cpu_milli, phase=PodPhase.PENDING, **overrides)


def unsized(count: int, **overrides: Any) -> list[Pod]:
    return [waiting(f"p{number:02}", requests=NOTHING, **overrides) for number in range(count)]


def plan(
    snapshot: Snapshot, *, record: Record | None = None, at_least: int = 0, **settings: Any
) -> LaunchPlan:
    return plan_launch(snapshot, record or make_record(), make_settings(**settings), at_least)


def launched(snapshot: Snapshot, **overrides: Any) -> list[tuple[str, str]]:
    """Type and zone of each."""
    return [(offer.node_type.name, offer.zone) for offer in plan(snapshot, **overrides).offers]


SMALL = make_type("small", cpu_milli=2000, price="0.02")
LARGE = make_type("large", cpu_milli=8000, price="0.10")


def test_a_pending_pod_gets_the_cheapest_type_that_fits() -> None:
    pools = (make_pool(types=(LARGE, SMALL)),)
    assert launched(make_snapshot(pods=[waiting()]), pools=pools) == [("small", "a")]
    assert launched(make_snapshot(pods=[waiting(cpu_milli=3000)]), pools=pools) == [("large", "a")]


def test_several_pods_get_the_type_that_costs_least_for_what_it_takes_in() -> None:
    cheap_bulk = make_type("bulk", cpu_milli=8000, price="0.05")
    pods = [waiting(f"p{n}", cpu_milli=2000, memory_mib=512) for n in range(4)]
    assert launched(make_snapshot(pods=pods), pools=(make_pool(types=(SMALL, cheap_bulk)),)) == [
        ("bulk", "a")
    ]


def test_a_type_of_unknown_price_is_taken_only_where_none_is_known() -> None:
    unknown = make_type("unknown", cpu_milli=8000, price=None)
    pools = (make_pool(types=(unknown, LARGE)),)
    assert launched(make_snapshot(pods=[waiting()]), pools=pools) == [("large", "a")]
    assert launched(make_snapshot(), at_least=1, pools=pools) == [("large", "a")]
    only = (make_pool(types=(unknown,)),)
    assert launched(make_snapshot(pods=[waiting()]), pools=only) == [("unknown", "a")]


def test_a_spot_pool_is_compared_by_its_spot_prices() -> None:
    expensive = make_type("dear", price="0.01", spot_price="0.09")
    fair = make_type("fair", price="0.50", spot_price="0.03")
    found = plan(
        make_snapshot(pods=[waiting()]), pools=(make_pool(types=(expensive, fair), market=Market.SPOT),)
    )
    (offer,) = found.offers
    slot = offer.slot("key")
    assert (slot.instance_type, slot.market, slot.key) == ("fair", Market.SPOT, "key")


def test_a_launch_goes_to_the_zone_with_the_fewest_workers() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2", "b1"))
    assert launched(snapshot, at_least=2) == [("small", "b"), ("small", "a")]


def test_the_zone_with_the_fewest_workers_is_found_across_pools_of_one_zone_each() -> None:
    pools = tuple(make_pool(f"pool-{zone}", zones=(zone,)) for zone in "ab")
    snapshot = make_snapshot([make_node("a1", pool="pool-a")])
    assert launched(snapshot, at_least=1, pools=pools) == [("small", "b")]
    full = make_snapshot([make_node("a1", pool="pool-a")], [waiting(cpu_milli=4000), waiting("q", 4000)])
    assert launched(full, pools=pools) == [("small", "b")]


def test_workers_on_their_way_count_for_their_zone() -> None:
    record = make_record(spots=(make_spot("c1", slot=make_slot(zone="a")),))
    assert launched(make_snapshot(), record=record, at_least=1) == [("small", "b")]


@pytest.mark.parametrize(("workers", "cpu", "more"), [(4, 0.71, 1), (4, 1.0, 2), (10, 0.9, 3), (0, 0.9, 1)])
def test_cpu_pressure_asks_for_as_many_nodes_as_bring_the_average_back(
    workers: int, cpu: float, more: int
) -> None:
    assert nodes_for_cpu(workers, cpu, make_settings()) == more


def test_cpu_pressure_gets_the_type_with_the_least_price_for_a_cpu() -> None:
    assert launched(make_snapshot(), at_least=1, pools=(make_pool(types=(LARGE, SMALL)),)) == [("small", "a")]


def test_at_most_a_batch_is_launched_at_once() -> None:
    assert len(plan(make_snapshot(), at_least=9).offers) == 2, "MAX_BATCH_UP"
    assert len(plan(make_snapshot(), at_least=9, max_batch_up=5).offers) == 5


def test_a_launch_never_passes_the_maximum() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2"))
    assert len(plan(snapshot, at_least=9, max_batch_up=9, max_workers=5).offers) == 3
    assert plan(snapshot, at_least=9, max_workers=2).offers == ()


def test_a_pool_at_its_maximum_is_not_offered_and_that_is_said() -> None:
    snapshot = make_snapshot(make_nodes("a1", "a2"))
    full = make_pool(max_workers=2)
    spare = make_pool("spare", max_workers=1)
    found = plan(snapshot, at_least=2, pools=(full, spare))
    assert [offer.pool.name for offer in found.offers] == ["spare"]
    assert found.stopped == PlanStop(StopCause.AT_MAXIMUM)


def test_a_pod_that_its_neighbours_keep_out_of_every_zone_is_named() -> None:
    selector = make_selector(app="web")
    wish = Scheduling(anti_affinity=(AntiAffinity("topology.kubernetes.io/zone", selector),))
    labels = (("app", "web"),)
    there = [make_pod(f"w-{name}", node_name=name, labels=labels) for name in ("a1", "b1")]
    pod = waiting(labels=labels, scheduling=wish)
    found = plan(make_snapshot(make_nodes("a1", "b1"), [*there, pod]))
    assert found == LaunchPlan((), (), PlanStop(StopCause.NO_FIT, "default/web"))


def test_no_node_is_launched_for_a_pod_that_fits_on_one_that_is_there() -> None:
    assert plan(make_snapshot(make_nodes("a1"), [waiting()])).offers == ()


def test_room_is_given_away_only_once() -> None:
    pods = [waiting(f"p{n}", cpu_milli=3000) for n in range(2)]
    assert len(plan(make_snapshot(make_nodes("a1"), pods)).offers) == 1


def test_no_node_is_launched_for_a_pod_that_fits_on_one_that_is_on_its_way() -> None:
    record = make_record(operation=make_scale_up(make_slot("s1"), make_slot("s2", pool="gone")))
    assert plan(make_snapshot(pods=[waiting()]), record=record).offers == ()


def test_a_node_that_is_about_to_go_is_no_room_for_a_pending_pod() -> None:
    record = make_record(spots=(make_spot("a1"),))
    assert len(plan(make_snapshot(make_nodes("a1"), [waiting()]), record=record).offers) == 1


def test_no_node_is_launched_for_a_pod_of_a_daemonset() -> None:
    assert plan(make_snapshot(pods=[waiting(controller="DaemonSet")])).offers == ()


@pytest.mark.parametrize(("pods", "nodes"), [(1, 1), (10, 1), (11, 2), (20, 2), (21, 3)])
def test_pods_per_node_says_how_many_pods_of_unknown_requests_a_new_node_holds(pods: int, nodes: int) -> None:
    snapshot = make_snapshot(pods=unsized(pods))
    assert len(plan(snapshot, max_batch_up=9).offers) == nodes


def test_pods_per_node_is_of_no_account_where_requests_are_known() -> None:
    pods = [waiting(f"p{n}", cpu_milli=100, memory_mib=10) for n in range(30)]
    assert len(plan(make_snapshot(pods=pods), max_batch_up=9).offers) == 1


def test_pods_that_a_node_would_not_take_anyway_use_up_none_of_its_pods_per_node() -> None:
    gpu = make_pool("gpu", labels=(("gpu", "yes"),), max_workers=0)
    picky = unsized(10, scheduling=Scheduling(node_selector=(("gpu", "yes"),)))
    pods = [*picky, waiting("z", requests=NOTHING)]
    assert len(plan(make_snapshot(pods=pods), pools=(make_pool(), gpu)).offers) == 1


def test_no_node_is_launched_for_a_pod_that_fits_no_type_and_the_reason_is_said() -> None:
    found = plan(make_snapshot(pods=[waiting("huge", cpu_milli=64_000)]))
    assert found == LaunchPlan((), (Unplaced("default/huge", Misfit(FitCause.CPU, 64_000, 4000)),))


def test_a_hopeless_pod_does_not_keep_others_from_getting_a_node() -> None:
    found = plan(make_snapshot(pods=[waiting("huge", cpu_milli=64_000), waiting("web")]))
    assert len(found.offers) == 1
    assert len(found.hopeless) == 1


def test_a_pod_is_hopeless_where_no_pool_is_configured() -> None:
    found = plan(make_snapshot(pods=[waiting()]), pools=())
    assert found.hopeless == (Unplaced("default/web", Misfit(FitCause.NO_POOL)),)


def test_what_every_node_of_a_pool_carries_anyway_leaves_less_room_for_others() -> None:
    """Else a pod that just misses would have one node after the other launched for it, up to the maximum."""
    agents = [
        make_pod("agent", 200, node_name="a1", controller="DaemonSet"),
        make_pod("proxy", 100, node_name="a1", mirror=True, controller="Node"),
        make_pod("web", 3000, node_name="a1"),
        make_pod("gpu-agent", 1000, node_name="b1", controller="DaemonSet"),
    ]
    nodes = [make_node("a1"), make_node("b1", pool="gpu")]
    found = plan(make_snapshot(nodes, [*agents, waiting("large", 3701)]))
    assert found.hopeless == (Unplaced("default/large", Misfit(FitCause.CPU, 3701, 3700)),)
    assert len(plan(make_snapshot(nodes[:1], [*agents, waiting("just", 3700)])).offers) == 1


def test_a_node_that_has_joined_is_no_room_twice() -> None:
    joined = make_slot("s1", node_name="a1", state=SlotState.JOINED)
    record = make_record(spots=(make_spot("b1", slot=joined),))
    pods = [make_pod("db", 3000, node_name="a1"), waiting("web", 3000)]
    assert len(plan(make_snapshot(make_nodes("a1"), pods), record=record).offers) == 1


def test_a_pod_that_no_offer_takes_in_does_not_keep_cpu_pressure_from_being_answered() -> None:
    selector = make_selector(app="web")
    wish = Scheduling(anti_affinity=(AntiAffinity("topology.kubernetes.io/zone", selector),))
    labels = (("app", "web"),)
    there = [make_pod(f"w-{name}", node_name=name, labels=labels) for name in ("a1", "b1")]
    pod = waiting(labels=labels, scheduling=wish)
    assert len(plan(make_snapshot(make_nodes("a1", "b1"), [*there, pod]), at_least=1).offers) == 1


def woken_next_to_pods(batch: int, cpu_milli: int = 3000, **woken: Any) -> list[str]:
    """The pools of what is launched while one is woken, and pods are pending that a cheaper one takes."""
    plain = make_pool("plain", types=(make_type("cheap", price="0.01"),))
    types = (make_type("own"), make_type("large", cpu_milli=8000, price="0.2"))
    asleep = make_pool("asleep", types=types, waking=True, **({"min_workers": 1} | woken))
    settings = make_settings(pools=(plain, asleep), max_batch_up=batch, min_workers=0)
    pods = [waiting(f"p{number}", cpu_milli) for number in range(2)]
    plan = plan_launch(make_snapshot([], pods), make_record(), settings, 1)
    return sorted(f"{offer.pool.name}/{offer.node_type.name}" for offer in plan.offers)


def test_a_pool_that_is_being_woken_gets_its_node_next_to_those_for_pods() -> None:
    assert woken_next_to_pods(4) == ["asleep/own", "plain/cheap", "plain/cheap"]


def test_a_woken_pool_gets_all_the_nodes_of_its_minimum() -> None:
    assert woken_next_to_pods(5, min_workers=3) == [*["asleep/own"] * 3, "plain/cheap", "plain/cheap"]


def test_pods_of_other_pools_do_not_use_up_the_batch_that_a_woken_pool_needs() -> None:
    assert woken_next_to_pods(2) == ["asleep/own", "plain/cheap"]
    assert woken_next_to_pods(1) == ["asleep/own"]


def test_a_woken_pool_at_its_maximum_holds_up_no_pod() -> None:
    assert woken_next_to_pods(2, max_workers=0) == ["plain/cheap", "plain/cheap"]


def test_a_node_for_a_pod_is_also_the_node_of_its_woken_pool() -> None:
    """Only the large type takes these pods: with a batch of one, the cheapest would serve none of them."""
    assert woken_next_to_pods(1, 7000) == ["asleep/large"]


def test_a_node_that_joined_is_no_second_room_before_its_slot_says_so() -> None:
    """The scheduler filled it between two ticks; a pod that came meanwhile waited for the heartbeat."""
    slot = make_slot(state=SlotState.LAUNCHED, instance_id="i-a1")
    record = make_record(launching=make_scale_up(slot))
    pods = [make_pod("first", 3500, node_name="a1"), waiting("second", 3500)]
    plan = plan_launch(make_snapshot(make_nodes("a1"), pods), record, make_settings(), 0)
    assert len(plan.offers) == 1
    not_there = plan_launch(make_snapshot([], [waiting("second", 3500)]), record, make_settings(), 0)
    assert not_there.offers == ()


def test_what_is_left_out_by_name_is_not_offered() -> None:
    snapshot = make_snapshot()
    (offer,) = plan_launch(snapshot, make_record(), make_settings(), 1).offers
    (other,) = plan_launch(snapshot, make_record(), make_settings(), 1, frozenset({offer.name})).offers
    assert other.name != offer.name


def test_only_a_pool_that_has_nothing_else_to_offer_keeps_no_minimum() -> None:
    both = make_pool("both", min_workers=2, waking=True)
    one = make_pool("one", min_workers=1, zones=("a",), waking=True)
    settings = make_settings(pools=(both, one))
    assert without_minimum(settings, ()) is settings
    asleep = replace(one, min_workers=0, waking=False)
    assert without_minimum(settings, {"a/on-demand/small"}).pools == (both, asleep)
    assert without_minimum(settings, {"elsewhere"}).pools == (both, one)


def under_pressure(at_least: int, *pools: Pool, **settings: Any) -> list[str]:
    plan = plan_launch(
        make_snapshot(), make_record(), make_settings(pools=pools, max_batch_up=9, **settings), at_least
    )
    return [offer.pool.name for offer in plan.offers]


def test_load_fills_pools_below_their_minimum_first_and_no_further() -> None:
    cheap = make_pool("cheap", types=(make_type(price="0.01"),))
    for minimum in (1, 2):
        dear = make_pool("dear", types=(make_type(price="0.09"),), min_workers=minimum)
        assert under_pressure(3, cheap, dear) == ["dear"] * minimum + ["cheap"] * (3 - minimum)
    assert under_pressure(0, cheap, dear) == [], "it is not being woken"


def test_the_price_of_a_cpu_decides_and_not_that_of_a_node() -> None:
    """A free type costs nothing, however small it is."""
    large = make_pool("large", types=(make_type("large", 16_000, price="0.10"),))
    small = make_pool("small", types=(make_type("small", 1000, price="0.02"),))
    free = make_pool("free", types=(make_type("free", 500, price="0"),))
    assert under_pressure(1, small, large) == ["large"]
    assert under_pressure(1, small, large, free) == ["free"]


def test_the_limit_that_keeps_pods_pending_is_told_although_load_ends_at_the_maximum_too() -> None:
    full = [make_pod(f"full-{name}", 4000, node_name=name) for name in ("a1", "b1")]
    crowded = make_snapshot(make_nodes("a1", "b1"), [*full, waiting("large", 4000)])
    stopped = plan(crowded, at_least=1, pools=(make_pool(max_workers=2),)).stopped
    assert stopped is not None
    assert stopped.cause is StopCause.AT_LIMITS


def test_what_is_kept_for_a_woken_pool_is_not_planned_for_pods() -> None:
    """Of two nodes one is for the woken pool, so pods get one that is large enough for them all."""
    plain = make_pool("plain", types=(make_type("cheap", price="0.01"), make_type("big", 8000, price="0.03")))
    asleep = make_pool("asleep", types=(make_type("own"),), waking=True, min_workers=1, zones=("a",))
    tied = Scheduling(node_selector=(("ebbtide.dev/pool", "plain"),))
    pods = [waiting(f"p{number}", 3000, scheduling=tied) for number in range(2)]
    settings = make_settings(pools=(plain, asleep), max_batch_up=2, max_workers=2, min_workers=0)
    found = plan_launch(make_snapshot([], pods), make_record(), settings, 1)
    assert sorted(f"{offer.pool.name}/{offer.node_type.name}" for offer in found.offers) == [
        "asleep/own",
        "plain/big",
    ]
