"""The life of pods: made by controllers, bound by the scheduler, started, ended, made again.

    waiting -> bound -> running -> (finished)
    any     -> terminating -> removed        its volume is detached a moment later

A pod on a node that does not answer neither starts nor ends; it goes when its Node object goes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

from ebbtide.core.nodes.room import refused_by_node, room_of
from ebbtide.model.pod import Pod, PodPhase, changed
from ebbtide.model.snapshot import Node
from ebbtide.simulator.world.clock import Timeline
from ebbtide.simulator.world.inventory import Inventory, Scheduler
from ebbtide.simulator.world.rules import CONTROLLER_OF, Kind, Rules, WorkloadSpec


@dataclass(slots=True)
class Workload:
    spec: WorkloadSpec
    wanted: int = 0
    made: int = 0
    """How many pods were ever made; the last part of their names."""
    ready: int = 0
    version: int = 0
    """Raised by every change of what is wanted."""


@dataclass(slots=True)
class Volume:
    zone: str = ""
    node_name: str = ""
    """Where it is attached; empty while it is not."""


@dataclass(slots=True)
class PodBook:
    """What a saved world remembers beyond the pods themselves."""

    workloads: dict[str, Workload] = field(default_factory=dict)
    workload_of: dict[str, str] = field(default_factory=dict)
    volumes: dict[str, Volume] = field(default_factory=dict)


class Pods:
    def __init__(self, timeline: Timeline, inventory: Inventory, rules: Rules) -> None:
        self._timeline = timeline
        self._inventory = inventory
        self.rules = rules
        self.book = PodBook()
        self.members: dict[str, dict[str, None]] = {}
        """UIDs by workload of the pods that count: not terminating, not finished."""
        self.scheduler = Scheduler(inventory, self._bind)
        self.works: Callable[[str], bool] = lambda _: True
        """Whether a node answers; told by those who know the machines."""
        self._noticed: set[str] = set()
        self.dress: Callable[[Pod], Pod] | None = None
        """What a new pod is given beyond its template."""
        self._made_at: dict[str, float] = {}
        """When those were made that the scheduler has not looked at yet, by UID."""
        self._unplaced: dict[str, float] = {}
        """The same of those that it found no node for at its first look."""
        self.unplaced = 0
        """How many those have been so far."""
        self.unplaced_at = 0.0
        """When the last of them was."""
        self.waits: list[float] = []
        """How long each of those waited that did not fit at once, from its making until it ran."""
        timeline.on("schedule", self._schedule)
        timeline.on("start", self._start)
        timeline.on("end", self._end)
        timeline.on("finish", self._finish)
        timeline.on("detach", self._detach)

    def restore(self, book: PodBook) -> None:
        self.book = book
        self._noticed = {kind for _, _, kind, _ in self._timeline.events if kind == "schedule"}
        self.members = {key: {} for key in book.workloads}
        for uid, pod in self._inventory.pods.items():
            if not pod.terminating and not pod.finished:
                self.members[book.workload_of[uid]][uid] = None

    def workload_of(self, uid: str) -> Workload:
        return self.book.workloads[self.book.workload_of[uid]]

    def make(self, workload: Workload, node_name: str = "", ordinal: int | None = None) -> Pod:
        spec, number = workload.spec, self._timeline.number()
        workload.made += 1
        suffix = node_name if spec.kind.per_node else str(workload.made if ordinal is None else ordinal)
        pod = changed(
            spec.template,
            name=f"{spec.template.name}-{suffix}",
            uid=f"pod-{number:09d}",
            phase=PodPhase.PENDING,
            ready=False,
            created_at=int(self._timeline.now),
            controller=CONTROLLER_OF[spec.kind],
            mirror=spec.kind is Kind.STATIC,
            owner_uid="" if spec.kind is Kind.BARE else f"owner-of-{spec.key}",
        )
        if self.dress is not None:
            pod = self.dress(pod)
        if spec.volume:
            pod = self._with_volume(pod)
        self.book.workload_of[pod.uid] = spec.key
        self.members[spec.key][pod.uid] = None
        self._inventory.put_pod(pod)
        if node_name:
            self._bind(pod, node_name)
        else:
            self._made_at[pod.uid] = self._timeline.now
            self.reschedule()
        return pod

    def greet(self, node: Node) -> None:
        """Make the pods that every new node gets from DaemonSets and as mirror pods."""
        for workload in self.book.workloads.values():
            if workload.spec.kind.per_node:
                self.greet_with(workload, node)

    def greet_with(self, workload: Workload, node: Node) -> None:
        if not refused_by_node(workload.spec.template.scheduling, room_of(node, ())):
            self.make(workload, node.name)

    def stop(self, uid: str, grace_seconds: float) -> None:
        """Begin to end a pod. One that was never placed is gone at once."""
        pod = self._inventory.pods[uid]
        if pod.terminating:
            return
        self._leave_ready(pod)
        self.members[self.book.workload_of[uid]].pop(uid, None)
        if not pod.node_name or pod.finished:
            self.remove(uid)
            return
        ends_at = int(self._timeline.now + grace_seconds)
        self._inventory.put_pod(changed(pod, terminating=True, ready=False, ends_at=ends_at))
        stop_seconds = self.workload_of(uid).spec.stop_seconds
        self._timeline.after(min(stop_seconds, grace_seconds), "end", uid)

    def remove(self, uid: str) -> None:
        pod = self._inventory.pods[uid]
        self._leave_ready(pod)
        self.members[self.book.workload_of[uid]].pop(uid, None)
        self._inventory.drop_pod(uid)
        self._unplaced.pop(uid, None)
        workload = self.book.workload_of.pop(uid)
        for volume in pod.volumes:
            self._timeline.after(self._timeline.draw(self.rules.detach), "detach", volume)
        self._timeline.after(self.rules.react_seconds, "reconcile", workload)
        self.reschedule()

    def set_ready(self, pod: Pod, ready: bool) -> None:
        if ready and not pod.ready:
            self.workload_of(pod.uid).ready += 1
        elif not ready:
            self._leave_ready(pod)
        self._inventory.put_pod(changed(pod, ready=ready))

    def awaken(self, node_name: str) -> None:
        """The node answers (again): what was to start or end there does so now."""
        for pod in self._inventory.on(node_name):
            if pod.terminating:
                self._timeline.after(self.rules.react_seconds, "end", pod.uid)
            elif pod.phase is PodPhase.PENDING:
                self._timeline.after(self.workload_of(pod.uid).spec.start_seconds, "start", pod.uid)
            elif pod.phase is PodPhase.RUNNING and not pod.ready:
                self.set_ready(pod, True)
        self.reschedule()

    def reschedule(self) -> None:
        if "schedule" not in self._noticed:
            self._noticed.add("schedule")
            self._timeline.after(self.rules.react_seconds, "schedule")

    def settle(self, pod: Pod, node_name: str = "") -> None:
        """Run at once, on this node or where it is bound already: for pods that a world starts with. On a
        node that does not answer it has run before, and is not ready."""
        bound = self._bind(pod, node_name) if node_name else pod
        if self.works(bound.node_name):
            self._start(bound.uid)
        else:
            self._inventory.put_pod(changed(bound, phase=PodPhase.RUNNING, ready=False))

    def place_all(self) -> None:
        """Let the scheduler look now, and not a moment later."""
        self._schedule("")

    def bind_late(self, pod: Pod, node_name: str) -> None:
        self._bind(pod, node_name)

    def _schedule(self, _: str) -> None:
        self._noticed.discard("schedule")
        self.scheduler.run()
        waiting = self._inventory.waiting
        missed = {uid: at for uid, at in self._made_at.items() if uid in waiting}
        self._unplaced.update(missed)
        self.unplaced += len(missed)
        self.unplaced_at = self._timeline.now if missed else self.unplaced_at
        self._made_at.clear()

    def _bind(self, pod: Pod, node_name: str) -> Pod:
        bound = changed(pod, node_name=node_name)
        for name in pod.volumes:
            volume = self.book.volumes[name]
            volume.zone = volume.zone or self._inventory.nodes[node_name].zone
            bound = changed(bound, scheduling=replace(bound.scheduling, volume_zones=(volume.zone,)))
        self._inventory.put_pod(bound)
        self._timeline.after(self.workload_of(pod.uid).spec.start_seconds, "start", pod.uid)
        return bound

    def _start(self, uid: str) -> None:
        pod = self._inventory.pods.get(uid)
        if (
            pod is None
            or pod.terminating
            or pod.phase is not PodPhase.PENDING
            or not self.works(pod.node_name)
        ):
            return
        if not all(self._attach(name, pod.node_name) for name in pod.volumes):
            self._timeline.after(5.0, "start", uid)
            return
        workload = self.workload_of(uid)
        workload.ready += 1
        self._inventory.put_pod(changed(pod, phase=PodPhase.RUNNING, ready=True))
        if uid in self._unplaced:
            self.waits.append(self._timeline.now - self._unplaced.pop(uid))
        spec = workload.spec
        if spec.kind is Kind.JOB:
            self._timeline.after(spec.run_seconds, "finish", uid)

    def _end(self, uid: str) -> None:
        pod = self._inventory.pods.get(uid)
        if pod is not None and self.works(pod.node_name):
            self.remove(uid)

    def _finish(self, uid: str) -> None:
        pod = self._inventory.pods.get(uid)
        if pod is None or pod.terminating or not self.works(pod.node_name):
            return
        workload = self.workload_of(uid)
        workload.wanted = max(workload.wanted - 1, 0)
        self._leave_ready(pod)
        self.members[workload.spec.key].pop(uid, None)
        self._inventory.put_pod(changed(pod, phase=PodPhase.SUCCEEDED, ready=False))
        self._timeline.after(120.0, "end", uid)
        self.reschedule()

    def _leave_ready(self, pod: Pod) -> None:
        if pod.ready:
            self.workload_of(pod.uid).ready -= 1

    def _with_volume(self, pod: Pod) -> Pod:
        name = f"pvc-{pod.namespace}-{pod.name}"
        zone = self.book.volumes.setdefault(name, Volume()).zone
        scheduling = replace(pod.scheduling, volume_zones=(zone,) if zone else ())
        return changed(pod, volumes=(name,), scheduling=scheduling)

    def _attach(self, name: str, node_name: str) -> bool:
        volume, node = self.book.volumes[name], self._inventory.nodes[node_name]
        if volume.node_name not in ("", node_name):
            return False
        if not volume.node_name:
            volume.node_name = node_name
            self._inventory.put_node(replace(node, volumes_attached=(*node.volumes_attached, name)))
        return True

    def _detach(self, name: str) -> None:
        volume = self.book.volumes[name]
        users = [pod for pod in self._inventory.on(volume.node_name) if name in pod.volumes]
        node = self._inventory.nodes.get(volume.node_name)
        if users:
            return
        volume.node_name = ""
        if node is not None:
            left = tuple(other for other in node.volumes_attached if other != name)
            self._inventory.put_node(replace(node, volumes_attached=left))
