"""Ports that fail as planned: wrappers around the ports of one runner, and a store that passes every call
on.

    plan = CrashPlan(number=3, strike=Strike.CRASH_AFTER)
    runner = faulty_ports(ports, plan)
    try:
        tick(runner, settings, owner="one", deadline=...)
    except RunnerCrashed:
        ...                       # start another runner over the same store and world

A runner that crashed does nothing more: every call in its `finally` blocks crashes as well.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import TypeVar

from ebbtide.engine.ports import Ports
from ebbtide.errors import BudgetExhausted, EbbtideError, Final, Retryable, Throttled, Unanswered
from ebbtide.model.effect import Cordon, DeleteNode, Evict, Launch, SoftTaint, Uncordon
from ebbtide.model.log import Entries, Kinds, LogEntry
from ebbtide.model.operation import SpotNotice
from ebbtide.model.pod import Pod
from ebbtide.model.record import Lease, Record
from ebbtide.model.snapshot import ClusterView, Instance, Reading
from ebbtide.ports import Clock, Cloud, Cluster, Inbox, Metrics, Store
from ebbtide.simulator.faults.catalogue import Distortion, FaultPlan, Strike


class PassedStore:
    def __init__(self, inner: Store) -> None:
        self._inner = inner

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        return self._inner.acquire(name, owner, ttl_seconds)

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        return self._inner.renew(lease, ttl_seconds)

    def release(self, lease: Lease) -> None:
        self._inner.release(lease)

    def load(self) -> Record:
        return self._inner.load()

    def write(self, record: Record, guard: Lease | None, entries: Entries = ()) -> Record:
        return self._inner.write(record, guard, entries)

    def append(self, entries: Entries) -> None:
        self._inner.append(entries)

    def read_log(
        self, kinds: Kinds = (), subject: str = "", limit: int = 100, before: str = "", brief: bool = False
    ) -> Sequence[LogEntry]:
        return self._inner.read_log(kinds, subject, limit, before, brief)

    def find_entry(self, entry_id: str) -> LogEntry | None:
        return self._inner.find_entry(entry_id)

    def prune_log(self, before: int) -> int:
        return self._inner.prune_log(before)

    def close(self) -> None:
        self._inner.close()


T = TypeVar("T")
STALE_SECONDS = 3600
TORN_SECONDS = 90.0
MOST_HOLES = 3
REFUSALS: Mapping[Strike, tuple[type[EbbtideError], str]] = {
    Strike.FAILED: (Retryable, "failed"),
    Strike.THROTTLED: (Throttled, "was throttled"),
    Strike.SERVER_ERROR: (Unanswered, "was answered by an error of the server"),
    Strike.BUDGET: (BudgetExhausted, "was refused: a disruption budget allows none now"),
    Strike.REFUSED: (Final, "was refused: more than one disruption budget selects this pod"),
}
"""Calls that are not carried out: how each is answered."""


class RunnerCrashed(BaseException):
    """The process is dead. Not an `Exception`, so no handler of errors outlives it."""


class CallGate:
    """Every call of one runner goes through it. `on_fault` is called for every fault."""

    def __init__(
        self,
        plan: FaultPlan,
        on_fault: Callable[[], None] = lambda: None,
        sleep: Callable[[], None] = lambda: None,
    ) -> None:
        self._plan = plan
        self._on_fault = on_fault
        self._sleep = sleep
        """Lets more time pass than a lease lasts."""
        self.crashed = False

    def act(self, verb: str, call: Callable[[], T]) -> T:
        self._alive()
        self._land()
        strike = self._plan.strike(verb)
        if strike is not Strike.NONE:
            self._on_fault()
        match strike:
            case Strike.NONE:
                return call()
            case Strike.CRASH_BEFORE:
                raise self._crash(f"before {verb}")
            case Strike.CRASH_AFTER:
                with suppress(EbbtideError):  # a refusal is an answer, too: nobody hears it
                    call()
                raise self._crash(f"after {verb}")
            case Strike.LOST_REPLY:
                with suppress(EbbtideError):
                    call()
                raise Unanswered(f"the reply to {verb} was lost")
            case Strike.STALL:
                self._plan.stalled(verb)
                self._on_fault()  # the other runner may have done the same meanwhile
                return call()
            case Strike.DELAYED:
                # Only its client's timeout bounds how late an eviction may land: that one is soon.
                self._plan.delay(call, soon=verb == "cluster.evict")
                raise Unanswered(f"{verb} got no answer")
            case Strike.SLOW:
                answer = call()
                self._sleep()
                return answer
            case _:
                error, says = REFUSALS[strike]
                raise error(f"{verb} {says}")

    def _land(self) -> None:
        for call in self._plan.land():
            self._on_fault()
            with suppress(EbbtideError):
                call()
            self._on_fault()  # a runner that does the same now could not know of it

    def hole(self, count: int) -> int:
        return self._plan.pick(count)

    def read(self, verb: str) -> Distortion:
        self._alive()
        self._land()
        distortion = self._plan.distort(verb)
        if distortion is not Distortion.NONE:
            self._on_fault()
        return distortion

    def _alive(self) -> None:
        if self.crashed:
            raise RunnerCrashed("this runner has crashed")

    def _crash(self, where: str) -> RunnerCrashed:
        self.crashed = True
        return RunnerCrashed(f"crashed {where}")


def faulty_ports(
    ports: Ports,
    plan: FaultPlan,
    on_fault: Callable[[], None] = lambda: None,
    slow_seconds: float = 0.0,
) -> Ports:
    """The same ports, failing as planned. A slow call takes `slow_seconds`."""
    gate = CallGate(plan, on_fault, lambda: ports.clock.sleep(slow_seconds))
    return replace(
        ports,
        store=FaultyStore(ports.store, gate),
        cluster=FaultyCluster(ports.cluster, gate, ports.clock),
        cloud=FaultyCloud(ports.cloud, gate),
        metrics=FaultyMetrics(ports.metrics, gate),
        inbox=FaultyInbox(ports.inbox, gate),
    )


class FaultyStore(PassedStore):
    def __init__(self, inner: Store, gate: CallGate) -> None:
        super().__init__(inner)
        self._gate = gate

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        return self._gate.act("store.acquire", lambda: self._inner.acquire(name, owner, ttl_seconds))

    def renew(self, lease: Lease, ttl_seconds: int) -> Lease:
        return self._gate.act("store.renew", lambda: self._inner.renew(lease, ttl_seconds))

    def release(self, lease: Lease) -> None:
        self._gate.act("store.release", lambda: self._inner.release(lease))

    def load(self) -> Record:
        if self._gate.read("store.load") is Distortion.GONE:
            raise Retryable("the store does not answer")
        return self._inner.load()

    def write(self, record: Record, guard: Lease | None, entries: Sequence[LogEntry] = ()) -> Record:
        return self._gate.act("store.write", lambda: self._inner.write(record, guard, entries))

    def append(self, entries: Sequence[LogEntry]) -> None:
        self._gate.act("store.append", lambda: self._inner.append(entries))


class FaultyCluster:
    def __init__(self, inner: Cluster, gate: CallGate, clock: Clock) -> None:
        self._inner = inner
        self._gate = gate
        self._clock = clock
        self._last: ClusterView | None = None
        self._earlier: list[tuple[float, ClusterView]] = []
        """What was seen when, within the time that lists may be apart."""

    def read(self) -> ClusterView:
        distortion = self._gate.read("cluster.read")
        if distortion is Distortion.EMPTY:
            return ClusterView()
        if distortion is Distortion.STALE and self._last is not None:
            return self._last
        if distortion is Distortion.GONE:
            raise Retryable("the API server does not answer")
        self._last = seen = self._inner.read()
        if distortion is Distortion.HOLED and seen.nodes:
            return _without_one(seen, self._gate.hole(len(seen.nodes)))
        if distortion is Distortion.PODS_HOLED and seen.pods:
            return _without_pods(seen, self._gate)
        earlier = self._within_reach(seen)
        if distortion is Distortion.TORN and earlier:
            return _torn(seen, earlier[self._gate.hole(len(earlier))], self._gate.hole(2) == 0)
        return seen

    def _within_reach(self, seen: ClusterView) -> list[ClusterView]:
        """Earlier views that a list of now may be read together with."""
        now, earlier = self._clock.now(), self._earlier
        if earlier and not (now - earlier[0][0] <= TORN_SECONDS and now - earlier[-1][0] >= 0):
            earlier = [(at, view) for at, view in earlier if 0 <= now - at <= TORN_SECONDS]
        self._earlier = [*earlier, (now, seen)]
        return [view for _, view in earlier]

    def read_pods_on(self, node_name: str) -> Sequence[Pod]:
        self._gate.read("cluster.read_pods_on")
        return self._inner.read_pods_on(node_name)

    def soft_taint(self, effect: SoftTaint, token: int) -> None:
        self._gate.act("cluster.soft_taint", lambda: self._inner.soft_taint(effect, token))

    def cordon(self, effect: Cordon, token: int) -> None:
        self._gate.act("cluster.cordon", lambda: self._inner.cordon(effect, token))

    def uncordon(self, effect: Uncordon, token: int) -> None:
        self._gate.act("cluster.uncordon", lambda: self._inner.uncordon(effect, token))

    def evict(self, effect: Evict) -> None:
        self._gate.act("cluster.evict", lambda: self._inner.evict(effect))

    def delete_node(self, effect: DeleteNode) -> None:
        self._gate.act("cluster.delete_node", lambda: self._inner.delete_node(effect))


class FaultyCloud:
    def __init__(self, inner: Cloud, gate: CallGate) -> None:
        self._inner = inner
        self._gate = gate
        self._last: Sequence[Instance] = ()

    def launch(self, effect: Launch) -> Instance:
        return self._gate.act("cloud.launch", lambda: self._inner.launch(effect))

    def terminate(self, instance_id: str) -> None:
        self._gate.act("cloud.terminate", lambda: self._inner.terminate(instance_id))

    def list_instances(self) -> Sequence[Instance]:
        distortion = self._gate.read("cloud.list_instances")
        if distortion is Distortion.EMPTY:
            return ()
        if distortion is Distortion.STALE and self._last:
            return self._last
        if distortion is Distortion.GONE:
            raise Retryable("the cloud does not answer")
        self._last = self._inner.list_instances()
        if distortion is Distortion.HOLED and self._last:
            hole = self._gate.hole(len(self._last))
            return tuple(one for number, one in enumerate(self._last) if number != hole)
        return self._last


class FaultyMetrics:
    def __init__(self, inner: Metrics, gate: CallGate) -> None:
        self._inner = inner
        self._gate = gate

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        distortion = self._gate.read("metrics.read_cpu")
        if distortion is Distortion.GONE:
            return Reading(problem="the metrics server does not answer")
        reading = self._inner.read_cpu(node_names)
        if distortion is Distortion.ABSURD:
            return replace(reading, value=(float("nan"), -1.0, float("inf"))[self._gate.hole(3)])
        if distortion is Distortion.STALE:
            return replace(reading, value=0.0, at=reading.at - STALE_SECONDS)
        return reading


def _without_one(view: ClusterView, hole: int) -> ClusterView:
    """A node that is not found although it is there; its pods are not shown either."""
    missing = view.nodes[hole].name
    nodes = tuple(node for node in view.nodes if node.name != missing)
    return ClusterView(nodes, tuple(pod for pod in view.pods if pod.node_name != missing), view.budgets)


def _without_pods(view: ClusterView, gate: CallGate) -> ClusterView:
    """Up to three pods are missing, of any node; all nodes are there."""
    holes = {gate.hole(len(view.pods)) for _ in range(MOST_HOLES)}
    pods = tuple(pod for number, pod in enumerate(view.pods) if number not in holes)
    return ClusterView(view.nodes, pods, view.budgets)


def _torn(now: ClusterView, before: ClusterView, old_nodes: bool) -> ClusterView:
    """Nodes as they were and pods as they are, or the other way round."""
    nodes, pods = (before, now) if old_nodes else (now, before)
    return ClusterView(nodes.nodes, pods.pods, pods.budgets)


class FaultyInbox:
    def __init__(self, inner: Inbox, gate: CallGate) -> None:
        self._inner = inner
        self._gate = gate

    def receive(self) -> Sequence[SpotNotice]:
        self._gate.read("inbox.receive")
        return self._inner.receive()

    def acknowledge(self, notice: SpotNotice) -> None:
        self._gate.act("inbox.acknowledge", lambda: self._inner.acknowledge(notice))
