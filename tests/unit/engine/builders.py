"""A small simulated world behind the ports, and ports that misbehave in one way each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.engine.leased import Leased
from ebbtide.engine.ports import Ports, observe
from ebbtide.engine.record_machine import LeasedRun
from ebbtide.engine.tick import TickReport, tick
from ebbtide.model.log import LogEntry
from ebbtide.model.record import CLUSTER_LEASE, Lease, Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market, Node
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud, SimCluster, SimInbox, SimMetrics, SimNotifier
from ebbtide.simulator.world.rules import Demand, Kind, Rules, Span, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import World
from tests.builders import NOW, by_lane, make_pool, make_settings, make_type

POOLS = (make_pool(), make_pool("spot", market=Market.SPOT, types=(make_type(spot_price="0.01"),)))
QUICK = Rules(boot=Span(2, 2), join=Span(2, 2), ready=Span(1, 1), terminate=Span(3, 3), detach=Span(1, 1))


def quick_settings(**overrides: object) -> Settings:
    """A cluster that is idle at once, so a story is short."""
    at_once = ("idle_down_seconds", "cooldown_down_seconds", "pending_up_seconds", "settle_seconds")
    defaults = {"pools": POOLS, **dict.fromkeys(at_once, 0)}
    return make_settings(**{**defaults, **overrides})


@dataclass
class Small:
    """Three workers in two zones (the first is the oldest), a web pod and an agent on each node."""

    settings: Settings = field(default_factory=quick_settings)
    rules: Rules = QUICK
    replicas: int = 1
    clock: VirtualClock = field(default_factory=lambda: VirtualClock(NOW))
    database: MemoryDatabase = field(default_factory=MemoryDatabase)
    notifier: SimNotifier = field(default_factory=SimNotifier)

    def __post_init__(self) -> None:
        self.world = World(self.rules, POOLS, seed=7, now=NOW)
        self.world.add_control_plane("a")
        self.nodes = [self.add_node("a", 9000), self.add_node("a", 8000), self.add_node("b", 7000)]
        demand = Demand(low=self.replicas)
        self.world.add_workload(WorkloadSpec(pod_template("web", 100, 128), demand=demand))
        self.world.add_workload(WorkloadSpec(pod_template("agent", 10, 16), Kind.DAEMON_SET))
        self.world.advance_to(NOW)
        self.clock.on_move = self.world.advance_to
        self.wait(30)
        self.store = MemoryStore(self.clock, database=self.database)
        ids = count(1)
        self.ports = Ports(
            store=self.store,
            cluster=SimCluster(self.world, self.clock),
            cloud=SimCloud(self.world, self.clock),
            metrics=SimMetrics(self.world, self.clock),
            inbox=SimInbox(self.world, self.clock),
            notifier=self.notifier,
            clock=self.clock,
            new_id=lambda: f"id-{next(ids):06d}",
        )

    def add_node(self, zone: str, age_seconds: int, pool: str = "workers") -> Node:
        market = Market.SPOT if pool == "spot" else Market.ON_DEMAND
        return self.world.add_node(pool, "small", zone, market, age_seconds)

    @property
    def now(self) -> int:
        return int(self.clock.now())

    @property
    def record(self) -> Record:
        return self.store.load()

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.world.advance_to(self.clock.now())

    def tick(self, ports: Ports | None = None, owner: str = "runner", seconds: float = 60) -> TickReport:
        return tick(ports or self.ports, self.settings, owner, self.clock.now() + seconds)

    def tick_until(self, reached: Callable[[Record], bool], ticks: int = 60) -> TickReport:
        for _ in range(ticks):
            report = self.tick()
            if reached(self.record):
                return report
            self.wait(10)
        raise AssertionError(f"not reached after {ticks} ticks: {self.record}")

    def leased_run(self, ports: Ports | None = None, seconds: float = 60) -> LeasedRun:
        given, asked = ports or self.ports, self.clock.now()
        lease = self.store.acquire(CLUSTER_LEASE, "runner", 300)
        margin, deadline = self.settings.lease_margin_seconds, self.clock.now() + seconds
        leased = Leased(given.store, self.clock, lease, 300, margin, deadline, asked)
        return LeasedRun(given, self.settings, leased, self.record, observe(given, self.settings))

    def put(self, **changes: Any) -> Record:
        """Write into the record as another would."""
        return self.store.write(replace(self.record, **by_lane(changes)), None)

    def said(self) -> list[str]:
        return [entry.says for entry in reversed(self.store.read_log(limit=1000))]


class MeddlingStore(MemoryStore):
    """Before a write of this runner, another writer gets in first, so many times."""

    times = 1

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        if self.times:
            self.times -= 1
            super().write(self.load(), None)
        return super().write(record, guard, entries)
