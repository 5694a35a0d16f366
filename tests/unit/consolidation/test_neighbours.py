"""Spread and anti-affinity by counts: the same answers as the fit rules, which look at every pod."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.fit import Placement, Room, room_of
from ebbtide.core.repack.neighbours import FREE, Neighbours
from ebbtide.model.pod import Pod
from ebbtide.model.scheduling import AntiAffinity, Operator, Requirement, Scheduling, Spread
from tests.builders import make_node, make_pod, make_selector

ZONE, HOST, RACK = "topology.kubernetes.io/zone", "kubernetes.io/hostname", "rack"
WEB = make_selector(app="web")


def _rules(chance: Random) -> Scheduling:
    key = chance.choice((ZONE, HOST, RACK))
    selector = make_selector(app=chance.choice("xy"))
    return chance.choice(
        (
            Scheduling(),
            Scheduling(anti_affinity=(AntiAffinity(key, selector),)),
            Scheduling(spread=(Spread(key, chance.choice((1, 2)), selector),)),
            Scheduling(
                spread=(Spread(key, 1, selector),),
                node_affinity=((Requirement("disk", Operator.EXISTS),),),
            ),
        )
    )


def _pod(chance: Random, name: str, on: str = "") -> Pod:
    labels = (("app", chance.choice("xyz")),)
    namespace = chance.choice(("default", "other"))
    return make_pod(name, 1, 1, node_name=on, labels=labels, namespace=namespace, scheduling=_rules(chance))


@settings(max_examples=200, deadline=None)
@given(st.integers(0, 2**32))
def test_the_answers_are_those_of_the_fit_rules(seed: int) -> None:
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
    pods = {
        node.name: [_pod(chance, f"p{n}-{node.name}", node.name) for n in range(chance.randint(0, 3))]
        for node in nodes
    }
    rooms = [room_of(node, pods[node.name]) for node in nodes]
    arriving = [_pod(chance, f"new-{number}") for number in range(4)]
    # A rule is known only from a pod that is there.
    pods[nodes[0].name] += arriving
    neighbours = Neighbours(rooms, pods)
    for pod in arriving:
        neighbours.add(neighbours.profile(pod), rooms[0], -1)
    placement = Placement(rooms)
    for pod in arriving:
        for room in rooms:
            refused = bool(placement._refused_by_neighbours(pod, room))
            if not _unwanted(pod, room):
                assert neighbours.refuse(neighbours.profile(pod), room) == refused
        chosen = chance.choice(rooms)
        placement.place(pod, chosen)
        neighbours.add(neighbours.profile(pod), chosen)


def _unwanted(pod: Pod, room: Room) -> bool:
    """The planner asks about labels before it asks about neighbours."""
    return bool(pod.scheduling.node_affinity) and "disk" not in room.labels


def test_without_rules_every_pod_is_free() -> None:
    neighbours = Neighbours([room_of(make_node("a1"), ())], {"a1": [make_pod("web", node_name="a1")]})
    assert neighbours.profile(make_pod("other")) is FREE


def test_a_node_that_is_yet_to_come_is_an_empty_domain() -> None:
    spread = Scheduling(spread=(Spread(HOST, 1, WEB),))
    web = [
        make_pod(f"web-{n}", node_name="a1", labels=(("app", "web"),), scheduling=spread) for n in range(2)
    ]
    room = room_of(make_node("a1"), ())
    neighbours = Neighbours([room], {"a1": web, "gone": web})
    profile = neighbours.profile(web[0])
    assert not neighbours.refuse(profile, room)
    new = Room("new", "a", (), ())
    opened = neighbours.open_room(new)
    assert neighbours.refuse(profile, room)
    assert not neighbours.refuse(profile, new)
    assert neighbours.open_room(new) == []
    neighbours.forget(opened)
    assert not neighbours.refuse(profile, room)
