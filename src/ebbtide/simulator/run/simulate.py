"""Run the real engine against a simulated world on virtual time.

    result = simulate("day", seed=1, faults=("crash",), on_tick=show)
    print(result.to_json())

The same scenario, seed and faults give the same bytes. A runner that crashes is followed by a new one
with a new owner id after a pause; it must wait for the lease of the dead one like anybody else. `compared`
says what consolidation saves in the same story, and what it stirs up for that.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from math import ceil
from typing import Any

import msgspec

from ebbtide.core.nodes.offers import currencies
from ebbtide.engine.rounds import InvariantBroken
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import EbbtideError, Unanswered, Usage
from ebbtide.model.log import LogKind
from ebbtide.model.pool import Pool
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.simulator.checker.consolidation import Repacked
from ebbtide.simulator.checker.sleepers import Visitor, Watchman
from ebbtide.simulator.checker.violations import ViolationKind
from ebbtide.simulator.faults.catalogue import check_names, mend, plan_for, spoil
from ebbtide.simulator.faults.environment import Mischief
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.run.frames import Frame, describe, draw
from ebbtide.simulator.run.runner import Runner, policies_of, ports_of, scaling_of, stage_of, store_of
from ebbtide.simulator.run.scenarios import Scenario, build
from ebbtide.simulator.world.world import CURRENCY

PAUSE_SECONDS = 20.0
INBOX_SECONDS = 2.0
JUMP_CHANCE = 0.02
JUMPS_SECONDS = (-3600.0, -60.0, 60.0, 600.0, 7200.0)
SKEW_SECONDS = 5.0
"""How far a runner's clock may always be off; less than the margin of a lease."""
RESTART_CHANCE = 0.1
NESTED = 2
"""How many runners may be frozen at once: the one that took over freezes as well, and a third takes over."""

SHOW_OLD_PODS = frozenset({"stale-list", "torn-view", "pod-holes"})

OnTick = Callable[[Frame], None]
COMPARED = ("cost", "node_hours", "launched", "removed", "evictions", "pending_pod_seconds", "violations")
"""What is shown of the run without it; all else is the same or means nothing there."""


@dataclass(frozen=True, slots=True)
class Result:
    scenario: str
    seed: int
    faults: tuple[str, ...]
    ticks: int
    sentences: int
    launched: int
    removed: int
    evictions: int
    interruptions: int
    node_hours: float
    cost: str
    currency: str
    pending_pod_seconds: int
    crashes: int
    failed_ticks: int
    alarms: int
    strikes: dict[str, int]
    consolidation: Repacked
    violations: tuple[str, ...] = field(default=())

    def to_json(self) -> str:
        return msgspec.json.encode(self).decode()


def simulate(name: str, seed: int, faults: Sequence[str] = (), on_tick: OnTick | None = None) -> Result:
    check_names(faults)
    return Simulation(build(name, seed), faults, on_tick).run()


