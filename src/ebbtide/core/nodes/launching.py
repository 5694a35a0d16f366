"""Nodes for pending pods: the packer plans, the fit rules check every placement.

Pods first take the room that is there or on its way. What is left goes to the packer in classes, offers of
the best rank first: offers with capacity, pools of more weight, known prices. Nodes are opened in the
zones with the fewest workers. Pods that the fit rules refuse there, because the packer
knows fewer rules, are placed one by one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count, groupby, zip_longest
from operator import attrgetter

from ebbtide.core.nodes.fit import Placement, RuleProfile
from ebbtide.core.nodes.offers import Offer
from ebbtide.core.nodes.pending import (
    MIB_PER_CPU,
    Admission,
    LaunchCandidate,
    PodClass,
    Twin,
    Units,
    classes_of,
    weight,
)
from ebbtide.core.nodes.room import Room
from ebbtide.core.packing import Item, NodeType, Plan, PlannedNode
from ebbtide.core.packing.pack import pack_within
from ebbtide.core.packing.types import Budget, CountingClock
from ebbtide.model.pod import NOTHING, FitCause, Misfit, PlanStop, Pod, Resources, StopCause, Unplaced
from ebbtide.model.settings import Packer, Settings

_LEAST_PRICE = 1e-9
_SECONDS = 0.5
"""Of the counting clock: how long the packer looks for a cheaper plan."""
_SETTLE_ROUNDS = 3
"""How often pods that a later node made unfit are planned again."""
_SURCHARGES = (1.0, 4.0, 16.0)
"""What a node costs on top, as a multiple of the cheapest, where fewer nodes must do."""


@dataclass(slots=True)
class LaunchLimits:
    now: int
    """Nodes that may be launched now."""
    ever: int
    """Nodes that may be launched before the maximum is reached."""
    zones: Counter[str]
    """Workers by zone, counting those on their way."""
    sizes: Counter[str]
    """Nodes by pool, counting those on their way."""
    held: dict[str, Resources] = field(default_factory=dict)
    """What the nodes of a pool with limits offer together, counting those on their way."""

    def count(self, offer: Offer, nodes: int) -> None:
        """So many more nodes of an offer; with -1, one fewer."""
        name = offer.pool.name
        self.zones[offer.zone] += nodes
        self.sizes[name] += nodes
        if name in self.held:
            self.held[name] = self.held[name].plus(offer.node_type.allocatable, nodes)

    def allow(self, offer: Offer) -> bool:
        """Whether its pool may have one more node of it."""
        pool = offer.pool
        if not pool.takes_more(self.sizes[pool.name]):
            return False
        if pool.limits is None:
            return True
        return not pool.limits.why_over(self.held[pool.name].plus(offer.node_type.allocatable))


@dataclass(slots=True)
class ChosenNode:
    """A node that is to be launched, and the pods planned for it."""

    candidate: LaunchCandidate
    room: Room
    pods: list[Pod] = field(default_factory=list)
    """Those of headroom among them."""


class LaunchSketch:
    """One plan while it is computed."""

    def __init__(
        self, placement: Placement, offers: Sequence[Offer], limits: LaunchLimits, settings: Settings
    ) -> None:
        self._placement = placement
        self._limits = limits
        self._settings = settings
        self._candidates = [_candidate(number, offer) for number, offer in enumerate(offers)]
        self._named = {each.name: each for each in self._candidates}
        self._twins: dict[Twin, list[LaunchCandidate]] = {}
        for each in self._candidates:
            self._twins.setdefault(each.twin, []).append(each)
        self._admission = Admission(self._candidates)
        self._nodes: list[ChosenNode] = []
        self._numbers = count()
        self._unsized: Counter[str] = Counter()
        """Pods of unknown size by room: only nodes that are not there yet are counted on for them."""
        self._spare: frozenset[str] = frozenset()
        """UIDs of what stands for headroom: no pod is ever pending under them."""
        self.hopeless: list[Unplaced] = []
        self.unserved: list[Pod] = []
        """One of each class of pods that another node would take, and that got none within the limits."""
        self.stopped: PlanStop | None = None
        self.bound = 0.0

    @property
    def chosen(self) -> list[Offer]:
        return [node.candidate.offer for node in self._nodes]

    def served(self) -> tuple[tuple[str, ...], ...]:
        """For each node that was chosen, the UIDs of the pods planned for it."""
        spare = self._spare
        return tuple(tuple(pod.uid for pod in node.pods if pod.uid not in spare) for node in self._nodes)

    def spared(self) -> tuple[int, ...]:
        """For each node that was chosen, how many pods of headroom are planned for it."""
        return tuple(sum(pod.uid in self._spare for pod in node.pods) for node in self._nodes)

    def pools_for(self, pod: Pod) -> frozenset[str]:
        """Pools with a type that would take the pod."""
        admitted = self._admission.admitted(pod)
        return frozenset(each.offer.pool.name for each in admitted if not each.room.lacks(pod.requests))

    def open_offers(self) -> list[Offer]:
        """Offers of pools below their maximum, the zones with the fewest workers first."""
        return [each.offer for each in self._open(self._candidates)]

    def choose(self, offer: Offer) -> None:
        """Launch a node that no pod asks for."""
        self._choose(next(each for each in self._candidates if each.offer is offer))

    def serve(self, pending: Sequence[Pod]) -> None:
        """Plan nodes for the pods that nothing has room for."""
        left: list[PodClass] = []
        for each in classes_of(pending, self._placement):
            self._use_rooms(each)
            if not each.pods:
                continue
            if why := self._admission.why_hopeless(each.sample):
                self.hopeless += [Unplaced(pod.full_name, why) for pod in each.pods]
            else:
                left.append(each)
        neighbourly = {
            pod.uid: each
            for each in left
            if each.profile.spreads or each.profile.attracts
            for pod in each.pods
        }
        self._serve_by_tiers(left)
        rounds = _SETTLE_ROUNDS
        while self._withdraw(neighbourly) and rounds:
            rounds -= 1
            for each in left:
                self._place_rest(each, self._candidates)
        self.bound = self.bound if self._nodes else 0.0
        self.unserved = [each.sample for each in left if each.pods]
        if self.unserved:
            self._note_stopped(self.unserved[0].full_name)

    def make_room(self, phantoms: Sequence[Pod]) -> None:
        """Plan nodes for headroom that nothing has room for, with what pods leave of the limits."""
        self._spare = frozenset(pod.uid for pod in phantoms)
        left = classes_of(phantoms, self._placement)
        for each in left:
            self._use_rooms(each)
        left = [each for each in left if each.pods and not self._admission.why_hopeless(each.sample)]
        bound = self.bound
        self._serve_by_tiers(left)
        self.bound = bound  # of what is pending alone: it holds for all the more nodes, too
        if any(each.pods for each in left):
            self._note_stopped("headroom")

    def _serve_by_tiers(self, classes: Sequence[PodClass]) -> None:
        tier = attrgetter("tier")
        for _, offers in groupby(sorted(self._candidates, key=tier), key=tier):
            self._serve_with(classes, list(offers))

    def _note_stopped(self, name: str) -> None:
        """Why something is left without a node, unless it is that no more may be launched now."""
        if not self.stopped and len(self._nodes) < self._limits.now:
            full = not self._open(self._candidates)
            self.stopped = PlanStop(StopCause.AT_LIMITS) if full else PlanStop(StopCause.NO_FIT, name)

    def _use_rooms(self, each: PodClass) -> None:
        """Place what nodes that are there, or on their way, have room for."""
        asked = each.sample.requests
        rooms = [
            room
            for room in self._placement.rooms.values()
            if asked.cpu_milli <= max(room.cpu_milli, 0) and asked.memory_mib <= max(room.memory_mib, 0)
        ]
        moved = True
        while moved and each.pods:
            moved = False
            for room in rooms:
                while each.pods and not self._why_not(each, room):
                    self._put(each.pods.pop(0), room)
                    moved = True
            # Only a spread lets a room take what it refused before.
            moved = moved and bool(each.profile.spreads)

    def _why_not(self, each: PodClass, room: Room) -> Misfit | None:
        if each.unsized and self._unsized[room.name] >= self._settings.pods_per_node:
            return Misfit(FitCause.UNSIZED_FULL)
        if each.unsized and not room.planned:
            return Misfit(FitCause.UNSIZED)
        return self._placement.why_not(each.sample, room)

    def _put(self, pod: Pod, room: Room) -> None:
        self._placement.place(pod, room)
        self._unsized[room.name] += pod.requests == NOTHING

    def _serve_with(self, classes: Sequence[PodClass], tier: Sequence[LaunchCandidate]) -> None:
        """Pack and open what may be opened, then again without the pools that are full by then."""
        moved = True
        while moved and len(self._nodes) < self._limits.now:
            waiting = [each for each in classes if each.pods]
            usable = self._open(tier)
            moved = bool(waiting and usable) and self._launch(self._planned(waiting, usable), waiting)
        for each in classes:
            self._place_rest(each, tier)

    def _planned(self, classes: Sequence[PodClass], usable: Sequence[LaunchCandidate]) -> Plan:
        zone = usable[0].offer.zone
        units = Units(self._placement, self._admission, zone, self._settings.pods_per_node)
        items = units.items(classes, frozenset(each.name for each in usable))
        plan = self._packed(items, usable, 0.0)
        self.bound = max(self.bound, plan.bound)
        least = min(each.price for each in usable)
        for factor in _SURCHARGES:
            # With the maximum in sight, fewer and larger nodes serve more pods than the cheapest ones.
            if len(plan.nodes) <= self._limits.ever - len(self._nodes):
                break
            other = self._packed(items, usable, factor * least)
            plan = other if len(other.nodes) < len(plan.nodes) else plan
        return plan

    def _launch(self, plan: Plan, classes: Sequence[PodClass]) -> bool:
        """Open the planned nodes that serve most for their price; whether any pod got a place."""
        class_of = {pod.uid: (each, pod) for each in classes for pod in each.pods}
        planned: list[tuple[ChosenNode, list[tuple[PodClass, Pod]]]] = []
        for node in sorted(plan.nodes, key=lambda node: self._cost_of_serving(node, class_of)):
            candidate = self._named[node.type.name]
            if len(self._nodes) < self._limits.now and self._open([candidate]):
                content = [class_of[uid] for uid in node.pods]
                best = self._best_place(candidate, {each for each, _ in content})
                planned.append((self._choose(best), content))
        self._judge(planned, classes)
        served = {pod.uid for opened, _ in planned for pod in opened.pods}
        for each in classes:
            each.pods = [pod for pod in each.pods if pod.uid not in served]
        for opened, _ in planned:
            if not opened.pods:
                self._give_up(opened)
        return bool(served)

    def _cost_of_serving(self, node: PlannedNode, class_of: dict[str, tuple[PodClass, Pod]]) -> float:
        value = sum(weight(class_of[uid][1]) for uid in node.pods)
        value += len(node.pods) / self._settings.pods_per_node
        return self._named[node.type.name].price / value

    def _best_place(self, candidate: LaunchCandidate, classes: set[PodClass]) -> LaunchCandidate:
        """The same node where the fewest workers are, if nothing on it asks for this zone."""
        units = Units(self._placement, self._admission, candidate.offer.zone, self._settings.pods_per_node)
        if any(units.pinned(each) for each in classes):
            return candidate
        names = [self._admission.names(each.sample) for each in classes]
        twins = self._open(self._twins[candidate.twin])
        return next(twin for twin in twins if all(twin.name in admitted for admitted in names))

    def _judge(
        self, planned: Sequence[tuple[ChosenNode, list[tuple[PodClass, Pod]]]], classes: Sequence[PodClass]
    ) -> None:
        """Place what the fit rules agree to. Those that others must be near come first; a class that
        spreads is dealt out zone by zone, and asked again while that helps."""
        parts: dict[PodClass, dict[str, list[tuple[ChosenNode, Pod]]]] = {each: {} for each in classes}
        for node, content in planned:
            for each, pod in content:
                parts[each].setdefault(node.room.zone, []).append((node, pod))
        for each in sorted(classes, key=lambda one: bool(one.profile.attracts)):
            rounds = zip_longest(*parts[each].values())
            todo = [pair for dealt in rounds for pair in dealt if pair is not None]
            refused: list[tuple[ChosenNode, Pod]] = []
            while todo:
                for node, pod in todo:
                    if self._why_not(each, node.room):
                        refused.append((node, pod))
                    else:
                        self._put(pod, node.room)
                        node.pods.append(pod)
                todo, refused = (refused if len(refused) < len(todo) else []), []

    def _withdraw(self, class_of: dict[str, PodClass]) -> bool:
        """Take back what the rules no longer agree to, and say whether there was any. A node that was opened
        later is one more domain of an earlier spread, which raises its skew."""
        if not any(self._overspread(each.profile) for each in set(class_of.values())):
            return False
        moved = True
        while moved:
            moved = False
            for node in self._nodes[::-1]:
                for pod in node.pods[::-1]:
                    if pod.uid in class_of and self._taken_back(pod, class_of[pod.uid], node):
                        moved = True
                if moved and not node.pods:
                    self._give_up(node)
        return True

    def _overspread(self, profile: RuleProfile) -> bool:
        for number, skew in profile.spreads:
            counts = [matching for _, matching in self._placement.neighbours.counts(number)]
            if max(counts, default=0) - min(counts, default=0) > skew:
                return True
        return False

    def _taken_back(self, pod: Pod, each: PodClass, node: ChosenNode) -> bool:
        """The pod without a place again, unless the rules agree to the one it has."""
        self._placement.take_out(pod, node.room)
        self._unsized[node.room.name] -= pod.requests == NOTHING
        each.pods.append(pod)
        if self._why_not(each, node.room):
            node.pods.remove(pod)
            return True
        self._put(each.pods.pop(), node.room)
        return False

    def _place_rest(self, each: PodClass, tier: Sequence[LaunchCandidate]) -> None:
        while each.pods and len(self._nodes) < self._limits.now and self._place_one(each, tier):
            pass

    def _place_one(self, each: PodClass, tier: Sequence[LaunchCandidate]) -> bool:
        """Launch the cheapest node that takes a pod of this class, whatever the packer thought of it."""
        for candidate in sorted(self._open(tier), key=lambda one: (one.tier, one.price)):
            node = self._choose(candidate)
            while each.pods and not self._why_not(each, node.room):
                pod = each.pods.pop(0)
                self._put(pod, node.room)
                node.pods.append(pod)
            if node.pods:
                return True
            self._give_up(node)
        return False

    def _packed(self, items: Sequence[Item], usable: Sequence[LaunchCandidate], surcharge: float) -> Plan:
        return _packed(items, usable, surcharge, self._settings.packer)

    def _choose(self, candidate: LaunchCandidate) -> ChosenNode:
        offer = candidate.offer
        node = ChosenNode(candidate, offer.room(f"planned-{next(self._numbers)}"))
        self._placement.open(node.room)
        self._limits.count(offer, 1)
        self._nodes.append(node)
        return node

    def _give_up(self, node: ChosenNode) -> None:
        self._placement.close(node.room.name)
        self._limits.count(node.candidate.offer, -1)
        self._nodes.remove(node)

    def _open(self, candidates: Iterable[LaunchCandidate]) -> list[LaunchCandidate]:
        """Those of pools below their maximum and limits, the zones with the fewest workers first."""
        zones, allow = self._limits.zones, self._limits.allow
        below = [each for each in candidates if allow(each.offer)]
        return sorted(below, key=lambda each: (zones[each.offer.zone], each.offer.zone))


def _candidate(number: int, offer: Offer) -> LaunchCandidate:
    room = offer.room("new")
    # Where no price is known, size stands in for it: among such offers only.
    price = float(offer.price) if offer.price else room.cpu_milli / 1000 + room.memory_mib / MIB_PER_CPU
    return LaunchCandidate(str(number), offer, room, max(price, _LEAST_PRICE), offer.rank)


def _packed(
    items: Sequence[Item], usable: Sequence[LaunchCandidate], surcharge: float, packer: Packer
) -> Plan:
    types = [
        NodeType(
            each.name,
            each.room.cpu_milli,
            each.room.memory_mib,
            each.room.slots,
            each.price + surcharge,
            each.offer.zone,
        )
        for each in usable
        if min(each.room.cpu_milli, each.room.memory_mib, each.room.slots) > 0
    ]
    return pack_within(items, types, Budget(CountingClock(), _SECONDS, packer=packer))
