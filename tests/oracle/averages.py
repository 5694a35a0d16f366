"""CPU averages compared: the real observation and the real Prometheus client, asking a server that answers
as drawn."""

from __future__ import annotations

import atexit
import json
from contextlib import ExitStack
from dataclasses import dataclass, replace
from functools import cache

from ebbtide.adapters.prometheus import PrometheusMetrics, PrometheusSource
from ebbtide.engine.ports import observe
from ebbtide.model.snapshot import ClusterView
from ebbtide.simulator.run.runner import ports_of, stage_of
from ebbtide.simulator.world.rules import Rules
from ebbtide.simulator.world.world import World
from tests.builders import NOW
from tests.oracle import drawing, load
from tests.oracle.clusters import PLAIN, Drawn, clusters
from tests.oracle.suite import Report
from tests.servers.prometheus import http_server

CPUS = 2
OLD_SECONDS = 181
SAMPLES = (0.0, 0.1, 0.5, 0.95, 0.95, 1.0, None, None, "old", "NaN")


@dataclass(frozen=True, slots=True)
class Scraped:
    cluster: Drawn
    samples: tuple[float | str | None, ...]
    """Of each node: its busy share, none, one that is old, or no number."""


def cases(source: drawing.Source) -> Scraped:
    cluster = clusters(source, PLAIN, 0)
    count = len(cluster.nodes)
    some = source.pick((SAMPLES[:6], SAMPLES))
    return Scraped(cluster, tuple(source.picks(some, count, count)))


@dataclass(frozen=True, slots=True)
class Shown:
    view: ClusterView

    def read(self) -> ClusterView:
        return self.view


class Server:
    """One that lives as long as this process: to stop it after each case would take most of the time."""

    def __init__(self) -> None:
        self.answer = ""
        self._open = ExitStack()
        self.port = self._open.enter_context(http_server(lambda _: (200, self.answer)))
        atexit.register(self._open.close)


@cache
def server() -> Server:
    return Server()


def prometheus(case: Scraped) -> str:
    """Its address; it answers the query for all nodes as the real one does."""
    result = []
    for node, sample in zip(case.cluster.nodes, case.samples, strict=True):
        if sample is None:
            continue
        at = NOW - OLD_SECONDS if sample == "old" else NOW - 5
        busy = 0.5 if sample == "old" else sample
        idle = busy if isinstance(busy, str) else str(CPUS * (1 - busy))
        for part, value in (("idle", idle), ("all", str(CPUS)), ("at", str(at))):
            result.append({"metric": {"ebbtide": part, "node": node.name}, "value": [NOW, value]})
    data = {"resultType": "vector", "result": result}
    server().answer = json.dumps({"status": "success", "data": data})
    return f"http://127.0.0.1:{server().port}"


def compare(case: Scraped, report: Report) -> None:
    report.cases["CPU averages"] += 1
    settings = case.cluster.settings
    ports = ports_of(stage_of(World(Rules(), settings.pools, 1, NOW), settings))
    fresh = {
        node.name: sample
        for node, sample in zip(case.cluster.nodes, case.samples, strict=True)
        if isinstance(sample, float)
    }
    wanted = load.average_cpu(case.cluster.nodes, fresh)
    metrics = PrometheusMetrics(PrometheusSource(prometheus(case)), lambda: NOW)
    view = Shown(ClusterView(case.cluster.nodes, case.cluster.pods))
    snapshot = observe(replace(ports, cluster=view, metrics=metrics), settings)  # type: ignore[arg-type]
    metrics.close()
    value = snapshot.cpu.value
    alike = value is None if wanted.value is None else value is not None and abs(value - wanted.value) < 1e-6
    if not alike:
        report.differs(
            f"{case.samples}: CPU {value} ({snapshot.cpu.problem}), the oracle says {wanted.value}"
        )
    if wanted.answer == "unknown":
        lacking = [n.name for n in case.cluster.nodes if n.ready and n.pool and n.name not in fresh]
        if not any(name in snapshot.cpu.problem for name in lacking):
            report.differs(f"which workers lack a sample is not said: {snapshot.cpu.problem}")
