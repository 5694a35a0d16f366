"""Taking existing nodes into a pool: what can be adopted, what cannot and why, and the two changes for each.

Everything is looked at before anything is changed. For each node first its machine is tagged, then the node
is labelled: a node only counts with its label, and its machine is then known already. Cut short in between,
the machine carries a tag that nothing acts on, and the next call does the rest.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from ebbtide.adapters.clouds.looking import Adopter, ListedMachine
from ebbtide.core.nodes.orphans import location_of, pool_for
from ebbtide.errors import Usage
from ebbtide.model import names
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import ClusterView, Node


class Labeller(Protocol):
    def label_node(self, name: str, uid: str, labels: Mapping[str, str]) -> None: ...


class State(StrEnum):
    WANTED = "to adopt"
    """Neither machine nor node is ours yet, or only one of them."""
    DONE = "adopted"
    REFUSED = "not adopted"


@dataclass(frozen=True, slots=True)
class Case:
    """One node, and what can be done about it."""

    node: Node
    pool: str
    state: State
    why: str = ""
    machine: ListedMachine | None = None

    @property
    def labels(self) -> dict[str, str]:
        """Those that a node of this pool gets when it joins by itself."""
        assert self.machine is not None  # only what has one is adopted
        kind = self.node.instance_type or self.machine.instance_type
        return {
            names.POOL: self.pool,
            names.INSTANCE_ID: self.machine.id,
            names.INSTANCE_TYPE: kind,
            names.MARKET: str(self.node.market),
        }


@dataclass(frozen=True, slots=True)
class Wish:
    """What a person asked for: all nodes of the cluster where none is named."""

    cluster: str
    pools: Sequence[Pool]
    pool: str = ""
    nodes: Collection[str] = ()


def look(view: ClusterView, adopter: Adopter, wish: Wish) -> tuple[Case, ...]:
    """Reads only. `Usage` for a pool or a node that is not there."""
    pools = _pools(wish)
    if unknown := sorted(set(wish.nodes) - set(view.node_named)):
        raise Usage(
            f"there is no node {', '.join(unknown)}; nothing was changed. `kubectl get nodes` lists them."
        )
    asked = [node for node in view.nodes if not wish.nodes or node.name in wish.nodes]
    meant = [node for node in asked if wish.nodes or not (node.control_plane or node.system)]
    machines = adopter.find([node for node in meant if not (node.control_plane or node.system)])
    return tuple(_case(node, machines.get(node.name), pools, wish) for node in meant)


def adopt(cases: Sequence[Case], adopter: Adopter, labeller: Labeller, cluster: str) -> Iterator[Case]:
    """One after the other; each result is reported at once."""
    for case in cases:
        if case.state is not State.WANTED or case.machine is None:
            continue
        # The tag comes first: a worker whose machine is not known would stop every removal.
        if (case.machine.cluster, case.machine.pool) != (cluster, case.pool):
            adopter.tag(case.machine, cluster, case.pool)
        labeller.label_node(case.node.name, case.node.uid, case.labels)
        yield Case(case.node, case.pool, State.DONE, machine=case.machine)


def _pools(wish: Wish) -> Sequence[Pool]:
    if not wish.pool:
        return wish.pools
    found = [pool for pool in wish.pools if pool.name == wish.pool]
    if not found:
        known = ", ".join(pool.name for pool in wish.pools) or "none"
        raise Usage(f"there is no pool {wish.pool!r}; nothing was changed. The configuration has: {known}.")
    return found


def _case(node: Node, machine: ListedMachine | None, pools: Sequence[Pool], wish: Wish) -> Case:
    if node.control_plane or node.system:
        kind = "control-plane" if node.control_plane else "system"
        return Case(node, "", State.REFUSED, f"it is a {kind} node")
    if node.pool and wish.pool and node.pool != wish.pool:
        return Case(node, node.pool, State.REFUSED, f"it is in pool {node.pool} already")
    pool = node.pool or pool_for(node, pools)
    if not pool:
        return Case(node, "", State.REFUSED, _why_no_pool(node, pools))
    return _with_machine(node, pool, machine, wish.cluster)


def _with_machine(node: Node, pool: str, machine: ListedMachine | None, cluster: str) -> Case:
    if machine is None:
        return Case(
            node, pool, State.REFUSED, "its machine was not found in the cloud: check the account and region"
        )
    refused = _why_not(machine, pool, cluster)
    if refused:
        return Case(node, pool, State.REFUSED, refused, machine)
    done = (machine.cluster, machine.pool, node.pool) == (cluster, pool, pool)
    return Case(node, pool, State.DONE if done else State.WANTED, machine=machine)


def _why_not(machine: ListedMachine, pool: str, cluster: str) -> str:
    if not machine.running:
        return f"machine {machine.id} is not running"
    if machine.cluster not in ("", cluster):
        return f"machine {machine.id} belongs to cluster {machine.cluster}"
    if machine.pool not in ("", pool):
        return f"machine {machine.id} is tagged for pool {machine.pool}: remove the tag, or name that pool"
    if machine.keeper:
        return f"{machine.keeper} would replace it when it is removed: detach it first (docs/adopting.md)"
    return ""


def _why_no_pool(node: Node, pools: Sequence[Pool]) -> str:
    """What the nearest pool lacks."""
    if not node.instance_type or not node.zone:
        return "it has no label for its instance type or its zone"
    of_type = [pool for pool in pools if pool.type_named(node.instance_type)]
    if not of_type:
        return f"no pool has its type: add {node.instance_type} to the types of one"
    if not any(location_of(node.zone, pool.zones) for pool in of_type):
        return f"pool {of_type[0].name} has its type, but not its zone: add {node.zone} to the zones"
    return f"pool {of_type[0].name} is not for {node.market} nodes"
