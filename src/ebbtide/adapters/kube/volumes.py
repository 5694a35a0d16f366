"""From the claims of a pod to the volumes behind them, and from those to where the pod may run.

A volume that is bound to a zone binds its pod to it; one bound to a node by any other label adds that
to the pod's node affinity. A claim that cannot be followed makes the pod unmovable.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from itertools import product

from ebbtide.adapters.kube.objects import PodSeen
from ebbtide.adapters.kube.rules import NodeTerms, NotUnderstood, decode, read_node_terms
from ebbtide.adapters.kube.scheduling import Understanding
from ebbtide.adapters.kube.wire import WireClaim, WireVolume
from ebbtide.model import names
from ebbtide.model.node import Node
from ebbtide.model.pod import Pod
from ebbtide.model.scheduling import Operator, Requirement, Scheduling

Terms = tuple[tuple[Requirement, ...], ...]


@dataclass(frozen=True, slots=True)
class VolumeSeen:
    name: str
    attached_as: str = ""
    """How a node names it while it is attached."""
    zones: tuple[str, ...] = ()
    terms: Terms = ()
    local: bool = False
    problem: str = ""


@dataclass(frozen=True)
class Storage:
    """Claims by namespace and name, volumes by name."""

    claims: Mapping[tuple[str, str], str] = field(default_factory=dict)
    volumes: Mapping[str, VolumeSeen] = field(default_factory=dict)

    @property
    def name_of_attached(self) -> Mapping[str, str]:
        return {volume.attached_as: volume.name for volume in self.volumes.values() if volume.attached_as}


def read_claim(wire: WireClaim) -> tuple[tuple[str, str], str]:
    return (wire.metadata.namespace, wire.metadata.name), wire.spec.volume_name


def read_volume(wire: WireVolume, understanding: Understanding) -> VolumeSeen:
    spec, name = wire.spec, wire.metadata.name
    csi = spec.csi
    attached_as = f"kubernetes.io/csi/{csi.driver}^{csi.volume_handle}" if csi else ""
    local = bool(bytes(spec.local) or bytes(spec.host_path))
    labels = dict(understanding.labels(wire.metadata.labels))
    zones = next((tuple(labels[key].split("__")) for key in names.ZONES if labels.get(key)), ())
    seen = VolumeSeen(name, attached_as, zones, local=local)
    if spec.node_affinity is None:
        return seen
    try:
        terms = read_node_terms(decode(spec.node_affinity.required, NodeTerms, "a volume's affinity"))
    except NotUnderstood as what:
        return replace(seen, problem=f"volume {name} with {what}")
    bound = _zones(terms)
    return replace(seen, zones=bound) if bound else replace(seen, terms=terms)


def _zones(terms: Terms) -> tuple[str, ...]:
    """The zones, where the terms say nothing but zones."""
    found: set[str] = set()
    for term in terms:
        if len(term) != 1 or term[0].key not in names.VOLUME_ZONES or term[0].operator is not Operator.IN:
            return ()
        found.update(term[0].values)
    return tuple(sorted(found))


def complete_pod(seen: PodSeen, storage: Storage) -> Pod:
    if not seen.claims:
        return seen.pod
    pod, scheduling, mounted = seen.pod, seen.pod.scheduling, []
    problems = list(scheduling.unsupported)
    local = pod.local_storage
    for claim in seen.claims:
        name = storage.claims.get((pod.namespace, claim))
        if name is None:
            problems.append(f"a volume claim {claim} that is not there")
            continue
        if not name:
            continue  # not bound yet: it will be made where the pod goes
        volume = storage.volumes.get(name)
        if volume is None:
            problems.append(f"a volume {name} that is not there")
            continue
        mounted.append(name)
        local = local or volume.local
        if volume.problem:
            problems.append(volume.problem)
        scheduling = _bound_to(scheduling, volume)
        if scheduling.volume_zones == IMPOSSIBLE:
            problems.append("volumes in different zones")
    scheduling = replace(scheduling, unsupported=tuple(problems))
    return replace(pod, scheduling=scheduling, volumes=tuple(mounted), local_storage=local)


IMPOSSIBLE = ("",)
"""Zones of a pod whose volumes have none in common."""


def _bound_to(scheduling: Scheduling, volume: VolumeSeen) -> Scheduling:
    if volume.zones:
        before = scheduling.volume_zones or volume.zones
        common = tuple(zone for zone in before if zone in volume.zones)
        scheduling = replace(scheduling, volume_zones=common or IMPOSSIBLE)
    if volume.terms:
        both = product(scheduling.node_affinity or ((),), volume.terms)
        scheduling = replace(scheduling, node_affinity=tuple(one + other for one, other in both))
    return scheduling


def complete_nodes(nodes: Iterable[Node], storage: Storage) -> Iterable[Node]:
    """Nodes with the volumes attached to them under the names that pods use."""
    known = storage.name_of_attached
    for node in nodes:
        if node.volumes_attached:
            named = tuple(sorted(known.get(name, name) for name in node.volumes_attached))
            yield replace(node, volumes_attached=named)
        else:
            yield node
