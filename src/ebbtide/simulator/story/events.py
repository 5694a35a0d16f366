"""Events of a story: applied to the world, to the ports, or through the same calls as the API makes.

`Trouble` holds what is broken at the moment, and makes ports that show it. A broken port does nothing and
raises an error: such a call was definitely not carried out.
"""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product

from ebbtide.config import Config
from ebbtide.config.policies import PolicyKeys, keys_of
from ebbtide.core.consolidation import game_servers
from ebbtide.engine.scale_to_zero.policies import Policies, PolicyRefused
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.engine.switch import set_switch
from ebbtide.errors import EbbtideError, Final, OfferRefused, Retryable
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.events import SwitchedBy
from ebbtide.model.idle import WakeReason
from ebbtide.model.pod import Pod, Workload, WorkloadRef
from ebbtide.model.policy import FROM_CONFIGURATION
from ebbtide.model.pool import Pool
from ebbtide.model.snapshot import ClusterView, Instance, Market, Reading
from ebbtide.ports import Cloud, Cluster, Metrics, Signals, Workloads
from ebbtide.simulator.faults.catalogue import FaultPlan, Strike
from ebbtide.simulator.run.runner import Stage, policies_of, store_of
from ebbtide.simulator.story.build import with_players
from ebbtide.simulator.story.event_schemas import ON_NODES, ON_ZONES, CapacityKeys, EventKeys
from ebbtide.simulator.story.recorder import RecordedWorkloads
from ebbtide.simulator.world.machines import Machine
from ebbtide.simulator.world.world import World

EFFECTS = ("cluster.", "cloud.", "workloads.")
WRITES = ("store.write", "policies.write_state", "policies.write_states", "policies.put_policy")


@dataclass(slots=True)
class Trouble:
    gone: set[str] = field(default_factory=set)
    """Of `metrics`, `api_server` and `cloud`."""
    refuses_terminate: bool = False
    refused_types: set[str] = field(default_factory=set)
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
        if effect.slot.instance_type in self._trouble.refused_types:
            raise OfferRefused(f"{effect.slot.instance_type} does not go with the architecture of the image")
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
    """`scaled` is called for every scaling just before it is carried out."""

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


def incident_of(kind: str, zone: str) -> tuple[str, str]:
    """An incident in a zone, as the world plans it."""
    if kind == "spot_storm":
        return "interrupt-all", "" if zone == "all" else zone
    return kind.replace("_", "-"), zone


def offers_of(capacity: CapacityKeys, pools: Collection[Pool]) -> list[str]:
    zones = [capacity.zone] if capacity.zone else sorted({zone for pool in pools for zone in pool.zones})
    named = sorted({one.name for pool in pools for one in pool.types})
    types = [capacity.type] if capacity.type else named
    markets = [Market(capacity.market)] if capacity.market else list(Market)
    return [f"{zone}/{market}/{name}" for zone, market, name in product(zones, markets, types)]


