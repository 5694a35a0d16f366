"""A virtual cluster with its cloud: the parts put together, and the few verbs that act on them.

    world = World(Rules(), pools, seed=7, now=0)
    world.add_node("general", "cpx32", "a")            # there and Ready at once
    world.add_workload(WorkloadSpec(pod_template("web", 500, 512)))
    world.advance_to(60)                               # what is due by then happens
    view = world.view()

Deterministic: the same seed and the same calls give the same history. Time is never taken from
outside. `witnesses` are told of every act of an autoscaler just before it takes effect.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import StrEnum

from ebbtide.model.gate import ServiceRef, Takeover
from ebbtide.model.node import Instance, InstanceState, Market, Node
from ebbtide.model.pod import Pod
from ebbtide.model.pool import Pool
from ebbtide.model.resources import Resources
from ebbtide.model.scheduling import Taint, TaintEffect
from ebbtide.model.snapshot import ClusterView
from ebbtide.simulator.faults.world import Incidents
from ebbtide.simulator.world.clock import Timeline
from ebbtide.simulator.world.controllers import Controllers
from ebbtide.simulator.world.inventory import Inventory
from ebbtide.simulator.world.machines import Machine, Machines, new_machine
from ebbtide.simulator.world.nodes import Nodes, NodeUsage
from ebbtide.simulator.world.pods import Pods
from ebbtide.simulator.world.rules import BudgetSpec, Rules, WorkloadSpec

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
