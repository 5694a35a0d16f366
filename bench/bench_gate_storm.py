"""Many connections over many sleeping policies while gates are killed and the autoscaler is restarted.

Real: API server, etcd, scheduler, deployment and endpoint slice controllers, PostgreSQL, two gates, an
autoscaler, and a backend. Played: kubelets, the pod network, and kube-proxy: a client connects to an endpoint
of the Service's slices as they are at that moment, and to another where nobody listens, as a proxy would.
Every connection must be served whole or be closed with a clear answer by its deadline (a reset is one only of
a gate that was killed); every policy that was asked for must wake; no Service may ever lead nowhere.
All clients have one address: `--wakes-per-minute` says how many wakes it may start, by default as many as it
likes. What the gates refused, and why, is read from their metrics.
`python -m bench.bench_gate_storm [--connections N] [--policies N] [--seconds N] [--wakes-per-minute N]`
"""

from __future__ import annotations

import argparse
import asyncio
import random
import signal
import subprocess
import sys
import time
import urllib.request
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from bench.gate_storm import LOOPBACK, Place
from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.gate.server import raise_file_limit
from ebbtide.model.idle import Phase
from ebbtide.model.pod import WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, ServiceRef, Signal, SignalKind, Target, WakeOnRequest
from tests.integration.kube.gatehouse import SLICES, members, service
from tests.integration.kube.objects import node, template, workload
from tests.policy_harness import policy_id
from tests.servers.kube import ADMIN_TOKEN, KubeServer, kube_server
from tests.servers.kubelets import kubelets
from tests.servers.postgres import postgres_server
from tests.servers.processes import eventually
from tests.servers.shared_kube import RBAC
from tests.unit.gate.house import free_ports

GATES = {"192.0.2.251": "127.0.0.1", "192.0.2.252": "127.0.0.2"}
HOLD_SECONDS = 90
CLIENT_SECONDS = HOLD_SECONDS + 30
WITHDRAWN_SECONDS = 1.0
"""How long kubelet and controller take to see that a gate is gone."""


