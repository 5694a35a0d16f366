"""What pods, as the API server has them, say of their workload that is not in any metric: where they may run,
what a drain must know of them, and which disruption budgets guard them.

Written as the keys of a workload of a story. What these keys cannot say is named, never dropped in silence.
Of annotations only those that Ebbtide understands are kept: others may hold secrets.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from ebbtide.core.consolidation import game_servers
from ebbtide.core.nodes.room import HOSTNAME_LABEL, ZONE_LABEL, Room, refused_by_node, room_of_new
from ebbtide.core.scale_to_zero.rates import owner_of
from ebbtide.model import names
from ebbtide.model.pod import Budget, Pod, Requirement, SelectorOperator, matches
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView

Key = tuple[str, str, str]
"""Kind, namespace and name of a workload."""
PLACES = {ZONE_LABEL: "zone", HOSTNAME_LABEL: "host"}
RUN = re.compile(r"-[0-9]{6,}$")
"""At the end of the name of a Job that a CronJob made: all of them are one workload."""


def names_of(keys: Iterable[Key]) -> dict[Key, str]:
    """In the recording. Where workloads of two kinds have one name, the second has its kind in it, too."""
    found: dict[Key, str] = {}
    for key in sorted(set(keys)):
        name = f"{key[1]}/{key[2]}"
        found[key] = f"{name}-{key[0].lower()}" if name in found.values() else name
    return found


def kind_played(kind: str) -> str:
    """What a Job or another controller runs is played as pods that come and go."""
    return kind if kind in ("DaemonSet", "StatefulSet") else "Deployment"


@dataclass(frozen=True, slots=True)
class PodRules:
    written: Mapping[str, Any]
    """Keys of a workload of a story."""
    beyond: tuple[str, ...] = ()
    """What those cannot say."""
    elsewhere: bool = False
    """Its pods run on nodes of no pool, and no pool could take them."""


def workload_of(pod: Pod) -> Key | None:
    """None for a pod that has no workload: one without a controller, or a mirror pod."""
    owner = owner_of(pod)
    if owner is not None:
        return owner.kind.value, owner.namespace, owner.name
    if not pod.controller or pod.mirror:
        return None
    stem = pod.name.rpartition("-")[0] or pod.name
    return pod.controller, pod.namespace, RUN.sub("", stem)


def pods_by_workload(view: ClusterView) -> dict[Key, list[Pod]]:
    """Unfinished pods, the one that was made last at the end: it speaks for its workload, since an update may
    be half done."""
    found: dict[Key, list[Pod]] = {}
    for pod in view.pods:
        key = None if pod.finished else workload_of(pod)
        if key is not None:
            found.setdefault(key, []).append(pod)
    for pods in found.values():
        pods.sort(key=lambda one: (one.created_at, one.name))
    return found


def rules_by_workload(
    pods: Mapping[Key, Sequence[Pod]], view: ClusterView, settings: Settings
) -> dict[Key, PodRules]:
    rooms = _rooms(settings)
    ours = {node.name for node in view.workers if settings.pool_named(node.pool) is not None}
    return {key: _with_home(found, rooms, ours) for key, found in pods.items()}


def _rooms(settings: Settings) -> list[Room]:
    """A new node of each pool in each zone."""
    return [
        room_of_new(f"{pool.name}-{zone}", pool, node_type, zone)
        for pool in settings.pools
        for node_type, zone in product(pool.types[:1], pool.zones)
    ]


def _with_home(pods: Sequence[Pod], rooms: Sequence[Room], ours: set[str]) -> PodRules:
    rules, scheduling = rules_of(pods[-1]), replace(pods[-1].scheduling, unsupported=())
    if any(refused_by_node(scheduling, room) is None for room in rooms):
        return rules
    if not any(pod.node_name in ours for pod in pods):
        return replace(rules, elsewhere=True)
    # They do run there: nodes of the pool have labels that the configuration does not name.
    kept = {name: value for name, value in rules.written.items() if name != "node_selector"}
    return replace(
        rules, written=kept, beyond=(*rules.beyond, "labels that no pool of the configuration has")
    )


def rules_of(pod: Pod) -> PodRules:
    rules = pod.scheduling
    affinity, beyond = _affinity_as_labels(rules.node_affinity)
    written: dict[str, Any] = {
        "node_selector": {**affinity, **dict(rules.node_selector)},
        "tolerations": [
            {
                "key": one.key,
                "operator": "Exists" if one.exists else "Equal",
                "value": one.value,
                "effect": one.effect.value if one.effect is not None else None,
            }
            for one in rules.tolerations
        ],
        "annotations": _annotations(pod),
        "local_storage": pod.local_storage,
        "priority_class": pod.priority_class,
        "volume": bool(rules.volume_zones),
    }
    own = dict(pod.labels)
    for spread in rules.spread:
        place = PLACES.get(spread.topology_key)
        if place and spread.max_skew == 1 and "spread" not in written and matches(spread.selector, own):
            written["spread"] = place
        else:
            beyond.append(f"spreading over {spread.topology_key}")
    for apart in rules.anti_affinity:
        place = PLACES.get(apart.topology_key)
        if place and "anti_affinity" not in written and matches(apart.selector, own):
            written["anti_affinity"] = place
        else:
            beyond.append(f"anti-affinity over {apart.topology_key}")
    beyond += [f"affinity to pods in the same {near.topology_key}" for near in rules.affinity]
    beyond += rules.unsupported
    return PodRules({name: value for name, value in written.items() if value}, tuple(beyond))


def _affinity_as_labels(terms: tuple[tuple[Requirement, ...], ...]) -> tuple[dict[str, str], list[str]]:
    """A single term that names one value for each label is a node selector in other words."""
    if not terms:
        return {}, []
    if len(terms) == 1 and all(
        one.operator is SelectorOperator.IN and len(one.values) == 1 for one in terms[0]
    ):
        return {one.key: one.values[0] for one in terms[0]}, []
    return {}, ["node affinity"]


def _annotations(pod: Pod) -> dict[str, str]:
    """And labels of game servers: either says what they are."""
    told = game_servers.labels_of(pod)
    kept = {key: told[key] for key in game_servers.KEYS if key in told}
    if pod.safe_to_evict is not None:
        kept[names.SAFE_TO_EVICT[0]] = str(pod.safe_to_evict).lower()
    if pod.do_not_disrupt:
        kept[names.DO_NOT_DISRUPT[0]] = "true"
    return kept


def budgets_by_workload(
    pods: Mapping[Key, Sequence[Pod]], budgets: Sequence[Budget]
) -> dict[Key, dict[str, int]]:
    """Names of the budgets that guard its pods, with how many of them may be away now."""
    found: dict[Key, dict[str, int]] = {}
    for key, of_it in pods.items():
        if of_it[-1].tied_to_node:
            continue
        labels = dict(of_it[-1].labels)
        for budget in budgets:
            if budget.namespace == key[1] and matches(budget.selector, labels):
                found.setdefault(key, {})[budget.name] = budget.disruptions_allowed
    return found


def guarded(allowed: Iterable[int]) -> dict[str, Any]:
    """Budgets, each with how many pods may be away, as a story writes them."""
    each = [{"max_unavailable": count} for count in allowed]
    return {"pdb": each[0], "more_pdbs": each[1:]} if each[1:] else {"pdb": each[0]} if each else {}
