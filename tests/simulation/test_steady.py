"""A simulation computes nothing again that provably comes out the same. Here all of it is computed as well
and compared, in every tick, and so are the resulting bytes.

`python -m tests.steady --seeds 200` does it for all stories and many seeds, as part of `make torture`.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from bench.bench_month import month
from ebbtide.engine.ports import Always, Tracked
from ebbtide.engine.steady import Steady
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.simulator.backtest.runs import Work, candidates, played
from ebbtide.simulator.run.runner import Runner, stage_of
from ebbtide.simulator.story import play, read_story
from ebbtide.simulator.story.parse import Story
from ebbtide.simulator.story.play import Player, Ticks
from ebbtide.simulator.world.rules import Demand, Rules
from ebbtide.simulator.world.world import World, add_system, deployment, pool
from tests.builders import make_settings
from tests.steady import Audited, compare_recording, compare_seed, compare_story

STORIES = sorted((Path(__file__).parents[1] / "stories").glob("*.yaml"))[::4]
SEEDS = range(1, 7)


@pytest.mark.parametrize("path", STORIES, ids=lambda path: path.stem)
def test_a_story_comes_out_the_same(path: Path) -> None:
    compare_story(read_story(path))


@pytest.mark.parametrize("seed", SEEDS)
def test_a_swarm_comes_out_the_same(seed: int) -> None:
    compare_seed(seed)


DAY = """
name: demand that comes and goes
until: 14400
tick_sec: 15
settings:
  profile: balanced
  min_workers: 1
  max_workers: 8
  settled_sec: 3600
  pools: [{name: general, types: [cpx32, cpx42], zones: [a, b]}]
nodes:
  - {name: a1, pool: general, type: cpx42, zone: a, age_sec: 86400}
  - {name: b1, pool: general, type: cpx42, zone: b, age_sec: 86400}
workloads:
  - {name: web, replicas: 6, cpu: 1000m, memory: 512Mi}
  - {name: api, replicas: 3, cpu: 700m, memory: 256Mi, pdb: {max_unavailable: 1}}
events:
  - {at: 2000, replicas: {web: 20}}
  - {at: 6000, replicas: {web: 5, api: 1}}
  - {at: 9005, replicas: {api: 9}}
  - {at: 10000, metrics: gone}
  - {at: 10300, metrics: back}
  - {at: 12000, replicas: {web: 2, api: 2}}
"""


@pytest.fixture
def day(tmp_path: Path) -> Story:
    path = tmp_path / "day.yaml"
    path.write_text(DAY)
    return read_story(path)


def test_a_day_with_consolidation_comes_out_the_same(day: Story) -> None:
    compare_story(day)


@pytest.mark.parametrize("profile", ["balanced", "classic"])
def test_a_recording_comes_out_the_same_with_and_without_ticks_that_are_skipped(profile: str) -> None:
    compare_recording(month(0.05, 10), "month.ebb", profile)


def test_a_run_tells_how_many_of_its_ticks_were_not_computed() -> None:
    recording = month(0.05, 10)
    chosen = candidates(recording.story["settings"], [], ["classic"], [])[1]
    work = Work(recording, "month.ebb", chosen, 1)
    skipping, computing = played(work), played(work, Always)
    assert skipping.run == computing.run
    assert skipping.ticks.made == computing.ticks.made >= 0.05 * 86_400 / 60
    assert skipping.ticks.passed_over + skipping.ticks.computed <= skipping.ticks.made
    assert skipping.ticks.saved > 0.2 > computing.ticks.saved == 0
    assert Ticks().saved == 0


def test_ticks_in_which_nothing_can_change_are_skipped_and_still_told(day: Story) -> None:
    asked: list[int] = []

    class Counted(Steady):
        def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked:
            asked.append(now)
            return super().track(snapshot, record, settings, now)

    told = play(day, Counted).ticks
    assert len(told) >= 14400 // 15
    assert len(asked) < len(told) / 2


def test_what_changes_nothing_that_a_tick_sees_ends_no_rest(tmp_path: Path) -> None:
    """Somebody sets the replicas that there are, twice a minute."""
    quiet, path = DAY.partition("events:")[0], tmp_path / "calm.yaml"
    computed = []
    for every in (14400, 30):
        events = "".join(f"  - {{at: {at}, replicas: {{web: 6}}}}\n" for at in range(every, 14400, every))
        path.write_text(f"{quiet}events:\n{events}" if events else quiet)
        player = Player(read_story(path))
        player.run()
        computed.append(player.ticks.made - player.ticks.passed_over)
    assert computed[0] == computed[1] < 14400 // 15 / 4
    compare_story(read_story(path))


def test_a_quiet_cluster_is_decided_on_once_until_its_log_is_due() -> None:
    pools = (pool("general", ("cpx32",)),)
    world = World(Rules(), pools, 1, 0.0)
    add_system(world)
    world.add_node("general", "cpx32", "a")
    world.add_node("general", "cpx32", "b")
    world.add_workload(deployment("web", 1000, 512, Demand(low=4), 0.9))
    stage = stage_of(world, make_settings(pools=pools, min_workers=2, cpu_up=0.95, cpu_down=0.1))
    thinking = Audited()
    stage.think = lambda: thinking
    runner = Runner(stage, "quiet")
    world.advance_to(300)
    stage.clock.move_to(300)
    for _ in range(50):
        due = stage.clock.now() + 60
        runner.tick(60)
        stage.clock.move_to(due)
    assert thinking.repeated > 40
    assert thinking.computed < 10
