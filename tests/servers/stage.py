"""The real engine on a real adapter: a simulated cluster of one control plane, a clock that is moved by hand.

The nodes of what is launched join when the test says so, and otherwise never.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import count
from typing import Any

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import TickReport, tick
from ebbtide.model.effect import Launch
from ebbtide.model.log import LogEntry
from ebbtide.model.operation import ScaleUp, Slot, SpotNotice
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Instance, Node, Reading
from ebbtide.ports import Cloud, Inbox, Store
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCluster, SimNotifier
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.world import World
from tests.builders import make_daemon


class SteadyMetrics:
    """CPU use is what the test says, neither high nor low where it says nothing."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.cpu = 0.5

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        return Reading(self.cpu, int(self.clock.now()))


class EmptyInbox:
    def receive(self) -> Sequence[SpotNotice]:
        return ()

    def acknowledge(self, notice: SpotNotice) -> None:
        return


class CrashesAfterLaunch:
    """A process that dies the moment its launch was carried out, before anything is written."""

    def __init__(self, cloud: Cloud) -> None:
        self.cloud = cloud

    def launch(self, effect: Launch) -> Instance:
        self.cloud.launch(effect)
        raise RunnerCrashed

    def terminate(self, instance_id: str) -> None:
        self.cloud.terminate(instance_id)

    def list_instances(self) -> Sequence[Instance]:
        return self.cloud.list_instances()


class Stage:
    def __init__(self, pool: Pool, **settings: Any) -> None:
        self.clock = VirtualClock(int(time.time()))
        self.world = World(Rules(), (), seed=1, now=self.clock.now())
        server = self.world.add_control_plane(pool.zones[0])
        self.world.inventory.put_pod(make_daemon(server.name))
        wanted = {"pools": (pool,), "min_workers": 1, "max_workers": 3, "pending_up_seconds": 60}
        self.settings = Settings(**{**wanted, **settings})
        self.database = MemoryDatabase()
        self.store: Store = MemoryStore(self.clock, database=self.database)
        self.metrics = SteadyMetrics(self.clock)
        self.notifier = SimNotifier()
        self.said: list[str] = []
        self._ids, self._owners = count(1), count(1)

    def ports(self, cloud: Cloud, inbox: Inbox | None = None) -> Ports:
        return Ports(
            store=self.store,
            cluster=SimCluster(self.world, self.clock),
            cloud=cloud,
            metrics=self.metrics,
            inbox=inbox or EmptyInbox(),
            notifier=self.notifier,
            clock=self.clock,
            new_id=lambda: f"id-{next(self._ids):06d}",
        )

    def tick(self, cloud: Cloud, after_seconds: float = 30, inbox: Inbox | None = None) -> TickReport:
        self.clock.sleep(after_seconds)
        owner = f"runner-{next(self._owners)}"
        report = tick(self.ports(cloud, inbox), self.settings, owner, self.clock.now() + 60)
        self.said.append(report.says)
        return report

    def ticks(self, cloud: Cloud, times: int, after_seconds: float = 30) -> None:
        for _ in range(times):
            self.tick(cloud, after_seconds)

    def join(self, instance: Instance) -> Node:
        """The machine's script has run: its node is there and Ready."""
        node = Node(
            name=f"node-{instance.id}",
            uid=f"uid-{instance.id}",
            provider_id=instance.provider_id,
            zone=instance.zone,
            pool=instance.pool,
            instance_type=instance.instance_type,
            created_at=int(self.clock.now()),
        )
        self.world.inventory.put_node(node)
        return node

    @property
    def slots(self) -> tuple[Slot, ...]:
        operation = self.store.load().operation
        return operation.slots if isinstance(operation, ScaleUp) else ()

    def log(self) -> list[LogEntry]:
        return list(reversed(self.store.read_log(limit=500)))
