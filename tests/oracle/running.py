"""Runs compared: the real run of a Lambda in a small simulated world, a drain whose run was killed, and a
machine that joins."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

from ebbtide.core.nodes.timers import track
from ebbtide.core.operations import scale_down
from ebbtide.core.scale_to_zero.node_first import ready_nodes
from ebbtide.engine.loop import fail_if_blind, run_once
from ebbtide.engine.ports import Ports
from ebbtide.errors import Retryable
from ebbtide.model.events import Alarm, AlarmKind
from ebbtide.model.log import LogKind
from ebbtide.model.operation import RemovalState, ScaleDown, SlotState, SpotKind
from ebbtide.model.record import CLUSTER_LEASE, Lease
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import ClusterView, Instance, Market
from ebbtide.narrate import facts_in
from ebbtide.ports import Cloud, Cluster, Store
from ebbtide.simulator.run.runner import Stage, ports_of, stage_of
from ebbtide.simulator.world.rules import Demand, Rules, WorkloadSpec, pod_template
from tests.builders import NOW, make_node, make_pod, make_removal, make_scale_down, make_settings, make_slot
from tests.oracle import runs
from tests.oracle.drawing import Source
from tests.oracle.suite import Report
from tests.simulation.stories import SETTINGS, START, small_world
from tests.unit.operations.builders import (
    advance_slot,
    cordoned,
    fleet,
    make_situation,
    with_instance,
    with_pods,
    with_work,
)

NODES: tuple[dict[str, Any], ...] = (
    {},
    {"ready": False},
    {"unschedulable": True},
    {"pool": "gpu"},
    {"pool": ""},
    {"control_plane": True},
    {"system": True},
)


@dataclass(frozen=True, slots=True)
class Run:
    interrupted: bool
    seconds: int
    """Until its deadline."""
    stops: int
    """Seconds that a pod takes to end."""
    unseen: str
    lease: int
    margin: int
    late: int
    """Seconds after the deadline of a drain."""
    killed: bool
    nodes: tuple[int, ...]


def cases(source: Source) -> Run:
    return Run(
        source.pick((False, True, True)),
        source.pick((8, 20, 45, 90)),
        source.pick((5, 25, 60)),
        source.pick(("", "", "", "cluster", "cloud", "both")),
        source.pick((30, 60, 180, 180)),
        source.pick((5, 5, 10, 20)),
        source.pick((-30, 0, 1, 200)),
        source.pick((False, True)),
        tuple(source.picks(range(len(NODES)), 0, 3)),
    )


def compare(case: Run, report: Report) -> None:
    report.cases["runs"] += 1
    _compare_run(case, report)
    _compare_killed(case, report)
    _compare_joining(case, report)
    nodes = [make_node(f"a{number}", **NODES[kind]) for number, kind in enumerate(case.nodes)]
    awake = runs.pool_is_awake("workers", nodes)
    found = ready_nodes(ClusterView(tuple(nodes)), "workers") > 0
    if awake.answer != "either" and found != awake.allows:
        report.differs(f"{nodes}: awake {found}, the oracle says {awake}")


class BlindCluster:
    """One that cannot be listed; all else is passed on."""

    def __init__(self, inner: Cluster) -> None:
        self._inner = inner

    def read(self) -> ClusterView:
        raise Retryable("the API server cannot be read")

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class BlindCloud:
    def __init__(self, inner: Cloud) -> None:
        self._inner = inner

    def list_instances(self) -> Sequence[Instance]:
        raise Retryable("the cloud cannot be read")

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


class Leases:
    """A store that notes for how long each lease on a notice is taken."""

    def __init__(self, inner: Store) -> None:
        self._inner = inner
        self.seconds: list[int] = []

    def acquire(self, name: str, owner: str, ttl_seconds: int) -> Lease:
        if name != CLUSTER_LEASE:
            self.seconds.append(ttl_seconds)
        return self._inner.acquire(name, owner, ttl_seconds)

    def __getattr__(self, name: str) -> object:
        return getattr(self._inner, name)


def _compare_run(case: Run, report: Report) -> None:
    settings = replace(SETTINGS, spot_lock_ttl_seconds=case.lease, lease_margin_seconds=case.margin)
    stage = _stage(case, settings)
    sound = ports_of(stage)
    leases = Leases(sound.store)
    ports = _blinded(replace(sound, store=cast(Store, leases)), case.unseen)
    deadline = stage.clock.now() + case.seconds
    runs.must_go_on(case.interrupted, stage.clock.now(), deadline)
    failed = ""
    try:
        fail_if_blind(ports, run_once(ports, settings, "a run", deadline))
    except Retryable as error:
        failed = str(error)
    runs.spot_lease(case.lease + case.seconds, settings)
    report.check([runs.spot_lease(seconds, settings) for seconds in leases.seconds], f"{case}: a lease")
    fails = runs.must_fail(case.unseen not in ("cluster", "both"), case.unseen not in ("cloud", "both"))
    if bool(failed) != fails.demands:
        report.differs(f"{case}: {failed or 'ended well'}, the oracle says {fails}")
    alarms = facts_in(sound.store.read_log([LogKind.ALARM]), Alarm)
    told = [alarm for alarm in alarms if alarm.alarm is AlarmKind.OBSERVATION]
    if fails.demands and not told:
        report.differs(f"{case}: it failed without an alarm")
    open_now = [spot for spot in sound.store.load().spots if spot.kind is SpotKind.INTERRUPTION]
    goes_on = runs.must_go_on(bool(open_now), stage.clock.now(), deadline)
    if goes_on.demands:
        report.differs(f"{case}: ended {deadline - stage.clock.now():.0f} s too early, {goes_on.why}")


def _stage(case: Run, settings: Settings) -> Stage:
    world = small_world(Rules())
    for zone in ("a", "b"):
        world.add_node("general", "small", zone)
    node = world.add_node("spot", "small", "a", Market.SPOT)
    spec = WorkloadSpec(
        pod_template("web", 600, 256), demand=Demand(low=5), use_fraction=0.1, stop_seconds=case.stops
    )
    world.add_workload(spec)
    machine = world.nodes.machine_of(node.name)
    assert machine is not None
    if case.interrupted:
        world.plan(START + 16, "interrupt", machine.instance.id)
    world.advance_to(START + 30)
    return stage_of(world, settings)


def _blinded(ports: Ports, unseen: str) -> Ports:
    if unseen in ("cluster", "both"):
        ports = replace(ports, cluster=cast(Cluster, BlindCluster(ports.cluster)))
    if unseen in ("cloud", "both"):
        ports = replace(ports, cloud=cast(Cloud, BlindCloud(ports.cloud)))
    return ports


def _compare_killed(case: Run, report: Report) -> None:
    """A drain as the next run finds it."""
    removal = make_removal(
        "a1", state=RemovalState.DRAINING, attempts=1, drain_deadline=NOW - case.late, since=NOW - 600
    )
    seen = with_pods(fleet(cordoned()), make_pod("web", node_name="a1"))
    record = with_work(make_scale_down(removal), unclean_removal_runs=int(case.killed), ticked_at=NOW - 60)
    settings = make_settings()
    record, _ = track(seen, record, settings, NOW)
    operation = record.operation
    assert isinstance(operation, ScaleDown)
    after = scale_down.advance(operation, make_situation(seen, record=record)).state
    spent = after.removals[0].state is not RemovalState.DRAINING or after.removals[0].retry_at > NOW
    ruling = runs.attempt_is_spent(NOW - case.late, NOW, case.killed)
    if spent != ruling.demands:
        report.differs(f"{case}: {after.removals[0]}, the oracle says {ruling}")


def _compare_joining(case: Run, report: Report) -> None:
    """A machine that was launched; its node is one of those drawn, or not there yet."""
    kind = NODES[case.nodes[0]] if case.nodes else None
    node = make_node("a1", **{"ready": True, "unschedulable": False, **(kind or {}), "pool": "workers"})
    node = replace(node, control_plane=False, system=False)
    snapshot = with_instance(fleet(node), "i-a1", key="op-0")
    if kind is None:
        view = replace(snapshot.cluster, nodes=snapshot.cluster.nodes[1:])
        snapshot = replace(snapshot, cluster=view)
    slot = make_slot(state=SlotState.LAUNCHED, instance_id="i-a1")
    for _ in range(2):
        slot, _ = advance_slot(slot, make_situation(snapshot))
    ruling = runs.has_joined(None if kind is None else node)
    if (slot.state is SlotState.READY) != ruling.demands:
        report.differs(f"{case}: {slot.state} of {node}, the oracle says {ruling}")
