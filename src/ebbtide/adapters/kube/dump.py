"""A cluster from what `kubectl get nodes,pods,pdb,pv,pvc -A -o json` printed.

Objects of other kinds and unknown fields are skipped. A pod that cannot be read still stands on
its node, as one that cannot be moved: what is not understood must not look like room.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import msgspec

from ebbtide import typed
from ebbtide.adapters.kube.cluster import Readers, Storage, assemble
from ebbtide.adapters.kube.objects import PodSeen
from ebbtide.adapters.kube.usage import WireNodeUsage, used_by
from ebbtide.adapters.kube.wire import Struct, WireBudget, WireClaim, WireNode, WirePod, WireVolume
from ebbtide.errors import UNREADABLE, Usage
from ebbtide.model.pod import Pod, Scheduling
from ebbtide.model.snapshot import ClusterView

ASK = "kubectl get nodes,pods,pdb,pv,pvc -A -o json"
WIRES: dict[str, Any] = {
    "Node": WireNode,
    "Pod": WirePod,
    "PodDisruptionBudget": WireBudget,
    "PersistentVolumeClaim": WireClaim,
    "PersistentVolume": WireVolume,
    "NodeMetrics": WireNodeUsage,
}
T = TypeVar("T")


class Kinded(Struct, frozen=True):
    kind: str = ""


class DumpDocument(Struct, frozen=True):
    kind: str = ""
    items: list[msgspec.Raw] | None = None


@dataclass(frozen=True)
class Dump:
    view: ClusterView
    notes: tuple[str, ...] = ()
    """What could not be read or seems to be missing."""
    used: Mapping[str, tuple[int, int]] = field(default_factory=dict)
    """CPU in thousandths and memory in MiB that each node really uses, where the dump holds that."""


@dataclass
class _Pile:
    items: dict[str, list[Any]] = field(default_factory=dict)
    bad: Counter[str] = field(default_factory=Counter)
    lost_pods: list[PodSeen] = field(default_factory=list)


def read_dump(body: bytes) -> Dump:
    """`Usage` for what is no such list, is cut off, or has no node in it."""
    try:
        document = typed.decode(body, DumpDocument)
    except UNREADABLE as cause:
        cut = "it is cut off" if "truncated" in str(cause) else str(cause)
        raise Usage(f"the dump is no JSON that can be read ({cut}): make it again with {ASK}") from cause
    if document.items is None:
        raise Usage(f"the dump is not a list of Kubernetes objects: make it with {ASK}")
    pile = _sorted_out(document)
    readers = Readers()
    nodes = _read(pile, "Node", readers.node)
    if not nodes:
        raise Usage(f"the dump holds no node: make it with {ASK}")
    pods = [*_read(pile, "Pod", readers.pod), *pile.lost_pods]
    claims, volumes = _read(pile, "PersistentVolumeClaim", readers.claim), []
    volumes = _read(pile, "PersistentVolume", readers.volume)
    storage = Storage(dict(claims), {volume.name: volume for volume in volumes})
    budgets = _read(pile, "PodDisruptionBudget", readers.budget)
    used = _read(pile, "NodeMetrics", lambda item: (item.metadata.name, used_by(item)))
    return Dump(assemble(nodes, pods, budgets, storage), tuple(_notes(pile)), dict(used))


def _sorted_out(document: DumpDocument) -> _Pile:
    pile = _Pile()
    for raw in document.items or ():
        try:
            kind = typed.decode(raw, Kinded).kind or document.kind.removesuffix("List")
        except UNREADABLE:
            kind = "?"
        wire = WIRES.get(kind)
        if wire is None:
            pile.bad["?"] += kind == "?"
            continue
        try:
            pile.items.setdefault(kind, []).append(typed.decode(raw, wire))
        except UNREADABLE:
            pile.bad[kind] += 1
            if kind == "Pod":
                pile.lost_pods.append(_lost_pod(raw))
    return pile


def _read(pile: _Pile, kind: str, read: Callable[[Any], T]) -> list[T]:
    found = []
    for wire in pile.items.get(kind, ()):
        try:
            found.append(read(wire))
        except (ValueError, KeyError, *UNREADABLE):  # an amount or a time that is none
            pile.bad[kind] += 1
            if kind == "Pod":
                pile.lost_pods.append(_unreadable(wire.metadata.name, wire.spec.node_name or ""))
    return found


def _lost_pod(raw: msgspec.Raw) -> PodSeen:
    try:
        anything = msgspec.json.decode(raw)
    except UNREADABLE:
        anything = None
    name = _text(anything, "metadata", "name")
    return _unreadable(name or "a pod without a name", _text(anything, "spec", "nodeName"))


def _text(anything: Any, *keys: str) -> str:
    for key in keys:
        anything = anything.get(key) if isinstance(anything, dict) else None
    return anything if isinstance(anything, str) else ""


def _unreadable(name: str, node_name: str) -> PodSeen:
    rules = Scheduling(unsupported=("a specification that cannot be read",))
    return PodSeen(Pod("?", name, f"?{name}", node_name, controller="?", scheduling=rules))


def _notes(pile: _Pile) -> Iterable[str]:
    for kind, count in sorted(pile.bad.items()):
        if count:
            what = "objects" if kind == "?" else f"objects of kind {kind}"
            yield f"{count} {what} could not be read: the numbers may be too low"
    if not pile.items.get("Pod"):
        yield "the dump has no pods: do not trust what it says about removals"
    if not pile.items.get("PodDisruptionBudget"):
        yield "the dump has no PodDisruptionBudgets: if the cluster has any, include pdb"
