"""Sees what arrives at EC2, at the API server and in the store, past the network, and says what must not be.

It knows nothing of what a runner was shown or meant: a termination is judged by the pods that the API
server has on that node at this moment, and by the log as the database holds it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import urllib3
from botocore.exceptions import BotoCoreError, ClientError

from ebbtide.errors import EbbtideError
from ebbtide.model.log import LogKind
from ebbtide.model.operation import RemovalState, SlotState
from ebbtide.model.record import Record
from ebbtide.ports import Store
from tests.chaos_real.fleet import POOL_TAG, Fleet
from tests.chaos_real.machines import pods_on
from tests.chaos_real.setting import GATE_ADDRESS, MAX_WORKERS, MIN_WORKERS, SLEEPER
from tests.servers.kube_api import Api, ApiRefused

INTENTS = (RemovalState.TERMINATING, SlotState.RECLAIMING)
WATCH_SECONDS = 20
UNSEEN_LOSS_SECONDS = 15
"""A machine lost this shortly before the intent cannot have been known to whoever wrote it."""
PATIENCE = 30
FOREIGN_NODES = ("server", "somebody-elses")
BUSY = (urllib3.exceptions.HTTPError, OSError, ApiRefused, EbbtideError, BotoCoreError, ClientError)
"""Servers that do not answer just now. Anything else ends the thread that looks, which is a violation."""


class Witness:
    def __init__(self, api: Api, fleet: Fleet, store: Store) -> None:
        self._api = api
        self._fleet = fleet
        self._store = store
        self._lock = threading.Lock()
        self._newest = Record()
        self._cordoned: dict[str, bool] = {}
        self._version = ""
        self._lost_at: list[float] = []
        self._ended: set[str] = set()
        self._launched: set[str] = set()
        self.asleep = False
        self.sleeps = 0
        self.violations: list[str] = []
        self.changes = 0
        """Of Node objects, as they were seen."""
        self.removals = 0
        self.excused = 0
        """Terminations that left too few ready workers, right after some were lost."""

    @property
    def launches(self) -> int:
        return len(self._launched)

    @property
    def losses(self) -> int:
        return len(self._lost_at)

    def say(self, violation: str) -> None:
        with self._lock:
            self.violations.append(f"{time.strftime('%H:%M:%S')} {violation}")

    def lost(self) -> None:
        self._lost_at.append(time.time())

    def launched(self) -> None:
        machines = self._fleet.machines()
        self._launched.update(machine.id for machine in machines)
        alive = sum(1 for machine in machines if machine.alive)
        if alive > MAX_WORKERS:
            self.say(f"{alive} instances, max_workers is {MAX_WORKERS}")

    def terminating(self, instance_ids: Sequence[str]) -> None:
        machines = {machine.id: machine for machine in self._fleet.machines()}
        nodes = {item["metadata"]["name"]: item for item in self._api.items("/api/v1/nodes")}
        for instance_id in instance_ids:
            machine = machines.get(instance_id)
            if machine is None and instance_id not in self._fleet.forgotten:
                self.say(f"{instance_id}, which is not of the cluster, was to be terminated")
            if machine is None or not machine.alive or instance_id in self._ended:
                continue
            self._ended.add(instance_id)
            intended_at = self._intent(machine.node_name, instance_id)
            if intended_at is None:
                self.say(f"{instance_id} was terminated without an intent in the log")
            node = nodes.get(machine.node_name)
            if node is None:
                continue
            self.removals += 1
            for pod in pods_on(self._api, machine.node_name):
                if _counts(pod):
                    self.say(f"{instance_id} was terminated with {_name(pod)} on its node")
            staying = [
                other.id
                for other in machines.values()
                if other.alive and other.id not in self._ended and _ready(nodes.get(other.node_name))
            ]
            if _ready(node) and len(staying) < MIN_WORKERS:
                self._too_few(instance_id, len(staying), intended_at or 0)

    def _too_few(self, instance_id: str, staying: int, intended_at: float) -> None:
        if any(at >= intended_at - UNSEEN_LOSS_SECONDS for at in self._lost_at):
            self.excused += 1
            return
        self.say(f"removing {instance_id} left {staying} ready workers, min_workers is {MIN_WORKERS}")

    def _intent(self, *names: str) -> float | None:
        """When the log first said so."""
        kinds = (LogKind.TRANSITION, LogKind.DRAIN_RESULT)
        found = [
            entry.at
            for name in names
            for entry in self._store.read_log(kinds, subject=name, limit=200, brief=True)
            if entry.data.get("after") in INTENTS
        ]
        return min(found, default=None)

    def watch_record(self) -> None:
        record = self._store.load()
        before, self._newest = self._newest, record
        if record.lock_token < before.lock_token:
            self.say(f"the token went from {before.lock_token} back to {record.lock_token}")
        if record.rev < before.rev:
            self.say(f"the record went from revision {before.rev} back to {record.rev}")
        if record.set_aside is not None and before.set_aside is None:
            self.say(f"an operation was set aside: {record.set_aside.id}")

    def watch_sleeper(self) -> None:
        """A Service must lead somewhere at any time: to pods, to the gates, or to both."""
        scaled = self._api.get(f"/apis/apps/v1/namespaces/default/deployments/{SLEEPER}")
        asleep = not scaled["spec"]["replicas"]
        self.sleeps += asleep and not self.asleep
        self.asleep = asleep
        pods = scaled["status"].get("readyReplicas", 0)
        if asleep and not pods and not self._gated():
            again = self._api.get(f"/apis/apps/v1/namespaces/default/deployments/{SLEEPER}")
            if not again["spec"]["replicas"] and not self._gated():
                self.say(f"Service {SLEEPER} leads nowhere while its pods sleep")

    def _gated(self) -> bool:
        slices = self._api.items("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices")
        return any(
            GATE_ADDRESS in endpoint["addresses"]
            for each in slices
            for endpoint in each.get("endpoints") or ()
        )

    def watch_nodes(self) -> None:
        """Every change of every node, in order, for a while; then the call ends and is made again."""
        if not self._version:
            listed = self._api.get("/api/v1/nodes")
            self._version = listed["metadata"]["resourceVersion"]
            for item in listed["items"]:
                self._cordoned[item["metadata"]["name"]] = bool(item["spec"].get("unschedulable"))
        for event in self._api.follow("/api/v1/nodes", self._version, WATCH_SECONDS):
            if event["type"] == "ERROR":
                self._version = ""
                return
            self._version = event["object"]["metadata"]["resourceVersion"]
            self._saw(event["type"], event["object"])

    def _saw(self, kind: str, node: Mapping[str, Any]) -> None:
        self.changes += 1
        name = node["metadata"]["name"]
        cordoned = bool(node["spec"].get("unschedulable"))
        before, self._cordoned[name] = self._cordoned.get(name, False), cordoned
        if name in FOREIGN_NODES and (kind == "DELETED" or not cordoned):
            self.say(
                f"node {name}, which is not ours, was {'deleted' if kind == 'DELETED' else 'uncordoned'}"
            )
        if kind == "MODIFIED" and before and not cordoned and self._intent(name) is not None:
            self.say(f"node {name} was uncordoned after the intent to terminate it")

    def unsettled(self, record: Record) -> list[str]:
        """What is not yet as it must be once nothing is disturbed any more."""
        found = []
        if record.operation is not None:
            found.append(f"operation {record.operation.id} is open")
        found += [f"{spot.id} is open" for spot in record.spots]
        machines = {machine.node_name: machine for machine in self._fleet.machines() if machine.alive}
        nodes = [item for item in self._api.items("/api/v1/nodes") if POOL_TAG in item["metadata"]["labels"]]
        names = {item["metadata"]["name"] for item in nodes}
        found += [f"instance {machines[name].id} has no node" for name in machines.keys() - names]
        found += [f"node {name} has no instance" for name in names - machines.keys()]
        for item in nodes:
            if item["spec"].get("unschedulable") or "ebbtide.dev/cordoned-by" in item["metadata"].get(
                "annotations", {}
            ):
                found.append(f"node {item['metadata']['name']} is still cordoned or marked")
        ready = sum(1 for item in nodes if _ready(item))
        if not MIN_WORKERS <= ready <= MAX_WORKERS:
            found.append(f"{ready} ready workers")
        sleeper = self._api.get(f"/apis/apps/v1/namespaces/default/deployments/{SLEEPER}")
        if sleeper["status"].get("readyReplicas", 0) < 1 or self._gated():
            found.append(f"{SLEEPER}, which is in use, is not up, or its Service still leads to the gates")
        waiting = [pod for pod in self._api.items("/api/v1/pods") if not pod["spec"].get("nodeName")]
        found += [f"{_name(pod)} waits" for pod in waiting]
        if self._fleet.foreign_alive() != self._fleet.foreign:
            found.append("an instance of somebody else is gone")
        return found


def repeatedly(look: Callable[[], None], seconds: float, stop: threading.Event) -> threading.Thread:
    """A thread that looks again and again; a server that does not answer just then is asked again."""

    def run() -> None:
        while not stop.wait(seconds):
            try:
                look()
            except BUSY:
                continue

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread


def patiently(act: Callable[[], None]) -> None:
    """Once it succeeds: on a busy machine a server may take longer than its caller waits."""
    for _ in range(PATIENCE):
        try:
            return act()
        except BUSY:
            time.sleep(1)
    return act()


def _counts(pod: Mapping[str, Any]) -> bool:
    """Whether the pod is lost with its node: neither a DaemonSet's, nor a mirror, nor finished."""
    owners = {owner["kind"] for owner in pod["metadata"].get("ownerReferences", ())}
    mirror = "kubernetes.io/config.mirror" in pod["metadata"].get("annotations", {})
    finished = pod["status"].get("phase") in ("Succeeded", "Failed")
    return "DaemonSet" not in owners and not mirror and not finished


def _ready(node: Mapping[str, Any] | None) -> bool:
    conditions = node["status"].get("conditions", ()) if node is not None else ()
    return any(each["type"] == "Ready" and each["status"] == "True" for each in conditions)


def _name(pod: Mapping[str, Any]) -> str:
    return f"{pod['metadata']['namespace']}/{pod['metadata']['name']}"
