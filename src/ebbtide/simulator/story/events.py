"""What happens in a story, done to the world, to the ports, or through the same calls as the API makes."""

from __future__ import annotations

import random
import uuid
from collections.abc import Callable, Collection
from dataclasses import replace
from itertools import product

from ebbtide.config import Config
from ebbtide.config.policies import PolicyKeys, keys_of
from ebbtide.engine.scale_to_zero.policies import Policies, PolicyRefused
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.engine.switch import set_switch
from ebbtide.errors import EbbtideError
from ebbtide.model.events import SwitchedBy
from ebbtide.model.idle import WakeReason
from ebbtide.model.node import Market
from ebbtide.model.pod import Pod
from ebbtide.model.policy import FROM_CONFIGURATION
from ebbtide.model.pool import Pool
from ebbtide.simulator.run.runner import Stage, policies_of, store_of
from ebbtide.simulator.story.build import with_players
from ebbtide.simulator.story.event_schemas import ON_NODES, ON_ZONES, CapacityKeys, EventKeys
from ebbtide.simulator.story.recorder import RecordedWorkloads
from ebbtide.simulator.story.trouble import Trouble
from ebbtide.simulator.world.machines import Machine


def incident_of(kind: str, zone: str) -> tuple[str, str]:
    """What befalls a zone, as the world plans it."""
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
