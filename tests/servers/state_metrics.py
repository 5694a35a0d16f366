"""A played story as kube-state-metrics and cAdvisor would have exported it, and a real Prometheus with it.

    exported = Exported(player, step=60)
    player.run()
    with prometheus_of(exported.text()) as url: ...

The samples are backfilled with promtool: nothing waits for a scrape, and nothing depends on the time of day.
"""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ebbtide.model.pod import Pod, PodPhase
from ebbtide.model.snapshot import Node
from ebbtide.simulator.story.play import Player
from ebbtide.simulator.world.rules import Kind
from tests.servers.control_plane import ensure_debian
from tests.servers.dynamodb import free_port
from tests.servers.processes import running

SPAN = "1000h"
"""Of one block of data: with many of them, promtool reads all samples again for each."""
SLOW_SECONDS = 240
"""How often is sampled what hardly changes: within the five minutes for which a sample counts."""
OWNERS = {
    Kind.DEPLOYMENT: "ReplicaSet",
    Kind.STATEFUL_SET: "StatefulSet",
    Kind.DAEMON_SET: "DaemonSet",
    Kind.JOB: "Job",
}
SUFFIXES = {"ReplicaSet": "-5d8f", "Job": "-29384710"}
"""Of the name of the owner; the number of a Job is the minute for which its CronJob made it."""
PHASES = (PodPhase.PENDING, PodPhase.RUNNING, PodPhase.SUCCEEDED)


