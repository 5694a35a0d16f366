"""Whether a pod fits a node, by the rules a scheduler would apply, and why not.

A `Placement` is all rooms together, because spread, affinity and anti-affinity are about the pods on
other nodes. It is temporary: made for one computation, changed by `place`, thrown away. It
is never optimistic: a pod with rules that are not understood does not fit.

Spread, affinity and anti-affinity are kept as counts, so a question about one pod does not look at all
others. A rule counts the pods that match it by topology domain. What a pod has to do with the rules is its
`RuleProfile`, computed once for all pods with the same rules.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain

from ebbtide.core.nodes.room import HOSTNAME_LABEL, Room, refused_by_node, room_with, unwanted
from ebbtide.model.pod import FitCause, LabelSelector, Misfit, Pod, Scheduling, matches
from ebbtide.model.snapshot import EMPTY, ClusterView


class Placement:
    def __init__(
        self, rooms: Iterable[Room] = (), coming: Iterable[Pod] = (), rulers: Iterable[Pod] | None = None
    ) -> None:
        """`coming` are pods that will be asked about; knowing their rules from the start saves a recount.
        `rulers` are those of the rooms that bring rules, where they are known already."""
        known = tuple(rooms)
        self.rooms = {room.name: room for room in known if not room.shut}
        self._shut = {room.name: room for room in known if room.shut}
        self.neighbours = Neighbours([(room, room.pods) for room in known], coming, rulers)

    def why_not(self, pod: Pod, room: Room) -> Misfit | None:
        """Why the pod does not fit into this room; None when it does."""
        why = room.lacks(pod.requests) or refused_by_node(pod.scheduling, room)
        return why or self.neighbours.why_not(self.neighbours.profile(pod), room)

    def open(self, room: Room) -> None:
        """Add a room with the pods that are in it; one of the same name is replaced."""
        self.close(room.name)
        for pod in room.pods:
            self.neighbours.profile(pod)  # a new rule counts all rooms that are there: not yet this one
        (self._shut if room.shut else self.rooms)[room.name] = room
        self.neighbours.open_room(room)
        for pod in room.pods:
            self.neighbours.add(self.neighbours.profile(pod), room)

    def close(self, name: str) -> Room | None:
        """Take a room out, with all that is in it."""
        room = self.rooms.pop(name, None) or self._shut.pop(name, None)
        if room is not None:
            for pod in room.pods:
                self.neighbours.add(self.neighbours.profile(pod), room, -1)
            self.neighbours.close_room(room)
        return room

    def place(self, pod: Pod, room: Room) -> None:
        """Put the pod into a room that is open here."""
        self.neighbours.add(self.neighbours.profile(pod), room)
        room.put(pod)

    def take_out(self, pod: Pod, room: Room) -> None:
        self.neighbours.add(self.neighbours.profile(pod), room, -1)
        room.take_out(pod)

    def first_fit(self, pod: Pod, rooms: Iterable[Room] | None = None) -> Room | None:
        candidates = self.rooms.values() if rooms is None else rooms
        cpu_milli, memory_mib = pod.requests.cpu_milli, pod.requests.memory_mib
        for room in candidates:
            # The common no first, without a value made for it.
            if cpu_milli > room.cpu_milli > 0 or memory_mib > room.memory_mib > 0:
                continue
            if not self.why_not(pod, room):
                return room
        return None


def placement_of(view: ClusterView, without: Iterable[str] = (), coming: Iterable[Pod] = ()) -> Placement:
    """Rooms of all nodes, without those named. One that takes no pods now (not ready, or cordoned) is shut:
    as in Kubernetes, its pods keep others away all the same, and pods are spread over it."""
    left_out = set(without)
    known = [(node, view.loads.get(node.name, EMPTY)) for node in view.nodes if node.name not in left_out]
    rooms = [room_with(node, load) for node, load in known]
    return Placement(rooms, coming, [pod for _, load in known for pod in load.of(ruling)])


def ruling(pods: tuple[Pod, ...]) -> tuple[Pod, ...]:
    """Those that bring rules about other pods: of each namespace with the same rules the first."""
    found: dict[tuple[int, str], Pod] = {}
    for pod in pods:
        if pod.scheduling.carries_rules:
            found.setdefault((id(pod.scheduling), pod.namespace), pod)
    return tuple(found.values())


@dataclass(frozen=True, slots=True)
class _Rule:
    """Pods of a namespace that match, counted by domain; for a spread only on nodes its pods ask for."""

    namespace: str
    selector: LabelSelector
    topology_key: str
    asks: Scheduling | None = None


@dataclass(frozen=True, slots=True)
class RuleProfile:
    """What a pod has to do with the rules, by their numbers."""

    matched: tuple[int, ...] = ()
    repels: tuple[int, ...] = ()
    attracts: tuple[int, ...] = ()
    spreads: tuple[tuple[int, int], ...] = ()
    """A rule and the skew that it allows."""
    hosts: tuple[int, ...] = ()
    """Those of `attracts` that are about one node."""

    @property
    def free(self) -> bool:
        """No rule asks about such a pod, nor does it bring one."""
        return not (self.matched or self.repels or self.attracts or self.spreads)


FREE = RuleProfile()


@dataclass(slots=True)
class _Tally:
    """The counts of one rule."""

    matched: dict[str, int] = field(default_factory=dict)
    """Pods that match, by domain."""
    carried: dict[str, int] = field(default_factory=dict)
    """Pods whose own anti-affinity this is, by domain."""
    domains: dict[str, int] = field(default_factory=dict)
    """How many rooms make up each domain."""
    levels: Counter[int] = field(default_factory=Counter)
    """How many domains have how many matching pods: the least is found without looking at each."""
    total: int = 0

    def open(self, domain: str) -> None:
        self.domains[domain] = self.domains.get(domain, 0) + 1
        if self.domains[domain] == 1:
            self.levels[self.matched.get(domain, 0)] += 1

    def close(self, domain: str) -> None:
        self.domains[domain] -= 1
        if not self.domains[domain]:
            del self.domains[domain]
            self.levels[self.matched.get(domain, 0)] -= 1

    def match(self, domain: str, by: int) -> None:
        before = self.matched.get(domain, 0)
        self.matched[domain] = before + by
        self.total += by
        if domain in self.domains:
            self.levels[before] -= 1
            self.levels[before + by] += 1

    def carry(self, domain: str, by: int) -> None:
        self.carried[domain] = self.carried.get(domain, 0) + by

    def least(self) -> int:
        return min((level for level, domains in self.levels.items() if domains), default=0)


class Neighbours:
    def __init__(
        self,
        homes: Iterable[tuple[Room, Sequence[Pod]]],
        coming: Iterable[Pod] = (),
        rulers: Iterable[Pod] | None = None,
    ) -> None:
        """`homes` are all rooms with their pods; the rules of `coming` pods are known from the start. Where
        it is known which pods of the homes bring rules (`rulers`), the others need not be gone through."""
        there = list(homes)
        self._rooms = {room.name: room for room, _ in there}
        self._numbers: dict[_Rule, int] = {}
        self._rules: list[_Rule] = []
        self._tallies: list[_Tally] = []
        self._spread: list[int] = []
        """Rules of a spread, the only ones that ask which domains there are."""
        self._profiles: dict[tuple[object, ...], RuleProfile] = {}
        self._alike: dict[tuple[int, int, str], tuple[Pod, RuleProfile]] = {}
        """By identity: pods of one template share their values, and comparing those takes long. Each entry
        keeps its pod, so no identity is used twice."""
        known: set[tuple[int, str]] = set()
        without: set[int] = set()
        """What brings no rules, by identity: most pods."""
        for pod in chain(coming, *((pods for _, pods in there) if rulers is None else (rulers,))):
            asks = pod.scheduling
            if id(asks) in without:
                continue
            if not asks.carries_rules:
                without.add(id(asks))
                continue
            told_by = (id(asks), pod.namespace)
            if told_by not in known:
                known.add(told_by)
                self._know(pod)
        if self._rules:
            for room, pods in there:
                for pod in pods:
                    self.add(self.profile(pod), room)

    def profile(self, pod: Pod) -> RuleProfile:
        rules = pod.scheduling if pod.scheduling.carries_rules else None
        if rules is None and not self._rules:
            return FREE
        told_by = (id(pod.scheduling), id(pod.labels), pod.namespace)
        alike = self._alike.get(told_by)
        if alike is not None:
            return alike[1]
        key = (pod.namespace, pod.labels, rules)
        known = self._profiles.get(key)
        if known is None:
            self._learn(pod)
            known = self._profiles[key] = self._profile(pod)
        self._alike[told_by] = pod, known
        return known

    def open_room(self, room: Room) -> None:
        """Know a node that is yet to come."""
        self._rooms[room.name] = room
        for number in self._spread:
            domain = _domain(self._rules[number], room)
            if domain is not None:
                self._tallies[number].open(domain)

    def close_room(self, room: Room) -> None:
        """Forget a room, from which all pods were counted out."""
        del self._rooms[room.name]
        for number in self._spread:
            domain = _domain(self._rules[number], room)
            if domain is not None:
                self._tallies[number].close(domain)

    def add(self, profile: RuleProfile, room: Room, count: int = 1) -> None:
        """Count a pod in this room; with -1, one less."""
        for number in profile.matched:
            domain = _domain(self._rules[number], room)
            if domain is not None:
                self._tallies[number].match(domain, count)
        for number in profile.repels:
            domain = room.labels.get(self._rules[number].topology_key)
            if domain is not None:
                self._tallies[number].carry(domain, count)

    def topology_key(self, number: int) -> str:
        return self._rules[number].topology_key

    def counts(self, number: int) -> tuple[tuple[str, int], ...]:
        """Pods that match the rule, by domain."""
        tally = self._tallies[number]
        return tuple(sorted({**dict.fromkeys(tally.domains, 0), **tally.matched}.items()))

    def why_not(self, profile: RuleProfile, room: Room) -> Misfit | None:
        """Which rule keeps such a pod, which is counted nowhere now, out of this room."""
        return (
            self._repelled(profile, room)
            or self._lonely(profile, room)
            or next(
                (why for n, skew in profile.spreads if (why := self._skewed(n, skew, profile, room))), None
            )
        )

    def _repelled(self, profile: RuleProfile, room: Room) -> Misfit | None:
        for number in profile.repels:
            key = self._rules[number].topology_key
            domain = room.labels.get(key)
            if domain is not None and self._tallies[number].matched.get(domain, 0):
                return Misfit(FitCause.ANTI_AFFINITY, about=key)
        for number in profile.matched:
            key = self._rules[number].topology_key
            domain = room.labels.get(key)
            if domain is not None and self._tallies[number].carried.get(domain, 0):
                return Misfit(FitCause.ANTI_AFFINITY_OF_OTHERS, about=key)
        return None

    def _lonely(self, profile: RuleProfile, room: Room) -> Misfit | None:
        """Affinity needs a matching pod in the domain. The first of a group that asks for its own kind is
        excused where there is none anywhere, as a scheduler does."""
        for number in profile.attracts:
            key, tally = self._rules[number].topology_key, self._tallies[number]
            domain = room.labels.get(key)
            if domain is None:
                return Misfit(FitCause.NO_LABEL_FOR_AFFINITY, about=key)
            first = not tally.total and number in profile.matched
            if not first and not tally.matched.get(domain, 0):
                return Misfit(FitCause.AFFINITY, about=key)
        return None

    def _skewed(self, number: int, skew: int, profile: RuleProfile, room: Room) -> Misfit | None:
        key, tally = self._rules[number].topology_key, self._tallies[number]
        domain = room.labels.get(key)
        if domain is None:
            return Misfit(FitCause.NO_LABEL_FOR_SPREAD, about=key)
        here = tally.matched.get(domain, 0) + (number in profile.matched)
        least = tally.least()
        if here - least <= skew:
            return None
        return Misfit(FitCause.SPREAD, here, skew, domain, least)

    def _know(self, pod: Pod) -> list[int]:
        """Number the rules that the pod brings; those that are new."""
        new = []
        if pod.scheduling.carries_rules:
            for rule in _rules_of(pod):
                if rule not in self._numbers:
                    self._numbers[rule] = len(self._rules)
                    self._rules.append(rule)
                    self._tallies.append(_Tally())
                    new.append(self._numbers[rule])
                    if rule.asks is not None:
                        self._spread.append(self._numbers[rule])
                        self._open_domains(rule)
        return new

    def _open_domains(self, rule: _Rule) -> None:
        for room in self._rooms.values():
            domain = _domain(rule, room)
            if domain is not None:
                self._tallies[-1].open(domain)

    def _learn(self, pod: Pod) -> None:
        """Rules that nobody had before: the pods that are there are counted for them now."""
        new = self._know(pod)
        if not new:
            return
        self._profiles.clear()
        self._alike.clear()
        for room in self._rooms.values():
            for other in room.pods:
                labels = dict(other.labels)
                for number in new:
                    rule = self._rules[number]
                    domain = _domain(rule, room)
                    if domain is None or rule.namespace != other.namespace:
                        continue
                    if matches(rule.selector, labels):
                        self._tallies[number].match(domain, 1)

    def _profile(self, pod: Pod) -> RuleProfile:
        labels = dict(pod.labels)
        return RuleProfile(
            matched=tuple(
                number
                for number, rule in enumerate(self._rules)
                if rule.namespace == pod.namespace and matches(rule.selector, labels)
            ),
            repels=tuple(self._numbers[rule] for rule in _repelling(pod)),
            attracts=tuple(self._numbers[rule] for rule in _attracting(pod)),
            hosts=tuple(
                self._numbers[rule] for rule in _attracting(pod) if rule.topology_key == HOSTNAME_LABEL
            ),
            spreads=tuple((self._numbers[rule], skew) for rule, skew in _spreading(pod)),
        )


def _domain(rule: _Rule, room: Room) -> str | None:
    """None where the node makes no domain of this rule."""
    domain = room.labels.get(rule.topology_key)
    if domain is None or (rule.asks is not None and unwanted(rule.asks, room)):
        return None
    return domain


def _rules_of(pod: Pod) -> list[_Rule]:
    return [*_repelling(pod), *_attracting(pod), *(rule for rule, _ in _spreading(pod))]


def _repelling(pod: Pod) -> list[_Rule]:
    return [_Rule(pod.namespace, r.selector, r.topology_key) for r in pod.scheduling.anti_affinity]


def _attracting(pod: Pod) -> list[_Rule]:
    return [_Rule(pod.namespace, r.selector, r.topology_key) for r in pod.scheduling.affinity]


def _spreading(pod: Pod) -> list[tuple[_Rule, int]]:
    asks = Scheduling(pod.scheduling.node_selector, pod.scheduling.node_affinity)
    return [
        (_Rule(pod.namespace, s.selector, s.topology_key, asks), s.max_skew) for s in pod.scheduling.spread
    ]
