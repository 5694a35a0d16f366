"""In a daemon a pod that no node takes starts a tick, and that tick lists nothing that the watches know."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from itertools import count

from ebbtide.adapters.kube.cluster import KubeCluster
from ebbtide.adapters.kube.connection import Connection
from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.bootstrap import SystemClock
from ebbtide.engine.loop import run_loop
from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import TickReport
from ebbtide.model.decision import Action
from ebbtide.model.settings import Settings
from tests.builders import make_pool, make_type
from tests.integration.kube.answering import Answer, api_server, page
from tests.integration.kube.objects import Json, bare_pod
from tests.integration.kube.still import Willing

NODES = ["n1", "n2"]
HEARTBEAT_SECONDS = 3600.0
"""So no tick but the first comes by itself."""


class Server:
    """Two nodes, and a pod that the watch shows once the test asks for it. Counts every request."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.pod_comes = threading.Event()
        self._told, self._ends = threading.Event(), threading.Event()

    def answer(self, path: str, query: dict[str, str]) -> Answer:
        if "watch" not in query:
            self.asked.append(path)
            return 200, page(NODES if path.endswith("/nodes") else [])
        if path.endswith("/pods") and not self._told.is_set():
            self.pod_comes.wait(60)
            self._told.set()
            return 200, json.dumps({"type": "ADDED", "object": unschedulable_pod()}) + "\n"
        self._ends.wait(0.1)
        return 200, ""


def unschedulable_pod() -> Json:
    made = bare_pod("p1", cpu="6", memory="1Gi")
    made["metadata"] |= {"namespace": "default", "uid": "u1", "resourceVersion": "30"}
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}
    made["status"] = {"phase": "Pending", "conditions": [condition]}
    return made


def run(connection: Connection, cloud: Willing, after_first: Callable[[], None]) -> list[TickReport]:
    """What the first two ticks of a daemon say."""
    stop, reports, numbers = threading.Event(), list[TickReport](), count()
    cluster = KubeCluster(connection, watching=True)

    def on_report(report: TickReport) -> None:
        reports.append(report)
        if len(reports) == 1:
            after_first()
        else:
            stop.set()

    clock = SystemClock()
    ports = Ports(
        store=MemoryStore(clock),
        cluster=cluster,
        cloud=cloud,
        metrics=cloud,
        inbox=cloud,
        notifier=cloud,
        clock=clock,
        new_id=lambda: f"id-{next(numbers):04d}",
        urgencies=cluster.urgencies,
        arrived_at=cluster.arrived_at,
    )
    pool = make_pool("general", types=(make_type("big", cpu_milli=8000, memory_mib=16000),), zones=("a",))
    settings = Settings(pools=(pool,), min_workers=2, max_workers=9, pending_up_seconds=0)
    run_loop(ports, settings, "daemon", HEARTBEAT_SECONDS, stop, on_report)
    cluster.close()
    return reports


def test_a_tick_that_an_event_started_lists_nothing_that_the_watches_know() -> None:
    server, cloud = Server(), Willing(NODES)
    before: list[str] = []

    def after_first() -> None:
        before.extend(server.asked)
        server.asked.clear()
        server.pod_comes.set()

    with api_server(server.answer, seconds=70) as connection:
        first, second = run(connection, cloud, after_first)
    assert first.decision is not None
    assert first.decision.action is Action.NOTHING
    assert sorted(before) == sorted(
        [
            "/api/v1/nodes",
            "/api/v1/persistentvolumeclaims",
            "/api/v1/persistentvolumes",
            "/api/v1/pods",
            "/apis/policy/v1/poddisruptionbudgets",
        ]
    ), "each kind is listed once, before it is watched"
    assert second.decision is not None
    assert "1 pod has been pending" in second.decision.reason
    assert len(cloud.list_instances()) == len(NODES) + 1, "the tick launched for it"
    assert server.asked == [], "everything that this tick saw of the cluster came from the watches"
