"""Clusters too large to try everything: filled with numpy and without, and cut short where it takes long."""

from __future__ import annotations

import sys
from dataclasses import replace
from decimal import Decimal
from random import Random

import pytest

from ebbtide.core.consolidation import eliminate, sweep
from ebbtide.core.consolidation.drafts import FreeRoom
from ebbtide.core.consolidation.evaluate import evaluate
from ebbtide.core.consolidation.fill_many import fill_many
from ebbtide.core.consolidation.outline import Outline
from ebbtide.core.consolidation.scene import PodShape, Scene
from ebbtide.core.nodes.room import Room
from ebbtide.core.packing.pack import PackerMissing
from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.pod import Pod, Scheduling, Taint, TaintEffect, Toleration
from ebbtide.model.record import Record
from ebbtide.model.settings import Packer, Settings
from ebbtide.model.snapshot import Node, Snapshot
from tests.builders import NOW, make_pool
from tests.unit.consolidation.builders import TYPES, cheap, cluster, node, pod, settings_with
from tests.verify_consolidation import verify_consolidation

SIZES = ((250, 512), (300, 700), (500, 1024), (700, 900), (1000, 2048), (1500, 2500), (2300, 4600))
TAINT = Taint("batch", TaintEffect.NO_SCHEDULE)
TOLERANT = Scheduling(tolerations=(Toleration("batch", exists=True),))


def half_empty(nodes: int, seed: int = 1) -> Snapshot:
    """Every fourth node is tainted, in a pool of its own; each is filled to somewhere below a half. One more
    is full, and one takes none of these pods."""
    chance = Random(seed)
    found: list[Node] = []
    pods: list[Pod] = []
    for number in range(nodes):
        tainted = number % 4 == 0
        here = node(
            f"a{number}",
            chance.choice(("cpx42", "cpx52", "cpx62")),
            pool="batch" if tainted else "workers",
            taints=(TAINT,) if tainted else (),
        )
        found.append(here)
        cpu = chance.uniform(0.1, 0.45) * here.allocatable.cpu_milli
        while True:
            size = chance.choice(SIZES)
            cpu -= size[0]
            if cpu < 0:
                break
            rules = TOLERANT if tainted or chance.random() < 0.3 else Scheduling()
            pods.append(pod(f"p{len(pods)}", here, *size, scheduling=rules))
    full, closed = node("a-full", "cpx22"), node("a-closed", taints=(Taint("other", TaintEffect.NO_EXECUTE),))
    stay = [pod(f"bare-{each.name}", each, 1900, 3000, controller="") for each in (full, closed)]
    return cluster([*found, full, closed], [*pods, *stay])


def given(**overrides: object) -> Settings:
    pools = (
        make_pool("workers", types=TYPES, zones=("a",)),
        make_pool("batch", types=TYPES, zones=("a",), taints=(TAINT,)),
    )
    wanted = cheap(moves_per_hour=100_000, move_cost=Decimal(0), **overrides)
    return settings_with(wanted, pools=pools, max_workers=1000)


def planned(snapshot: Snapshot, settings: Settings) -> ConsolidationPlan:
    report = evaluate(snapshot, Record(), settings, NOW, "op")
    assert report.plan is not None, report.failed
    assert verify_consolidation(report.plan, snapshot, settings) == []
    return report.plan


def test_a_large_cluster_ends_close_to_its_bound() -> None:
    plan = planned(half_empty(150), given())
    assert plan.cost_after <= plan.bound * Decimal("1.06")
    assert plan.cost_after < plan.cost_before * Decimal("0.7")
    assert len(plan.frontier) > 4


def test_the_plain_packer_works_without_numpy_and_gives_the_same_plan_with_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with_numpy = planned(half_empty(100), given())
    plain = replace(given(plan_seconds=0.5), packer=Packer.PLAIN)
    installed = planned(half_empty(100), plain)
    monkeypatch.setitem(sys.modules, "ebbtide.core.consolidation.fill_many", None)
    monkeypatch.setitem(sys.modules, "ebbtide.core.packing.improve", None)
    plan = planned(half_empty(100), plain)
    assert plan == installed, "what is installed is not an input"
    assert plan.cost_after <= with_numpy.cost_after * Decimal("1.15")
    with pytest.raises(PackerMissing):
        planned(half_empty(100), given())


def test_of_very_many_pods_only_the_most_promising_sets_are_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = planned(half_empty(30), given())
    monkeypatch.setattr(sweep, "MANY_PARCELS", 10)
    monkeypatch.setattr(sweep, "MOST_POINTS", 3)
    few = planned(half_empty(30), given())
    assert len(few.frontier) < len(everything.frontier)
    assert few.cost_after <= everything.cost_after * Decimal("1.1")


def test_deletion_is_given_up_where_it_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    everything = planned(half_empty(30), given(replace=False))
    monkeypatch.setattr(eliminate, "MOST_LOOKS", 600)
    short = planned(half_empty(30), given(replace=False))
    assert 0 < len(short.sources) < len(everything.sources)


def test_without_time_deletion_alone_is_left() -> None:
    plan = planned(half_empty(20), given(plan_seconds=0.0))
    assert plan.slots == ()
    assert plan.sources


def test_a_cluster_of_expensive_nodes_is_exchanged_as_a_whole() -> None:
    nodes = [node(f"a{number}", "cpx62") for number in range(25)]
    pods = [pod(f"p{n}-{each.name}", each, *SIZES[n % 3]) for each in nodes for n in range(10)]
    plan = planned(cluster(nodes, pods), given())
    assert len(plan.sources) == len(nodes)
    assert plan.cost_after <= plan.bound * Decimal("1.06")


def test_where_all_rooms_are_full_nothing_is_drawn_for_them() -> None:
    """An evaluation of a large cluster failed here, and the tick with it, as long as all nodes were full."""
    scene = Scene((), (), (PodShape(380, 700, admitted=1),), (), Outline((), (), {}), ())
    full = [
        FreeRoom(f"a{number}", (200, 1192, 100), 0, Room(f"a{number}", "a", (), ())) for number in range(3)
    ]
    left = [300]
    assert fill_many(scene, full, left, seed=1) == []
    assert left == [300]
    room = FreeRoom("b", (800, 1400, 100), 0, Room("b", "a", (), ()))
    taken = [(space.name, content) for space, content in fill_many(scene, [*full, room], left, seed=1)]
    assert taken == [("b", [(0, 2)])]
