"""Spreading and anti-affinity: what the pods on other nodes have to say, as in Kubernetes."""

from __future__ import annotations

from typing import Any

import pytest

from ebbtide.core.nodes.fit import Placement, placement_of
from ebbtide.core.nodes.room import given_back, room_of
from ebbtide.model.pod import AntiAffinity, FitCause, Misfit, Pod, Scheduling, Spread
from tests.builders import make_node, make_nodes, make_pod, make_selector, make_snapshot

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"
WEB = make_selector(app="web")
LABELS = (("app", "web"),)


def web(name: str = "web-new", **overrides: Any) -> Pod:
    return make_pod(name, labels=LABELS, **overrides)


def lonely(topology_key: str, name: str = "web-new") -> Pod:
    return web(name, scheduling=Scheduling(anti_affinity=(AntiAffinity(topology_key, WEB),)))


def spread(topology_key: str, max_skew: int = 1, **wishes: Any) -> Pod:
    constraint = Spread(topology_key, max_skew, WEB)
    return web(scheduling=Scheduling(spread=(constraint,), **wishes))


def verdicts(pod: Pod, **there: tuple[Pod, ...]) -> dict[str, Misfit | None]:
    placement = Placement(room_of(make_node(name), pods) for name, pods in there.items())
    return {name: placement.why_not(pod, room) for name, room in placement.rooms.items()}


def fits(pod: Pod, **there: tuple[Pod, ...]) -> list[str]:
    return [name for name, why in verdicts(pod, **there).items() if why is None]


def test_anti_affinity_by_host_keeps_two_replicas_off_one_node() -> None:
    assert fits(lonely(HOST), a1=(web("w1"),), a2=()) == ["a2"]


def test_anti_affinity_by_zone_keeps_two_replicas_out_of_one_zone() -> None:
    found = verdicts(lonely(ZONE), a1=(web("w1"),), a2=(), b1=())
    assert found["a2"] == Misfit(FitCause.ANTI_AFFINITY, about=ZONE)
    assert found["b1"] is None


def test_anti_affinity_is_symmetric_a_pod_without_any_is_kept_away_too() -> None:
    found = verdicts(web(), a1=(lonely(HOST, "guard"),), a2=())
    assert found == {"a1": Misfit(FitCause.ANTI_AFFINITY_OF_OTHERS, about=HOST), "a2": None}


def test_anti_affinity_of_others_is_about_pods_that_match() -> None:
    assert fits(make_pod("db"), a1=(lonely(HOST, "guard"),)) == ["a1"]


def test_anti_affinity_does_not_reach_into_other_namespaces() -> None:
    elsewhere = web("w1", namespace="other")
    assert fits(lonely(HOST), a1=(elsewhere,)) == ["a1"]
    assert fits(elsewhere, a1=(lonely(HOST, "guard"),)) == ["a1"]


def test_anti_affinity_by_a_label_that_the_node_lacks_keeps_nothing_away() -> None:
    assert fits(lonely("rack"), a1=(web("w1"),)) == ["a1"]


def test_a_pod_just_placed_keeps_others_away_as_well() -> None:
    rooms = [room_of(make_node("a1"), ()), room_of(make_node("a2"), ())]
    placement = Placement(rooms)
    placement.place(lonely(HOST, "guard"), rooms[0])
    assert placement.first_fit(web()) is rooms[1]


def test_a_spread_constraint_counts_the_pod_itself_against_the_emptiest_domain() -> None:
    found = verdicts(spread(ZONE), a1=(web("w1"),), b1=())
    assert found == {"a1": Misfit(FitCause.SPREAD, 2, 1, "a", least=0), "b1": None}


def test_a_wider_skew_allows_more() -> None:
    assert fits(spread(ZONE, max_skew=2), a1=(web("w1"),), b1=()) == ["a1", "b1"]


def test_zones_are_counted_over_all_their_nodes() -> None:
    assert fits(spread(ZONE), a1=(web("w1"),), a2=(), b1=()) == ["b1"]


