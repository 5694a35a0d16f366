"""Pending pods get the nodes that the packer planned, and the fit rules agree to every placement."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from random import Random
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.core.nodes.fit import Placement
from ebbtide.core.nodes.sizing import LaunchPlan, plan_launch
from ebbtide.model.pod import (
    NOTHING,
    AntiAffinity,
    PlanStop,
    Pod,
    PodNearby,
    PodPhase,
    Resources,
    Scheduling,
    Spread,
    StopCause,
)
from ebbtide.model.record import Record
from tests.builders import (
    make_node,
    make_pod,
    make_pool,
    make_record,
    make_scale_up,
    make_selector,
    make_settings,
    make_slot,
    make_snapshot,
    make_type,
)

ZONE, HOST = "topology.kubernetes.io/zone", "kubernetes.io/hostname"
GPU = "nvidia.com/gpu"
SMALL = make_type("small", cpu_milli=2000, price="0.02")
LARGE = make_type("large", cpu_milli=8000, memory_mib=32768, price="0.10")
THREE_ZONES = (make_pool(types=(SMALL, LARGE), zones=("a", "b", "c")),)


def group(name: str, count: int, cpu_milli: int = 1000, **rules: Any) -> list[Pod]:
    labels = (("app", name),)
    wishes = Scheduling(**rules)
    return [
        make_pod(
            f"{name}-{n:03}",
            cpu_milli,
            512,
            phase=PodPhase.PENDING,
            labels=labels,
            scheduling=wishes,
            uid=f"{name}-{n:03}",
        )
        for n in range(count)
    ]


def plan(pods: list[Pod], *, record: Record | None = None, nodes: Any = (), **overrides: Any) -> LaunchPlan:
    chosen = make_settings(**{"pools": THREE_ZONES, "max_workers": 1000, "max_batch_up": 1000, **overrides})
    return plan_launch(make_snapshot(list(nodes), pods), record or make_record(), chosen, 0)


def refused(found: LaunchPlan, pods: list[Pod]) -> list[str]:
    """Placements that the fit rules do not agree to, in any order that a scheduler could take."""
    of = {pod.uid: pod for pod in pods}
    rooms = [offer.room(f"n{number}") for number, offer in enumerate(found.offers)]
    placement = Placement(rooms, pods)
    todo = [(room, of[uid]) for room, uids in zip(rooms, found.pods, strict=True) for uid in uids]
    while todo:
        left = []
        for room, pod in todo:
            if placement.why_not(pod, room):
                left.append((room, pod))
            else:
                placement.place(pod, room)
        if len(left) == len(todo):
            return [f"{pod.name} on {room.name}: {placement.why_not(pod, room)}" for room, pod in left]
        todo = left
    return []


def served(found: LaunchPlan) -> int:
    return sum(map(len, found.pods))


def test_a_spread_over_zones_is_planned_evenly() -> None:
    pods = group("web", 9, 2000, spread=(Spread(ZONE, 1, make_selector(app="web")),))
    found = plan(pods)
    by_zone: Counter[str] = Counter()
    for offer, uids in zip(found.offers, found.pods, strict=True):
        by_zone[offer.zone] += len(uids)
    assert by_zone == {"a": 3, "b": 3, "c": 3}
    assert refused(found, pods) == []


def test_a_spread_over_hosts_and_anti_affinity_bound_what_shares_a_node() -> None:
    spread = group("web", 6, spread=(Spread(HOST, 1, make_selector(app="web")),))
    apart = group("db", 4, anti_affinity=(AntiAffinity(HOST, make_selector(app="db")),))
    found = plan(spread + apart)
    assert served(found) == 10
    assert refused(found, spread + apart) == []
    assert max(sum(uid.startswith("db") for uid in uids) for uids in found.pods) == 1


def test_pods_that_must_be_near_others_share_their_nodes() -> None:
    leaders = group("app", 5)
    fewer = group("cache", 3, 200, affinity=(PodNearby(HOST, make_selector(app="app")),))
    found = plan(leaders + fewer)
    assert (served(found), refused(found, leaders + fewer)) == (8, [])
    more = group("cache", 11, 200, affinity=(PodNearby(HOST, make_selector(app="app")),))
    found = plan(leaders + more)
    assert (served(found), refused(found, leaders + more)) == (16, [])


def test_a_group_that_must_share_a_node_gets_one_that_holds_it_whole() -> None:
    together = group("mpi", 6, affinity=(PodNearby(HOST, make_selector(app="mpi")),))
    found = plan(together)
    assert [offer.node_type.name for offer in found.offers] == ["large"]
    assert served(found) == 6


def test_a_group_that_must_share_a_zone_gets_one_zone() -> None:
    near = group("etl", 12, affinity=(PodNearby(ZONE, make_selector(app="etl")),))
    found = plan(near)
    assert len({offer.zone for offer in found.offers}) == 1
    assert (served(found), refused(found, near)) == (12, [])


def test_a_group_joins_the_zone_in_which_its_kind_is_already() -> None:
    there = make_pod("etl-x", 4000, node_name="b1", labels=(("app", "etl"),))
    near = group("etl", 3, affinity=(PodNearby(ZONE, make_selector(app="etl")),))
    found = plan([there, *near], nodes=[make_node("b1")])
    assert {offer.zone for offer in found.offers} == {"b"}


def test_a_pod_near_something_that_is_nowhere_is_named() -> None:
    lost = group("cache", 1, affinity=(PodNearby(HOST, make_selector(app="nobody")),))
    assert plan(lost).stopped == PlanStop(StopCause.NO_FIT, "default/cache-000")


def test_one_pod_a_zone_is_planned_although_the_packer_knows_no_such_rule() -> None:
    apart = group("quorum", 3, anti_affinity=(AntiAffinity(ZONE, make_selector(app="quorum")),))
    found = plan(apart)
    assert sorted(offer.zone for offer in found.offers) == ["a", "b", "c"]
    assert refused(found, apart) == []


def test_devices_bound_what_shares_a_node() -> None:
    gpus = replace(LARGE, name="gpu", allocatable=Resources(16000, 65536, ((GPU, 4),)))
    pods = [
        make_pod(f"train-{n}", phase=PodPhase.PENDING, uid=f"t{n}", requests=Resources(500, 512, ((GPU, 2),)))
        for n in range(6)
    ]
    found = plan(pods, pools=(make_pool(types=(SMALL, gpus)),))
    assert [len(uids) for uids in found.pods] == [2, 2, 2]


def test_a_pool_at_its_maximum_leaves_the_rest_to_the_next_cheapest() -> None:
    pools = (
        make_pool("cheap", types=(make_type("s", cpu_milli=2000, price="0.01"),), max_workers=2),
        make_pool("costly", types=(make_type("t", cpu_milli=2000, price="0.05"),)),
    )
    found = plan(group("web", 8), pools=pools)
    assert Counter(offer.pool.name for offer in found.offers) == {"cheap": 2, "costly": 2}
    assert served(found) == 8


def test_near_the_maximum_fewer_and_larger_nodes_serve_more() -> None:
    types = (
        make_type("small", cpu_milli=2000, price="0.02"),
        make_type("large", cpu_milli=8000, memory_mib=32768, price="0.10"),
    )
    pods = group("web", 16)
    assert served(plan(pods, pools=(make_pool(types=types),))) == 16
    tight = plan(pods, pools=(make_pool(types=types),), max_workers=2)
    assert (served(tight), len(tight.offers)) == (16, 2)


def test_pods_of_unknown_size_count_on_nodes_that_are_on_their_way() -> None:
    pods = [make_pod(f"p{n}", phase=PodPhase.PENDING, uid=f"p{n}", requests=NOTHING) for n in range(15)]
    assert [len(uids) for uids in plan(pods).pods] == [10, 5]
    coming = make_scale_up(make_slot(zone="a", pool=THREE_ZONES[0].name, instance_type="small"))
    assert [len(uids) for uids in plan(pods, record=make_record(operation=coming)).pods] == [5]
    there = make_node("a1")
    assert served(plan(pods, nodes=[there])) == 15, "nothing says whether a node that is there has room"


@settings(max_examples=120, deadline=None)
@given(st.integers(0, 2**32))
@example(2288)  # a node for others, opened later, is one more zone of an earlier spread
@example(2670)  # one more host of it
@example(3269)  # and with the maximum reached, what no longer fits stays pending
def test_whatever_is_pending_the_plan_keeps_every_rule_and_limit(seed: int) -> None:
    chance = Random(seed)
    pods: list[Pod] = []
    for number in range(chance.randint(1, 5)):
        name = f"g{number}"
        own, other = make_selector(app=name), make_selector(app=f"g{chance.randrange(5)}")
        key = chance.choice((ZONE, HOST))
        rules: dict[str, Any] = chance.choice(
            (
                {},
                {"spread": (Spread(key, chance.choice((1, 2)), own),)},
                {"anti_affinity": (AntiAffinity(key, chance.choice((own, other))),)},
                {"affinity": (PodNearby(key, chance.choice((own, other))),)},
                {"node_selector": ((ZONE, chance.choice("abc")),)},
            )
        )
        pods += group(name, chance.randint(1, 12), chance.choice((100, 500, 1500, 3000)), **rules)
    limit = chance.choice((2, 5, 1000))
    found = plan(pods, max_workers=limit)
    assert len(found.offers) <= limit
    assert refused(found, pods) == []
    assert all(found.pods), "no node without a pod"
    assert len({uid for uids in found.pods for uid in uids}) == served(found)
    if served(found) == len(pods):
        assert float(sum(offer.price or 0 for offer in found.offers)) >= found.bound - 1e-9
    plain = [pod.uid for pod in pods if pod.scheduling == Scheduling()]
    guarded = any(pod.scheduling.anti_affinity for pod in pods)
    if limit == 1000 and not guarded:
        assert set(plain) <= {uid for uids in found.pods for uid in uids}


def test_a_pod_may_select_its_pool_by_the_label_that_nodes_join_with() -> None:
    pools = (make_pool(types=(SMALL,), zones=("a",)), make_pool("other", types=(LARGE,), zones=("a",)))
    pods = group("web", 1, node_selector=(("ebbtide.dev/pool", "other"),))
    found = plan(pods, pools=pools)
    assert [offer.pool.name for offer in found.offers] == ["other"]
    assert found.hopeless == ()
