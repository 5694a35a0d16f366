"""Which workers are replaced: unwell, expired or drifted ones. docs/replacing.md."""

from __future__ import annotations

from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import Node
from tests.oracle import nodes, pace
from tests.oracle.answers import Ruling, either, no, rule, strictest, yes
from tests.oracle.facts import By, Moment
from tests.oracle.load import pending
from tests.oracle.scale_down import can_be_drained

BRAKE_PERCENT = 20


def _pool_of(moment: Moment, node: Node) -> Pool | None:
    return next((pool for pool in moment.settings.pools if pool.name == node.pool), None)


@rule("replacing: `expired`", "yes", "no")
def is_expired(moment: Moment, node: Node) -> Ruling:
    """ "it is older than `expire_after` of its pool"; "never where it is left out"."""
    pool = _pool_of(moment, node)
    if pool is None or not pool.expire_seconds:
        return no("its pool has no expire_after")
    age = moment.now - node.created_at
    return yes(f"{age} s old") if age >= pool.expire_seconds else no(f"{age} s old")


@rule("replacing: `drifted`", "yes", "no")
def is_drifted(moment: Moment, node: Node) -> Ruling:
    """ "its type is not in the pool, or it was launched with another configuration"; "a node without a hash
    [...] is judged by what can be seen: type, labels and taints of the pool that it lacks"."""
    pool, machine = _pool_of(moment, node), moment.machines.get(node.name)
    if not moment.settings.replace_drifted or pool is None or machine is None:
        return no("nobody asks")
    if machine.kind not in {kind.name for kind in pool.types}:
        return yes(f"its type is {machine.kind}")
    if machine.configuration and pool.launch_hash:
        same = machine.configuration == pool.launch_hash
        return no("launched as today") if same else yes("launched with another configuration")
    lacks = [key for key, value in pool.labels if dict(node.labels).get(key) != value]
    lacks += [taint.key for taint in pool.taints if taint not in node.taints]
    return yes(f"{lacks[0]} is missing") if lacks else no("all that can be seen is as it should be")


def _unwell(moment: Moment, node: Node) -> bool:
    """Now, for however short a time."""
    machine = moment.machines.get(node.name)
    if machine is None or not machine.runs or nodes.is_worker(node).answer == "no":
        return False
    return not node.ready or any(one in moment.settings.repair_conditions for one in node.conditions)


@rule("replacing: `unhealthy`", "yes", "no")
def is_unhealthy(moment: Moment, node: Node) -> Ruling:
    """ "it is not Ready for `repair_after_sec` while its instance runs, or it reports a condition of
    `repair_conditions` for that long"; `repair` is off in `classic`."""
    if not moment.settings.repair:
        return no("repair is off")
    since = moment.unwell_since.get(node.name, 0)
    if not _unwell(moment, node) or not since:
        return no("it is well")
    lasts = moment.now - since
    return yes(f"for {lasts} s") if lasts >= moment.settings.repair_after_seconds else no(f"for {lasts} s")


