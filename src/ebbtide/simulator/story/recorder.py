"""Every act of the runners, as it took effect, with the operation behind it and its reason; and what events
and expectations call things: nodes, workloads and pods by the names of the story.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ebbtide.model.operation import Consolidate, Operation, ScaleDown, ScaleUp, Spot
from ebbtide.model.pod import Workload
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Instance, Node
from ebbtide.simulator.run.runner import Stage
from ebbtide.simulator.story.schemas import WorkloadKeys
from ebbtide.simulator.world.world import Act, ActKind

NEW = re.compile(r"new-[1-9]\d*")
"""Nodes that are launched in the course of a story are new-1, new-2, ... in the order of their launch."""


@dataclass(frozen=True, slots=True)
class Done:
    """One act. What does not concern it is empty."""

    at: int | float
    act: str
    node: str = ""
    pod: str = ""
    workload: str = ""
    instance: str = ""
    type: str = ""
    zone: str = ""
    operation: str = ""
    why: str = ""
    pool: str = ""
    market: str = ""


def story_time(seconds: float) -> int | float:
    """To the millisecond, and whole where it is."""
    rounded = round(seconds, 3)
    return int(rounded) if rounded == int(rounded) else rounded


class Recorder:
    def __init__(self, stage: Stage, workloads: RecordedWorkloads, start: float) -> None:
        self._stage = stage
        self._workloads = workloads
        self._start = start
        self.acts: list[Done] = []
        stage.world.witnesses.append(self.saw)

    @property
    def at(self) -> int | float:
        return story_time(self._stage.clock.now() - self._start)

    def saw(self, act: Act) -> None:
        world, record = self._stage.world, self._stage.checker.record
        node = world.inventory.nodes.get(act.node_name)
        machine = world.machines.find(act.instance_id) if act.instance_id else None
        if machine is None and node is not None:
            machine = world.nodes.machine_of(node.name)
        if act.kind is ActKind.TERMINATE and (machine is None or not machine.instance.alive):
            return  # it goes already: nothing is done to it
        instance = machine.instance if machine is not None else Instance("")
        # A machine that never joined has no Node object; it is called what it was called at its launch.
        by_machine = act.kind in (ActKind.LAUNCH, ActKind.TERMINATE)
        name = machine.node.name if machine is not None and by_machine else act.node_name
        pod = world.inventory.pods.get(act.pod_uid)
        work = _work(record, act, node, instance.id)
        self.acts.append(
            Done(
                self.at,
                act.kind.value.replace(" ", "_"),
                node=name,
                pod="" if pod is None else pod.name,
                workload="" if pod is None else self._workloads.name_of(world.pods.book.workload_of[pod.uid]),
                instance=instance.id,
                type=instance.instance_type,
                zone=instance.zone,
                operation=work.id if work is not None else act.operation_id,
                why=_why(work),
                pool=instance.pool,
                market=instance.market.value if instance.id else "",
            )
        )

    def scaled(self, seen: Workload, replicas: int, note: str) -> None:
        key = f"{seen.ref.namespace}/{seen.ref.name}"
        why = f"{note} ({seen.replicas} to {replicas} replicas)"
        self.acts.append(Done(self.at, "scale", workload=self._workloads.name_of(key), why=why))


def _work(record: Record | None, act: Act, node: Node | None, instance_id: str) -> Operation | Spot | None:
    """What asked for it: by its id, by the mark on the node, or by what is being removed."""
    if record is None:
        return None
    marked = node.owner.operation_id if node is not None and node.owner is not None else ""
    works = list(_works(record))
    for wanted in (act.operation_id, marked):
        if found := next((work for work in works if wanted and work.id == wanted), None):
            return found
    return next((work for work in works if instance_id and instance_id in _instances(work)), None)


def _works(record: Record) -> Iterator[Operation | Spot]:
    yield from (*record.operations, *record.spots, *record.all_set_aside)


def _instances(work: Operation | Spot) -> list[str]:
    """All that it launches, empties or removes."""
    match work:
        case Spot():
            return [work.instance_id, *([work.slot.instance_id] if work.slot is not None else [])]
        case ScaleUp():
            return [slot.instance_id for slot in work.slots]
        case ScaleDown():
            return [removal.instance_id for removal in work.removals]
        case Consolidate():
            launched = [slot.instance_id for slot in work.slots]
            return [*launched, *(source.instance_id for source in work.sources)]


def _why(work: Operation | Spot | None) -> str:
    if work is None:
        return ""
    if isinstance(work, Spot):
        return f"the cloud announced the {work.kind} of {work.instance_id}"
    return work.reason


def new_node(number: int) -> str:
    return f"new-{number}"


class RecordedWorkloads:
    """Workloads by name; by namespace/name where two namespaces have one of the same name."""

    def __init__(self, workloads: Sequence[WorkloadKeys]) -> None:
        self._by_key = {one.key: one for one in workloads}
        times = Counter(one.name for one in workloads)
        self._key_of = {one.key if times[one.name] > 1 else one.name: one.key for one in workloads}
        self._name_of = {key: name for name, key in self._key_of.items()}
        self._twice = {name for name, count in times.items() if count > 1}

    @property
    def names(self) -> list[str]:
        return list(self._key_of)

    def why_not(self, name: str) -> str:
        """Why this names no workload; empty where it does."""
        if name in self._twice:
            return "is in several namespaces: say namespace/name"
        return "" if self._find(name) else "is not a workload of the story"

    def key_of(self, name: str) -> str:
        return self._find(name) or name

    def name_of(self, key: str) -> str:
        return self._name_of.get(key, key)

    def counts_from_zero(self, name: str) -> bool:
        return self._by_key[self.key_of(name)].kind == "StatefulSet"

    def of_pod(self, pod: str) -> str:
        """The key of the workload that could have a pod of this name (or namespace/name); else nothing."""
        namespace, _, name = pod.rpartition("/")
        for key, one in self._by_key.items():
            number = name.removeprefix(f"{one.name}-")
            fits = number != name and (number.isdecimal() or one.kind == "DaemonSet")
            if fits and namespace in ("", one.namespace):
                return key
        return ""

    def _find(self, name: str) -> str:
        if name in self._key_of:
            return self._key_of[name]
        return name if name in self._by_key else ""
