"""Controllers: keep as many pods of each workload as are wanted, and keep its disruption budgets.

They react to changes alone: demand that moved, a pod that ended, a node that came.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import islice

from ebbtide.errors import BudgetExhausted, Final
from ebbtide.model.pod import Budget, LabelSelector, Pod, PodPhase, Requirement, SelectorOperator
from ebbtide.simulator.world.clock import Timeline
from ebbtide.simulator.world.inventory import Inventory
from ebbtide.simulator.world.pods import Pods, Workload
from ebbtide.simulator.world.rules import BudgetSpec, Curve, Demand, Kind, Rules, WorkloadSpec


class Controllers:
    def __init__(self, timeline: Timeline, inventory: Inventory, pods: Pods, rules: Rules) -> None:
        self._timeline = timeline
        self._inventory = inventory
        self._pods = pods
        self.rules = rules
        self.began_at = timeline.now
        self.budget_specs: list[BudgetSpec] = []
        self._budgets: tuple[Budget, ...] = ()
        self._counts: list[tuple[BudgetSpec, int, int]] = []
        """Each budget with the ready and the wanted pods of its workload, when they were last asked for."""
        timeline.on("reconcile", self._reconcile)
        timeline.on("demand", self._demand)

    def add(self, spec: WorkloadSpec) -> None:
        self._pods.book.workloads[spec.key] = Workload(spec)
        self._pods.members[spec.key] = {}
        if spec.kind.per_node:
            for node in list(self._inventory.nodes.values()):
                self._recreate_on(self._pods.book.workloads[spec.key], node.name)
        else:
            self._timeline.after(0, "demand", spec.key)

    def register(self, spec: WorkloadSpec, budgets: Sequence[BudgetSpec], wanted: int) -> Workload:
        """A workload that has been there for long: the caller that registers it makes its pods. Where its
        demand changes by itself, that continues from now."""
        self.budget_specs.extend(budgets)
        workload = self._pods.book.workloads[spec.key] = Workload(spec, wanted)
        self._pods.members[spec.key] = {}
        if spec.demand.curve is not Curve.STEADY:
            self._timeline.after(0, "demand", spec.key)
        return workload

    def drive(self, key: str, demand: Demand) -> None:
        """Let a workload follow another demand from now on."""
        workload = self._pods.book.workloads[key]
        workload.spec = replace(workload.spec, demand=demand)
        self._timeline.after(0, "demand", key)

    def set_wanted(self, key: str, wanted: int) -> None:
        workload = self._pods.book.workloads[key]
        workload.wanted = wanted
        workload.version += 1
        self._timeline.after(self.rules.react_seconds, "reconcile", key)

    def budgets(self) -> tuple[Budget, ...]:
        """The budgets as they stand; the same tuple while none changed."""
        known, workloads = self._budgets, self._pods.book.workloads
        guarded = [workloads[spec.workload] for spec in self.budget_specs]
        guards = zip(self.budget_specs, guarded, strict=True)
        counts = [(spec, workload.ready, workload.wanted) for spec, workload in guards]
        if counts == self._counts:
            return known
        self._counts = counts
        allowed = [self._allowed(spec) for spec in self.budget_specs]
        if allowed != [budget.disruptions_allowed for budget in known]:
            self._budgets = tuple(
                known[n]
                if n < len(known) and known[n].disruptions_allowed == count
                else self._budget(n, count)
                for n, count in enumerate(allowed)
            )
        return self._budgets

    def evict(self, pod: Pod, grace_seconds: int, allowed: Callable[[], None]) -> None:
        """Ask as the eviction API is asked: budgets may say not now, two of them say never.
        `allowed` is called when nothing stands against it, just before it is done."""
        key = self._pods.book.workload_of[pod.uid]
        specs = [spec for spec in self.budget_specs if spec.workload == key]
        if len(specs) > 1:
            raise Final(f"{pod.full_name} is under {len(specs)} disruption budgets: keep one of them")
        counts = pod.ready and pod.phase is PodPhase.RUNNING
        if specs and counts and self._allowed(specs[0]) < 1:
            raise BudgetExhausted(f"PodDisruptionBudget {specs[0].name} allows no eviction now")
        allowed()
        self._pods.stop(pod.uid, grace_seconds)
        self._timeline.after(self.rules.react_seconds, "reconcile", key)

    def _workload(self, spec: BudgetSpec) -> Workload:
        return self._pods.book.workloads[spec.workload]

    def _budget(self, number: int, allowed: int) -> Budget:
        spec = self.budget_specs[number]
        template = self._workload(spec).spec.template
        wanted = tuple(Requirement(key, SelectorOperator.IN, (value,)) for key, value in template.labels)
        return Budget(template.namespace, spec.name, LabelSelector(wanted), allowed)

    def _allowed(self, spec: BudgetSpec) -> int:
        workload = self._workload(spec)
        return spec.allowed(workload.ready, workload.wanted)

    def _demand(self, key: str) -> None:
        workload = self._pods.book.workloads[key]
        demand, since = workload.spec.demand, self._timeline.now - self.began_at
        upcoming = demand.next_change(since)
        # A fraction of a second added to the time of day is rounded: a change whose moment has come by the
        # clock may still lie ahead by the difference. Without this it would be planned for now forever.
        while upcoming is not None and self.began_at + upcoming <= self._timeline.now:
            since, upcoming = upcoming, demand.next_change(upcoming)
        wanted = demand.wanted_at(since)
        if demand.curve is Curve.BATCH:
            wanted += workload.wanted
        if upcoming is not None:
            self._timeline.at(self.began_at + upcoming, "demand", key)
        if wanted != workload.wanted:
            self.set_wanted(key, wanted)

    def _reconcile(self, key: str) -> None:
        workload = self._pods.book.workloads[key]
        match workload.spec.kind:
            case Kind.DEPLOYMENT | Kind.JOB:
                self._keep_count(workload)
            case Kind.STATEFUL_SET:
                self._keep_ordinals(workload)
            case Kind.DAEMON_SET | Kind.STATIC:
                for name in self._inventory.nodes:
                    self._recreate_on(workload, name)
            case Kind.BARE:
                for _ in range(workload.wanted - workload.made):
                    self._pods.make(workload)

    def _keep_count(self, workload: Workload) -> None:
        members = self._pods.members[workload.spec.key]
        for _ in range(workload.wanted - len(members)):
            self._pods.make(workload)
        surplus = len(members) - workload.wanted
        if surplus > 0:
            # Those that wait go first, then the newest: what a ReplicaSet does. Members are in the order of
            # their making.
            waiting = self._inventory.waiting
            order = [uid for uid in reversed(members) if uid in waiting] if waiting else []
            order += islice((uid for uid in reversed(members) if uid not in waiting), surplus)
            for uid in order[:surplus]:
                self._pods.stop(uid, self._inventory.pods[uid].grace_seconds)

    def _keep_ordinals(self, workload: Workload) -> None:
        name = workload.spec.template.name
        there = {
            pod.name: pod
            for pod in self._inventory.pods.values()
            if self._pods.book.workload_of[pod.uid] == workload.spec.key
        }
        for ordinal in range(workload.wanted):
            if f"{name}-{ordinal}" not in there:
                self._pods.make(workload, ordinal=ordinal)
        for pod in there.values():
            if int(pod.name.rsplit("-", 1)[1]) >= workload.wanted:
                self._pods.stop(pod.uid, pod.grace_seconds)

    def _recreate_on(self, workload: Workload, node_name: str) -> None:
        if not any(
            self._pods.book.workload_of[pod.uid] == workload.spec.key for pod in self._inventory.on(node_name)
        ):
            self._pods.greet_with(workload, self._inventory.nodes[node_name])


def give_up(pods: Pods, inventory: Inventory, timeline: Timeline, node_name: str) -> None:
    """Pods on a node that is long not ready: ended for their controllers, though nobody ends them."""
    for pod in inventory.on(node_name):
        if pod.controller != "DaemonSet" and not pod.mirror and not pod.finished and not pod.terminating:
            pods.stop(pod.uid, pod.grace_seconds)
            timeline.after(1.0, "reconcile", pods.book.workload_of[pod.uid])