class Simulation:
    def __init__(self, scenario: Scenario, faults: Sequence[str] = (), on_tick: OnTick | None = None) -> None:
        self.scenario = scenario
        self.faults = tuple(dict.fromkeys((*scenario.faults, *faults)))
        self.stage = stage_of(scenario.world, scenario.settings)
        self.stage.checker.clocks_jump = "clock-jump" in self.faults
        self.stage.checker.sees_old_pods = not SHOW_OLD_PODS.isdisjoint(self.faults)
        self.stage.keeps_inputs = False
        self._store = store_of(self.stage)
        self._visitor = Visitor(
            self._visitors_scaling, scenario.policies, scenario.visits, f"visits/{scenario.seed}"
        )
        self._watchman = self._settle_policies()
        self._on_tick = on_tick
        self._random = random.Random(f"{scenario.name}/{scenario.seed}")
        self._plan = plan_for(self.faults, scenario.seed)
        self._plan.on_stall = self._while_stalled
        self._mischief = Mischief(self.stage, self.faults, f"mischief/{scenario.name}/{scenario.seed}")
        self._leaving: Runner | None = None
        """One that is still on the configuration before, while a new one is rolled out."""
        self._leaves_at = 0.0
        self._due = list(scenario.roll_outs)
        self._began_at = self.stage.clock.now()
        self._frozen = 0
        """Runners that are frozen now, one in the freeze of the other."""
        self._owners = self.ticks = self.crashes = self.failed_ticks = self.sentences = 0
        self._events: list[str] = []
        machines = scenario.world.machines
        self._before = (machines.node_seconds(), machines.cost())
        spoil(scenario.world, self.faults)

    def run(self) -> Result:
        scenario, clock = self.scenario, self.stage.clock
        end = clock.now() + scenario.duration_seconds
        runner = self._new_runner()
        second = self._new_runner(skew_seconds=2.0) if "second-runner" in self.faults else None
        while clock.now() < end:
            self._calm_down(end - clock.now() <= scenario.calm_seconds)
            due = clock.now() + scenario.tick_seconds
            self._mischief.before_tick(self._plan.quiet)
            if not self._plan.quiet:
                self._visitor.come()
            runner = self._restarted(self._rolled_out(runner))
            self._jump_clock(runner)
            if not self._tick(runner):
                clock.sleep(PAUSE_SECONDS)
                runner = self._new_runner()
                continue
            if second is not None:
                if self._leaving is None and second.settings is not self.stage.settings:
                    second = self._new_runner(skew_seconds=2.0)
                self._wait(due - scenario.tick_seconds / 2)
                second = second if self._tick(second) else self._new_runner(skew_seconds=2.0)
            self._tick_leaving(due - scenario.tick_seconds / 4)
            self._wait(due)
        self.stage.world.advance_to(clock.now())
        self.stage.checker.finish(self._store.load())
        self.stage.checker.report(self._watchman.finish() if self._watchman else ())
        return self._result()

    def _rolled_out(self, runner: Runner) -> Runner:
        """The runner from now on: with the new configuration, once that is rolled out."""
        now = self.stage.clock.now()
        if self._leaving is not None and now >= self._leaves_at:
            self._leaving = None
        while self._due and now >= self._began_at + self._due[0].after_seconds:
            due = self._due.pop(0)
            self._leaving, self._leaves_at = runner, now + due.overlap_seconds
            self.stage.settings = due.settings
            self.stage.world.machines.book.pools |= _offered(
                self.stage.world.machines.book.pools, due.settings.pools
            )
            self._events.append("a new configuration is rolled out")
            runner = self._new_runner()
        return runner

    def _tick_leaving(self, at: float) -> None:
        if self._leaving is None or self.stage.clock.now() >= self._leaves_at:
            return
        self._wait(at)
        if not self._tick(self._leaving):
            self._leaving = self._new_runner(settings=self._leaving.settings)

    def _settle_policies(self) -> Watchman | None:
        """Write the policies of the scenario, where it has any, and watch them."""
        if not self.scenario.policies:
            return None
        self.stage.policies, self.stage.zero = self.scenario.policies, self.scenario.zero
        rows = policies_of(self.stage)
        for policy in self.scenario.policies:
            rows.put_policy(policy)
        return Watchman(self.stage.world, rows, self._visitor, room=not self.scenario.faults)

    def _visitors_scaling(self) -> Scaling:
        return scaling_of(self.stage, ports_of(self.stage), self._plan)

    def _new_runner(self, skew_seconds: float = 0.0, settings: Settings | None = None) -> Runner:
        self._owners += 1
        plan = self._plan if self.faults else None
        if "clock-skew" in self.faults:
            skew_seconds += self._random.uniform(-SKEW_SECONDS, SKEW_SECONDS)
        return Runner(self.stage, f"runner-{self._owners}", plan, skew_seconds, settings)

    def _tick(self, runner: Runner) -> bool:
        """One tick; False when the runner did not survive it."""
        self.ticks += 1
        says, alive, quiet = "", True, False
        try:
            report = runner.tick(self.scenario.tick_seconds)
            says, quiet = report.says, report.quiet
            self.sentences += 1
        except RunnerCrashed as crash:
            self.crashes += 1
            says, alive = f"{runner.owner} {crash}", False
            self._events.append(f"{says}; another takes over")
        except InvariantBroken as error:
            self.stage.checker.say(ViolationKind.INVARIANT, "", f"a machine broke its own invariant: {error}")
        except EbbtideError as error:
            self.failed_ticks += 1
            says = f"tick failed: {error}"
        except Exception as error:  # a simulation reports a bug in the engine like any other violation
            self.stage.checker.say(
                ViolationKind.TICK_FAILED,
                "",
                f"the tick failed unexpectedly: {type(error).__name__}: {error}",
            )
        self.stage.checker.report(self._watchman.look() if self._watchman else ())
        self._show(says, quiet, faulty=not alive)
        return alive

    def _wait(self, until: float) -> None:
        """Let time pass, looking into the inbox often, as the daemon does; not while nothing happens."""
        clock, world = self.stage.clock, self.stage.world
        while clock.now() < until:
            happens = clock.now() if world.incidents.mail.arrived else min(world.timeline.next_at, until)
            looks = max(1, ceil((happens - clock.now()) / INBOX_SECONDS))
            clock.sleep(min(looks * INBOX_SECONDS, until - clock.now()))
            world.advance_to(clock.now())
            if world.incidents.mail.arrived:
                return

    def _calm_down(self, calm: bool) -> None:
        if calm and not self._plan.quiet:
            mend(self.stage.world, self.faults)
        self._plan.quiet = calm

    def _restarted(self, runner: Runner) -> Runner:
        stops = "restart" in self.faults and not self._plan.quiet and self._random.random() < RESTART_CHANCE
        return self._new_runner() if stops else runner

    def _jump_clock(self, runner: Runner) -> None:
        if "clock-jump" not in self.faults:
            return
        jumps = not self._plan.quiet and self._random.random() < JUMP_CHANCE
        runner.clock.seconds = self._random.choice(JUMPS_SECONDS) if jumps else runner.skew_seconds

    def _while_stalled(self, verb: str) -> None:
        """The frozen runner's lease runs out; another takes over, and then the frozen one continues.

        An eviction carries no token, so only its client's timeout bounds how late it may land: what the
        other one does meanwhile, and how long that is frozen, counts as well.
        """
        deepest = NESTED if "nested-stall" in self.faults else 1
        if self._frozen >= deepest:
            return
        self._frozen += 1
        self._events.append("the runner froze and another took over")
        settings, clock = self.scenario.settings, self.stage.clock
        late, began = verb == "cluster.evict", clock.now()
        clock.sleep(settings.request_timeout_seconds / 2 if late else settings.lock_ttl_seconds + 5)
        self._owners += 1
        plan = self._plan if self._frozen < deepest else None
        judged_by = self.stage.checker.settings
        self._tick(Runner(self.stage, f"runner-{self._owners}", plan))
        self.stage.checker.follow(judged_by)
        self._frozen -= 1
        if late and clock.now() - began >= settings.request_timeout_seconds:
            raise Unanswered(f"{verb} was not sent within {settings.request_timeout_seconds} s")

    def _show(self, says: str, quiet: bool, faulty: bool) -> None:
        if self._on_tick is None:
            self._events.clear()
            return
        world, record = self.stage.world, self._readable()
        names = [node.name for node in world.view().workers]
        self._on_tick(
            Frame(
                at=world.now,
                nodes=draw(world, record),
                pods=len(world.inventory.pods),
                waiting=len(world.inventory.waiting),
                cpu=world.usage.average(names),
                operation=describe(record),
                says=says,
                cost=self._cost(),
                currency=self._currency(),
                quiet=quiet,
                faulty=faulty,
                events=tuple(self._events),
            )
        )
        self._events.clear()

    def _readable(self) -> Record:
        """The record, or the last that was written where a fault has made it unreadable."""
        try:
            return self._store.load()
        except EbbtideError:
            return self.stage.checker.record or Record(self.scenario.settings.cluster)

    def _currency(self) -> str:
        return next(iter(currencies(self.scenario.settings.pools)), CURRENCY)

    def _cost(self) -> Decimal:
        return self.stage.world.machines.cost() - self._before[1]

    def _result(self) -> Result:
        world = self.stage.world
        return Result(
            scenario=self.scenario.name,
            seed=self.scenario.seed,
            faults=self.faults,
            ticks=self.ticks,
            sentences=self.sentences,
            launched=world.machines.book.launched,
            removed=world.removed,
            evictions=world.evictions,
            interruptions=world.incidents.mail.interruptions,
            node_hours=round((world.machines.node_seconds() - self._before[0]) / 3600, 3),
            cost=str(self._cost().quantize(Decimal("0.0001"))),
            currency=self._currency(),
            pending_pod_seconds=round(world.inventory.pending_pod_seconds),
            crashes=self.crashes,
            failed_ticks=self.failed_ticks,
            alarms=sum(1 for entry in self.stage.notifier.entries if entry.kind is LogKind.ALARM),
            strikes=dict(sorted({**self._plan.counts, **self._mischief.counts}.items())),
            consolidation=self.stage.bookkeeper.totals,
            violations=tuple(map(str, self.stage.checker.violations)),
        )


