"""Which draft to take: the most valuable one that passes every check. Its moves are checked again with the
rules of `core.nodes.fit`, independently of how the draft was made.

Every refusal names both numbers. If no draft passes, the one that came furthest is reported: what it would
save, and what prevents it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from functools import cached_property

from ebbtide.core.consolidation.drafts import Draft, Floors, Fresh
from ebbtide.core.consolidation.look import Look
from ebbtide.core.consolidation.pace import evicted_lately
from ebbtide.core.consolidation.scene import Scene, sum_of
from ebbtide.core.consolidation.sweep import Limits, sweep
from ebbtide.core.nodes.capacity import count_against_max, doomed, held_by_pool
from ebbtide.core.nodes.fit import placement_of
from ebbtide.core.nodes.headroom import Spare, wanted_now
from ebbtide.core.nodes.question import Question
from ebbtide.core.nodes.room import residents_of, room_of, room_of_new
from ebbtide.core.packing.types import Budget
from ebbtide.core.words import a_price, a_while, count_of, two_prices
from ebbtide.model.check import Check, Gate, NodeCause, Values, Why
from ebbtide.model.consolidation import ConsolidationPlan, ConsolidationReport, FrontierPoint, NodeAnalysis
from ebbtide.model.operation import Move, Removal, Slot
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot

SECONDS_PER_HOUR = 3600
_JOIN_SECONDS, _ROUND_SECONDS = 180, 60
"""What a new node takes to join, and a round of moves: while old and new nodes run, both are paid."""
MOST_ASKED = 500
"""Moves that are asked again one by one; more are made over many rounds, each planned again."""


def first_reason(nodes: Sequence[NodeAnalysis], says: str) -> str:
    """Why none may go is said by the first of them that says so: too young, or not empty for long enough."""
    return next((f"{node.node_name}: {node.why}; {says}" for node in nodes if node.why), says)


class Choice:
    def __init__(self, question: Question, found: Look) -> None:
        self._snapshot = question.snapshot
        self._record = question.record
        self._settings = question.settings
        self._rules = question.settings.consolidation
        self._found = found
        self._outline = found.outline
        self._brief = question.brief
        self._operation_id = question.operation_id
        self._now = question.now

    def report(self, before: tuple[Check, ...], budget: Budget) -> ConsolidationReport:
        found = self._found
        removable = sum(place.removable for place in self._outline.places)
        says = f"{removable} of {count_of(len(found.judged), 'worker')} could be removed"
        if not removable:
            says = first_reason(found.nodes, says)
        before = (*before, Check("nodes to remove", removable > 0, says, Values(removable, 1)))
        if not removable:
            return ConsolidationReport(before, found.nodes, found.refusals)
        drafts = self._drafts(budget) if self._outline.may_cost_less else ()
        cheaper = [draft for draft in drafts if draft.cost < self._outline.cost]
        cost, least = self._money(self._outline.cost), self._money(self._bound)
        says = f"{cost} are paid, no set of nodes costs less than {least}"
        if not cheaper:
            says = f"no set of nodes was found that costs less than the {cost} paid"
            says += f"; no set can cost less than {least}"
        costs = Values(float(self._outline.cost), float(self._bound))
        before = (*before, Check("cheaper packing", bool(cheaper), says, costs))
        if not cheaper:
            if self._brief:
                return ConsolidationReport(before)
            return ConsolidationReport(before, tuple(self._fates(Draft((), ()))), found.refusals)
        best, checks, forbidden = self._choose(cheaper)
        # A forbidden draft that is better in both ways would hide the plan, as if it had not been the choice.
        hiding = {
            id(each) for each in forbidden if each.cost <= best.cost and len(each.moves) <= len(best.moves)
        }
        plan = self._plan(best, [each for each in cheaper if each is best or id(each) not in hiding])
        checks = (*before, *checks)
        allowed = all(check.passed for check in checks)
        nodes = () if self._brief and not allowed else tuple(self._fates(best))
        return ConsolidationReport(checks, nodes, found.refusals, plan if allowed else None, plan)

    def _drafts(self, budget: Budget) -> tuple[Draft, ...]:
        # Where even the bound would not save enough, launching nodes cannot either.
        hopeful = self._outline.cost - self._bound >= self._least
        wanted = wanted_now(self._settings, self._snapshot.at)
        limits = Limits(self._floors, self._rules.replace and hopeful, wanted)
        return sweep(self._scene, self._found.neighbours, limits, budget, self._key)

    @property
    def _scene(self) -> Scene:
        return self._found.scene

    @cached_property
    def _floors(self) -> Floors:
        """Of what can be chosen from: nodes left out of any plan may stay, but are not counted on."""
        pools = tuple((pool.name, pool.min_workers) for pool in self._settings.pools)
        zones = {node.zone for node in self._snapshot.cluster.workers}
        least = max(self._settings.min_workers, self._settings.awake_min_workers, self._rules.min_nodes)
        return Floors(least, pools, len(zones) > 1)

    @cached_property
    def _bound(self) -> Decimal:
        """What the pods need at the least, and the nodes that are always kept at the least price."""
        outline = self._outline
        prices = [place.price for place in outline.places] + [price for _, price in outline.offers]
        return max(outline.bound, min(prices) * min(self._floors.nodes, len(outline.places)))

    @cached_property
    def _least(self) -> Decimal:
        """The savings that are worth it in a cluster that costs this much."""
        return self._rules.least_savings(self._outline.cost)

    def _key(self, number: int) -> str:
        return f"{self._operation_id}-{number}"

    def _choose(self, drafts: Sequence[Draft]) -> tuple[Draft, tuple[Check, ...], Sequence[Draft]]:
        """The draft worth most among those that pass every check, else the best of those that fail last; and
        those worth more that failed one."""
        ranked = sorted(drafts, key=lambda draft: (-self._net(draft), len(draft.moves)))
        best = ranked[0]
        best_checks: tuple[Check, ...] = ()
        for number, draft in enumerate(ranked):
            checks: list[Check] = []
            for check in self._permits(draft):
                checks.append(check)
                if not check.passed:
                    break
            else:
                return draft, tuple(checks), ranked[:number]
            if len(checks) > len(best_checks):
                best, best_checks = draft, tuple(checks)
        return best, best_checks, ranked

    def _net(self, draft: Draft) -> Decimal:
        """What is saved until the disturbance must have paid, less its assumed cost. Launching must
        be worth the threshold by itself, or nodes come and go for very little."""
        saved = self._scene.cost - draft.cost
        if draft.fresh:
            saved -= self._least
        hours = Decimal(self._rules.payback_seconds) / SECONDS_PER_HOUR
        return saved * hours - len(draft.moves) * self._rules.move_cost - self._paid_twice(draft)

    def _paid_twice(self, draft: Draft) -> Decimal:
        """What new nodes cost until those that they replace are gone."""
        price = sum((each.offer.price for each in draft.fresh), Decimal(0))
        return price * self._overlap(draft) / SECONDS_PER_HOUR

    def _overlap(self, draft: Draft) -> int:
        running = sum(map(len, self._snapshot.cluster.pods_on.values()))
        rounds = -(-len(draft.moves) // self._rules.at_once(running))
        # Old nodes go as they are emptied, so on average half of the rounds count.
        return _JOIN_SECONDS + rounds * _ROUND_SECONDS // 2 + self._rules.min_idle_seconds

    def _permits(self, draft: Draft) -> Iterator[Check]:
        rules, savings, moves = self._rules, self._scene.cost - draft.cost, len(draft.moves)
        least, currency = self._least, self._found.currency
        saved, asked = two_prices(savings, least)
        enough = savings >= least
        says = (
            f"reach the {asked} required"
            if enough
            else f"fall short of {asked} by {a_price(least - savings)}"
        )
        yield Check(
            "savings", enough, f"savings {saved} {currency}/h {says}", Values(float(savings), float(least))
        )
        cost = moves * rules.move_cost + self._paid_twice(draft)
        returned = savings * rules.payback_seconds / SECONDS_PER_HOUR
        spent, gained = two_prices(cost, returned)
        over = a_while(rules.payback_seconds)
        spending = count_of(moves, "move")
        if draft.fresh:
            new = count_of(len(draft.fresh), "new node")
            spending += f" and {new}, next to the old for about {a_while(self._overlap(draft))},"
        says = f"{spending} cost about {spent} {currency}, {over} of the savings bring {gained} {currency}"
        yield Check("pays back", cost <= returned, says, Values(float(cost), float(returned)))
        done = evicted_lately(self._record, self._now)
        most = rules.moves_allowed(sum(map(len, self._snapshot.cluster.pods_on.values())))
        says = f"{moves} moves, {most} an hour are allowed"
        says += f", {done} were made in the last" if done else ""
        may = max(0, most - done)
        yield Check("moves in budget", moves <= may, says, Values(moves, may))
        yield self._launches(draft)
        why = why_not_fitting(draft, self._scene, self._snapshot, self._record)
        yield Check("migrations fit", not why, why or f"all {moves} moves have a place")
        yield Check("migrations safe", True, f"each of {moves} pods may be moved")
        free, wanted = free_after(draft, self._scene, self._snapshot), 1 - rules.max_fill
        says = f"{free:.1%} stays free, at least {wanted:.0%} required"
        yield Check("enough free", free >= wanted, says, Values(float(free), float(wanted)))
        if self._settings.headroom:
            lost = why_headroom_lost(draft, self._scene, self._snapshot, self._record, self._settings)
            yield Check(Gate.HEADROOM_KEPT, not lost, lost or "headroom is not reduced")

    def _launches(self, draft: Draft) -> Check:
        name, fresh = "launches allowed", len(draft.fresh)
        there, most = count_against_max(self._snapshot, self._record), self._settings.max_workers
        if fresh and there + fresh > most:
            says = f"{count_of(fresh, 'new node')} next to {there}, max_workers is {most}"
            return Check(name, False, says, Values(there + fresh, most))
        for pool in self._settings.pools:
            new = sum(each.offer.pool.name == pool.name for each in draft.fresh)
            there = count_against_max(self._snapshot, self._record, pool.name)
            if new and pool.max_workers is not None and there + new > pool.max_workers:
                says = f"{count_of(new, 'new node')} next to {there} in pool {pool.name}"
                says += f", its maximum is {pool.max_workers}"
                return Check(name, False, says, Values(there + new, pool.max_workers, pool.name))
            if new and (over := self._over_limits(pool, draft)):
                says = f"with {count_of(new, 'new node')}, pool {pool.name} has {over}"
                return Check(name, False, says, Values(about=pool.name))
        return Check(name, True, f"{count_of(fresh, 'new node')} next to {there}, max_workers is {most}")

    def _over_limits(self, pool: Pool, draft: Draft) -> str:
        if pool.limits is None:
            return ""
        held = held_by_pool(self._snapshot, self._record, pool)
        for each in draft.fresh:
            if each.offer.pool.name == pool.name:
                held = held.plus(each.offer.node_type.allocatable)
        return pool.limits.why_over(held)

    def _plan(self, draft: Draft, drafts: Sequence[Draft]) -> ConsolidationPlan:
        scene = self._scene
        empties = [number for number in draft.removed if not scene.sites[number].parcels]
        sources = [number for number in draft.removed if scene.sites[number].parcels]
        return ConsolidationPlan(
            empties=tuple(self._removal(number) for number in empties),
            sources=tuple(self._removal(number) for number in sources),
            moves=tuple(self._move(number, to) for number, to in draft.moves),
            slots=tuple(_slot(each) for each in draft.fresh),
            cost_before=scene.cost,
            cost_after=draft.cost,
            bound=min(self._bound, draft.cost),
            currency=self._found.currency,
            frontier=_frontier([(0, scene.cost), *((len(each.moves), each.cost) for each in drafts)]),
        )

    def _removal(self, number: int) -> Removal:
        node = self._scene.sites[number].node
        return Removal(self._snapshot.instance_of[node.name].id, node.name, node.uid, node.zone, node.pool)

    def _move(self, number: int, to: str) -> Move:
        pod = self._scene.parcels[number].pod
        return Move(pod.uid, pod.full_name, pod.node_name, to, pod.owner_uid)

    def _fates(self, draft: Draft) -> Iterator[NodeAnalysis]:
        """The lines of the table: what goes, what stays, and why."""
        rules = self._rules
        removed = [self._scene.sites[number] for number in draft.removed]
        gone = {site.node.name: site for site in removed}
        taken_in = Counter(to for _, to in draft.moves)
        nodes = {each.node.name: each.node for each in self._found.usable if each.node.name not in gone}
        left: Counter[str] = Counter({"nodes": len(nodes)})
        left.update(f"zone {node.zone}" for node in nodes.values())
        left.update(f"pool {node.pool}" for node in nodes.values())
        for node in self._found.nodes:
            site = gone.get(node.node_name)
            if site is not None and site.parcels:
                fit = "its pod fits" if node.pods == 1 else f"its {node.pods} pods fit"
                yield replace(node, kept=False, why=f"{fit} elsewhere", cause=NodeCause.FITS_ELSEWHERE)
            elif site is not None:
                says = f"empty for {a_while(node.idle_seconds)}, at least {a_while(rules.min_idle_seconds)}"
                yield replace(node, kept=False, why=says, cause=NodeCause.EMPTY)
            elif taken_in[node.node_name]:
                before = f"{node.why}; " if node.why else ""
                says = f"{before}it takes in {count_of(taken_in[node.node_name], 'pod')}"
                yield replace(node, why=says, cause=node.cause or NodeCause.TAKES_IN)
            elif node.why:
                yield node
            else:
                why = self._why_kept(nodes[node.node_name], left)
                yield replace(node, why=why.says, cause=why.cause)

    def _why_kept(self, node: Node, left: Counter[str]) -> Why:
        floors = self._floors
        least = dict(floors.pools).get(node.pool, 0)
        if left["nodes"] <= floors.nodes:
            return Why(NodeCause.MINIMUM, f"{floors.nodes} workers are always kept")
        if floors.several_zones and left[f"zone {node.zone}"] == 1:
            return Why(NodeCause.LAST_IN_ZONE, f"it is the last worker in zone {node.zone}", node.zone)
        if left[f"pool {node.pool}"] <= least:
            says = f"{least} workers of pool {node.pool} are always kept"
            return Why(NodeCause.POOL_MINIMUM, says, node.pool)
        return Why(NodeCause.NOTHING_CHEAPER, "no cheaper place was found for its pods")

    def _money(self, amount: Decimal) -> str:
        return f"{a_price(amount)} {self._found.currency}/h"


def _frontier(found: Sequence[tuple[int, Decimal]]) -> tuple[FrontierPoint, ...]:
    """With more moves it costs less; what is no cheaper with more is left out."""
    points: list[FrontierPoint] = []
    for moves, cost in sorted(found):
        if not points or cost < points[-1].cost_per_hour:
            points.append(FrontierPoint(moves, cost))
    return tuple(points)


def _slot(fresh: Fresh) -> Slot:
    offer = fresh.offer
    return Slot(fresh.key, offer.pool.name, offer.zone, offer.node_type.name, offer.pool.market)


def why_not_fitting(draft: Draft, scene: Scene, snapshot: Snapshot, record: Record) -> str:
    """The first move that a scheduler would refuse, in the order of the plan; empty when it makes all."""
    lost = doomed(record)
    leaving = [name for name, instance in snapshot.instance_of.items() if instance.id in lost]
    placement = placement_of(snapshot.cluster, leaving)
    pools = {fresh.offer.pool.name: fresh.offer.pool for fresh in draft.fresh}
    residents = {name: residents_of(snapshot.cluster, pool) for name, pool in pools.items()}
    for fresh in draft.fresh:
        offer = fresh.offer
        room = room_of_new(fresh.key, offer.pool, offer.node_type, offer.zone, residents[offer.pool.name])
        placement.open(room)
    for number, to in draft.moves[:MOST_ASKED]:
        pod = scene.parcels[number].pod
        placement.take_out(pod, placement.rooms[pod.node_name])
        room = placement.rooms[to]
        why = placement.why_not(pod, room)
        if why:
            return f"{pod.full_name} would not fit on {to}: {why.says}"
        placement.place(pod, room)
    return ""


def why_headroom_lost(
    draft: Draft, scene: Scene, snapshot: Snapshot, record: Record, settings: Settings
) -> str:
    """Which headroom would have less room after all moves, by sizes alone; empty where none would."""
    wanted = wanted_now(settings, snapshot.at)
    if not wanted:
        return ""
    lost, view = doomed(record), snapshot.cluster
    leaving = {name for name, instance in snapshot.instance_of.items() if instance.id in lost}
    rooms = {
        node.name: room_of(node, view.pods_on.get(node.name, ()))
        for node in view.nodes
        if node.ready and not node.unschedulable and node.name not in leaving
    }
    before = Spare(rooms, wanted).there()
    for fresh in draft.fresh:
        offer = fresh.offer
        residents = residents_of(view, offer.pool)
        rooms[fresh.key] = room_of_new(fresh.key, offer.pool, offer.node_type, offer.zone, residents)
    for number, to in draft.moves:
        rooms[to].put(scene.parcels[number].pod)
    for number in draft.removed:
        del rooms[scene.sites[number].node.name]
    return Spare(rooms, wanted).why_less(before)


def free_after(draft: Draft, scene: Scene, snapshot: Snapshot) -> Decimal:
    """The scarcer of CPU and memory, as the share of all that the remaining nodes offer."""
    gone = {scene.sites[number].node.name for number in draft.removed}
    left = [site.node for site in scene.sites if site.node.name not in gone]
    offers = [node.allocatable for node in left] + [
        fresh.offer.node_type.allocatable for fresh in draft.fresh
    ]
    used = sum_of(pod for node in left for pod in snapshot.cluster.pods_on.get(node.name, ()))
    moved = sum_of(scene.parcels[number].pod for number, _ in draft.moves)
    free = Decimal(1)
    for number, offered in enumerate((sum(o.cpu_milli for o in offers), sum(o.memory_mib for o in offers))):
        if offered:
            free = min(free, 1 - Decimal(used[number] + moved[number]) / offered)
    return free
