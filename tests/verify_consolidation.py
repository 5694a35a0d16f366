"""An independent check of a consolidation plan: the moves are made one by one on a copy of the cluster, by
rules written here again. It shares no code with the planner beyond the values of the model."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from decimal import Decimal

from ebbtide.model.consolidation import ConsolidationPlan
from ebbtide.model.pod import LabelSelector, Pod, PodPhase, Requirement, SelectorOperator, TaintEffect
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, Snapshot

ZONE = "topology.kubernetes.io/zone"
HOST = "kubernetes.io/hostname"


@dataclass
class _Machine:
    name: str
    zone: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    cpu: int
    memory: int
    slots: int
    extended: Mapping[str, int]
    pods: list[Pod] = field(default_factory=list)


def verify_consolidation(plan: ConsolidationPlan, snapshot: Snapshot, settings: Settings) -> list[str]:
    """What is wrong with this plan, in sentences; nothing if it holds."""
    machines = {node.name: _machine(node, snapshot) for node in snapshot.cluster.nodes}
    wrong = list(_new_machines(plan, snapshot, settings, machines))
    removed = {removal.node_name for removal in (*plan.empties, *plan.sources)}
    known = {pod.uid: pod for pod in snapshot.cluster.pods}
    moved: set[str] = set()
    for move in plan.moves:
        pod = known[move.pod_uid]
        if move.pod_uid in moved:
            wrong.append(f"{pod.name} is moved twice")
        moved.add(move.pod_uid)
        if (pod.node_name, pod.full_name) != (move.from_node, move.pod_name):
            wrong.append(f"{pod.name} is not on {move.from_node}")
        if move.from_node not in removed or move.to_node in removed:
            wrong.append(f"{pod.name} moves from a node that stays, or to one that goes")
        wrong.extend(_unmovable(pod, snapshot))
        source, target = machines[move.from_node], machines[move.to_node]
        source.pods = [each for each in source.pods if each.uid != pod.uid]
        wrong.extend(f"{pod.name} on {target.name}: {why}" for why in _refused(pod, target, machines))
        target.pods.append(pod)
        wrong.extend(_too_full(target, settings.consolidation.max_fill))
    wrong.extend(_emptied(plan, machines, snapshot))
    wrong.extend(_left(plan, snapshot, settings))
    wrong.extend(_money(plan, snapshot, settings))
    return wrong


def _machine(node: Node, snapshot: Snapshot) -> _Machine:
    return _Machine(
        node.name,
        node.zone,
        {HOST: node.name, ZONE: node.zone} | dict(node.labels),
        tuple((t.key, t.value, t.effect.value) for t in node.taints),
        node.allocatable.cpu_milli,
        node.allocatable.memory_mib,
        node.max_pods,
        dict(node.allocatable.extended),
        [
            p
            for p in snapshot.cluster.pods
            if p.node_name == node.name and p.phase in (PodPhase.RUNNING, PodPhase.PENDING)
        ],
    )


def _new_machines(
    plan: ConsolidationPlan, snapshot: Snapshot, settings: Settings, machines: dict[str, _Machine]
) -> Iterator[str]:
    for slot in plan.slots:
        pool = next(pool for pool in settings.pools if pool.name == slot.pool)
        type_ = next((each for each in pool.types if each.name == slot.instance_type), None)
        if type_ is None or slot.zone not in pool.zones or slot.key in machines:
            yield f"{slot.key} cannot be launched"
            continue
        machines[slot.key] = _Machine(
            slot.key,
            slot.zone,
            {HOST: slot.key, ZONE: slot.zone, "kubernetes.io/os": "linux"} | dict(pool.labels),
            tuple((t.key, t.value, t.effect.value) for t in pool.taints),
            type_.allocatable.cpu_milli,
            type_.allocatable.memory_mib,
            type_.max_pods,
            dict(type_.allocatable.extended),
            _daemons(pool.name, snapshot),
        )
        nodes = [n for n in snapshot.cluster.nodes if n.worker and n.ready and not n.unschedulable]
        needed = max(settings.min_workers, settings.consolidation.min_nodes)
        spare = len(nodes) - len(plan.sources) - len(plan.empties) + len(plan.slots) > needed
        if spare and slot.key not in {move.to_node for move in plan.moves}:
            yield f"{slot.key} is launched for nothing"


def _daemons(pool: str, snapshot: Snapshot) -> list[Pod]:
    """What the busiest worker of the pool carries by itself."""
    names = [node.name for node in snapshot.cluster.nodes if node.worker and node.pool == pool]
    tied = [[p for p in snapshot.cluster.pods if p.node_name == name and _tied(p)] for name in names]
    return list(max(tied, key=lambda pods: sum(p.requests.cpu_milli for p in pods), default=[]))


def _tied(pod: Pod) -> bool:
    return pod.mirror or pod.controller == "DaemonSet"


def _unmovable(pod: Pod, snapshot: Snapshot) -> Iterator[str]:
    critical = pod.priority_class.startswith("system-") or pod.namespace == "kube-system"
    if critical or pod.terminating or pod.do_not_disrupt or pod.safe_to_evict is False or _tied(pod):
        yield f"{pod.name} must not be moved"
    if not pod.controller and not pod.safe_to_evict:
        yield f"{pod.name} would not come back"
    if pod.local_storage and not pod.safe_to_evict:
        yield f"{pod.name} would lose its data"
    if pod.requests.cpu_milli < 0 or pod.requests.memory_mib < 0 or pod.scheduling.unsupported:
        yield f"{pod.name} is not understood"
    covering = [
        b for b in snapshot.cluster.budgets if b.namespace == pod.namespace and _selects(b.selector, pod)
    ]
    if len(covering) > 1 or any(budget.disruptions_allowed < 1 for budget in covering):
        yield f"the budget of {pod.name} forbids it"


def _refused(pod: Pod, target: _Machine, machines: Mapping[str, _Machine]) -> Iterator[str]:
    rules = pod.scheduling
    for key, value, effect in target.taints:
        tolerated = any(
            (not t.key or t.key == key)
            and (t.exists or t.value == value)
            and (t.effect is None or t.effect.value == effect)
            for t in rules.tolerations
        )
        if effect != TaintEffect.PREFER_NO_SCHEDULE.value and not tolerated:
            yield f"taint {key}"
    if not _wanted(pod, target):
        yield "selector or affinity"
    if rules.volume_zones and target.zone not in rules.volume_zones:
        yield "its volume is elsewhere"
    if len(target.pods) >= target.slots:
        yield "no slot"
    for name, amount in pod.requests.extended:
        used = sum(dict(each.requests.extended).get(name, 0) for each in target.pods)
        if used + amount > target.extended.get(name, 0):
            yield f"no {name}"
    yield from _repelled(pod, target, machines)
    yield from _skewed(pod, target, machines)


def _wanted(pod: Pod, machine: _Machine) -> bool:
    rules = pod.scheduling
    if any(machine.labels.get(key) != value for key, value in rules.node_selector):
        return False
    terms = rules.node_affinity
    return not terms or any(term and all(_holds(r, machine.labels) for r in term) for term in terms)


def _repelled(pod: Pod, target: _Machine, machines: Mapping[str, _Machine]) -> Iterator[str]:
    for machine in machines.values():
        for other in machine.pods:
            if other.namespace != pod.namespace:
                continue
            for one, two in ((pod, other), (other, pod)):
                for rule in one.scheduling.anti_affinity:
                    here = target.labels.get(rule.topology_key)
                    same = here is not None and here == machine.labels.get(rule.topology_key)
                    if same and _selects(rule.selector, two):
                        yield f"{pod.name} and {other.name} must be apart"


def _skewed(pod: Pod, target: _Machine, machines: Mapping[str, _Machine]) -> Iterator[str]:
    for rule in pod.scheduling.spread:
        counts: dict[str, int] = {}
        for machine in machines.values():
            domain = machine.labels.get(rule.topology_key)
            if domain is not None and _wanted(pod, machine):
                here = sum(p.namespace == pod.namespace and _selects(rule.selector, p) for p in machine.pods)
                counts[domain] = counts.get(domain, 0) + here
        domain = target.labels.get(rule.topology_key)
        own = 1 if _selects(rule.selector, pod) else 0
        if domain is None or counts.get(domain, 0) + own - min(counts.values()) > rule.max_skew:
            yield f"skew over {rule.topology_key}"


def _selects(selector: LabelSelector, pod: Pod) -> bool:
    labels = dict(pod.labels)
    return all(_holds(requirement, labels) for requirement in selector.requirements)


def _holds(requirement: Requirement, labels: Mapping[str, str]) -> bool:
    value = labels.get(requirement.key)
    return {
        SelectorOperator.IN: value in requirement.values,
        SelectorOperator.NOT_IN: value not in requirement.values,
        SelectorOperator.EXISTS: value is not None,
        SelectorOperator.DOES_NOT_EXIST: value is None,
    }[requirement.operator]


def _too_full(machine: _Machine, fill: Decimal) -> Iterator[str]:
    cpu = sum(max(pod.requests.cpu_milli, 0) for pod in machine.pods)
    memory = sum(max(pod.requests.memory_mib, 0) for pod in machine.pods)
    asked = machine.pods[-1].requests
    if (asked.cpu_milli and cpu > machine.cpu * fill) or (
        asked.memory_mib and memory > machine.memory * fill
    ):
        yield f"{machine.name} is filled with {cpu}m and {memory} MiB"


def _emptied(plan: ConsolidationPlan, machines: Mapping[str, _Machine], snapshot: Snapshot) -> Iterator[str]:
    for removal in (*plan.empties, *plan.sources):
        left = [pod.name for pod in machines[removal.node_name].pods if not _tied(pod)]
        if left:
            yield f"{removal.node_name} still holds {left}"
    for removal in plan.empties:
        if any(
            p.node_name == removal.node_name and not _tied(p) for p in snapshot.cluster.pods if not p.finished
        ):
            yield f"{removal.node_name} was not empty"


def _left(plan: ConsolidationPlan, snapshot: Snapshot, settings: Settings) -> Iterator[str]:
    removed = {removal.node_name for removal in (*plan.empties, *plan.sources)}
    workers = [node for node in snapshot.cluster.nodes if node.worker]
    left = [(node.pool, node.zone) for node in workers if node.name not in removed]
    left += [(slot.pool, slot.zone) for slot in plan.slots]
    if len(left) < max(settings.min_workers, settings.consolidation.min_nodes):
        yield f"only {len(left)} workers are left"
    for pool in settings.pools:
        if sum(name == pool.name for name, _ in left) < min(
            pool.min_workers, sum(node.pool == pool.name for node in workers)
        ):
            yield f"too few are left in {pool.name}"
    for name in removed:
        node = next(node for node in snapshot.cluster.nodes if node.name == name)
        if not node.worker or not node.ready or node.unschedulable:
            yield f"{name} is not ours to remove"
        if snapshot.at - node.created_at < settings.consolidation.min_uptime_seconds:
            yield f"{name} is too young"
        if len({each.zone for each in workers}) > 1 and node.zone not in {zone for _, zone in left}:
            yield f"no worker is left in {node.zone}"


def _money(plan: ConsolidationPlan, snapshot: Snapshot, settings: Settings) -> Iterator[str]:
    def price(pool_name: str, type_name: str) -> Decimal:
        pool = next(pool for pool in settings.pools if pool.name == pool_name)
        known = next(each for each in pool.types if each.name == type_name).price_in(pool.market)
        return known.per_hour if known else Decimal("NaN")

    nodes = {node.name: node for node in snapshot.cluster.nodes}
    saved = Decimal(0)
    for removal in (*plan.empties, *plan.sources):
        node = nodes[removal.node_name]
        saved += price(node.pool, node.instance_type)
    saved -= sum((price(slot.pool, slot.instance_type) for slot in plan.slots), Decimal(0))
    if saved != plan.savings_per_hour:
        yield f"{saved} is saved, the plan says {plan.savings_per_hour}"
    if plan.bound > plan.cost_after:
        yield f"the bound {plan.bound} is above the cost {plan.cost_after}"
    costs = [point.cost_per_hour for point in plan.frontier]
    moves = [point.pods_moved for point in plan.frontier]
    if costs != sorted(set(costs), reverse=True) or moves != sorted(set(moves)):
        yield f"the frontier is none: {plan.frontier}"
    # A plan without launches may be preferred to one that is on the frontier for very little.
    if plan.slots and (len(plan.moves), plan.cost_after) not in zip(moves, costs, strict=True):
        yield "the plan is not on its own frontier"
