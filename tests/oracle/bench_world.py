"""A cluster small enough to step through a removal by hand: what an effect does to it, without delay or
failure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from ebbtide.model.effect import (
    Cordon,
    DeleteNode,
    Effect,
    Evict,
    Launch,
    Outcome,
    OutcomeKind,
    SoftTaint,
    Terminate,
    Uncordon,
)
from ebbtide.model.pod import Pod
from ebbtide.model.snapshot import Instance, InstanceState, Node, Ownership, Snapshot
from tests.builders import make_instance, make_instance_of, make_node, make_snapshot
from tests.oracle.clusters import Drawn

JOIN_SECONDS = 45
GONE_SECONDS = 45


@dataclass
class World:
    drawn: Drawn
    nodes: dict[str, Node] = field(default_factory=dict)
    pods: dict[str, Pod] = field(default_factory=dict)
    instances: dict[str, Instance] = field(default_factory=dict)
    asked_to_go: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.nodes = {node.name: node for node in self.drawn.nodes}
        self.pods = {pod.uid: pod for pod in self.drawn.pods}
        machines = [make_instance_of(node) for node in self.drawn.nodes if node.pool]
        self.instances = {machine.id: machine for machine in machines}

    def seen(self, cpu: float | None, now: int) -> Snapshot:
        whole = make_snapshot(
            self.nodes.values(),
            self.pods.values(),
            budgets=self.drawn.budgets,
            instances=self.instances.values(),
            cpu=cpu,
            at=now,
        )
        return replace(whole, players=self.drawn.players)

    def pass_time(self, now: int) -> None:
        """Machines that were launched join; machines that were asked to go are gone."""
        for machine in list(self.instances.values()):
            name = machine.id.removeprefix("i-")
            if machine.id in self.asked_to_go:
                if now - self.asked_to_go[machine.id] >= GONE_SECONDS:
                    self.lose(name)
            elif machine.key and name not in self.nodes and now - machine.launched_at >= JOIN_SECONDS:
                self.nodes[name] = make_node(
                    name, zone=machine.zone, pool=machine.pool, created_at=now, market=machine.market
                )

    def lose(self, name: str) -> None:
        """The machine is gone, and with it what ran there."""
        self.instances[f"i-{name}"] = replace(self.instances[f"i-{name}"], state=InstanceState.GONE)
        if name in self.nodes:
            self.nodes[name] = replace(self.nodes[name], ready=False)
        self.pods = {uid: pod for uid, pod in self.pods.items() if pod.node_name != name}

    def perform(self, effects: Sequence[Effect], token: int, now: int) -> list[Outcome]:
        return [self._done(effect, token, now) for effect in effects]

    def _done(self, effect: Effect, token: int, now: int) -> Outcome:
        machine: Instance | None = None
        if isinstance(effect, SoftTaint | Cordon) and self._is_a_persons(effect.node_name):
            return Outcome(effect, OutcomeKind.REFUSED, "cordoned by a person")
        match effect:
            case SoftTaint():
                self._own(effect.node_name, Ownership(effect.operation_id, token, cordoned=False), None)
            case Cordon():
                self._own(effect.node_name, Ownership(effect.operation_id, token), True)
            case Uncordon():
                self._own(effect.node_name, None, False)
            case Evict():
                self.pods.pop(effect.uid, None)
            case Terminate():
                self.asked_to_go.setdefault(effect.instance_id, now)
                going = self.instances[effect.instance_id]
                self.instances[effect.instance_id] = replace(going, state=InstanceState.TERMINATING)
            case DeleteNode():
                self.nodes.pop(effect.node_name, None)
            case Launch():
                machine = self._launched(effect, now)
        return Outcome(effect, OutcomeKind.DONE, instance=machine)

    def _is_a_persons(self, name: str) -> bool:
        """Adapters refuse to sign a node that somebody else cordoned."""
        node = self.nodes.get(name)
        return node is not None and node.unschedulable and node.owner is None

    def _own(self, name: str, owner: Ownership | None, unschedulable: bool | None) -> None:
        node = self.nodes.get(name)
        if node is not None:
            shut = node.unschedulable if unschedulable is None else unschedulable
            self.nodes[name] = replace(node, owner=owner, unschedulable=shut)

    def _launched(self, effect: Launch, now: int) -> Instance:
        slot = effect.slot
        machine = make_instance(
            f"i-{slot.zone}9{slot.key[-1]}",
            key=slot.key,
            pool=slot.pool,
            zone=slot.zone,
            instance_type=slot.instance_type,
            market=slot.market,
            launched_at=now,
        )
        return self.instances.setdefault(machine.id, machine)
