"""Spread and anti-affinity kept as counts, so that a question about one pod does not look at all others.

The rules are those of `ebbtide.core.fit`, except that every node counts, also one that takes no pods
now: a scheduler counts them too.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from ebbtide.core.fit import Room, unwanted
from ebbtide.core.labels import matches
from ebbtide.model.pod import Pod
from ebbtide.model.scheduling import LabelSelector, Scheduling


@dataclass(frozen=True, slots=True)
class _Rule:
    """Pods of a namespace that match, counted by domain; for a spread only on nodes its pods ask for."""

    namespace: str
    selector: LabelSelector
    topology_key: str
    asks: Scheduling | None = None


@dataclass(frozen=True, slots=True)
class Profile:
    """What a pod has to do with the rules, by their numbers."""

    matched: tuple[int, ...] = ()
    repels: tuple[int, ...] = ()
    spreads: tuple[tuple[int, int], ...] = ()
    """A rule and the skew that it allows."""

    @property
    def free(self) -> bool:
        """No rule asks about such a pod, nor does it bring one."""
        return not (self.matched or self.repels or self.spreads)


FREE = Profile()


class Neighbours:
    def __init__(self, rooms: Iterable[Room], pods_on: Mapping[str, Iterable[Pod]]) -> None:
        self._rooms = {room.name: room for room in rooms}
        carrying = [
            pod
            for pods in pods_on.values()
            for pod in pods
            if pod.scheduling.anti_affinity or pod.scheduling.spread
        ]
        self._numbers: dict[_Rule, int] = {}
        for pod in carrying:
            for rule in (*_repelling(pod), *(rule for rule, _ in _spreading(pod))):
                self._numbers.setdefault(rule, len(self._numbers))
        self._rules = list(self._numbers)
        self._matched: list[dict[str, int]] = [{} for _ in self._rules]
        self._carried: list[dict[str, int]] = [{} for _ in self._rules]
        self._domains = [self._domains_of(rule) for rule in self._rules]
        self._profiles: dict[tuple[object, ...], Profile] = {}
        if self._rules:
            for name, pods in pods_on.items():
                for pod in pods:
                    if name in self._rooms:
                        self.add(self.profile(pod), self._rooms[name])

    def profile(self, pod: Pod) -> Profile:
        if not self._rules:
            return FREE
        rules = (pod.scheduling.anti_affinity, pod.scheduling.spread)
        key = (pod.namespace, pod.labels, rules, pod.scheduling if pod.scheduling.spread else None)
        known = self._profiles.get(key)
        if known is None:
            known = self._profiles[key] = self._profile(pod)
        return known

    def open_room(self, room: Room) -> list[tuple[int, str]]:
        """Know a node that is yet to come; the domains that are new with it, for `forget`."""
        new: list[tuple[int, str]] = []
        for number, rule in enumerate(self._rules):
            domain = self._domain(rule, room)
            if domain is not None and domain not in self._domains[number]:
                self._domains[number][domain] = None
                new.append((number, domain))
        return new

    def forget(self, domains: Iterable[tuple[int, str]]) -> None:
        for number, domain in domains:
            del self._domains[number][domain]

    def add(self, profile: Profile, room: Room, count: int = 1) -> None:
        """Count a pod in this room; with -1, one less."""
        for number in profile.matched:
            _change(self._matched[number], self._domain(self._rules[number], room), count)
        for number in profile.repels:
            _change(self._carried[number], self._domain(self._rules[number], room), count)

    def refuse(self, profile: Profile, room: Room) -> bool:
        """Whether a rule keeps such a pod, which is counted nowhere now, out of this room."""
        for number in profile.repels:
            domain = room.labels.get(self._rules[number].topology_key)
            if domain is not None and self._matched[number].get(domain, 0):
                return True
        for number in profile.matched:
            rule = self._rules[number]
            domain = room.labels.get(rule.topology_key)
            if rule.asks is None and domain is not None and self._carried[number].get(domain, 0):
                return True
        return any(self._skewed(number, skew, profile, room) for number, skew in profile.spreads)

    def _skewed(self, number: int, skew: int, profile: Profile, room: Room) -> bool:
        domain = room.labels.get(self._rules[number].topology_key)
        if domain is None:
            return True
        counts = self._matched[number]
        here = counts.get(domain, 0) + (number in profile.matched)
        least = min((counts.get(each, 0) for each in self._domains[number]), default=0)
        return here - least > skew

    def _domains_of(self, rule: _Rule) -> dict[str, None]:
        found = (self._domain(rule, room) for room in self._rooms.values())
        return dict.fromkeys(domain for domain in found if domain is not None)

    def _domain(self, rule: _Rule, room: Room) -> str | None:
        """None where the node makes no domain of this rule."""
        domain = room.labels.get(rule.topology_key)
        if domain is None or (rule.asks is not None and unwanted(rule.asks, room)):
            return None
        return domain

    def _profile(self, pod: Pod) -> Profile:
        labels = dict(pod.labels)
        return Profile(
            matched=tuple(
                number
                for number, rule in enumerate(self._rules)
                if rule.namespace == pod.namespace and matches(rule.selector, labels)
            ),
            repels=tuple(self._numbers[rule] for rule in _repelling(pod)),
            spreads=tuple((self._numbers[rule], skew) for rule, skew in _spreading(pod)),
        )


def _repelling(pod: Pod) -> list[_Rule]:
    return [_Rule(pod.namespace, r.selector, r.topology_key) for r in pod.scheduling.anti_affinity]


def _spreading(pod: Pod) -> list[tuple[_Rule, int]]:
    asks = Scheduling(pod.scheduling.node_selector, pod.scheduling.node_affinity)
    return [
        (_Rule(pod.namespace, s.selector, s.topology_key, asks), s.max_skew) for s in pod.scheduling.spread
    ]


def _change(counts: dict[str, int], domain: str | None, by: int) -> None:
    if domain is not None:
        counts[domain] = counts.get(domain, 0) + by
