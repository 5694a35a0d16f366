"""Consolidation: what must be asked before, which nodes may be deleted, what a plan must save and leave free.
`consolidation-policy.md`, rows 12-18, 24, 30."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal

from ebbtide.model.operation import Move
from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.snapshot import Node
from tests.oracle import eviction, nodes, servers
from tests.oracle.answers import Ruling, either, no, rule, strictest, yes
from tests.oracle.facts import By, Moment
from tests.oracle.load import pending

PRICES = {
    "cpx12": Decimal("0.0048"),
    "cpx22": Decimal("0.0096"),
    "cpx32": Decimal("0.0168"),
    "cpx42": Decimal("0.0312"),
    "cpx52": Decimal("0.0624"),
    "cpx62": Decimal("0.1056"),
}
"""The table of the document; row 11 confirms cpx32."""


@rule("consolidation phase 1.2", "yes", "no", "either")
def cooled_down(moment: Moment, fruitless: int) -> Ruling:
    """ "Cooldown active? (2 hours) -> Yes: return"."""
    rules = moment.settings.consolidation
    since = moment.now - moment.last_consolidation_at
    if moment.last_consolidation_at and since < rules.cooldown_seconds:
        return no(f"{since} s since the last consolidation")
    return either("after one in vain it may wait longer") if fruitless else yes("cooled down")


@rule("consolidation phases 1.3, 1.4, 'Deployment-Aware'", "yes", "no", "either")
def calm(moment: Moment) -> Ruling:
    """ "System stable? (no scaling operations)"; "Queue empty?"; "any container status = 'starting'"."""
    if moment.launching or moment.removing:
        return no("a scaling operation is open")
    if pending(moment):
        return no("pods are pending")
    for pod in moment.pods:
        if eviction.passed_over(pod).answer == "yes" or pod.terminating:
            continue
        if servers.words_of(pod).get("status") == "starting" or pod.phase is PodPhase.PENDING:
            return no(f"{pod.full_name} is starting")
        if not pod.ready:
            return either(f"{pod.full_name} is not ready")
    return either("a spot notice is open") if moment.notices else yes("calm")


@rule("consolidation phase 1", "yes", "no", "either")
def may_begin(moment: Moment, fruitless: int) -> Ruling:
    """Enabled, cooled down, stable, queue empty, at least 2 nodes."""
    if not moment.settings.consolidation.enabled:
        return no("off")
    workers = sum(nodes.is_worker(node).answer == "yes" for node in moment.nodes)
    standing = len(nodes.staying(moment, ()))
    enough = (
        yes("two or more") if standing >= 2 else either("not all count") if workers >= 2 else no("one node")
    )
    return strictest((cooled_down(moment, fruitless), calm(moment), enough))


@rule("consolidation principles 1 and 2, 'Before ANY Node Deletion', row 16", "yes", "no")
def may_delete(moment: Moment, node: Node) -> Ruling:
    """0 containers, not a system node, alive for 30 minutes or more, idle for 15 minutes or more."""
    rules = moment.settings.consolidation
    if nodes.is_worker(node).answer == "no":
        return no("not a worker")
    if any(eviction.passed_over(pod).answer == "no" for pod in moment.on(node.name)):
        return no("it has containers")
    if moment.now - node.created_at < rules.min_uptime_seconds:
        return no("too young")
    since = moment.empty_since.get(node.name)
    if since is None or moment.now - since < rules.min_idle_seconds:
        return no("not idle for long enough")
    return yes("old and idle enough")


@rule("row 14, consolidation phase 2", "yes", "no", "either")
def may_empty(moment: Moment, node: Node) -> Ruling:
    """ "an occupied one is first emptied by a validated migration plan": if it is old enough and every pod on
    it may move."""
    if nodes.is_worker(node).answer == "no":
        return no("not a worker")
    if moment.now - node.created_at < moment.settings.consolidation.min_uptime_seconds:
        return no("too young")
    rulings = [
        eviction.may_evict(pod, By.CONSOLIDATION, moment)
        for pod in moment.on(node.name)
        if eviction.passed_over(pod).answer == "no"
    ]
    return strictest(rulings)


@rule("consolidation 'Cost-Aware Threshold', rows 12, 16, 24", "yes", "no")
def saves_enough(moment: Moment, removed: Sequence[Node], launched: Sequence[str]) -> Ruling:
    """ "Only consolidate if savings >= €0.10/hour": the prices of what goes less those of what comes."""
    prices = _prices(moment)
    saved = sum((prices[n.instance_type] for n in removed), Decimal(0))
    saved -= sum((prices[name] for name in launched), Decimal(0))
    least = moment.settings.consolidation.min_savings_per_hour
    return yes(f"{saved}") if saved >= least else no(f"{saved} is less than {least}")


def _prices(moment: Moment) -> Mapping[str, Decimal]:
    own = {
        kind.name: kind.price.per_hour
        for pool in moment.settings.pools
        for kind in pool.types
        if kind.price is not None
    }
    return PRICES | own


@rule("row 13", "yes", "no")
def keeps_one(moment: Moment, removing: Sequence[str], launched: int) -> Ruling:
    """ "always at least one, unless scale-to-zero of the pool is switched on"; here no pool may be empty."""
    left = len(nodes.staying(moment, removing)) + launched
    return yes("one is left") if left else no("none would be left")


@rule("row 15, consolidation phase 5", "yes", "no", "either")
def leaves_free(moment: Moment, moves: Sequence[Move], removing: Sequence[str]) -> Ruling:
    """ "packing is done at 70 %; validated after": a node that takes pods in stays at or below that."""
    limit = moment.settings.consolidation.max_fill
    leaving = {move.pod_uid for move in moves}
    verdict = yes("room is left")
    for name in {move.to_node for move in moves}:
        node = moment.named(name)
        if node is None:
            verdict = either("a node that is launched for it")
            continue
        if name in removing:
            return no(f"{name} is to go itself")
        here = [p for p in moment.on(name) if p.phase.value not in ("Succeeded", "Failed")]
        coming = {move.pod_uid for move in moves if move.to_node == name}
        pods: list[Pod] = [p for p in here if p.uid not in leaving]
        pods += [pod for pod in moment.pods if pod.uid in coming]
        for offered, asked in (
            (node.allocatable.cpu_milli, sum(p.requests.cpu_milli for p in pods)),
            (node.allocatable.memory_mib, sum(p.requests.memory_mib for p in pods)),
        ):
            if asked > limit * offered:
                return no(f"{name} would be filled to {asked} of {offered}")
    return verdict


@rule("consolidation scenarios 4 and 5", "yes", "either")
def must_proceed(moment: Moment, fruitless: int) -> Ruling:
    """ "All empty for >15min, all alive >30min, 0 servers in queue": all but the cheapest go, if that saves
    enough. Of clusters with pods on them the documents do not say what must be found."""
    workers = nodes.staying(moment, ())
    ranked = sorted(workers, key=lambda node: _prices(moment)[node.instance_type])
    plain = len(workers) == len(moment.nodes) and moment.settings.min_workers <= 1 and not moment.held
    plain = plain and moment.whole and not moment.notices and not moment.resting
    if not plain or may_begin(moment, fruitless).answer != "yes":
        return either("something may be in the way")
    if any(may_delete(moment, node).answer == "no" for node in workers):
        return either("not all are old and idle")
    if saves_enough(moment, ranked[1:], ()).answer == "no":
        return either("too little to save")
    return yes("all but the cheapest can go")
