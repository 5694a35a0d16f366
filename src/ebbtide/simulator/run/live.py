"""A simulated cluster that runs for as long as somebody watches, at many times the speed of the clock.

The real engine runs against it: ticks of a runner that may be crashed, idle rounds, wakes. All of it happens
under one lock, so a reader (the API) never sees a half-made change.

    live = Live(seed=1, start=time.time())
    live.run(stop, speed=120.0)
    live.strike("spot-loss")

Waiting for a simulated workload while another thread moves the clock. A request that the demo holds takes as
long as it would, at the demo's speed, and does not make time jump for everybody else.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ebbtide.adapters.stores.memory import MemoryStore
from ebbtide.engine.loop import for_a_daemon
from ebbtide.engine.notes import CostNotes
from ebbtide.engine.outages import OutageNotes
from ebbtide.engine.ports import Observers, observe
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.engine.tick import tick
from ebbtide.errors import EbbtideError, NotFound
from ebbtide.model.events import Alarm, AlarmKind, FaultStruck
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.snapshot import Node, NodeUse, Reading, Snapshot
from ebbtide.narrate import entry_of
from ebbtide.ports import Clock
from ebbtide.simulator.faults.catalogue import CrashPlan, Distortion, Strike
from ebbtide.simulator.faults.ports import RunnerCrashed, faulty_ports
from ebbtide.simulator.run.live_faults import faults_of
from ebbtide.simulator.run.replicas import Replicas
from ebbtide.simulator.run.runner import ports_of, stage_of
from ebbtide.simulator.run.scenes import LiveScene, small_scene
from ebbtide.simulator.run.situation import KINDS, Evidence, LiveSituation
from ebbtide.simulator.world.ports import SimMetrics, SimSignals, SimWorkloads
from ebbtide.simulator.world.rules import BudgetSpec

LOOK_SECONDS = 0.05


class Unhurried:
    """Simulated workloads, called from many threads."""

    def __init__(self, workloads: Any, clock: Clock, runs: Callable[[], bool]) -> None:
        """`runs` says whether somebody moves the clock; while nobody does, waiting moves it."""
        self._workloads = workloads
        self._clock = clock
        self._runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workloads, name)

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        while self._runs() and self._clock.now() < until:
            seen: Workload = self._workloads.read(ref)
            if seen.ready:
                return seen
            time.sleep(LOOK_SECONDS)
        ended: Workload = self._workloads.wait_ready(ref, until)
        return ended


TICK_SECONDS = 30.0
BUSY_SECONDS = 5.0
"""How far time goes at a step while something is in progress, so its steps can be seen."""
RUSH_SECONDS, RUSH_BUSY_SECONDS = 60.0, 20.0
"""The same while time is rushed through: nobody can follow it."""
PAUSE_SECONDS = 5.0
BREATH_SECONDS = 0.001
LISTEN_SECONDS = 0.05
NOTICED_SECONDS = 1.5
"""How long after a fault its first effects are there: controllers and the scheduler have seen it."""
SLOW_SPEED = 12.0
"""How fast time passes at most while a fault is being answered: a node takes seconds to come, not a blink."""
KEEP_ENTRIES = 60_000
MOST_EVIDENCE = 1000


class Mood(CrashPlan):
    """A plan of faults that a person sets: a call that the runner does not survive, sources that are gone."""

    def __init__(self) -> None:
        super().__init__()
        self.crash_after = 0
        """Calls until the crash; 0 is never."""
        self.crash_verb = ""
        """Only these calls count; empty: all to the cluster and the cloud."""
        self.before_eviction: Callable[[], None] | None = None
        self.gone: set[str] = set()
        """metrics, api."""

    def strike(self, verb: str) -> Strike:
        if verb == "cluster.evict" and self.before_eviction is not None:
            self.before_eviction()
            self.before_eviction = None
        counts = verb == self.crash_verb if self.crash_verb else not verb.startswith("store.")
        if not self.crash_after or not counts:
            return Strike.NONE
        self.crash_after -= 1
        if self.crash_after:
            return Strike.NONE
        self.crash_verb = ""
        return Strike.CRASH_AFTER

    def distort(self, verb: str) -> Distortion:
        blind = "metrics" in self.gone and verb == "metrics.read_cpu"
        silent = "api" in self.gone and verb == "cluster.read"
        return Distortion.GONE if blind or silent else Distortion.NONE


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
    def __init__(
        self, seed: int, start: float, scene: LiveScene | None = None, replicas: Replicas | None = None
    ) -> None:
        self.lock = threading.RLock()
        self.scene = scene or small_scene()
        self.settings = self.scene.settings
        self.stage = stage_of(self.scene.world(seed, start), self.settings, KEEP_ENTRIES)
        self.mood = Mood()
        self.budgets_before: tuple[BudgetSpec, ...] = ()
        self.situation: LiveSituation | None = None
        self._owners = 0
        self._runs = False
        self._struck = threading.Event()
        self._until: dict[str, float] = {}
        self._replicas = replicas
        ports = ports_of(self.stage)
        notes = CostNotes(ports.store, self.settings, ports.new_id)
        outages = OutageNotes(ports.store, self.settings, ports.clock, ports.new_id)
        self._observer = Observers(ports.observer, notes, outages)
        self.ports = ports
        self.scaling = Scaling(self._scaling_ports(), self.scene.defaults, self.settings)
        for policy in self.scene.policies(int(start)):
            self.scaling.ports.policies.put_policy(policy)
        self._new_runner()
        self._next_round = start
        self.faults = faults_of(self)

    def _scaling_ports(self) -> ScalingPorts:
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
        self._faulty_ports = faulty_ports(watched, self.mood)

    def look(self) -> Snapshot:
        with self.lock:
            seen = observe(self.ports, self.settings)
            if "api" in self.mood.gone:
                problem = "the API server does not answer (a fault of the demo)"
                unknown = Reading(problem="CPU is unknown")
                return Snapshot(seen.at, instances=seen.instances, cpu=unknown, problems=(problem,))
            gone = Reading(problem="the metrics server does not answer (a fault of the demo)")
            return replace(seen, cpu=gone) if "metrics" in self.mood.gone else seen

    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        with self.lock:
            return SimMetrics(self.stage.world, self.stage.clock).read_use(nodes)

    def run(self, stop: threading.Event, speed: float, rush_until: float = 0.0) -> None:
        """Until asked to stop; `speed` is simulated seconds for each real one, 0 is as fast as it goes, and
        so is everything before `rush_until`. While a fault is being answered, time passes slower."""
        self._runs = True
        while not stop.is_set() and self.stage.clock.now() < rush_until and not self._survives():
            self.step(RUSH_SECONDS, RUSH_BUSY_SECONDS, in_process=True)
            # Also in a rush others get a turn at the lock.
            stop.wait(BREATH_SECONDS)
        while not stop.is_set():
            before, began = self.stage.clock.now(), time.monotonic()
            self._struck.clear()
            self.step()
            passed = self.stage.clock.now() - before
            pause = passed / self.pace(speed) - (time.monotonic() - began) if speed else 0.0
            self._pause(stop, max(pause, BREATH_SECONDS))
        self._runs = False

    def _pause(self, stop: threading.Event, seconds: float) -> None:
        """Until it is time for the next step, or a fault was made: that is answered at once."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0 and not stop.is_set():
            if self._struck.wait(min(left, LISTEN_SECONDS)):
                return

    def pace(self, speed: float) -> float:
        """How fast time passes now, if it passes at `speed` normally."""
        return min(speed, SLOW_SPEED) if self._survives() else speed

    def _survives(self) -> bool:
        return self.situation is not None and not self.situation.over

    def step(
        self, tick_seconds: float = TICK_SECONDS, busy_seconds: float = BUSY_SECONDS, in_process: bool = False
    ) -> None:
        with self.lock:
            clock = self.stage.clock
            self._recover()
            busy = self._survives() or self._busy()
            due = clock.now() + (busy_seconds if busy else tick_seconds)
            # A fault may have been made since somebody chose to rush: it is answered by the real runners.
            self._tick(in_process and not self._survives())
            if clock.now() >= self._next_round:
                self._next_round = clock.now() + self.scene.defaults.check_interval_seconds
                self.scaling.round(self.owner, clock.now() + TICK_SECONDS)
            # What the tick did has its time; what the world does until the next one is seen after it.
            self._follow()
            clock.move_to(due)
            self.stage.world.advance_to(clock.now())
            self._follow()

    def _busy(self) -> bool:
        record = self.ports.store.load()
        return record.scaling_in_progress or bool(record.spots)

    def _tick(self, in_process: bool) -> None:
        clock, settings = self.stage.clock, for_a_daemon(self.settings)
        try:
            if in_process or self._replicas is None:
                tick(self._faulty_ports, settings, self.owner, clock.now() + TICK_SECONDS)
            else:
                self._replicas.tick(self._faulty_ports, settings, self.owner, clock.now() + TICK_SECONDS)
        except RunnerCrashed as crash:
            dead = self.owner
            clock.sleep(PAUSE_SECONDS)
            self._new_runner()
            says = f"runner {dead} {crash}; {self.owner} continues once its lease has ended"
            self._note(Alarm(AlarmKind.RUNNER_DIED, says))
        except EbbtideError as error:
            self._note(Alarm(AlarmKind.TICK_FAILED, str(error)))

    def _note(self, fact: Alarm | FaultStruck) -> None:
        entry = entry_of(self.stage.new_id(), int(self.stage.clock.now()), fact)
        self.ports.store.append([entry])

    def end_at(self, name: str, seconds: float) -> None:
        """The fault of this name ends by itself after so long."""
        self._until[name] = self.stage.clock.now() + seconds

    def _recover(self) -> None:
        now = self.stage.clock.now()
        for name in [name for name, until in self._until.items() if until <= now]:
            del self._until[name]
            self.mood.gone.discard(name)
            if name == "stuck":
                self.stage.world.controllers.budget_specs[:] = self.budgets_before
                self.budgets_before = ()
            elif name == "burst":
                self.stage.world.controllers.set_wanted(self.scene.burst, 0)

    def _follow(self) -> None:
        """Bring the situation up to date with what the log says."""
        found = self.situation
        if found is None or found.over:
            return
        store, grown = self.ports.store, self.stage.world.pods.book.workloads[self.scene.burst]
        recent = store.read_log(KINDS, limit=MOST_EVIDENCE)
        waiting = self.stage.world.view().waiting_pods
        evidence = Evidence(
            began_at=found.began_at,
            now=self.stage.clock.now(),
            entries=[entry for entry in reversed(recent) if entry.id > found.began_id],
            record=store.load(),
            pending=len(waiting),
            grown_pending=sum(pod.full_name.startswith(f"{self.scene.burst}-") for pod in waiting),
            fits=grown.ready == grown.wanted,
            troubled=bool(self.mood.gone),
        )
        self.situation = found.seen(evidence)
        if self.situation.over and "stuck" in self._until:
            self._until["stuck"] = evidence.now

    def strike(self, fault_id: str) -> str:
        found = next((fault for fault in self.faults if fault.id == fault_id), None)
        if found is None:
            raise NotFound(f"there is no fault {fault_id!r}; nothing was broken")
        with self.lock:
            began_id, now = self.stage.new_id(), self.stage.clock.now()
            says = found.strike()
            self._note(FaultStruck(says))
            # A moment passes, so the first look after the fault and the next tick see what it did.
            self.stage.clock.move_to(now + NOTICED_SECONDS)
            self.stage.world.advance_to(self.stage.clock.now())
            self.situation = LiveSituation(found.id, found.name, found.explains, began_id, now, found.steps)
            self._follow()
            self._struck.set()
            return says
