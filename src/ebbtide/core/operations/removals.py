"""Removal of one node: the safe way down.

    PLANNED      written; a soft taint (or between two attempts)    -> DRAINING, RELEASING, RELEASED
    DRAINING     cordoned, pods are evicted until the deadline      -> DRAINED, PLANNED, RELEASING
    DRAINED      only skipped pods are left                         -> TERMINATING, DRAINING, RELEASING
    TERMINATING  irrevocable; the instance is going                 -> GONE, SET_ASIDE
    SET_ASIDE    the cloud refuses it, or it does not go: kept in   (settled)
                 the record and tried again later; never released
    GONE         instance and Node object are gone                  (settled)
    RELEASING    given up, our taint and cordon are being lifted    -> RELEASED
    RELEASED     as before                                          (settled)

From any state but TERMINATING, an instance that the cloud has already taken leads to GONE.
Entering TERMINATING checks all safety gates against the record that is being written. What is looked at
is always this instance with this node UID: another node under the same name is not touched.
"""

from __future__ import annotations

from dataclasses import replace

from ebbtide.core.nodes.drain import Disruptions, DrainPlan, Treatment, plan_drain, put_off
from ebbtide.core.nodes.gates import TRANSIENT, may_terminate
from ebbtide.core.nodes.orphans import stale_mark
from ebbtide.core.nodes.unwell import lost_before, still_there
from ebbtide.core.operations.situation import Situation
from ebbtide.core.words import a_while
from ebbtide.model import effect as effects
from ebbtide.model.effect import Breach, Broken, Effect, Outcome, OutcomeKind
from ebbtide.model.operation import NO_OBSTACLE, Obstacle, Removal, RemovalCause, RemovalState
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import InstanceState, Node

Advance = tuple[Removal, tuple[Effect, ...]]

ALLOWED: dict[RemovalState, frozenset[RemovalState]] = {
    RemovalState.PLANNED: frozenset(
        {RemovalState.DRAINING, RemovalState.RELEASING, RemovalState.RELEASED, RemovalState.GONE}
    ),
    RemovalState.DRAINING: frozenset(
        {RemovalState.DRAINED, RemovalState.PLANNED, RemovalState.RELEASING, RemovalState.GONE}
    ),
    RemovalState.DRAINED: frozenset(
        {RemovalState.TERMINATING, RemovalState.DRAINING, RemovalState.RELEASING, RemovalState.GONE}
    ),
    RemovalState.TERMINATING: frozenset({RemovalState.GONE, RemovalState.SET_ASIDE}),
    RemovalState.SET_ASIDE: frozenset(),
    RemovalState.RELEASING: frozenset({RemovalState.RELEASED, RemovalState.GONE}),
    RemovalState.GONE: frozenset(),
    RemovalState.RELEASED: frozenset(),
}


def check_invariants(before: Removal, after: Removal) -> tuple[Broken, ...]:
    """What a change of a removal must never do; empty when it does not."""
    broken = []
    if after.state is not before.state and after.state not in ALLOWED[before.state]:
        broken.append(
            Broken(
                Breach.STATE,
                before.instance_id,
                f"removal of {before.instance_id} went from {before.state} to {after.state}",
            )
        )
    if after.instance_id != before.instance_id:
        broken.append(
            Broken(
                Breach.IDENTITY, before.instance_id, f"removal of {before.instance_id} changed its instance"
            )
        )
    if before.node_uid and after.node_uid != before.node_uid:
        broken.append(
            Broken(Breach.IDENTITY, before.instance_id, f"removal of {before.instance_id} changed its node")
        )
    return tuple(broken)


