"""The processes that tick in a story: a daemon that stays, or a Lambda that is new for each tick.

The daemon keeps its lease, its short times and what it has in memory; policies are looked at by a loop of its
own. A Lambda begins from nothing, holds the lease of a run, has 120 s less one call, and looks at the
policies after the nodes, as `entrypoints.aws_lambda` does.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from ebbtide.engine.loop import Nudge, for_a_daemon
from ebbtide.engine.outside import Outside
from ebbtide.engine.scaling import RoundReport, Scaling, ScalingOutside
from ebbtide.engine.single_run import fail_if_blind, run_once
from ebbtide.engine.tick import TickReport, tick
from ebbtide.model.settings import Settings
from ebbtide.simulator.faults import faulty_outside
from ebbtide.simulator.plans import RandomPlan
from ebbtide.simulator.runner import Stage, outside_of, policies_of
from ebbtide.simulator.scaling import SimSignals, SimWorkloads
from ebbtide.simulator.scaling_faults import faulty_scaling
from ebbtide.simulator.story.recorder import Recorder
from ebbtide.simulator.story.trouble import (
    Crashes,
    StoryCloud,
    StoryCluster,
    StoryMetrics,
    StoryPlayers,
    StorySignals,
    StoryWorkloads,
    Trouble,
)

LAMBDA_SECONDS = 120.0
LEAST_ROUND_SECONDS = 30.0


@dataclass(slots=True)
class Backstage:
    """What all processes of a story share."""

    stage: Stage
    trouble: Trouble
    recorder: Recorder
    plan: RandomPlan
    """What goes wrong by chance."""
    has_policies: bool

    def doors(self) -> Outside:
        stage = self.stage
        outside = outside_of(stage)
        return replace(
            outside,
            cluster=StoryCluster(outside.cluster, stage.world, self.trouble),
            cloud=StoryCloud(outside.cloud, stage.world, self.trouble),
            metrics=StoryMetrics(outside.metrics, stage.world, self.trouble),
            players=StoryPlayers(stage.world, self.trouble),
            urgencies=stage.world.urgencies,
        )

    def scaling_doors(self, outside: Outside) -> ScalingOutside:
        stage = self.stage
        workloads = SimWorkloads(stage.world, stage.clock)
        return ScalingOutside(
            store=outside.store,
            policies=policies_of(stage),
            workloads=StoryWorkloads(workloads, stage.world, self.trouble, self.recorder.scaled),
            signals=StorySignals(SimSignals(stage.world, stage.clock), stage.world, self.trouble),
            notifier=outside.notifier,
            clock=outside.clock,
            new_id=outside.new_id,
            cluster=outside.cluster,
        )

    def api(self) -> Scaling:
        """What the process behind the API would use: it does not die with a runner."""
        return Scaling(self.scaling_doors(self.doors()), self.stage.zero, self.stage.settings)


class Process:
    """One process with its own doors and memory. Once it has crashed it is of no use any more."""

    def __init__(self, backstage: Backstage, owner: str, stays: bool) -> None:
        stage = backstage.stage
        self.owner = owner
        self._stage = stage
        self._stays = stays
        self._settings = for_a_daemon(stage.settings) if stays else stage.settings
        plan = Crashes(backstage.trouble, backstage.plan)
        outside = backstage.doors()
        self.scaling: Scaling | None = None
        if backstage.has_policies:
            doors = faulty_scaling(backstage.scaling_doors(outside), plan, self._disturb)
            self.scaling = Scaling(doors, stage.zero, self._settings)
        self._outside = replace(faulty_outside(outside, plan, self._disturb), settings_now=self._in_effect)

    def nudge(self) -> Nudge:
        """What came up since now; a Lambda is not nudged."""
        return Nudge(self._outside)

    def tick(self, interval_seconds: float) -> TickReport:
        timeout = self._settings.request_timeout_seconds
        if self._stays:
            budget = max(interval_seconds, timeout)
        else:
            budget = max(LAMBDA_SECONDS - timeout, LAMBDA_SECONDS / 2)
        deadline = self._outside.clock.now() + budget
        if self._stays:
            return tick(self._outside, self._settings, self.owner, deadline, keeps_lease=True)
        return run_once(self._outside, self._settings, self.owner, deadline)

    def finish(self, report: TickReport) -> None:
        """A Lambda that could not see its cluster or cloud fails."""
        if not self._stays:
            fail_if_blind(self._outside, report)

    def round(self, seconds: float) -> RoundReport | None:
        """One look at the policies, where there can be any."""
        if self.scaling is None:
            return None
        return self.scaling.round(self.owner, self._outside.clock.now() + max(seconds, LEAST_ROUND_SECONDS))

    def _in_effect(self, settings: Settings) -> Settings:
        """What policies make of the settings; the checker judges by the same."""
        now = settings if self.scaling is None else self.scaling.settings_now(settings)
        self._stage.checker.follow(now)
        return now

    def _disturb(self) -> None:
        self._stage.world.disturbances += 1
