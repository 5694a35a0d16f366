"""Where a pod may run, read from its specification, once for all pods with the same bytes in it.

Every field is either understood or named in `Scheduling.unsupported`: the structs refuse unknown fields, so a
rule that a later Kubernetes adds makes a pod unmovable instead of being overlooked.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

import msgspec

from ebbtide import typed
from ebbtide.adapters.kube.wire import PodSpec
from ebbtide.errors import UNREADABLE
from ebbtide.model import names
from ebbtide.model.pod import (
    ANYWHERE,
    AntiAffinity,
    Labels,
    LabelSelector,
    PodNearby,
    Requirement,
    Resources,
    Scheduling,
    SelectorOperator,
    Spread,
    TaintEffect,
    Toleration,
)

T = TypeVar("T")
NOTHING_SAID = (b"", b"null")


class StrictStruct(msgspec.Struct, rename="camel", frozen=True, forbid_unknown_fields=True):
    """A rule that must be understood whole."""


class Expression(StrictStruct, frozen=True):
    key: str
    operator: str
    values: list[str] | None = None


class Selector(StrictStruct, frozen=True):
    match_labels: dict[str, str] | None = None
    match_expressions: list[Expression] | None = None


class NodeTerm(StrictStruct, frozen=True):
    match_expressions: list[Expression] | None = None
    match_fields: list[Expression] | None = None


class NodeTerms(StrictStruct, frozen=True):
    node_selector_terms: list[NodeTerm] | None = None


class PodTerm(StrictStruct, frozen=True):
    topology_key: str
    label_selector: Selector | None = None
    namespaces: list[str] | None = None
    namespace_selector: Selector | None = None
    match_label_keys: list[str] | None = None
    mismatch_label_keys: list[str] | None = None


REQUIRED, PREFERRED = (
    f"{strength}DuringSchedulingIgnoredDuringExecution" for strength in ("required", "preferred")
)


class NodeAffinity(StrictStruct, frozen=True):
    required: NodeTerms | None = msgspec.field(default=None, name=REQUIRED)
    preferred: Any = msgspec.field(default=None, name=PREFERRED)


class PodAffinity(StrictStruct, frozen=True):
    required: list[PodTerm] | None = msgspec.field(default=None, name=REQUIRED)
    preferred: Any = msgspec.field(default=None, name=PREFERRED)


class Affinity(StrictStruct, frozen=True):
    node_affinity: NodeAffinity | None = None
    pod_affinity: PodAffinity | None = None
    pod_anti_affinity: PodAffinity | None = None


class SpreadRule(StrictStruct, frozen=True):
    topology_key: str
    max_skew: int
    when_unsatisfiable: str = "DoNotSchedule"
    label_selector: Selector | None = None
    match_label_keys: list[str] | None = None
    min_domains: int | None = None
    node_affinity_policy: str | None = None
    node_taints_policy: str | None = None


class WireToleration(StrictStruct, frozen=True):
    key: str = ""
    operator: str = "Equal"
    value: str | None = None
    effect: str | None = None
    toleration_seconds: int | None = None


class NotUnderstood(Exception):
    """Names the part of a specification that these rules cannot say."""


def decode(raw: msgspec.Raw, kind: type[T], called: str) -> T | None:
    """None if it is not set; `NotUnderstood` if it cannot be read completely."""
    if bytes(raw) in NOTHING_SAID:
        return None
    try:
        return typed.decode(raw, kind)
    except UNREADABLE as cause:
        raise NotUnderstood(f"{called} that cannot be read ({cause})") from cause


def read_selector(selector: Selector | None) -> LabelSelector | None:
    """None selects nothing, an empty one everything."""
    if selector is None:
        return None
    labels = sorted((selector.match_labels or {}).items())
    wanted = [Requirement(key, SelectorOperator.IN, (value,)) for key, value in labels]
    return LabelSelector((*wanted, *map(read_expression, selector.match_expressions or ())))


def read_expression(expression: Expression) -> Requirement:
    try:
        operator = SelectorOperator(expression.operator)
    except ValueError as cause:
        raise NotUnderstood(f"operator {expression.operator}") from cause
    return Requirement(expression.key, operator, tuple(expression.values or ()))


def read_node_terms(terms: NodeTerms | None) -> tuple[tuple[Requirement, ...], ...]:
    if terms is None:
        return ()
    found = []
    for term in terms.node_selector_terms or ():
        if term.match_fields:
            raise NotUnderstood("node affinity by field")
        found.append(tuple(map(read_expression, term.match_expressions or ())))
    return tuple(found)


def read_spread(rule: SpreadRule, labels: Mapping[str, str]) -> Spread | None:
    """None for a soft rule, and for one that counts no pod at all."""
    if rule.when_unsatisfiable == "ScheduleAnyway":
        return None
    if rule.when_unsatisfiable != "DoNotSchedule":
        raise NotUnderstood(f"topology spread {rule.when_unsatisfiable}")
    if (rule.min_domains or 1) > 1:
        raise NotUnderstood("topology spread with minDomains")
    if rule.node_affinity_policy not in (None, "Honor"):
        raise NotUnderstood(f"topology spread with nodeAffinityPolicy {rule.node_affinity_policy}")
    if rule.node_taints_policy not in (None, "Ignore"):
        raise NotUnderstood(f"topology spread with nodeTaintsPolicy {rule.node_taints_policy}")
    selector = read_selector(rule.label_selector)
    if selector is None:
        return None
    own = _own_labels(rule.match_label_keys, labels, SelectorOperator.IN)
    return Spread(rule.topology_key, rule.max_skew, LabelSelector((*selector.requirements, *own)))


def read_anti_affinity(term: PodTerm, namespace: str, labels: Mapping[str, str]) -> AntiAffinity | None:
    selector = _pods_of(term, namespace, labels, "pod anti-affinity")
    return None if selector is None else AntiAffinity(term.topology_key, selector)


def read_affinity(term: PodTerm, namespace: str, labels: Mapping[str, str]) -> PodNearby:
    selector = _pods_of(term, namespace, labels, "pod affinity")
    if selector is None:
        # It matches no pod, so nothing can ever be near enough.
        raise NotUnderstood("pod affinity without a selector")
    return PodNearby(term.topology_key, selector)


def _pods_of(term: PodTerm, namespace: str, labels: Mapping[str, str], called: str) -> LabelSelector | None:
    if term.namespace_selector is not None:
        raise NotUnderstood(f"{called} with namespaceSelector")
    if term.namespaces and set(term.namespaces) != {namespace}:
        raise NotUnderstood(f"{called} across namespaces")
    selector = read_selector(term.label_selector)
    if selector is None:
        return None
    own = _own_labels(term.match_label_keys, labels, SelectorOperator.IN)
    others = _own_labels(term.mismatch_label_keys, labels, SelectorOperator.NOT_IN)
    return LabelSelector((*selector.requirements, *own, *others))


def _own_labels(
    keys: Iterable[str] | None, labels: Mapping[str, str], operator: SelectorOperator
) -> Iterable[Requirement]:
    """A key that the pod itself does not have is skipped, as the scheduler does."""
    return [Requirement(key, operator, (labels[key],)) for key in keys or () if key in labels]


def read_toleration(toleration: WireToleration) -> Toleration | None:
    """None for one with an operator or effect not known here: it then tolerates nothing."""
    if toleration.operator not in ("", "Equal", "Exists"):
        return None
    exists = toleration.operator == "Exists"
    if not toleration.key and not exists:
        return None
    try:
        effect = TaintEffect(toleration.effect) if toleration.effect else None
    except ValueError:
        return None
    return Toleration(toleration.key, exists, toleration.value or "", effect)


K = TypeVar("K")
MOST_KEPT = 100_000
DEFAULT_SCHEDULER = "default-scheduler"


class Understanding:
    """Shared values for equal bytes: labels, requests, scheduling rules."""

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
