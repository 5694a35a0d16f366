"""Clusters for the comparison, drawn from archetypes: each is small, and each says something to some rule."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from ebbtide.model.pod import ANYWHERE, Budget, Pod, PodPhase
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market, Node, Snapshot
from tests.builders import (
    A_DAY_AGO,
    NOW,
    make_budget,
    make_daemon,
    make_instance_of,
    make_node,
    make_pod,
    make_pool,
    make_settings,
    make_snapshot,
    make_type,
)
from tests.oracle.drawing import Source

GAME = "ebbtide.dev/"

NODE_KINDS: tuple[dict[str, Any], ...] = (
    {"unschedulable": True},
    *({},) * 14,
    {"created_at": A_DAY_AGO - 5},
    {"created_at": A_DAY_AGO + 5},
    {"created_at": NOW - 1799},
    {"created_at": NOW - 1800},
    {"ready": False},
    {"pool": ""},
    {"pool": "gpu"},
    {"pool": "gpu"},
    {"control_plane": True},
    {"system": True},
    {"market": Market.SPOT},
)


def server(name: str, plan: str, players: str | None, memory_mib: int = 2048, **words: str) -> Pod:
    """A game server; None for players that nobody knows."""
    said = {f"{GAME}{key}": value for key, value in {"plan": plan, **words}.items()}
    if players is not None:
        said[f"{GAME}players"] = players
    return make_pod(name, 100, memory_mib, controller="StatefulSet", annotations=tuple(sorted(said.items())))


PodKind = Callable[[str], Pod]

PLAIN: tuple[PodKind, ...] = (
    lambda name: make_pod(name, 200, 256),
    lambda name: make_pod(name, 1500, 1024),
    lambda name: make_pod(name, 200, 256, labels=(("app", "web"),)),
)
PASSED_OVER: tuple[PodKind, ...] = (
    lambda name: make_pod(name, phase=PodPhase.SUCCEEDED),
    lambda name: make_pod(name, phase=PodPhase.FAILED, priority_class="system-node-critical"),
    lambda name: make_pod(name, mirror=True, controller="Node", namespace="kube-system"),
    lambda name: make_pod(name, controller="DaemonSet", priority_class="system-node-critical"),
)
SYSTEM: tuple[PodKind, ...] = (
    lambda name: make_pod(name, priority_class="system-node-critical"),
    lambda name: make_pod(name, priority_class="system-cluster-critical"),
    lambda name: make_pod(f"metrics-{name}", namespace="kube-system"),
    lambda name: make_pod(f"coredns-{name}-x1", namespace="kube-system"),
    lambda name: make_pod(
        f"coredns-{name}-x2", namespace="kube-system", priority_class="system-cluster-critical"
    ),
    lambda name: make_pod(f"coredns-of-another-{name}", namespace="kube-system"),
    lambda name: make_pod(f"traefik-{name}", namespace="kube-system"),
)
BUDGETED: tuple[PodKind, ...] = (
    lambda name: make_pod(name, labels=(("app", "db"),)),
    lambda name: make_pod(name, labels=(("app", "db"),), ready=False),
    lambda name: make_pod(name, labels=(("app", "web"), ("tier", "front"))),
    lambda name: make_pod(name, labels=(("app", "web"),)),
    lambda name: make_pod(name, terminating=True),
)
ODD: tuple[PodKind, ...] = (
    lambda name: make_pod(name, controller=""),
    lambda name: make_pod(name, do_not_disrupt=True),
    lambda name: make_pod(name, safe_to_evict=False),
    lambda name: make_pod(name, local_storage=True),
    lambda name: make_pod(name, scheduling=replace(ANYWHERE, unsupported=("a device",))),
)
SERVERS: tuple[PodKind, ...] = (
    lambda name: server(name, "payperplay", "0"),
    lambda name: server(name, "balanced", "0", 4096),
    lambda name: server(name, "payperplay", "0", 1907),
    lambda name: server(name, "payperplay", "0", 1844),
    lambda name: server(name, "payperplay", "0", 1843),
    lambda name: server(name, "payperplay", "0", 3000),
    lambda name: server(name, "payperplay", "0", 7400),
    lambda name: server(name, "payperplay", "3"),
    lambda name: server(name, "balanced", "20"),
    lambda name: server(name, "reserved", "0"),
    lambda name: server(name, "payperplay", None),
    lambda name: server(name, "payperplay", "?"),
    lambda name: server(name, "balanced", "0", status="starting"),
    lambda name: server(name, "balanced", "0", status="stopping"),
    lambda name: server(name, "balanced", "0", status="running"),
    lambda name: server(name, "payperplay", "0", 16384),
    lambda name: server(name, "payperplay", "0", 15000),
    lambda name: server(name, "payperplay", "0", 32768),
    lambda name: server(name, "payperplay", "0", tier="large"),
    lambda name: server(name, "payperplay", "0", tier="custom"),
    lambda name: replace(server(name, "payperplay", "0"), phase=PodPhase.UNKNOWN),
)
GROUPS: tuple[tuple[PodKind, ...], ...] = (
    PLAIN,
    (*PLAIN, *PASSED_OVER),
    (*PLAIN[:1], *SYSTEM),
    (*PLAIN[:1], *BUDGETED),
    (*PLAIN[:1], *ODD),
    SERVERS,
)
PENDING: tuple[PodKind, ...] = (
    lambda name: make_pod(name, 500, 512, phase=PodPhase.PENDING),
    lambda name: make_pod(name, 3500, 512, phase=PodPhase.PENDING),
    lambda name: make_pod(name, 3500, 7000, phase=PodPhase.PENDING, created_at=NOW - 30),
    lambda name: make_pod(name, 90_000, 512, phase=PodPhase.PENDING),
)
BUDGETS: tuple[tuple[Budget, ...], ...] = (
    (),
    (make_budget(1, app="web"), make_budget(0, "db", app="db")),
    (make_budget(0, app="web"), make_budget(1, "db", app="db")),
    (make_budget(2, app="web"), make_budget(0, "db", app="db"), make_budget(1, "front", tier="front")),
)
POOLS = (
    (make_pool(),),
    (make_pool(zones=("a", "b", "c")), make_pool("gpu", max_workers=3)),
    (make_pool(zones=("a", "b", "c"), types=(make_type(), make_type("big", 8000, 16384, "0.09"))),),
    (make_pool(), make_pool("gpu", min_workers=1, max_workers=4)),
    (make_pool(market=Market.SPOT, types=(make_type(spot_price="0.02"),)),),
)


@dataclass(frozen=True, slots=True)
class Drawn:
    nodes: tuple[Node, ...]
    pods: tuple[Pod, ...]
    budgets: tuple[Budget, ...]
    settings: Settings
    players: tuple[tuple[str, int], ...] = ()

    def seen(self, cpu: float | None, at: int = NOW) -> Snapshot:
        whole = make_snapshot(
            self.nodes,
            self.pods,
            budgets=self.budgets,
            instances=[make_instance_of(node) for node in self.nodes if node.pool],
            cpu=cpu,
            at=at,
        )
        return replace(whole, players=self.players)


def twins(source: Source, cluster: Drawn) -> Drawn:
    """The same with equal and empty nodes, so only zone, age or a preference tells them apart."""
    zones = source.pick(("ab", "abc", "aab", "aaabb"))
    each = source.pick((2, 2, 1))
    ages = source.pick(((0,), (0, 5), (0, 5, 9)))
    nodes = tuple(
        make_node(f"{zone}{number}{place}", created_at=A_DAY_AGO + source.pick(ages))
        for number in range(each)
        for place, zone in enumerate(zones)
    )
    settings = replace(
        cluster.settings,
        preferred_zones=source.pick((("a",), ("b", "a"), ("c",))),
        min_workers=min(cluster.settings.min_workers, len(nodes) - 1),
        max_workers=len(nodes) + 1,
    )
    daemons = tuple(make_daemon(node.name) for node in nodes)
    return replace(cluster, nodes=nodes, pods=daemons, settings=settings)


def _pods(kinds: list[int], nodes: tuple[Node, ...], of: tuple[PodKind, ...]) -> list[Pod]:
    """Each number says which kind, and on which node."""
    found = []
    for number, code in enumerate(kinds):
        where, kind = divmod(code, len(of))
        pod = of[kind](f"p{number}")
        found.append(replace(pod, node_name=nodes[where % len(nodes)].name) if nodes else pod)
    return found


def pod_kinds(source: Source) -> tuple[PodKind, ...]:
    """A group, or one kind next to ordinary pods: where many stand in the way, nobody can tell which of them
    did."""
    match source.number(0, 3):
        case 0 | 1:
            return source.pick(GROUPS)
        case 2:
            return PLAIN[0], source.pick(SERVERS)
        case _:
            return PLAIN[0], source.pick((*SYSTEM, *BUDGETED, *ODD))


def clusters(source: Source, kinds: tuple[PodKind, ...], most: int = 8) -> Drawn:
    limits = source.number(0, 5 * 6 * 3 * 3 * 5 * 2 - 1)
    limits, least = divmod(limits, 5)
    limits, spare = divmod(limits, 6)
    limits, up = divmod(limits, 3)
    limits, down = divmod(limits, 3)
    limits, pools = divmod(limits, 5)
    zones = source.picks("aabbc", 0, 9)
    drawn = source.numbers(0, len(NODE_KINDS) - 1, len(zones), len(zones))
    if source.number(0, 9) == 9:
        drawn = drawn[:1] * len(zones)
    nodes = tuple(
        make_node(f"{zone}{number}", **NODE_KINDS[kind])
        for number, (zone, kind) in enumerate(zip(zones, drawn, strict=True))
    )
    configured = {pool.name for pool in POOLS[pools]}
    nodes = tuple(
        node if node.pool in configured or not node.pool else replace(node, pool="workers") for node in nodes
    )
    codes = source.numbers(0, len(kinds) * 9 - 1, 0, most) if nodes else []
    pods = [make_daemon(node.name) for node in nodes] + _pods(codes, nodes, kinds)
    queued = source.pick(((), (), (), (0,), (1,), (2, 1), (3,), (0, 0, 0, 0, 0, 0)))
    pods += [replace(PENDING[kind](f"q{number}"), node_name="") for number, kind in enumerate(queued)]
    settings = make_settings(
        pools=POOLS[pools],
        min_workers=least,
        max_workers=max(1, least, len(nodes) - 1) + spare,
        max_batch_up=up + 1,
        max_batch_down=down + 1,
        movable_system_workloads=() if limits else ("coredns", "traefik-*"),
        preferred_zones=source.pick(((), (), ("a",), ("b", "a"))),
    )
    counted = [pod.full_name for pod in pods if pod.annotations][:1]
    players = tuple((name, source.pick((0, 0, 2, -1))) for name in counted)
    return Drawn(nodes, tuple(pods), source.pick(BUDGETS), settings, players)
