"""Which draft is taken: worth most, among those that savings, pay-back, budgets and validation permit."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

from ebbtide.model.check import Gate, NodeCause
from ebbtide.model.consolidation import ConsolidationReport
from ebbtide.model.operation import Move
from ebbtide.model.pod import Resources, Scheduling, Spread
from ebbtide.model.pool import CronWindow, Headroom, PoolLimits
from ebbtide.model.record import CapacityBackoff, Record
from tests.builders import NOW, make_node, make_pool, make_selector, make_type
from tests.unit.consolidation.builders import (
    TYPES,
    cheap,
    cluster,
    fate,
    idle,
    node,
    pod,
    refusal,
    removed,
    report_on,
    rules,
    settings_with,
)
from tests.verify_consolidation import verify_consolidation

LARGE, SMALL = node("a1", "cpx62"), node("a2", "cpx32")


def test_an_occupied_node_is_emptied_onto_a_cheaper_one() -> None:
    snapshot = cluster([LARGE, SMALL], [pod("web", LARGE), pod("db", SMALL)])
    report = report_on(snapshot)
    assert report.plan is not None
    assert [removal.node_name for removal in report.plan.sources] == ["a1"]
    assert report.plan.empties == ()
    assert report.plan.moves == (Move("uid-web", "default/web", "a1", "a2", "rs"),)
    assert report.plan.savings_per_hour == Decimal("0.1056")
    assert verify_consolidation(report.plan, snapshot, settings_with()) == []
    assert fate(report, "a1") is NodeCause.FITS_ELSEWHERE
    assert fate(report, "a2") is NodeCause.TAKES_IN


def test_an_empty_cheap_node_takes_in_what_an_expensive_one_holds() -> None:
    report = report_on(cluster([LARGE, SMALL], [pod("web", LARGE)]), idle(SMALL))
    assert removed(report) == ["a1"]


def test_a_node_that_a_minimum_keeps_says_so_although_nothing_cheaper_was_found() -> None:
    nodes = [node("a1", "cpx62"), node("a2", "cpx62")]
    kept = settings_with(rules(replace=False), min_workers=2)
    report = report_on(cluster(nodes), idle(*nodes), kept)
    assert refusal(report)[0] == "cheaper packing"
    assert fate(report, "a1") is NodeCause.MINIMUM


def test_moves_must_pay_back_in_time() -> None:
    pods = [pod(f"web-{number}", LARGE, 100, 100) for number in range(10)]
    expensive = settings_with(rules(move_cost=Decimal("0.0423"), replace=False))
    report = report_on(cluster([LARGE, SMALL], pods), Record(), expensive)
    assert refusal(report) == ("pays back", False, 0.423, 0.4224, "")
    exact = settings_with(rules(move_cost=Decimal("0.04224"), replace=False))
    assert removed(report_on(cluster([LARGE, SMALL], pods), Record(), exact)) == ["a1"]


def test_moves_stay_within_an_hours_budget() -> None:
    pods = [pod(f"web-{number}", LARGE, 100, 100) for number in range(4)]
    report = report_on(cluster([LARGE, SMALL], pods), Record(), settings_with(rules(moves_per_hour=3)))
    assert refusal(report) == ("moves in budget", False, 4, 3, "")
    enough = settings_with(rules(moves_per_hour=4))
    assert removed(report_on(cluster([LARGE, SMALL], pods), Record(), enough)) == ["a1"]


def test_where_all_at_once_are_too_many_moves_fewer_are_made() -> None:
    nodes = [node(f"a{number}", "cpx62") for number in range(1, 5)]
    pods = [pod(f"web-{each.name}-{number}", each, 100, 100) for each in nodes for number in range(3)]
    report = report_on(cluster(nodes, pods), Record(), settings_with(rules(moves_per_hour=7, replace=False)))
    assert report.plan is not None
    assert len(report.plan.sources) == 2
    assert [point.pods_moved for point in report.plan.frontier] == [0, 3, 6, 9]


def test_an_expensive_node_is_replaced_by_a_cheap_one_that_is_launched_first() -> None:
    full = node("a2", "cpx22")
    snapshot = cluster(
        [LARGE, full], [pod("web", LARGE, 1000, 2000), pod("db", full, 1390, 2850, controller="")]
    )
    report = report_on(snapshot, Record(), settings_with(cheap()))
    assert report.plan is not None
    assert [(slot.key, slot.instance_type, slot.zone) for slot in report.plan.slots] == [
        ("op-0", "cpx22", "a")
    ]
    assert report.plan.moves == (Move("uid-web", "default/web", "a1", "op-0", "rs"),)
    assert report.plan.savings_per_hour == Decimal("0.0960")
    assert verify_consolidation(report.plan, snapshot, settings_with(cheap())) == []
    off = report_on(snapshot, Record(), settings_with(cheap(replace=False)))
    assert refusal(off)[0] == "cheaper packing"


def test_a_new_node_must_pay_back_the_time_in_which_the_old_one_still_runs() -> None:
    """3 min to join, half of one round of moves, 15 min empty: 18.5 min at 0.0096 are 0.00296, and 111 s of
    0.0960 an hour bring as much."""
    full = node("a2", "cpx22")
    snapshot = cluster(
        [LARGE, full], [pod("web", LARGE, 1000, 2000), pod("db", full, 1390, 2850, controller="")]
    )

    def within(seconds: int) -> ConsolidationReport:
        paying = cheap(move_cost=Decimal(0), payback_seconds=seconds)
        return report_on(snapshot, Record(), settings_with(paying))

    assert refusal(within(110)) == ("pays back", False, 0.003, 0.0029, "")
    assert removed(within(111)) == ["a1"]


def test_launching_first_must_leave_the_maximum_whole() -> None:
    full = node("a2", "cpx22")
    snapshot = cluster(
        [LARGE, full], [pod("web", LARGE, 1000, 2000), pod("db", full, 1390, 2850, controller="")]
    )
    report = report_on(snapshot, Record(), settings_with(cheap(), max_workers=2))
    assert refusal(report) == ("launches allowed", False, 3, 2, "")
    pool = make_pool(types=TYPES, zones=("a",), max_workers=2)
    report = report_on(snapshot, Record(), settings_with(cheap(), pools=(pool,)))
    assert refusal(report) == ("launches allowed", False, 3, 2, "workers")


def test_what_stays_full_keeps_others_from_filling_up() -> None:
    full, other = node("a2"), node("a3", "cpx22")
    pods = [
        pod("web", LARGE, 100, 100),
        pod("db", full, 3900, 1000, controller=""),
        pod("cache", other, 1000, 1000, controller=""),
    ]
    report = report_on(cluster([LARGE, full, other], pods), Record(), settings_with(cheap(replace=False)))
    assert refusal(report) == ("enough free", False, 0.1633, 0.3, "")


def test_a_launch_must_be_worth_the_threshold_by_itself() -> None:
    """Two cpx22 for one cpx32 would save 0.0024 more than the cpx62 that goes in any case."""
    snapshot = cluster([LARGE, SMALL], [pod("web", LARGE), pod("db", SMALL)])
    assert removed(report_on(snapshot, Record(), settings_with(rules()))) == ["a1"]
    greedy = settings_with(rules(min_savings_per_hour=Decimal("0.001"), move_cost=Decimal("0.0001")))
    report = report_on(snapshot, Record(), greedy)
    assert removed(report) == ["a1", "a2"]
    assert report.plan is not None
    assert [slot.instance_type for slot in report.plan.slots] == ["cpx22"]


def test_zones_and_pools_keep_what_they_must() -> None:
    nodes = [node("a1", "cpx62"), node("b1", "cpx62"), node("b2", "cpx62")]
    report = report_on(cluster(nodes), idle(*nodes))
    assert removed(report) == ["b1"]
    assert fate(report, "a1") is NodeCause.LAST_IN_ZONE
    pool = make_pool(types=TYPES, zones=("a", "b"), min_workers=2)
    two = report_on(cluster(nodes), idle(*nodes), settings_with(pools=(pool,), min_workers=0))
    assert fate(two, "b2") is NodeCause.LAST_IN_ZONE
    pool = make_pool(types=TYPES, zones=("a", "b"), min_workers=3)
    kept = report_on(cluster(nodes), idle(*nodes), settings_with(pools=(pool,)))
    assert refusal(kept)[0] == "cheaper packing"
    assert fate(kept, "a1") is NodeCause.LAST_IN_ZONE


def test_each_node_that_stays_says_why() -> None:
    nodes = [node(f"a{number}", "cpx62") for number in range(1, 5)]
    pool = make_pool(types=TYPES, zones=("a",), min_workers=3)
    report = report_on(cluster(nodes), idle(*nodes), settings_with(pools=(pool,)))
    assert removed(report) == ["a1"]
    assert fate(report, "a2") is NodeCause.POOL_MINIMUM
    full = [pod(f"web-{each.name}", each, 9000, 1024) for each in nodes[:3]]
    report = report_on(cluster(nodes, full), idle(nodes[3]), settings_with(rules(replace=False)))
    assert removed(report) == ["a4"]
    assert fate(report, "a1") is NodeCause.NOTHING_CHEAPER


def test_the_scheduler_is_asked_again_before_a_plan_is_given_out() -> None:
    """Pods on a node that is not ready count for the planner, as they do for a scheduler; the fit rules,
    which are those of a removal, leave them out and have the last word."""
    spread = Scheduling(spread=(Spread("topology.kubernetes.io/zone", 1, make_selector(app="web")),))
    nodes = [node("a1", "cpx62"), node("a2"), node("b1", ready=False), node("b2", unschedulable=False)]
    web: dict[str, Any] = {"labels": (("app", "web"),), "scheduling": spread}
    pods = [pod("one", nodes[0], **web), pod("two", nodes[1], **web)]
    pods += [pod(f"lost-{number}", nodes[2], **web) for number in range(2)]
    report = report_on(cluster(nodes, pods), Record(), settings_with(cheap(replace=False)))
    assert report.failed is not None
    assert report.failed.name == "migrations fit"
    free = [replace(each, scheduling=Scheduling()) for each in pods]
    assert report_on(cluster(nodes, free), Record(), settings_with(cheap(replace=False))).plan is not None


def test_a_pod_that_no_new_node_would_take_keeps_its_old_one() -> None:
    ssd = [node(f"a{number}", "cpx62", labels=(("disk", "ssd"),)) for number in (1, 2)]
    wants = Scheduling(node_selector=(("disk", "ssd"),))
    pods = [pod(f"db-{each.name}", each, 6000, 1024, scheduling=wants) for each in ssd]
    assert refusal(report_on(cluster(ssd, pods), Record(), settings_with(cheap())))[0] == "cheaper packing"


def test_as_many_workers_as_are_always_kept_are_launched_too() -> None:
    nodes = [node("a1", "cpx62"), node("a2", "cpx62")]
    pods = [pod(f"web-{each.name}", each) for each in nodes]
    for least in (1, 2):
        report = report_on(cluster(nodes, pods), Record(), settings_with(cheap(), min_workers=least))
        assert report.plan is not None
        assert len(report.plan.slots) + 2 - len(removed(report)) == least


def test_a_node_has_only_so_many_slots_for_pods() -> None:
    nodes = [node("a1", "cpx62"), node("a2", max_pods=3), node("a3", max_pods=2)]
    pods = [pod(f"web-{number}", nodes[0], 100 + number, 100) for number in range(3)]
    report = report_on(cluster(nodes, pods), Record(), settings_with(cheap(replace=False)))
    assert report.plan is not None
    assert sorted(move.to_node for move in report.plan.moves) == ["a2", "a2", "a3"]
    launching = report_on(cluster(nodes, pods), Record(), settings_with(cheap(max_fill=Decimal(1))))
    assert launching.plan is not None


def test_pods_that_ask_for_special_things_move_only_where_these_are() -> None:
    gpu = make_type("gpu", 16000, 32768, "0.5")
    offer = Resources(16000, 32768, (("gpu", 2),))
    pool = make_pool(types=(*TYPES, gpu), zones=("a",))
    nodes = [make_node(f"a{n}", instance_type="gpu", allocatable=offer) for n in (1, 2)]
    one = Resources(500, 512, (("gpu", 1),))
    pods = [pod("one", nodes[0], requests=one), pod("two", nodes[1], requests=one)]
    given = settings_with(cheap(), pools=(pool,))
    report = report_on(cluster([*nodes, node("a3")], pods), Record(), given)
    assert report.plan is not None
    assert verify_consolidation(report.plan, cluster([*nodes, node("a3")], pods), given) == []
    assert len(report.plan.sources) == 1
    two = Resources(500, 512, (("gpu", 2),))
    pods = [pod("one", nodes[0], requests=two), pod("two", nodes[1], requests=two)]
    assert refusal(report_on(cluster(nodes, pods), Record(), given))[0] == "cheaper packing"


def test_stamps_from_the_future_count_as_now() -> None:
    nodes = [node("a1", "cpx62", created_at=NOW + 50), node("a2", "cpx62")]
    report = report_on(cluster(nodes), idle(*nodes, seconds=-50))
    assert fate(report, "a1") is NodeCause.TOO_YOUNG
    assert fate(report, "a2") is NodeCause.NOT_IDLE


def test_a_game_server_moves_while_nobody_plays() -> None:
    labels = (("ebbtide.dev/plan", "payperplay"),)
    snapshot = cluster([LARGE, SMALL], [pod("game", LARGE, 500, 2048, labels=labels)])
    assert removed(report_on(snapshot, Record(), settings_with(rules(replace=False)), game=0)) == ["a1"]
    played = report_on(snapshot, Record(), settings_with(rules(replace=False)), game=2)
    assert fate(played, "a1") is NodeCause.POD_BLOCKS


def test_a_large_node_that_stays_takes_in_all_that_small_ones_hold() -> None:
    stays, small = node("a0", "cpx62"), [node(f"a{number}", "cpx22") for number in range(1, 15)]
    pods = [pod("bare", stays, 500, 1024, controller="")]
    pods += [pod(f"web-{each.name}", each, 100, 100) for each in small]
    report = report_on(cluster([stays, *small], pods), Record(), settings_with(cheap()))
    assert removed(report) == sorted(each.name for each in small)
    assert report.plan is not None
    assert {move.to_node for move in report.plan.moves} == {"a0"}


def test_a_node_that_holds_headroom_stays_and_the_next_one_goes() -> None:
    """The first by price holds it: what comes after it in the order may go all the same."""
    pools = (make_pool(types=TYPES, zones=("a",)), make_pool("spare", types=TYPES, zones=("a",)))
    first, second, third = node("a1", "cpx62", pool="spare"), node("a2", "cpx42"), node("a3", "cpx32")
    snapshot = cluster([first, second, third], [pod("web", third)])
    wanted = settings_with(cheap(replace=False), pools=pools, headroom=(Headroom(12_000, 1024, 1, "spare"),))
    assert removed(report_on(snapshot, idle(first, second), wanted)) == ["a2", "a3"]
    without = settings_with(cheap(replace=False), pools=pools)
    assert removed(report_on(snapshot, idle(first, second), without)) == ["a1", "a2"]


def test_pods_are_not_moved_into_the_headroom() -> None:
    snapshot = cluster([LARGE, SMALL], [pod("web", LARGE), pod("db", SMALL)])
    wanted = settings_with(cheap(replace=False), headroom=(Headroom(2900, 1024),))
    assert removed(report_on(snapshot, settings=wanted)) == ["a1"]
    too_much = settings_with(cheap(replace=False), headroom=(Headroom(14_500, 1024),))
    assert removed(report_on(snapshot, settings=too_much)) == ["a2"]
    both = settings_with(cheap(replace=False), headroom=(Headroom(3300, 1024, 5),))
    assert report_on(snapshot, settings=both).plan is None
    assert removed(report_on(snapshot, settings=settings_with(cheap(replace=False)))) == ["a1"]


def test_new_nodes_that_would_leave_no_headroom_are_not_launched() -> None:
    """Both together would go for one small node: the room that is asked for would go with them."""
    nodes = [node("a1", "cpx62"), node("a2", "cpx62")]
    pods = [pod(f"web-{one.name}", one) for one in nodes]
    kept = settings_with(cheap(), headroom=(Headroom(15_000, 1024, 2),))
    report = report_on(cluster(nodes, pods), settings=kept)
    assert report.failed is not None
    assert report.failed.name == Gate.HEADROOM_KEPT
    assert report_on(cluster(nodes, pods), settings=settings_with(cheap())).plan is not None
    closed = Headroom(15_000, 1024, 2, window=CronWindow("0 0 1 1 *", "UTC", 1))
    assert report_on(cluster(nodes, pods), settings=settings_with(cheap(), headroom=(closed,))).plan


def test_a_node_is_replaced_only_by_one_of_the_same_weight() -> None:
    nodes = [node("a1", "cpx62", pool="blue"), node("a2", "cpx62", pool="blue")]
    snapshot = cluster(nodes, [pod(f"web-{one.name}", one, 3000) for one in nodes])

    def fresh(blue: int, green: int) -> list[str]:
        pools = (
            make_pool("blue", types=TYPES[4:], zones=("a",), weight=blue),
            make_pool("green", types=TYPES, zones=("a",), weight=green),
        )
        report = report_on(snapshot, settings=settings_with(cheap(min_nodes=2), pools=pools, min_workers=2))
        return [slot.pool for slot in report.plan.slots] if report.plan is not None else []

    assert set(fresh(0, 0)) == {"green"}
    assert set(fresh(3, 3)) == {"green"}
    assert fresh(10, 0) == []
    assert fresh(0, 10) == []


def test_where_the_pools_of_its_weight_have_no_capacity_a_node_is_not_replaced_by_others() -> None:
    nodes = [node("a1", "cpx62", pool="blue"), node("a2", "cpx62", pool="blue")]
    snapshot = cluster(nodes, [pod(f"web-{one.name}", one, 3000) for one in nodes])
    pools = (
        make_pool("blue", types=TYPES[4:], zones=("a",), weight=1),
        make_pool("green", types=TYPES, zones=("a",)),
    )
    resting = Record(offer_rests=(CapacityBackoff("a/on-demand/cpx62", NOW + 60),))
    settings = settings_with(cheap(min_nodes=2), pools=pools, min_workers=2)
    assert report_on(snapshot, resting, settings).plan is None


def test_only_new_nodes_of_a_pool_count_against_its_limits() -> None:
    """Two kinds of pods, each with a pool of its own; only one of the pools has limits."""
    blue, green = (("color", "blue"),), (("color", "green"),)
    nodes = [node("a1", "cpx62", labels=blue, pool="blue"), node("a2", "cpx62", labels=green, pool="green")]
    pods = [
        pod("b", nodes[0], 3000, scheduling=Scheduling(node_selector=blue)),
        pod("g", nodes[1], 3000, scheduling=Scheduling(node_selector=green)),
    ]
    pools = (
        make_pool("blue", types=TYPES, zones=("a",), labels=blue, limits=PoolLimits(cpu_milli=99_000)),
        make_pool("green", types=TYPES, zones=("a",), labels=green),
    )
    settings = settings_with(cheap(min_nodes=2), pools=pools, min_workers=2)
    report = report_on(cluster(nodes, pods), settings=settings)
    assert report.plan is not None
    assert {slot.pool for slot in report.plan.slots} == {"blue", "green"}


def test_new_nodes_stay_within_the_limits_of_their_pool() -> None:
    nodes = [node("a1", "cpx62"), node("a2", "cpx62")]
    snapshot = cluster(nodes, [pod(f"web-{one.name}", one) for one in nodes])
    for limits in (PoolLimits(cpu_milli=33_000), PoolLimits(memory_mib=66_000)):
        pools = (make_pool(types=TYPES, zones=("a",), limits=limits),)
        report = report_on(snapshot, settings=settings_with(cheap(min_nodes=2), pools=pools, min_workers=2))
        assert refusal(report) == ("launches allowed", False, None, None, "workers")
    roomy = (make_pool(types=TYPES, zones=("a",), limits=PoolLimits(cpu_milli=99_000)),)
    assert report_on(snapshot, settings=settings_with(cheap(min_nodes=2), pools=roomy, min_workers=2)).plan
