"""What to do next, with the reason for it and for everything that is not done.

`decide` is a function of what was seen, the record, the settings and the time, so a stored
decision can be computed again. It runs in every tick. Each action looks at its own lane: removals do not
block launches. Actions are tried in the order of `STRATEGIES`, the most urgent first; the first whose
preconditions all hold is taken.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial

from ebbtide.core.consolidation.evaluate import consolidate
from ebbtide.core.nodes import gates, headroom
from ebbtide.core.nodes.capacity import coming_slots, count_against_max, missing_by_pool, standing
from ebbtide.core.nodes.offers import refused_offers
from ebbtide.core.nodes.orphans import (
    claimable,
    cordon_id,
    dead_nodes,
    graces,
    in_place_of_minimum,
    lone_instances,
    may_be_foreign,
    overdue,
    retry,
    says_gone,
    says_uncounted,
    stray_cordons,
    to_forget,
)
from ebbtide.core.nodes.question import (
    Answer,
    Question,
    Strategy,
    backed_off,
    can_launch,
    cooled_down,
    launch_backoff,
    no_operation,
    no_removal,
    nothing_leaves,
)
from ebbtide.core.nodes.replacing import repair, replace_outdated
from ebbtide.core.nodes.sizing import nodes_for_cpu, plan_launch, says_skipped, without_minimum
from ebbtide.core.nodes.targets import choose_targets
from ebbtide.core.nodes.underused import choose_underused
from ebbtide.core.scale_to_zero.node_first import needed_by_wakes
from ebbtide.core.words import a_while, count_of, expected_nodes, notices_open, two_shares
from ebbtide.model.check import Gate, Values
from ebbtide.model.decision import Action, Check, Decision, Verdict
from ebbtide.model.operation import Removal, RemovalState, Slot, SlotState
from ebbtide.model.pod import Pod
from ebbtide.model.pool import RemovalReason
from ebbtide.model.record import Record
from ebbtide.model.settings import JudgedBy, Settings
from ebbtide.model.snapshot import Node, Snapshot


def decide(
    snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str, brief: bool = False
) -> Decision:
    """If it is `brief`, there is less detail on why each node stays, and on a consolidation that was not
    evaluated or finds nothing cheaper."""
    question = Question(snapshot, record, settings, now, operation_id(now, decision_id), brief)
    verdicts: list[Verdict] = []
    for action, strategy in STRATEGIES:
        answer = Answer()
        checks: list[Check] = []
        for check in strategy(question, answer):
            checks.append(check)
            if not check.passed:
                break
        verdicts.append(Verdict(action, tuple(checks), answer.refusals))
        if checks[-1].passed:
            return Decision(
                decision_id,
                now,
                action,
                answer.reason,
                tuple(verdicts),
                answer.slots,
                answer.removals,
                answer.consolidation,
                answer.cause,
            )
    said = _why_nothing(verdicts)
    return Decision(
        decision_id, now, Action.NOTHING, said, tuple(verdicts), consolidation=answer.consolidation
    )


def operation_id(now: int, decision_id: str) -> str:
    return f"{now}-{decision_id}"


WHERE_WANTED = (Action.REPAIR, Action.REPLACE, Action.CONSOLIDATE)
"""Actions whose refusal is news only where there is something that asks for them: their first check."""


def _why_nothing(verdicts: list[Verdict]) -> str:
    """A reason that holds for several actions, such as a cluster that cannot be read, is reported once."""
    told = [v for v in verdicts if v.action in (Action.SCALE_UP, Action.SCALE_DOWN)]
    told += [v for v in verdicts if v.action in WHERE_WANTED and v.checks[0].passed]
    failed = [(v.failed.says, _spoken(v.action)) for v in told if v.failed]
    by_reason: dict[str, list[str]] = {}
    for says, action in failed:
        by_reason.setdefault(says, []).append(f"no {action}")
    return "; ".join(f"{', '.join(names)}: {says}" for says, names in by_reason.items())


def _spoken(action: Action) -> str:
    return "consolidation" if action is Action.CONSOLIDATE else action.value.replace("_", "-")


def _adopt(q: Question, answer: Answer) -> Iterator[Check]:
    """What is adopted and does not join is terminated, so this passes the gates of a removal."""
    yield gates.complete(q.snapshot)
    yield gates.plausible(q.snapshot, q.record, q.settings)
    yield gates.not_paused(q.record)
    yield gates.all_matched(q.snapshot)
    lone, times = lone_instances(q.snapshot, q.record), graces(q.snapshot, q.record, q.settings)
    # Two clusters of one name in one account would terminate each other's workers.
    ours = [i for i in lone if not may_be_foreign(i, q.settings)]
    late = [i for i in ours if overdue(q.record, i.id, q.settings, q.now, times)]
    says = _older(len(late), len(ours), "lone instance", q.settings.orphan_grace_seconds * times)
    if others := len(lone) - len(ours):
        says += f"; {others} may be of another cluster with the same name"
    yield Check("orphan instance", bool(late), says, Values(len(late), 1))
    answer.slots = tuple(
        Slot(
            key=i.key,
            pool=i.pool,
            zone=i.zone,
            instance_type=i.instance_type,
            market=i.market,
            state=SlotState.LAUNCHED,
            since=min(i.launched_at, q.now),
            instance_id=i.id,
        )
        for i in late
    )
    answer.reason = (
        f"adopt {', '.join(i.id for i in late)}: the instance runs, but has no node and no operation"
    )


def _forget(q: Question, answer: Answer) -> Iterator[Check]:
    """Takes nothing away, so the health gate, which these very nodes would fail, is not asked. Where less
    is seen than before, as after every mass loss, only those go that the cloud lists as gone."""
    yield no_removal(q)
    yield gates.complete(q.snapshot)
    yield gates.not_paused(q.record)
    listed = len(q.snapshot.instances)
    yield Check("cloud lists instances", listed > 0, f"{listed} listed", Values(listed, 1))
    dead, late = dead_nodes(q.snapshot, q.record), to_forget(q.snapshot, q.record, q.settings, q.now)
    if not gates.plausible(q.snapshot, q.record, q.settings).passed:
        late = tuple(node for node in late if says_gone(node, q.snapshot))
    grace = q.settings.orphan_grace_seconds
    says = _older(len(late), len(dead), "dead node", grace)
    yield Check("dead node", bool(late), says, Values(len(late), 1))
    answer.removals = tuple(
        Removal(_instance_id(q, node), node.name, node.uid, node.zone, node.pool) for node in late
    )
    names = ", ".join(node.name for node in late)
    nodes, gone = ("node", "its instance is") if len(late) == 1 else ("nodes", "their instances are")
    answer.reason = f"forget {nodes} {names}: not ready, and {gone} gone"


def _older(late: int, found: int, noun: str, grace: int) -> str:
    if not found:
        return f"there is no {noun}"
    are = "is" if found == 1 else "are"
    return f"{late} of {count_of(found, noun)} {are} older than {a_while(grace)}"


def _instance_id(q: Question, node: Node) -> str:
    """By which a node is known in the record, also when the cloud no longer lists its instance."""
    instance = q.snapshot.instance_of.get(node.name)
    return instance.id if instance else node.instance_id or node.provider_id


def _release(q: Question, answer: Answer) -> Iterator[Check]:
    yield no_removal(q)
    yield gates.complete(q.snapshot)
    stray = stray_cordons(q.snapshot, q.record)
    late = [n for n in stray if overdue(q.record, cordon_id(n), q.settings, q.now)]
    grace = q.settings.orphan_grace_seconds
    yield Check(
        "stray cordon",
        bool(late),
        _older(len(late), len(stray), "stray cordon", grace),
        Values(len(late), 1),
    )
    answer.removals = tuple(
        Removal(
            _instance_id(q, node),
            node.name,
            node.uid,
            node.zone,
            node.pool,
            RemovalState.RELEASING,
        )
        for node in late
        if node.owner == late[0].owner
    )
    names = ", ".join(removal.node_name for removal in answer.removals)
    answer.reason = f"release {names}: cordoned by an operation that is closed"


def _scale_up(q: Question, answer: Answer) -> Iterator[Check]:
    backoff = launch_backoff(q.record, q.settings)
    waits = backed_off(backoff.failures, backoff.until, q.now)
    without = frozenset() if waits.passed else frozenset(backoff.about)
    whole = not waits.passed and not without
    refused = refused_offers(q.record, q.settings, q.now)
    without |= refused
    q = replace(q, settings=without_minimum(q.settings, without))
    settings, record = q.settings, q.record
    yield can_launch(q)
    yield gates.complete(q.snapshot)
    short = headroom.lacking(headroom.look(q.snapshot, record, settings))
    trigger, at_least = _pressure(q, short)
    yield trigger
    yield cooled_down(q, settings.cooldown_up_seconds, "cooldown_up_sec", excuse=_excuse(q))
    if whole or not without:
        yield waits
    count = count_against_max(q.snapshot, record)
    says = f"{expected_nodes(count)}, max_workers is {settings.max_workers}"
    says += f"; {short}" if short else ""
    yield Check("below maximum", count < settings.max_workers, says, Values(count, settings.max_workers))
    plan = plan_launch(q.snapshot, record, settings, at_least, without)
    if without:
        useful = bool(plan.offers)
        # The back-off is the reason only if one of the skipped offers would help.
        plan = plan if useful else plan_launch(q.snapshot, record, settings, at_least)
        waits = replace(waits, passed=useful or not plan.offers)
        yield replace(waits, says=says_skipped(waits, refused))
    fits = "the pending pods fit on existing nodes or on nodes being launched"
    launch = count_of(len(plan.offers), "node")
    stopped = next(iter(plan.hopeless), plan.stopped)
    says = launch if plan.offers else stopped.says if stopped else fits
    yield Check("something to launch", bool(plan.offers), says, Values(len(plan.offers), 1))
    answer.slots = tuple(offer.slot(f"{q.operation_id}-{n}") for n, offer in enumerate(plan.offers))
    counts = Counter(f"{offer.node_type.name} in {offer.zone}" for offer in plan.offers)
    places = ", ".join(
        place if len(plan.offers) == 1 else f"{count} x {place}" for place, count in counts.items()
    )
    answer.reason = f"launch {places}: {trigger.says}"


def _pressure(q: Question, short: str) -> tuple[Check, int]:
    """Whether anything asks for more nodes, and how many at least."""
    settings, record = q.settings, q.record
    cpu, name = q.snapshot.cpu.value, "pressure"
    waiting = q.snapshot.cluster.waiting_pods
    waited = q.now - record.pending_since if record.pending_since else 0
    woken = needed_by_wakes(q.snapshot, record, settings)
    needed = sum(count for _, count in woken.lack)
    says, unadopted = [woken.says] if woken.says else [], ""
    says += [short] if short else []
    values = Values(cpu, settings.cpu_up)
    if waiting:
        values = Values(waited, settings.pending_up_seconds, waiting[0].full_name)
    if cpu is not None and cpu > settings.cpu_up:
        wanted = nodes_for_cpu(len(standing(q.snapshot, record)), cpu, settings) - len(coming_slots(record))
        needed = max(needed, wanted)
        value, limit = two_shares(cpu, settings.cpu_up)
        says += [f"CPU {value} is above {limit}"] if wanted > 0 else []
    if record.short_since and q.now - record.short_since >= settings.pending_up_seconds:
        ready, lack = len(standing(q.snapshot, record)), missing_by_pool(q.snapshot, record, settings.pools)
        lack_of_all = settings.min_workers - ready - len(coming_slots(record))
        # Before the first `ebbtide adopt` the workers of the cluster are nobody's: the minimum must not
        # launch every one of them a second time.
        there = in_place_of_minimum(q.snapshot.cluster, settings.pools)
        lack_of_all, lack = lack_of_all - there.total(), lack - there
        needed = max(needed, lack_of_all, lack.total())
        if there and lack_of_all <= 0 and not lack:
            unadopted = says_uncounted(claimable(q.snapshot.cluster, settings.pools))
        elif lack_of_all > 0 or not lack:
            are = "is" if ready == 1 else "are"
            says.append(f"{count_of(ready, 'ready worker')} {are} below min_workers {settings.min_workers}")
        says += [f"pool {pool} lacks {count} workers of its minimum" for pool, count in lack.items()]
    if waiting and waited >= settings.pending_up_seconds:
        says.append(_says_pending(q, waiting))
    if says:
        return Check(name, True, "; ".join(says), values), needed
    if unadopted:
        return Check(name, False, unadopted, values), 0
    value, limit = two_shares(cpu or 0.0, settings.cpu_up)
    heat = q.snapshot.cpu.problem or "CPU is unknown" if cpu is None else f"CPU {value} is not above {limit}"
    if cpu is not None and cpu > settings.cpu_up:
        heat = f"CPU {value} is above {limit}, and enough nodes are being launched"
    if waiting:
        heat += f", {_says_pending(q, waiting)}"
    else:
        heat += ", no pod is pending"
    return Check(name, False, heat, values), 0


def _says_pending(q: Question, waiting: Sequence[Pod]) -> str:
    """The timer runs for as long as any pod is pending. Those that are pending now may have come later."""
    since, oldest = q.record.pending_since, min(pod.created_at for pod in waiting)
    later = 0 < since < oldest
    told = a_while(q.now - max(since, oldest) if since else 0)
    how = "has been pending for" if len(waiting) == 1 else "are pending, the oldest for"
    says = f"{count_of(len(waiting), 'pod')} {how} {told}"
    if later:
        says += f" (there have been pending pods for {a_while(q.now - since)})"
    return f"{says}, pending_up_sec is {a_while(q.settings.pending_up_seconds)}"


def _excuse(q: Question) -> str:
    """What skips the cooldown of a scale-up."""
    if q.snapshot.cluster.waiting_pods and not standing(q.snapshot, q.record):
        return "pods are pending and there is no worker"
    return needed_by_wakes(q.snapshot, q.record, q.settings).says


def _scale_down(q: Question, answer: Answer) -> Iterator[Check]:
    settings, record, snapshot = q.settings, q.record, q.snapshot
    one_by_one = settings.scale_down_by == JudgedBy.NODE
    # Judged one by one, what carries nothing may go next to a launch: `choose_underused` sees to that.
    yield no_removal(q) if one_by_one else no_operation(q)
    yield gates.not_paused(record)
    yield gates.complete(snapshot)
    yield gates.plausible(snapshot, record, settings)
    yield gates.healthy(snapshot, record, settings)
    yield from _calm(q) if one_by_one else _idle(q)
    yield cooled_down(q, settings.cooldown_down_seconds, "cooldown_down_sec")
    yield backed_off(record.removal_failures, record.removal_backoff_until, q.now)
    spots = len(record.spots)
    yield Check("no spot notice open", not spots, notices_open(spots), Values(spots, 0))
    yield nothing_leaves(q)
    ready = len(standing(snapshot, record))
    spare = ready - settings.min_workers
    says = f"{count_of(ready, 'ready and schedulable worker')}, min_workers is {settings.min_workers}"
    yield Check("above minimum", spare > 0, says, Values(ready, settings.min_workers))
    yield gates.budget_left(snapshot, record, settings, RemovalReason.IDLE)
    room = gates.cluster_room(snapshot, record, settings, RemovalReason.IDLE).count
    limit = min(settings.batch_down(ready), spare, room)
    while limit > 1 and not gates.load_on(ready - limit, snapshot, settings).passed:
        limit -= 1
    load = gates.load_on(ready - limit, snapshot, settings)
    if not load.passed:
        yield load
    choose = partial(choose_underused, brief=q.brief) if one_by_one else choose_targets
    removals, refusals = choose(snapshot, record, settings, q.now, limit)
    answer.refusals = refusals
    # Fewer may go than the limit allows: the load is told for those that do, or for the first that might.
    yield gates.load_on(ready - max(1, len(removals)), snapshot, settings)
    why = f"{refusals[0].node_name}: {refusals[0].reason}" if refusals else "no ready worker"
    says = count_of(len(removals), "node") if removals else f"none of {ready} ready workers may go; {why}"
    first = "" if removals or not refusals else refusals[0].node_name
    yield Check("a node can go", bool(removals), says, Values(len(removals), 1, first))
    yield gates.keeps_minimum(snapshot, record, settings, removals)
    yield gates.keeps_zones(snapshot, record, settings, removals)
    yield gates.within_budget(snapshot, record, settings, removals, RemovalReason.IDLE)
    if settings.headroom:
        yield headroom.keeps_headroom(snapshot, record, settings, [one.node_name for one in removals])
    answer.removals = removals
    names = ", ".join(removal.node_name for removal in removals)
    idle = q.now - record.idle_since
    cpu = snapshot.cpu.value or 0.0
    why = f"CPU {cpu:.2f} and no pod pending for {a_while(idle)}"
    if one_by_one:
        why = f"empty or underused for at least {a_while(settings.idle_down_seconds)}"
    answer.reason = f"remove {names}: {why}"


def _calm(q: Question) -> Iterator[Check]:
    """What is asked of the cluster where nodes are judged one by one."""
    yield gates.load_known(q.snapshot)
    pending = gates.no_pod_pending(q.snapshot)
    if pending.passed:
        yield pending
        return
    free = [node for node in standing(q.snapshot, q.record) if _is_free(node, q)]
    says = f"{pending.says}; none may go onto {count_of(len(free), 'worker')} that carry nothing"
    yield Check(Gate.NO_POD_PENDING, bool(free), says if free else pending.says, pending.values)


def _is_free(node: Node, q: Question) -> bool:
    return gates.none_pending_for(node, q.snapshot, q.settings).passed


def _idle(q: Question) -> Iterator[Check]:
    settings, cpu = q.settings, q.snapshot.cpu
    yield gates.load_known(q.snapshot)
    low = (cpu.value or 0.0) < settings.cpu_down
    value, limit = two_shares(cpu.value or 0.0, settings.cpu_down)
    says = f"CPU {value} is {'below' if low else 'not below'} {limit}"
    yield Check("CPU low", low, says, Values(cpu.value, settings.cpu_down))
    yield gates.no_pod_pending(q.snapshot)
    idle = q.now - q.record.idle_since if q.record.idle_since else 0
    least = settings.idle_down_seconds
    enough = bool(q.record.idle_since) and idle >= least
    says = f"idle for at least {a_while(least)}"
    if not enough:
        says = f"idle for {a_while(idle)}, idle_down_sec is {a_while(least)}"
    yield Check("idle long enough", enough, says, Values(idle, least))


STRATEGIES: tuple[tuple[Action, Strategy], ...] = (
    (Action.FORGET, _forget),
    (Action.SCALE_UP, _scale_up),
    (Action.RELEASE, _release),
    (Action.RETRY, retry),
    (Action.ADOPT, _adopt),
    (Action.REPAIR, repair),
    (Action.SCALE_DOWN, _scale_down),
    (Action.REPLACE, replace_outdated),
    (Action.CONSOLIDATE, consolidate),
)
