"""Pending pods in classes: what is equal in size and rules is planned once, with a count.

A class knows which offers admit it. `units` turns classes into what the packer takes: how many may share
a node, how evenly they spread over zones, and which pods must share a node.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from ebbtide.core.nodes.fit import Placement, RuleProfile
from ebbtide.core.nodes.offers import Offer
from ebbtide.core.nodes.room import HOSTNAME_LABEL, ZONE_LABEL, Room, refused_by_node
from ebbtide.core.packing import Item, PlacementRules
from ebbtide.core.packing.problem import both_of
from ebbtide.model.pod import NOTHING, FitCause, Misfit, Pod, Resources, Scheduling

MIB_PER_CPU = 4096
"""Memory that weighs as much as one CPU when nodes are compared for what they take in."""


@dataclass(slots=True, eq=False)
class PodClass:
    pods: list[Pod]
    """Not placed yet, oldest first."""
    profile: RuleProfile

    @property
    def sample(self) -> Pod:
        return self.pods[0]

    @property
    def unsized(self) -> bool:
        """Nothing is known of what its pods need."""
        return self.sample.requests == NOTHING


def weight(pod: Pod) -> float:
    return pod.requests.cpu_milli / 1000 + pod.requests.memory_mib / MIB_PER_CPU


def classes_of(pods: Iterable[Pod], placement: Placement) -> list[PodClass]:
    """Largest first. What the same template made shares its values, so most pods are compared by identity."""
    same: dict[tuple[int, int, int, str], PodClass] = {}
    equal: dict[tuple[Resources, Scheduling, RuleProfile], PodClass] = {}
    for pod in sorted(pods, key=lambda pod: (pod.created_at, pod.uid)):
        told_by = (id(pod.requests), id(pod.scheduling), id(pod.labels), pod.namespace)
        known = same.get(told_by)
        if known is None:
            profile = placement.neighbours.profile(pod)
            key = (pod.requests, pod.scheduling, profile)
            known = same[told_by] = equal.setdefault(key, PodClass([], profile))
        known.pods.append(pod)
    return sorted(equal.values(), key=lambda each: -weight(each.sample))


Rank = tuple[bool, int, bool, bool]
Twin = tuple[Rank, float, int, int, int]


@dataclass(frozen=True, slots=True)
class LaunchCandidate:
    """An offer that may be chosen, and what a new node of it has free."""

    name: str
    offer: Offer
    room: Room
    price: float
    tier: Rank
    """What is in a better tier is used up first: see `Offer.rank`."""

    @property
    def twin(self) -> Twin:
        """Candidates with the same are as good in another place."""
        return self.tier, self.price, self.room.cpu_milli, self.room.memory_mib, self.room.slots


class Admission:
    """Which candidates a class may use, by everything but the pods on other nodes."""

    def __init__(self, candidates: Sequence[LaunchCandidate]) -> None:
        self._candidates = candidates
        self._by_rules: dict[Scheduling, tuple[LaunchCandidate, ...]] = {}
        self._names: dict[Scheduling, frozenset[str]] = {}
        self._places: dict[tuple[str, str], list[LaunchCandidate]] = {}
        for each in candidates:
            self._places.setdefault((each.offer.pool.name, each.offer.zone), []).append(each)

    def admitted(self, pod: Pod) -> tuple[LaunchCandidate, ...]:
        """By taints, selectors, affinity to nodes and volumes, which all nodes of a pool and zone share."""
        rules = pod.scheduling
        known = self._by_rules.get(rules)
        if known is None:
            found = (each for each in self._places.values() if not refused_by_node(rules, each[0].room))
            known = self._by_rules[rules] = tuple(each for place in found for each in place)
        return known

    def names(self, pod: Pod) -> frozenset[str]:
        known = self._names.get(pod.scheduling)
        if known is None:
            known = self._names[pod.scheduling] = frozenset(each.name for each in self.admitted(pod))
        return known

    def why_hopeless(self, pod: Pod) -> Misfit | None:
        """Why no node that could be launched would take the pod; None when one would."""
        return why_none_fits(pod, (each.room for each in self._candidates))


def why_none_fits(pod: Pod, rooms: Iterable[Room]) -> Misfit | None:
    """What the last of these new nodes lacks for the pod; None when one would take it."""
    why: Misfit | None = Misfit(FitCause.NO_POOL)
    for room in rooms:
        why = room.lacks(pod.requests) or refused_by_node(pod.scheduling, room)
        if why is None:
            break
    return why


Member = tuple[PodClass, tuple[Pod, ...]]
"""Pods of one class within a unit."""


class Units:
    """Classes as items for the packer. What it cannot say is left to the fit rules, which judge its plan."""

    def __init__(self, placement: Placement, admission: Admission, home_zone: str, unsized: int) -> None:
        self._placement = placement
        self._admission = admission
        self._home_zone = home_zone
        """Where a group goes that must share a zone and is in none yet."""
        self._unsized = unsized
        """How many pods of unknown size a node is taken to hold."""

    def items(self, classes: Sequence[PodClass], names: frozenset[str]) -> list[Item]:
        """Items that may use the candidates of these names only."""
        found: dict[tuple[tuple[PodClass, int], ...], list[Pod]] = {}
        for unit in _units(classes):
            shape = tuple((each, len(pods)) for each, pods in unit)
            found.setdefault(shape, []).extend(pod for _, pods in unit for pod in pods)
        return [self._item(shape, pods, names) for shape, pods in found.items()]

    def pinned(self, each: PodClass) -> bool:
        """Whether the zone that the packer chose for such a pod must be kept."""
        rules = each.profile
        numbers = (*rules.repels, *rules.matched, *rules.attracts, *(number for number, _ in rules.spreads))
        return any(self._placement.neighbours.topology_key(number) == ZONE_LABEL for number in numbers)

    def _item(self, shape: tuple[tuple[PodClass, int], ...], pods: list[Pod], names: frozenset[str]) -> Item:
        rules = [self._rules(each, count, names) for each, count in shape]
        both = rules[0]
        for other in rules[1:]:
            both = both_of(both, other)
        cpu_milli = sum(each.sample.requests.cpu_milli * count for each, count in shape)
        memory_mib = sum(each.sample.requests.memory_mib * count for each, count in shape)
        slots = sum(count for _, count in shape)
        return Item(cpu_milli, memory_mib, tuple(pod.uid for pod in pods), slots, both)

    def _rules(self, each: PodClass, count: int, names: frozenset[str]) -> PlacementRules:
        """For a class of which each unit holds `count` pods."""
        admitted = [c for c in self._admission.admitted(each.sample) if c.name in names]
        limit = self._most_on_a_node(each, admitted)
        skew, there = self._spread_over_zones(each)
        return PlacementRules(
            types=None if len(admitted) == len(names) else frozenset(c.name for c in admitted),
            zones=self._near(each),
            max_per_node=None if limit is None else max(1, limit // count),
            max_skew=skew,
            zone_counts=there,
        )

    def _most_on_a_node(self, each: PodClass, admitted: Sequence[LaunchCandidate]) -> int | None:
        limits = [self._unsized] if each.unsized else []
        rules, key = each.profile, self._placement.neighbours.topology_key
        if any(number in rules.matched and key(number) == HOSTNAME_LABEL for number in rules.repels):
            limits.append(1)
        own = [(number, skew) for number, skew in rules.spreads if number in rules.matched]
        limits += [skew for number, skew in own if key(number) == HOSTNAME_LABEL]
        for name, amount in each.sample.requests.extended:
            offered = [c.room.extended.get(name, 0) // amount for c in admitted if amount]
            limits += [max(1, min((count for count in offered if count), default=1))]
        return min(limits, default=None)

    def _spread_over_zones(self, each: PodClass) -> tuple[int | None, tuple[tuple[str, int], ...]]:
        neighbours = self._placement.neighbours
        for number, skew in each.profile.spreads:
            if number in each.profile.matched and neighbours.topology_key(number) == ZONE_LABEL:
                return skew, neighbours.counts(number)
        return None, ()

    def _near(self, each: PodClass) -> frozenset[str] | None:
        """Zones that affinity leaves; where its group is nowhere yet, all of it goes to one."""
        for number in each.profile.attracts:
            if self._placement.neighbours.topology_key(number) == ZONE_LABEL:
                there = frozenset(zone for zone, count in self._placement.neighbours.counts(number) if count)
                return there or frozenset({self._home_zone})
        return None


def _units(classes: Sequence[PodClass]) -> Iterator[tuple[Member, ...]]:
    """Pods that must share a node, by affinity to a host, as one; all others by themselves."""
    left = {each: list(each.pods) for each in classes}
    for each in classes:
        for number in each.profile.hosts if left[each] else ():
            if number in each.profile.matched:
                yield ((each, tuple(left[each])),)
                left[each] = []
                break
            partner = next((o for o in classes if number in o.profile.matched and left[o]), None)
            if partner is not None:
                for follower, leader in _dealt(left[each], left[partner]):
                    yield (partner, leader), (each, follower)
                del left[partner][: min(len(left[each]), len(left[partner]))]
                left[each] = []
                break
    for each, pods in left.items():
        yield from (((each, (pod,)),) for pod in pods)


def _dealt(
    followers: Sequence[Pod], leaders: Sequence[Pod]
) -> Iterator[tuple[tuple[Pod, ...], tuple[Pod, ...]]]:
    """Followers dealt out to leaders as evenly as they can be; leaders without any are left out."""
    count = min(len(followers), len(leaders))
    for number in range(count):
        yield tuple(followers[number::count]), (leaders[number],)