def advance_removal(
    removal: Removal, operation_id: str, situation: Situation, disruptions: Disruptions
) -> Advance:
    # Crash table: partial-observation. What was not listed may still be there.
    if situation.snapshot.problems or removal.settled:
        return removal, ()
    removal = _notice_absence(removal, situation)
    node = observed_node(removal, situation)
    # Crash table: terminate-crash. A runner that died after the call has terminated it already.
    if is_gone(removal, node, situation):
        # Crash table: node-recreated. Deleted only after its instance, or the kubelet would create it again.
        if node is not None:
            return removal, (effects.DeleteNode(node.name, node.uid),)
        return replace(removal, state=RemovalState.GONE, since=situation.now), ()
    if removal.state is RemovalState.RELEASING:
        return _releasing(removal, node, operation_id, situation)
    # Crash table: set-aside-crash.
    if removal.state is RemovalState.TERMINATING and _takes_too_long(removal, situation):
        # Nothing may wait for a machine that a person has to free: the record keeps it, others continue.
        late = Obstacle(RemovalCause.NOT_GONE, f"not gone after {a_while(situation.settings.stuck_seconds)}")
        why = removal.obstacle if removal.reason else late
        return _to(removal, RemovalState.SET_ASIDE, situation, why), ()
    # It is going, or not listed at the moment: there is nothing to do until that is settled.
    if not _alive(removal, situation):
        return removal, ()
    match removal.state:
        case RemovalState.PLANNED:
            return _planned(removal, node, operation_id, situation)
        case RemovalState.DRAINING | RemovalState.DRAINED:
            if node is None:
                end = RemovalState.RELEASING, Obstacle(RemovalCause.NO_NODE, "its node left the cluster")
                return _out_of_sight(removal, operation_id, situation, *end), ()
            go_on = _draining if removal.state is RemovalState.DRAINING else _drained
            return go_on(removal, node, operation_id, situation, disruptions)
        case _:
            return _terminating(removal, node, operation_id, situation, disruptions)


def observed_node(removal: Removal, situation: Situation) -> Node | None:
    """The node of this removal, if it is still the same one."""
    node = situation.snapshot.node_of.get(removal.instance_id)
    if node is None:
        node = situation.snapshot.cluster.node_named.get(removal.node_name)
    # Crash table: name-reused. Another node may have the name by now.
    if node is None or (removal.node_uid and node.uid != removal.node_uid):
        return None
    return node if node.worker else None


def _notice_absence(removal: Removal, situation: Situation) -> Removal:
    if removal.instance_id in situation.snapshot.instance_with_id:
        return replace(removal, missing_since=0) if removal.missing_since else removal
    return removal if removal.missing_since else replace(removal, missing_since=situation.now)


def is_gone(removal: Removal, node: Node | None, situation: Situation) -> bool:
    """Positive evidence, or missing for longer than a list can lag behind; a node that still reports
    itself ready contradicts a mere absence, and what is given up is not taken for gone by it."""
    instance = situation.snapshot.instance_with_id.get(removal.instance_id)
    if instance is not None:
        return instance.state is InstanceState.GONE
    # Crash table: describe-lags. The list may lag, and a Ready node has an instance.
    if removal.state is RemovalState.RELEASING or (node is not None and node.ready):
        return False
    grace = situation.settings.gone_grace_seconds
    return bool(removal.missing_since) and situation.now - removal.missing_since >= grace


def _alive(removal: Removal, situation: Situation) -> bool:
    instance = situation.snapshot.instance_with_id.get(removal.instance_id)
    return instance is not None and instance.alive


def _takes_too_long(removal: Removal, situation: Situation) -> bool:
    return situation.now - removal.since >= situation.settings.stuck_seconds


def _planned(removal: Removal, node: Node | None, operation_id: str, situation: Situation) -> Advance:
    if node is None:
        end = RemovalState.RELEASED, Obstacle(RemovalCause.NO_NODE, "its node is not in the cluster")
        return _out_of_sight(removal, operation_id, situation, *end), ()
    hurried = situation.notice_for(removal.instance_id) is not None
    # The pause between two attempts gives budgets and pods time; an interruption does not wait.
    if situation.now < removal.retry_at and not hurried:
        return removal, ()
    known = replace(
        _fenced(removal, situation),
        node_name=node.name,
        node_uid=node.uid,
        zone=removal.zone or node.zone,
        pool=removal.pool or node.pool,
    )
    # Crash table: taint-cordon-crash. The signature shows the next runner what to continue or to lift.
    if not hurried and not signed_by(node, operation_id):
        return known, (effects.SoftTaint(node.name, node.uid, operation_id),)
    started = replace(
        _to(known, RemovalState.DRAINING, situation),
        attempts=removal.attempts + 1,
        drain_deadline=_drain_deadline(removal, situation),
    )
    return started, (_cordon(started, node, operation_id, situation),)


def _cordon(
    removal: Removal, node: Node, operation_id: str, situation: Situation
) -> effects.Cordon | effects.Uncordon:
    """A mark of a closed operation would be waited for until its grace is over. The cloud does not wait: the
    answer to its notice lifts the mark first."""
    stale = stale_mark(node, situation.record)
    # Crash table: two-owners. Another operation left its mark, and the cloud does not wait.
    if stale is not None and _cloud_is_reclaiming(removal, operation_id, situation):
        return effects.Uncordon(node.name, node.uid, stale.operation_id, stale.token)
    return effects.Cordon(node.name, node.uid, operation_id)


