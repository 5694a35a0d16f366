"""A controller as simple as one can be: launches at once for what does not fit, counts the nodes on their
way, and removes a node that has been empty for 30 s. It has no cooldowns, budgets, gates, crashes or record.

It plans with the same planner as the engine, so the comparison is about time and not about packing, and
looks again at every moment at which anything changes. An instance that has not joined after the join timeout
is terminated.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal

from ebbtide.core.nodes.sizing import plan_launch
from ebbtide.model.effect import DeleteNode, Launch
from ebbtide.model.operation import ScaleUp, Slot, SlotState
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.machines import Machine
from ebbtide.simulator.world.ports import SimCloud, SimCluster
from ebbtide.simulator.world.world import World

EMPTY_SECONDS = 30.0


@dataclass(frozen=True, slots=True)
class Outcome:
    pending: float
    """Pod-seconds."""
    cost: Decimal
    launched: int
    evictions: int

    def since(self, before: Outcome) -> Outcome:
        return Outcome(
            self.pending - before.pending,
            self.cost - before.cost,
            self.launched - before.launched,
            self.evictions - before.evictions,
        )


def outcome_of(world: World) -> Outcome:
    """From the beginning of the world until now."""
    machines = world.machines
    return Outcome(
        world.inventory.pending_pod_seconds, machines.cost(), machines.book.launched, world.evictions
    )


class Baseline:
    def __init__(self, world: World, settings: Settings) -> None:
        self._world, self._settings = world, settings
        self._clock = VirtualClock(world.now)
        self._cluster, self._cloud = SimCluster(world, self._clock), SimCloud(world, self._clock)
        self._keys = 0

    def run(self, events: list[tuple[float, Callable[[], None]]], until: float) -> None:
        """Let each event happen at its time, and act whenever anything has changed."""
        world = self._world
        todo = sorted(events, key=lambda event: event[0])
        while world.now < until:
            upcoming = min(todo[0][0] if todo else until, world.timeline.next_at, self._next_removal(), until)
            self._clock.jump(max(upcoming - self._clock.now(), 0.0))
            world.advance_to(upcoming)
            while todo and todo[0][0] <= upcoming:
                todo.pop(0)[1]()
            self._launch()
            self._remove()

    def _coming(self) -> list[Machine]:
        nodes = self._world.inventory.nodes
        machines = (m for m in self._world.machines.book.machines.values() if m.ours and m.instance.alive)
        return [m for m in machines if not ((node := nodes.get(m.node.name)) and node.ready)]

    def _launch(self) -> None:
        if not self._world.inventory.waiting:
            return
        now = int(self._world.now)
        slots = tuple(
            Slot(
                m.instance.key,
                m.instance.pool,
                m.instance.zone,
                m.instance.instance_type,
                state=SlotState.LAUNCHED,
                since=now,
            )
            for m in self._coming()
        )
        record = Record(launching=ScaleUp("coming", now, len(slots), slots) if slots else None)
        snapshot = Snapshot(now, self._world.view(), self._world.machines.listed())
        for offer in plan_launch(snapshot, record, self._settings, 0).offers:
            self._keys += 1
            self._cloud.launch(Launch(offer.slot(f"baseline-{self._keys}"), "baseline"))

    def _leaving_at(self) -> list[tuple[float, Machine]]:
        """When each machine goes if nothing changes: 30 s after it became empty, or when it was to join."""
        found = []
        for machine in self._world.machines.book.machines.values():
            if not machine.ours or not machine.instance.alive:
                continue
            since = self._world.inventory.empty_since.get(machine.node.name)
            node = self._world.inventory.nodes.get(machine.node.name)
            if node is not None and node.ready and since is not None:
                found.append((since + EMPTY_SECONDS, machine))
            elif node is None:
                found.append((machine.instance.launched_at + self._settings.join_timeout_seconds, machine))
        return found

    def _next_removal(self) -> float:
        return min((at for at, _ in self._leaving_at()), default=float("inf"))

    def _remove(self) -> None:
        standing = sum(1 for node in self._world.inventory.nodes.values() if node.worker and node.ready)
        for at, machine in self._leaving_at():
            if at > self._world.now or standing <= self._settings.min_workers:
                continue
            self._cloud.terminate(machine.instance.id)
            if machine.node.uid:
                standing -= 1
                self._cluster.delete_node(DeleteNode(machine.node.name, machine.node.uid))
