"""From the creation of a pod that no node takes to the launch call, on a real control plane.

A kube-apiserver with etcd and a kube-scheduler that finds no place for the pods, `ebbtide run` with the
profile `eager` in a process of its own, and moto as EC2. Each pod needs a node of its own, so the first
launch belongs to the first pod, and so on. Pods come in groups of up to four, groups some seconds apart. The
benchmark plays the machines: each joins some seconds after its launch, so ticks for nodes that became
Ready and for the heartbeat are part of what is measured. It prints where the time went: until a watch of its
own heard the refusal of the scheduler, until the tick began, for the list of instances, and from there to the
call.
"""

from __future__ import annotations

import os
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path
from statistics import median
from urllib.parse import parse_qsl

import yaml

from ebbtide.adapters.kube.cluster import Readers
from ebbtide.adapters.kube.connection import PODS, connect
from ebbtide.adapters.kube.objects import PodSeen
from ebbtide.adapters.kube.watch import Follower
from ebbtide.adapters.kube.wire import WirePod
from tests.integration.kube import objects
from tests.servers.kube import KubeServer, kube_server
from tests.servers.kube_api import Api
from tests.servers.moto import CREDENTIALS, REGION, MotoServer
from tests.servers.processes import eventually
from tests.servers.proxy import Answer, FaultyProxy
from tests.servers.shared_kube import token_of_ebbtide

P50_LIMIT_SECONDS, P99_LIMIT_SECONDS = 2.0, 4.0
ZONES = (f"{REGION}a", f"{REGION}b", f"{REGION}c")
TYPE = {"name": "m7i.large", "cpu": "2", "memory": "8Gi", "price": 0.1}
POD_CPU = "1500m"
GROUP, GROUP_SECONDS, GAP_SECONDS = (1, 4), 0.4, (2.0, 6.0)
JOIN_SECONDS = (4.0, 10.0)
LONGEST_SECONDS = 60.0
"""How long the last launches are waited for."""


class Launches(FaultyProxy):
    """EC2, and when each call of the daemon arrived and was answered."""

    def __init__(self, moto: MotoServer) -> None:
        self.at: list[float] = []
        self.lists: list[tuple[float, float]] = []
        """Of every list of instances, when it was asked for and when answered."""
        self.spent: list[float] = []
        super().__init__(moto.port)

    def answer(self, body: bytes, path: str, headers: list[tuple[str, str]]) -> Answer | None:
        arrived = time.time()
        action = dict(parse_qsl(body.decode())).get("Action")
        if action == "RunInstances":
            self.at.append(arrived)
        answer = super().answer(body, path, headers)
        if action == "DescribeInstances":
            self.lists.append((arrived, time.time()))
        self.spent.append(time.time() - arrived)
        return answer


class Refusals:
    """When a watch first heard that the scheduler finds no node for a pod."""

    def __init__(self, kube: KubeServer) -> None:
        connection = connect(kube.kubeconfig("bench-watch", token=token_of_ebbtide(kube)))
        self._readers = Readers()
        self._pods = Follower(connection, PODS, self._heard, threading.Condition())
        self.at: dict[str, float] = {}
        self._pods.start()

    def _heard(self, wire: WirePod) -> PodSeen:
        seen = self._readers.pod(wire)
        if seen.unschedulable:
            self.at.setdefault(seen.pod.name, time.time())
        return seen

    def end(self) -> None:
        self._pods.stop()
        self._pods.join(10)


class Machines(threading.Thread):
    """Every machine joins some seconds after it was first seen."""

    def __init__(self, moto: MotoServer, api: Api, seed: int) -> None:
        super().__init__(name="machines", daemon=True)
        self._ec2, self._api, self._foreign = moto.client("ec2"), api, moto.foreign_id
        self._chance = random.Random(f"machines/{seed}")
        self._joins_at: dict[str, float] = {}
        self.stopping = threading.Event()
        self.joined = 0

    def run(self) -> None:
        while not self.stopping.wait(1.0):
            for page in self._ec2.get_paginator("describe_instances").paginate():
                for raw in (raw for reservation in page["Reservations"] for raw in reservation["Instances"]):
                    self._tend(raw["InstanceId"], raw["Placement"]["AvailabilityZone"])

    def end(self) -> None:
        self.stopping.set()
        self.join(60)

    def _tend(self, instance_id: str, zone: str) -> None:
        if instance_id == self._foreign:
            return
        now = time.monotonic()
        due = self._joins_at.setdefault(instance_id, now + self._chance.uniform(*JOIN_SECONDS))
        if now < due:
            return
        self._joins_at[instance_id] = float("inf")
        offer = {"cpu": TYPE["cpu"], "memory": TYPE["memory"], "pods": "30"}
        made = objects.node(
            f"node-{instance_id}",
            zone,
            labels={"node.kubernetes.io/instance-type": TYPE["name"]},
            spec={"providerID": f"aws:///{zone}/{instance_id}"},
            status={"allocatable": offer, "capacity": offer},
        )
        self._api.post("/api/v1/nodes", made)
        self.joined += 1


