"""Which nodes count, and what must stay: minimum, zones, maximum. Rows 9, 10, 26 and 29."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ebbtide.model.snapshot import Node
from tests.oracle.answers import Ruling, either, no, rule, yes
from tests.oracle.facts import Moment


@rule("row 26", "yes", "no")
def is_worker(node: Node) -> Ruling:
    """ "control-plane and server nodes (by role label), nodes outside our pools and nodes marked as system
    are never counted as workers and never touched"."""
    if not node.pool:
        return no("outside our pools")
    return no("control plane or system") if node.control_plane or node.system else yes("a worker")


@rule("row 29", "yes", "no")
def counts(node: Node) -> Ruling:
    """ "minimum, zones and 'load fits the rest' count only workers that are Ready and schedulable"."""
    if is_worker(node).answer == "no":
        return no("not a worker")
    return yes("capacity") if node.ready and not node.unschedulable else no("not Ready, or cordoned")


def staying(moment: Moment, removing: Collection[str]) -> list[Node]:
    """Workers that count and stay once these and all that is on its way out are gone."""
    out = set(removing) | moment.going
    return [node for node in moment.nodes if node.name not in out and counts(node).answer == "yes"]


@rule("scale-down precondition 3, row 29", "yes", "no")
def keeps_minimum(moment: Moment, removing: Collection[str]) -> Ruling:
    """ "workerCount - toRemove >= minWorkers"."""
    left = staying(moment, removing)
    if len(left) < moment.settings.min_workers:
        return no(f"{len(left)} would be left, min_workers is {moment.settings.min_workers}")
    concerned = {node.pool for node in moment.nodes if node.name in removing}
    for pool in moment.settings.pools:
        in_pool = sum(node.pool == pool.name for node in left)
        if pool.name in concerned and in_pool < pool.min_workers:
            return no(f"{in_pool} would be left in pool {pool.name}, its minimum is {pool.min_workers}")
    return yes("enough are left")


@rule("scale-down 'AZ-Aware Capacity Protection', row 29", "yes", "no", "either")
def keeps_zones(moment: Moment, removing: Collection[str]) -> Ruling:
    """ "Avoid draining an AZ to zero when multiple AZs exist"."""
    asleep = {pool.name for pool in moment.settings.pools if pool.may_be_empty}
    gone = [node for node in moment.nodes if node.name in removing]
    left = {node.zone for node in staying(moment, removing)}
    emptied = [node.zone for node in gone if node.zone not in left and node.pool not in asleep]
    if not emptied:
        return yes("every zone keeps a worker")
    zones = {node.zone for node in (*staying(moment, ()), *gone)}
    if len(zones) > 1:
        return no(f"zone {emptied[0]} would be left without a worker")
    return either("whether a zone without a worker that counts makes two is not said")


@rule("defaults, rows 10, 29", "yes", "no")
def within_maximum(moment: Moment, launched: Iterable[str]) -> Ruling:
    """ "while below max"; "total stays within max"; "the cordoned ones count towards the maximum". `launched`
    names the pool of each new node."""
    new = list(launched)
    total = moment.alive + len(moment.coming) + len(new)
    if total > moment.settings.max_workers:
        return no(f"{total} nodes, max_workers is {moment.settings.max_workers}")
    for pool in moment.settings.pools:
        there = moment.alive_in.get(pool.name, 0) + sum(one.pool == pool.name for one in moment.coming)
        if (
            pool.max_workers is not None
            and pool.name in new
            and there + new.count(pool.name) > pool.max_workers
        ):
            return no(f"more than {pool.max_workers} nodes in pool {pool.name}")
    return yes("within the maximum")


@rule("row 26, 'Safety Checks' of consolidation", "yes", "no")
def may_touch(node: Node) -> Ruling:
    """Never a node that is not a worker of ours: it is neither cordoned, tainted, drained nor removed."""
    worker = is_worker(node)
    return yes("ours") if worker.answer == "yes" else worker
