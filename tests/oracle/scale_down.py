"""Whether a scale-down may start, must stop, or may terminate a node. `scale-down-algorithm.md`, rows 4, 9,
28-30."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from ebbtide.model.snapshot import Node
from tests.oracle import eviction, load, nodes, pace
from tests.oracle.answers import Meaning, Ruling, either, no, rule, strictest, yes
from tests.oracle.facts import By, Moment


@rule("scale-down 'Preconditions'", "yes", "no", "either")
def may_start(moment: Moment, removing: Sequence[str]) -> Ruling:
    """ "considered only if all of the following are true": the four preconditions, and the guarantees for AZs
    and for the pods on each target."""
    if moment.removing:
        return no("removals are in progress")
    rulings = [
        load.idle_enough(moment),
        pace.cooled_down(moment),
        pace.removals_may_resume(moment),
        nodes.keeps_minimum(moment, removing),
        nodes.keeps_zones(moment, removing),
        load.rest_carries_load(moment, removing),
    ]
    rulings += [nodes.may_touch(node) for node in moment.nodes if node.name in removing]
    rulings += [can_be_drained(moment, name, By.SCALE_DOWN) for name in removing]
    rulings += [either("a launch is in progress")] if moment.launching else []
    return strictest(rulings)


@rule("scale-down 'Kubernetes Safety', row 30", "yes", "no", "either")
def can_be_drained(moment: Moment, node_name: str, by: By) -> Ruling:
    """A node whose drain would have to abort is not chosen. A used-up budget may allow a disruption later."""
    unbudgeted = replace(moment, budgets=())
    open_question = yes("all its pods may be evicted")
    for pod in moment.on(node_name):
        if eviction.passed_over(pod).answer == "yes":
            continue
        ruling = eviction.may_evict(pod, by, unbudgeted)
        if ruling.answer == "no":
            return no(f"{pod.full_name}: {ruling.why}")
        if ruling.answer == "either" or eviction.budget_allows(pod, moment.budgets).answer != "yes":
            open_question = either(f"{pod.full_name} may be in the way")
    return open_question


@rule("scale-down 'Preconditions' and row 9", "yes", "either")
def must_start(moment: Moment) -> Ruling:
    """Where nothing speaks against it and some node is plainly free to go, the algorithm requests a
    scale-down; in all other cases doing nothing is allowed."""
    busy = moment.launching or moment.removing or moment.notices or moment.held or moment.coming
    if not moment.whole or busy or moment.going:
        return either("something else may come first")
    if any(nodes.counts(node).answer == "no" for node in moment.nodes if node.pool):
        return either("some nodes do not count")
    for node in moment.nodes:
        free = nodes.counts(node).answer == "yes" and node.name not in moment.resting and _bare(moment, node)
        if free and may_start(moment, [node.name]).answer == "yes":
            return yes(f"{node.name} may go")
    return either("no node is plainly free to go")


def _bare(moment: Moment, node: Node) -> bool:
    """Nothing on it that would need a place elsewhere."""
    return all(eviction.passed_over(pod).answer == "yes" for pod in moment.on(node.name))


@rule("scale-down 'AZ-Aware Capacity Protection'", "yes", "no", "either")
def right_order(moment: Moment, chosen: str) -> Ruling:
    """ "Prefer AZs with higher worker counts [...]; remove oldest nodes first": among nodes that are
    alike."""
    workers = nodes.staying(moment, ())
    alike = len({(n.pool, n.instance_type, n.market) for n in workers}) == 1 and not moment.resting
    if not alike or not all(_bare(moment, node) for node in workers) or len(moment.nodes) != len(workers):
        return either("the nodes differ in more than zone and age")
    node = moment.named(chosen)
    if node is None:
        return either("it is gone")
    zones = Counter(one.zone for one in workers)
    if zones[node.zone] < max(zones.values()):
        return no(f"zone {node.zone} has {zones[node.zone]} workers, another has more")
    fullest = [o for o in workers if zones[o.zone] == zones[node.zone]]
    older = [o.name for o in fullest if o.created_at < node.created_at]
    return no(f"{older[0]} is older") if older else yes("the oldest of the fullest zones")


@rule("row 45", "yes", "no", "either")
def keeps_preferred(moment: Moment, chosen: str) -> Ruling:
    """ "`preferred_zones` is the last tie-break of what to keep": of nodes that are alike in all else, one of
    a zone that is preferred less goes first."""
    node = moment.named(chosen)
    if node is None or right_order(moment, chosen).answer != "yes":
        return either("other rules come first")
    workers = nodes.staying(moment, ())
    zones = Counter(one.zone for one in workers)
    tied = [o for o in workers if (zones[o.zone], o.created_at) == (zones[node.zone], node.created_at)]
    order = moment.settings.preferred_zones
    rank = {zone: order.index(zone) if zone in order else len(order) for zone in zones}
    if len({rank[one.zone] for one in tied}) < 2:
        return either("there is no tie to break")
    last = max(rank[one.zone] for one in tied)
    return yes("the least preferred") if rank[node.zone] == last else no(f"zone {node.zone} is preferred")


@rule("row 36", "pod", "none")
def obstacles(moment: Moment, node_name: str) -> Meaning[frozenset[str]]:
    """ "the obstacle is kept and said: pod, rule or budget". The value are the pods that are left; one of
    them, or what protects it, has to be named."""
    left = [pod for pod in moment.on(node_name) if eviction.passed_over(pod).answer == "no"]
    stubborn = [pod for pod in left if eviction.may_evict(pod, By.SCALE_DOWN, moment).answer == "no"]
    return Meaning("pod" if stubborn else "none", frozenset(pod.full_name for pod in left))


@rule("rows 4, 28", "yes", "no", "either")
def must_give_up(moment: Moment, node_name: str, started_at: int) -> Ruling:
    """ "a scale-down is released when CPU is above CPU_UP"; after 15 minutes "the operation fails: what it
    cordoned and did not terminate is uncordoned"."""
    if moment.now - started_at >= moment.settings.stuck_seconds:
        return yes("it took too long")
    node = moment.named(node_name)
    if load.must_release(moment).answer == "yes":
        carries = node is not None and node.ready
        return yes("load is back") if carries else either("a node that is not Ready carries no load")
    return either("pods are pending") if pending_or_held(moment) else no("nothing ends it")


def pending_or_held(moment: Moment) -> bool:
    return bool(load.pending(moment)) or moment.held or moment.cpu is None


@rule("scale-down phase 2, 'AZ-Aware', rows 28, 29", "yes", "no", "either")
def may_terminate(moment: Moment, node_name: str) -> Ruling:
    """ "If drain fails, the instance is NOT terminated"; minimum, zones and load are asked again."""
    node = moment.named(node_name)
    if node is None:
        return either("its node is gone already")
    if not moment.whole:
        return no("not everything was seen")
    left = [p.full_name for p in moment.on(node_name) if eviction.passed_over(p).answer == "no"]
    return strictest(
        (
            no(f"{left[0]} is still on it") if left else yes("drained"),
            nodes.may_touch(node),
            nodes.keeps_minimum(moment, [node_name]),
            nodes.keeps_zones(moment, [node_name]),
            load.rest_carries_load(moment, [node_name]),
            no("load is back") if load.must_release(moment).answer == "yes" else yes("no load"),
        )
    )
