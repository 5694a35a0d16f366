"""What keeps the cluster in motion: demand that comes and goes, and spot machines that are taken back."""

from __future__ import annotations

import json
import random
import time
from collections.abc import Sequence
from typing import Any

from tests.chaos_real.fleet import Fleet, Machine
from tests.chaos_real.setting import (
    CPU_BUSY,
    CPU_CALM,
    GATE_ADDRESS,
    GATES,
    MIN_WORKERS,
    REQUESTS,
    SLEEPER,
)
from tests.chaos_real.witness import Witness
from tests.integration.kube import gatehouse, objects
from tests.servers import aws_events
from tests.servers.kube_api import Api
from tests.servers.moto import MotoServer
from tests.servers.prometheus import Exporters

DEPLOYMENTS = "/apis/apps/v1/namespaces/default/deployments"
LOW, HIGH = (4, 6), (13, 19)
LEAST_SECONDS, MOST_SECONDS = 4.0, 75.0
"""A burst continues until some were launched for it, and the calm after it until most of them are gone."""
GROWN, SHRUNK = MIN_WORKERS + 3, MIN_WORKERS + 1
INTERRUPT_SECONDS = (20.0, 40.0)
ASKED_SECONDS = (15.0, 30.0)
NOTICE_SECONDS = (4.0, 9.0)
TWICE, RECOMMENDED_FIRST = 0.3, 0.3
QUEUE = "spot-notices"
FOREVER = float("inf")


class Weather:
    def __init__(self, api: Api, moto: MotoServer, fleet: Fleet, load: Exporters, seed: int) -> None:
        self._api = api
        self._sqs = moto.client("sqs")
        self._fleet = fleet
        self._load = load
        self._chance = random.Random(f"{seed}-weather")
        self._busy = False
        self._cpu = CPU_CALM
        self._asked = True
        """Whether somebody uses what may sleep."""
        self._asks_at = time.monotonic() + ASKED_SECONDS[0]
        self._turned_at = float("-inf")
        self._interrupts_at = time.monotonic() + 10
        self._told: dict[str, float] = {}
        """Instances that were told when they go."""
        attributes = {"VisibilityTimeout": "5"}
        self.queue: str = self._sqs.create_queue(QueueName=QUEUE, Attributes=attributes)["QueueUrl"]

    def prepare(self) -> None:
        """A control plane, a node of somebody else that a person has cordoned, and workloads."""
        role = {"node-role.kubernetes.io/control-plane": "true"}
        cordoned = {"unschedulable": True}
        self._api.post("/api/v1/nodes", objects.node("server", pool="", labels=role, spec=cordoned))
        self._api.post("/api/v1/nodes", objects.node("somebody-elses", pool="", spec=cordoned))
        pod = objects.bare_pod("coredns", nodeName="server", automountServiceAccountToken=False)
        self._api.post("/api/v1/namespaces/kube-system/pods", pod)
        agent = objects.workload("DaemonSet", "agent", None, objects.template("agent", "50m"))
        self._api.post("/apis/apps/v1/namespaces/kube-system/daemonsets", agent)
        web = objects.workload("Deployment", "web", LOW[0], objects.template("web", "600m", "256Mi"))
        self._api.post(DEPLOYMENTS, web)
        self._api.post(
            "/apis/policy/v1/namespaces/default/poddisruptionbudgets",
            objects.budget("web", maxUnavailable=3),
        )
        sleeper = objects.workload("Deployment", SLEEPER, 2, objects.template(SLEEPER, "100m", "64Mi"))
        self._api.post(DEPLOYMENTS, sleeper)
        self._api.post("/api/v1/namespaces/default/services", gatehouse.service(SLEEPER, {"http": 80}))
        namespace = GATES.partition("/")[0]
        self._api.post(gatehouse.SLICES.format(namespace), gatehouse.members(GATE_ADDRESS))
        database = objects.workload("StatefulSet", "db", 2, objects.template("db", "300m", "256Mi"))
        self._api.post("/apis/apps/v1/namespaces/default/statefulsets", database)
        self._use(CPU_CALM)

    def turn(self, witness: Witness) -> None:
        now, alive = time.monotonic(), [machine for machine in self._fleet.machines() if machine.alive]
        reached = len(alive) >= GROWN if self._busy else len(alive) <= SHRUNK
        if now - self._turned_at > (LEAST_SECONDS if reached else MOST_SECONDS):
            self._busy = not self._busy
            self._demand(HIGH if self._busy else LOW)
            self._use(CPU_BUSY if self._busy else CPU_CALM)
            self._turned_at = now
        if now >= self._interrupts_at and len(alive) >= MIN_WORKERS:
            self._interrupt([machine for machine in alive if machine.spot])
            self._interrupts_at = now + self._chance.uniform(*INTERRUPT_SECONDS)
        if now >= self._asks_at:
            self._asked = not self._asked
            self._asks_at = now + self._chance.uniform(*ASKED_SECONDS)
            self._say()
        self._take(witness, now)

    def doze(self) -> None:
        """Nobody wants anything: what may sleep can sleep, and the cluster can shrink."""
        self._demand(LOW)
        self._asked = False
        self._use(CPU_CALM)

    def settle(self, witness: Witness) -> None:
        """No more bursts and interruptions; who was told that it goes is taken now."""
        self._demand(LOW)
        self._asked = True
        self._use(CPU_CALM)
        self._take(witness, FOREVER)

    def _interrupt(self, machines: Sequence[Machine]) -> None:
        going = [machine for machine in machines if machine.id not in self._told]
        if not going:
            return
        machine = self._chance.choice(going)
        if self._chance.random() < RECOMMENDED_FIRST:
            self._send(aws_events.rebalance(time.time(), machine.id))
        for _ in range(2 if self._chance.random() < TWICE else 1):
            self._send(aws_events.interruption(time.time(), machine.id))
        self._told[machine.id] = time.monotonic() + self._chance.uniform(*NOTICE_SECONDS)

    def _take(self, witness: Witness, now: float) -> None:
        due = [name for name, at in self._told.items() if now >= at]
        if not due:
            return
        alive = {machine.id for machine in self._fleet.machines() if machine.alive}
        for instance_id in due:
            del self._told[instance_id]
            if instance_id in alive:
                witness.lost()
                self._fleet.take(instance_id)

    def _send(self, event: dict[str, Any]) -> None:
        self._sqs.send_message(QueueUrl=self.queue, MessageBody=json.dumps(event))

    def _demand(self, span: tuple[int, int]) -> None:
        replicas = self._chance.randint(*span)
        self._api.patch(f"{DEPLOYMENTS}/web/scale", {"spec": {"replicas": replicas}})

    def _use(self, cpu: float) -> None:
        self._cpu = cpu
        self._say()

    def _say(self) -> None:
        text = f"cluster_cpu_use {self._cpu}\n{REQUESTS} {5 if self._asked else 0}\n"
        self._load.pages["load"] = lambda: (200, text)