class Exported:
    """Looks at the world of a player every `step` seconds, from the moment it is made until it ends."""

    def __init__(self, player: Player, seconds: int, step: int = 60) -> None:
        self._player, self._world = player, player.stage.world
        self._families: dict[str, list[str]] = {}
        self._pending: set[tuple[str, str]] = set()
        self._placed_at: dict[str, float] = {}
        scheduler = self._world.pods.scheduler
        self._bind, scheduler._bind = scheduler._bind, self._bound
        start = int(player.clock.now())
        for at in range(start, start + seconds + 1, step):
            slow = (at - start) % SLOW_SECONDS == 0
            player.clock.plan(at, lambda at=at, slow=slow: self._look(at, slow), late=True)  # type: ignore[misc]

    def text(self) -> str:
        lines = []
        for name in sorted(self._families):
            lines += [f"# TYPE {name} gauge", *self._families[name]]
        return "\n".join([*lines, "# EOF", ""])

    def _bound(self, pod: Pod, node_name: str) -> Pod:
        self._placed_at[pod.uid] = self._world.now
        return self._bind(pod, node_name)

    def _add(self, name: str, at: int, value: float, **labels: str) -> None:
        told = ",".join(f'{key}="{text}"' for key, text in labels.items())
        self._families.setdefault(name, []).append(f"{name}{{{told}}} {value!r} {at}")

    def _look(self, at: int, slow: bool) -> None:
        for key, workload in self._world.pods.book.workloads.items():
            namespace, _, name = key.partition("/")
            kind = workload.spec.kind
            if kind is Kind.DEPLOYMENT:
                self._add(
                    "kube_deployment_spec_replicas", at, workload.wanted, namespace=namespace, deployment=name
                )
            elif kind is Kind.STATEFUL_SET:
                self._add(
                    "kube_statefulset_replicas", at, workload.wanted, namespace=namespace, statefulset=name
                )
            if kind is Kind.DEPLOYMENT and slow:
                owner = {"owner_kind": "Deployment", "owner_name": name}
                self._add(
                    "kube_replicaset_owner", at, 1, namespace=namespace, replicaset=f"{name}-5d8f", **owner
                )
        for node in self._world.inventory.nodes.values():
            self._add("kube_node_created", at, float(node.created_at), node=node.name)
            if slow:
                self._labels(node, at)
            if slow and node.control_plane:
                self._add("kube_node_role", at, 1, node=node.name, role="control-plane")
        self._pods(at, slow)

    def _labels(self, node: Node, at: int) -> None:
        told = {
            "label_ebbtide_dev_pool": node.pool,
            "label_node_kubernetes_io_instance_type": node.instance_type,
            "label_topology_kubernetes_io_zone": node.zone,
            "label_ebbtide_dev_market": str(node.market),
        }
        self._add("kube_node_labels", at, 1, node=node.name, **told)

    def _pods(self, at: int, slow: bool) -> None:
        waiting = {(pod.namespace, pod.name) for pod in self._world.inventory.waiting.values()}
        for namespace, name in sorted(waiting | self._pending):
            self._add(
                "kube_pod_status_scheduled",
                at,
                float((namespace, name) in waiting),
                namespace=namespace,
                pod=name,
                condition="false",
            )
        self._pending = waiting
        self._add(
            "kube_pod_status_scheduled", at, 0, namespace="kube-system", pod="placed", condition="false"
        )
        for pod in self._world.inventory.pods.values():
            # A pod is made within the minute in which it is first seen; its owner is told at once.
            if slow or at - pod.created_at <= SLOW_SECONDS:
                self._pod(pod, at)
            if pod.controller == "Job":
                for phase in PHASES:
                    whose = {"namespace": pod.namespace, "pod": pod.name, "phase": phase.value}
                    self._add("kube_pod_status_phase", at, float(pod.phase is phase), **whose)
        for budget in self._world.controllers.budget_specs if slow else ():
            namespace = budget.workload.partition("/")[0]
            guarded = self._world.pods.book.workloads[budget.workload]
            named = {"namespace": namespace, "poddisruptionbudget": budget.name}
            away = budget.allowed(guarded.wanted, guarded.wanted)
            self._add("kube_poddisruptionbudget_status_expected_pods", at, guarded.wanted, **named)
            self._add("kube_poddisruptionbudget_status_desired_healthy", at, guarded.wanted - away, **named)

    def _pod(self, pod: Pod, at: int) -> None:
        workload = self._world.pods.workload_of(pod.uid)
        kind, name = OWNERS.get(workload.spec.kind), workload.spec.template.name
        if kind is None:
            return
        owner = f"{name}{SUFFIXES.get(kind, '')}"
        whose = {"namespace": pod.namespace, "pod": pod.name}
        self._add("kube_pod_created", at, float(pod.created_at), **whose, uid=pod.uid)
        if pod.uid in self._placed_at:
            placed = self._placed_at[pod.uid]
            self._add("kube_pod_status_scheduled_time", at, placed, **whose, uid=pod.uid)
            used = pod.requests.cpu_milli / 1000 * workload.spec.use_fraction * (at - placed)
            self._add("container_cpu_usage_seconds_total", at, used, **whose, container="main")
        self._add("kube_pod_owner", at, 1, **whose, owner_kind=kind, owner_name=owner)
        for resource, amount in (
            ("cpu", pod.requests.cpu_milli / 1000),
            ("memory", float(pod.requests.memory_mib * 2**20)),
        ):
            self._add(
                "kube_pod_container_resource_requests",
                at,
                amount,
                **whose,
                container="main",
                resource=resource,
            )


@contextmanager
def prometheus_of(text: str) -> Iterator[str]:
    """The address of a Prometheus that has these samples, in the OpenMetrics format."""
    binary, tool = (ensure_debian(name, "prometheus") for name in ("prometheus", "promtool"))
    folder = Path(tempfile.mkdtemp(prefix="ebb-past-"))
    try:
        (folder / "samples.txt").write_text(text)
        (folder / "prometheus.yml").write_text("scrape_configs: []\n")
        span = f"--max-block-duration={SPAN}"
        command = [tool, "tsdb", "create-blocks-from", "openmetrics", span, "samples.txt", "data"]
        subprocess.run(command, cwd=folder, check=True, capture_output=True)
        url = f"http://127.0.0.1:{free_port()}"
        serve = [
            binary,
            f"--config.file={folder / 'prometheus.yml'}",
            f"--storage.tsdb.path={folder / 'data'}",
            "--storage.tsdb.retention.time=100y",
            f"--web.listen-address={url.removeprefix('http://')}",
            "--log.level=warn",
        ]

        def ready() -> bool:
            try:
                with urllib.request.urlopen(f"{url}/-/ready", timeout=2) as answer:
                    return bool(answer.status == 200)
            except (OSError, urllib.error.HTTPError):
                return False

        with running(serve, folder / "prometheus.log", ready):
            yield url
    finally:
        shutil.rmtree(folder, ignore_errors=True)