def _offered(known: Mapping[str, Pool], pools: Sequence[Pool]) -> dict[str, Pool]:
    """What the cloud sells under the names of these pools: a runner that leaves may ask for what was sold."""
    offered = {}
    for pool in pools:
        before = known[pool.name].types if pool.name in known else ()
        kept = tuple(one for one in before if pool.type_named(one.name) is None)
        offered[pool.name] = replace(pool, types=(*pool.types, *kept))
    return offered


def needs_consolidation(scenario: Scenario) -> None:
    if not scenario.settings.consolidation.enabled:
        raise Usage(
            f"scenario {scenario.name} has no consolidation, so there is nothing to compare: nothing "
            "was played; leave out --compare, or take --scenario consolidation"
        )


def without_consolidation(scenario: Scenario) -> Scenario:
    """Nodes then go by scale-down alone, which a story may have switched off in favour of consolidation."""
    settings = scenario.settings
    return replace(
        scenario,
        settings=replace(
            settings,
            cpu_down=settings.cpu_down or Settings().cpu_down,
            consolidation=replace(settings.consolidation, enabled=False),
        ),
    )


def compared(result: Result, without: Result) -> str:
    """The JSON of the first, with the numbers of the second and what is saved compared to them."""
    data: dict[str, Any] = msgspec.to_builtins(result)
    other: dict[str, Any] = msgspec.to_builtins(without)
    saved = Decimal(without.cost) - Decimal(result.cost)
    data["without_consolidation"] = {name: other[name] for name in COMPARED}
    data["saved"] = str(saved)
    data["saved_percent"] = round(float(100 * saved / Decimal(without.cost)), 2)
    return msgspec.json.encode(data).decode()
