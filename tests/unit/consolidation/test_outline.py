"""The bound in whole pods: what it rules out, no draft reaches; what it cannot rule out is still tried."""

from __future__ import annotations

from decimal import Decimal
from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ebbtide.core.consolidation import choose
from ebbtide.core.consolidation.drafts import Floors
from ebbtide.core.consolidation.evaluate import evaluated
from ebbtide.core.consolidation.look import Look, look
from ebbtide.core.consolidation.outline import MOST_UNITS, Outline, Place, Size
from ebbtide.core.consolidation.sweep import Limits, sweep
from ebbtide.core.nodes.question import Question
from ebbtide.core.packing.types import Budget, CountingClock
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from tests.builders import NOW, make_pool
from tests.unit.consolidation.builders import TYPES, cheap, cluster, node, pod, settings_with
from tests.unit.consolidation.clusters import random_cluster, random_settings

PRICE = Decimal("0.0312")
ROOM: Size = (7550, 15000, 110)


def outline(nodes: int, sizes: dict[Size, int], room: Size = ROOM, price: Decimal = PRICE) -> Outline:
    places = tuple(Place(price, room, room, (0, 0, 0), removable=True) for _ in range(nodes))
    return Outline(places, (), sizes)


@pytest.mark.parametrize("pods", [64, 83, 84])
def test_where_a_node_holds_21_whole_pods_84_of_them_need_four_nodes(pods: int) -> None:
    assert not outline(4, {(350, 512, 1): pods}).may_cost_less


def test_where_three_nodes_would_do_for_whole_pods_there_may_be_something_cheaper() -> None:
    assert outline(4, {(350, 512, 1): 63}).may_cost_less


def test_a_pod_that_asks_for_more_counts_as_often_as_the_unit_goes_into_it() -> None:
    """64 small pods and 10 of twice their size are worth 84."""
    assert not outline(4, {(350, 512, 1): 44, (700, 512, 1): 10}).may_cost_less
    assert outline(4, {(350, 512, 1): 43, (700, 512, 1): 10}).may_cost_less


def test_memory_and_pod_slots_bind_as_well() -> None:
    assert not outline(2, {(10, 6000, 1): 3}).may_cost_less
    assert not outline(2, {(10, 10, 1): 111}).may_cost_less


def test_a_node_that_holds_none_of_the_pods_is_no_cheaper_place_for_them() -> None:
    large = Place(PRICE, ROOM, ROOM, (0, 0, 0), removable=True)
    tiny: tuple[Size, Decimal] = ((100, 100, 10), Decimal("0.0001"))
    assert not Outline((large, large), (tiny,), {(350, 512, 1): 42}).may_cost_less


def test_a_cheaper_node_that_could_be_launched_is_counted_on() -> None:
    large = Place(PRICE, ROOM, ROOM, (0, 0, 0), removable=True)
    assert Outline((large, large), ((ROOM, Decimal("0.0100")),), {(350, 512, 1): 42}).may_cost_less


def test_pods_that_ask_for_nothing_hold_up_nothing() -> None:
    assert outline(2, {(0, 0, 1): 5}).may_cost_less
    assert outline(1, {}).may_cost_less


def test_only_the_most_common_amounts_are_units() -> None:
    """43 pods need three nodes, though as a fluid two would do. Among many more common sizes they are not
    counted by."""
    room: Size = (7_550_000, 1 << 40, 10_000)
    few: dict[Size, int] = {(350_000, 1, 1): 43}
    common: dict[Size, int] = {(amount, 1, 1): 44 for amount in range(1, MOST_UNITS + 1)}
    assert not outline(3, few, room).may_cost_less
    assert outline(3, few | common, room).may_cost_less


def crowded(chance: Random) -> tuple[Snapshot, Settings]:
    """Nodes of one or two types, nearly full of pods of one or two sizes."""
    types = chance.sample(TYPES, chance.randint(1, 2))
    sizes = chance.sample(((350, 512), (500, 1024), (900, 300), (1300, 2048)), chance.randint(1, 2))
    nodes = [node(f"n{number}", chance.choice(types).name) for number in range(chance.randint(1, 6))]
    pods: list[Pod] = []
    for here in nodes:
        cpu = here.allocatable.cpu_milli * chance.choice((0.5, 0.65, 0.7))
        memory = here.allocatable.memory_mib * 0.7
        while True:
            size = chance.choice(sizes)
            cpu, memory = cpu - size[0], memory - size[1]
            if min(cpu, memory) < 0:
                break
            pods.append(pod(f"p{len(pods)}", here, *size))
    return cluster(nodes, pods), settings_with(cheap(), pools=(make_pool(types=tuple(types), zones=("a",)),))


def seen(seed: int) -> Look:
    """Of either kind of cluster."""
    chance = Random(seed)
    if seed % 2:
        snapshot, wanted = crowded(chance)
        return look(snapshot, Record(), wanted, NOW, {})
    wanted = random_settings(chance)
    snapshot, record = random_cluster(chance, wanted)
    return look(snapshot, record, wanted, NOW, {})


def cheapest_draft(found: Look) -> Decimal:
    limits = Limits(Floors(0), replace=True)
    drafts = sweep(found.scene, found.neighbours, limits, Budget(CountingClock(), 2.0), str)
    return min((draft.cost for draft in drafts), default=found.outline.cost)


@settings(max_examples=250, deadline=None)
@given(st.integers(0, 2**32))
@example(6)
def test_where_nothing_can_cost_less_no_draft_does(seed: int) -> None:
    found = seen(seed)
    if not found.outline.may_cost_less:
        assert cheapest_draft(found) >= found.outline.cost


def test_random_clusters_are_ruled_out_often_enough_to_tell() -> None:
    assert sum(not seen(seed).outline.may_cost_less for seed in range(100)) >= 10


def full() -> Snapshot:
    """Two nodes with 15 pods each, of which a node holds 15 up to its fill limit: nothing can be saved."""
    nodes = [node(name, "cpx42") for name in ("a", "b")]
    pods = [pod(f"{each.name}{n}", each, 350, 512) for each in nodes for n in range(15)]
    return cluster(nodes, pods)


def test_where_nothing_can_cost_less_no_draft_is_made_and_the_report_is_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    wanted = settings_with(cheap(replace=False))

    def report(brief: bool) -> object:
        return evaluated(Question(full(), Record(), wanted, NOW, "op", brief), {})

    short, long = report(brief=True), report(brief=False)
    monkeypatch.setattr(choose, "sweep", None)
    assert report(brief=False) == long
    assert report(brief=True) == short
    monkeypatch.undo()
    monkeypatch.setattr(Outline, "may_cost_less", True)
    assert report(brief=False) == long
    assert report(brief=True) == short
