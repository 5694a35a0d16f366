"""Spread, affinity and anti-affinity by counts: the same answers as rules that look at every pod."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.nodes.fit import FREE, Neighbours, Placement, ruling
from ebbtide.core.nodes.room import Room, room_of, unwanted
from ebbtide.model.pod import (
    AntiAffinity,
    FitCause,
    LabelSelector,
    Misfit,
    Pod,
    PodNearby,
    Requirement,
    Scheduling,
    SelectorOperator,
    Spread,
    matches,
)
from tests.builders import make_node, make_pod, make_selector

ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
WEB = make_selector(app="web")


def _rules(chance: Random) -> Scheduling:
    key = chance.choice((ZONE, HOST, RACK))
    selector = make_selector(app=chance.choice("xy"))
    disk = ((Requirement("disk", SelectorOperator.EXISTS),),)
    return chance.choice(
        (
            Scheduling(),
            Scheduling(anti_affinity=(AntiAffinity(key, selector),)),
            Scheduling(affinity=(PodNearby(key, selector),)),
            Scheduling(spread=(Spread(key, chance.choice((1, 2)), selector),)),
            Scheduling(spread=(Spread(key, 1, selector),), node_affinity=disk),
        )
    )


def _pod(chance: Random, name: str, on: str = "") -> Pod:
    labels = (("app", chance.choice("xyz")),)
    namespace = chance.choice(("default", "other"))
    return make_pod(name, 1, 1, node_name=on, labels=labels, namespace=namespace, scheduling=_rules(chance))


def _found(selector: LabelSelector, namespace: str, rooms: Iterable[Room]) -> list[Pod]:
    pods = [pod for room in rooms for pod in room.pods]
    return [pod for pod in pods if pod.namespace == namespace and matches(selector, dict(pod.labels))]


def _refused(pod: Pod, room: Room, rooms: list[Room]) -> bool:
    """The rules of Kubernetes, said as plainly as they can be."""
    rules, labels = pod.scheduling, dict(pod.labels)

    def domain(key: str, here: Room = room) -> list[Room]:
        value = here.labels.get(key)
        return [other for other in rooms if value is not None and other.labels.get(key) == value]

    for apart in rules.anti_affinity:
        if _found(apart.selector, pod.namespace, domain(apart.topology_key)):
            return True
    for other_room in rooms:
        for other in other_room.pods:
            for apart in other.scheduling.anti_affinity:
                near = any(same is other_room for same in domain(apart.topology_key))
                if near and other.namespace == pod.namespace and matches(apart.selector, labels):
                    return True
    for near_rule in rules.affinity:
        if near_rule.topology_key not in room.labels:
            return True
        labelled = [other for other in rooms if near_rule.topology_key in other.labels]
        anywhere = _found(near_rule.selector, pod.namespace, labelled)
        first = not anywhere and matches(near_rule.selector, labels)
        if not first and not _found(near_rule.selector, pod.namespace, domain(near_rule.topology_key)):
            return True
    for spread in rules.spread:
        if spread.topology_key not in room.labels:
            return True
        asked = [other for other in rooms if not unwanted(rules, other)]
        counts = {
            other.labels[spread.topology_key]: len(
                _found(
                    spread.selector,
                    pod.namespace,
                    [o for o in domain(spread.topology_key, other) if o in asked],
                )
            )
            for other in asked
            if spread.topology_key in other.labels
        }
        here = counts.get(room.labels[spread.topology_key], 0) + matches(spread.selector, labels)
        if here - min(counts.values(), default=0) > spread.max_skew:
            return True
    return False


@settings(max_examples=300, deadline=None)
@given(st.integers(0, 2**32))
def test_the_answers_are_those_of_rules_that_look_at_every_pod(seed: int) -> None:
    chance = Random(seed)
    nodes = [
        make_node(
            f"{chance.choice('ab')}{number}",
            labels=tuple(
                (key, value)
                for key, value in (("disk", "ssd"), (RACK, f"r{number % 2}"))
                if chance.random() < 0.7
            ),
        )
        for number in range(4)
    ]
    rooms = [
        room_of(node, [_pod(chance, f"p{n}-{node.name}", node.name) for n in range(chance.randint(0, 3))])
        for node in nodes
    ]
    arriving = [_pod(chance, f"new-{number}") for number in range(6)]
    rulers = [pod for room in rooms for pod in ruling(tuple(room.pods))] if chance.random() < 0.5 else None
    placement = Placement(rooms, arriving if chance.random() < 0.5 else (), rulers)
    for pod in arriving:
        for room in list(placement.rooms.values()):
            if not unwanted(pod.scheduling, room):
                there = list(placement.rooms.values())
                assert bool(placement.why_not(pod, room)) == _refused(pod, room, there), room.name
        chosen = chance.choice(list(placement.rooms.values()))
        placement.place(pod, chosen)
        match chance.randrange(4):
            case 0:
                placement.take_out(pod, chosen)
            case 1 if len(placement.rooms) > 1:
                closed = placement.close(chosen.name)
                assert closed is chosen
                if chance.random() < 0.5:
                    placement.open(closed)


def test_closing_a_room_that_is_not_there_changes_nothing() -> None:
    assert Placement().close("a1") is None


def test_without_rules_every_pod_is_free() -> None:
    room = room_of(make_node("a1"), ())
    neighbours = Neighbours([(room, [make_pod("web", node_name="a1")])])
    assert neighbours.profile(make_pod("other")) is FREE
    assert FREE.free


def test_a_node_that_is_yet_to_come_is_an_empty_domain() -> None:
    spread = Scheduling(spread=(Spread(HOST, 1, WEB),))
    labels = (("app", "web"),)
    web = [make_pod(f"web-{n}", node_name="a1", labels=labels, scheduling=spread) for n in range(2)]
    room = room_of(make_node("a1"), ())
    neighbours = Neighbours([(room, web)])
    profile = neighbours.profile(web[0])
    assert not neighbours.why_not(profile, room)
    new = Room("new", "a", (), ())
    neighbours.open_room(new)
    assert neighbours.why_not(profile, room)
    assert not neighbours.why_not(profile, new)
    neighbours.close_room(new)
    assert not neighbours.why_not(profile, room)


def test_affinity_needs_a_matching_pod_in_the_same_domain() -> None:
    near = make_pod("cache", scheduling=Scheduling(affinity=(PodNearby(HOST, WEB),)))
    a1 = room_of(make_node("a1"), [make_pod("web", labels=(("app", "web"),))])
    a2 = room_of(make_node("a2"), ())
    placement = Placement([a1, a2])
    assert placement.first_fit(near) is a1
    assert placement.why_not(near, a2) == Misfit(FitCause.AFFINITY, about=HOST)


def test_the_first_of_a_group_that_asks_for_its_own_kind_is_excused() -> None:
    near = Scheduling(affinity=(PodNearby(ZONE, WEB),))
    group = [make_pod(f"web-{n}", labels=(("app", "web"),), scheduling=near) for n in range(2)]
    rooms = [room_of(make_node(name), ()) for name in ("a1", "b1")]
    placement = Placement(rooms)
    placement.place(group[0], rooms[1])
    assert placement.first_fit(group[1]) is rooms[1], "the zone of the first"


def test_rules_that_are_learned_later_count_for_pods_that_were_asked_about_before() -> None:
    """Pods are told by identity, also after the rules have changed."""
    room = room_of(make_node("a1"), ())
    neighbours = Neighbours([(room, ())])
    web = make_pod("web", labels=(("app", "web"),))
    assert neighbours.profile(web).matched == ()
    guard = make_pod("guard", scheduling=Scheduling(anti_affinity=(AntiAffinity(HOST, WEB),)))
    neighbours.profile(guard)
    assert neighbours.profile(web).matched == (0,)
    assert neighbours.profile(
        make_pod("twin", labels=web.labels, scheduling=web.scheduling)
    ) is neighbours.profile(web)
    other = make_pod("other", labels=web.labels, scheduling=web.scheduling, namespace="other")
    assert neighbours.profile(other).matched == ()