def _drain_deadline(removal: Removal, situation: Situation) -> int:
    notice = situation.notice_for(removal.instance_id)
    if notice is not None:
        return min(notice.noticed_at + situation.settings.spot_drain_seconds, notice.deadline)
    return situation.now + situation.settings.drain_timeout_seconds


def with_time_again(removal: Removal, settings: Settings, now: int) -> Removal:
    """After a run that was killed, or time in which nobody looked: the drain begins its time again, so a
    deadline that passed meanwhile costs no attempt."""
    if removal.state is not RemovalState.DRAINING:
        return removal
    return replace(removal, drain_deadline=max(removal.drain_deadline, now + settings.drain_timeout_seconds))


def _draining(
    removal: Removal, node: Node, operation_id: str, situation: Situation, disruptions: Disruptions
) -> Advance:
    hurried = situation.notice_for(removal.instance_id) is not None
    if not _accepts_no_pods(node, operation_id, hurried):
        if situation.now >= removal.drain_deadline and not _cloud_is_reclaiming(
            removal, operation_id, situation
        ):
            why = Obstacle(RemovalCause.NOT_CORDONED, "the node could not be cordoned")
            return _attempt_failed(removal, situation, why), ()
        return _fenced(removal, situation), (_cordon(removal, node, operation_id, situation),)
    plan = _plan(removal, node, situation, disruptions)
    if plan.drained:
        return _to(removal, RemovalState.DRAINED, situation), ()
    blocked = plan.treated(Treatment.BLOCK)
    # The cloud takes a hurried node in any case: what can still be evicted is.
    if blocked and not hurried:
        return _attempt_failed(removal, situation, plan.obstacle), ()
    if situation.now >= removal.drain_deadline and not hurried:
        seconds = situation.settings.drain_timeout_seconds
        last = plan.obstacle_after(removal.obstacle)
        says = f"not drained within {a_while(seconds)}: {last.says}"
        return _attempt_failed(removal, situation, Obstacle(RemovalCause.TOO_LONG, says, last.about)), ()
    return _evict(removal, plan, situation)


def _out_of_sight(
    removal: Removal, operation_id: str, situation: Situation, end: RemovalState, why: Obstacle
) -> Removal:
    """Its Node object is not listed. One that the cloud is taking by itself may be shown again, or join
    again, with pods on it: that is waited for until the cloud has taken it, or did not."""
    return (
        removal
        if _cloud_is_reclaiming(removal, operation_id, situation)
        else _to(removal, end, situation, why)
    )


def _cloud_is_reclaiming(removal: Removal, operation_id: str, situation: Situation) -> bool:
    """Whether this is the answer to a cloud that takes the machine by itself: there is no giving up."""
    notice = situation.notice_for(removal.instance_id)
    return notice is not None and notice.id == operation_id


def signed_by(node: Node, operation_id: str) -> bool:
    """Whether our taint or cordon is on it, put there by this operation."""
    return node.owner is not None and node.owner.operation_id == operation_id


def cordoned_by(node: Node, operation_id: str) -> bool:
    return node.cordoned_by_us and signed_by(node, operation_id)


def _accepts_no_pods(node: Node, operation_id: str, hurried: bool) -> bool:
    """Whether nothing new comes onto the node; a node about to be lost is emptied, also if a person cordoned
    it."""
    return cordoned_by(node, operation_id) or (hurried and node.unschedulable)


def _plan(removal: Removal, node: Node, situation: Situation, disruptions: Disruptions) -> DrainPlan:
    """Players are asked for again with every look. A node that the cloud is reclaiming is emptied even if
    someone is playing on it."""
    hurried = situation.notice_for(removal.instance_id) is not None
    pods = situation.snapshot.cluster.pods_on.get(node.name, ())
    players = None if hurried else situation.snapshot.players_of
    # Crash table: silent-node.
    if removal.unhealthy and not node.ready:
        # Its kubelet reports the end of no pod and detaches no volume; both go with the instance.
        pods, node = still_there(node, pods, situation.now), replace(node, volumes_attached=())
    return plan_drain(node, pods, disruptions, situation.settings, players)


def _evict(removal: Removal, plan: DrainPlan, situation: Situation) -> Advance:
    pods = [judgement.pod for judgement in plan.treated(Treatment.EVICT)]
    evictions = tuple(effects.Evict(p.namespace, p.name, p.uid, p.node_name, p.grace_seconds) for p in pods)
    if evictions:
        removal = _fenced(removal, situation)
    # What the API server said about an eviction is kept until something else prevents the drain.
    return _with(removal, plan.obstacle_after(removal.obstacle)), evictions