def test_a_spread_constraint_counts_pods_of_its_own_namespace_that_match() -> None:
    others = (web("w1", namespace="other"), make_pod("db"))
    assert fits(spread(ZONE), a1=others, b1=()) == ["a1", "b1"]


def test_a_pod_that_its_own_constraint_does_not_select_is_not_counted() -> None:
    stranger = make_pod("db", scheduling=Scheduling(spread=(Spread(ZONE, 1, WEB),)))
    assert fits(stranger, a1=(web("w1"),), b1=()) == ["a1", "b1"]


def test_a_node_without_the_topology_label_takes_no_pod_that_is_to_be_spread() -> None:
    assert verdicts(spread("rack"), a1=()) == {"a1": Misfit(FitCause.NO_LABEL_FOR_SPREAD, about="rack")}


def test_nodes_that_the_pod_does_not_ask_for_make_no_domain() -> None:
    """Kubernetes honours node selector and affinity in spreading (`nodeAffinityPolicy: Honor`)."""
    ssd = make_node("a1", labels=(("disk", "ssd"),))
    rooms = [room_of(ssd, [web("w1")]), room_of(make_node("b1"), ())]
    pod = spread(ZONE, node_selector=(("disk", "ssd"),))
    assert Placement(rooms).why_not(pod, rooms[0]) is None, (
        "b1 could never take it, so b is not an empty zone"
    )


def test_the_pods_of_a_room_that_is_opened_count_once_although_nobody_knew_their_rule_before() -> None:
    placement = Placement()
    placement.open(room_of(make_node("a1"), [spread(ZONE), lonely(HOST, "w2")]))
    placement.open(room_of(make_node("b1"), [web("w3")]))
    numbers = [number for number, _ in placement.neighbours.profile(spread(ZONE)).spreads]
    assert [placement.neighbours.counts(number) for number in numbers] == [(("a", 2), ("b", 1))]


SHUT = [{"unschedulable": True}, {"ready": False}]


@pytest.mark.parametrize("shut", SHUT)
def test_the_pods_of_a_node_that_takes_none_keep_others_away(shut: dict[str, bool]) -> None:
    """As in Kubernetes: a pod that seemed to fit was pending permanently, and no node was launched for it."""
    nodes = (make_node("a1", **shut), *make_nodes("a2", "b1"))
    placement = placement_of(make_snapshot(nodes, [web("w1", node_name="a1")]).cluster)
    assert list(placement.rooms) == ["a2", "b1"]
    assert [name for name, room in placement.rooms.items() if not placement.why_not(lonely(ZONE), room)] == [
        "b1"
    ]


@pytest.mark.parametrize("shut", SHUT)
def test_pods_are_spread_over_a_node_that_takes_none_as_well(shut: dict[str, bool]) -> None:
    """`nodeTaintsPolicy: Ignore` is the default of Kubernetes."""
    nodes = (make_node("a1"), make_node("b1", **shut))
    placement = placement_of(make_snapshot(nodes, [web("w1", node_name="a1")]).cluster)
    assert placement.why_not(spread(ZONE), placement.rooms["a1"]) == Misfit(FitCause.SPREAD, 2, 1, "a", 0)


def test_a_node_that_takes_no_pods_is_still_shut_when_it_is_put_back() -> None:
    node = make_node("a1", unschedulable=True)
    placement = placement_of(make_snapshot((node, make_node("a2")), [web("w1", node_name="a1")]).cluster)
    taken = placement.close("a1")
    assert taken is not None
    assert placement.why_not(lonely(ZONE), placement.rooms["a2"]) is None
    placement.open(taken)
    assert list(placement.rooms) == ["a2"]
    assert placement.why_not(lonely(ZONE), placement.rooms["a2"]) is not None
    placement.open(room_of(given_back(node), ()))
    assert list(placement.rooms) == ["a2", "a1"]
    assert placement.why_not(lonely(ZONE), placement.rooms["a2"]) is None, "its pods are counted once"
