"""Launch of one node.

    RESERVED    written, nothing asked of the cloud      -> LAUNCHING, FAILED (would exceed a maximum)
    LAUNCHING   asked, perhaps without an answer         -> LAUNCHED (answered, or found by its key),
                (not again while above a maximum)           RESERVED (no capacity: next offer), FAILED
    LAUNCHED    an instance is known                     -> JOINED, RECLAIMING (join timeout), RECLAIMED
    JOINED      its node is there                        -> READY, RECLAIMING (join timeout),
                                                            LAUNCHED (its node left again)
    READY       its node is Ready: a worker              (settled)
    RECLAIMING  it never joined; looked for again,       -> TERMINATING, READY (it is Ready after all),
                for a last grace                            RECLAIMED, FAILED (its pods do not end)
    TERMINATING irrevocable: a terminate may be sent     -> RECLAIMED, FAILED (handed over as a removal)
    RECLAIMED   the instance is gone                     (settled)
    FAILED      it did not become a worker               (settled)

A launch is repeated with the same key until there is a definite answer, and a different offer has a
different key. `since` starts the join clock when the instance is first known; of a settled slot it is
when it settled.

TERMINATING is written before the cloud is asked, and READY never follows it: a runner that froze just
before its call may still send it. A machine that joins after that is kept from taking pods, emptied of
those that came at once, and terminated.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from ebbtide.core.nodes.drain import Disruptions, DrainPlan, Treatment, plan_drain
from ebbtide.core.nodes.offers import Serves, next_offer, offer_name
from ebbtide.core.operations.situation import Situation
from ebbtide.core.words import a_while
from ebbtide.model import effect as effects
from ebbtide.model.effect import Breach, Broken, Effect, Outcome, OutcomeKind
from ebbtide.model.operation import Slot, SlotCause, SlotState
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Instance, InstanceState, Node

Advance = tuple[Slot, tuple[Effect, ...]]

ALLOWED: dict[SlotState, frozenset[SlotState]] = {
    SlotState.RESERVED: frozenset({SlotState.LAUNCHING, SlotState.FAILED}),
    SlotState.LAUNCHING: frozenset({SlotState.LAUNCHED, SlotState.RESERVED, SlotState.FAILED}),
    SlotState.LAUNCHED: frozenset({SlotState.JOINED, SlotState.RECLAIMING, SlotState.RECLAIMED}),
    SlotState.JOINED: frozenset({SlotState.READY, SlotState.LAUNCHED, SlotState.RECLAIMING}),
    SlotState.RECLAIMING: frozenset(
        {SlotState.TERMINATING, SlotState.RECLAIMED, SlotState.READY, SlotState.FAILED}
    ),
    SlotState.TERMINATING: frozenset({SlotState.RECLAIMED, SlotState.FAILED}),
    SlotState.READY: frozenset(),
    SlotState.RECLAIMED: frozenset(),
    SlotState.FAILED: frozenset(),
}


def check_invariants(before: Slot, after: Slot) -> tuple[Broken, ...]:
    """What a change of a slot must never do; empty when it does not."""
    broken = []
    if after.state is not before.state and after.state not in ALLOWED[before.state]:
        broken.append(
            Broken(Breach.STATE, before.key, f"slot {before.key} went from {before.state} to {after.state}")
        )
    # Crash table: launch-reply-lost. The old key may have launched an instance whose reply was lost.
    if after.key != before.key and len(after.refused) <= len(before.refused):
        broken.append(
            Broken(
                Breach.IDENTITY, before.key, f"slot {before.key} changed its key without a definite refusal"
            )
        )
    if before.instance_id and after.instance_id != before.instance_id:
        broken.append(Broken(Breach.IDENTITY, before.key, f"slot {before.key} changed its instance"))
    # Crash table: frozen-reclaim. A runner that froze may still send the call.
    if before.terminated and not after.terminated:
        broken.append(Broken(Breach.TAKEN_BACK, before.key, f"slot {before.key} took its termination back"))
    return tuple(broken)


def advance_slot(slot: Slot, operation_id: str, situation: Situation) -> Advance:
    # Crash table: partial-observation. What was not listed may still be there.
    if situation.snapshot.problems:
        return slot, ()
    match slot.state:
        case SlotState.RESERVED:
            return _reserved(slot, operation_id, situation)
        case SlotState.LAUNCHING:
            return _launching(slot, operation_id, situation)
        case SlotState.LAUNCHED | SlotState.JOINED:
            return _joining(slot, situation)
        case SlotState.RECLAIMING:
            return reclaim(slot, situation)
        case SlotState.TERMINATING:
            return terminate(slot, operation_id, situation)
        case SlotState.READY | SlotState.RECLAIMED | SlotState.FAILED:
            return slot, ()
        case _:
            assert_never(slot.state)


def _reserved(slot: Slot, operation_id: str, situation: Situation) -> Advance:
    cause, says = _why_not_now(slot, situation)
    if says:
        return _failed(slot, cause, says, situation.now), ()
    asked = replace(slot, state=SlotState.LAUNCHING, since=situation.now)
    return asked, (effects.Launch(asked, operation_id),)


def _why_not_now(slot: Slot, situation: Situation) -> tuple[SlotCause, str]:
    """Checked again with every call: since it was reserved, the maximum may have been lowered, nodes may have
    come, or its pool may have been taken out of the configuration. Empty where nothing speaks against it."""
    settings, count = situation.settings, situation.total()
    pool = settings.pool_named(slot.pool)
    if pool is None:
        return SlotCause.NO_POOL, f"pool {slot.pool!r} is no longer configured"
    if count > settings.max_workers:
        return SlotCause.MAXIMUM, f"{count} nodes with it, max_workers {settings.max_workers}"
    in_pool = situation.total(pool.name)
    if pool.max_workers is not None and in_pool > pool.max_workers:
        says = f"{in_pool} nodes with it in pool {pool.name}, its maximum is {pool.max_workers}"
        return SlotCause.MAXIMUM, says
    return SlotCause.MAXIMUM, situation.why_over_limits(pool)


def _launching(slot: Slot, operation_id: str, situation: Situation) -> Advance:
    found = situation.snapshot.instance_with_key.get(slot.key)
    # Crash table: launch-crash. A runner that died after the call has launched it already.
    if found is not None:
        return _launched(slot, found, situation.now), ()
    # What it may have launched after all has its key, so adoption finds it.
    if situation.now - slot.since >= situation.settings.launch_timeout_seconds:
        return _failed(slot, SlotCause.NO_ANSWER, "the cloud gave no definite answer", situation.now), ()
    # The first call may never have arrived: this one would launch what must not be any more. The slot counts
    # until its time is over, since it may have arrived.
    if _why_not_now(slot, situation)[1]:
        return slot, ()
    return slot, (effects.Launch(slot, operation_id),)


def _launched(slot: Slot, instance: Instance, now: int) -> Slot:
    known = replace(slot, state=SlotState.LAUNCHED, since=now, instance_id=instance.id)
    return replace(known, reason="", why=SlotCause.NONE)


def _joining(slot: Slot, situation: Situation) -> Advance:
    node = situation.snapshot.node_of.get(slot.instance_id)
    instance = situation.snapshot.instance_with_id.get(slot.instance_id)
    if instance is not None and not instance.alive:
        says = "the instance disappeared before it was ready"
        return gone(slot, situation, says, SlotCause.WENT_AWAY)
    if node is not None and node.ready:
        # JOINED is written even when both are seen at once, so the log shows each step.
        if slot.state is SlotState.JOINED:
            ready = replace(slot, node_name=node.name)
            return replace(ready, state=SlotState.READY, since=situation.now), ()
        return replace(slot, state=SlotState.JOINED, node_name=node.name), ()
    # Reclaiming it would take the pods on that node along.
    if node is None and may_be_there(slot.since, situation):
        says = "a ready node that matches no instance may be this one"
        return replace(slot, reason=says, why=SlotCause.STRANGER), ()
    # Crash table: never-joined. It costs money and holds a slot.
    if situation.now - slot.since >= situation.settings.join_timeout_seconds:
        waited = a_while(situation.settings.join_timeout_seconds)
        reason = f"{'not ready' if node else 'no node'} {waited} after launch"
        late = replace(slot, reason=reason, why=SlotCause.NOT_READY if node else SlotCause.NO_NODE)
        return replace(late, state=SlotState.RECLAIMING, since=situation.now), ()
    if node is not None:
        return replace(slot, state=SlotState.JOINED, node_name=node.name), ()
    return (replace(slot, state=SlotState.LAUNCHED) if slot.state is SlotState.JOINED else slot), ()


def _failed(slot: Slot, why: SlotCause, reason: str, now: int) -> Slot:
    return replace(slot, state=SlotState.FAILED, reason=reason, since=now, why=why)


def absorb_slot(
    slot: Slot, outcome: Outcome, settings: Settings, now: int, serves: Serves | None = None
) -> Slot:
    """Take in the answer to the launch of exactly this slot; `serves` what may be launched instead."""
    if not isinstance(outcome.effect, effects.Launch) or outcome.effect.slot.key != slot.key:
        return slot
    # A late answer to a call that was given up changes nothing: adoption finds what it launched.
    if slot.state is not SlotState.LAUNCHING:
        return slot
    match outcome.kind:
        case OutcomeKind.DONE:
            return _launched(slot, outcome.instance, now) if outcome.instance else slot
        case OutcomeKind.NO_CAPACITY:
            return _try_next(slot, outcome, settings, now, serves)
        case OutcomeKind.REFUSED:
            return _failed(slot, SlotCause.REFUSED, outcome.detail, now)
        case OutcomeKind.UNKNOWN | OutcomeKind.LATER | OutcomeKind.CHANGED | OutcomeKind.SKIPPED:
            return replace(slot, reason=outcome.detail, why=SlotCause.NO_ANSWER)
        case _:
            assert_never(outcome.kind)


def without_capacity(outcomes: Iterable[Outcome]) -> frozenset[str]:
    """The keys of the slots whose offers had no capacity."""
    refused = (outcome for outcome in outcomes if outcome.kind is OutcomeKind.NO_CAPACITY)
    return frozenset(one.effect.slot.key for one in refused if isinstance(one.effect, effects.Launch))


def _try_next(slot: Slot, outcome: Outcome, settings: Settings, now: int, serves: Serves | None) -> Slot:
    name, detail = offer_name(slot.zone, slot.market, slot.instance_type), outcome.detail
    refused = (*slot.refused, name)
    base = slot.key.rpartition("r")[0] if slot.refused else slot.key
    unfit = (*slot.unfit, name) if outcome.unfit else slot.unfit
    told = replace(slot, why=SlotCause.NO_CAPACITY, unfit=unfit)
    changed = replace(told, refused=refused, key=f"{base}r{len(refused)}", reason=detail)
    offer = next_offer(changed, settings, serves)
    if offer is None:
        where = "anywhere" if next_offer(changed, settings) is None else "where its pods could run"
        return _failed(changed, SlotCause.NO_CAPACITY, f"no capacity {where}: {detail}", now)
    zone, market, type_name = offer
    return replace(changed, state=SlotState.RESERVED, zone=zone, market=market, instance_type=type_name)


def may_be_there(since: int, situation: Situation) -> bool:
    """Whether a node that came since then is Ready and nobody's: one that joined by itself, without
    provider id or label. Terminating its instance would take the pods on it along."""
    return any(node.created_at >= since for node in situation.snapshot.ready_strangers)


def reclaim(slot: Slot, situation: Situation) -> Advance:
    node = situation.snapshot.node_of.get(slot.instance_id)
    instance = situation.snapshot.instance_with_id.get(slot.instance_id)
    if instance is not None and not instance.alive:
        return gone(slot, situation)
    if instance is None:
        # A list of the cloud may lag: one without the instance proves nothing.
        missing = situation.now - slot.since >= situation.settings.gone_grace_seconds
        return gone(slot, situation) if missing else (slot, ())
    if node is not None and node.ready:
        # It joined late, before anything irrevocable was written: a ready node is kept.
        ready = replace(slot, state=SlotState.READY, node_name=node.name, since=situation.now)
        return replace(ready, reason="", why=SlotCause.NONE), ()
    waited = situation.now - slot.since
    # Launches must not wait for a machine that only a person can free.
    if waited >= situation.settings.stuck_seconds:
        reason = f"{slot.reason}, and it could not be reclaimed"
        return _failed(slot, SlotCause.STUCK, reason, situation.now), ()
    if _why_not_yet(slot, node, instance, situation):
        return slot, ()
    # No terminate with this write: after it the machine is looked for once more.
    return replace(slot, state=SlotState.TERMINATING, since=situation.now, terminated=True), ()


def _why_not_yet(slot: Slot, node: Node | None, instance: Instance, situation: Situation) -> str:
    """What speaks against the irrevocable step now."""
    # Crash table: interrupted-early. It goes without us, and may still join before.
    if situation.notice_for(slot.instance_id) is not None:
        return "the cloud is reclaiming it"
    # Crash table: old-list.
    if situation.now - slot.since < situation.settings.gone_grace_seconds:
        # One list without its node proves little: nobody may have looked since long before it joined, and
        # an old list would have it terminated with all that runs on it. So it is checked once more, later.
        return "it is checked once more"
    if node is None:
        launched_at = instance.launched_at or slot.since - situation.settings.join_timeout_seconds
        return (
            "a node that matches no instance may be its own" if may_be_there(launched_at, situation) else ""
        )
    return _drain(node, situation).obstacle.says


def terminate(slot: Slot, operation_id: str, situation: Situation) -> Advance:
    instance = situation.snapshot.instance_with_id.get(slot.instance_id)
    if instance is None:
        return _unlisted(slot, situation)
    slot = replace(slot, missing_since=0)
    if not instance.alive:
        return gone(slot, situation)
    if situation.now - slot.since >= situation.settings.stuck_seconds:
        # It continues as a removal: launches must not wait for a cloud that refuses to terminate it.
        reason = f"{slot.reason}, and it could not be terminated: its removal continues"
        return _failed(slot, SlotCause.STUCK, reason, situation.now), ()
    node = situation.snapshot.node_of.get(slot.instance_id)
    if node is not None:
        return _joined_too_late(slot, node, operation_id, situation)
    launched_at = instance.launched_at or slot.since - situation.settings.join_timeout_seconds
    # A node without a provider id may run on this machine, with pods on it.
    if may_be_there(launched_at, situation):
        return slot, ()
    return slot, (effects.Terminate(slot.instance_id, "", "", operation_id),)


def _unlisted(slot: Slot, situation: Situation) -> Advance:
    """One list without it proves nothing, and a node that reports itself ready contradicts it: settled too
    early, it would come back as a worker with a terminate on its way to it."""
    slot = slot if slot.missing_since else replace(slot, missing_since=situation.now)
    nodes = situation.snapshot.cluster.nodes
    ready = any(node.ready and node.instance_id == slot.instance_id for node in nodes)
    # Crash table: describe-lags. The cloud may list it again.
    if ready or situation.now - slot.missing_since < situation.settings.gone_grace_seconds:
        return slot, ()
    return gone(slot, situation)


def _joined_too_late(slot: Slot, node: Node, operation_id: str, situation: Situation) -> Advance:
    """Shut, empty and settled first: with whatever is on it, it would be lost."""
    known = replace(slot, node_name=node.name)
    plan = _drain(node, situation)
    if not node.unschedulable:
        return replace(known, shut_since=0), (effects.Cordon(node.name, node.uid, operation_id),)
    if not plan.drained:
        return replace(known, shut_since=0), _evictions(plan)
    if not known.shut_since:
        return replace(known, shut_since=situation.now), ()
    # A pod that was bound just before the cordon may not be listed yet.
    if situation.now - known.shut_since < situation.settings.settle_seconds:
        return known, ()
    return known, (effects.Terminate(slot.instance_id, node.name, node.uid, operation_id),)


def _drain(node: Node, situation: Situation) -> DrainPlan:
    cluster = situation.snapshot.cluster
    pods = cluster.pods_on.get(node.name, ())
    players = situation.snapshot.players_of
    return plan_drain(node, pods, Disruptions(cluster.budgets), situation.settings, players)


def _evictions(plan: DrainPlan) -> tuple[effects.Evict, ...]:
    pods = [judgement.pod for judgement in plan.treated(Treatment.EVICT)]
    return tuple(effects.Evict(p.namespace, p.name, p.uid, p.node_name, p.grace_seconds) for p in pods)


def gone(slot: Slot, situation: Situation, reason: str = "", why: SlotCause = SlotCause.NONE) -> Advance:
    """Settle once the Node object, if it ever joined, is gone as well."""
    node = situation.snapshot.node_of.get(slot.instance_id)
    if node is not None:
        instance = situation.snapshot.instance_with_id.get(slot.instance_id)
        # The kubelet of a machine that still runs would create the Node object again.
        if instance is not None and instance.state is InstanceState.TERMINATING:
            return slot, ()
        return slot, (effects.DeleteNode(node.name, node.uid),)
    if slot.state is SlotState.JOINED:
        return replace(slot, state=SlotState.LAUNCHED), ()
    told = replace(slot, reason=reason, why=why) if reason else slot
    return replace(told, state=SlotState.RECLAIMED, since=situation.now), ()
