"""Builders with overrides, so a test names only what it is about.

Names wire themselves: node `b2` has the UID `uid-b2`, the provider id `sim://i-b2`, stands in zone `b`
and runs on the instance `i-b2`. An override is always spelled as the field of the model.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from typing import Any

from ebbtide.model.check import Check, NodeCause, Refusal
from ebbtide.model.operation import (
    Consolidate,
    Move,
    Operation,
    Removal,
    ScaleDown,
    ScaleUp,
    Slot,
    Source,
    Spot,
    SpotKind,
    spot_id,
)
from ebbtide.model.pod import Budget, LabelSelector, Pod, Requirement, Resources, SelectorOperator
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Instance, Node, Reading, Snapshot

NOW = 1_700_000_000
A_DAY_AGO = NOW - 86_400
POOL = "workers"
TYPE = "small"


def make_price(per_hour: str) -> Price:
    return Price(Decimal(per_hour), "EUR", "test")


def make_type(
    name: str = TYPE,
    cpu_milli: int = 4000,
    memory_mib: int = 8192,
    price: str | None = "0.05",
    spot_price: str | None = None,
    max_pods: int = 110,
) -> NodeType:
    return NodeType(
        name,
        Resources(cpu_milli, memory_mib),
        max_pods,
        make_price(price) if price is not None else None,
        make_price(spot_price) if spot_price is not None else None,
    )


def make_pool(name: str = POOL, **overrides: Any) -> Pool:
    return Pool(**{"name": name, "types": (make_type(),), "zones": ("a", "b"), **overrides})


def make_settings(**overrides: Any) -> Settings:
    """The defaults users rely on, with one pool of one type in the zones a and b."""
    return Settings(**{"pools": (make_pool(),), **overrides})


def make_node(name: str = "a1", **overrides: Any) -> Node:
    defaults = {
        "name": name,
        "uid": f"uid-{name}",
        "provider_id": f"sim://i-{name}",
        "zone": name[0],
        "pool": POOL,
        "instance_type": TYPE,
        "created_at": A_DAY_AGO,
        "allocatable": Resources(4000, 8192),
    }
    return Node(**{**defaults, **overrides})


def make_nodes(*names: str, **overrides: Any) -> tuple[Node, ...]:
    """One node for each name: `make_nodes("a1", "a2", "b1")`."""
    return tuple(make_node(name, **overrides) for name in names)


def make_instance(id: str = "i-a1", **overrides: Any) -> Instance:
    defaults = {
        "id": id,
        "provider_id": f"sim://{id}",
        "pool": POOL,
        "zone": id.removeprefix("i-")[0],
        "instance_type": TYPE,
        "launched_at": A_DAY_AGO,
    }
    return Instance(**{**defaults, **overrides})


def make_instance_of(node: Node, **overrides: Any) -> Instance:
    """The instance that a node says it runs on."""
    defaults = {
        "provider_id": node.provider_id,
        "pool": node.pool,
        "zone": node.zone,
        "instance_type": node.instance_type,
        "market": node.market,
        "launched_at": node.created_at,
        "private_ip": node.private_ip,
    }
    return make_instance(f"i-{node.name}", **{**defaults, **overrides})


def make_pod(name: str = "web-1", cpu_milli: int = 100, memory_mib: int = 128, **overrides: Any) -> Pod:
    """A running pod of a ReplicaSet. It waits for a node where `phase` says so and none is named."""
    defaults = {
        "namespace": "default",
        "name": name,
        "uid": f"uid-{name}",
        "created_at": A_DAY_AGO,
        "requests": Resources(cpu_milli, memory_mib),
        "controller": "ReplicaSet",
    }
    return Pod(**{**defaults, **overrides})


def make_daemon(node_name: str) -> Pod:
    return make_pod(f"agent-{node_name}", 0, 0, node_name=node_name, controller="DaemonSet")


def make_selector(**labels: str) -> LabelSelector:
    return LabelSelector(
        tuple(Requirement(key, SelectorOperator.IN, (value,)) for key, value in sorted(labels.items()))
    )


def make_budget(disruptions_allowed: int, name: str = "web", **labels: str) -> Budget:
    return Budget("default", name, make_selector(**labels), disruptions_allowed)


def make_snapshot(
    nodes: Iterable[Node] = (),
    pods: Iterable[Pod] | None = None,
    *,
    budgets: Iterable[Budget] = (),
    instances: Iterable[Instance] | None = None,
    extra_instances: Iterable[Instance] = (),
    cpu: float | Reading | None = 0.10,
    problems: tuple[str, ...] = (),
    at: int = NOW,
) -> Snapshot:
    """Every node of a pool gets its instance, and a DaemonSet pod where `pods` is not given."""
    nodes = tuple(nodes)
    if pods is None:
        pods = [make_daemon(node.name) for node in nodes]
    if instances is None:
        instances = [make_instance_of(node) for node in nodes if node.pool]
    if not isinstance(cpu, Reading):
        cpu = Reading(cpu, at, "the metrics were not read" if cpu is None else "")
    view = ClusterView(nodes, tuple(pods), tuple(budgets))
    return Snapshot(at, view, (*instances, *extra_instances), cpu, problems)


def lanes(operation: Operation | None) -> dict[str, Any]:
    """The lanes of a record in which only this is open."""
    adds = isinstance(operation, ScaleUp)
    return {"launching": operation if adds else None, "removing": None if adds else operation}


def asides(operation: Operation | None) -> dict[str, Any]:
    """The same for what was set aside."""
    return {f"{lane}_aside": work for lane, work in lanes(operation).items()}


def by_lane(overrides: dict[str, Any]) -> dict[str, Any]:
    """`operation` and `set_aside` as fields of the record."""
    found = dict(overrides)
    if "operation" in found:
        found |= lanes(found.pop("operation"))
    if "set_aside" in found:
        found |= asides(found.pop("set_aside"))
    return found


def make_record(**overrides: Any) -> Record:
    """`operation` is the only one that is open, in its lane."""
    return Record(**by_lane(overrides))


def make_slot(key: str = "op-0", **overrides: Any) -> Slot:
    return Slot(**{"key": key, "pool": POOL, "zone": "a", "instance_type": TYPE, "since": NOW, **overrides})


def make_removal(node_name: str = "a1", **overrides: Any) -> Removal:
    defaults = {
        "instance_id": f"i-{node_name}",
        "node_name": node_name,
        "node_uid": f"uid-{node_name}",
        "zone": node_name[0],
        "pool": POOL,
        "since": NOW,
    }
    return Removal(**{**defaults, **overrides})


def make_scale_up(*slots: Slot, **overrides: Any) -> ScaleUp:
    defaults = {"id": "op", "started_at": NOW, "requested": len(slots), "slots": slots}
    return ScaleUp(**{**defaults, **overrides})


def make_scale_down(*removals: Removal, **overrides: Any) -> ScaleDown:
    return ScaleDown(**{"id": "op", "started_at": NOW, "removals": removals, **overrides})


def make_source(node_name: str = "a1", **overrides: Any) -> Source:
    defaults = {
        "instance_id": f"i-{node_name}",
        "node_name": node_name,
        "node_uid": f"uid-{node_name}",
        "zone": node_name[0],
        "pool": POOL,
        "since": NOW,
    }
    return Source(**{**defaults, **overrides})


def make_move(pod: Pod, to_node: str = "b1", **overrides: Any) -> Move:
    """Of this pod, from where it is."""
    defaults = {
        "pod_uid": pod.uid,
        "pod_name": pod.full_name,
        "from_node": pod.node_name,
        "to_node": to_node,
        "owner_uid": pod.owner_uid,
        "since": NOW,
    }
    return Move(**{**defaults, **overrides})


def make_consolidate(sources: Iterable[Source], moves: Iterable[Move], **overrides: Any) -> Consolidate:
    defaults = {"id": "op", "started_at": NOW, "sources": tuple(sources), "moves": tuple(moves)}
    return Consolidate(**{**defaults, **overrides})


def make_spot(node_name: str = "a1", **overrides: Any) -> Spot:
    defaults = {
        "id": spot_id(f"i-{node_name}"),
        "instance_id": f"i-{node_name}",
        "kind": SpotKind.INTERRUPTION,
        "noticed_at": NOW,
        "deadline": NOW + 120,
        "pool": POOL,
        "instance_type": TYPE,
    }
    return Spot(**{**defaults, **overrides})


CheckValues = tuple[str, bool, float | None, float | None, str]


def values_of(check: Check | None) -> CheckValues:
    """A check as data: its name, whether it held, what it found, its limit, and whom it is about."""
    assert check is not None
    assert check.values is not None, check
    found, limit = (
        None if one is None else round(one, 4) for one in (check.values.found, check.values.limit)
    )
    return check.name, check.passed, found, limit, check.values.about


def kept_by(refusals: Iterable[Refusal]) -> dict[str, tuple[NodeCause, str]]:
    """Why each node was skipped, and what that is about."""
    return {refusal.node_name: (refusal.cause, refusal.about) for refusal in refusals}
