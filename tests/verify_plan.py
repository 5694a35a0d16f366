"""An independent check of a plan: it shares no code with the packer beyond the values it is given."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence

from ebbtide.core.packing.types import Item, NodeType, Plan, PlannedNode, Unplaced


def verify_plan(plan: Plan, items: Sequence[Item], types: Sequence[NodeType]) -> list[str]:
    """What is wrong with this plan, in sentences; nothing if it holds."""
    placed = [name for node in plan.nodes for name in node.pods]
    aside = [name for unplaced in plan.unplaced for name in unplaced.pods]
    wrong = list(_once(placed + aside, [name for item in items for name in item.names]))
    item_of = {name: index for index, item in enumerate(items) for name in item.names}
    if wrong:
        return wrong
    for node in plan.nodes:
        wrong.extend(_node_holds(node, items, item_of))
    wrong.extend(f"{node.type.name} is not on offer" for node in plan.nodes if node.type not in types)
    zone_of = {name: node.type.zone for node in plan.nodes for name in node.pods}
    for item in items:
        wrong.extend(_spread_holds(item, types, zone_of))
    for unplaced in plan.unplaced:
        wrong.extend(_fits_nowhere(unplaced, items, item_of, types))
    wrong.extend(_sums_hold(plan))
    return wrong


def _once(found: list[str], wanted: list[str]) -> Iterable[str]:
    for name, count in (Counter(found) - Counter(wanted)).items():
        yield f"{name} is in the plan {count} times too often"
    for name in Counter(wanted) - Counter(found):
        yield f"{name} is not in the plan"


def _node_holds(node: PlannedNode, items: Sequence[Item], item_of: dict[str, int]) -> Iterable[str]:
    names = Counter(item_of[name] for name in node.pods)
    if not names:
        yield f"a {node.type.name} is empty"
    cpu_milli = memory_mib = 0
    for index, pods in names.items():
        item = items[index]
        units, torn = divmod(pods, item.slots)
        cpu_milli += units * item.cpu_milli
        memory_mib += units * item.memory_mib
        if torn or not _units_whole(node, item):
            yield f"a {node.type.name} holds part of pods that must stay together"
        if item.rules.types is not None and node.type.name not in item.rules.types:
            yield f"{item.names[0]} may not use {node.type.name}"
        if item.rules.zones is not None and node.type.zone not in item.rules.zones:
            yield f"{item.names[0]} may not use zone {node.type.zone}"
        if item.rules.max_per_node is not None and units > item.rules.max_per_node:
            yield f"{units} of {item.names[0]} share a node"
    if cpu_milli > node.type.cpu_milli or memory_mib > node.type.memory_mib:
        yield f"a {node.type.name} is overfull: {cpu_milli}m, {memory_mib} MiB"
    if len(node.pods) > node.type.pods:
        yield f"a {node.type.name} has {len(node.pods)} pods"


def _units_whole(node: PlannedNode, item: Item) -> bool:
    here = set(node.pods)
    starts = range(0, len(item.names), item.slots)
    return all(
        here.issuperset(unit) or here.isdisjoint(unit)
        for unit in (item.names[start : start + item.slots] for start in starts)
    )


def _spread_holds(item: Item, types: Sequence[NodeType], zone_of: dict[str, str | None]) -> Iterable[str]:
    rules = item.rules
    if rules.max_skew is None or not item.names or item.names[0] not in zone_of:
        return
    zones = {type_.zone for type_ in types if _may_use(item, type_)}
    before = dict(rules.zone_counts)
    counts = {zone: before.get(zone or "", 0) for zone in zones}
    added = Counter(zone_of[name] for name in item.names[:: item.slots])
    after = {zone: counts[zone] + added[zone] for zone in zones}
    lowest = min(after.values())
    for zone in zones:
        # A zone may already hold too many; then nothing may be added to it.
        if added[zone] and after[zone] - lowest > rules.max_skew:
            yield f"{item.names[0]} has {after[zone]} in {zone}, and {lowest} elsewhere"


def _may_use(item: Item, type_: NodeType) -> bool:
    rules = item.rules
    return (
        (rules.types is None or type_.name in rules.types)
        and (rules.zones is None or type_.zone in rules.zones)
        and item.cpu_milli <= type_.cpu_milli
        and item.memory_mib <= type_.memory_mib
        and item.slots <= type_.pods
    )


def _fits_nowhere(
    unplaced: Unplaced, items: Sequence[Item], item_of: dict[str, int], types: Sequence[NodeType]
) -> Iterable[str]:
    for name in unplaced.pods:
        if any(_may_use(items[item_of[name]], type_) for type_ in types):
            yield f"{name} is left out but fits"


def _sums_hold(plan: Plan) -> Iterable[str]:
    cost = sum(node.type.price for node in plan.nodes)
    if abs(cost - plan.cost) > 1e-6 * max(1.0, cost):
        yield f"the nodes cost {cost}, the plan says {plan.cost}"
    if plan.bound > plan.cost:
        yield f"the bound {plan.bound} is above the cost {plan.cost}"