def _fenced(removal: Removal, situation: Situation) -> Removal:
    """Remember until when effects on the node may be sent under this token: as long, and a call's timeout
    longer, a runner that stalled may still be sending them."""
    return replace(removal, fence_token=situation.lease.token, fence_until=situation.effects_until)


def _attempt_failed(removal: Removal, situation: Situation, why: Obstacle) -> Removal:
    # After so many attempts others are more likely to drain; this one is skipped for a while.
    if removal.attempts >= situation.settings.drain_attempts:
        return replace(_to(removal, RemovalState.RELEASING, situation, why), blamed=True)
    retry_at = situation.now + situation.settings.drain_retry_seconds
    return replace(_to(removal, RemovalState.PLANNED, situation, why), retry_at=retry_at)


def _drained(
    removal: Removal, node: Node, operation_id: str, situation: Situation, disruptions: Disruptions
) -> Advance:
    hurried = situation.notice_for(removal.instance_id) is not None
    plan = _plan(removal, node, situation, disruptions)
    # Crash table: late-pod. A pod may have come since the node was drained.
    if not plan.drained or not _accepts_no_pods(node, operation_id, hurried):
        return _to(removal, RemovalState.DRAINING, situation, plan.obstacle), ()
    # What the cloud takes is emptied and not terminated: the interruption may not come. A node that only a
    # person has cordoned is not ours to terminate.
    taken = _cloud_is_reclaiming(removal, operation_id, situation)
    if taken or (hurried and not cordoned_by(node, operation_id)):
        return removal, ()
    # A pod that was bound just before the cordon may not be listed yet.
    if situation.now - removal.since < situation.settings.settle_seconds:
        return removal, ()
    failed = may_terminate(removal, situation.snapshot, situation.record, situation.settings)
    if failed is None:
        irrevocable = replace(
            _to(removal, RemovalState.TERMINATING, situation, removal.obstacle), terminated=True
        )
        return irrevocable, (_terminate(irrevocable, node, operation_id, situation.now),)
    held = Obstacle(RemovalCause.CHECK, failed.says, failed.name)
    # A check that may hold again by itself does not undo a drain that is done.
    if failed.name in TRANSIENT or hurried:
        return _with(removal, held), ()
    return _to(removal, RemovalState.RELEASING, situation, held), ()


def _terminate(removal: Removal, node: Node | None, operation_id: str, now: int) -> effects.Terminate:
    if node is None:
        return effects.Terminate(removal.instance_id, "", "", operation_id)
    lost = lost_before(node, now) if removal.unhealthy else 0
    return effects.Terminate(removal.instance_id, node.name, node.uid, operation_id, lost)


def _terminating(
    removal: Removal, node: Node | None, operation_id: str, situation: Situation, disruptions: Disruptions
) -> Advance:
    if node is not None:
        plan = _plan(removal, node, situation, disruptions)
        # Crash table: not-drained. A pod that is still ending would be killed with the instance.
        if not plan.drained:
            removal, evictions = _evict(removal, plan, situation)
            # Lifting the cordon does not save the node: more pods would only be lost with it.
            again = () if node.unschedulable else (effects.Cordon(node.name, node.uid, operation_id),)
            return removal, again + evictions
    # The cloud accepted the call: it has this long to show it before it is asked again.
    if situation.now < removal.retry_at:
        return removal, ()
    return removal, (_terminate(removal, node, operation_id, situation.now),)


def release(removal: Removal, situation: Situation, why: Obstacle, blamed: bool = False) -> Removal:
    """Give a removal up, unless it is irrevocable or settled."""
    # Crash table: demand-returns. Once a terminate may be on its way, the node cannot be saved.
    if removal.settled or removal.state in (RemovalState.TERMINATING, RemovalState.RELEASING):
        return removal
    return replace(_to(removal, RemovalState.RELEASING, situation, why), blamed=blamed)


IN_THE_WAY = {
    RemovalState.PLANNED: "its drain had not begun",
    RemovalState.DRAINING: "its pods had not left",
    RemovalState.DRAINED: "it was drained, and not yet allowed to go",
}


def obstacle(removal: Removal) -> str:
    """What kept the removal from going on when it was last looked at."""
    return removal.reason or IN_THE_WAY.get(removal.state, "it was on its way")


