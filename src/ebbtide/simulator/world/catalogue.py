"""What simulated clusters are made of: node types with prices, pools, and everyday workloads."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

from ebbtide.core.prices import HETZNER
from ebbtide.model.node import Market
from ebbtide.model.pool import NodeType, Pool
from ebbtide.model.resources import Resources
from ebbtide.model.scheduling import Scheduling, Toleration
from ebbtide.simulator.world.rules import BudgetSpec, Kind, WorkloadSpec, pod_template
from ebbtide.simulator.world.workload import ONE_POD, Demand
from ebbtide.simulator.world.world import CONTROL_PLANE_LABELS, World

CURRENCY = "EUR"
ZONES = ("a", "b", "c")
SPOT_SHARE = Decimal("0.4")
"""What a spot node costs of the listed price, in this cloud."""

EVERYWHERE = Scheduling(tolerations=(Toleration(exists=True),))
CONTROL_PLANE_ONLY = replace(EVERYWHERE, node_selector=CONTROL_PLANE_LABELS)


def node_type(name: str) -> NodeType:
    """Of what the machine has, the system keeps 200m CPU and 700 MiB for itself."""
    listed = HETZNER[name]
    offered = listed.allocatable
    return replace(
        listed,
        allocatable=Resources(offered.cpu_milli - 200, offered.memory_mib - 700),
        spot_price=listed.price and replace(listed.price, per_hour=listed.price.per_hour * SPOT_SHARE),
    )


def pool(name: str, types: tuple[str, ...] = ("cpx32",), market: Market = Market.ON_DEMAND) -> Pool:
    return Pool(name, tuple(node_type(one) for one in types), ZONES, market)


def add_system(world: World, zones: tuple[str, ...] = ZONES) -> None:
    """A control plane with CoreDNS and its static pods, a node of somebody else, and what runs on
    every node."""
    world.add_control_plane(zones[0])
    world.add_foreign_node(zones[1])
    system = "kube-system"
    static = pod_template("apiserver", 250, 512, system)
    world.add_workload(WorkloadSpec(replace(static, scheduling=CONTROL_PLANE_ONLY), Kind.STATIC))
    dns = replace(pod_template("coredns", 100, 70, system), scheduling=CONTROL_PLANE_ONLY)
    dns = replace(dns, priority_class="system-cluster-critical")
    world.add_workload(WorkloadSpec(dns, demand=Demand(low=2)))
    proxy = replace(pod_template("proxy", 20, 32, system), scheduling=EVERYWHERE)
    world.add_workload(WorkloadSpec(proxy, Kind.STATIC))
    exporter = replace(pod_template("node-exporter", 50, 64, "monitoring"), scheduling=EVERYWHERE)
    world.add_workload(WorkloadSpec(exporter, Kind.DAEMON_SET))


def deployment(
    name: str, cpu_milli: int, memory_mib: int, demand: Demand = ONE_POD, use_fraction: float = 0.6
) -> WorkloadSpec:
    return WorkloadSpec(pod_template(name, cpu_milli, memory_mib), demand=demand, use_fraction=use_fraction)


def database(name: str, replicas: int) -> tuple[WorkloadSpec, BudgetSpec]:
    """A StatefulSet with a volume for each pod, of which one may be away at a time."""
    spec = WorkloadSpec(
        pod_template(name, 500, 1024), Kind.STATEFUL_SET, Demand(low=replicas), start_seconds=15, volume=True
    )
    return spec, BudgetSpec(name, spec.key, max_unavailable=1)


def guarded(spec: WorkloadSpec, max_unavailable: int) -> tuple[WorkloadSpec, BudgetSpec]:
    return spec, BudgetSpec(spec.template.name, spec.key, max_unavailable=max_unavailable)
