"""Pods to classes: what is equal in size and rules is packed by count instead of one by one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from ebbtide.core.packing.types import Item, Pod, Rules


@dataclass(frozen=True, slots=True)
class _Unit:
    cpu_milli: int
    memory_mib: int
    slots: int
    rules: Rules


def group(pods: Iterable[Pod]) -> tuple[Item, ...]:
    """The classes of these pods, in the order in which each first appears."""
    names: dict[_Unit, list[str]] = {}
    for unit, members in _units(pods):
        names.setdefault(unit, []).extend(members)
    return tuple(
        Item(unit.cpu_milli, unit.memory_mib, tuple(members), unit.slots, unit.rules)
        for unit, members in names.items()
    )


def _units(pods: Iterable[Pod]) -> list[tuple[_Unit, list[str]]]:
    joined: dict[str, list[Pod]] = {}
    units: list[tuple[_Unit, list[str]]] = []
    for pod in pods:
        if pod.together is None:
            units.append((_Unit(pod.cpu_milli, pod.memory_mib, 1, pod.rules), [pod.name]))
        else:
            joined.setdefault(pod.together, []).append(pod)
    for members in joined.values():
        units.append((_join(members), [pod.name for pod in members]))
    return units


def _join(members: list[Pod]) -> _Unit:
    rules = members[0].rules
    for pod in members[1:]:
        rules = both_of(rules, pod.rules)
    cpu_milli = sum(pod.cpu_milli for pod in members)
    memory_mib = sum(pod.memory_mib for pod in members)
    return _Unit(cpu_milli, memory_mib, len(members), rules)


def both_of(one: Rules, other: Rules) -> Rules:
    """Rules that hold both: a unit may go only where each of its pods may."""
    return Rules(
        types=_intersection(one.types, other.types),
        zones=_intersection(one.zones, other.zones),
        max_per_node=_least(one.max_per_node, other.max_per_node),
        max_skew=_least(one.max_skew, other.max_skew),
        zone_counts=one.zone_counts or other.zone_counts,
    )


def _intersection(one: frozenset[str] | None, other: frozenset[str] | None) -> frozenset[str] | None:
    if one is None or other is None:
        return other if one is None else one
    return one & other


def _least(one: int | None, other: int | None) -> int | None:
    if one is None or other is None:
        return other if one is None else one
    return min(one, other)
