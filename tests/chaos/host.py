"""The world as a process of its own: a simulated cluster and cloud on the machine's clock, behind RPC.

It judges every act by what is really there and by the record as the database holds it at that moment.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from multiprocessing.managers import BaseManager
from typing import Any, TypeVar

from ebbtide.errors import EbbtideError
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Pod
from ebbtide.model.record import Record
from ebbtide.model.snapshot import ClusterView, Instance, Reading
from ebbtide.ports import Store
from ebbtide.simulator.checker.checker import Checker
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud, SimCluster, SimInbox, SimMetrics
from ebbtide.simulator.world.rules import Demand
from ebbtide.simulator.world.world import Act, ActKind
from tests.chaos.setting import SETTINGS, build
from tests.chaos.stores import open_store

T = TypeVar("T")
DESTRUCTIVE = (ActKind.TERMINATE, ActKind.UNCORDON)


class Host:
    """Answers one call at a time, after letting the world catch up with the clock."""

    def __init__(self, url: str, seed: int) -> None:
        self._lock = threading.Lock()
        self._url = url
        self._store: Store | None = None
        now = time.time()
        self._clock = VirtualClock(now)
        self._world = build(seed, now)
        self._world.witnesses.append(self._remember)
        self._checker = Checker(self._world, SETTINGS)
        self._cluster = SimCluster(self._world, self._clock)
        self._cloud = SimCloud(self._world, self._clock)
        self._metrics = SimMetrics(self._world, self._clock)
        self._inbox = SimInbox(self._world, self._clock)
        self.unjudged = 0

    def _remember(self, act: Act) -> None:
        """What the database says the moment before; a lost reply excuses a second terminate."""
        self._world.disturbances += 1
        if act.kind not in DESTRUCTIVE:
            return
        try:
            if self._store is None:
                self._store = open_store(self._url)
            self._checker.knows(self._store.load())
        except EbbtideError:
            self.unjudged += 1
            self._checker.knows(None)

    def _call(self, call: Callable[[], T]) -> T:
        with self._lock:
            self._clock.move_to(time.time())
            self._world.advance_to(self._clock.now())
            return call()

    def read(self) -> ClusterView:
        return self._call(self._cluster.read)

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        return self._call(lambda: self._cluster.read_pods_on(node_name))

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        self._call(lambda: self._cluster.soft_taint(effect, token))

    def cordon(self, effect: Cordon, token: int) -> None:
        self._call(lambda: self._cluster.cordon(effect, token))

    def uncordon(self, effect: Uncordon, token: int) -> None:
        self._call(lambda: self._cluster.uncordon(effect, token))

    def evict(self, effect: Evict) -> None:
        self._call(lambda: self._cluster.evict(effect))

    def delete_node(self, effect: DeleteNode) -> None:
        self._call(lambda: self._cluster.delete_node(effect))

    def launch(self, effect: Launch) -> Instance:
        return self._call(lambda: self._cloud.launch(effect))

    def terminate(self, instance_id: str) -> None:
        self._call(lambda: self._cloud.terminate(instance_id))

    def list_instances(self) -> Sequence[Instance]:
        return self._call(self._cloud.list_instances)

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        return self._call(lambda: self._metrics.read_cpu(node_names))

    def receive(self) -> Sequence[SpotNotice]:
        return self._call(self._inbox.receive)

    def acknowledge(self, notice: SpotNotice) -> None:
        self._call(lambda: self._inbox.acknowledge(notice))

    def settle(self) -> None:
        """No more bursts and interruptions: what is in progress can come to its end."""

        def quiet() -> None:
            self._world.controllers.drive("default/web", Demand(low=8))
            for incident in ("interrupt", "rebalance"):
                self._world.timeline.on(incident, lambda _: None)

        self._call(quiet)

    def finish(self, record: Record) -> tuple[list[str], dict[str, int]]:
        """Everything that went wrong, and the totals."""

        def judged() -> tuple[list[str], dict[str, int]]:
            self._checker.finish(record)
            totals = {
                "launched": self._world.machines.book.launched,
                "removed": self._world.removed,
                "evictions": self._world.evictions,
                "interruptions": self._world.incidents.mail.interruptions,
                "unjudged": self.unjudged,
            }
            return list(map(str, self._checker.violations)), totals

        return self._call(judged)


class Doors(BaseManager):
    """Where runners find the world."""


def serve(url: str, seed: int, address: str, authkey: bytes) -> None:
    host = Host(url, seed)

    class Serving(BaseManager):
        pass

    Serving.register("host", callable=lambda: host)
    Serving(address=address, authkey=authkey).get_server().serve_forever()


def knock(address: str, authkey: bytes) -> Any:
    """A proxy of the host, for a runner in another process."""
    Doors.register("host")
    opened = Doors(address=address, authkey=authkey)
    opened.connect()
    return opened.host()  # type: ignore[attr-defined]
