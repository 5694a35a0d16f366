"""The processes of `bench.bench_gate_storm`: a gate and an autoscaler, each over the same PostgreSQL and API
server, to be killed and started again. The gate runs until it is told to stop; the autoscaler makes rounds.

    python -m bench.gate_storm gate URL KUBECONFIG PORTS BACKEND WAKES HOST
    python -m bench.gate_storm autoscaler URL KUBECONFIG PORTS BACKEND WAKES
"""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from prometheus_client import start_http_server

from ebbtide.adapters.kube.connection import Connection, connect
from ebbtide.adapters.kube.services import KubeServices
from ebbtide.adapters.kube.workloads import KubeWorkloads
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.bootstrap import SystemClock, TimeOrderedIds
from ebbtide.bootstrap.gate import GateProcess
from ebbtide.config.scale_to_zero import GateKeys
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.errors import EbbtideError
from ebbtide.gate.admission import Address
from ebbtide.model.policy import ZeroDefaults
from ebbtide.simulator.world.ports import SimNotifier
from tests.builders import make_settings
from tests.policy_harness import Readings

LOOPBACK = "127.0.0.1"
ROUND_SECONDS = 0.5
QUICK = ZeroDefaults(
    idle_threshold_seconds=1, keep_alive_window_seconds=0, check_interval_seconds=1, max_keep_alive_seconds=0
)


@dataclass(frozen=True)
class Place:
    """What every process is told."""

    url: str
    kubeconfig: Path
    ports: str
    backend: int
    wakes_per_minute: int
    """Of each source; all clients come from one address here."""

    @property
    def words(self) -> tuple[str, ...]:
        return self.url, str(self.kubeconfig), self.ports, str(self.backend), str(self.wakes_per_minute)

    @property
    def metrics_port(self) -> int:
        return int(self.ports.partition("-")[2]) + 1

    def keys(self, host: str) -> GateKeys:
        return GateKeys(
            service="ebbtide/ebbtide-gate",
            namespaces=("default",),
            ports=self.ports,
            host=host,
            drain_sec=2,
            grace_sec=60,
            wakes_per_minute=self.wakes_per_minute,
        )

    def scaling(self, follows: bool) -> tuple[Scaling, Connection]:
        keys, connection = self.keys(LOOPBACK), connect(self.kubeconfig)
        store = SqlStore.open(self.url, SystemClock())
        assert keys.service_ref is not None
        ports = ScalingPorts(
            store=store,
            policies=store.policies(),
            workloads=KubeWorkloads(connection),
            signals=Readings(),
            notifier=SimNotifier(),
            clock=SystemClock(),
            new_id=TimeOrderedIds(),
            threads=8,
            services=KubeServices(connection, keys.service_ref, keys.namespaces),
            gate_ports=keys.port_range,
            follows=follows,
        )
        return Scaling(ports, QUICK, make_settings()), connection


def run_gate(place: Place, host: str) -> None:
    import uvloop

    scaling, connection = place.scaling(follows=True)
    process = GateProcess(scaling, connection, place.keys(host), lambda _: None)

    def dial(_: Address) -> Address:
        """Pods have no network here; all their addresses stand for the backend."""
        return LOOPBACK, place.backend

    async def until_asked() -> None:
        stop = asyncio.Event()
        asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stop.set)
        readiness = asyncio.create_task(say_when_ready())
        await process.run(stop, dial)
        readiness.cancel()

    async def say_when_ready() -> None:
        """As the probe of its pod would see it: who listens on this port is ready."""
        while process.health.why_not_ready():
            await asyncio.sleep(0.1)
        start_http_server(place.metrics_port, host, process.metrics.registry)

    uvloop.run(until_asked())


def run_autoscaler(place: Place) -> None:
    scaling, _ = place.scaling(follows=False)
    while True:
        with suppress(EbbtideError):
            scaling.round("runner", time.time() + 30)
        time.sleep(ROUND_SECONDS)


def main() -> None:
    role, url, kubeconfig, ports, backend, wakes, *host = sys.argv[1:]
    place = Place(url, Path(kubeconfig), ports, int(backend), int(wakes))
    if role == "gate":
        run_gate(place, host[0])
    else:
        run_autoscaler(place)


if __name__ == "__main__":
    main()
