"""A virtual cluster with its cloud: the parts put together, the few verbs that act on them, and what
clusters are made of: node types with prices, pools, and everyday workloads.

    world = World(Rules(), pools, seed=7, now=0)
    world.add_node("general", "cpx32", "a")            # there and Ready at once
    world.add_workload(WorkloadSpec(pod_template("web", 500, 512)))
    world.advance_to(60)                               # what is due by then happens
    view = world.view()

Deterministic: the same seed and the same calls give the same history. Time is never taken from
outside. `witnesses` are called for every act of an autoscaler just before it takes effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from decimal import Decimal
from enum import StrEnum

from ebbtide.core.prices import HETZNER
from ebbtide.model.pod import Pod, Resources, Scheduling, Taint, TaintEffect, Toleration
from ebbtide.model.policy import ServiceRef, Takeover
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.snapshot import ClusterView, Instance, InstanceState, Market, Node
from ebbtide.simulator.faults.world import Incidents
from ebbtide.simulator.world.clock import Timeline
from ebbtide.simulator.world.controllers import Controllers
from ebbtide.simulator.world.inventory import Inventory
from ebbtide.simulator.world.machines import Machine, Machines, new_machine
from ebbtide.simulator.world.nodes import Nodes, NodeUsage
from ebbtide.simulator.world.pods import Pods
from ebbtide.simulator.world.rules import ONE_POD, BudgetSpec, Demand, Kind, Rules, WorkloadSpec, pod_template

CONTROL_PLANE_TAINT = Taint("node-role.kubernetes.io/control-plane", TaintEffect.NO_SCHEDULE)
CONTROL_PLANE_LABELS = (("node-role.kubernetes.io/control-plane", "true"),)
FOUR_CORES = Resources(4000, 8192)


class ActKind(StrEnum):
    SOFT_TAINT = "soft taint"
    CORDON = "cordon"
    UNCORDON = "uncordon"
    EVICT = "evict"
    TERMINATE = "terminate"
    DELETE_NODE = "delete node"
    LAUNCH = "launch"


@dataclass(frozen=True, slots=True)
class Act:
    """Something an autoscaler did, as the world saw it."""

    kind: ActKind
    instance_id: str = ""
    node_name: str = ""
    pod_uid: str = ""
    operation_id: str = ""
    key: str = ""


class World:
    def __init__(self, rules: Rules, pools: tuple[Pool, ...], seed: int, now: float = 0.0) -> None:
        self.rules = rules
        self.seed = seed
        self.timeline = Timeline(now, seed)
        self.inventory = Inventory(self.timeline)
        self.pods = Pods(self.timeline, self.inventory, rules)
        self.controllers = Controllers(self.timeline, self.inventory, self.pods, rules)
        self.machines = Machines(self.timeline, rules)
        self.machines.book.pools = {pool.name: pool for pool in pools}
        self.nodes = Nodes(self.timeline, self.inventory, self.pods, self.machines)
        self.incidents = Incidents(self.timeline, self.inventory, self.machines, self.nodes)
        self.nodes.rules = self.incidents.rules = rules
        self.incidents.controllers = self.controllers
        self.usage = NodeUsage(self.inventory, self.pods, self.nodes, rules)
        self.bare_type = "cpx32"
        """Type of the nodes that are none of ours."""
        self.fences: dict[str, int] = {}
        """The highest token that signed a node, by node UID and operation; it outlives the cordon."""
        self.takeovers: dict[ServiceRef, Takeover] = {}
        """Services that lead to the gates."""
        self.takeovers_written = 0
        self.evictions = 0
        self.removed = 0
        self.disturbances = 0
        """Crashes and lost or failed calls so far: after one, a repeated call is no fault."""
        self.witnesses: list[Callable[[Act], None]] = []

    @property
    def now(self) -> float:
        return self.timeline.now

    def advance_to(self, moment: float) -> None:
        self.timeline.advance_to(moment)

    def plan(self, at: float, kind: str, subject: str = "") -> None:
        """Let an incident happen then; `Incidents` lists the kinds."""
        if kind not in self.timeline.kinds():
            raise ValueError(f"no incident is called {kind!r}; there are {', '.join(self.timeline.kinds())}")
        self.timeline.at(at, kind, subject)

    def urgencies(self) -> int:
        """Grows with every pod that no node takes and every node that becomes Ready, as a watch tells."""
        return self.pods.unplaced + self.nodes.became_ready

    def arrived_at(self) -> float:
        """When the last pod came that no node takes."""
        return self.pods.unplaced_at

    def view(self) -> ClusterView:
        """The same object while nothing changed."""
        return self.inventory.view(self.controllers.budgets())

    def pods_on(self, node_name: str) -> tuple[Pod, ...]:
        return self.inventory.on(node_name)

    def tell(self, act: Act) -> None:
        for witness in self.witnesses:
            witness(act)

    def add_node(
        self,
        pool: str,
        instance_type: str,
        zone: str,
        market: Market = Market.ON_DEMAND,
        age_seconds: int = 7200,
        name: str = "",
    ) -> Node:
        """A worker of ours that is there, and Ready, from the start."""
        number = self.timeline.number()
        instance = Instance(
            id=f"i-{number:08d}",
            key=f"start-{number}",
            pool=pool,
            zone=zone,
            instance_type=instance_type,
            market=market,
            launched_at=int(self.now) - age_seconds,
        )
        return self._add(new_machine(self.machines.book.pools[pool], instance), age_seconds, name)

    def add_control_plane(self, zone: str, resources: Resources = FOUR_CORES, name: str = "") -> Node:
        node = Node("", "", control_plane=True, labels=CONTROL_PLANE_LABELS, taints=(CONTROL_PLANE_TAINT,))
        node = replace(node, allocatable=resources)
        return self._add(Machine(self._bare_instance(zone), node), 86_400, name)

    def add_foreign_node(
        self, zone: str, resources: Resources = FOUR_CORES, age_seconds: int = 86_400, name: str = ""
    ) -> Node:
        """A node of somebody else in the same cluster; its instance does not carry our tag."""
        machine = Machine(self._bare_instance(zone), Node("", "", allocatable=resources), tagged=False)
        return self._add(machine, age_seconds, name)

    def add_workload(self, spec: WorkloadSpec, *budgets: BudgetSpec) -> None:
        self.controllers.budget_specs.extend(budgets)
        self.controllers.add(spec)

    def set_late_bind(self, seconds: float) -> None:
        """From now on the scheduler may bind to a node for so long after its cordon; 0 ends that."""
        self.set_rules(replace(self.rules, late_bind_seconds=seconds))

    def set_rules(self, rules: Rules) -> None:
        """From now on cloud and cluster behave like this."""
        self.rules = rules
        self.nodes.rules = self.incidents.rules = self.machines.rules = rules
        self.pods.rules = self.controllers.rules = self.usage.rules = rules

    def _bare_instance(self, zone: str) -> Instance:
        return Instance(
            id=f"x-{self.timeline.number():08d}",
            zone=zone,
            instance_type=self.bare_type,
            launched_at=int(self.now) - 86_400,
        )

    def _add(self, machine: Machine, age_seconds: int, name: str) -> Node:
        machine.instance = replace(machine.instance, state=InstanceState.RUNNING)
        machine.node = replace(machine.node, ready=False)
        self.machines.add(machine, name)
        self.nodes.join_now(machine)
        node = replace(self.inventory.nodes[machine.node.name], created_at=int(self.now) - age_seconds)
        self.inventory.put_node(node)
        self.timeline.after(0, "lifespan", machine.instance.id)
        return node


CURRENCY = "EUR"
ZONES = ("a", "b", "c")
SPOT_SHARE = Decimal("0.4")
"""What a spot node costs of the listed price, in this cloud."""

EVERYWHERE = Scheduling(tolerations=(Toleration(exists=True),))
CONTROL_PLANE_ONLY = replace(EVERYWHERE, node_selector=CONTROL_PLANE_LABELS)


def node_type(name: str) -> NodeType:
    """Of what the machine has, the system keeps 200m CPU and 700 MiB for itself."""
    listed = HETZNER[name]
    offered = listed.allocatable
    return replace(
        listed,
        allocatable=Resources(offered.cpu_milli - 200, offered.memory_mib - 700),
        spot_price=listed.price and replace(listed.price, per_hour=listed.price.per_hour * SPOT_SHARE),
    )


def pool(name: str, types: tuple[str, ...] = ("cpx32",), market: Market = Market.ON_DEMAND) -> Pool:
    return Pool(name, tuple(node_type(one) for one in types), ZONES, market)


def add_system(world: World, zones: tuple[str, ...] = ZONES) -> None:
    """A control plane with CoreDNS and its static pods, a node of somebody else, and what runs on
    every node."""
    world.add_control_plane(zones[0])
    world.add_foreign_node(zones[1])
    system = "kube-system"
    static = pod_template("apiserver", 250, 512, system)
    world.add_workload(WorkloadSpec(replace(static, scheduling=CONTROL_PLANE_ONLY), Kind.STATIC))
    dns = replace(pod_template("coredns", 100, 70, system), scheduling=CONTROL_PLANE_ONLY)
    dns = replace(dns, priority_class="system-cluster-critical")
    world.add_workload(WorkloadSpec(dns, demand=Demand(low=2)))
    proxy = replace(pod_template("proxy", 20, 32, system), scheduling=EVERYWHERE)
    world.add_workload(WorkloadSpec(proxy, Kind.STATIC))
    exporter = replace(pod_template("node-exporter", 50, 64, "monitoring"), scheduling=EVERYWHERE)
    world.add_workload(WorkloadSpec(exporter, Kind.DAEMON_SET))


def deployment(
    name: str, cpu_milli: int, memory_mib: int, demand: Demand = ONE_POD, use_fraction: float = 0.6
) -> WorkloadSpec:
    return WorkloadSpec(pod_template(name, cpu_milli, memory_mib), demand=demand, use_fraction=use_fraction)


def database(name: str, replicas: int) -> tuple[WorkloadSpec, BudgetSpec]:
    """A StatefulSet with a volume for each pod, of which one may be away at a time."""
    spec = WorkloadSpec(
        pod_template(name, 500, 1024), Kind.STATEFUL_SET, Demand(low=replicas), start_seconds=15, volume=True
    )
    return spec, BudgetSpec(name, spec.key, max_unavailable=1)


def guarded(spec: WorkloadSpec, max_unavailable: int) -> tuple[WorkloadSpec, BudgetSpec]:
    return spec, BudgetSpec(spec.template.name, spec.key, max_unavailable=max_unavailable)
