"""Small worlds to be explored: a few nodes in two zones, two or three runners, and what may befall them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from decimal import Decimal

from ebbtide.model.consolidation import ConsolidationSettings
from ebbtide.model.pod import Resources
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Market
from ebbtide.simulator.run.runner import Stage
from ebbtide.simulator.world.rules import BudgetSpec, Demand, Kind, Rules, Span, WorkloadSpec, pod_template
from ebbtide.simulator.world.world import World
from tests.explorer.sleeping import drowsy_world, lull
from tests.simulation.stories import POOL, SPOT_POOL, START, small_world

STEP = 30
PLAIN = Rules(
    boot=Span(20, 20), join=Span(20, 20), ready=Span(10, 10), terminate=Span(20, 20), detach=Span(5, 5)
)
SETTINGS = Settings(
    pools=(POOL, SPOT_POOL),
    min_workers=2,
    max_workers=4,
    max_batch_up=1,
    pending_up_seconds=30,
    idle_down_seconds=30,
    cooldown_up_seconds=30,
    cooldown_down_seconds=30,
    lock_ttl_seconds=60,
    spot_lock_ttl_seconds=60,
    lease_margin_seconds=5,
    join_timeout_seconds=150,
    launch_timeout_seconds=120,
    drain_timeout_seconds=120,
    drain_attempts=2,
    stuck_seconds=240,
    rebalance_seconds=240,
    node_rest_seconds=600,
    backoff_seconds=30,
    backoff_max_seconds=120,
    offer_rest_seconds=120,
    orphan_grace_seconds=120,
)

Event = tuple[str, str]
"""Kind and subject, as `World.plan` takes them."""


@dataclass(frozen=True)
class Bounds:
    """How many faults, delays of a runner and events of the world one path may hold, each two at most, and
    how many of all together."""

    faults: int
    delays: int
    events: int
    total: int
    steps: int
    """For how many steps of time anything may still go wrong."""

    @property
    def left(self) -> tuple[int, int, int, int]:
        return self.faults, self.delays, self.events, self.total


@dataclass(frozen=True)
class Scene:
    name: str
    build: Callable[[], World]
    settings: Settings
    runners: tuple[str, ...] = ("tick", "tick")
    keeps_lease: bool = False
    calm_steps: int = 40
    """Undisturbed steps after the last that may be disturbed: by then all must be well."""
    prepare: Callable[[Stage], None] = lambda _: None
    """What is in the store at the beginning."""
    events: Callable[[Stage], Sequence[Event]] = lambda _: ()
    serves: bool = True
    """Whether every pod must have a place at the end."""
    quick: Bounds = Bounds(1, 1, 1, 1, 8)
    deep: Bounds = Bounds(2, 2, 1, 2, 8)
    weight: int = 4
    """Of a total that scenes share; less where states take longer, so all get about as much time."""


def _deployment(world: World, name: str, replicas: int, cpu_milli: int, budget: int | None = None) -> None:
    spec = WorkloadSpec(pod_template(name, cpu_milli, 256), demand=Demand(low=replicas), use_fraction=0.1)
    budgets = [] if budget is None else [BudgetSpec(f"{name}-budget", spec.key, max_unavailable=budget)]
    world.add_workload(spec, *budgets)


def idle_world() -> World:
    """Three workers, two of them in one zone, with so little to do that one can go."""
    world = small_world(PLAIN)
    for number, zone in enumerate(("a", "b", "a")):
        world.add_node("general", "small", zone, age_seconds=7200 - number)
    world.add_foreign_node("a", Resources(100, 128))
    _deployment(world, "web", 4, 300, budget=1)
    volume = WorkloadSpec(
        pod_template("db", 200, 256), Kind.STATEFUL_SET, Demand(low=1), use_fraction=0.1, volume=True
    )
    world.add_workload(volume)
    return world


def busy_world() -> World:
    """Two full workers and a pending pod."""
    world = small_world(PLAIN)
    for zone in ("a", "b"):
        world.add_node("general", "small", zone)
    _deployment(world, "web", 7, 600)
    return world


def spot_world(kind: str, *at: int) -> World:
    """A spot worker next to two others; the cloud says at these times that it will take it, or had better."""
    world = small_world(PLAIN)
    for zone in ("a", "b"):
        world.add_node("general", "small", zone)
    node = world.add_node("spot", "small", "a", Market.SPOT)
    _deployment(world, "web", 5, 600, budget=2)
    machine = world.nodes.machine_of(node.name)
    assert machine is not None
    for moment in at:
        world.plan(START + moment, kind, machine.instance.id)
    return world


def workers_die(stage: Stage) -> Sequence[Event]:
    """Any worker may be lost without notice."""
    machines = stage.world.machines.book.machines.values()
    return [("machine-dies", m.instance.id) for m in machines if m.ours and m.instance.alive]


def targets_are_interrupted(stage: Stage) -> Sequence[Event]:
    """The cloud takes back any one worker; and any one may die."""
    machines = stage.world.machines.book.machines.values()
    ids = [m.instance.id for m in machines if m.ours and m.instance.alive and not m.noticed]
    return [*workers_die(stage), *(("interrupt", one) for one in ids)]


def late_joiners(stage: Stage) -> Sequence[Event]:
    """Any machine that seems never to join may do so after all, however late."""
    machines = stage.world.machines.book.machines.values()
    return [("late-join", m.instance.id) for m in machines if m.ours and m.instance.alive and not m.joins]


def people_cordon(stage: Stage) -> Sequence[Event]:
    nodes = stage.world.inventory.nodes.values()
    return [("person-cordons", node.name) for node in nodes if node.worker and not node.unschedulable]


def returning_world() -> World:
    """One worker more than needed, until while it is being drained, slowly, there is work for it again."""
    world = small_world(PLAIN)
    for number, zone in enumerate(("a", "b", "a")):
        world.add_node("general", "small", zone, age_seconds=7200 - number)
    template = replace(pod_template("web", 300, 256), grace_seconds=120)
    spec = WorkloadSpec(template, demand=Demand(low=6), use_fraction=0.1, stop_seconds=100)
    world.add_workload(spec, BudgetSpec("web-budget", spec.key, max_unavailable=1))
    world.plan(START + 50, "wanted", "default/web=15")
    return world


def poor_world(never_join: float, *capacity: str) -> World:
    """Pods are pending, but the cloud has little to give, and what it gives may never join."""
    world = small_world(replace(PLAIN, never_join=never_join))
    for zone in ("a", "b"):
        world.add_node("general", "small", zone)
    _deployment(world, "web", 7, 600)
    for offer in capacity:
        world.plan(START, "capacity", offer)
    return world


def scattered_world() -> World:
    """Four workers with so little on each that fewer would do."""
    world = small_world(PLAIN)
    for number, zone in enumerate(("a", "b", "a", "b")):
        world.add_node("general", "small", zone, age_seconds=7200 - number)
    _deployment(world, "web", 4, 300, budget=2)
    return world


def protected_world() -> World:
    """Two workers more than needed, all of them protected from termination until a person lifts that."""
    world = small_world(PLAIN)
    for number, zone in enumerate(("a", "b", "a", "b")):
        world.add_node("general", "small", zone, age_seconds=7200 - number)
    _deployment(world, "web", 4, 300)
    for machine in world.machines.book.machines.values():
        machine.protected = machine.ours
        world.plan(START + PROTECTED_SECONDS, "unprotect", machine.instance.id)
    return world


def protection_is_lifted(stage: Stage) -> Sequence[Event]:
    """A person may lift it of any one worker, at any time; and any one may die."""
    machines = stage.world.machines.book.machines.values()
    ids = [m.instance.id for m in machines if m.protected and m.instance.alive]
    return [*workers_die(stage), *(("unprotect", one) for one in ids)]


def both_lanes_world() -> World:
    """Two workers more than needed; while one goes there is work for all of them and two more, and the first
    two machines that are launched never join."""
    world = small_world(PLAIN)
    world.machines.never_join = 2
    for number, zone in enumerate(("a", "b", "a", "b")):
        world.add_node("general", "small", zone, age_seconds=7200 - number)
    _deployment(world, "web", 6, 300, budget=1)
    world.plan(START + 70, "wanted", "default/web=33")
    return world


PROTECTED_SECONDS = 200


def silent_world() -> World:
    """One more than needed; the kubelet of the first falls silent, and its instance runs on."""
    world = small_world(replace(PLAIN, unready_seconds=10, lost_pods_seconds=30))
    for number, zone in enumerate(("a", "b", "a")):
        world.add_node("general", "small", zone, age_seconds=7200 - number)
    _deployment(world, "web", 4, 300, budget=1)
    first = next(machine for machine in world.machines.book.machines.values() if machine.ours)
    world.plan(START + 5, "falls-silent", first.instance.id)
    return world


def silence_ends(stage: Stage) -> Sequence[Event]:
    """The silent one may answer again at any time; and any one may die."""
    machines = stage.world.machines.book.machines.values()
    silent = [m.instance.id for m in machines if m.ours and m.instance.alive and not m.reachable]
    return [*workers_die(stage), *(("answers-again", one) for one in silent)]


def aged_world() -> World:
    """One of three workers is older than its pool allows."""
    world = small_world(PLAIN)
    for age, zone in ((9000, "a"), (600, "b"), (500, "a")):
        world.add_node("general", "small", zone, age_seconds=age)
    _deployment(world, "web", 4, 300, budget=1)
    return world


def crumbling_world(listed_seconds: float) -> World:
    """A full cluster at its maximum, of which four of six machines die at once. New ones get the names of the
    dead; those are listed as gone, or no longer listed at all."""
    world = small_world(
        replace(PLAIN, listed_seconds=listed_seconds, unready_seconds=10, lost_pods_seconds=30)
    )
    for number in range(6):
        world.add_node("general", "small", "ab"[number % 2])
    _deployment(world, "web", 6, 1200)
    ours = [machine.instance.id for machine in world.machines.book.machines.values() if machine.ours]
    for one in ours[:4]:
        world.plan(START + 5, "machine-dies", one)
    return world


NO_REMOVALS = replace(SETTINGS, cpu_down=0.0)
CRUMBLING = replace(NO_REMOVALS, max_workers=6, max_batch_up=4, gone_grace_seconds=30)
REPAIRING = replace(NO_REMOVALS, repair=True, repair_after_seconds=30, drain_timeout_seconds=90)
EXPIRING = replace(NO_REMOVALS, pools=(replace(POOL, expire_seconds=7200), SPOT_POOL))
BOTH_LANES = replace(SETTINGS, cooldown_up_seconds=0, max_batch_up=1, max_workers=6)
REPACKING = replace(
    NO_REMOVALS,
    consolidation=ConsolidationSettings(
        enabled=True,
        cooldown_seconds=600,
        min_uptime_seconds=60,
        min_idle_seconds=30,
        min_savings_per_hour=Decimal("0.001"),
        move_cost=Decimal("0.0001"),
        move_timeout_seconds=90,
    ),
)
SCENES = (
    Scene("scale-down", idle_world, SETTINGS, events=targets_are_interrupted),
    Scene("scale-up", busy_world, NO_REMOVALS, events=workers_die),
    Scene(
        "interruption",
        lambda: spot_world("interrupt", 20),
        NO_REMOVALS,
        runners=("tick", "spot", "tick"),
        events=workers_die,
    ),
    Scene(
        "rebalance",
        lambda: spot_world("rebalance", 20),
        NO_REMOVALS,
        runners=("tick", "spot"),
        events=targets_are_interrupted,
    ),
    # Two delays on one path: the runners take turns in the middle of their ticks.
    Scene(
        "taking turns",
        idle_world,
        SETTINGS,
        quick=Bounds(0, 2, 0, 2, 2),
        deep=Bounds(1, 2, 0, 3, 3),
        weight=1,
    ),
    Scene("kept lease", idle_world, SETTINGS, keeps_lease=True, events=workers_die),
    # Where the budget lets one pod go at a time, a full node does not drain within its timeout, and is tried
    # again after its rest. With a rest that outlasts the path each of the four is tried once: two attempts of
    # 120 s and a pause of 30, 1,080 s or 36 steps for all, and after that nothing may be open.
    Scene(
        "demand returns",
        returning_world,
        replace(SETTINGS, node_rest_seconds=3600),
        calm_steps=50,
        events=people_cordon,
        weight=2,
    ),
    # A launch is extended next to one that never joins, while nodes are given back or go. Each of the two
    # that never join costs `join_timeout_seconds` (150), two steps until it is given up and ended (60) and a
    # back-off of up to `backoff_max_seconds` (120): 660 s for both. With a runner frozen for long (120) and a
    # worker to be replaced (launch, boot, join and a step each: 150), all is well after 930 s: 31 steps.
    Scene("both lanes", both_lanes_world, BOTH_LANES, calm_steps=40, events=workers_die),
    # What the cloud refuses is set aside, another removal continues, and it is tried again after that.
    Scene(
        "refused",
        protected_world,
        replace(SETTINGS, stuck_seconds=90),
        events=protection_is_lifted,
        quick=Bounds(1, 1, 1, 1, 11),
        deep=Bounds(2, 2, 1, 2, 11),
        weight=2,
    ),
    # A replacement is launched next to a node that may recover, die, or be taken by the cloud meanwhile.
    Scene("repair", silent_world, REPAIRING, events=silence_ends, quick=Bounds(1, 1, 1, 1, 9), weight=2),
    Scene("expiry", aged_world, EXPIRING, events=targets_are_interrupted, weight=2),
    # What consolidation has emptied is marked for up to half an hour.
    Scene("consolidation", scattered_world, REPACKING, calm_steps=80, events=workers_die),
    # Two departures on one path: somebody wakes the group, and something goes wrong.
    Scene(
        "to zero and back",
        lambda: drowsy_world(PLAIN),
        NO_REMOVALS,
        runners=("idle", "idle", "waker"),
        prepare=lambda stage: lull(stage, STEP),
        quick=Bounds(1, 1, 1, 2, 5),
        deep=Bounds(2, 2, 1, 3, 8),
    ),
    # Services are taken over on the way to zero and given back on the way up, by runners and by a gate.
    Scene(
        "behind the gate",
        lambda: drowsy_world(PLAIN),
        NO_REMOVALS,
        runners=("gate", "idle", "waker"),
        prepare=lambda stage: lull(stage, STEP, gated=True),
        quick=Bounds(1, 1, 1, 1, 4),
        deep=Bounds(1, 1, 1, 2, 6),
    ),
    # Two departures on one path: a machine joins when it was given up, and a runner is frozen before any call
    # that destroys.
    Scene(
        "late joiner",
        lambda: poor_world(1.0, "a/on-demand/small=1", "b/on-demand/small=0"),
        replace(NO_REMOVALS, join_timeout_seconds=60, gone_grace_seconds=30),
        events=late_joiners,
        serves=False,
        quick=Bounds(0, 1, 1, 2, 9),
        deep=Bounds(1, 2, 1, 3, 9),
        weight=1,
    ),
    # What is gone must neither be counted nor keep anything from being launched.
    Scene(
        "mass loss, listed",
        lambda: crumbling_world(3600.0),
        CRUMBLING,
        quick=Bounds(1, 1, 0, 1, 5),
        deep=Bounds(1, 2, 0, 2, 7),
        weight=1,
    ),
    Scene(
        "mass loss, unlisted",
        lambda: crumbling_world(0.0),
        CRUMBLING,
        quick=Bounds(1, 1, 0, 1, 5),
        deep=Bounds(1, 2, 0, 2, 7),
        weight=1,
    ),
    # The small ones last, so no core waits long for another.
    Scene("never joins", lambda: poor_world(1.0, "a/on-demand/small=0"), NO_REMOVALS, serves=False, weight=1),
    Scene(
        "no capacity",
        lambda: poor_world(0.0, "a/on-demand/small=0", "b/on-demand/small=0"),
        NO_REMOVALS,
        serves=False,
        weight=1,
    ),
)
