"""What a person can break in a live simulation. Each fault makes its own situation at once, ends by itself,
and says what is being survived."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from ebbtide.core.words import count_of
from ebbtide.model.snapshot import Market, Node
from ebbtide.simulator.run.situation import (
    LiveStep,
    all_run,
    answered,
    draining,
    evicting,
    gone,
    killed,
    launching,
    nodes_ready,
    noticed,
    over,
    pods_pending,
    refused,
    replacing,
    taken_over,
)
from ebbtide.simulator.world.rules import BudgetSpec

if TYPE_CHECKING:
    from ebbtide.simulator.run.live import Live

OUTAGE_SECONDS = 300.0
STUCK_SECONDS = 1500.0
BURST_SECONDS = 1800.0
EVICTIONS_BEFORE_CRASH = 2


@dataclass(frozen=True, slots=True)
class LiveFault:
    id: str
    name: str
    says: str
    explains: str
    strike: Callable[[], str]
    steps: tuple[LiveStep, ...]


def faults_of(live: Live) -> tuple[LiveFault, ...]:
    pods = live.scene.burst_pods
    return (
        LiveFault(
            "burst",
            "Burst",
            f"{pods} pods more, at once",
            "Demand jumps. Ebbtide packs all pending pods on the cheapest nodes that hold them and launches "
            "those in one operation. The operation is in the store before the first call to the cloud, so a "
            "crash cannot launch a node twice.",
            lambda: burst(live),
            (
                LiveStep("The pods do not fit.", pods_pending),
                LiveStep("Nodes are launched.", launching),
                LiveStep("The new nodes are ready.", nodes_ready),
                LiveStep("Every pod runs.", all_run),
            ),
        ),
        LiveFault(
            "spot-loss",
            "Spot loss",
            "the cloud takes all spot nodes back",
            "Spot nodes are cheap because the cloud may take them back with two minutes' notice. Ebbtide "
            "drains each of them before its time is up and launches replacements while they still run.",
            lambda: spot_loss(live),
            (
                LiveStep("The notices arrive.", noticed),
                LiveStep("Pods are asked to leave the nodes.", evicting),
                LiveStep("Replacements are launched.", replacing),
                LiveStep("Every notice is answered.", answered),
                LiveStep("Every pod runs.", all_run),
            ),
        ),
        LiveFault(
            "stuck-drain",
            "Stuck drain",
            "a disruption budget allows no eviction",
            "In the middle of a drain a disruption budget stops allowing evictions. A forced delete would "
            "take the service down. Ebbtide waits, gives up after its drain timeout and puts the node back "
            "into service.",
            lambda: stuck(live),
            (
                LiveStep("A node is to be emptied.", noticed),
                LiveStep("Its drain begins.", draining),
                LiveStep("The budget refuses an eviction.", refused),
                LiveStep("The drain is given up; no pod is forced.", answered),
            ),
        ),
        LiveFault(
            "crash",
            "Crash",
            "a runner is killed in the middle of a drain",
            "The cloud takes a spot node back, and the runner that drains it is killed with SIGKILL "
            "between two evictions. Nothing is lost: what it intended is in the store. The other "
            "runner waits until the lease ends, reads what was intended, and finishes the drain.",
            lambda: crash(live),
            (
                LiveStep("A drain begins.", draining),
                LiveStep("The runner is killed in the middle of it.", killed),
                LiveStep("The other runner takes over.", taken_over),
                LiveStep("The notice is answered.", answered),
                LiveStep("Every pod runs.", all_run),
            ),
        ),
        LiveFault(
            "metrics-gone",
            "Metrics gone",
            "nobody knows the CPU use",
            "The metrics server does not answer. Unknown is not idle: a cluster that looks idle only "
            "because nobody measures it must not shrink. Ebbtide goes by requests and removes nothing on "
            "account of CPU.",
            lambda: outage(live, "metrics"),
            (
                LiveStep("The metrics are gone.", gone("The metrics server stopped answering.")),
                LiveStep("The metrics are back.", over("The metrics are back")),
            ),
        ),
        LiveFault(
            "api-gone",
            "API server gone",
            "the cluster does not answer",
            "The Kubernetes API does not answer. An empty answer would look like a cluster without nodes. "
            "Ebbtide keeps what it knew, shows how old that is, and neither adds nor removes a node until "
            "it can look again.",
            lambda: outage(live, "api"),
            (
                LiveStep("The API server is gone.", gone("The API server stopped answering.")),
                LiveStep("It answers again.", over("The API server answers again")),
                LiveStep("Every pod runs.", all_run),
            ),
        ),
    )


def burst(live: Live) -> str:
    live.stage.world.controllers.set_wanted(live.scene.burst, live.scene.burst_pods)
    live.end_at("burst", BURST_SECONDS)
    return f"{live.scene.burst_pods} pods want a place for half an hour"


def spot_loss(live: Live) -> str:
    world = live.stage.world
    nodes = [node for node in world.inventory.nodes.values() if node.market is Market.SPOT]
    world.plan(world.now, "interrupt-all", "")
    if not nodes:
        return "there is no spot node to take"
    return f"{count_of(len(nodes), 'spot node')} {'has' if len(nodes) == 1 else 'have'} two minutes left"


def stuck(live: Live) -> str:
    """The budget changes at the first eviction: before it, Ebbtide would see that the drain cannot be
    done."""
    node = _busiest_spot(live)
    if node is None:
        _block(live)
        return "no pod of a guarded workload may be evicted for 25 minutes"
    live.mood.before_eviction = lambda: _block(live)
    live.stage.world.plan(live.stage.world.now, "rebalance", _instance(live, node))
    return f"the cloud recommends replacing {node.name}, and a disruption budget will not let its pods go"


def _block(live: Live) -> None:
    controllers = live.stage.world.controllers
    live.budgets_before = live.budgets_before or tuple(controllers.budget_specs)
    guarded = live.scene.guarded
    others = [spec for spec in controllers.budget_specs if spec.workload not in guarded]
    controllers.budget_specs[:] = [*others, *(BudgetSpec("stuck", key, max_unavailable=0) for key in guarded)]
    live.end_at("stuck", STUCK_SECONDS)


def crash(live: Live) -> str:
    node = _busiest_spot(live)
    if node is None:
        live.mood.crash_after = 1
        return f"{live.owner} dies right after its next call to the cluster or the cloud"
    live.mood.crash_after = EVICTIONS_BEFORE_CRASH
    live.mood.crash_verb = "cluster.evict"
    live.stage.world.plan(live.stage.world.now, "interrupt", _instance(live, node))
    return f"the cloud takes {node.name} back, and {live.owner} will be killed while it drains it"


def outage(live: Live, what: str) -> str:
    live.mood.gone.add(what)
    live.end_at(what, OUTAGE_SECONDS)
    said = "the CPU use is unknown" if what == "metrics" else "the API server does not answer"
    return f"{said} for 5 minutes"


def _busiest_spot(live: Live) -> Node | None:
    world = live.stage.world
    guarded = {key.partition("/")[2] for key in live.scene.guarded}

    def guarded_pods(node: Node) -> int:
        return sum(dict(pod.labels).get("app") in guarded for pod in world.pods_on(node.name))

    going = {spot.instance_id for spot in live.ports.store.load().spots}
    nodes = [
        node
        for node in world.inventory.nodes.values()
        if node.market is Market.SPOT and node.ready and _instance(live, node) not in going
    ]
    found = max(nodes, key=lambda node: (guarded_pods(node), node.name), default=None)
    return found if found is not None and guarded_pods(found) >= EVICTIONS_BEFORE_CRASH else None


def _instance(live: Live, node: Node) -> str:
    machines = live.stage.world.machines.book.machines.values()
    return next(
        (one.instance.id for one in machines if one.node.name == node.name and one.instance.alive), ""
    )
