"""Who may change a node, told by the annotations that it carries. Pure: the patch is sent by others.

The owner is there while a soft taint or a cordon is ours. The fences outlive it: they hold the highest token
seen from each of the last operations, so a runner that stalled cannot undo what its successor did.
Taints are an atomic list: all are sent back as they were, on the resource version they were read with.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ebbtide import typed
from ebbtide.adapters.kube.objects import read_owner
from ebbtide.adapters.kube.rules import decode
from ebbtide.adapters.kube.wire import WireNode, WireTaint
from ebbtide.errors import UNREADABLE, NotOurs
from ebbtide.model import names
from ebbtide.model.effect import Cordon, SoftTaint, Uncordon
from ebbtide.model.node import LEAVING

REMEMBERED = 8
"""Operations whose tokens a node remembers; the oldest is forgotten first."""

Patch = dict[str, Any]
OUR_TAINT = WireTaint(LEAVING.key, LEAVING.effect)


def plan_soft_taint(node: WireNode, effect: SoftTaint, token: int) -> Patch | None:
    """The patch that signs and taints, None where nothing is left to do."""
    fences = _fenced(node, effect, token)
    owner = read_owner(node.metadata.annotations or {})
    _refuse_if_persons(node, effect)
    tainted = any(taint.key == OUR_TAINT.key for taint in node.spec.taints or ())
    if owner is not None and owner.token == token and tainted:
        return None
    stage = None if node.spec.unschedulable else names.TAINTED
    signed = {names.OWNER: effect.operation_id, names.TOKEN: str(token), names.STAGE: stage}
    annotations = {**signed, **_sign(fences, effect.operation_id, token)}
    return _patch(node, annotations, {"taints": _taints(node, OUR_TAINT)})


def plan_cordon(node: WireNode, effect: Cordon, token: int) -> Patch | None:
    """The patch that cordons, None where nothing is left to do. `NotOurs` as the port says."""
    fences = _fenced(node, effect, token)
    owner = read_owner(node.metadata.annotations or {})
    _refuse_if_persons(node, effect)
    if node.spec.unschedulable and owner is not None and owner.token == token:
        return None
    signed = {names.OWNER: effect.operation_id, names.TOKEN: str(token), names.STAGE: None}
    return _patch(node, {**signed, **_sign(fences, effect.operation_id, token)}, {"unschedulable": True})


def plan_uncordon(node: WireNode, effect: Uncordon, token: int) -> Patch | None:
    fences = _fenced(node, effect, token)
    owner = read_owner(node.metadata.annotations or {})
    if owner is None and node.spec.unschedulable:
        raise NotOurs(f"node {effect.node_name} was cordoned by a person")
    if owner is None:
        return None
    cleared = {names.OWNER: None, names.TOKEN: None, names.STAGE: None}
    lifted: Patch = {"taints": _taints(node)}
    if owner.cordoned:
        lifted["unschedulable"] = None
    return _patch(node, {**cleared, **_sign(fences, effect.operation_id, token)}, lifted)


def plan_labels(node: WireNode | None, name: str, uid: str, labels: Mapping[str, str]) -> Patch | None:
    """The patch that adds the labels of an adopted node, None where they are all there. The pool that a
    node has is never changed: its creator relies on it."""
    if node is None or node.metadata.uid != uid:
        raise NotOurs(f"node {name} is gone, or another has its name.", step="run the command again")
    there = decode(node.metadata.labels, dict[str, str], "labels") or {}
    pool = labels[names.POOL]
    # Crash table: adopt-crash.
    if there.get(names.POOL, pool) != pool:
        raise NotOurs(f"node {name} is in pool {there[names.POOL]} by now.", step="run the command again")
    missing = {key: value for key, value in labels.items() if there.get(key) != value}
    if not missing:
        return None
    return {"metadata": {"resourceVersion": node.metadata.resource_version, "labels": missing}}


def _refuse_if_persons(node: WireNode, effect: SoftTaint | Cordon) -> None:
    owner = read_owner(node.metadata.annotations or {})
    if node.spec.unschedulable and (owner is None or not owner.cordoned):
        raise NotOurs(f"node {effect.node_name} was cordoned by a person")


def _taints(node: WireNode, *ours: WireTaint) -> list[dict[str, Any]] | None:
    """All taints of others, and ours; None where none is left."""
    kept = [taint for taint in node.spec.taints or () if taint.key != OUR_TAINT.key]
    return [_wire_taint(taint) for taint in (*kept, *ours)] or None


def _wire_taint(taint: WireTaint) -> dict[str, Any]:
    given = {"key": taint.key, "effect": taint.effect, "value": taint.value, "timeAdded": taint.time_added}
    return {name: value for name, value in given.items() if value is not None}


def _fenced(node: WireNode, effect: SoftTaint | Cordon | Uncordon, token: int) -> dict[str, int]:
    """The fences of the node, if this operation and token may change it."""
    name, annotations = node.metadata.name, node.metadata.annotations or {}
    if node.metadata.uid != effect.node_uid:
        raise NotOurs(f"node {name} now has UID {node.metadata.uid}, not {effect.node_uid}")
    owner = read_owner(annotations)
    if owner is not None and owner.operation_id != effect.operation_id:
        raise NotOurs(f"node {name} belongs to operation {owner.operation_id}")
    fences = _read_fences(name, annotations)
    highest = max(fences.get(effect.operation_id, token), owner.token if owner else token)
    if token < highest:
        raise NotOurs(f"node {name} was signed with token {highest}, which is above {token}")
    return fences


def _read_fences(name: str, annotations: Mapping[str, str]) -> dict[str, int]:
    text = annotations.get(names.FENCES)
    if not text:
        return {}
    try:
        return typed.decode(text, dict[str, int])
    except UNREADABLE as cause:
        says = f"annotation {names.FENCES} of node {name} is not ours: remove it and the node is ours again"
        raise NotOurs(says) from cause


def _sign(fences: Mapping[str, int], operation_id: str, token: int) -> dict[str, str]:
    others = [(known, value) for known, value in fences.items() if known != operation_id]
    kept = dict([*others, (operation_id, token)][-REMEMBERED:])
    return {names.FENCES: json.dumps(kept)}


def _patch(node: WireNode, annotations: Mapping[str, str | None], spec: Patch) -> Patch:
    meta = node.metadata
    seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"metadata": {**seen, "annotations": annotations}, "spec": spec}
