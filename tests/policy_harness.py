"""Workloads in memory for tests with many threads, and policies to scale them: what a test is not about is
filled in."""

from __future__ import annotations

import threading
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import count
from typing import Any

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.engine.scale_to_zero.scaling import Scaling, ScalingPorts
from ebbtide.errors import Conflict, NotFound
from ebbtide.model.events import PolicyStep
from ebbtide.model.idle import IdleState, Phase, PolicyCause
from ebbtide.model.pod import Resources, Workload, WorkloadKind, WorkloadRef
from ebbtide.model.policy import Policy, Signal, SignalKind, Target, ZeroDefaults
from ebbtide.model.snapshot import Reading
from ebbtide.narrate import facts_in
from ebbtide.ports import PolicyStore, Store
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimNotifier
from tests.builders import NOW, make_settings

DEFAULTS = ZeroDefaults()
LONG_AGO = NOW - 10 * 86_400
QUERY = "sum(rate(requests[5m]))"
BY_QUERY = Signal(SignalKind.PROMQL_RATE, QUERY)


def policy_id(number: int = 1) -> str:
    return str(uuid.UUID(int=number))


def make_ref(name: str = "web", kind: WorkloadKind = WorkloadKind.DEPLOYMENT) -> WorkloadRef:
    return WorkloadRef(kind, "default", name)


def make_workload(name: str = "web", replicas: int = 2, **overrides: Any) -> Workload:
    """Up and ready, old, asking for a quarter of a node of the test pool."""
    defaults = {
        "ref": make_ref(name),
        "replicas": replicas,
        "ready_replicas": replicas,
        "version": "1",
        "created_at": LONG_AGO,
        "deployed_at": LONG_AGO,
        "requests": Resources(1000, 1024),
    }
    return Workload(**{**defaults, **overrides})


def make_policy(name: str = "web", *refs: WorkloadRef, **overrides: Any) -> Policy:
    """May go to zero; its one signal is `QUERY`."""
    defaults = {
        "id": policy_id(),
        "name": name,
        "target": Target(refs or (make_ref(name),)),
        "scale_to_zero": True,
        "signals": (BY_QUERY,),
        "created_at": LONG_AGO,
        "updated_at": LONG_AGO,
    }
    return Policy(**{**defaults, **overrides})


def make_state(phase: Phase = Phase.ACTIVE, **overrides: Any) -> IdleState:
    """As a policy is after long use: last looked at just now, in its phase for an hour."""
    defaults: dict[str, Any] = {
        "policy_id": policy_id(),
        "rev": 1,
        "phase": phase,
        "last_activity_at": NOW - 3600,
        "checked_at": NOW,
        "stretch_since": NOW - 3600,
    }
    if phase is not Phase.ACTIVE:
        defaults["idle_since"] = NOW - 3600
    return IdleState(**{**defaults, **overrides})


@dataclass
class Readings:
    """Signals that say what the test wants; what it does not name is unknown."""

    values: dict[str, float | None] = field(default_factory=lambda: {QUERY: 0.0})
    clock: VirtualClock | None = None

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        at = int(self.clock.now()) if self.clock is not None else int(time.time())
        return [
            Reading(problem="nobody knows")
            if (value := self.values.get(query)) is None
            else Reading(value, at)
            for query in queries
        ]


class MemoryWorkloads:
    """Thread-safe; a workload is ready as soon as it is scaled, unless `slow`."""

    def __init__(self, *workloads: Workload) -> None:
        self._lock = threading.Condition()
        self._versions = count(10)
        self.there = {each.ref: each for each in workloads}
        self.calls: list[tuple[WorkloadRef, int]] = []
        self.slow = False
        self.before_scale: Callable[[Workload, int], None] = lambda seen, replicas: None

    def read(self, ref: WorkloadRef) -> Workload:
        with self._lock:
            if ref not in self.there:
                raise NotFound(f"there is no {ref}")
            return self.there[ref]

    def scale(self, seen: Workload, replicas: int, note: str) -> Workload:
        self.before_scale(seen, replicas)
        with self._lock:
            if self.read(seen.ref).version != seen.version:
                raise Conflict(f"{seen.ref} changed since it was seen")
            self.calls.append((seen.ref, replicas))
            return self.put(seen.ref, replicas=replicas, ready_replicas=0 if self.slow else replicas)

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        with self._lock:
            self._lock.wait_for(lambda: self.there[ref].ready, max(0.0, until - time.time()))
            return self.there[ref]

    def put(self, ref: WorkloadRef, **changes: Any) -> Workload:
        """As somebody else would change it."""
        with self._lock:
            version = str(next(self._versions))
            self.there[ref] = replace(self.there[ref], version=version, **changes)
            self._lock.notify_all()
            return self.there[ref]


@dataclass
class PolicyHarness:
    """A scaling of one policy, on a clock that stands until it is moved."""

    policies: Sequence[Policy] = field(default_factory=lambda: (make_policy(),))
    memory_workloads: MemoryWorkloads = field(default_factory=lambda: MemoryWorkloads(make_workload()))
    defaults: ZeroDefaults = DEFAULTS
    values: Mapping[str, float | None] | None = None
    database: MemoryDatabase = field(default_factory=MemoryDatabase)

    def __post_init__(self) -> None:
        self.clock = VirtualClock(NOW)
        self.signals = Readings(dict(self.values) if self.values is not None else {QUERY: 0.0}, self.clock)
        self.notifier = SimNotifier()
        self._ids = count(1)
        self.store = MemoryStore(self.clock, database=self.database)
        self.rows: PolicyStore = self.store.policies()
        self.scaling = self.runner()
        for policy in self.policies:
            self.rows.put_policy(policy)

    def runner(self, **changes: Any) -> Scaling:
        """Another process over the same store and cluster."""
        store: Store = MemoryStore(self.clock, database=self.database)
        ports = ScalingPorts(
            store=store,
            policies=self.rows,
            workloads=self.memory_workloads,
            signals=self.signals,
            notifier=self.notifier,
            clock=self.clock,
            new_id=lambda: f"id-{next(self._ids):08d}",
        )
        return Scaling(replace(ports, **changes), self.defaults, make_settings())

    @property
    def state(self) -> IdleState:
        found = self.rows.find_state(self.policies[0].id)
        assert found is not None
        return found

    def phase(self) -> Phase:
        """Asked again each time, as far as the type checker knows, too."""
        return self.state.phase

    @property
    def now(self) -> int:
        return int(self.clock.now())

    def put(self, **changes: Any) -> IdleState:
        return self.rows.write_state(replace(self.state, **changes))

    def round(self, scaling: Scaling | None = None, owner: str = "runner") -> str:
        return (scaling or self.scaling).round(owner, self.clock.now() + 60).says

    def rounds(self, seconds: int, every: int = 60) -> None:
        for _ in range(seconds // every):
            self.clock.sleep(every)
            self.round()

    def sleep(self) -> None:
        """Until the target is at zero."""
        for _ in range(200):
            self.clock.sleep(60)
            self.round()
            if self.state.phase is Phase.ZERO:
                return
        raise AssertionError(f"never went to zero: {self.state}")

    def causes(self) -> list[PolicyCause | None]:
        """Of all steps that were logged, oldest first."""
        entries = reversed(self.store.read_log(limit=1000))
        return [step.cause for step in facts_in(entries, PolicyStep)]

    def said(self) -> list[str]:
        return [entry.says for entry in reversed(self.store.read_log(limit=1000))]