@rule("replacing: 'Health brake'", "yes", "no")
def brake_is_off(moment: Moment, pool: str) -> Ruling:
    """ "Nothing in a pool is repaired while more than 20 % of it (rounded up) is unwell"; "A node that is not
    Ready counts here whatever the cloud says of its instance"."""
    workers = [node for node in moment.nodes if node.pool == pool and nodes.is_worker(node).answer == "yes"]
    sick = sum(_unwell(moment, node) or not node.ready for node in workers)
    most = -(-len(workers) * BRAKE_PERCENT // 100)
    return yes(f"{sick} of {len(workers)}") if sick <= most else no(f"{sick} of {len(workers)} are unwell")


@rule("replacing: 'What happens', 1", "yes", "no")
def may_repair(moment: Moment, node: Node) -> Ruling:
    """ "Nodes of a pool that a policy put to sleep are not replaced [...] One that is not Ready is removed by
    repair once its pods have ended"."""
    pool = _pool_of(moment, node)
    if pool is not None and pool.may_be_empty and not _silent_and_ended(moment, node):
        return no("its pool sleeps")
    asked = [is_unhealthy(moment, node), brake_is_off(moment, node.pool), nodes.may_touch(node)]
    asked += [pace.removals_may_resume(moment), _nothing_else(moment), _whole(moment)]
    return strictest(asked)


@rule("replacing: 'What happens', 1", "yes", "no", "either")
def may_refresh(moment: Moment, node: Node) -> Ruling:
    """For a worker that is expired or drifted: it is Ready, and "pause, health of the cluster, budgets,
    minimum, zones, load, drain rules, players" are checked first."""
    pool = _pool_of(moment, node)
    if pool is not None and pool.may_be_empty:
        return no("its pool sleeps")
    if is_expired(moment, node).answer == "no" and is_drifted(moment, node).answer == "no":
        return no("it is as it should be")
    if pending(moment):
        return no("a pod is pending")
    asked = [_counts(node), nodes.may_touch(node), pace.cooled_down(moment), pace.removals_may_resume(moment)]
    asked += [_nothing_else(moment), _whole(moment), can_be_drained(moment, node.name, By.SCALE_DOWN)]
    return strictest(asked)


@rule("replacing: 'A node that never took a pod is removed at once'", "yes", "either")
def must_repair(moment: Moment) -> Ruling:
    """ "if minimum and zones allow it"."""
    if pending(moment) or moment.cpu is None or moment.cpu > moment.settings.cpu_up:
        return either("something else may come first")
    if len(nodes.staying(moment, ())) < moment.settings.min_workers:
        return either("workers are missing")
    for node in moment.nodes:
        empty = all(pod.controller == "DaemonSet" for pod in moment.on(node.name))
        # A node that is Ready may carry load, which the rest must then be able to take.
        if not empty or node.ready or node.unschedulable or may_repair(moment, node).answer != "yes":
            continue
        keeps = [nodes.keeps_minimum(moment, [node.name]), nodes.keeps_zones(moment, [node.name])]
        if all(ruling.answer == "yes" for ruling in keeps):
            return yes(f"{node.name} is unhealthy and carries nothing")
    return either("nobody must be repaired")


def _counts(node: Node) -> Ruling:
    return yes() if node.ready else no("it is not Ready: that is for repair")


def _nothing_else(moment: Moment) -> Ruling:
    busy = moment.launching or moment.removing or moment.notices
    return no("something else is in progress, or removals are paused") if busy or moment.held else yes()


def _whole(moment: Moment) -> Ruling:
    return yes() if moment.whole else no("not everything was seen")


@rule("replacing: 'Ready before anything is done to the old node'", "yes", "no")
def launches_enough(moment: Moment, node: Node, launched: int) -> Ruling:
    """ "One node is replaced at a time." "A node that never took a pod is removed at once"; "at the maximum
    [...] a silent node whose pods have all ended is then removed first"."""
    pool = _pool_of(moment, node)
    asleep = pool is not None and pool.may_be_empty
    if launched > 1 or (launched and asleep):
        return no(f"{launched} nodes are launched for one")
    if launched:
        return yes("its replacement comes first")
    stays = [pod for pod in moment.on(node.name) if pod.controller != "DaemonSet" and not pod.mirror]
    if not stays:
        return yes("it carries nothing") if _unwell(moment, node) else no("it is well, so it is replaced")
    full = nodes.within_maximum(moment, [node.pool]).answer == "no"
    goes = (full or asleep) and _silent_and_ended(moment, node)
    return yes("its pods have ended, and there is no room") if goes else no("it carries pods")


def _silent_and_ended(moment: Moment, node: Node) -> bool:
    stays = [pod for pod in moment.on(node.name) if pod.controller != "DaemonSet" and not pod.mirror]
    return not node.ready and all(pod.terminating for pod in stays)


@rule("replacing: 'the same type in the same zone if the pool still has both'", "yes", "no", "either")
def keeps_its_place(moment: Moment, node: Node, zone: str, kind: str) -> Ruling:
    """ "otherwise the cheapest type that takes the pods"."""
    pool, machine = _pool_of(moment, node), moment.machines.get(node.name)
    if pool is None or machine is None:
        return either("nothing is known of it")
    has_both = node.zone in pool.zones and machine.kind in {one.name for one in pool.types}
    if not has_both:
        return either("the pool no longer has both")
    same = (zone, kind) == (node.zone, machine.kind)
    return yes("like for like") if same else no(f"{kind} in {zone} instead")
