"""Short stories in a small world, each of which runs one operation from beginning to end.

A story is told by runners that may be struck at any call; when one dies another takes over once its
lease has run out. However it is told, it must end well: `StoryRun.problems` says what did not.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count

from ebbtide.adapters.stores.memory import MemoryDatabase, MemoryStore
from ebbtide.engine.loop import guarded_tick
from ebbtide.engine.ports import Ports
from ebbtide.engine.tick import TickReport
from ebbtide.model.check import Check
from ebbtide.model.operation import ScaleDown
from ebbtide.model.pod import Resources
from ebbtide.model.pool import NodeType, Pool, Price
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import LEAVING, Market
from ebbtide.ports import Store
from ebbtide.simulator.checker.checker import Checker, WatchedStore
from ebbtide.simulator.faults.catalogue import CrashPlan, FaultPlan
from ebbtide.simulator.faults.ports import RunnerCrashed, faulty_ports
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCloud, SimCluster, SimInbox, SimMetrics, SimNotifier
from ebbtide.simulator.world.rules import BudgetSpec, Demand, Kind, Rules, Span, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import World

START = 1_700_000_000
TICK_SECONDS = 30
QUIET_TICKS = 12
"""A struck story ends after so many ticks in which all was well: longer than any timer of these settings."""
ZONES = ("a", "b")
PLAIN = Rules()
SMALL = NodeType("small", Resources(2000, 4096), 20, Price(Decimal("0.01"), "EUR", "test"))
POOL = Pool("general", (SMALL,), ZONES)
SPOT_POOL = Pool("spot", (replace(SMALL, spot_price=SMALL.price),), ZONES, Market.SPOT)
SETTINGS = Settings(
    pools=(POOL, SPOT_POOL),
    min_workers=2,
    max_workers=5,
    pending_up_seconds=60,
    idle_down_seconds=60,
    cooldown_up_seconds=60,
    cooldown_down_seconds=60,
    lock_ttl_seconds=90,
    spot_lock_ttl_seconds=60,
    join_timeout_seconds=240,
    orphan_grace_seconds=300,
)


def failed_checks(report: TickReport) -> list[Check]:
    """The first check that failed of each action that the tick did not take."""
    assert report.decision is not None
    return [verdict.failed for verdict in report.decision.verdicts if verdict.failed is not None]


def nothing_happens(world: World, store: Store) -> None:
    """Between two ticks of most stories."""


@dataclass(frozen=True)
class Story:
    name: str
    build: Callable[[], World]
    nodes_at_the_end: int
    settings: Settings = SETTINGS
    ticks: int = 50
    """How many it may take at most, however it is disturbed."""
    before_tick: Callable[[World, Store], None] = nothing_happens


@dataclass
class StoryRun:
    """One run of a story, over one world and one store."""

    story: Story
    world: World = field(init=False)
    clock: VirtualClock = field(init=False)
    store: Store = field(init=False)
    checker: Checker = field(init=False)
    notifier: SimNotifier = field(default_factory=SimNotifier)
    crashes: int = 0
    sentences: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.clock = VirtualClock(START)
        self.world = self.story.build()
        self.checker = Checker(self.world, self.story.settings)
        self.store = WatchedStore(MemoryStore(self.clock, database=MemoryDatabase()), self.checker)
        self._ids = count(1)
        self._owners = count(1)

    def ports(self, plan: FaultPlan) -> Ports:
        opened = Ports(
            store=self.store,
            cluster=SimCluster(self.world, self.clock),
            cloud=SimCloud(self.world, self.clock),
            metrics=SimMetrics(self.world, self.clock),
            inbox=SimInbox(self.world, self.clock),
            notifier=self.notifier,
            clock=self.clock,
            new_id=lambda: f"id-{next(self._ids):06d}",
        )
        return faulty_ports(opened, plan, self._disturbed)

    def _disturbed(self) -> None:
        self.world.disturbances += 1

    def tell(self, plan: CrashPlan) -> None:
        """The first runner has the plan; any later one is undisturbed."""
        runner, owner = self.ports(plan), f"runner-{next(self._owners)}"
        quiet = 0
        for _ in range(self.story.ticks):
            self.story.before_tick(self.world, self.store)
            try:
                self.tick(runner, owner)
            except RunnerCrashed as crash:
                self.crashes += 1
                self.sentences.append(str(crash))
                runner, owner = self.ports(CrashPlan()), f"runner-{next(self._owners)}"
            self.wait(TICK_SECONDS)
            quiet = quiet + 1 if plan.struck and not self.problems() else 0
            if quiet == QUIET_TICKS:
                break
        self.checker.finish(self.store.load())

    def tick(self, runner: Ports | None = None, owner: str = "runner") -> TickReport:
        """One tick by a runner, undisturbed where none is named."""
        opened = self.ports(CrashPlan()) if runner is None else runner
        report = guarded_tick(opened, self.story.settings, owner, TICK_SECONDS)
        self.sentences.append(report.says)
        return report

    def wait(self, seconds: float) -> None:
        self.clock.sleep(seconds)
        self.world.advance_to(self.clock.now())

    def tick_until(self, reached: Callable[[Record], bool], runner: Ports | None = None) -> Record:
        """Tick until the record is as wished, without waiting after the last tick."""
        for _ in range(self.story.ticks):
            self.story.before_tick(self.world, self.store)
            self.tick(runner)
            if reached(self.record):
                return self.record
            self.wait(TICK_SECONDS)
        raise AssertionError(f"never reached; the last tick said: {self.sentences[-1]}")

    @property
    def record(self) -> Record:
        return self.store.load()

    def ready_workers(self) -> int:
        return sum(1 for node in self.world.inventory.nodes.values() if node.worker and node.ready)

    def problems(self) -> list[str]:
        found = list(map(str, self.checker.violations))
        record = self.record
        if record.operation is not None:
            found.append(f"{record.operation.id} is still open: {record.operation}")
        found += [f"{spot.id} is still open: {spot}" for spot in record.spots]
        if record.set_aside is not None:
            found.append(f"{record.set_aside.id} was set aside")
        for node in self.world.inventory.nodes.values():
            if node.worker and node.unschedulable:
                found.append(f"{node.name} is left cordoned")
            if node.owner is not None or LEAVING in node.taints:
                found.append(f"{node.name} is left with our mark")
        if self.ready_workers() != self.story.nodes_at_the_end:
            found.append(f"{self.ready_workers()} workers at the end, not {self.story.nodes_at_the_end}")
        waiting = [pod.full_name for pod in self.world.inventory.pods.values() if pod.waiting]
        if waiting:
            found.append(f"{waiting[0]} still waits")
        return found


def small_world(rules: Rules, seed: int = 1) -> World:
    """A control plane, and on every node a DaemonSet pod, so no node ever looks empty."""
    world = World(rules, SETTINGS.pools, seed, START)
    world.add_control_plane("a")
    agent = pod_template("agent", 50, 64, "kube-system")
    world.add_workload(WorkloadSpec(agent, Kind.DAEMON_SET))
    return world


def _deployment(world: World, name: str, replicas: int, cpu_milli: int, budget: int | None = None) -> None:
    spec = WorkloadSpec(pod_template(name, cpu_milli, 256), demand=Demand(low=replicas), use_fraction=0.1)
    budgets = [] if budget is None else [BudgetSpec(f"{name}-budget", spec.key, max_unavailable=budget)]
    world.add_workload(spec, *budgets)


def idle_cluster(rules: Rules = PLAIN) -> World:
    """Four workers with so little to do that two can go."""
    world = small_world(rules)
    for zone in ("a", "b", "a", "b"):
        world.add_node("general", "small", zone)
    _deployment(world, "web", 4, 300, budget=1)
    volume = WorkloadSpec(
        pod_template("db", 200, 256), Kind.STATEFUL_SET, Demand(low=2), use_fraction=0.1, volume=True
    )
    world.add_workload(volume)
    return world


def busy_cluster(rules: Rules = PLAIN) -> World:
    """Two full workers and pending pods."""
    world = small_world(rules)
    for zone in ZONES:
        world.add_node("general", "small", zone)
    _deployment(world, "web", 9, 600)
    return world


def spot_cluster(kind: str, rules: Rules = PLAIN) -> World:
    world = small_world(rules)
    for zone in ZONES:
        world.add_node("general", "small", zone)
    node = world.add_node("spot", "small", "a", Market.SPOT)
    _deployment(world, "web", 5, 600, budget=2)
    machine = next(m for m in world.machines.book.machines.values() if m.node.name == node.name)
    world.plan(START + 70, kind, machine.instance.id)
    return world


def stubborn_cluster() -> World:
    """One worker more than needed, two pods of one budget on each, and time for that budget to change."""
    world = small_world(Rules())
    for zone in ("a", "b", "a"):
        world.add_node("general", "small", zone)
    _deployment(world, "web", 6, 300, budget=1)
    return world


def no_more_evictions(world: World, store: Store) -> None:
    """Once the drain is in progress, the budget allows no further eviction, ever."""
    if isinstance(store.load().operation, ScaleDown):
        specs = world.controllers.budget_specs
        specs[:] = [replace(spec, max_unavailable=0) for spec in specs]


def first_never_joins(world: World, store: Store) -> None:
    for machine in world.machines.book.machines.values():
        if machine.instance.key.endswith("-0"):
            machine.joins = False
            return


def interrupt_the_target(world: World, store: Store) -> None:
    """The cloud takes the very node that is being drained."""
    operation = store.load().operation
    if isinstance(operation, ScaleDown) and not world.incidents.mail.interruptions:
        world.plan(world.now, "interrupt", operation.removals[0].instance_id)


def no_room_in_zone_a() -> World:
    world = busy_cluster()
    world.plan(START, "capacity", "a/on-demand/small=0")
    return world


NO_REMOVALS = replace(SETTINGS, cpu_down=0.0)
IMPATIENT = replace(
    SETTINGS, drain_timeout_seconds=60, stuck_seconds=240, drain_retry_seconds=10, node_rest_seconds=86_400
)
STORIES = (
    Story("scale-down", idle_cluster, 2),
    Story("scale-down with a late bind", lambda: idle_cluster(Rules(late_bind_seconds=5)), 2),
    Story("scale-down that is interrupted", idle_cluster, 2, before_tick=interrupt_the_target),
    Story("scale-down that sticks", stubborn_cluster, 3, IMPATIENT, before_tick=no_more_evictions),
    Story("scale-up", busy_cluster, 3, NO_REMOVALS),
    Story("scale-up unseen for a minute", lambda: busy_cluster(Rules(invisible_seconds=60)), 3, NO_REMOVALS),
    Story("scale-up without capacity in one zone", no_room_in_zone_a, 3, NO_REMOVALS),
    Story(
        "scale-up that never joins",
        lambda: busy_cluster(Rules(boot=Span(40, 50))),
        3,
        NO_REMOVALS,
        before_tick=first_never_joins,
    ),
    Story("interruption", lambda: spot_cluster("interrupt"), 3, NO_REMOVALS),
    Story(
        "interruption at the maximum",
        lambda: spot_cluster("interrupt"),
        3,
        replace(NO_REMOVALS, max_workers=3),
    ),
    Story("rebalance", lambda: spot_cluster("rebalance"), 3, NO_REMOVALS),
)
