"""The cloud: instances that are launched, boot, join as nodes, and go, by our wish or not.

    PENDING -> RUNNING -> TERMINATING -> GONE -> no longer listed

A launch is known by its key: repeated, it finds the instance of the first. Addresses are reused as
soon as they are free, lowest first, and so are the node names that come from them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal

from ebbtide.errors import Final, NoCapacity
from ebbtide.model.operation import Slot
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import Instance, InstanceState, Market, Node
from ebbtide.simulator.world.clock import Timeline
from ebbtide.simulator.world.rules import Identity, Rules


@dataclass(slots=True)
class Machine:
    """An instance and what the cloud alone knows of it."""

    instance: Instance
    node: Node
    """What its Node object will look like; name and UID once it has joined."""
    price: Decimal = Decimal(0)
    tagged: bool = True
    """Whether it carries this cluster's tag. One that does not is nobody's business here."""
    joins: bool = True
    visible: bool = True
    reachable: bool = True
    noticed: bool = False
    """Whether its interruption was announced."""
    asked_to_go: bool = False
    ended_at: float = 0.0
    protected: bool = False
    """Whether the cloud refuses to terminate it."""

    @property
    def works(self) -> bool:
        return self.reachable and self.instance.alive

    @property
    def ours(self) -> bool:
        return self.tagged and bool(self.instance.pool)


@dataclass(slots=True)
class CloudBook:
    """What a saved world remembers of the cloud."""

    machines: dict[str, Machine] = field(default_factory=dict)
    id_of_key: dict[str, str] = field(default_factory=dict)
    capacity: dict[str, int] = field(default_factory=dict)
    """How many more of `zone/market/type` are available; no entry means plenty."""
    closed_zones: list[str] = field(default_factory=list)
    pools: dict[str, Pool] = field(default_factory=dict)
    addresses: list[str] = field(default_factory=list)
    """Taken ones."""
    launched: int = 0
    ended_seconds: float = 0.0
    ended_cost: Decimal = Decimal(0)


class Machines:
    def __init__(self, timeline: Timeline, rules: Rules) -> None:
        self._timeline = timeline
        self.rules = rules
        self.book = CloudBook()
        self._listed: tuple[Instance, ...] | None = None
        self.name_new: Callable[[int], str] | None = None
        """The node name of the launch with this number; otherwise it comes from the address or the
        instance."""
        self.never_join = 0
        """How many of the next launches boot and never join."""
        timeline.on("boot", self._boot)
        timeline.on("gone", self._gone)
        timeline.on("unlist", self._unlist)
        timeline.on("appear", self._appear)

    def add(self, machine: Machine, name: str = "") -> Machine:
        """Put an instance into the cloud; its node gets this name, or one by the rules."""
        taken = machine.instance
        address = taken.private_ip or self._free_address(taken.zone)
        machine.instance = replace(taken, private_ip=address, provider_id=_provider_id(taken))
        machine.node = self._node_of(machine, name)
        self.book.addresses.append(address)
        self.book.machines[taken.id] = machine
        if taken.key:
            self.book.id_of_key[taken.key] = taken.id
        self._listed = None
        return machine

    def launch(self, slot: Slot) -> Machine:
        known = self.book.id_of_key.get(slot.key)
        if known is not None and known in self.book.machines:
            return self.book.machines[known]
        pool = self._check(slot)
        self.book.launched += 1
        instance = Instance(
            id=f"i-{self._timeline.number():08d}",
            key=slot.key,
            pool=slot.pool,
            zone=slot.zone,
            instance_type=slot.instance_type,
            market=slot.market,
            state=InstanceState.PENDING,
            launched_at=int(self._timeline.now),
            launch_hash=pool.launch_hash,
        )
        fresh = new_machine(pool, instance)
        name = self.name_new(self.book.launched) if self.name_new is not None else ""
        machine = self.add(fresh, name)
        machine.joins = not self._timeline.chance(self.rules.never_join)
        if self.never_join:
            self.never_join -= 1
            machine.joins = False
        if self.rules.invisible_seconds:
            machine.visible = False
            self._timeline.after(self.rules.invisible_seconds, "appear", instance.id)
        self._timeline.after(self._timeline.draw(self.rules.boot), "boot", instance.id)
        return machine

    def end(self, machine: Machine) -> None:
        """Begin to end it; nothing happens when that was begun before."""
        if machine.instance.alive:
            self._set_state(machine, InstanceState.TERMINATING)
            self._timeline.after(self._timeline.draw(self.rules.terminate), "gone", machine.instance.id)

    def listed(self) -> tuple[Instance, ...]:
        """The same tuple while nothing changed."""
        if self._listed is None:
            machines = self.book.machines.values()
            self._listed = tuple(m.instance for m in machines if m.tagged and m.visible)
        return self._listed

    def find(self, instance_id: str) -> Machine | None:
        return self.book.machines.get(instance_id)

    def node_seconds(self) -> float:
        now = self._timeline.now
        return self.book.ended_seconds + sum(now - m.instance.launched_at for m in self._paid())

    def cost(self) -> Decimal:
        now = self._timeline.now
        return self.book.ended_cost + sum((_cost(m, now) for m in self._paid()), Decimal(0))

    def _paid(self) -> list[Machine]:
        return [m for m in self.book.machines.values() if m.ours and not m.ended_at]

    def _check(self, slot: Slot) -> Pool:
        pool = self.book.pools.get(slot.pool)
        if pool is None or pool.type_named(slot.instance_type) is None:
            raise Final(f"the cloud knows no type {slot.instance_type} in pool {slot.pool}")
        offer = f"{slot.zone}/{slot.market}/{slot.instance_type}"
        left = self.book.capacity.get(offer)
        if slot.zone in self.book.closed_zones or left == 0:
            raise NoCapacity(f"no capacity for {offer} now")
        if left is not None:
            self.book.capacity[offer] = left - 1
        return pool

    def _boot(self, instance_id: str) -> None:
        machine = self.find(instance_id)
        if machine is None or machine.instance.state is not InstanceState.PENDING:
            return
        self._set_state(machine, InstanceState.RUNNING)
        if machine.joins:
            late = self._timeline.chance(self.rules.late_join)
            span = self.rules.late_join_span if late else self.rules.join
            self._timeline.after(self._timeline.draw(span), "join", instance_id)
        self._timeline.after(0, "lifespan", instance_id)

    def _gone(self, instance_id: str) -> None:
        machine = self.book.machines[instance_id]
        if machine.instance.state is InstanceState.GONE:
            return
        self._set_state(machine, InstanceState.GONE)
        machine.ended_at = self._timeline.now
        self.book.addresses.remove(machine.instance.private_ip)
        if machine.ours:
            self.book.ended_seconds += machine.ended_at - machine.instance.launched_at
            self.book.ended_cost += _cost(machine, machine.ended_at)
        offer = f"{machine.instance.zone}/{machine.instance.market}/{machine.instance.instance_type}"
        # What the cloud takes by itself it keeps: a zone without capacity has none for a replacement either.
        if machine.asked_to_go and offer in self.book.capacity:
            self.book.capacity[offer] += 1
        self._timeline.after(self.rules.listed_seconds, "unlist", instance_id)

    def _unlist(self, instance_id: str) -> None:
        machine = self.book.machines.pop(instance_id)
        self.book.id_of_key.pop(machine.instance.key, None)
        self._listed = None

    def _appear(self, instance_id: str) -> None:
        machine = self.book.machines.get(instance_id)
        if machine is not None:
            machine.visible = True
            self._listed = None

    def _set_state(self, machine: Machine, state: InstanceState) -> None:
        machine.instance = replace(machine.instance, state=state)
        self._listed = None

    def _free_address(self, zone: str) -> str:
        net = sum(zone.encode()) % 250
        taken = set(self.book.addresses)
        return next(a for n in range(4, 65_000) if (a := f"10.{net}.{n // 250}.{n % 250}") not in taken)

    def _node_of(self, machine: Machine, name: str) -> Node:
        instance, identity = machine.instance, self.rules.identity
        by_address = self.rules.names_from_address
        by_rule = f"ip-{instance.private_ip.replace('.', '-')}" if by_address else f"node-{instance.id}"
        return replace(
            machine.node,
            name=name or by_rule,
            provider_id=instance.provider_id if identity is Identity.PROVIDER else "",
            instance_id="" if identity is Identity.ADDRESS else instance.id,
            private_ip=instance.private_ip,
            zone=instance.zone,
            instance_type=instance.instance_type,
            market=instance.market,
        )


def new_machine(pool: Pool, instance: Instance) -> Machine:
    node_type = pool.type_named(instance.instance_type)
    if node_type is None:
        raise Final(f"pool {pool.name} has no type {instance.instance_type}")
    price = node_type.price_in(Market(instance.market))
    node = Node(
        name="",
        uid="",
        pool=pool.name,
        labels=pool.labels,
        taints=pool.taints,
        allocatable=node_type.allocatable,
        max_pods=node_type.max_pods,
        ready=False,
    )
    return Machine(instance, node, price.per_hour if price is not None else Decimal(0))


def _cost(machine: Machine, until: float) -> Decimal:
    return (
        machine.price
        * Decimal(round(until - machine.instance.launched_at, 3)).quantize(Decimal("0.001"))
        / 3600
    )


def _provider_id(instance: Instance) -> str:
    return instance.provider_id or f"sim:///{instance.zone}/{instance.id}"
