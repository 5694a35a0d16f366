"""Play a story from its first second to its last, and judge it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from math import inf

from ebbtide import narrate
from ebbtide.config import Config
from ebbtide.engine.loop import Nudge, sooner
from ebbtide.engine.ports import Thinking
from ebbtide.engine.rounds import InvariantBroken
from ebbtide.engine.steady import Steady, Still
from ebbtide.errors import EbbtideError
from ebbtide.model.log import LogKind
from ebbtide.simulator.checker.violations import ViolationKind
from ebbtide.simulator.faults.catalogue import plan_for
from ebbtide.simulator.faults.ports import RunnerCrashed
from ebbtide.simulator.run.runner import stage_of, store_of
from ebbtide.simulator.story.build import build_world, roll_out
from ebbtide.simulator.story.event_schemas import AtKeys
from ebbtide.simulator.story.events import Happenings, Trouble
from ebbtide.simulator.story.judge import Judge, Said, StoryResult, StoryTotals, totals_of
from ebbtide.simulator.story.parse import Story
from ebbtide.simulator.story.recorder import RecordedWorkloads, Recorder, new_node, story_time
from ebbtide.simulator.story.runners import LAMBDA_SECONDS, Backstage, Process, StoryClock
from ebbtide.simulator.story.schemas import epoch_of

RESTART_SECONDS = 20.0
"""How long it takes until a daemon that died is there again."""
LOOK_SECONDS = 2.0
"""As the daemon: how soon it ticks again while a notice was not taken in."""


def play(story: Story, think: Callable[[], Thinking] = Steady) -> StoryResult:
    """With `Always`, every tick is computed, also where it provably comes out the same."""
    player = Player(story)
    player.stage.think = think
    return player.run()


@dataclass(slots=True)
class Ticks:
    """How many ticks there were, and how many of them computed nothing."""

    made: int = 0
    passed_over: int = 0
    """Nobody looked: nothing could change."""
    computed: int = 0
    """Decisions that were computed; the others used the last one again."""

    @property
    def saved(self) -> float:
        """The share of ticks without a decision that was computed."""
        return 1 - self.computed / self.made if self.made else 0.0


@dataclass(slots=True)
class _Due:
    """When the next tick and the next look at the policies are due."""

    tick: float
    round: float
    grid: float
    """The next regular tick: one that comes early does not move the others."""


class Player:
    def __init__(self, story: Story) -> None:
        self._story, self._keys = story, story.keys
        self._start = float(epoch_of(story.keys.start))
        self._end = self._start + story.keys.until
        world = build_world(story)
        self.stage = stage_of(world, story.config.settings)
        self.stage.clock = self.clock = StoryClock(self._start)
        self.clock.follow = world.advance_to
        self.stage.checker.time_zero = self._start
        self.stage.keeps_inputs = False
        world.machines.name_new = new_node
        self.stage.zero = story.config.zero
        self._trouble = Trouble()
        names = RecordedWorkloads(self._keys.workloads)
        self._recorder = Recorder(self.stage, names, self._start)
        self._plan = plan_for(self._keys.faults, self._keys.seed)
        self._backstage = Backstage(
            self.stage, self._trouble, self._recorder, self._plan, _has_policies(story)
        )
        self._happenings = Happenings(self.stage, self._trouble, names, self._keys.seed)
        self._happenings.say = self._say
        self._happenings.roll_out = self._roll_out
        self._happenings.scaling = self._backstage.api
        self._judge = Judge(story, self.stage, names)
        self._said: list[Said] = []
        self._heard = self._owners = self.crashes = self.failed_ticks = 0
        self.ticks = Ticks()
        self._process: Process | None = None
        self._nudge: Nudge | None = None
        self._quiet_ids: int | None = None
        """How many ids the last tick used, where it only found nothing to do; None where it did more."""
        self._stays = self._keys.runner == "daemon"
        self._before: StoryTotals = totals_of(world)
        self._plan_events()

    def _plan_events(self) -> None:
        for number, event in enumerate(self._keys.events):
            happen: Callable[[], None] = partial(
                self._happenings.happen, event, self._story.configs.get(number)
            )
            self.clock.plan(self._start + event.at, happen)
        for number, expected in enumerate(self._keys.expect):
            if isinstance(expected, AtKeys):
                self.clock.plan(self._start + expected.at, partial(self._judge.look, number), late=True)

    def run(self) -> StoryResult:
        clock = self.clock
        for said in self._happenings.apply(self._story.config):
            self._say(said)
        clock.happen()
        due = _Due(self._start, self._start, self._start)
        while min(due.tick, due.round) < self._end:
            self._wait(due)
            self._plan.quiet = self._end - clock.now() <= self._keys.calm_sec
            if clock.now() >= self._end:
                break
            self._work(due)
        self._pass_to(self._end)
        clock.finish()
        self.stage.checker.finish(store_of(self.stage).load())
        return self._result()

    def _work(self, due: _Due) -> None:
        """What is due now: in a daemon the policies have a loop of their own, in a Lambda they come after."""
        now = self.clock.now()
        if self._stays and now >= due.round:
            due.round = now + self.stage.zero.check_interval_seconds
            self._alive(self._round)
        if now >= due.tick:
            while due.grid <= now:
                due.grid += self._keys.tick_sec
            due.tick = due.grid
            self._alive(lambda: self._tick(due))
        if not self._stays:
            due.round = due.tick

    def _alive(self, work: Callable[[], None]) -> None:
        """Let a process work; one that dies over it is followed by another."""
        if self._process is None or not self._stays:
            self._owners += 1
            self._process = Process(self._backstage, f"{self._keys.runner}-{self._owners}", self._stays)
        try:
            work()
        except RunnerCrashed as crash:
            self.crashes += 1
            self._say(f"{self._process.owner} {crash}")
            self._process = None
        except InvariantBroken as error:
            self.stage.checker.say(ViolationKind.INVARIANT, "", f"a machine broke its own invariant: {error}")
            self._say(f"tick failed: {error}")
        except EbbtideError as error:
            self.failed_ticks += 1
            self._say(f"tick failed: {error}")
        except Exception as error:  # a story reports a bug in the engine like any other violation
            self.stage.checker.say(
                ViolationKind.TICK_FAILED,
                "",
                f"the tick failed unexpectedly: {type(error).__name__}: {error}",
            )

    def _tick(self, due: _Due) -> None:
        process = self._process
        assert process is not None
        if self._stands(process):
            self._pass_over(process, due)
            return
        self._quiet_ids = None
        crashes, ids = self.crashes, self.stage.ids
        nudge, self._nudge = process.nudge(), None
        if self._stays:
            due.tick = min(due.grid, self.clock.now() + RESTART_SECONDS)  # where it dies over this one
        report = process.tick(self._keys.tick_sec)
        self.ticks.made += 1
        self.ticks.computed += report.decision is not None and process.computed()
        if self._stays and report.held:
            self._nudge = nudge
        due.tick = due.grid
        if self._stays:
            now = self.clock.now()
            due.tick = now + sooner(due.grid - now, report, now)
        self._say(report.says)
        if not self._stays and crashes == self.crashes:
            self._round()
        process.finish(report)
        waits = report.spots_open or report.due_at is not None or due.tick != due.grid
        if report.quiet and report.held and not waits and self._stays and not self._keys.faults:
            self._quiet_ids = self.stage.ids - ids
            self._pass_over(process, due)

    def _stands(self, process: Process) -> bool:
        """Whether the tick that is due now only says what the last one said: what happened since changed
        nothing that it would see."""
        if self._quiet_ids is None or self.stage.world.inventory.changed or self._disturbed:
            return False
        snapshot = process.look()
        if not process.sees_again(snapshot):
            return False
        now = self.clock.now()
        still = process.still(now, self._keys.tick_sec)
        if still is None or int(now) >= still.until or not still.seen_in(snapshot):
            return False
        self._repeat(still, now)
        self._nudge = process.nudge()
        process.stand()
        return True

    def _pass_over(self, process: Process, due: _Due) -> None:
        """The ticks that come before anything happens, and before an answer of the last one may change."""
        until = min(self.stage.world.timeline.next_at, self.clock.next_at, self._end)
        if due.grid >= until or self._disturbed:
            return
        still = process.still(due.grid, self._keys.tick_sec)
        passed = False
        while still is not None and due.grid < until and int(due.grid) < still.until:
            self._pass_to(due.grid)
            self._repeat(still, due.grid)
            due.tick = due.grid = due.grid + self._keys.tick_sec
            passed = True
        if passed:
            process.stand()

    @property
    def _disturbed(self) -> bool:
        """Whether something waits for a tick that is not in what it sees."""
        if self._nudge is not None and self._nudge.due_at() < inf:
            return True
        trouble = self._trouble.crash or self._trouble.gone
        return bool(self.stage.world.incidents.mail.arrived or trouble)

    def _repeat(self, still: Still, at: float) -> None:
        """A tick that says what the last one said, uses as many ids, and leaves no more behind than that it
        looked."""
        self._said.append(Said(story_time(at - self._start), narrate.tick_of(still.decision_at(int(at)))))
        self.stage.ids += self._quiet_ids or 0
        self.ticks.made += 1
        self.ticks.passed_over += 1

    def _round(self) -> None:
        assert self._process is not None
        seconds = float(self.stage.zero.check_interval_seconds) if self._stays else LAMBDA_SECONDS
        try:
            report = self._process.round(seconds)
        except EbbtideError as error:
            self._say(f"the round over the policies failed: {error}")
            return
        if report is not None and (report.sentences or report.unknown or report.left or not report.held):
            self._say(f"policies: {report.says}")

    def _wait(self, due: _Due) -> None:
        """Until something is due, or until the cloud announces something: that is answered at once, and so is
        in a daemon what a watch would report, a pod that no node takes or a node that became Ready."""
        clock, world = self.clock, self.stage.world
        mail = world.incidents.mail
        known = len(mail.arrived)
        until = min(due.tick, due.round, self._end)
        while clock.now() < until:
            if known and self._stays:
                until = min(until, clock.now() + LOOK_SECONDS)
            nudged = self._nudge.due_at() if self._nudge is not None else inf
            following = max(min(world.timeline.next_at, clock.next_at, nudged, until), clock.now())
            self._pass_to(following)
            if len(mail.arrived) > known or (self._nudge is not None and self._nudge.due()):
                due.tick = clock.now()
                return
            if following >= until:
                break
        if known and self._stays:
            due.tick = clock.now()

    def _pass_to(self, moment: float) -> None:
        self.clock.move_to(moment)
        self.stage.world.advance_to(self.clock.now())

    def _roll_out(self, config: Config) -> None:
        """A new process with a new configuration takes over."""
        self.stage.settings, self.stage.zero = config.settings, config.zero
        self.stage.checker.follow(config.settings)
        roll_out(self.stage.world, config.settings)
        self._process = None
        for said in ["a new configuration is rolled out", *self._happenings.apply(config)]:
            self._say(said)

    def _say(self, says: str) -> None:
        """With the alarms that were raised meanwhile, where the sentence does not have them already."""
        entries = self.stage.notifier.entries
        alarms = [one.says for one in entries[self._heard :] if one.kind is LogKind.ALARM]
        self._heard = len(entries)
        more = [f"alarm: {alarm}" for alarm in dict.fromkeys(alarms) if alarm not in says]
        said = "; ".join(part for part in (says, *more) if part)
        if said:
            self._said.append(Said(story_time(self.clock.now() - self._start), said))

    def _result(self) -> StoryResult:
        acts, said = tuple(self._recorder.acts), tuple(self._said)
        failed = self._judge.verdict(acts, said, store_of(self.stage).load())
        totals = totals_of(self.stage.world).since(self._before)
        return StoryResult.of(self._story, self.stage, totals, (acts, said, failed), self)


def _has_policies(story: Story) -> bool:
    configs = (story.config, *story.configs.values())
    return any(config.policies for config in configs) or any(e.policy for e in story.keys.events)
