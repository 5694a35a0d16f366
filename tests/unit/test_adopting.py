"""`ebbtide adopt`: which nodes it takes, which it leaves and why, and that it can be cut short anywhere."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from ebbtide.adapters.clouds.looking import AUTO_SCALING_GROUP, ListedMachine
from ebbtide.entrypoints.setup.adopting import Case, State, Wish, adopt, look
from ebbtide.errors import Unanswered, Usage
from ebbtide.model import names
from ebbtide.model.snapshot import ClusterView, Market, Node
from tests.builders import make_node, make_pool, make_type

CLUSTER = "shop"
CLUSTER_TAG, POOL_TAG = "ebbtide.dev/cluster", "ebbtide.dev/pool"
POOLS = (make_pool("general"), make_pool("batch", types=(make_type("large"),)))


@dataclass
class World:
    """Nodes and machines in memory, which can be cut off before any change."""

    nodes: dict[str, Node]
    machines: dict[str, ListedMachine]
    left: int = 1000
    did: list[str] = field(default_factory=list)

    def find(self, nodes: Iterable[Node]) -> Mapping[str, ListedMachine]:
        return {node.name: self.machines[node.name] for node in nodes if node.name in self.machines}

    def tag(self, machine: ListedMachine, cluster: str, pool: str) -> None:
        self._do(f"tag {machine.id}")
        name = next(name for name, one in self.machines.items() if one.id == machine.id)
        tags = {**machine.tags, CLUSTER_TAG: cluster, POOL_TAG: pool}
        self.machines[name] = replace(machine, tags=tags)

    def label_node(self, name: str, uid: str, labels: Mapping[str, str]) -> None:
        self._do(f"label {name}")
        assert self.nodes[name].uid == uid
        assert self.machines[name].cluster == CLUSTER, "a worker whose machine is not known"
        self.nodes[name] = replace(self.nodes[name], pool=labels[names.POOL])

    def _do(self, what: str) -> None:
        if not self.left:
            raise Unanswered(what)
        self.left -= 1
        self.did.append(what)

    def look(self, **wish: Any) -> tuple[Case, ...]:
        view = ClusterView(tuple(self.nodes.values()))
        return look(view, self, Wish(**{"cluster": CLUSTER, "pools": POOLS, **wish}))

    def adopt(self, **wish: Any) -> list[Case]:
        return list(adopt(self.look(**wish), self, self, CLUSTER))


def world(*nodes: Node, **tags: Mapping[str, str]) -> World:
    """Each node with its machine; `tags` of some of them, by node name."""
    machines = {
        node.name: ListedMachine(f"i-{node.name}", "small", True, tags.get(node.name, {})) for node in nodes
    }
    return World({node.name: node for node in nodes}, machines)


def loose(name: str, **overrides: Any) -> Node:
    return make_node(name, **{"pool": "", **overrides})


def test_each_node_goes_into_the_pool_that_fits_and_the_machine_is_tagged_first() -> None:
    found = world(loose("a1"), loose("b1", instance_type="large"), make_node("a0", control_plane=True))
    assert [(case.node.name, case.pool, case.state) for case in found.adopt()] == [
        ("a1", "general", State.DONE),
        ("b1", "batch", State.DONE),
    ]
    assert found.did == ["tag i-a1", "label a1", "tag i-b1", "label b1"]


def test_a_second_call_finds_nothing_to_do() -> None:
    found = world(loose("a1"), loose("b1"))
    found.adopt()
    found.did.clear()
    assert found.adopt() == []
    assert found.did == []
    assert {case.state for case in found.look()} == {State.DONE}


@pytest.mark.parametrize("cut", range(4))
def test_cut_short_anywhere_the_next_call_does_the_rest_and_nothing_twice(cut: int) -> None:
    found = world(loose("a1"), loose("b1"))
    found.left = cut
    with pytest.raises(Unanswered):
        found.adopt()
    found.left = 1000
    found.adopt()
    assert found.did == ["tag i-a1", "label a1", "tag i-b1", "label b1"]
    assert {case.state for case in found.look()} == {State.DONE}


def test_a_node_with_its_label_whose_machine_was_never_tagged_is_finished() -> None:
    found = world(make_node("a1", pool="general"))
    found.adopt()
    assert found.machines["a1"].cluster == CLUSTER


@pytest.mark.parametrize(
    ("node", "tags", "why"),
    [
        (loose("a1", instance_type="huge"), {}, "no pool has its type: add huge to the types of one"),
        (loose("a1", zone="z"), {}, "pool general has its type, but not its zone: add z to the zones"),
        (loose("a1", market=Market.SPOT), {}, "pool general is not for spot nodes"),
        (loose("a1", instance_type=""), {}, "it has no label for its instance type or its zone"),
        (loose("a1"), {CLUSTER_TAG: "other"}, "machine i-a1 belongs to cluster other"),
        (
            loose("a1"),
            {CLUSTER_TAG: CLUSTER, POOL_TAG: "batch"},
            "machine i-a1 is tagged for pool batch: remove the tag, or name that pool",
        ),
        (
            loose("a1"),
            {AUTO_SCALING_GROUP: "eks-general"},
            "Auto Scaling group eks-general would replace it when it is removed: detach it first "
            "(docs/adopting.md)",
        ),
    ],
)
def test_what_cannot_be_adopted_is_left_alone_with_the_reason(
    node: Node, tags: Mapping[str, str], why: str
) -> None:
    found = world(node, a1=tags)
    (case,) = found.look()
    assert (case.state, case.why) == (State.REFUSED, why)
    assert found.adopt() == []
    assert found.did == []


def test_a_machine_that_is_not_found_or_not_running_is_not_adopted() -> None:
    found = world(loose("a1"), loose("b1"))
    del found.machines["a1"]
    found.machines["b1"] = replace(found.machines["b1"], running=False)
    assert [case.why for case in found.look()] == [
        "its machine was not found in the cloud: check the account and region",
        "machine i-b1 is not running",
    ]


def test_only_the_named_nodes_and_the_named_pool_are_looked_at() -> None:
    found = world(
        loose("a1"), loose("b1"), make_node("a2", pool="batch"), make_node("a0", control_plane=True)
    )
    assert [case.node.name for case in found.adopt(nodes=("b1",))] == ["b1"]
    (named,) = found.look(nodes=("a0",))
    assert named.why == "it is a control-plane node"
    whys = {case.node.name: case.why for case in found.look(pool="general")}
    assert whys["a2"] == "it is in pool batch already"
    assert whys["a1"] == ""


def test_a_system_node_is_not_meant_and_says_so_where_it_is_named() -> None:
    found = world(loose("a1", system=True))
    assert found.look() == ()
    (case,) = found.look(nodes=("a1",))
    assert case.why == "it is a system node"


@pytest.mark.parametrize(
    ("wish", "says"),
    [
        ({"pool": "generall"}, r"there is no pool 'generall'; nothing was changed\. .* general, batch"),
        ({"nodes": ("a1", "zz")}, "there is no node zz; nothing was changed"),
    ],
)
def test_a_pool_or_a_node_that_is_not_there_is_refused_before_anything_is_changed(
    wish: dict[str, Any], says: str
) -> None:
    found = world(loose("a1"))
    with pytest.raises(Usage, match=says):
        found.look(**wish)


def test_the_labels_are_those_of_a_node_that_joins_by_itself() -> None:
    found = world(loose("a1"))
    (case,) = found.look()
    assert case.labels == {
        "ebbtide.dev/pool": "general",
        "ebbtide.dev/instance-id": "i-a1",
        "ebbtide.dev/instance-type": "small",
        "ebbtide.dev/market": "on-demand",
    }
