"""A simulated cluster that goes on for as long as somebody watches, at many times the speed of the clock.

The real engine runs against it: ticks of a runner that may be crashed, idle rounds, wakes. All of it happens
under one lock, so a reader (the API) never sees a half-made change.

    live = Live(seed=1)
    live.run(stop, speed=120.0)
    live.strike("spot-loss")
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, replace

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.cost_notes import CostNotes
from ebbtide.engine.loop import for_a_daemon
from ebbtide.engine.observe import observe
from ebbtide.engine.observers import Observers
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.engine.tick import tick
from ebbtide.errors import EbbtideError, NotFound
from ebbtide.model.events import Alarm, AlarmKind, FaultStruck
from ebbtide.model.node import Market
from ebbtide.model.snapshot import Reading, Snapshot
from ebbtide.narrate import entry_of
from ebbtide.simulator.faults.calls import CrashPlan, Distortion, Strike
from ebbtide.simulator.faults.ports import RunnerCrashed, faulty_ports
from ebbtide.simulator.run.live_scene import DEFAULTS, policies_of_demo, settings_of_demo, world_of_demo
from ebbtide.simulator.run.runner import ports_of, stage_of
from ebbtide.simulator.run.unhurried import Unhurried
from ebbtide.simulator.world.rules import BudgetSpec
from ebbtide.simulator.world.scaling import SimSignals, SimWorkloads

TICK_SECONDS = 30.0
BUSY_SECONDS = 5.0
"""How far time goes at a step while something is in progress, so its steps can be seen."""
PAUSE_SECONDS = 20.0
BREATH_SECONDS = 0.001
BURST_PODS = 24
BLIND_SECONDS = 900.0
STUCK_SECONDS = 1500.0
OUTAGE_SECONDS = 1800.0
KEEP_ENTRIES = 20_000


class Mood(CrashPlan):
    """A plan of faults that a person sets: the next effect crashes its runner, the metrics are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_next = False
        self.blind = False
        self.silent = False

    def strike(self, verb: str) -> Strike:
        if self.crash_next and not verb.startswith("store."):
            self.crash_next = False
            return Strike.CRASH_AFTER
        return Strike.NONE

    def distort(self, verb: str) -> Distortion:
        gone = (self.blind and verb == "metrics.read_cpu") or (self.silent and verb == "cluster.read")
        return Distortion.GONE if gone else Distortion.NONE


@dataclass(frozen=True, slots=True)
class LiveFault:
    id: str
    name: str
    says: str
    strike: Callable[[], str]


class Locked:
    """Something that is called from many threads although the simulation behind it is not made for that."""

    def __init__(self, inner: object, lock: threading.RLock) -> None:
        self._inner = inner
        self._lock = lock

    def __getattr__(self, name: str) -> object:
        found = getattr(self._inner, name)
        if not callable(found):
            return found

        def call(*args: object, **kwargs: object) -> object:
            with self._lock:
                return found(*args, **kwargs)

        return call


