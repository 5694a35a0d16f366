"""Sees what arrives at EC2, at the API server and in the store, past the network, and says what must not be.

It does not know what a runner was shown or meant: a termination is judged by the pods that the API
server has on that node at this moment, and by the log as the database holds it.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Sequence
from typing import Any

from ebbtide.model.log import LogKind
from ebbtide.model.operation import RemovalState
from ebbtide.model.record import Record
from ebbtide.ports import Store
from tests.chaos_real.fleet import POOL_TAG, Fleet
from tests.chaos_real.reading import Json, counts, name_of, pods_on, ready, seconds
from tests.chaos_real.setting import GATE_ADDRESS, MAX_WORKERS, MIN_WORKERS, SLEEPER
from tests.servers.kube_api import Api

INTENT = RemovalState.TERMINATING
"""Of a removal and of a launch that is reclaimed alike: before it, either can still be taken back."""
WATCH_SECONDS = 20
LOOK_SECONDS = 0.5
"""Between two looks at the record."""
LATE_SECONDS = 1.0
"""The API server tells times in whole seconds."""
UNSEEN_LOSS_SECONDS = 15
"""A machine lost this shortly before the intent cannot have been known to the runner that wrote it."""
FOREIGN_NODES = ("server", "somebody-elses")


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
        self._silent_at: list[float] = []
        self._looked_at = 0.0
        self._lag = 0.0
        """The longest that a look came late: what keeps this thread waiting keeps the runners waiting too."""
        self._ended: set[str] = set()
        self._launched: set[str] = set()
        self.asleep = False
        self.sleeps = 0
        self.violations: list[str] = []
        self.changes = 0
        """Of Node objects, as they were seen."""
        self.removals = 0
        self.excused = 0
        """Terminations that left too few ready workers, right after some were lost or fell silent, and of
        machines that joined after the intent and got pods: no cloud can terminate on a condition."""

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

    def silent(self) -> None:
        """A kubelet says no more: its node is not ready from now on."""
        self._silent_at.append(time.time())

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
            node = nodes.get(machine.node_name)
            # Asked for before anything is noted: a server that does not answer ends this call without the
            # termination, and the next call of the runner is judged as the first.
            intended_at = self._intent(machine.node_name, instance_id)
            pods = pods_on(self._api, machine.node_name) if node is not None else []
            self._ended.add(instance_id)
            if intended_at is None:
                self.say(f"{instance_id} was terminated without an intent in the log")
            if node is None:
                continue
            self.removals += 1
            self._judge_pods(instance_id, node, intended_at, [pod for pod in pods if counts(pod, node)])
            staying = [
                other.id
                for other in machines.values()
                if other.alive and other.id not in self._ended and ready(nodes.get(other.node_name))
            ]
            if ready(node) and len(staying) < MIN_WORKERS:
                self._too_few(instance_id, len(staying), intended_at or 0)

    def _judge_pods(self, instance_id: str, node: Json, intended_at: float | None, pods: list[Any]) -> None:
        joined_at = seconds(node["metadata"].get("creationTimestamp"))
        if pods and intended_at is not None and joined_at is not None and joined_at >= intended_at:
            self.excused += 1
            return
        for pod in pods:
            self.say(f"{instance_id} was terminated with {name_of(pod)} on its node")

    def _too_few(self, instance_id: str, staying: int, intended_at: float) -> None:
        unseen_since = intended_at - UNSEEN_LOSS_SECONDS - self._lag
        if any(at >= unseen_since for at in (*self._lost_at, *self._silent_at)):
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
            if entry.data.get("after") == INTENT
        ]
        return min(found, default=None)

    def watch_record(self) -> None:
        now = time.monotonic()
        if self._looked_at:
            self._lag = max(self._lag, now - self._looked_at - LOOK_SECONDS)
        self._looked_at = now
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

    def _saw(self, kind: str, node: Json) -> None:
        self.changes += 1
        name = node["metadata"]["name"]
        cordoned = bool(node["spec"].get("unschedulable"))
        before, self._cordoned[name] = self._cordoned.get(name, False), cordoned
        if name in FOREIGN_NODES and (kind == "DELETED" or not cordoned):
            self.say(
                f"node {name}, which is not ours, was {'deleted' if kind == 'DELETED' else 'uncordoned'}"
            )
        if kind == "MODIFIED" and before and not cordoned and self._uncordoned_late(node):
            self.say(f"node {name} was uncordoned after the intent to terminate it")

    def _uncordoned_late(self, node: Json) -> bool:
        """By the time of the change: this event may be read long after it, and after an intent that came
        after the node had been given back and chosen again."""
        intended_at = self._intent(node["metadata"]["name"])
        if intended_at is None:
            return False
        written = node["metadata"].get("managedFields", ())
        times = [seconds(each.get("time")) for each in written if each.get("subresource") != "status"]
        changed_at = max((at for at in times if at is not None), default=None)
        return changed_at is None or changed_at + LATE_SECONDS >= intended_at

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
        workers = sum(1 for item in nodes if ready(item))
        if not MIN_WORKERS <= workers <= MAX_WORKERS:
            found.append(f"{workers} ready workers")
        sleeper = self._api.get(f"/apis/apps/v1/namespaces/default/deployments/{SLEEPER}")
        if sleeper["status"].get("readyReplicas", 0) < 1 or self._gated():
            found.append(f"{SLEEPER}, which is in use, is not up, or its Service still leads to the gates")
        waiting = [pod for pod in self._api.items("/api/v1/pods") if not pod["spec"].get("nodeName")]
        found += [f"{name_of(pod)} waits" for pod in waiting]
        if self._fleet.foreign_alive() != self._fleet.foreign:
            found.append("an instance of somebody else is gone")
        return found
