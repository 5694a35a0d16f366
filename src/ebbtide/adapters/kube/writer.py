"""Changes to the cluster: taint, cordon, uncordon, evict, delete a node. Every call is safe to repeat.

A patch of a node is conditional on its resource version, the deletion of a pod or node on its UID. A
request without an answer raises `Unanswered`; its result is not guessed.

Annotations on the node say who may change it. The owner is set while a soft taint or cordon is ours. The
fences outlive it: they keep the highest token of each of the last operations, so a stalled runner cannot
undo what its successor did. Taints are an atomic list, so all of them are sent back as they were read.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import Any, TypeVar
from urllib.parse import quote

from ebbtide import typed
from ebbtide.adapters.kube.connection import (
    FORBIDDEN,
    MERGE_PATCH,
    SERVER_ERROR,
    TOO_MANY,
    ApiError,
    Call,
    Connection,
)
from ebbtide.adapters.kube.events import Events, Subject
from ebbtide.adapters.kube.objects import read_owner
from ebbtide.adapters.kube.scheduling import decode
from ebbtide.adapters.kube.wire import Meta, Struct, WireNode, WireTaint
from ebbtide.errors import (
    UNREADABLE,
    BudgetExhausted,
    EbbtideError,
    Final,
    NotOurs,
    Retryable,
    Unanswered,
    Usage,
)
from ebbtide.model import names
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.names import POOL
from ebbtide.model.snapshot import LEAVING

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
    # Signed again under a newer token, so calls of the runner before are refused.
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
    # A person may have cordoned it since we gave it back.
    if owner is None and node.spec.unschedulable:
        raise NotOurs(f"node {effect.node_name} was cordoned by a person")
    if owner is None:
        return None
    cleared = {names.OWNER: None, names.TOKEN: None, names.STAGE: None}
    lifted: Patch = {"taints": _taints(node)}
    # A soft taint alone leaves a cordon as it was: it may be a person's.
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
    # Crash table: adopt-crash. Another call may have put it into another pool.
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
    # Another machine may have joined under the name.
    if node.metadata.uid != effect.node_uid:
        raise NotOurs(f"node {name} now has UID {node.metadata.uid}, not {effect.node_uid}")
    owner = read_owner(annotations)
    if owner is not None and owner.operation_id != effect.operation_id:
        raise NotOurs(f"node {name} belongs to operation {owner.operation_id}")
    fences = _read_fences(name, annotations)
    highest = max(fences.get(effect.operation_id, token), owner.token if owner else token)
    # The call of an older runner arrives late: its lease is over.
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
    # The server refuses the patch if anything about the node changed since it was read.
    seen = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"metadata": {**seen, "annotations": annotations}, "spec": spec}


T = TypeVar("T")
Plan = Callable[[WireNode | None], Patch | None]
TRIES = 5
"""The kubelet writes the same object: a patch that met its write is planned again."""
K3S_PASSWORD = "/api/v1/namespaces/kube-system/secrets/{}.node-password.k3s"
BUDGET_CAUSE = "DisruptionBudget"
SEVERAL_BUDGETS = "more than one PodDisruptionBudget"


class Named(Struct, frozen=True):
    metadata: Meta


class Actor:
    def __init__(self, connection: Connection, events: Events) -> None:
        self._connection = connection
        self._events = events

    def soft_taint(self, effect: SoftTaint, token: int) -> WireNode | None:
        """The node as it is now, None where nothing had to be changed."""

        def plan(node: WireNode | None) -> Patch | None:
            return plan_soft_taint(_there(node, effect), effect, token)

        changed = self._change(effect.node_name, plan, f"taint {effect.node_name}")
        if changed is not None:
            says = (
                f"better no new pods: operation {effect.operation_id} of Ebbtide is about to remove this node"
            )
            self._events.tell(_node(effect.node_name, effect.node_uid), "Leaving", says)
        return changed

    def label(self, name: str, uid: str, labels: Mapping[str, str]) -> WireNode | None:
        def plan(node: WireNode | None) -> Patch | None:
            return plan_labels(node, name, uid, labels)

        changed = self._change(name, plan, f"label {name}")
        if changed is not None:
            says = f"Ebbtide counts this node as a worker of pool {labels[POOL]}"
            self._events.tell(_node(name, uid), "Adopted", says)
        return changed

    def cordon(self, effect: Cordon, token: int) -> WireNode | None:
        def plan(node: WireNode | None) -> Patch | None:
            return plan_cordon(_there(node, effect), effect, token)

        changed = self._change(effect.node_name, plan, f"cordon {effect.node_name}")
        if changed is not None:
            says = f"no new pods: operation {effect.operation_id} of Ebbtide removes this node"
            self._events.tell(_node(effect.node_name, effect.node_uid), "Cordoned", says)
        return changed

    def uncordon(self, effect: Uncordon, token: int) -> WireNode | None:
        def plan(node: WireNode | None) -> Patch | None:
            return None if node is None else plan_uncordon(node, effect, token)

        changed = self._change(effect.node_name, plan, f"uncordon {effect.node_name}")
        if changed is not None:
            says = f"operation {effect.operation_id} of Ebbtide gave the node back"
            self._events.tell(_node(effect.node_name, effect.node_uid), "Uncordoned", says)
        return changed

    def evict(self, effect: Evict) -> None:
        subject = Subject("Pod", effect.name, effect.uid, effect.namespace)
        try:
            self._evict(effect)
        except (BudgetExhausted, Final) as refused:
            later = isinstance(refused, BudgetExhausted)
            reason = "EvictionDelayed" if later else "EvictionRefused"
            self._events.tell(subject, reason, str(refused), warning=not later)
            raise
        self._events.tell(subject, "Evicted", f"Ebbtide empties node {effect.node_name}")

    def delete_node(self, effect: DeleteNode) -> None:
        path = f"/api/v1/nodes/{quote(effect.node_name)}"
        call = Call("DELETE", path, f"delete node {effect.node_name}", _only(effect.node_uid))
        try:
            self._connection.try_act(call)
        except ApiError as refused:
            # The UID is a condition of the delete: a node that joined again stays.
            if refused.conflict and self._uid_at(path, "the node") != effect.node_uid:
                return  # another node of that name: what was asked for is gone
            if not refused.not_found:
                raise self._connection.refused_acting(refused, call.what) from refused
        else:
            says = "Ebbtide removed the node after its instance was terminated"
            self._events.tell(_node(effect.node_name, effect.node_uid), "Removed", says)
        self._forget_password(effect.node_name)

    def _forget_password(self, node_name: str) -> None:
        """K3s lets no other machine join under the name while it keeps the password of the first. It
        clears it by itself too, so this needs no permission of its own to be safe."""
        call = Call("DELETE", K3S_PASSWORD.format(quote(node_name)), "forget the node password")
        try:
            self._connection.try_act(call)
        except ApiError as refused:
            if not refused.not_found and refused.code != FORBIDDEN:
                raise self._connection.refused_acting(refused, call.what) from refused

    def _change(self, name: str, plan: Plan, what: str) -> WireNode | None:
        path = f"/api/v1/nodes/{quote(name)}"
        for _ in range(TRIES):
            patch = plan(self._read_node(path, what))
            if patch is None:
                return None
            try:
                body = self._connection.try_act(Call("PATCH", path, what, patch, MERGE_PATCH))
            except ApiError as refused:
                if refused.conflict or refused.not_found:
                    continue
                raise self._connection.refused_acting(refused, what) from refused
            return _decoded(body, WireNode, what)
        raise Retryable(f"{what}: others keep changing the node")

    def _read_node(self, path: str, what: str) -> WireNode | None:
        try:
            return _decoded(self._look(path, what), WireNode, what)
        except ApiError as refused:
            if refused.not_found:
                return None
            raise self._connection.refused_acting(refused, what) from refused

    def _evict(self, effect: Evict) -> None:
        path = f"/api/v1/namespaces/{quote(effect.namespace)}/pods/{quote(effect.name)}"
        what = f"evict {effect.namespace}/{effect.name}"
        body = {
            "apiVersion": "policy/v1",
            "kind": "Eviction",
            "metadata": {"name": effect.name, "namespace": effect.namespace},
            "deleteOptions": {**_only(effect.uid), "gracePeriodSeconds": effect.grace_seconds},
        }
        # The server takes a disruption off the budget before it compares the UID, and gives it back only
        # after minutes: so a pod that is another by now is not even asked for.
        if self._uid_at(path, what) != effect.uid:
            return
        try:
            self._connection.try_act(Call("POST", f"{path}/eviction", what, body))
        except ApiError as refused:
            if refused.not_found:
                return
            if refused.conflict and self._uid_at(path, what) != effect.uid:
                return  # another pod of that name: the one that was meant is gone
            raise _not_evicted(refused, what, self._connection) from refused

    def _uid_at(self, path: str, what: str) -> str:
        """Empty where there is none."""
        try:
            return _decoded(self._look(path, what), Named, what).metadata.uid
        except ApiError as refused:
            if refused.not_found:
                return ""
            raise self._connection.refused_acting(refused, what) from refused

    def _look(self, path: str, what: str) -> bytes:
        """A look before an act: when it fails, whatever the reason, nothing has been done yet."""
        try:
            return self._connection.try_get(path, what)
        except Usage as error:
            raise Retryable(str(error)) from error


def _there(node: WireNode | None, effect: SoftTaint | Cordon) -> WireNode:
    if node is None:
        raise NotOurs(f"there is no node {effect.node_name} with UID {effect.node_uid}")
    return node


def _not_evicted(refused: ApiError, what: str, connection: Connection) -> EbbtideError:
    status = refused.status
    if refused.code == TOO_MANY and (status.caused_by(BUDGET_CAUSE) or "budget" in status.message):
        causes = [c.message for c in (status.details and status.details.causes) or () if c.message]
        return BudgetExhausted(f"{what}: {causes[0] if causes else status.message}")
    if refused.code == SERVER_ERROR and SEVERAL_BUDGETS in status.message:
        return Final(f"{what}: more than one disruption budget covers the pod: let only one select it")
    return connection.refused_acting(refused, what)


def _decoded(body: bytes, kind: type[T], what: str) -> T:
    with suppress(*UNREADABLE):
        return typed.decode(body, kind)
    raise Unanswered(f"{what}: the answer is not one of an API server")


def _only(uid: str) -> dict[str, object]:
    return {"preconditions": {"uid": uid}}


def _node(name: str, uid: str) -> Subject:
    return Subject("Node", name, uid)
