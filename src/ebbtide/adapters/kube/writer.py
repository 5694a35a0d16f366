"""Changing the cluster: taint, cordon, uncordon, evict, delete a node. Each call is safe to repeat.

A node is changed only as it was just seen (its resource version), a pod or a node deleted only by its
UID. What has become of a request without an answer is not guessed: that is `Unanswered`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import suppress
from typing import TypeVar
from urllib.parse import quote

from ebbtide import typed
from ebbtide.adapters.kube.connection import MERGE_PATCH, Call, Connection
from ebbtide.adapters.kube.errors import (
    CONFLICT,
    FORBIDDEN,
    NOT_FOUND,
    SERVER_ERROR,
    TOO_MANY,
    Refused,
    refused_acting,
)
from ebbtide.adapters.kube.events import Events, Subject
from ebbtide.adapters.kube.signing import Patch, plan_cordon, plan_labels, plan_soft_taint, plan_uncordon
from ebbtide.adapters.kube.wire import Meta, Struct, WireNode
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
from ebbtide.model.effect import Cordon, DeleteNode, Evict, SoftTaint, Uncordon
from ebbtide.model.names import POOL

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
        except Refused as refused:
            if refused.code == CONFLICT and self._uid_at(path, "the node") != effect.node_uid:
                return  # another node of that name: what was asked for is gone
            if refused.code != NOT_FOUND:
                raise refused_acting(refused, call.what, self._connection.server) from refused
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
        except Refused as refused:
            if refused.code not in (NOT_FOUND, FORBIDDEN):
                raise refused_acting(refused, call.what, self._connection.server) from refused

    def _change(self, name: str, plan: Plan, what: str) -> WireNode | None:
        path = f"/api/v1/nodes/{quote(name)}"
        for _ in range(TRIES):
            patch = plan(self._read_node(path, what))
            if patch is None:
                return None
            try:
                body = self._connection.try_act(Call("PATCH", path, what, patch, MERGE_PATCH))
            except Refused as refused:
                if refused.code in (CONFLICT, NOT_FOUND):
                    continue
                raise refused_acting(refused, what, self._connection.server) from refused
            return _decoded(body, WireNode, what)
        raise Retryable(f"{what}: the node is changed by others all the time")

    def _read_node(self, path: str, what: str) -> WireNode | None:
        try:
            return _decoded(self._look(path, what), WireNode, what)
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return None
            raise refused_acting(refused, what, self._connection.server) from refused

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
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return
            if refused.code == CONFLICT and self._uid_at(path, what) != effect.uid:
                return  # another pod of that name: the one that was meant is gone
            raise _not_evicted(refused, what, self._connection.server) from refused

    def _uid_at(self, path: str, what: str) -> str:
        """Empty where there is none."""
        try:
            return _decoded(self._look(path, what), Named, what).metadata.uid
        except Refused as refused:
            if refused.code == NOT_FOUND:
                return ""
            raise refused_acting(refused, what, self._connection.server) from refused

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


def _not_evicted(refused: Refused, what: str, server: str) -> EbbtideError:
    status = refused.status
    if refused.code == TOO_MANY and (status.caused_by(BUDGET_CAUSE) or "budget" in status.message):
        causes = [c.message for c in (status.details and status.details.causes) or () if c.message]
        return BudgetExhausted(f"{what}: {causes[0] if causes else status.message}")
    if refused.code == SERVER_ERROR and SEVERAL_BUDGETS in status.message:
        return Final(f"{what}: more than one disruption budget covers the pod: let only one select it")
    return refused_acting(refused, what, server)


def _decoded(body: bytes, kind: type[T], what: str) -> T:
    with suppress(*UNREADABLE):
        return typed.decode(body, kind)
    raise Unanswered(f"{what}: the answer is not one of an API server")


def _only(uid: str) -> dict[str, object]:
    return {"preconditions": {"uid": uid}}


def _node(name: str, uid: str) -> Subject:
    return Subject("Node", name, uid)