@dataclass
class Storm:
    server: KubeServer
    place: Place
    names: Sequence[str]
    slices: dict[str, list[tuple[str, int]]] = field(default_factory=dict)
    """By Service: where it leads now."""
    results: Counter[str] = field(default_factory=Counter)
    empty: Counter[str] = field(default_factory=Counter)
    killed: set[str] = field(default_factory=set)
    asked: set[str] = field(default_factory=set)
    refused: dict[str, Counter[str]] = field(default_factory=dict)
    """By gate: what it refused since it was started, by reason, as its metrics said last."""
    refused_before: Counter[str] = field(default_factory=Counter)
    """By gates that were killed."""

    async def follow(self) -> None:
        while True:
            found = await asyncio.to_thread(self.read_slices)
            await asyncio.to_thread(self.read_metrics)
            for name in self.names:
                if not found.get(name):
                    self.empty[name] += 1
            self.slices = found
            await asyncio.sleep(0.1)

    def read_metrics(self) -> None:
        for host in GATES.values():
            with suppress(OSError):
                url = f"http://{host}:{self.place.metrics_port}/metrics"
                with urllib.request.urlopen(url, timeout=5) as answer:
                    self.refused[host] = refusals(answer.read().decode())

    def read_slices(self) -> dict[str, list[tuple[str, int]]]:
        found: dict[str, list[tuple[str, int]]] = {}
        for each in self.server.api.items(SLICES.format("default")):
            name = each["metadata"]["labels"].get("kubernetes.io/service-name", "")
            ports = [port["port"] for port in each.get("ports") or ()]
            for endpoint in each.get("endpoints") or ():
                if endpoint.get("conditions", {}).get("ready") is False or not ports:
                    continue
                address = endpoint["addresses"][0]
                gate = GATES.get(address)
                found.setdefault(name, []).append(
                    (gate, ports[0]) if gate else (LOOPBACK, self.place.backend)
                )
        return found

    async def client(self, name: str, number: int) -> None:
        token = f"{name}-{number}-{random.getrandbits(64):x}"
        try:
            async with asyncio.timeout(CLIENT_SECONDS):
                self.results[await self._ask(name, token)] += 1
        except TimeoutError:
            self.results["SILENT after its deadline"] += 1
        except ConnectionError:
            self.results["RESET without a reason"] += 1

    async def _ask(self, name: str, token: str) -> str:
        host, (reader, writer) = await self._connect(name)
        self.asked.add(name)
        try:
            writer.write(f"GET /{token} HTTP/1.1\r\nHost: {name}\r\n\r\n".encode())
            answer = await reader.read(-1)
        except ConnectionError:
            return "reset by a gate that was killed" if host in self.killed else "RESET without a reason"
        finally:
            writer.close()
            with suppress(OSError):
                await writer.wait_closed()
        if answer.startswith(b"HTTP/1.1 200 ") and answer.endswith(token.encode()):
            return "served whole"
        if answer.startswith(b"HTTP/1.1 503 "):
            return "503"
        if not answer and host in self.killed:
            return "ended by a gate that was killed"
        return "TRUNCATED"

    async def _connect(self, name: str) -> tuple[str, tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
        """As a proxy does: another endpoint where nobody listens."""
        while True:
            for host, port in random.sample(self.slices.get(name, []), len(self.slices.get(name, []))):
                try:
                    return host, await asyncio.open_connection(host, port)
                except ConnectionRefusedError:
                    continue
                except ConnectionResetError:
                    # A gate that dies before it has accepted: nobody listens there any more.
                    if host not in self.killed:
                        raise
            await asyncio.sleep(0.1)


def refusals(text: str) -> Counter[str]:
    """By reason, of all policies."""
    found: Counter[str] = Counter()
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            if sample.name == "ebbtide_gate_refused_total":
                found[sample.labels["reason"]] += int(sample.value)
    return found


@contextmanager
def started(*words: str) -> Iterator[subprocess.Popen[bytes]]:
    child = subprocess.Popen([sys.executable, "-m", "bench.gate_storm", *words])
    try:
        yield child
    finally:
        child.kill()
        child.wait()


class Actors:
    """The processes that are killed and started again."""

    def __init__(self, storm: Storm, last: ExitStack) -> None:
        self._storm, self._last = storm, last
        place = storm.place
        self._words = place.words
        self._gates: dict[str, subprocess.Popen[bytes]] = {}
        self._autoscaler: subprocess.Popen[bytes] | None = None

    def start_gate(self, address: str) -> None:
        host = GATES[address]
        self._gates[address] = self._last.enter_context(started("gate", *self._words, host))

    def kill_gate(self, address: str) -> None:
        self._storm.read_metrics()
        self._storm.killed.add(GATES[address])
        self._gates.pop(address).kill()
        self._storm.refused_before += self._storm.refused.pop(GATES[address], Counter())

    def start_autoscaler(self) -> None:
        self._autoscaler = self._last.enter_context(started("autoscaler", *self._words))

    def kill_autoscaler(self) -> None:
        if self._autoscaler is not None:
            self._autoscaler.kill()

    def tell_members(self) -> None:
        """What kubelet and controller would say of the gates' own Service."""
        endpoints = members(*self._gates)["endpoints"]
        self._storm.server.api.patch(f"{SLICES.format('ebbtide')}/gates", {"endpoints": endpoints})

    async def restart_gate(self, address: str, away_seconds: float) -> None:
        await asyncio.to_thread(self.kill_gate, address)
        await asyncio.sleep(WITHDRAWN_SECONDS)
        await asyncio.to_thread(self.tell_members)
        await asyncio.sleep(away_seconds)
        self.start_gate(address)
        await asyncio.to_thread(_until_open, GATES[address], self._storm.place)
        await asyncio.to_thread(self.tell_members)

    async def trouble(self, seconds: float) -> None:
        """Each gate is killed once, the autoscaler twice, while connections come."""
        first, second = GATES
        await asyncio.sleep(seconds * 0.15)
        await self.restart_gate(first, 2.0)
        self.kill_autoscaler()
        await asyncio.sleep(3.0)
        self.start_autoscaler()
        await self.restart_gate(second, 2.0)
        self.kill_autoscaler()
        self.start_autoscaler()


def _until_open(host: str, place: Place) -> None:
    import socket

    def open_now() -> bool:
        with suppress(OSError):
            socket.create_connection((host, place.metrics_port), 1).close()
            return True
        return False

    eventually(open_now, 180, "a gate that is ready")


async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError, asyncio.IncompleteReadError):
        head = await reader.readuntil(b"\r\n\r\n")
        token = head.split(b" ", 2)[1][1:]
        writer.write(
            b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(token) + token
        )
        await writer.drain()
    writer.close()


async def run(storm: Storm, actors: Actors, connections: int, seconds: float) -> None:
    behind = await asyncio.start_server(serve, LOOPBACK, storm.place.backend, backlog=4096)
    follows = asyncio.create_task(storm.follow())
    while len(storm.slices) < len(storm.names):
        await asyncio.sleep(0.1)
    trouble = asyncio.create_task(actors.trouble(seconds))
    clients: list[asyncio.Task[None]] = []
    began = time.monotonic()
    for number in range(connections):
        await asyncio.sleep(max(0.0, began + seconds * number / connections - time.monotonic()))
        name = random.choice(storm.names)
        clients.append(asyncio.create_task(storm.client(name, number)))
    await asyncio.gather(*clients)
    await trouble
    follows.cancel()
    behind.close()


