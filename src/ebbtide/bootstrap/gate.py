"""The gate as a process: the data path of `ebbtide.gate` with policies, Services and pods of a real cluster.

The event loop does nothing but pass bytes. Everything that may take long (the store, the API server) is done
in threads: watches of EndpointSlices, wakes, and a look at all takeovers every few seconds and whenever gates
or pods changed. Every gate keeps all takeovers current, so the endpoints of one that died are withdrawn by
any other.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import TypeVar

from prometheus_client import CollectorRegistry

from ebbtide.adapters.kube.connection import Connection
from ebbtide.adapters.kube.services import SERVICE_NAME, WireSlice, ready_pods, slices_in
from ebbtide.adapters.kube.watch import Follower
from ebbtide.adapters.kube.workloads import KubeWorkloads
from ebbtide.adapters.prometheus import NoSignals
from ebbtide.bootstrap import SystemClock, TimeOrderedIds, open_notifier, open_store
from ebbtide.bootstrap.kubernetes import connect_kubernetes, open_services
from ebbtide.bootstrap.scaling import HasPolicies
from ebbtide.config import Config
from ebbtide.config.scale_to_zero import GateKeys
from ebbtide.core.scale_to_zero.eta import LearnedEta
from ebbtide.engine.loop import for_a_daemon
from ebbtide.engine.scale_to_zero.gating import GateEntry
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.errors import EbbtideError, Usage
from ebbtide.gate.admission import Backends, GateLimits, Route, Routes
from ebbtide.gate.keeper import House, Keeper
from ebbtide.gate.knocking import Eta
from ebbtide.gate.metrics import GateMetrics
from ebbtide.gate.passing import Dial
from ebbtide.gate.server import listening, raise_file_limit

LOOK_SECONDS = 10.0
SETTLE_SECONDS = 0.05
"""After a change, before takeovers are looked at: what changed together is looked at once."""
WAKES_AT_ONCE = 16
POLL_SECONDS = 0.1
OTHER_FILES = 200
"""Descriptors for the store, the API server and the metrics."""
T = TypeVar("T")
Say = Callable[[str], object]
_log = logging.getLogger(__name__)


@dataclass
class GateHealth:
    """For probes: a gate is ready once it knows what its ports stand for, until it is told to stop."""

    registry: CollectorRegistry
    tables_read: bool = False
    stopping: bool = False
    problem: str = field(default="")

    def why_dead(self) -> str:
        return ""

    def why_not_ready(self) -> str:
        if self.stopping:
            return "the gate is shutting down"
        return "" if self.tables_read else f"the gate does not know its ports yet {self.problem}".rstrip()


class _Bell(threading.Condition):
    """A condition that also tells the event loop."""

    def __init__(self, rings: Callable[[], None]) -> None:
        super().__init__()
        self._rings = rings

    def notify_all(self) -> None:
        super().notify_all()
        self._rings()


class GateProcess:
    def __init__(self, scaling: Scaling, connection: Connection, keys: GateKeys, say: Say) -> None:
        service = keys.service_ref
        if service is None or not keys.namespaces:
            raise Usage(
                "gate.service and gate.namespaces say which Services the gate stands in for, and one of them "
                "is empty; nothing was touched. Set both."
            )
        self._service = service
        self._scaling = scaling
        self._connection = connection
        self._keys = keys
        self._say = say
        self.metrics = GateMetrics()
        self.health = GateHealth(self.metrics.registry)
        self._routes, self._backends = Routes(), Backends()
        self._slices: list[Follower[WireSlice, WireSlice]] = []
        self._threads = ThreadPoolExecutor(WAKES_AT_ONCE, "gate")
        self._look = asyncio.Event()
        self._pods_heard: float | None = None
        """Since when pods have changed that were not looked at yet, by the monotonic clock."""
        self._etas: dict[str, Eta] = {}
        """How long a wake of each policy would take, as the last look said."""

    async def run(self, stop: asyncio.Event, dial: Dial | None = None) -> None:
        """Until asked to stop; then no longer ready, and a while later gone. `dial` is for pods that
        are not reached by their addresses."""
        self._loop = asyncio.get_running_loop()
        limits = GateLimits(
            held=self._keys.max_held,
            wakes_per_minute=self._keys.wakes_per_minute,
            files=max(1, raise_file_limit() - len(self._keys.port_range) - OTHER_FILES),
        )
        house = House(self._routes, self._backends, self._wake, self._look.set, limits, dial, self.expects)
        keeper = self.keeper = Keeper(house, self.metrics)
        with ExitStack() as last:
            last.callback(self._threads.shutdown, wait=False, cancel_futures=True)
            self._follow(last)
            looks = asyncio.create_task(self._look_again_and_again())
            try:
                async with listening(keeper, self._keys.host, self._keys.port_range, limits.knock_seconds):
                    self._say(f"Gate: {self._keys.host}, ports {self._keys.ports}  (Ctrl-C stops it)")
                    await stop.wait()
                    self.health.stopping = True
                    # Still listening: proxies may send new connections until they have heard that we go.
                    await self._sleep(self._keys.drain_sec)
                await self._emptied(keeper)
            finally:
                looks.cancel()
                with suppress(asyncio.CancelledError):
                    await looks
                await keeper.close()

    async def _emptied(self, keeper: Keeper) -> None:
        end = self._loop.time() + self._keys.grace_sec
        while (keeper.held or keeper.open) and self._loop.time() < end:
            await self._sleep(POLL_SECONDS)

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(seconds)

    async def _wake(self, policy_id: str) -> float:
        return await self._in_thread(partial(self._scaling.arrive, policy_id))

    async def _in_thread(self, call: Callable[[], T]) -> T:
        return await self._loop.run_in_executor(self._threads, call)

    def _follow(self, last: ExitStack) -> None:
        """Pods of every namespace, and the gates themselves."""
        pods = _Bell(self._ring_pods)
        for namespace in self._keys.namespaces:
            self._slices.append(Follower(self._connection, slices_in(namespace), _same, pods))
        only = {"labelSelector": f"{SERVICE_NAME}={self._service.name}"}
        gates = Follower(
            self._connection, slices_in(self._service.namespace), _same, _Bell(self._ring_gates), only
        )
        for each in (*self._slices, gates):
            each.start()
            last.callback(each.stop)

    def _ring_pods(self) -> None:
        """In a thread of a watch."""
        with suppress(RuntimeError):  # the loop has ended
            self._loop.call_soon_threadsafe(self._pods_changed, time.monotonic())

    def _ring_gates(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._look.set)

    def _pods_changed(self, at: float) -> None:
        """Many changes come at once; they are looked at once."""
        if self._pods_heard is None:
            self._pods_heard = at
            self._loop.call_soon(self._take_pods)

    def _take_pods(self) -> None:
        at, self._pods_heard = self._pods_heard, None
        self._backends.replace(ready_pods(item for each in self._slices for item in each.items()), at)
        self._look.set()

    async def _look_again_and_again(self) -> None:
        while True:
            self._look.clear()
            await self._look_once()
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._look.wait()
            await asyncio.sleep(SETTLE_SECONDS)

    async def _look_once(self) -> None:
        try:
            began = time.monotonic()
            self._take_routes(await self._in_thread(self._scaling.gate_entries), began)
            self.take_etas(await self._in_thread(self._scaling.etas))
            for sentence in await self._in_thread(self._scaling.reconcile_gates):
                self._say(sentence)
        except EbbtideError as error:
            self.health.problem = f"({error})"
            _log.warning("the gate continues with what it knows: %s", error)
        except Exception:  # a gate must outlive a bug in one look
            _log.exception("the gate continues with what it knows")

    def _take_routes(self, entries: Sequence[GateEntry], began: float) -> None:
        found: dict[int, list[Route]] = {}
        for each in entries:
            found.setdefault(each.port, []).append(self._route(each))
        self._routes.replace(found)
        self.keeper.routes_changed(began)
        self.health.tables_read = True

    def expects(self, policy_id: str) -> Eta | None:
        """What is known before anybody was woken, without asking the store."""
        return self._etas.get(policy_id)

    def take_etas(self, found: Mapping[str, LearnedEta]) -> None:
        self._etas.clear()
        for policy_id, each in found.items():
            needs_node = each.node is not None if each.first is not None else None
            self._etas[policy_id] = Eta(each.seconds, needs_node)

    def _route(self, entry: GateEntry) -> Route:
        policy, gate = entry.policy, entry.policy.gate
        assert gate is not None
        own = policy.cold_start_timeout_seconds
        default = self._scaling.defaults.cold_start_timeout_seconds if own is None else own
        hold = default if gate.hold_seconds is None else gate.hold_seconds
        return Route(policy.id, policy.name, entry.service, entry.port_name, gate, float(hold))


@contextmanager
def gate_opened(config: Config) -> Iterator[tuple[Scaling, Connection]]:
    """What a gate needs and no more: no cloud, no nodes, no metrics. So its rights can be few."""
    if config.cluster_kind != "kubernetes":
        raise Usage("a gate needs a real cluster; nothing was touched. Set cluster.kind to kubernetes.")
    with ExitStack() as last:
        connection = connect_kubernetes(config)
        last.callback(connection.close)
        store = open_store(config)
        last.callback(store.close)
        if not isinstance(store, HasPolicies):
            raise Usage("the store keeps no policies; nothing was touched. Name another in store.url.")
        workloads = KubeWorkloads(connection)
        last.callback(workloads.close)
        ports = ScalingPorts(
            store=store,
            policies=store.policies(),
            workloads=workloads,
            signals=NoSignals(),
            notifier=open_notifier(config),
            clock=SystemClock(),
            new_id=TimeOrderedIds(),
            threads=WAKES_AT_ONCE,
            services=open_services(config, connection),
            gate_ports=config.gate.port_range,
            follows=True,
        )
        yield Scaling(ports, config.zero, for_a_daemon(config.settings)), connection


def _same(wire: WireSlice) -> WireSlice:
    return wire
