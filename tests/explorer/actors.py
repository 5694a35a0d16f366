"""Runners that can be stopped at any call: each ticks in a greenlet of its own, and asks before every call
how it is to end."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Protocol

from greenlet import greenlet

from ebbtide.engine.notices import answer_notices
from ebbtide.engine.ports import Ports
from ebbtide.engine.rounds import InvariantBroken
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.engine.tick import tick
from ebbtide.errors import EbbtideError, Retryable, Unanswered
from ebbtide.model.idle import IdleState, WakeReason
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Workload
from ebbtide.model.policy import Service, Takeover
from ebbtide.model.record import Lease, Record
from ebbtide.model.snapshot import ClusterView
from ebbtide.ports import Observer
from ebbtide.simulator.checker.violations import ViolationKind
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.run.runner import Stage, ports_of, scaling_ports
from tests.explorer.sleeping import GROUP, leads_nowhere, state_of, wrong_with_scale, wrong_with_state
from tests.explorer.watching import wrong_with_acknowledgement, wrong_with_write

READS = ("read", "list", "load", "find", "receive", "close", "gates")
UNASKED = {"metrics.read_cpu", "store.read_log", "store.find_entry", "store.close"}
"""Calls that nothing others do can change, or that the engine never makes."""


LOOKS = {"cluster.read", "cloud.list_instances"}


class Director(Protocol):
    """Decides how a call ends."""

    @property
    def witness(self) -> Observer: ...

    def point(self, actor: Actor, verb: str) -> str: ...

    def answered(self, actor: Actor, verb: str, answer: str) -> None: ...

    def meets(self, what: str, how: str) -> None: ...


class Actor:
    """One runner. `kind` is "tick" for one that does all, "spot" for one that answers notices alone, "idle"
    for the loop over policies, "gate" for one that compares takeovers with
    states, and "waker" for who wakes what sleeps, again until that is answered."""

    def __init__(
        self, kind: str, owner: str, keeps_lease: bool, asks: bool = False, answered: bool = False
    ) -> None:
        self.kind = kind
        self.owner = owner
        self.keeps_lease = keeps_lease
        self.asks, self.answered = asks, answered
        """Whether a waker still wants something, and whether it was told that it is done."""
        self.thread: greenlet | None = None
        self.chain = 0
        """All that it has been told in this tick, as one number; 0 between two ticks."""
        self.started = 0.0
        self.begins = 0
        """The state in which its tick began."""
        self.wakes_at = -1.0
        """When frozen: until when; -1 while it is not frozen."""
        self.wakes_after = 0
        """When frozen: how many runs of anybody must have come to an end before it continues."""
        self.crashed = False
        self.rev = 0
        self.token = 0
        self.seen: dict[str, object] = {}
        """Which state and workloads it has seen last."""
        self.opened: list[Port] = []
        self.blind: set[str] = set()
        """Which lists could not be read in its last look."""
        self.misled = False
        """Whether a list of its last look was an old one."""
        self.last: dict[str, Any] = {}
        """What each list showed when it was last read, for stale answers."""

    @property
    def frozen(self) -> bool:
        return self.wakes_at >= 0

    @property
    def waits(self) -> bool:
        """Whether it is one that has nothing to do until somebody asks."""
        return self.kind == "waker" and not self.asks

    def fork(self, mark: str = "") -> Actor:
        """A copy between two ticks."""
        return Actor(self.kind, self.owner + mark, self.keeps_lease, self.asks, self.answered)

    def learn(self, seen: object) -> None:
        for one in seen if isinstance(seen, list | tuple) else (seen,):
            if isinstance(one, IdleState):
                self.seen["state"] = one.rev
            elif isinstance(one, Workload):
                self.seen[one.ref.name] = one.version
            elif isinstance(one, Service):
                self.seen[str(one.ref)] = "" if one.takeover is None else one.takeover.version
            elif isinstance(one, Takeover):
                self.seen[str(one.service)] = one.version

    def start(self, stage: Stage, director: Director, seconds: float) -> None:
        self.chain = hash((self.kind, self.begins))
        deadline = stage.clock.now() + seconds
        work = self._scaling if self.kind in ("idle", "waker", "gate") else self._ticking
        self.thread = greenlet(lambda: self._run(stage, lambda: work(stage, director, deadline)))

    def _ticking(self, stage: Stage, director: Director, deadline: float) -> None:
        ports = faulty_ports_of(self, stage, director)
        if self.kind == "spot":
            answer_notices(ports, stage.settings, self.owner, deadline)
        else:
            tick(ports, stage.settings, self.owner, deadline, self.keeps_lease)

    def _scaling(self, stage: Stage, director: Director, deadline: float) -> None:
        scaling = Scaling(faulty_scaling_ports_of(self, stage, director), stage.zero, stage.settings)
        if self.kind == "idle":
            scaling.round(self.owner, deadline)
        elif self.kind == "gate":
            scaling.reconcile_gates()
        else:
            scaling.wake(GROUP.id, WakeReason.MANUAL)
            self.asks, self.answered = False, True

    def _run(self, stage: Stage, work: Callable[[], None]) -> None:
        try:
            work()
        except RunnerCrashed:
            pass
        except InvariantBroken as error:
            stage.checker.say(ViolationKind.INVARIANT, "", f"a machine broke its own invariant: {error}")
        except EbbtideError:
            pass  # a tick that failed: the next one starts from the record
        except Exception as error:  # whatever it is, it is a find
            stage.checker.say(
                ViolationKind.TICK_FAILED,
                "",
                f"the tick failed unexpectedly: {type(error).__name__}: {error}",
            )

    def end_tick(self) -> None:
        for port in self.opened:
            vars(port).clear()
        self.opened.clear()
        self.thread, self.chain, self.wakes_at = None, 0, -1.0
        self.blind.clear()
        self.misled = False
        self.last.clear()
        self.seen.clear()


def without_pods_of_marked(view: ClusterView) -> ClusterView:
    """A hole in the list of pods where it does most harm: a node that is to go looks empty."""
    marked = {node.name for node in view.nodes if node.owner is not None}
    return replace(view, pods=tuple(pod for pod in view.pods if pod.node_name not in marked))


class Port:
    """A port of one runner; every method of it, also one that is added later, is a point of choice."""

    def __init__(self, inner: object, name: str, actor: Actor, stage: Stage, director: Director) -> None:
        self._inner, self._name = inner, name
        self._actor, self._stage, self._director = actor, stage, director

    def __getattr__(self, method: str) -> Callable[..., Any]:
        verb = f"{self._name}.{method}"
        call = getattr(self._inner, method)
        if verb in UNASKED:
            answers: Callable[..., Any] = call
        elif method.startswith(READS):
            answers = self._reader(verb, call)
        else:
            answers = self._effect(verb, self._watched(verb, call))
        self.__dict__[method] = answers
        return answers

    def _reader(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            actor = self._actor
            self._alive()
            choice = self._director.point(actor, verb)
            actor.blind.discard(verb)
            actor.misled = actor.misled and verb not in LOOKS
            if choice == "crash before":
                raise self._crash(verb)
            if choice == "unread":
                self._blind(verb, "unread")
                raise Retryable(f"{verb} failed")
            if choice == "shown empty":
                self._blind(verb, "empty")
                return ClusterView() if verb == "cluster.read" else ()
            if choice == "shown stale":
                actor.misled = True
                self._stage.world.disturbances += 1
                self._director.answered(actor, verb, "stale")
                return actor.last[verb]
            seen = call(*arguments)
            if choice == "shown holed":
                actor.misled = True
                self._stage.world.disturbances += 1
                self._director.answered(actor, verb, "holed")
                return without_pods_of_marked(seen)
            if isinstance(seen, Record):
                actor.rev = seen.rev
            elif verb in LOOKS:
                actor.last[verb] = seen
            actor.learn(seen)
            self._director.answered(actor, verb, "seen")
            return seen

        return answer

    def _blind(self, verb: str, how: str) -> None:
        self._stage.world.disturbances += 1
        if verb in LOOKS:
            self._actor.blind.add(verb)
        self._director.answered(self._actor, verb, how)

    def _effect(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        def answer(*arguments: Any) -> Any:
            actor = self._actor
            self._alive()
            choice = self._director.point(actor, verb)
            if choice != "go":
                self._stage.world.disturbances += 1
            match choice:
                case "crash before":
                    raise self._crash(verb)
                case "crash after":
                    with suppress(EbbtideError):
                        call(*arguments)
                    raise self._crash(verb)
                case "lost reply":
                    with suppress(EbbtideError):
                        call(*arguments)
                    self._director.answered(actor, verb, "lost")
                    raise Unanswered(f"the reply to {verb} was lost")
                case "failed":
                    self._director.answered(actor, verb, "failed")
                    raise Retryable(f"{verb} failed")
            try:
                done = call(*arguments)
            except EbbtideError as error:
                self._director.answered(actor, verb, type(error).__name__)
                raise
            if isinstance(done, Record):
                actor.rev = done.rev
            elif isinstance(done, Lease):
                actor.token = done.token
            actor.learn(done)
            self._director.answered(actor, verb, "done")
            return done

        return answer

    def _watched(self, verb: str, call: Callable[..., Any]) -> Callable[..., Any]:
        """The call, and after it has taken effect a look at what it did."""
        stage, actor = self._stage, self._actor

        def write(*arguments: Any) -> Any:
            before = stage.checker.record
            written = call(*arguments)
            for says in wrong_with_write(stage, before, written, actor.blind, actor.misled):
                stage.checker.say(ViolationKind.WITNESSED, "", says)
            return written

        def acknowledge(notice: SpotNotice) -> None:
            call(notice)
            for says in wrong_with_acknowledgement(stage, notice):
                stage.checker.say(ViolationKind.WITNESSED, "", says)

        def write_state(state: IdleState, *rest: Any) -> IdleState:
            before = state_of(stage)
            after: IdleState = call(state, *rest)
            self._director.meets("phase", after.phase)
            for says in wrong_with_state(stage, before, after):
                stage.checker.say(ViolationKind.WITNESSED, "", says)
            return after

        def scale(seen: Workload, replicas: int, note: str) -> Any:
            scaled = call(seen, replicas, note)
            for says in (*wrong_with_scale(stage, replicas), *leads_nowhere(stage)):
                stage.checker.say(ViolationKind.WITNESSED, "", says)
            return scaled

        def release(taken: Takeover) -> None:
            call(taken)
            for says in leads_nowhere(stage):
                stage.checker.say(ViolationKind.WITNESSED, "", says)

        watched: dict[str, Callable[..., Any]] = {
            "store.write": write,
            "inbox.acknowledge": acknowledge,
            "policies.write_state": write_state,
            "workloads.scale": scale,
            "services.release": release,
        }
        return watched.get(verb, call)

    def _alive(self) -> None:
        if self._actor.crashed:
            raise RunnerCrashed("this runner has crashed")

    def _crash(self, verb: str) -> RunnerCrashed:
        self._actor.crashed = True
        return RunnerCrashed(f"crashed at {verb}")


def faulty_ports_of(actor: Actor, stage: Stage, director: Director) -> Ports:
    sound = ports_of(stage)
    opened = _ports_of(sound, ("store", "cluster", "cloud", "metrics", "inbox"), actor, stage, director)
    return replace(sound, **opened, new_id=lambda: _new_id(stage), observer=director.witness)


def faulty_scaling_ports_of(actor: Actor, stage: Stage, director: Director) -> ScalingPorts:
    """Without the one to the nodes: they say only what a target costs."""
    sound = scaling_ports(stage, ports_of(stage))
    names = ("store", "policies", "workloads", "signals", *(("services",) if stage.gates else ()))
    opened = _ports_of(sound, names, actor, stage, director)
    return replace(sound, **opened, cluster=None, new_id=lambda: _new_id(stage))


def _ports_of(
    sound: object, names: Sequence[str], actor: Actor, stage: Stage, director: Director
) -> dict[str, Any]:
    """Any port, since a port has whatever methods are behind it."""
    opened = {name: Port(getattr(sound, name), name, actor, stage, director) for name in names}
    actor.opened += opened.values()
    return opened


def _new_id(stage: Stage) -> str:
    stage.ids += 1
    return f"x{stage.ids}"