def _releasing(removal: Removal, node: Node | None, operation_id: str, situation: Situation) -> Advance:
    stalled_until = removal.fence_until + situation.settings.request_timeout_seconds
    same_runner = removal.fence_token == situation.lease.token
    # A node that the cloud is reclaiming is handed to the answer to its notice at once.
    noticed = situation.notice_for(removal.instance_id) is not None
    passed_on = noticed and not _cloud_is_reclaiming(removal, operation_id, situation)
    # Crash table: stalled-eviction. Pods would come back to the node, and a late eviction would hit them.
    if not same_runner and not passed_on and situation.now < stalled_until:
        return removal, ()
    # Crash table: cordon-crash. Only our own cordon is lifted.
    if node is None or node.owner is None or not signed_by(node, operation_id):
        return _to(removal, RemovalState.RELEASED, situation, removal.obstacle), ()
    return removal, (effects.Uncordon(node.name, node.uid, operation_id, node.owner.token),)


def absorb_removal(removal: Removal, outcome: Outcome, situation: Situation) -> Removal:
    """Take in what cannot be learned by looking: refused taints, cordons, evictions, accepted terminates."""
    refused = outcome.kind is OutcomeKind.REFUSED
    told = Obstacle(RemovalCause.REFUSED, outcome.detail)
    match outcome.effect:
        case effects.SoftTaint(node_uid=uid) if refused and uid == removal.node_uid:
            # An interruption does not ask who cordoned the node: its pods are evicted all the same.
            if removal.state is RemovalState.PLANNED and situation.notice_for(removal.instance_id) is None:
                return replace(_to(removal, RemovalState.RELEASING, situation, told), blamed=True)
        case effects.Cordon(node_uid=uid) if refused and uid == removal.node_uid:
            if removal.state is RemovalState.DRAINING and situation.notice_for(removal.instance_id) is None:
                return replace(_to(removal, RemovalState.RELEASING, situation, told), blamed=True)
        case effects.Uncordon(node_uid=uid) if refused and uid == removal.node_uid:
            if removal.state is RemovalState.RELEASING:
                # Another signed it since: it is theirs, and must not hold this operation open.
                return _to(removal, RemovalState.RELEASED, situation, told)
        # A release in progress must not take over the reason of a late eviction.
        case effects.Evict(node_name=name) if (
            name == removal.node_name and removal.state is RemovalState.DRAINING
        ):
            return _told(removal, outcome, situation)
        case effects.Terminate(instance_id=instance_id) if instance_id == removal.instance_id:
            # Clouds accept a call long before they list the instance as going.
            if outcome.kind is OutcomeKind.DONE:
                retry_at = situation.now + situation.settings.request_timeout_seconds
                return replace(_with(removal, NO_OBSTACLE), retry_at=retry_at, refused_since=0)
            if refused and removal.state is RemovalState.TERMINATING:
                return _refused(removal, situation, outcome.detail)
        case _:
            pass
    return removal


def _told(removal: Removal, outcome: Outcome, situation: Situation) -> Removal:
    """What the API server answered to an eviction: a refusal ends the attempt, "later" is an obstacle."""
    hurried = situation.notice_for(removal.instance_id) is not None
    if outcome.kind is OutcomeKind.REFUSED and not hurried:
        return _attempt_failed(removal, situation, Obstacle(RemovalCause.REFUSED, outcome.detail))
    if outcome.kind is OutcomeKind.LATER and isinstance(outcome.effect, effects.Evict):
        return _with(removal, put_off(outcome.effect, outcome.detail))
    return removal


def _refused(removal: Removal, situation: Situation, detail: str) -> Removal:
    """The cloud gave a definite no. It is asked again with every tick, and set aside when that lasts; one
    that was set aside before is set aside again at once."""
    since = removal.refused_since or situation.now
    why = Obstacle(RemovalCause.CLOUD_REFUSES, f"the cloud refuses to terminate it: {detail}")
    told = replace(_with(removal, why), refused_since=since)
    lasts = situation.now - since >= situation.settings.stuck_seconds
    return _to(told, RemovalState.SET_ASIDE, situation, why) if lasts else told


def _to(removal: Removal, state: RemovalState, situation: Situation, why: Obstacle = NO_OBSTACLE) -> Removal:
    return replace(_with(removal, why), state=state, since=situation.now)


def _with(removal: Removal, why: Obstacle) -> Removal:
    return replace(removal, reason=why.says, why=why.cause, about=why.about)