def measure(pods: int, seed: int) -> int:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="ebb-reaction-")))
        kube = stack.enter_context(kube_server())
        moto = MotoServer()
        stack.callback(moto.stop)
        launches = Launches(moto)
        stack.callback(launches.stop)
        role = {"node-role.kubernetes.io/control-plane": "true"}
        kube.api.post(
            "/api/v1/nodes", objects.node("server", pool="", labels=role, spec={"unschedulable": True})
        )
        machines = Machines(moto, kube.api, seed)
        machines.start()
        stack.callback(machines.end)
        refusals = Refusals(kube)
        stack.callback(refusals.end)
        log = Path(os.environ.get("EBBTIDE_BENCH_LOG", folder / "log"))
        daemon = stack.enter_context(_daemon(_config(folder, kube, launches, moto.image, pods), log))
        eventually(lambda: machines.joined >= 1, 120, "the first node of the minimum")
        fill(kube.api)
        known = len(launches.at)
        created = _create(kube.api, pods, random.Random(f"pods/{seed}"))
        until = time.monotonic() + LONGEST_SECONDS
        while len(launches.at) < known + pods and time.monotonic() < until:
            time.sleep(0.2)
        if daemon.poll() is not None:
            raise RuntimeError(f"ebbtide run ended by itself: {log.read_text()[-2000:]}")
        cpu = _cpu_seconds(daemon.pid)
        launched = sorted(launches.at[known:])
        _show_parts(created, launched, refusals, launches.lists)
        return _judge(created, launched, launches.spent, cpu)


def fill(api: Api) -> None:
    """The node of the minimum has a pod already: every pod that is measured needs a new one."""
    api.post("/api/v1/namespaces/default/pods", objects.bare_pod("first", cpu=POD_CPU))
    path = "/api/v1/namespaces/default/pods/first"
    eventually(lambda: api.get(path)["spec"].get("nodeName"), 60, "a place for the first pod")


def _create(api: Api, pods: int, chance: random.Random) -> list[float]:
    """When each was created: just before the call."""
    created: list[float] = []
    numbers = count()
    while len(created) < pods:
        for _ in range(min(chance.randint(*GROUP), pods - len(created))):
            created.append(time.time())
            pod = objects.bare_pod(_name(next(numbers)), cpu=POD_CPU)
            api.post("/api/v1/namespaces/default/pods", pod)
            time.sleep(chance.uniform(0, GROUP_SECONDS))
        time.sleep(chance.uniform(*GAP_SECONDS))
    return created


def _show_parts(
    created: list[float], launched: list[float], refusals: Refusals, lists: list[tuple[float, float]]
) -> None:
    """Where the time went, pod by pod: the last list of instances before a launch is that of its tick."""
    parts: dict[str, list[float]] = {
        "until the scheduler's refusal was heard": [],
        "then until the tick began (batch window, a tick before it)": [],
        "the cloud's list of instances in the tick": [],
        "from there to the launch call (decide, write)": [],
    }
    for number, (began, done) in enumerate(zip(created, launched, strict=False)):
        asked, answered = max((each for each in lists if each[0] < done), default=(done, done))
        refused = min(refusals.at.get(_name(number), asked), asked)
        steps = (refused - began, asked - refused, answered - asked, done - answered)
        for spent, step in zip(parts.values(), steps, strict=True):
            spent.append(step)
    for what, spent in parts.items():
        ordered = sorted(spent) or [0.0]
        print(f"  {what}: p50 {median(ordered):.2f} s, p99 {_p99(ordered):.2f} s")


def _p99(ordered: list[float]) -> float:
    return ordered[max(0, -(-99 * len(ordered) // 100) - 1)]


def _name(number: int) -> str:
    return f"p{number:04d}"


def _judge(created: list[float], launched: list[float], spent: list[float], cpu: float) -> int:
    lasted = sorted(done - began for began, done in zip(created, launched, strict=False))
    missing, too_many = len(created) - len(lasted), max(0, len(launched) - len(created))
    print(
        f"{len(created)} pods in {created[-1] - created[0]:.0f} s, {len(launched)} launch calls;"
        f" moto answered in {1000 * median(spent):.0f} ms (median); the daemon used {cpu:.0f} s of CPU"
    )
    if missing or too_many:
        print(f"bench_reaction --real: {missing} pods without a launch, {too_many} launches too many: BAD")
        return 1
    p50, p99 = median(lasted), _p99(lasted)
    good = p50 < P50_LIMIT_SECONDS and p99 < P99_LIMIT_SECONDS
    print(
        f"bench_reaction --real: from the creation of a pod to the launch call: p50 {p50:.2f} s"
        f" (below {P50_LIMIT_SECONDS:g}), p99 {p99:.2f} s (below {P99_LIMIT_SECONDS:g}),"
        f" slowest {lasted[-1]:.2f} s: {'good' if good else 'BAD'}"
    )
    return 0 if good else 1


def _config(folder: Path, kube: KubeServer, launches: Launches, image: str, pods: int) -> Path:
    kubeconfig = kube.kubeconfig("ebbtide", token=token_of_ebbtide(kube))
    document = {
        "profile": "eager",
        "min_workers": 1,
        "max_workers": 2 * pods + 10,
        "metrics_addr": "off",
        "cluster": {"name": "reaction", "kind": "kubernetes", "kubeconfig": str(kubeconfig)},
        "store": {"url": f"sqlite:///{folder / 'ebbtide.db'}"},
        "cloud": {"kind": "aws"},
        "aws": {"region": REGION, "endpoint": launches.url, "image": image},
        "pools": [{"name": "general", "types": [TYPE], "zones": list(ZONES)}],
    }
    path = folder / "ebbtide.yaml"
    path.write_text(yaml.safe_dump(document))
    return path


@contextmanager
def _daemon(config: Path, log: Path) -> Iterator[subprocess.Popen[bytes]]:
    command = [sys.executable, "-m", "ebbtide", "run", "-c", str(config)]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, env={**os.environ, **CREDENTIALS})
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _cpu_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")
