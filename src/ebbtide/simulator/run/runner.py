"""One runner in a simulation: an owner id, its own clock, and its ports, perhaps failing ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.bootstrap.scaling import looking_ahead
from ebbtide.engine.ports import Ports, Thinking
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.engine.steady import Steady
from ebbtide.engine.tick import TickReport, tick
from ebbtide.errors import EbbtideError, Final
from ebbtide.model.effect import Launch
from ebbtide.model.policy import Policy, ZeroDefaults
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Instance
from ebbtide.ports import Cloud, PolicyStore, Store
from ebbtide.simulator.checker.checker import Checker, WatchedStore
from ebbtide.simulator.checker.consolidation import Bookkeeper
from ebbtide.simulator.faults.catalogue import FaultPlan
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import faulty_ports
from ebbtide.simulator.world.clock import SkewedClock, VirtualClock
from ebbtide.simulator.world.ports import (
    SimCloud,
    SimCluster,
    SimInbox,
    SimMetrics,
    SimNotifier,
    SimServices,
    SimSignals,
    SimWorkloads,
)
from ebbtide.simulator.world.world import World

GATE_PORTS = range(20_000, 20_016)


@dataclass(slots=True)
class Stage:
    """What all runners of one simulation share."""

    world: World
    settings: Settings
    clock: VirtualClock
    database: MemoryDatabase
    checker: Checker
    notifier: SimNotifier
    bookkeeper: Bookkeeper
    ids: int = 0
    keeps_inputs: bool = True
    """Whether the log keeps the inputs of decisions, for replays."""
    think: Callable[[], Thinking] = Steady
    """What a new runner computes timers and decisions with. `Steady` computes nothing again that provably
    comes out the same; `Always` computes every time."""
    look_ahead: Callable[[Settings, Ports], Ports] = looking_ahead
    """What a new daemon learns of expected demand from, where the settings say so."""
    policies: tuple[Policy, ...] = ()
    zero: ZeroDefaults = field(default_factory=ZeroDefaults)
    gates: tuple[str, ...] = ()
    """Addresses of the gates that stand in for sleeping Services; none: there is no wake on request."""

    def new_id(self) -> str:
        """Grows with time, and is the same for the same seed."""
        self.ids += 1
        return f"{int(self.clock.now() * 1000):014d}-{self.ids:08d}"


def stage_of(world: World, settings: Settings, keep_entries: int = 1000) -> Stage:
    """A stage around a world, with an empty store and a clock that stands where the world does."""
    return Stage(
        world,
        settings,
        VirtualClock(world.now),
        MemoryDatabase(keep_entries),
        Checker(world, settings),
        SimNotifier(),
        Bookkeeper(world.machines),
    )


def store_of(stage: Stage, clock: SkewedClock | VirtualClock | None = None) -> Store:
    store = MemoryStore(clock or stage.clock, stage.settings.cluster, stage.database)
    return WatchedStore(store, stage.checker)


def policies_of(stage: Stage) -> PolicyStore:
    return MemoryStore(stage.clock, stage.settings.cluster, stage.database).policies()


def scaling_ports(stage: Stage, ports: Ports) -> ScalingPorts:
    """The ports to the workloads of the same world, next to those of a tick."""
    return ScalingPorts(
        store=ports.store,
        policies=policies_of(stage),
        workloads=SimWorkloads(stage.world, stage.clock),
        signals=SimSignals(stage.world, stage.clock),
        notifier=ports.notifier,
        clock=ports.clock,
        new_id=ports.new_id,
        cluster=ports.cluster,
        services=SimServices(stage.world, stage.clock, stage.gates) if stage.gates else None,
        gate_ports=GATE_PORTS,
    )


def scaling_of(
    stage: Stage, ports: Ports, plan: FaultPlan | None = None, settings: Settings | None = None
) -> Scaling:
    """Over sound ports, or ports that fail as planned."""
    opened = scaling_ports(stage, ports)
    if plan is not None:
        opened = faulty_scaling(opened, plan, lambda: _disturb(stage.world))
    return Scaling(opened, stage.zero, settings or stage.settings)


def ports_of(stage: Stage, clock: SkewedClock | VirtualClock | None = None) -> Ports:
    """Sound ports to the stage's world; hand the result to `faulty_ports` for failing ones."""
    world, true = stage.world, stage.clock
    return Ports(
        store=store_of(stage, clock),
        cluster=SimCluster(world, true),
        cloud=SimCloud(world, true),
        metrics=SimMetrics(world, true),
        inbox=SimInbox(world, true),
        notifier=stage.notifier,
        clock=clock or true,
        new_id=stage.new_id,
        observer=stage.bookkeeper,
        keeps_inputs=stage.keeps_inputs,
        thinking=stage.think(),
    )


class Runner:
    """A process that ticks. After `RunnerCrashed`, make a new one."""

    def __init__(
        self,
        stage: Stage,
        owner: str,
        plan: FaultPlan | None = None,
        skew_seconds: float = 0.0,
        settings: Settings | None = None,
    ) -> None:
        """`settings`: of a runner that is still on an earlier configuration than the stage."""
        self.owner = owner
        self.skew_seconds = skew_seconds
        self.clock = SkewedClock(stage.clock, skew_seconds)
        self._checker = stage.checker
        self.settings = settings or stage.settings
        ports = ports_of(stage, self.clock)
        ports = replace(ports, cloud=ConfiguredCloud(ports.cloud, self.settings))
        slow = self.settings.lock_ttl_seconds + 5.0
        self.ports = ports if plan is None else faulty_ports(ports, plan, lambda: _disturb(stage.world), slow)

        self._scaling: Scaling | None = None
        if stage.policies:
            self._scaling = scaling_of(stage, ports, plan, self.settings)
        self.ports = replace(self.ports, settings_now=self._in_effect)

    def tick(self, budget_seconds: float = 60.0) -> TickReport:
        """A round over the policies, where there are any, and a tick; neither waits for the other to work."""
        self._checker.follow(self.settings)
        if self._scaling is not None:
            with suppress(EbbtideError):
                self._scaling.round(self.owner, self.clock.now() + budget_seconds)
        return tick(self.ports, self.settings, self.owner, self.clock.now() + budget_seconds)

    def _in_effect(self, settings: Settings) -> Settings:
        """What policies make of the settings; the checker judges by the same."""
        now = settings if self._scaling is None else self._scaling.settings_now(settings)
        self._checker.follow(now)
        return now


class ConfiguredCloud:
    """The cloud as a runner can ask for machines of it: by the pools of its own configuration."""

    def __init__(self, inner: Cloud, settings: Settings) -> None:
        self._inner = inner
        self._settings = settings

    def launch(self, effect: Launch) -> Instance:
        slot = effect.slot
        pool = self._settings.pool_named(slot.pool)
        if pool is None or pool.type_named(slot.instance_type) is None:
            raise Final(f"pool {slot.pool} with type {slot.instance_type} is not configured")
        return self._inner.launch(effect)

    def terminate(self, instance_id: str) -> None:
        self._inner.terminate(instance_id)

    def list_instances(self) -> Sequence[Instance]:
        return self._inner.list_instances()


def _disturb(world: World) -> None:
    world.disturbances += 1
