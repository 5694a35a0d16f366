"""Nodes emptied one after the other: what remembers full places finds what looking at every place finds."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ebbtide.core.consolidation import eliminate as eliminating
from ebbtide.core.consolidation.drafts import Floors, Layout
from ebbtide.core.consolidation.eliminate import Steps, eliminate, keep_order, removal_order
from ebbtide.core.consolidation.outline import Outline, Place
from ebbtide.core.consolidation.scene import ExistingNode, Parcel, PodShape, Scene
from ebbtide.core.nodes.fit import Neighbours
from ebbtide.core.nodes.room import Room
from ebbtide.model.pod import ANYWHERE, AntiAffinity, LabelSelector, Requirement, Scheduling, SelectorOperator
from tests.builders import make_node, make_pod

KINDS = (
    PodShape(100, 0, 3),
    PodShape(0, 100, 3),
    PodShape(100, 100, 1),
    PodShape(200, 50, 3),
    PodShape(100, 50, 2),
)
ALONE = Scheduling(
    anti_affinity=(
        AntiAffinity(
            "kubernetes.io/hostname", LabelSelector((Requirement("app", SelectorOperator.IN, ("shy",)),))
        ),
    )
)


class Drawn(NamedTuple):
    """A node: the kinds of its pods, what is free there, and how it may be used."""

    kinds: list[int]
    free: tuple[int, int, int]
    shape: int
    target: bool
    removable: bool


NODES = st.lists(
    st.builds(
        Drawn,
        st.lists(st.integers(0, len(KINDS)), max_size=6),
        st.tuples(st.integers(-100, 600), st.integers(-100, 400), st.integers(-1, 5)),
        st.integers(0, 1),
        st.booleans(),
        st.booleans(),
    ),
    min_size=1,
    max_size=8,
)


def layout_of(drawn: Sequence[Drawn]) -> Layout:
    """Kind number len(KINDS) is a pod of the first kind that does not stand its own kind on one node."""
    rooms = [Room(f"n{n}", "a", (), ()).offer(make_node().allocatable, 10) for n in range(len(drawn))]
    pods = [
        make_pod(
            f"p{n}-{place}", node_name=f"n{n}", uid=f"{place}-{n}",
            labels=(("app", "shy" if kind == len(KINDS) else "web"),),
scheduling=ALONE if kind == len(KINDS) else ANYWHERE,
        )
        for n, each in enumerate(drawn)
        for place, kind in enumerate(each.kinds)
    ]  # fmt: skip
    on = {f"n{n}": [pod for pod in pods if pod.node_name == f"n{n}"] for n in range(len(drawn))}
    neighbours = Neighbours((room, on[room.name]) for room in rooms)
    numbers = [(n, kind) for n, each in enumerate(drawn) for kind in each.kinds]
    parcels = tuple(
        Parcel(pod, n, kind % len(KINDS), neighbours.profile(pod), not neighbours.profile(pod).free)
        for pod, (n, kind) in zip(pods, numbers, strict=True)
    )
    sites = tuple(
        ExistingNode(
            make_node(f"n{n}"), Decimal("0.1"), each.free, each.shape,
            tuple(number for number, parcel in enumerate(parcels) if parcel.site == n),
            each.removable, each.target,
        )
        for n, each in enumerate(drawn)
    )  # fmt: skip
    places = tuple(Place(Decimal("0.1"), each.free, each.free, _load(each), each.removable) for each in drawn)
    return Layout(Scene(sites, parcels, KINDS, (), Outline(places, (), {}), rooms), neighbours, Floors(0))


def _load(drawn: Drawn) -> tuple[int, int, int]:
    kinds = [KINDS[kind % len(KINDS)] for kind in drawn.kinds]
    return sum(kind.cpu_milli for kind in kinds), sum(kind.memory_mib for kind in kinds), len(kinds)


def by_looking(layout: Layout, order: Sequence[int], most: int) -> tuple[Steps, int]:
    """Every place is looked at for every pod."""
    scene, marks = layout.scene, []
    places = [layout.spaces[number] for number in keep_order(scene) if scene.sites[number].target]
    for number in order:
        space, before = layout.spaces[number], len(layout.moves)
        if space.taken_in:
            continue
        if layout.looks > most:
            break
        space.closed = True
        for each in scene.largest_first[number]:
            layout.lift(scene.parcels[each])
            place = layout.first_fit(each, places)
            if place is None:
                layout.lift(scene.parcels[each], 1)
                while len(layout.moves) > before:
                    layout.take_back()
                space.closed = False
                break
            layout.put(each, place)
        if space.closed:
            layout.drop(number)
            marks.append((len(layout.removed), len(layout.moves), layout.cost))
    moves = tuple((number, space.name) for number, space in layout.moves)
    return Steps(tuple(layout.removed), moves, tuple(marks)), layout.looks


@given(NODES, st.sampled_from((0, 5, 20, 100_000)))
@settings(max_examples=300)
def test_the_same_nodes_are_emptied_to_the_same_places_as_by_looking_at_each(
    drawn: list[Drawn], most: int
) -> None:
    layout = layout_of(drawn)
    order = removal_order(layout.scene)
    expected, _ = by_looking(layout_of(drawn), order, most)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(eliminating, "MOST_LOOKS", most)
        assert eliminate(layout, order) == expected
        assert eliminate(layout, order) == expected, "the layout was not put back"
