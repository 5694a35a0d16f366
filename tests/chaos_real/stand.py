"""Everything that the runners meet, started for one database: the real parts and the network in between."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from ebbtide.adapters.stores.dynamodb.tables import create_tables
from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.ports import Store
from tests.chaos.stores import open_store
from tests.chaos_real.fleet import Endpoint, Fleet
from tests.chaos_real.machines import Machines
from tests.chaos_real.network import Network, network
from tests.chaos_real.setting import write_config
from tests.chaos_real.weather import Weather
from tests.chaos_real.witness import Witness
from tests.servers.control_plane import Unavailable, ensure_debian
from tests.servers.dynamodb import dynamodb_server
from tests.servers.kube import kube_server
from tests.servers.kubelets import kubelets
from tests.servers.moto import MotoServer
from tests.servers.postgres import postgres_server
from tests.servers.prometheus import exporters, prometheus_server
from tests.servers.shared_kube import RBAC, token_of_ebbtide

KUBELETS_SECONDS = 0.5


@dataclass(frozen=True)
class Database:
    target: str
    """Where it listens: a port or a socket."""
    direct: str
    through: str
    """Its URL past the network, and that for runners with `PORT` for the network's port."""


@dataclass(frozen=True)
class Stand:
    config: Path
    network: Network
    store: Store
    witness: Witness
    weather: Weather
    machines: Machines


@contextmanager
def stand(database_name: str, seed: int, folder: Path) -> Iterator[Stand]:
    """`Unavailable` where a part is not available."""
    cluster = f"chaos-{database_name}"
    ensure_debian("prometheus", "prometheus")
    with ExitStack() as stack:
        database = stack.enter_context(_postgresql() if database_name == "postgresql" else _dynamodb())
        kube = stack.enter_context(kube_server())
        nodes = stack.enter_context(kubelets(kube.api, KUBELETS_SECONDS))
        load = stack.enter_context(exporters())
        prometheus = stack.enter_context(prometheus_server(load, ["load"]))
        moto = MotoServer()
        stack.callback(moto.stop)
        store = open_store(database.direct, cluster)
        stack.callback(store.close)
        fleet = Fleet(moto, cluster)
        witness = Witness(kube.api, fleet, store)
        endpoint = Endpoint(moto, fleet, witness)
        stack.callback(endpoint.stop)
        token = token_of_ebbtide(kube)
        for manifest in ("workload-scaling.yaml", "gate.yaml"):
            applied = kube.kubectl("apply", "-f", str(RBAC.with_name(manifest)))
            if applied.returncode:
                raise RuntimeError(applied.stderr)
        weather = Weather(kube.api, moto, fleet, load, seed)
        weather.prepare()
        opened = {
            "kube": f"127.0.0.1:{kube.port}",
            "store": database.target,
            "cloud": urlsplit(endpoint.url).netloc,
            "metrics": urlsplit(prometheus).netloc,
        }
        between = stack.enter_context(network(seed, opened))
        ports = between.ports
        cloud = f"http://127.0.0.1:{ports['cloud']}"
        config = write_config(
            folder,
            cluster,
            kube.kubeconfig("ebbtide", token=token, server=f"https://127.0.0.1:{ports['kube']}"),
            store=database.through.replace("PORT", str(ports["store"])),
            cloud=cloud,
            image=moto.image,
            queue=cloud + urlsplit(weather.queue).path,
            metrics=f"http://127.0.0.1:{ports['metrics']}",
        )
        machines = Machines(fleet, kube.api, nodes, seed, witness.silent)
        yield Stand(config, between, store, witness, weather, machines)


@contextmanager
def _postgresql() -> Iterator[Database]:
    with postgres_server("max_connections=200") as server:
        server.run("CREATE DATABASE chaos")
        upgrade(server.url("chaos"))
        through = "postgresql://postgres@127.0.0.1:PORT/chaos"
        yield Database(str(server.socket), server.url("chaos"), through)


@contextmanager
def _dynamodb() -> Iterator[Database]:
    with dynamodb_server() as server:
        if server.standing_in:
            raise Unavailable(server.standing_in)
        direct = server.url("chaos-state", "chaos-logs")
        create_tables(direct)
        through = direct.replace(str(server.port), "PORT")
        yield Database(f"127.0.0.1:{server.port}", direct, through)
