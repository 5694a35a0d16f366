"""Whole simulations: deterministic, sound in every scenario, and able to be saved and gone on with."""

from __future__ import annotations

import json
from functools import partial
from pathlib import Path

import pytest

from ebbtide.errors import ConfigError, Retryable, StoreUnusable, Throttled, Unanswered
from ebbtide.model.snapshot import Market
from ebbtide.simulator.faults.catalogue import FAULTS, CrashPlan, Distortion, RandomPlan, Strike
from ebbtide.simulator.faults.ports import CallGate, RunnerCrashed
from ebbtide.simulator.run.frames import Frame
from ebbtide.simulator.run.persistent import FileCluster, WorldFile, decode, encode, load, save
from ebbtide.simulator.run.runner import Runner, stage_of
from ebbtide.simulator.run.scenarios import SCENARIOS, START, build, play
from ebbtide.simulator.run.simulate import Simulation, simulate
from ebbtide.simulator.world.clock import VirtualClock
from ebbtide.simulator.world.ports import SimCluster
from ebbtide.simulator.world.rules import parse_recording

HETZNER = ("cx", "cpx", "cax", "ccx")


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_every_scenario_runs_without_a_violation_and_the_same_seed_gives_the_same_bytes(name: str) -> None:
    first, second = simulate(name, seed=7).to_json(), simulate(name, seed=7).to_json()
    assert first == second
    assert json.loads(first)["violations"] == []
    wanted = {"ticks", "launched", "removed", "node_hours", "cost", "pending_pod_seconds", "crashes"}
    assert wanted <= set(json.loads(first))


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_no_scenario_has_spot_nodes_of_a_type_that_hetzner_sells(name: str) -> None:
    """Hetzner has no spot market: a demo must not show what the cloud does not offer."""
    pools = build(name, seed=1).settings.pools
    spot = [node_type for pool in pools if pool.market is Market.SPOT for node_type in pool.types]
    assert [one.name for one in spot if one.name.startswith(HETZNER)] == []
    assert {one.price.currency for one in spot if one.price} <= {"USD"}


@pytest.mark.parametrize("fault", sorted(FAULTS))
def test_every_fault_alone_is_survived(fault: str) -> None:
    assert simulate("burst", seed=3, faults=[fault]).violations == ()


def test_a_scenario_or_a_fault_nobody_knows_is_refused_with_a_list_of_those_there_are() -> None:
    with pytest.raises(ConfigError, match="spot-storm"):
        simulate("picnic", seed=1)
    with pytest.raises(ConfigError, match="late-bind"):
        simulate("day", seed=1, faults=["gremlins"])


def test_a_frame_of_every_tick_shows_the_nodes_by_zone_and_what_was_said() -> None:
    frames: list[Frame] = []
    result = simulate("crashy", seed=2, on_tick=frames.append)
    assert len(frames) == result.ticks
    assert {node.zone for node in frames[0].nodes} == {"a", "b", "c"}
    assert frames[0].says
    assert any("crashed" in event for frame in frames for event in frame.events)
    assert frames[-1].cost > 0
    states = {node.state for frame in frames for node in frame.nodes}
    assert {"ready", "draining", "booting", "interrupted", "leaving"} <= states


def test_a_workload_follows_a_recording() -> None:
    scenario = build("burst", seed=1)
    play(scenario, parse_recording(["seconds,replicas", "0,3", "600,5"]))
    web = scenario.world.pods.members["default/web"]
    scenario.world.advance_to(START + 60)
    assert len(web) == 3
    scenario.world.advance_to(START + 660)
    assert len(web) == 5
    with pytest.raises(ConfigError, match="no workload 'nobody'"):
        play(scenario, parse_recording(["seconds,replicas,workload", "0,3,nobody"]))


@pytest.mark.parametrize("name", sorted(SCENARIOS))
def test_a_world_that_was_saved_continues_as_if_it_had_not_been(name: str) -> None:
    plain, other = build(name, seed=5).world, build(name, seed=5).world
    for hour in range(1, 7):
        moment = START + hour * 3600 + 13
        plain.advance_to(moment)
        other = decode(encode(other))
        other.advance_to(moment)
        assert other.view() == plain.view()
        assert other.machines.listed() == plain.machines.listed()
    assert encode(other) == encode(decode(encode(plain)))


def test_the_engine_sees_no_difference_between_a_world_and_its_saved_self() -> None:
    said = []
    for saves in (False, True):
        scenario = build("burst", seed=4)
        stage = stage_of(scenario.world, scenario.settings)
        runner = Runner(stage, "one")
        for tick in range(120):
            if saves and tick % 10 == 5:
                stage.world = decode(encode(stage.world))
                runner = Runner(stage, "one")
            said.append(runner.tick().says)
            stage.clock.sleep(60)
    assert said[:120] == said[120:]