class Live:
    def __init__(self, seed: int, start: float) -> None:
        self.lock = threading.RLock()
        self.settings = settings_of_demo()
        world = world_of_demo(self.settings, seed, start)
        self.stage = stage_of(world, self.settings, KEEP_ENTRIES)
        self._mood = Mood()
        self._owners = 0
        self._runs = False
        self._until: dict[str, float] = {}
        ports = ports_of(self.stage)
        notes = CostNotes(ports.store, self.settings, ports.new_id)
        self._observer = Observers(ports.observer, notes)
        self.ports = ports
        self.scaling = Scaling(self._scaling_doors(), DEFAULTS, self.settings)
        for policy in policies_of_demo(int(start)):
            self.scaling.ports.policies.put_policy(policy)
        self._new_runner()
        self._next_round = start
        self._began = start
        self.faults = self._faults()

    def _scaling_doors(self) -> ScalingPorts:
        stage, ports = self.stage, self.ports
        workloads = Locked(SimWorkloads(stage.world, stage.clock), self.lock)
        store = MemoryStore(stage.clock, self.settings.cluster, stage.database)
        return ScalingPorts(
            store=store,
            policies=store.policies(),
            workloads=Unhurried(workloads, stage.clock, lambda: self._runs),
            signals=Locked(SimSignals(stage.world, stage.clock), self.lock),  # type: ignore[arg-type]
            notifier=stage.notifier,
            clock=stage.clock,
            new_id=stage.new_id,
            cluster=ports.cluster,
        )

    def _new_runner(self) -> None:
        self._owners += 1
        self.owner = f"demo-runner-{self._owners}"
        watched = replace(ports_of(self.stage), observer=self._observer)
        self._doors = faulty_ports(watched, self._mood)

    def look(self) -> Snapshot:
        with self.lock:
            seen = observe(self.ports, self.settings)
            if self._mood.silent:
                problem = "cluster: the API server does not answer (a fault of the demo)"
                unknown = Reading(problem="CPU is unknown")
                return Snapshot(seen.at, instances=seen.instances, cpu=unknown, problems=(problem,))
            gone = Reading(problem="metrics: gone (a fault of the demo)")
            return replace(seen, cpu=gone) if self._mood.blind else seen

    def run(self, stop: threading.Event, speed: float, rush_until: float = 0.0) -> None:
        """Until asked to stop; `speed` is simulated seconds for each real one, 0 is as fast as it goes, and
        so is everything before `rush_until`."""
        self._runs = True
        while not stop.is_set():
            before = self.stage.clock.now()
            self.step()
            now = self.stage.clock.now()
            rushes = not speed or now < rush_until
            # Also in a rush others get a turn at the lock.
            stop.wait(BREATH_SECONDS if rushes else (now - before) / speed)
        self._runs = False

    def step(self) -> None:
        with self.lock:
            clock = self.stage.clock
            self._recover()
            due = clock.now() + (BUSY_SECONDS if self._busy() else TICK_SECONDS)
            self._tick()
            if clock.now() >= self._next_round:
                self._next_round = clock.now() + DEFAULTS.check_interval_seconds
                self.scaling.round(self.owner, clock.now() + TICK_SECONDS)
            clock.move_to(due)
            self.stage.world.advance_to(clock.now())

    def _busy(self) -> bool:
        record = self.ports.store.load()
        return record.scaling_in_progress or bool(record.spots)

    def _tick(self) -> None:
        clock = self.stage.clock
        try:
            tick(self._doors, for_a_daemon(self.settings), self.owner, clock.now() + TICK_SECONDS)
        except RunnerCrashed as crash:
            dead = self.owner
            clock.sleep(PAUSE_SECONDS)
            self._new_runner()
            self._note(Alarm(AlarmKind.RUNNER_DIED, f"{dead} {crash}; {self.owner} takes over"))
        except EbbtideError as error:
            self._note(Alarm(AlarmKind.TICK_FAILED, str(error)))

    def _note(self, fact: Alarm | FaultStruck) -> None:
        entry = entry_of(self.stage.new_id(), int(self.stage.clock.now()), fact)
        self.ports.store.append([entry])

    def _recover(self) -> None:
        """Faults end by themselves."""
        now = self.stage.clock.now()
        for name in [name for name, until in self._until.items() if until <= now]:
            del self._until[name]
            if name == "metrics":
                self._mood.blind = False
            elif name == "api":
                self._mood.silent = False
            elif name == "stuck":
                specs = self.stage.world.controllers.budget_specs
                specs[:] = [spec for spec in specs if spec.name != "stuck"]
            elif name == "burst":
                self.stage.world.controllers.set_wanted("default/burst", 0)

    def strike(self, fault_id: str) -> str:
        found = next((fault for fault in self.faults if fault.id == fault_id), None)
        if found is None:
            raise NotFound(f"there is no fault {fault_id!r}; nothing was broken")
        with self.lock:
            says = found.strike()
            self._note(FaultStruck(says))
            return says

    def _faults(self) -> tuple[LiveFault, ...]:
        return (
            LiveFault("burst", "Burst", f"{BURST_PODS} pods more, at once", self._burst),
            LiveFault("spot-loss", "Spot loss", "the cloud takes all spot nodes back", self._spot_loss),
            LiveFault("stuck-drain", "Stuck drain", "a disruption budget allows no eviction", self._stuck),
            LiveFault("crash", "Crash", "the runner dies right after its next effect", self._crash),
            LiveFault("metrics-gone", "Metrics gone", "nobody knows the CPU use", self._blind),
            LiveFault("api-gone", "API server gone", "the cluster does not answer", self._silent),
        )

    def _burst(self) -> str:
        self.stage.world.controllers.set_wanted("default/burst", BURST_PODS)
        self._until["burst"] = self.stage.clock.now() + OUTAGE_SECONDS
        return f"{BURST_PODS} pods want a place for half an hour"

    def _spot_loss(self) -> str:
        world = self.stage.world
        nodes = [n for n in world.inventory.nodes.values() if n.market is Market.SPOT]
        world.plan(world.now, "interrupt-all", "")
        return f"{len(nodes)} spot nodes have two minutes left" if nodes else "there is no spot node to take"

    def _stuck(self) -> str:
        for key in ("default/web", "default/api"):
            spec = BudgetSpec("stuck", key, max_unavailable=0)
            self.stage.world.controllers.budget_specs.append(spec)
        self._until["stuck"] = self.stage.clock.now() + STUCK_SECONDS
        return "no pod of web and api may be evicted for 25 minutes"

    def _crash(self) -> str:
        self._mood.crash_next = True
        return "the runner dies right after its next call to the cluster or the cloud"

    def _blind(self) -> str:
        self._mood.blind = True
        self._until["metrics"] = self.stage.clock.now() + BLIND_SECONDS
        return "the CPU use is unknown for 15 minutes"

    def _silent(self) -> str:
        self._mood.silent = True
        self._until["api"] = self.stage.clock.now() + BLIND_SECONDS
        return "the API server does not answer for 15 minutes"