class Happenings:
    def __init__(self, stage: Stage, trouble: Trouble, workloads: RecordedWorkloads, seed: int) -> None:
        self._stage = stage
        self._world = stage.world
        self._trouble = trouble
        self._workloads = workloads
        self._random = random.Random(f"policies/{seed}")
        self._players: dict[str, int | None] = {}
        self.scaling: Callable[[], Scaling] | None = None
        """The scaling of the API's process, with sound ports."""
        self.roll_out: Callable[[Config], None] = lambda _: None
        self.say: Callable[[str], None] = lambda _: None
        """What a person who caused it would be answered."""
        stage.world.pods.dress = self._dressed

    def happen(self, event: EventKeys, config: Config | None) -> None:
        """`config` is what an event of kind settings rolls out."""
        kind, value = event.kind, event.value
        if kind == "settings" and config is not None:
            self.roll_out(config)
        elif kind in ("policy", "wake", "activity", "pause"):
            self._by_api(kind, value)
        elif kind in ("metrics", "api_server", "cloud"):
            (self._trouble.gone.add if value == "gone" else self._trouble.gone.discard)(kind)
        elif kind in ON_NODES:
            self._to_node(kind, value)
        elif kind in ON_ZONES:
            self._world.plan(self._world.now, *incident_of(kind, value))
            self._world.advance_to(self._world.now)
        else:
            self._to_world(kind, event)

    def _to_world(self, kind: str, event: EventKeys) -> None:
        match kind:
            case "cpu":
                self._world.usage.tell(event.cpu)
            case "replicas":
                for name, wanted in event.replicas.items():
                    self._world.controllers.set_wanted(self._workloads.key_of(name), wanted)
            case "players":
                self._play(event.players)
            case "capacity" if event.capacity is not None:
                self._limit(event.capacity)
            case "never_join":
                self._world.machines.never_join += event.never_join
            case "refuse_type":
                self._trouble.refused_types.add(event.refuse_type)
            case "refuse" | "allow":
                self._trouble.refuses_terminate = kind == "refuse"
            case "crash":
                self._trouble.crash = event.crash or ""

    def _to_node(self, kind: str, name: str) -> None:
        world, machine = self._world, self._world.nodes.machine_of(name)
        if machine is None:
            self.say(f"{kind} found no node {name}")
            return
        instance_id = machine.instance.id
        match kind:
            case "cordon" | "uncordon":
                world.plan(world.now, f"person-{kind}s", name)
                world.advance_to(world.now)
                world.pods.reschedule()
            case "node_dies":
                self._kill(machine)
            case "instance_gone":
                world.plan(world.now, "machine-dies", instance_id)
            case _:
                world.plan(world.now, "interrupt" if kind == "spot_notice" else "rebalance", instance_id)
        world.advance_to(world.now)

    def _kill(self, machine: Machine) -> None:
        if machine.works:
            self._world.nodes.fall_silent(machine)

    def _play(self, players: dict[str, int | None]) -> None:
        self._players.update(players)
        for pod in list(self._world.inventory.pods.values()):
            for name in (pod.name, pod.full_name):
                if name in players:
                    self._world.inventory.put_pod(with_players(pod, players[name]))

    def _dressed(self, pod: Pod) -> Pod:
        """Players count by the name of the pod, so the next pod of that name has them too."""
        for name in (pod.full_name, pod.name):
            if name in self._players:
                return with_players(pod, self._players[name])
        return pod

    def _limit(self, capacity: CapacityKeys) -> None:
        book = self._world.machines.book
        for offer in offers_of(capacity, book.pools.values()):
            if capacity.left is None:
                book.capacity.pop(offer, None)
            else:
                book.capacity[offer] = capacity.left

    def _by_api(self, kind: str, value: object) -> None:
        """A refusal is an answer, not the end of the story."""
        try:
            said = self._asked(kind, value)
        except EbbtideError as error:
            status = " (409)" if isinstance(error, PolicyRefused) and error.taken else ""
            said = f"{kind} was refused: {error}{status}"
        self.say(said)

    def _asked(self, kind: str, value: object) -> str:
        stage = self._stage
        if kind == "pause":
            set_switch(store_of(stage), stage.clock, stage.new_id, SwitchedBy.PERSON, bool(value))
            return "removals are paused by a person" if value else "removals are resumed by a person"
        if self.scaling is None:
            return ""
        scaling = self.scaling()
        if kind == "policy" and isinstance(value, PolicyKeys):
            return self._put(value)
        policy = Policies(policies_of(stage), stage.clock, stage.new_id).find(str(value))
        if kind == "wake":
            return f"wake {value}: {scaling.wake(policy.id, WakeReason.MANUAL).message}"
        state = scaling.report_activity(policy.id)
        return f"activity {value}: it is {state.phase}"

    def _put(self, keys: PolicyKeys, origin: str | None = None) -> str:
        book, now = self._policies(), int(self._stage.clock.now())
        known = book.store.find_policy_named(keys.name)
        if known is None:
            fresh = keys.policy(self._policy_id(), 0, now, now)
            book.create(fresh if origin is None else replace(fresh, origin=origin))
            return f"policy {keys.name}: created"
        wanted = replace(keys.policy(known.id, known.version, known.created_at, now), origin=known.origin)
        if keys_of(wanted) == keys_of(known):
            return f"policy {keys.name}: unchanged"
        book.replace(wanted)
        return f"policy {keys.name}: changed"

    def apply(self, config: Config) -> list[str]:
        """The policies of a configuration, as a process that starts with it applies them."""
        said = []
        for keys in config.policies:
            try:
                said.append(self._put(keys, FROM_CONFIGURATION))
            except EbbtideError as error:
                said.append(f"policy {keys.name}: not applied, though the settings say so: {error}")
        return [one for one in said if not one.endswith("unchanged")]

    def _policies(self) -> Policies:
        pools = [pool.name for pool in self._stage.settings.pools]
        return Policies(policies_of(self._stage), self._stage.clock, self._stage.new_id, pools)

    def _policy_id(self) -> str:
        return str(uuid.UUID(int=self._random.getrandbits(128), version=4))