def prepare(server: KubeServer, place: Place, names: Sequence[str]) -> list[Policy]:
    api = server.api
    server.kubectl("create", "namespace", "ebbtide")
    api.post(SLICES.format("ebbtide"), members(*GATES))
    for number in range(1 + len(names) // 100):
        api.post("/api/v1/nodes", node(f"w{number}"))
    for name in names:
        api.post(
            "/apis/apps/v1/namespaces/default/deployments", workload("Deployment", name, 1, template(name))
        )
        api.post("/api/v1/namespaces/default/services", service(name, {"http": place.backend}))
    scaling, _ = place.scaling(follows=False)
    rows = scaling.ports.policies
    now = int(time.time())
    policies = [
        rows.put_policy(
            Policy(
                policy_id(number),
                name,
                Target((WorkloadRef(WorkloadKind.DEPLOYMENT, "default", name),)),
                scale_to_zero=True,
                signals=(Signal(SignalKind.REPORTED),),
                grace_seconds=0,
                created_at=now,
                gate=WakeOnRequest((ServiceRef("default", name),), hold_seconds=HOLD_SECONDS),
            )
        )
        for number, name in enumerate(names, start=1)
    ]

    def all_at_zero() -> bool:
        scaling.round("runner", time.time() + 60)
        return all(state.phase is Phase.ZERO for state in rows.list_states())

    eventually(all_at_zero, 300, "all at zero")
    eventually(lambda: not api.items("/api/v1/namespaces/default/pods"), 120, "no pod")
    return policies


def judged(storm: Storm, policies: Sequence[Policy]) -> int:
    """What must be true afterwards; how many things were not."""
    rows = storm.place.scaling(follows=False)[0].ports.policies
    states = {state.policy_id: state for state in rows.list_states()}
    lost = [each.name for each in policies if each.name in storm.asked and not states[each.id].wake_count]
    nowhere = [name for name in storm.names if not storm.read_slices().get(name)]
    for outcome, count in storm.results.most_common():
        print(f"  {count:6} {outcome}")
    refused = sum(storm.refused.values(), storm.refused_before)
    print(f"  refused by the gates, by reason: {dict(refused) or 'none'}")
    bad = sum(count for outcome, count in storm.results.items() if outcome.split()[0].isupper())
    wakes = sum(state.wake_count for state in states.values())
    print(f"  wakes: {wakes}; policies that were asked for: {len(storm.asked)}")
    print(f"  lost wakes: {len(lost)} {lost[:3]}")
    print(f"  Services that led nowhere at some time: {len(storm.empty)}, at the end: {len(nowhere)}")
    return bad + len(lost) + len(nowhere) + len(storm.empty)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--connections", type=int, default=10_000)
    parser.add_argument("--policies", type=int, default=100)
    parser.add_argument("--seconds", type=float, default=40.0, help="in which they come")
    parser.add_argument("--wakes-per-minute", type=int, default=1_000_000, help="that one address may start")
    given = parser.parse_args()
    raise_file_limit()
    # Who ends it by a signal leaves no server behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    names = [f"web-{number}" for number in range(given.policies)]
    first = free_ports(given.policies + 30)
    with ExitStack() as last:
        server = last.enter_context(kube_server())
        last.enter_context(kubelets(server.api))
        postgres = last.enter_context(postgres_server())
        postgres.run("CREATE DATABASE storm")
        upgrade(postgres.url("storm"))
        assert not server.kubectl("apply", "-f", str(RBAC)).returncode
        kubeconfig: Path = server.kubeconfig("admin", token=ADMIN_TOKEN)
        ports = f"{first + 1}-{first + given.policies + 28}"
        place = Place(postgres.url("storm"), kubeconfig, ports, first, given.wakes_per_minute)
        storm = Storm(server, place, names)
        policies = prepare(server, place, names)
        print(f"{given.policies} policies sleep; two gates and an autoscaler are started", flush=True)
        actors = Actors(storm, last)
        for address in GATES:
            actors.start_gate(address)
        actors.start_autoscaler()
        for host in GATES.values():
            _until_open(host, place)
        began = time.monotonic()
        asyncio.run(run(storm, actors, given.connections, given.seconds))
        took = time.monotonic() - began
        print(f"{given.connections} connections over {given.policies} sleeping policies, {took:.0f} s:")
        return 1 if judged(storm, policies) else 0


if __name__ == "__main__":
    sys.exit(main())
