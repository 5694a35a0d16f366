"""The processes that tick in a story: a daemon that stays, or a Lambda that is new for each tick; and their
time: what is due happens at its very second, also while a runner sleeps in the middle of a tick.

The daemon keeps its lease, its short times and what it has in memory; policies are looked at by a loop of
its own. A Lambda begins from nothing, holds the lease of a run, has 120 s less one call, and looks at the
policies after the nodes, as `entrypoints.aws_lambda` does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from heapq import heappop, heappush
from math import inf

from ebbtide.engine.loop import Nudge, fail_if_blind, for_a_daemon, run_once
from ebbtide.engine.ports import Ports, observe
from ebbtide.engine.scale_to_zero.scaling import RoundReport, Scaling, ScalingPorts
from ebbtide.engine.steady import Steady, Still
from ebbtide.engine.tick import TickReport, tick
from ebbtide.model.record import CLUSTER_LEASE, changed
from ebbtide.model.settings import STEP_SECONDS, Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.simulator.faults.catalogue import RandomPlan
from ebbtide.simulator.faults.policy_ports import faulty_scaling
from ebbtide.simulator.faults.ports import faulty_ports
from ebbtide.simulator.run.runner import Stage, policies_of, ports_of
from ebbtide.simulator.story.events import (
    Crashes,
    StoryCloud,
    StoryCluster,
    StoryMetrics,
    StoryPlayers,
    StorySignals,
    StoryWorkloads,
    Trouble,
)
from ebbtide.simulator.story.recorder import Recorder
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimSignals, SimWorkloads

LAMBDA_SECONDS = 120.0
LEAST_ROUND_SECONDS = 30.0
Stop = Callable[[], None]
_Planned = tuple[float, int, Stop]


@dataclass(slots=True)
class Backstage:
    """What all processes of a story share."""

    stage: Stage
    trouble: Trouble
    recorder: Recorder
    plan: RandomPlan
    """What goes wrong by chance."""
    has_policies: bool

    def opened(self) -> Ports:
        stage = self.stage
        ports = ports_of(stage)
        return replace(
            ports,
            cluster=StoryCluster(ports.cluster, stage.world, self.trouble),
            cloud=StoryCloud(ports.cloud, stage.world, self.trouble),
            metrics=StoryMetrics(ports.metrics, stage.world, self.trouble),
            players=StoryPlayers(stage.world, self.trouble),
            urgencies=stage.world.urgencies,
            arrived_at=stage.world.arrived_at,
        )

    def scaling_ports(self, ports: Ports) -> ScalingPorts:
        stage = self.stage
        workloads = SimWorkloads(stage.world, stage.clock)
        return ScalingPorts(
            store=ports.store,
            policies=policies_of(stage),
            workloads=StoryWorkloads(workloads, stage.world, self.trouble, self.recorder.scaled),
            signals=StorySignals(SimSignals(stage.world, stage.clock), stage.world, self.trouble),
            notifier=ports.notifier,
            clock=ports.clock,
            new_id=ports.new_id,
            cluster=ports.cluster,
        )

    def api(self) -> Scaling:
        """What the process behind the API would use: it does not die with a runner."""
        return Scaling(self.scaling_ports(self.opened()), self.stage.zero, self.stage.settings)


class Process:
    """One process with its own ports and memory. Once it has crashed, it cannot be used again."""

    def __init__(self, backstage: Backstage, owner: str, stays: bool) -> None:
        stage = backstage.stage
        self.owner = owner
        self._stage = stage
        self._stays = stays
        self._settings = for_a_daemon(stage.settings) if stays else stage.settings
        plan = Crashes(backstage.trouble, backstage.plan)
        ports = backstage.opened()
        if stays and stage.settings.forecast.enabled:
            ports = stage.look_ahead(stage.settings, ports)
        self.scaling: Scaling | None = None
        if backstage.has_policies:
            opened = faulty_scaling(backstage.scaling_ports(ports), plan, self._disturb)
            ahead = stays and stage.settings.forecast.enabled
            self.scaling = Scaling(replace(opened, looks_ahead=ahead), stage.zero, self._settings)
        self._expecting = ports.expecting
        self._ports = replace(
            faulty_ports(ports, plan, self._disturb),
            settings_now=self._in_effect,
            expecting=self._expected,
            urgencies=lambda: ports.urgencies() + (self.scaling.wakes() if self.scaling is not None else 0),
        )

    def nudge(self) -> Nudge:
        """What came up since now; a Lambda is not nudged."""
        return Nudge(self._ports)

    def tick(self, interval_seconds: float) -> TickReport:
        timeout = self._settings.request_timeout_seconds
        if self._stays:
            budget = max(interval_seconds, timeout)
        else:
            budget = max(LAMBDA_SECONDS - timeout, LAMBDA_SECONDS / 2)
        deadline = self._ports.clock.now() + budget
        if self._stays:
            return tick(self._ports, self._settings, self.owner, deadline, keeps_lease=True)
        return run_once(self._ports, self._settings, self.owner, deadline)

    def still(self, at: float, seconds: float) -> Still | None:
        """What the tick of that time does, and those that follow every so many seconds, where nothing happens
        before; None where that is not known, as where policies have a say or calls may fail. A forecast may
        ask for something else with its next step."""
        thinking, record = self._ports.thinking, self._stage.checker.record
        sound = self.scaling is None and not self._stage.world.rules.call_seconds
        if not sound or not self._stays or not isinstance(thinking, Steady) or record is None:
            return None
        still = thinking.still(record, int(at), seconds)
        if still is None or not self._settings.forecast.enabled:
            return still
        step = record.ticked_at // STEP_SECONDS
        return replace(still, until=min(still.until, (step + 1) * STEP_SECONDS))

    def look(self) -> Snapshot:
        """What a tick of now would see."""
        return observe(self._ports, self._settings)

    def sees_again(self, snapshot: Snapshot) -> bool:
        """Whether the last tick saw the same, as far as is known without asking what it made of it."""
        thinking = self._ports.thinking
        return isinstance(thinking, Steady) and thinking.sees_again(snapshot)

    def computed(self) -> bool:
        """Whether the decision of the last tick was computed, and not that of a tick before used again."""
        thinking = self._ports.thinking
        return not isinstance(thinking, Steady) or not thinking.used_last

    def stand(self) -> None:
        """Leave behind what a tick of now would that sees what the last one saw."""
        store, record = self._ports.store, self._stage.checker.record
        assert record is not None, "the last tick wrote it"
        lease = store.acquire(CLUSTER_LEASE, self.owner, self._settings.lock_ttl_seconds)
        store.write(changed(record, ticked_at=int(self._ports.clock.now())), lease)

    def finish(self, report: TickReport) -> None:
        """A Lambda that could not see its cluster or cloud fails."""
        if not self._stays:
            fail_if_blind(self._ports, report)

    def round(self, seconds: float) -> RoundReport | None:
        """One look at the policies, where there can be any."""
        if self.scaling is None:
            return None
        return self.scaling.round(self.owner, self._ports.clock.now() + max(seconds, LEAST_ROUND_SECONDS))

    def _in_effect(self, settings: Settings) -> Settings:
        """What policies make of the settings; the checker judges by the same."""
        now = settings if self.scaling is None else self.scaling.settings_now(settings)
        self._stage.checker.follow(now)
        return now

    def _expected(self, settings: Settings, snapshot: Snapshot) -> Settings:
        """What a forecast adds to them; nodes that it keeps are kept for the checker as well."""
        wanted = self._expecting(settings, snapshot)
        self._stage.checker.expects(wanted.headroom[len(settings.headroom) :])
        return wanted

    def _disturb(self) -> None:
        self._stage.world.disturbances += 1


class StoryClock(VirtualClock):
    """Stops at each time for which something is planned. What is planned `late` happens only when time moves
    on from there, so a tick of that second comes before it."""

    def __init__(self, now: float) -> None:
        super().__init__(now)
        self._planned: list[_Planned] = []
        self._late: list[_Planned] = []
        self._count = 0
        self.follow: Callable[[float], None] = lambda _: None
        """Lets the world catch up with a moment, before what is planned there happens."""

    def plan(self, at: float, stop: Stop, late: bool = False) -> None:
        """Those of one moment happen in the order in which they were planned."""
        plans = self._late if late else self._planned
        self._count += 1
        heappush(plans, (at, self._count, stop))

    @property
    def next_at(self) -> float:
        """When something is planned next, except what is late."""
        return self._next(self._planned)

    def happen(self) -> None:
        """Whatever is due by now, except what is late."""
        while self._planned and self._planned[0][0] <= self.now():
            self.follow(self.now())
            heappop(self._planned)[2]()

    def finish(self) -> None:
        """Time moves on from here for the last time."""
        while self._late and self._late[0][0] <= self.now():
            self.follow(self.now())
            heappop(self._late)[2]()

    def jump(self, seconds: float) -> None:
        target = self.now() + seconds
        if seconds <= 0:
            super().jump(seconds)
            return
        self.finish()
        while (following := min(self._next(self._planned), self._next(self._late))) <= target:
            super().jump(max(following - self.now(), 0.0))
            self.happen()
            if following == target:
                return
            self.finish()
        super().jump(max(target - self.now(), 0.0))

    @staticmethod
    def _next(plans: list[_Planned]) -> float:
        return plans[0][0] if plans else inf
