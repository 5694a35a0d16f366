"""The scheduling rules of pods, understood once for all pods that say the same bytes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

import msgspec

from ebbtide import typed
from ebbtide.adapters.kube.rules import (
    NOTHING_SAID,
    Affinity,
    NotUnderstood,
    SpreadRule,
    WireToleration,
    decode,
    read_affinity,
    read_anti_affinity,
    read_node_terms,
    read_spread,
    read_toleration,
)
from ebbtide.adapters.kube.wire import PodSpec
from ebbtide.model import names
from ebbtide.model.resources import Resources
from ebbtide.model.scheduling import (
    ANYWHERE,
    AntiAffinity,
    Labels,
    PodNearby,
    Requirement,
    Scheduling,
    Spread,
)

K = TypeVar("K")
T = TypeVar("T")
MOST_KEPT = 100_000
DEFAULT_SCHEDULER = "default-scheduler"


class Understanding:
    """Shared values for what is said in the same words: labels, requests, scheduling rules."""

    def __init__(self) -> None:
        self._labels: dict[bytes, Labels] = {}
        self._rules: dict[tuple[bytes | str, ...], Scheduling] = {}
        self._requests: dict[tuple[object, ...], Resources] = {}

    def labels(self, raw: msgspec.Raw) -> Labels:
        key = bytes(raw)
        if key in NOTHING_SAID:
            return ()
        known = self._labels.get(key)
        if known is None:
            known = tuple(sorted(typed.decode(raw, dict[str, str]).items()))
            _keep(self._labels, key, known)
        return known

    def requests(self, said: tuple[object, ...], read: Callable[[], Resources]) -> Resources:
        known = self._requests.get(said)
        if known is None:
            known = read()
            _keep(self._requests, said, known)
        return known

    def scheduling(self, spec: PodSpec, namespace: str, labels: Labels) -> Scheduling:
        parts = (spec.node_selector, spec.tolerations, spec.affinity, spec.topology_spread_constraints)
        said = tuple(map(bytes, parts))
        plain = _plainly_unsupported(spec)
        system = spec.os.name if spec.os else ""
        if not plain and not system and all(part in NOTHING_SAID for part in said):
            return ANYWHERE
        # Only these two depend on the pod itself and not alone on what its template says.
        own = repr(labels) if b"LabelKeys" in said[2] + said[3] else ""
        where = namespace if b"namespaces" in said[2] else ""
        key: tuple[bytes | str, ...] = (*said, *plain, system, where, own)
        known = self._rules.get(key)
        if known is None:
            known = self._read(spec, namespace, dict(labels), plain)
            _keep(self._rules, key, known)
        return known

    def _read(
        self, spec: PodSpec, namespace: str, labels: Mapping[str, str], plain: tuple[str, ...]
    ) -> Scheduling:
        unsupported = list(plain)
        selector = _tried(lambda: decode(spec.node_selector, dict[str, str], "a node selector"), unsupported)
        asked = dict(selector or {})
        if spec.os and spec.os.name:
            asked.setdefault(names.OS, spec.os.name)
        tolerations = _tried(
            lambda: decode(spec.tolerations, list[WireToleration], "a toleration"), unsupported
        )
        affinity = _tried(lambda: decode(spec.affinity, Affinity, "an affinity"), unsupported)
        terms = _node_terms(affinity, unsupported)
        near, apart = _pod_terms(affinity, namespace, labels, unsupported)
        return Scheduling(
            node_selector=tuple(sorted(asked.items())),
            node_affinity=terms,
            tolerations=tuple(t for t in map(read_toleration, tolerations or ()) if t is not None),
            spread=_spread(spec.topology_spread_constraints, labels, unsupported),
            anti_affinity=apart,
            affinity=near,
            unsupported=tuple(unsupported),
        )


def _keep(known: dict[K, T], key: K, value: T) -> None:
    """Bounded: a daemon meets ever new labels, and forgetting costs only that they are read again."""
    if len(known) >= MOST_KEPT:
        known.clear()
    known[key] = value


def _plainly_unsupported(spec: PodSpec) -> tuple[str, ...]:
    found = []
    if spec.scheduling_gates:
        found.append("scheduling gates")
    if spec.resource_claims:
        found.append("resource claims")
    if spec.scheduler_name not in (None, "", DEFAULT_SCHEDULER):
        found.append(f"a scheduler of its own ({spec.scheduler_name})")
    if any(port.host_port for container in spec.containers for port in container.ports or ()):
        found.append("host ports")
    return tuple(found)


def _node_terms(affinity: Affinity | None, unsupported: list[str]) -> tuple[tuple[Requirement, ...], ...]:
    nodes = affinity.node_affinity if affinity else None
    return _tried(lambda: read_node_terms(nodes.required if nodes else None), unsupported) or ()


def _pod_terms(
    affinity: Affinity | None, namespace: str, labels: Mapping[str, str], unsupported: list[str]
) -> tuple[tuple[PodNearby, ...], tuple[AntiAffinity, ...]]:
    if affinity is None:
        return (), ()
    near, apart = affinity.pod_affinity, affinity.pod_anti_affinity
    wanted = [
        _tried(lambda term=term: read_affinity(term, namespace, labels), unsupported)  # type: ignore[misc]
        for term in (near.required if near else None) or ()
    ]
    shunned = [
        _tried(lambda term=term: read_anti_affinity(term, namespace, labels), unsupported)  # type: ignore[misc]
        for term in (apart.required if apart else None) or ()
    ]
    return tuple(rule for rule in wanted if rule), tuple(rule for rule in shunned if rule)


def _spread(raw: msgspec.Raw, labels: Mapping[str, str], unsupported: list[str]) -> tuple[Spread, ...]:
    found = []
    rules = _tried(lambda: decode(raw, list[SpreadRule], "a topology spread"), unsupported)
    for rule in rules or ():
        spread = _tried(lambda rule=rule: read_spread(rule, labels), unsupported)  # type: ignore[misc]
        if spread is not None:
            found.append(spread)
    return tuple(found)


def _tried(read: Callable[[], T | None], unsupported: list[str]) -> T | None:
    try:
        return read()
    except NotUnderstood as what:
        unsupported.append(str(what))
        return None
