"""The life of Node objects: they appear when a machine joins, and stay until somebody deletes them; and how
busy they are: what their running pods really use, not what they asked for.

A machine that takes over the address of one whose Node object is still there cannot join under that name
until it is deleted, as in K3s, where the node password would not match; unless the rules say otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.snapshot import InstanceState
from ebbtide.simulator.world.clock import Timeline
from ebbtide.simulator.world.controllers import give_up
from ebbtide.simulator.world.inventory import Inventory
from ebbtide.simulator.world.machines import Machine, Machines
from ebbtide.simulator.world.pods import Pods
from ebbtide.simulator.world.rules import Rules


class Nodes:
    def __init__(self, timeline: Timeline, inventory: Inventory, pods: Pods, machines: Machines) -> None:
        self._timeline = timeline
        self._inventory = inventory
        self._pods = pods
        self._machines = machines
        self._machine_of: dict[str, Machine] = {}
        self.lost_at: dict[str, float] = {}
        """When a node was last lost against our will, by node UID."""
        self.became_ready = 0
        """How often a node became Ready so far."""
        self.rules = Rules()
        pods.works = self.works
        timeline.on("join", self._join)
        timeline.on("ready", self._ready)
        timeline.on("unready", self._unready)
        timeline.on("give-up", self._give_up)
        timeline.on("late-bind", self._late_bind)

    def restore(self) -> None:
        for machine in self._machines.book.machines.values():
            node = self._inventory.nodes.get(machine.node.name)
            if node is not None and node.uid == machine.node.uid:
                self._machine_of[node.uid] = machine

    def machine_of(self, node_name: str) -> Machine | None:
        node = self._inventory.nodes.get(node_name)
        return None if node is None else self._machine_of.get(node.uid)

    def works(self, node_name: str) -> bool:
        machine = self.machine_of(node_name)
        return machine is not None and machine.works

    def is_alive(self, node_name: str) -> bool:
        machine = self.machine_of(node_name)
        return machine is not None and machine.instance.alive

    def join_now(self, machine: Machine) -> None:
        """Join and be ready at once: for nodes that a world starts with."""
        self._join(machine.instance.id)
        self._ready(machine.instance.id)

    def stop_answering(self, machine: Machine) -> None:
        """The kubelet is silent from now on; the cluster notices later."""
        if machine.node.uid:
            self._timeline.after(self.rules.unready_seconds, "unready", machine.instance.id)

    def fall_silent(self, machine: Machine, long_ago: bool = False) -> None:
        """Its kubelet stops answering while the instance runs on; `long_ago`: the cluster knows already."""
        machine.reachable = False
        if long_ago:
            self._unready(machine.instance.id)
            self.lost_at.pop(machine.node.uid, None)
        else:
            self.stop_answering(machine)

    def answer_again(self, machine: Machine) -> None:
        machine.reachable = True
        self._ready(machine.instance.id)

    def delete(self, node_name: str) -> None:
        node = self._inventory.nodes[node_name]
        for pod in self._inventory.on(node_name):
            self._pods.remove(pod.uid)
        self._machine_of.pop(node.uid, None)
        self.lost_at.pop(node.uid, None)
        self._inventory.drop_node(node_name)

    def cordoned(self, node_name: str) -> None:
        if self.rules.late_bind_seconds:
            delay = self._timeline.random.uniform(0, self.rules.late_bind_seconds)
            self._timeline.after(delay, "late-bind", node_name)

    def _join(self, instance_id: str) -> None:
        machine = self._machines.find(instance_id)
        if machine is None or not machine.works or machine.instance.state is not InstanceState.RUNNING:
            return
        if machine.node.uid:
            return
        if machine.node.name in self._inventory.nodes:
            if not self.rules.names_taken_over or self.is_alive(machine.node.name):
                self._timeline.after(10.0, "join", instance_id)
                return
            self.delete(machine.node.name)
        uid = f"node-{self._timeline.number():09d}"
        machine.node = replace(machine.node, uid=uid, created_at=int(self._timeline.now))
        self._machine_of[uid] = machine
        self._inventory.put_node(machine.node)
        self._pods.greet(machine.node)
        self._timeline.after(self._timeline.draw(self.rules.ready), "ready", instance_id)

    def _ready(self, instance_id: str) -> None:
        machine = self._machines.find(instance_id)
        if machine is None or not machine.works:
            return
        node = self._inventory.nodes.get(machine.node.name)
        if node is not None and node.uid == machine.node.uid:
            self._inventory.put_node(replace(node, ready=True))
            self.became_ready += not node.ready
            self.lost_at.pop(node.uid, None)
            self._pods.awaken(node.name)

    def _unready(self, instance_id: str) -> None:
        # Also of one that the cloud no longer lists: its kubelet is silent all the same.
        ours = (each for each in self._machine_of.values() if each.instance.id == instance_id)
        machine = self._machines.find(instance_id) or next(ours, None)
        if machine is None or machine.works:
            return
        node = self._inventory.nodes.get(machine.node.name)
        if node is None or node.uid != machine.node.uid or not node.ready:
            return
        self._inventory.put_node(replace(node, ready=False))
        if not machine.asked_to_go:
            self.lost_at[node.uid] = self._timeline.now
        for pod in self._inventory.on(node.name):
            if pod.ready:
                self._pods.set_ready(pod, False)
        self._timeline.after(self.rules.lost_pods_seconds, "give-up", node.uid)

    def _give_up(self, node_uid: str) -> None:
        machine = self._machine_of.get(node_uid)
        if machine is not None and not machine.works:
            give_up(self._pods, self._inventory, self._timeline, machine.node.name)

    def _late_bind(self, node_name: str) -> None:
        """A scheduler with an old picture of the node: it has not seen the cordon."""
        node = self._inventory.nodes.get(node_name)
        if node is None or not node.ready or not node.unschedulable or not self.works(node_name):
            return
        pod = self._somebody_for(node_name)
        if pod is not None:
            self._pods.bind_late(pod, node_name)

    def _somebody_for(self, node_name: str) -> Pod | None:
        """A pending pod that fits there; or else one that is made because somebody restarts a pod."""
        for pod in list(self._inventory.waiting.values()):
            if not self._pods.scheduler.why_not(pod, node_name):
                return pod
        for pod in list(self._inventory.pods.values()):
            if pod.controller == "ReplicaSet" and pod.ready and pod.node_name != node_name:
                fresh = replace(pod, node_name="")
                if self._pods.scheduler.why_not(fresh, node_name):
                    continue
                workload = self._pods.workload_of(pod.uid)
                self._pods.stop(pod.uid, pod.grace_seconds)
                return self._pods.make(workload)
        return None


MEMORY_FRACTION = 0.8
"""How much of the requested memory a pod really uses."""
NODE_OVERHEAD_MIB = 300
"""Memory that a node uses for itself."""


class NodeUsage:
    def __init__(self, inventory: Inventory, pods: Pods, nodes: Nodes, rules: Rules) -> None:
        self._inventory = inventory
        self._pods = pods
        self._nodes = nodes
        self.rules = rules
        self._stale = inventory.follow()
        self._fraction: dict[str, float] = {}
        self._last: tuple[tuple[str, ...], float | None, frozenset[str]] | None = None
        self.told: float | None = None
        """The CPU use that every node which answers reports, whatever its pods do."""

    def average(self, node_names: Sequence[str]) -> float | None:
        """The mean of the CPU shares of those that can be measured; None when none can."""
        return self._look(node_names)[0]

    def sampled(self, node_names: Sequence[str]) -> frozenset[str]:
        """Those of them that can be measured."""
        return self._look(node_names)[1]

    def _look(self, node_names: Sequence[str]) -> tuple[float | None, frozenset[str]]:
        """Kept while nothing changed on any node."""
        self._forget_stale()
        names = tuple(node_names)
        if self._last is None or self._last[0] != names:
            shares: list[float | None] = [self._fraction.get(name) for name in names]
            if None in shares:
                shares = [self.of(name) for name in names]
            measured = [share for share in shares if share is not None]
            value = sum(measured) / len(measured) if measured else None
            sampled = (name for name, share in zip(names, shares, strict=True) if share is not None)
            self._last = (names, value, frozenset(names if len(measured) == len(names) else sampled))
        return self._last[1], self._last[2]

    def of(self, node_name: str) -> float | None:
        self._forget_stale()
        known = self._fraction.get(node_name)
        if known is None:
            node = self._inventory.nodes.get(node_name)
            if node is None or not self._nodes.works(node_name):
                return None
            if self.told is not None:
                return self.told
            used = self.rules.node_overhead_milli + sum(
                pod.requests.cpu_milli * self._pods.workload_of(pod.uid).spec.use_fraction
                for pod in self._inventory.on(node_name)
                if pod.phase is PodPhase.RUNNING
            )
            known = self._fraction[node_name] = min(used / max(node.allocatable.cpu_milli, 1), 1.0)
        return known

    def of_memory(self, node_name: str) -> float | None:
        node = self._inventory.nodes.get(node_name)
        if node is None or not self._nodes.works(node_name):
            return None
        pods = (pod for pod in self._inventory.on(node_name) if pod.phase is PodPhase.RUNNING)
        used = NODE_OVERHEAD_MIB + MEMORY_FRACTION * sum(pod.requests.memory_mib for pod in pods)
        return min(used / max(node.allocatable.memory_mib, 1), 1.0)

    def tell(self, share: float | None) -> None:
        """From now on every node uses this share of its CPU; None: measured from the pods again."""
        self.told = share
        self._fraction.clear()
        self._last = None

    def _forget_stale(self) -> None:
        if self._stale:
            self._last = None
            for name in self._stale:
                self._fraction.pop(name, None)
            self._stale.clear()
