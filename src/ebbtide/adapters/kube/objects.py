"""Nodes, pods and disruption budgets as values of the model, and amounts as Kubernetes writes them (`100m`,
`1.5Gi`, `1e3`).

A pod's volumes are known only together with claims and volumes, so a pod is read with the names of its
claims, and completed by `ebbtide.adapters.kube.cluster`. Amounts are read exactly, then rounded the safe
way: what a pod asks for up and what a node offers down; see `ebbtide.model.pod`.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from fractions import Fraction
from functools import lru_cache
from math import ceil, floor

from ebbtide.adapters.kube.scheduling import NotUnderstood, Selector, Understanding, decode, read_selector
from ebbtide.adapters.kube.wire import (
    Amounts,
    Container,
    ObjectCondition,
    PodSpec,
    WireBudget,
    WireNode,
    WirePod,
    WirePodVolume,
    WireTaint,
)
from ebbtide.core.consolidation import game_servers
from ebbtide.model import names
from ebbtide.model.pod import Budget, LabelSelector, Pod, PodPhase, Resources, Taint, TaintEffect
from ebbtide.model.snapshot import Market, Node, Ownership

DEFAULT_GRACE_SECONDS = 30
DEFAULT_MAX_PODS = 110
PRESSURES = frozenset({"MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"})
SYSTEM_PRIORITY = 2_000_000_000
Asked = tuple[object, ...]
MIB = 2**20
_FORM = re.compile(r"([+-]?(?:\d+\.?\d*|\.\d+))(?:(Ki|Mi|Gi|Ti|Pi|Ei|n|u|m|k|M|G|T|P|E)|[eE]([+-]?\d{1,3}))?")
_FACTOR = {
    "n": Fraction(1, 10**9), "u": Fraction(1, 10**6), "m": Fraction(1, 1000),
    "k": Fraction(10**3), "M": Fraction(10**6), "G": Fraction(10**9),
    "T": Fraction(10**12), "P": Fraction(10**15), "E": Fraction(10**18),
    "Ki": Fraction(2**10), "Mi": Fraction(2**20), "Gi": Fraction(2**30),
    "Ti": Fraction(2**40), "Pi": Fraction(2**50), "Ei": Fraction(2**60),
}  # fmt: skip
_NOT_COUNTED = frozenset({"cpu", "memory", "pods", "ephemeral-storage"})
"""Disk of the node is left out: the types that may be launched do not say how much of it they have."""


@dataclass(frozen=True, slots=True)
class PodSeen:
    """A pod and the claims that it mounts, not yet followed to their volumes."""

    pod: Pod
    claims: tuple[str, ...] = ()
    unschedulable: bool = False
    """The scheduler said that no node takes it."""


def read_node(wire: WireNode, understanding: Understanding) -> Node:
    meta, spec, status = wire.metadata, wire.spec, wire.status
    pairs = understanding.labels(meta.labels)
    labels, annotations = dict(pairs), meta.annotations or {}
    offered = _texts(status.allocatable)
    marked = labels.get(names.SYSTEM, annotations.get(names.SYSTEM))
    attached = {a.name for a in status.volumes_attached or ()} | set(status.volumes_in_use or ())
    own_name = spec.provider_id.startswith(names.K3S_PROVIDER)
    return Node(
        name=meta.name,
        uid=meta.uid,
        provider_id="" if own_name else spec.provider_id,
        instance_id=labels.get(names.INSTANCE_ID, ""),
        private_ip=next((a.address for a in status.addresses or () if a.type == "InternalIP"), ""),
        zone=_zone(_first(labels, names.ZONES), spec.provider_id),
        pool=labels.get(names.POOL, ""),
        instance_type=_first(labels, names.TYPES),
        market=Market.SPOT if _is_spot(labels) else Market.ON_DEMAND,
        created_at=read_time(meta.creation_timestamp),
        ready=_holds(status.conditions, "Ready"),
        unschedulable=bool(spec.unschedulable),
        control_plane=any(label in labels for label in names.CONTROL_PLANE),
        system=marked is not None and marked != "false",
        labels=pairs,
        taints=tuple(map(_taint, spec.taints or ())),
        allocatable=read_offer(offered),
        max_pods=int(read_quantity(offered["pods"])) if "pods" in offered else DEFAULT_MAX_PODS,
        owner=read_owner(annotations),
        volumes_attached=tuple(sorted(attached)),
        conditions=tuple(sorted(_conditions(status.conditions))),
    )


def _zone(label: str, provider_id: str) -> str:
    """As pools name it. Hetzner's controller labels a node with the data centre (`fsn1-dc14`) of the location
    (`fsn1`) that a server is launched into: counted by its label, it would be in a zone of its own."""
    return label.partition("-dc")[0] if provider_id.startswith(names.HETZNER_PROVIDER) else label


def read_owner(annotations: Mapping[str, str]) -> Ownership | None:
    operation, token = annotations.get(names.OWNER), annotations.get(names.TOKEN, "")
    if not operation:
        return None
    # A token that a person has mangled fences off every runner, which is the safe side.
    number = int(token) if token.isascii() and token.isdigit() else 2**63
    return Ownership(operation, number, annotations.get(names.STAGE) != names.TAINTED)


def read_pod(wire: WirePod, understanding: Understanding) -> PodSeen:
    meta, spec = wire.metadata, wire.spec
    labels, annotations = understanding.labels(meta.labels), meta.annotations or {}
    safe = _first(annotations, names.SAFE_TO_EVICT)
    grace = spec.termination_grace_period_seconds
    owner = next((owner for owner in meta.owner_references or () if owner.controller), None)
    pod = Pod(
        namespace=meta.namespace,
        name=meta.name,
        uid=meta.uid,
        node_name=spec.node_name or "",
        phase=_phase(wire.status.phase),
        ready=_holds(wire.status.conditions, "Ready"),
        created_at=read_time(meta.creation_timestamp),
        terminating=meta.deletion_timestamp is not None,
        ends_at=read_time(meta.deletion_timestamp),
        requests=understanding.requests(_asked_key(wire), lambda: read_pod_requests(wire)),
        controller=owner.kind if owner is not None else "",
        mirror=names.MIRROR in annotations,
        priority_class=_priority_class(spec),
        local_storage=_keeps_data(spec.volumes or (), annotations),
        safe_to_evict={"true": True, "false": False}.get(safe),
        do_not_disrupt=any(annotations.get(name) == "true" for name in names.DO_NOT_DISRUPT),
        grace_seconds=DEFAULT_GRACE_SECONDS if grace is None else grace,
        labels=labels,
        scheduling=understanding.scheduling(spec, meta.namespace, labels),
        annotations=tuple((key, annotations[key]) for key in game_servers.KEYS if key in annotations),
        owner_uid=owner.uid if owner is not None else "",
    )
    conditions = wire.status.conditions or ()
    unplaced = any(c.type == "PodScheduled" and c.status == "False" for c in conditions)
    return PodSeen(pod, tuple(_claims(meta.name, spec.volumes or ())), unplaced and pod.waiting)


def read_budget(wire: WireBudget) -> Budget | None:
    """None for a budget that selects no pod. One that its controller has not yet looked at allows none."""
    try:
        selector = read_selector(decode(wire.spec.selector, Selector, "a selector"))
    except NotUnderstood:
        selector = LabelSelector()  # covering too many pods errs on the side of leaving them alone
    if selector is None:
        return None
    meta, status = wire.metadata, wire.status
    seen = status.observed_generation >= meta.generation
    return Budget(meta.namespace, meta.name, selector, status.disruptions_allowed if seen else 0)


@lru_cache(maxsize=65536)
def read_time(text: str | None) -> int:
    return int(datetime.fromisoformat(text).timestamp()) if text else 0


def read_pod_requests(wire: WirePod) -> Resources:
    """What the scheduler counts: init containers run one after the other, before the others but next to
    those among them that are restarted forever; a resize in progress counts with the larger value."""
    spec, grown = wire.spec, wire.status.container_statuses or ()
    total: dict[str, Fraction] = {}
    for container in spec.containers:
        _add(total, _asked(container))
    allocated: dict[str, Fraction] = {}
    for status in grown:
        _add(allocated, status.allocated_resources)
    total = _larger(total, allocated)
    sidecars: dict[str, Fraction] = {}
    peak: dict[str, Fraction] = {}
    for container in spec.init_containers or ():
        alone = dict(sidecars)
        _add(alone, _asked(container))
        peak = _larger(peak, alone)
        if container.restart_policy == "Always":
            sidecars = alone
            _add(total, _asked(container))
    total = _larger(total, peak)
    if spec.resources is not None and spec.resources.requests:
        total |= {name: read_quantity(str(text)) for name, text in spec.resources.requests.items()}
    _add(total, spec.overhead)
    return read_requests(total)


def _asked_key(wire: WirePod) -> Asked:
    """All that requests depend on: the pods of one workload say the same."""
    spec, of_pod = wire.spec, (wire.spec.resources, wire.spec.overhead)
    grown = [status.allocated_resources for status in wire.status.container_statuses or ()]
    main = [_flat(_asked(container)) for container in spec.containers]
    first = [(c.restart_policy, *_flat(_asked(c))) for c in spec.init_containers or ()]
    whole = (_flat(of_pod[0].requests if of_pod[0] else None), _flat(of_pod[1]))
    return (*main, "|", *first, "|", *whole, *map(_flat, grown))


def _flat(amounts: Amounts | None) -> tuple[Asked, ...]:
    return tuple(amounts.items()) if amounts else ()


def _asked(container: Container) -> Amounts | None:
    return container.resources.requests if container.resources is not None else None


def _add(total: dict[str, Fraction], amounts: Amounts | None) -> None:
    for name, text in (amounts or {}).items():
        total[name] = total.get(name, Fraction(0)) + read_quantity(str(text))


def _larger(one: dict[str, Fraction], other: dict[str, Fraction]) -> dict[str, Fraction]:
    return {name: max(one.get(name, Fraction(0)), other.get(name, Fraction(0))) for name in {**one, **other}}


def _claims(pod_name: str, volumes: Iterable[WirePodVolume]) -> Iterable[str]:
    for volume in volumes:
        if volume.persistent_volume_claim is not None:
            yield volume.persistent_volume_claim.claim_name
        elif bytes(volume.ephemeral):
            yield f"{pod_name}-{volume.name}"


def _keeps_data(volumes: Iterable[WirePodVolume], annotations: Mapping[str, str]) -> bool:
    harmless = set(annotations.get(names.SAFE_LOCAL_VOLUMES, "").split(","))
    return any(
        bytes(volume.host_path) or (volume.empty_dir is not None and volume.empty_dir.medium != "Memory")
        for volume in volumes
        if volume.name not in harmless
    )


def _priority_class(spec: PodSpec) -> str:
    if not spec.priority_class_name and (spec.priority or 0) >= SYSTEM_PRIORITY:
        return "system-cluster-critical"
    return spec.priority_class_name or ""


def _phase(text: str) -> PodPhase:
    return PodPhase(text) if text in PodPhase.__members__.values() else PodPhase.UNKNOWN


def _taint(taint: WireTaint) -> Taint:
    known = taint.effect in TaintEffect.__members__.values()
    return Taint(taint.key, TaintEffect(taint.effect) if known else TaintEffect.NO_EXECUTE, taint.value or "")


def _is_spot(labels: Mapping[str, str]) -> bool:
    return any(labels.get(name, "").lower() == value for name, value in names.SPOT.items())


def _conditions(conditions: list[ObjectCondition] | None) -> Iterator[str]:
    """Without Ready, which is known, and without a pressure that is not there, as on every node."""
    for one in conditions or ():
        usual = one.type in PRESSURES and one.status == "False"
        if one.type != "Ready" and not usual:
            yield f"{one.type}={one.status}"


def _holds(conditions: list[ObjectCondition] | None, kind: str) -> bool:
    return any(c.type == kind and c.status == "True" for c in conditions or ())


def _first(values: Mapping[str, str], keys: Iterable[str]) -> str:
    return next((values[key] for key in keys if values.get(key)), "")


def _texts(amounts: Amounts | None) -> dict[str, str]:
    return {name: str(text) for name, text in (amounts or {}).items()}


@lru_cache(maxsize=4096)
def read_quantity(text: str) -> Fraction:
    """Raises `ValueError` for what is no quantity."""
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise ValueError(f"{text!r} is not a quantity")
    number = Fraction(found[1])
    if found[2]:
        return number * _FACTOR[found[2]]
    return number * Fraction(10) ** int(found[3]) if found[3] else number


def read_requests(amounts: Mapping[str, Fraction]) -> Resources:
    extended = tuple(sorted((name, ceil(a)) for name, a in amounts.items() if name not in _NOT_COUNTED))
    cpu, memory = amounts.get("cpu", Fraction(0)), amounts.get("memory", Fraction(0))
    return Resources(ceil(cpu * 1000), ceil(memory / MIB), extended)


def read_offer(amounts: Mapping[str, str]) -> Resources:
    exact = {name: read_quantity(text) for name, text in amounts.items()}
    extended = tuple(sorted((name, floor(a)) for name, a in exact.items() if name not in _NOT_COUNTED and a))
    cpu, memory = exact.get("cpu", Fraction(0)), exact.get("memory", Fraction(0))
    return Resources(floor(cpu * 1000), floor(memory / MIB), extended)
