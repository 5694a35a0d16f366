"""What an assessment says of packing a cluster again."""

from __future__ import annotations

from decimal import Decimal
from itertools import count

from ebbtide.config.prices import read_book
from ebbtide.entrypoints.assess.assessment import assess
from ebbtide.entrypoints.assess.command import as_data
from ebbtide.entrypoints.assess.page import summary
from ebbtide.model.pod import Pod, Resources
from ebbtide.model.snapshot import ClusterView, Node
from tests.builders import NOW, make_node, make_pod

BOOK = read_book(None)


def _node(name: str, type_name: str, cpu_milli: int, memory_mib: int) -> Node:
    labels = (("disk", "ssd"), ("kubernetes.io/hostname", name))
    offer = Resources(cpu_milli, memory_mib)
    return make_node(name, instance_type=type_name, allocatable=offer, labels=labels, pool="", provider_id="")


def _pods(*nodes: Node) -> tuple[Pod, ...]:
    return tuple(make_pod(f"web-{node.name}", 500, 1024, node_name=node.name) for node in nodes)


def _clock() -> float:
    return float(next(_LOOKS)) / 100


_LOOKS = count()


def test_savings_moves_and_the_bound_are_told() -> None:
    nodes = (
        _node("a1", "cpx62", 16000, 32768),
        _node("a2", "cpx32", 4000, 8192),
        _node("a3", "cpx32", 3900, 8000),
    )
    result = assess(ClusterView(nodes, _pods(*nodes)), BOOK, NOW, clock=_clock)
    assert result.repacked is not None
    assert result.repacked.cost == Decimal("0.1392")
    assert result.repacked.cost_after == Decimal("0.0336")  # two are kept, by default
    assert result.repacked.moves == 1
    assert result.repacked.bound <= result.repacked.cost_after
    assert as_data(result)["repacked"]["savingPerHour"] == "0.1056"
    assert any(
        "With 30% of each node kept free, no set of nodes of these types costs less than" in line
        for line in summary(result)
    )


def test_where_nothing_is_available_nothing_is_said() -> None:
    nodes = (_node("a1", "cpx32", 4000, 8192),)
    result = assess(ClusterView(nodes, _pods(*nodes)), BOOK, NOW, clock=_clock)
    assert result.repacked is None
    assert as_data(result)["repacked"] is None