def test_a_file_that_is_not_a_world_is_refused_and_left_alone(tmp_path: Path) -> None:
    path = tmp_path / "world.json"
    for content in ("", "{}", "[1]", "not json"):
        path.write_text(content)
        with pytest.raises(StoreUnusable):
            load(path)
        assert path.read_text() == content
    with pytest.raises(StoreUnusable):
        load(tmp_path / "nothing.json")


def test_a_world_in_a_file_follows_the_clock_and_reading_does_not_write(tmp_path: Path) -> None:
    clock = VirtualClock(START)
    file = WorldFile(tmp_path / "world.json", clock)
    file.create(build("day", seed=1).world)
    with pytest.raises(StoreUnusable, match="already"):
        file.create(build("day", seed=1).world)
    written = file.path.stat().st_mtime_ns
    cluster = FileCluster(file)
    view = cluster.read()
    assert cluster.read() is view
    clock.sleep(6 * 3600)
    later = FileCluster(WorldFile(file.path, clock)).read()
    assert later != view
    assert cluster.read() == later
    assert file.path.stat().st_mtime_ns == written


def test_a_saved_world_is_read_back_as_it_was(tmp_path: Path) -> None:
    world = build("spot-storm", seed=2).world
    save(world, tmp_path / "world.json")
    clock = VirtualClock(START)
    assert SimCluster(load(tmp_path / "world.json"), clock).read() == SimCluster(world, clock).read()


def test_a_crash_plan_counts_calls_and_strikes_one_of_them() -> None:
    done: list[str] = []
    counting = CrashPlan()
    gate = CallGate(counting)
    for verb in ("store.write", "cloud.launch", "store.write"):
        gate.act(verb, partial(done.append, verb))
    assert counting.calls == ["store.write#1", "cloud.launch#1", "store.write#2"]
    assert counting.struck == ""
    plan = CrashPlan(2, Strike.CRASH_AFTER)
    gate = CallGate(plan)
    gate.act("store.write", lambda: None)
    with pytest.raises(RunnerCrashed, match=r"after cloud\.launch"):
        gate.act("cloud.launch", lambda: done.append("launched"))
    assert done[-1] == "launched"
    assert plan.struck == "cloud.launch#1"
    with pytest.raises(RunnerCrashed):
        gate.act("store.release", lambda: done.append("a dead runner releases nothing"))
    with pytest.raises(RunnerCrashed):
        gate.read("cluster.read")
    assert done[-1] == "launched"


@pytest.mark.parametrize(
    ("strike", "error", "carried_out"),
    [
        (Strike.CRASH_BEFORE, RunnerCrashed, False),
        (Strike.CRASH_AFTER, RunnerCrashed, True),
        (Strike.LOST_REPLY, Unanswered, True),
        (Strike.FAILED, Retryable, False),
        (Strike.THROTTLED, Throttled, False),
    ],
)
def test_each_strike_does_what_its_name_says(
    strike: Strike, error: type[BaseException], carried_out: bool
) -> None:
    done: list[int] = []
    faults: list[int] = []
    gate = CallGate(CrashPlan(1, strike), lambda: faults.append(1))
    with pytest.raises(error):
        gate.act("cloud.terminate", lambda: done.append(1))
    assert bool(done) == carried_out
    assert faults == [1]


def test_a_stalled_call_lands_after_what_happened_meanwhile() -> None:
    story: list[str] = []
    gate = CallGate(CrashPlan(1, Strike.STALL, lambda: story.append("meanwhile")))
    gate.act("cluster.evict", lambda: story.append("landed"))
    assert story == ["meanwhile", "landed"]


def test_a_random_plan_is_the_same_for_the_same_seed_and_silent_when_quiet() -> None:
    chances = {Strike.FAILED: 0.5}
    one, two = RandomPlan(1, chances), RandomPlan(1, chances)
    drawn = [one.strike("store.write") for _ in range(50)]
    assert drawn == [two.strike("store.write") for _ in range(50)]
    assert set(drawn) == {Strike.NONE, Strike.FAILED}
    one.quiet = True
    assert {one.strike("store.write") for _ in range(50)} == {Strike.NONE}
    assert one.distort("cluster.read") is Distortion.NONE


def test_a_crashed_runner_is_followed_by_another_with_a_new_name() -> None:
    frames: list[Frame] = []
    result = Simulation(build("crashy", seed=1), on_tick=frames.append).run()
    crashed = [event.split()[0] for frame in frames for event in frame.events if " crashed " in event]
    assert result.crashes == len(crashed) == len(set(crashed)) > 10
