"""What people, other programs and the cloud do while a simulation runs: faults that are no calls of a runner.

Each is undone after a while, or when the simulation comes to its calm end.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Collection
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from ebbtide.adapters.stores.codec.record import item_key
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.errors import EbbtideError
from ebbtide.model.record import FORMAT_VERSION
from ebbtide.model.snapshot import Market
from ebbtide.simulator.run.runner import Stage

CHANCES = {
    "node-loss": 0.01,
    "mass-loss": 0.01,
    "spot-loss": 0.02,
    "zone-loss": 0.004,
    "no-capacity": 0.02,
    "human-cordon": 0.03,
    "pause": 0.01,
    "newer-record": 0.005,
    "poison-record": 0.005,
}
"""For every tick."""
LASTS_SECONDS = (60.0, 600.0)
PLENTY = 99
T = TypeVar("T")


class Mischief:
    def __init__(self, stage: Stage, faults: Collection[str], seed: str) -> None:
        self._stage = stage
        self._faults = [name for name in CHANCES if name in faults]
        self._random = random.Random(seed)
        self._undone: list[tuple[float, Callable[[], None]]] = []
        self.counts: dict[str, int] = {}

    def before_tick(self, calm: bool) -> None:
        world = self._stage.world
        due = [undo for at, undo in self._undone if calm or at <= world.now]
        self._undone = [(at, undo) for at, undo in self._undone if not calm and at > world.now]
        for undo in due:
            undo()
        for name in self._faults:
            if self._random.random() < CHANCES[name] and not calm:
                world.disturbances += 1
                self.counts[name] = self.counts.get(name, 0) + 1
                getattr(self, f"_{name.replace('-', '_')}")()
        world.advance_to(world.now)

    def _later(self, undo: Callable[[], None]) -> None:
        self._undone.append((self._stage.world.now + self._random.uniform(*LASTS_SECONDS), undo))

    def _plan(self, kind: str, subject: str) -> None:
        self._stage.world.plan(self._stage.world.now, kind, subject)

    def _machines(self, market: Market | None = None) -> list[str]:
        machines = self._stage.world.machines.book.machines.values()
        ours = [m for m in machines if m.ours and m.instance.alive]
        return [m.instance.id for m in ours if market in (None, m.instance.market)]

    def _node_loss(self) -> None:
        for one in self._some(self._machines()):
            self._plan("machine-dies", one)

    def _mass_loss(self) -> None:
        """More than half of them, or all."""
        machines = self._machines()
        for one in self._random.sample(machines, self._random.randint(len(machines) // 2, len(machines))):
            self._plan("machine-dies", one)

    def _spot_loss(self) -> None:
        for one in self._some(self._machines(Market.SPOT)):
            self._plan(self._random.choice(("interrupt", "interrupt", "rebalance")), one)

    def _zone_loss(self) -> None:
        zones = sorted({node.zone for node in self._stage.world.inventory.nodes.values() if node.worker})
        for zone in self._some(zones):
            self._plan("zone-down", zone)
            self._later(partial(self._plan, "zone-up", zone))

    def _no_capacity(self) -> None:
        pools = self._stage.world.machines.book.pools.values()
        offers = [f"{z}/{m}/{t.name}" for p in pools for z in p.zones for m in Market for t in p.types]
        for offer in self._random.sample(offers, min(len(offers), self._random.randint(1, len(offers)))):
            self._plan("capacity", f"{offer}=0")
            self._later(partial(self._plan, "capacity", f"{offer}={PLENTY}"))

    def _human_cordon(self) -> None:
        nodes = [node for node in self._stage.world.inventory.nodes.values() if node.worker]
        for node in self._some(nodes):
            if node.unschedulable:
                self._plan("person-uncordons", node.name)
            else:
                self._plan("person-cordons", node.name)
                self._later(partial(self._plan, "person-uncordons", node.name))

    def _pause(self) -> None:
        self._set_paused(True)
        self._later(lambda: self._set_paused(False))

    def _set_paused(self, paused: bool) -> None:
        store = MemoryStore(self._stage.clock, self._stage.settings.cluster, self._stage.database)
        try:
            store.write(replace(store.load(), paused=paused), None)
        except EbbtideError:  # the record cannot be read just now: who wants to resume tries again
            if not paused:
                self._undone.append((self._stage.world.now, partial(self._set_paused, paused)))

    def _newer_record(self) -> None:
        item = self._item()
        known = None if item is None else item.get("formatVersion")
        sound = isinstance(known, int) and known <= FORMAT_VERSION
        if item is not None and sound and isinstance(item.get("rev"), int):
            item["formatVersion"] = FORMAT_VERSION + 1
            item["rev"] += 1
            self._later(partial(self._take_back, int(known or 0)))

    def _take_back(self, known: int) -> None:
        item = self._item()
        if item is not None:
            item["formatVersion"] = known
            if isinstance(item.get("rev"), int):
                item["rev"] += 1

    def _poison_record(self) -> None:
        item = self._item()
        if item is not None and isinstance(item.get("rev"), int):
            whole = item["rev"]
            item["rev"] = "?"
            self._later(lambda: self._repair(whole))

    def _repair(self, rev: int) -> None:
        item = self._item()
        if item is not None:
            item["rev"] = rev

    def _item(self) -> dict[str, Any] | None:
        return self._stage.database.items.get(item_key(self._stage.settings.cluster))

    def _some(self, things: list[T]) -> list[T]:
        return [self._random.choice(things)] if things else []
