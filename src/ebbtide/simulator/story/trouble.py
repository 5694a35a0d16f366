"""What is wrong with the outside just now, as events of a story set it, and the ports that show it.

A port that is out of order does nothing and says so: such a call was definitely not carried out.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from ebbtide.core.consolidation import game_servers
from ebbtide.errors import Final, Retryable
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.node import Instance
from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import ClusterView, Reading
from ebbtide.model.workload import Workload, WorkloadRef
from ebbtide.ports import Cloud, Cluster, Metrics, Signals, Workloads
from ebbtide.simulator.faults.calls import FaultPlan, Strike
from ebbtide.simulator.world.world import World

EFFECTS = ("cluster.", "cloud.", "workloads.")
WRITES = ("store.write", "policies.write_state", "policies.write_states", "policies.put_policy")


@dataclass(slots=True)
class Trouble:
    gone: set[str] = field(default_factory=set)
    """Of `metrics`, `api_server` and `cloud`."""
    refuses_terminate: bool = False
    crash: str = ""
    """What the runner dies after next: `next-effect` or `next-write`."""


class Crashes:
    """The plan of a story's runners: it strikes once when an event asks for it, and else as another plan
    does."""

    def __init__(self, trouble: Trouble, otherwise: FaultPlan) -> None:
        self._trouble = trouble
        self._otherwise = otherwise
        self.stalled, self.delay = otherwise.stalled, otherwise.delay
        self.land, self.pick = otherwise.land, otherwise.pick
        self.distort = otherwise.distort

    def strike(self, verb: str) -> Strike:
        wanted = self._trouble.crash
        due = verb.startswith(EFFECTS) if wanted == "next-effect" else wanted and verb in WRITES
        if not due:
            return self._otherwise.strike(verb)
        self._trouble.crash = ""
        return Strike.CRASH_AFTER


class _Door:
    def __init__(self, world: World, trouble: Trouble) -> None:
        self._world = world
        self._trouble = trouble

    def _open(self, part: str, says: str) -> None:
        if part in self._trouble.gone:
            self._world.disturbances += 1
            raise Retryable(f"{says} does not answer")


class StoryCluster(_Door):
    def __init__(self, inner: Cluster, world: World, trouble: Trouble) -> None:
        super().__init__(world, trouble)
        self._inner = inner

    def _check(self) -> None:
        self._open("api_server", "the API server")

    def read(self) -> ClusterView:
        self._check()
        return self._inner.read()

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        self._check()
        return self._inner.read_pods_on(node_name)

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        self._check()
        self._inner.soft_taint(effect, token)

    def cordon(self, effect: Cordon, token: int) -> None:
        self._check()
        self._inner.cordon(effect, token)

    def uncordon(self, effect: Uncordon, token: int) -> None:
        self._check()
        self._inner.uncordon(effect, token)

    def evict(self, effect: Evict) -> None:
        self._check()
        self._inner.evict(effect)

    def delete_node(self, effect: DeleteNode) -> None:
        self._check()
        self._inner.delete_node(effect)


class StoryCloud(_Door):
    def __init__(self, inner: Cloud, world: World, trouble: Trouble) -> None:
        super().__init__(world, trouble)
        self._inner = inner

    def launch(self, effect: Launch) -> Instance:
        self._open("cloud", "the cloud")
        return self._inner.launch(effect)

    def terminate(self, instance_id: str) -> None:
        self._open("cloud", "the cloud")
        if self._trouble.refuses_terminate:
            self._world.disturbances += 1
            raise Final(f"the cloud refused to terminate {instance_id}: it is not permitted")
        self._inner.terminate(instance_id)

    def list_instances(self) -> Sequence[Instance]:
        self._open("cloud", "the cloud")
        return self._inner.list_instances()


class StoryWorkloads(_Door):
    """`scaled` is told of every scaling just before it is carried out."""

    def __init__(
        self, inner: Workloads, world: World, trouble: Trouble, scaled: Callable[[Workload, int, str], None]
    ) -> None:
        super().__init__(world, trouble)
        self._inner = inner
        self._scaled = scaled

    def read(self, ref: WorkloadRef) -> Workload:
        self._open("api_server", "the API server")
        return self._inner.read(ref)

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        self._open("api_server", "the API server")
        after = self._inner.scale(seen, replicas, note)
        self._scaled(seen, replicas, note)
        return after

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        self._open("api_server", "the API server")
        return self._inner.wait_ready(ref, until)


class StoryMetrics(_Door):
    def __init__(self, inner: Metrics, world: World, trouble: Trouble) -> None:
        super().__init__(world, trouble)
        self._inner = inner

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        if "metrics" in self._trouble.gone:
            return Reading(problem="CPU is unknown: no sample, the metrics server does not answer")
        return self._inner.read_cpu(node_names)


class StorySignals(_Door):
    def __init__(self, inner: Signals, world: World, trouble: Trouble) -> None:
        super().__init__(world, trouble)
        self._inner = inner

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        if "metrics" in self._trouble.gone:
            return [Reading(problem="the metrics server does not answer") for _ in queries]
        return self._inner.read_values(queries)


class StoryPlayers(_Door):
    """Who plays on what, for `consolidation.players_query`: what the pods say of themselves."""

    def read_players(self, query: str) -> Mapping[str, int] | None:  # noqa: ARG002 - there is one answer
        if "metrics" in self._trouble.gone:
            return None
        found = {}
        for pod in self._world.inventory.pods.values():
            noted = dict(pod.annotations).get(game_servers.PLAYERS, "")
            if noted.isdecimal():
                found[pod.full_name] = int(noted)
        return found
