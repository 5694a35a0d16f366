from __future__ import annotations

import subprocess
import sys

import pytest

from ebbtide.core.packing import NodeType, PlacementRules, Plan
from ebbtide.core.packing.pack import PackerMissing, installed_packer, pack_within, why_missing
from ebbtide.core.packing.types import Budget
from ebbtide.model.settings import Packer
from tests.unit.packing.builders import make_item, make_type, packed, ticking
from tests.unit.packing.test_solver import CLOUD, checked, some_items


def test_nothing_to_pack_costs_nothing() -> None:
    assert packed([], [make_type()]) == Plan((), 0.0, 0.0)


def test_an_item_without_units_is_no_matter() -> None:
    assert packed([make_item(count=0)], [make_type()]).nodes == ()


def test_a_pod_too_large_is_left_out_and_the_others_are_placed() -> None:
    items = [make_item("huge", 99000), make_item("fine", count=3)]

    plan = checked(packed(items, [make_type()]), items, [make_type()])

    assert [unplaced.pods for unplaced in plan.unplaced] == [("huge-0",)]
    assert "more than any type" in plan.unplaced[0].reason
    assert [node.pods for node in plan.nodes] == [("fine-0", "fine-1", "fine-2")]


def test_one_small_pod_gets_the_cheapest_node() -> None:
    (node,) = packed([make_item(cpu_milli=100, memory_mib=100)], CLOUD).nodes

    assert node.type.name == "c2"


def test_small_pods_without_the_solver_are_packed_well() -> None:
    items = some_items(classes=10, count=12)

    assert checked(packed(items, CLOUD, looks=3000), items, CLOUD).gap < 0.06


def test_plain_python_packs_any_number_and_needs_nothing_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ebbtide.core.packing.improve", None)
    items = some_items(classes=10, count=40)
    plan = pack_within(items, CLOUD, Budget(ticking(), 100.0, packer=Packer.PLAIN))

    assert checked(plan, items, CLOUD).gap < 0.3


def test_a_solver_that_is_missing_is_an_error_and_never_another_answer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """`decide` answered 84 or 78 nodes to the same inputs, by what happened to be installed."""
    assert (why_missing(Packer.HIGHS), installed_packer()) == ("", Packer.HIGHS)
    monkeypatch.setitem(sys.modules, "ebbtide.core.packing.improve", None)
    with pytest.raises(PackerMissing, match="cannot be loaded"):
        packed(some_items(classes=10, count=40), CLOUD, looks=100)
    monkeypatch.setitem(sys.modules, "highspy", None)
    with pytest.raises(PackerMissing, match=r"needs highspy, .*with its extra `solver`"):
        packed(some_items(classes=10, count=40), CLOUD, looks=100)
    assert (why_missing(Packer.PLAIN), installed_packer()) == ("", Packer.PLAIN)


def test_a_small_input_imports_no_solver() -> None:
    code = (
        "import sys, time; from ebbtide.core.packing import Item, NodeType, pack;"
        "types = [NodeType('t', 4000, 16384, 110, 1.0)];"
        "clock = time.perf_counter;"
        "pack([Item(1000, 1024, tuple('abc'))], types, deadline=clock() + 1, clock=clock);"
        "print([name for name in ('numpy', 'highspy') if name in sys.modules])"
    )

    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)

    assert done.stdout.strip() == "[]"


def test_spread_pods_land_evenly_in_the_zones_of_their_nodes() -> None:
    types = [NodeType("t", 4000, 16384, 110, 1.0, zone) for zone in "abc"]
    items = [make_item(count=11, rules=PlacementRules(max_skew=1))]

    plan = checked(packed(items, types), items, types)

    in_zone = {zone: sum(len(n.pods) for n in plan.nodes if n.type.zone == zone) for zone in "abc"}
    assert sorted(in_zone.values()) == [3, 4, 4]
