"""What becomes of a machine that did not join in time: the last part of a slot's life.

    RECLAIMING   late; looked for again, for a last grace    -> TERMINATING, READY (it is Ready after all),
                                                                RECLAIMED, FAILED (its pods do not end)
    TERMINATING  irrevocable: a terminate may be on its way  -> RECLAIMED, FAILED (handed over as a removal)

TERMINATING is written before the cloud is asked, and READY never follows it: a runner that froze just before
its call may still send it. A machine that joins after that is kept from taking pods, emptied of those that
came at once, and terminated.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.nodes.drain import Disruptions, DrainPlan, Treatment, plan_drain
from ebbtide.core.operations.situation import Situation
from ebbtide.model.effect import Cordon, DeleteNode, Effect, Evict, Terminate
from ebbtide.model.node import Instance, InstanceState, Node
from ebbtide.model.operation import Slot, SlotState

Advance = tuple[Slot, tuple[Effect, ...]]


def may_be_there(since: int, situation: Situation) -> bool:
    """Whether a node that came since then is Ready and nobody's: one that joined by itself, without
    provider id or label. Terminating its instance would take the pods on it along."""
    return any(node.created_at >= since for node in situation.snapshot.ready_strangers)


def reclaim(slot: Slot, situation: Situation) -> Advance:
    node = situation.snapshot.node_of.get(slot.instance_id)
    instance = situation.snapshot.instance_with_id.get(slot.instance_id)
    if instance is not None and not instance.alive:
        return gone(slot, situation, slot.reason)
    if instance is None:
        missing = situation.now - slot.since >= situation.settings.gone_grace_seconds
        return gone(slot, situation, slot.reason) if missing else (slot, ())
    if node is not None and node.ready:
        return replace(slot, state=SlotState.READY, node_name=node.name, reason="", since=situation.now), ()
    waited = situation.now - slot.since
    if waited >= situation.settings.stuck_seconds:
        reason = f"{slot.reason}, and it could not be reclaimed"
        return replace(slot, state=SlotState.FAILED, reason=reason, since=situation.now), ()
    if _why_not_yet(slot, node, instance, situation):
        return slot, ()
    # No terminate with this write: after it the machine is looked for once more.
    return replace(slot, state=SlotState.TERMINATING, since=situation.now, terminated=True), ()


def _why_not_yet(slot: Slot, node: Node | None, instance: Instance, situation: Situation) -> str:
    """What speaks against the irrevocable step now."""
    # Crash table: interrupted-early.
    if situation.notice_for(slot.instance_id) is not None:
        return "the cloud is taking it by itself"
    # Crash table: old-list.
    if situation.now - slot.since < situation.settings.gone_grace_seconds:
        # One list without its node proves little: nobody may have looked since long before it joined, and
        # an old list would have it terminated with all that runs on it. So it is looked for again, later.
        return "it is looked for again"
    if node is None:
        launched_at = instance.launched_at or slot.since - situation.settings.join_timeout_seconds
        return (
            "a node that matches no instance may be its own" if may_be_there(launched_at, situation) else ""
        )
    return _drain(node, situation).obstacle


def terminate(slot: Slot, operation_id: str, situation: Situation) -> Advance:
    instance = situation.snapshot.instance_with_id.get(slot.instance_id)
    if instance is None:
        return _unlisted(slot, situation)
    slot = replace(slot, missing_since=0)
    if not instance.alive:
        return gone(slot, situation, slot.reason)
    if situation.now - slot.since >= situation.settings.stuck_seconds:
        # It goes on as a removal: launches must not wait for a cloud that refuses to terminate it.
        reason = f"{slot.reason}, and it could not be terminated: its removal goes on"
        return replace(slot, state=SlotState.FAILED, reason=reason, since=situation.now), ()
    node = situation.snapshot.node_of.get(slot.instance_id)
    if node is not None:
        return _joined_too_late(slot, node, operation_id, situation)
    launched_at = instance.launched_at or slot.since - situation.settings.join_timeout_seconds
    if may_be_there(launched_at, situation):
        return slot, ()
    return slot, (Terminate(slot.instance_id, "", "", operation_id),)


def _unlisted(slot: Slot, situation: Situation) -> Advance:
    """One list without it proves nothing, and a node that reports itself ready contradicts it: settled too
    early, it would come back as a worker with a terminate on its way to it."""
    slot = slot if slot.missing_since else replace(slot, missing_since=situation.now)
    nodes = situation.snapshot.cluster.nodes
    ready = any(node.ready and node.instance_id == slot.instance_id for node in nodes)
    # Crash table: describe-lags.
    if ready or situation.now - slot.missing_since < situation.settings.gone_grace_seconds:
        return slot, ()
    return gone(slot, situation, slot.reason)


def _joined_too_late(slot: Slot, node: Node, operation_id: str, situation: Situation) -> Advance:
    """Shut, empty and settled first: with whatever is on it, it would be lost."""
    known = replace(slot, node_name=node.name)
    plan = _drain(node, situation)
    if not node.unschedulable:
        return replace(known, shut_since=0), (Cordon(node.name, node.uid, operation_id),)
    if not plan.drained:
        return replace(known, shut_since=0), _evictions(plan)
    if not known.shut_since:
        return replace(known, shut_since=situation.now), ()
    if situation.now - known.shut_since < situation.settings.settle_seconds:
        return known, ()
    return known, (Terminate(slot.instance_id, node.name, node.uid, operation_id),)


def _drain(node: Node, situation: Situation) -> DrainPlan:
    cluster = situation.snapshot.cluster
    pods = cluster.pods_on.get(node.name, ())
    players = situation.snapshot.players_of
    return plan_drain(node, pods, Disruptions(cluster.budgets), situation.settings, players)


def _evictions(plan: DrainPlan) -> tuple[Evict, ...]:
    pods = [judgement.pod for judgement in plan.treated(Treatment.EVICT)]
    return tuple(Evict(p.namespace, p.name, p.uid, p.node_name, p.grace_seconds) for p in pods)


def gone(slot: Slot, situation: Situation, reason: str) -> Advance:
    """Settle once the Node object, if it ever joined, is gone as well."""
    node = situation.snapshot.node_of.get(slot.instance_id)
    if node is not None:
        instance = situation.snapshot.instance_with_id.get(slot.instance_id)
        if instance is not None and instance.state is InstanceState.TERMINATING:
            return slot, ()
        return slot, (DeleteNode(node.name, node.uid),)
    if slot.state is SlotState.JOINED:
        return replace(slot, state=SlotState.LAUNCHED), ()
    return replace(slot, state=SlotState.RECLAIMED, reason=reason, since=situation.now), ()
