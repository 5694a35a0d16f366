"""Incidents in the world: spot instances reclaimed, zones that go dark, people with kubectl.

Each is an event, planned by a scenario (`world.plan(at, "zone-down", "b")`) or drawn by chance.
Notices go to a mailbox that a `SimInbox` reads: perhaps late, twice, or out of order.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from ebbtide.model.operation import SpotKind, SpotNotice
from ebbtide.model.snapshot import Market
from ebbtide.simulator.world.clock import Timeline
from ebbtide.simulator.world.controllers import Controllers
from ebbtide.simulator.world.inventory import Inventory
from ebbtide.simulator.world.machines import Machine, Machines
from ebbtide.simulator.world.nodes import Nodes
from ebbtide.simulator.world.rules import Rules


@dataclass(slots=True)
class Mailbox:
    arrived: list[SpotNotice] = field(default_factory=list)
    under_way: dict[str, SpotNotice] = field(default_factory=dict)
    interruptions: int = 0


class Incidents:
    """Kinds that may be planned: interrupt ID, interrupt-all ZONE (empty for everywhere), rebalance ID,
    zone-down ZONE, zone-up ZONE, capacity ZONE/MARKET/TYPE=N, person-cordons NODE,
    person-uncordons NODE, machine-dies ID, late-join ID, unprotect ID, falls-silent ID,
    answers-again ID, wanted NAMESPACE/NAME=N."""

    def __init__(self, timeline: Timeline, inventory: Inventory, machines: Machines, nodes: Nodes) -> None:
        self._timeline = timeline
        self._inventory = inventory
        self._machines = machines
        self._nodes = nodes
        self.rules = Rules()
        self.mail = Mailbox()
        self.controllers: Controllers | None = None
        for kind, handler in {
            "lifespan": self._lifespan,
            "interrupt": self._interrupt,
            "interrupt-all": self._interrupt_all,
            "rebalance": self._rebalance,
            "lost": self._lost,
            "machine-dies": self._lost,
            "late-join": self._late_join,
            "unprotect": self._unprotect,
            "falls-silent": self._falls_silent,
            "answers-again": self._answers_again,
            "deliver": self._deliver,
            "zone-down": self._zone_down,
            "zone-up": self._zone_up,
            "capacity": self._capacity,
            "wanted": self._wanted,
            "person-cordons": lambda name: self._person(name, cordons=True),
            "person-uncordons": lambda name: self._person(name, cordons=False),
        }.items():
            timeline.on(kind, handler)

    def _alive(self, instance_id: str) -> Machine | None:
        machine = self._machines.find(instance_id)
        return machine if machine is not None and machine.instance.alive else None

    def _lifespan(self, instance_id: str) -> None:
        machine = self._alive(instance_id)
        mean = self.rules.spot_life_seconds
        if machine is None or machine.instance.market is not Market.SPOT or not mean:
            return
        seconds = self._timeline.random.expovariate(1 / mean)
        self._timeline.after(seconds, "interrupt", instance_id)
        if self._timeline.chance(self.rules.rebalance_chance):
            self._timeline.after(max(seconds - 600, 0), "rebalance", instance_id)

    def _interrupt(self, instance_id: str) -> None:
        machine = self._alive(instance_id)
        if machine is None or machine.noticed:
            return
        machine.noticed = True
        self.mail.interruptions += 1
        self._post(instance_id, SpotKind.INTERRUPTION, self.rules.notice_seconds)
        self._timeline.after(self.rules.notice_seconds, "lost", instance_id)

    def _interrupt_all(self, zone: str) -> None:
        for machine in list(self._machines.book.machines.values()):
            if machine.instance.market is Market.SPOT and zone in ("", machine.instance.zone):
                self._interrupt(machine.instance.id)

    def _rebalance(self, instance_id: str) -> None:
        if self._alive(instance_id) is not None:
            self._post(instance_id, SpotKind.REBALANCE, 600.0)

    def _post(self, instance_id: str, kind: SpotKind, seconds: float) -> None:
        now = self._timeline.now
        notice = SpotNotice(instance_id, kind, int(now), int(now + seconds))
        copies = 2 if self._timeline.chance(self.rules.duplicate_notices) else 1
        for _ in range(copies):
            letter = f"letter-{self._timeline.number()}"
            self.mail.under_way[letter] = notice
            self._timeline.after(self._timeline.draw(self.rules.notice_delay), "deliver", letter)

    def _deliver(self, letter: str) -> None:
        self.mail.arrived.append(self.mail.under_way.pop(letter))

    def _lost(self, instance_id: str) -> None:
        machine = self._alive(instance_id)
        if machine is not None:
            self._machines.end(machine)
            self._nodes.stop_answering(machine)

    def _late_join(self, instance_id: str) -> None:
        """One that seemed never to join does so now, long after everybody gave it up."""
        machine = self._alive(instance_id)
        if machine is not None and not machine.joins:
            machine.joins = True
            self._timeline.after(0, "join", instance_id)

    def _unprotect(self, instance_id: str) -> None:
        """A person lifts the protection that made the cloud refuse to terminate it."""
        machine = self._alive(instance_id)
        if machine is not None:
            machine.protected = False

    def _falls_silent(self, instance_id: str) -> None:
        """Its kubelet stops answering; the instance runs on."""
        machine = self._alive(instance_id)
        if machine is not None and machine.works:
            self._nodes.fall_silent(machine)

    def _answers_again(self, instance_id: str) -> None:
        machine = self._alive(instance_id)
        if machine is not None and not machine.reachable:
            self._nodes.answer_again(machine)

    def _zone_down(self, zone: str) -> None:
        self._machines.book.closed_zones.append(zone)
        for machine in self._machines.book.machines.values():
            if machine.instance.zone == zone and machine.works:
                machine.reachable = False
                self._nodes.stop_answering(machine)

    def _zone_up(self, zone: str) -> None:
        if zone in self._machines.book.closed_zones:
            self._machines.book.closed_zones.remove(zone)
        for machine in list(self._machines.book.machines.values()):
            if machine.instance.zone == zone and not machine.reachable:
                self._nodes.answer_again(machine)
                if machine.joins and not machine.node.uid:
                    self._timeline.after(self._timeline.draw(self.rules.join), "join", machine.instance.id)

    def _capacity(self, subject: str) -> None:
        offer, _, count = subject.partition("=")
        self._machines.book.capacity[offer] = int(count)

    def _wanted(self, subject: str) -> None:
        key, _, count = subject.partition("=")
        if self.controllers is not None:
            self.controllers.set_wanted(key, int(count))

    def _person(self, node_name: str, *, cordons: bool) -> None:
        node = self._inventory.nodes.get(node_name)
        if node is not None and node.unschedulable != cordons:
            self._inventory.put_node(replace(node, unschedulable=cordons))
