"""Tuning: a search for better settings on two thirds of a recording, judged on the last."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from ebbtide.entrypoints.cli.foresight import advancing, progress_bar, tuned_with
from ebbtide.entrypoints.views.foresight import difference, tuning_json, tuning_lines
from ebbtide.errors import Usage
from ebbtide.simulator.backtest.runs import Results, Run, Work
from ebbtide.simulator.backtest.sweep import Machines, Sweep, rows_of
from ebbtide.simulator.recording.file import Recording, Series, write_recording
from ebbtide.simulator.story.parse import story_of
from ebbtide.simulator.tuning.search import Knob, Plan, Point, Space, Tried, named, search, spread
from ebbtide.simulator.tuning.tune import (
    Asked,
    Change,
    Tuned,
    Tuning,
    front_of,
    knee_of,
    little_waiting,
    parts_of,
    tune,
    without_idle,
)
from tests.e2e.shell import Shell
from tests.stories.test_backtests import run
from tests.stories.test_recording_files import recording

PLAN = Plan(12, 1, ("cost", "waiting"))
HOUR = 3600.0


def three_hours(**keys: Any) -> Recording:
    """Demand that jumps up every half hour and falls again."""
    base = recording(**{"until": 3 * HOUR, **keys})
    at = [900.0 * number for number in range(12)]
    demand = {"default/web": Series(at, [4 if number % 2 else 24 for number in range(12)])}
    return Recording(base.ebb, base.story, demand, base.recorded)


def space(**settings: Any) -> Space:
    return Space({**three_hours().story["settings"], **settings}, three_hours())


def tried(cost: float, waiting: int, **values: Any) -> Tried:
    point = (cost, waiting)
    return Tried(point, run(str(point), cost=str(cost), pending_pod_seconds=waiting, **values))


def play_of(points: Sequence[Point]) -> list[Run | None]:
    """Cheaper with a longer interval, waiting less with a shorter one; no simulation."""
    return [run(str(one), cost=str(1 / (1 + one[1])), pending_pod_seconds=one[1] + one[2]) for one in points]


def test_the_first_two_thirds_are_learned_on_and_the_last_is_as_it_was() -> None:
    whole = three_hours(start="2026-03-01T00:00:00Z", expect=[{"never": {"act": "terminate"}}])
    parts = parts_of(whole, story_of(three_hours(), "month.ebb").config, "month.ebb")
    assert (parts.learn_seconds, parts.held_out_seconds) == (7200, 3600)
    assert parts.learn.demand["default/web"].at == [900.0 * number for number in range(8)]
    assert parts.held_out.story["start"] == "2026-03-01T02:00:00Z"
    assert parts.held_out.demand["default/web"] == Series([0.0, 900.0, 1800.0, 2700.0], [24, 4, 24, 4])
    # As many nodes as its first pods need, and not those that the recording began with.
    assert sum(node["count"] for node in parts.held_out.story["nodes"]) > len(whole.story["nodes"])
    assert "expect" not in parts.learn.story


def test_what_holds_at_the_cut_holds_after_it_and_what_comes_later_comes_later() -> None:
    base = three_hours(
        workloads=[
            {"name": name, "cpu": "500m", "memory": "512Mi", "replicas": 1, "on": ["a1"]}
            for name in ("web", "late")
        ],
        events=[{"at": 60, "cpu": 0.5}, {"at": 9000, "cpu": 0.2}],
    )
    demand = {"default/web": Series([0.0], [3]), "default/late": Series([8000.0], [5])}
    whole = Recording(base.ebb, base.story, demand, base.recorded)
    parts = parts_of(whole, story_of(three_hours(), "month.ebb").config, "month.ebb")
    assert parts.learn.demand["default/late"] == Series([0.0], [0])
    assert parts.held_out.demand == {"default/web": Series([0.0], [3]), "default/late": Series([800.0], [5])}
    assert [event["at"] for event in parts.learn.story["events"]] == [60]
    assert [event["at"] for event in parts.held_out.story["events"]] == [1800]
    assert "on" in parts.learn.story["workloads"][0]
    assert "on" not in parts.held_out.story["workloads"][0]
    story_of(parts.held_out, "held out")


def test_a_recording_that_is_too_short_is_refused() -> None:
    with pytest.raises(Usage, match=r"lasts 30 min: too short .*nothing ran.*at least 3 h"):
        parts_of(recording(), story_of(recording(), "month.ebb").config, "month.ebb")


def test_only_what_differs_from_the_recording_and_its_profile_is_written() -> None:
    found = space(pending_up_sec=45)
    assert found.lines(found.today()) == {}
    points = list(found.known_points())
    assert [found.lines(point) for point in points[1:]] == [{}, {"profile": "balanced"}, {"profile": "eager"}]
    values = dict(zip([knob.key for knob in found.knobs], points[2], strict=True))
    assert (values["pending_up_sec"], values["interval_sec"]) == (45, 15)
    assert 45 in next(knob.steps for knob in found.knobs if knob.key == "pending_up_sec")
    other = tuple((values | {"idle_down_sec": 900, "headroom": 2}).values())
    lines = found.lines(other)
    assert lines == {
        "profile": "balanced",
        "idle_down_sec": 900,
        "headroom": [{"cpu": "500m", "memory": "512Mi", "count": 2}],
    }
    assert named(lines) == (
        "profile=balanced, idle_down_sec=900, headroom=[{cpu: 500m, memory: 512Mi, count: 2}]"
    )
    assert found.candidate(lines).settings["pending_up_sec"] == 45


def test_headroom_that_somebody_wrote_is_left_as_it_is() -> None:
    written = [{"cpu": "1", "memory": "1Gi", "count": 1}]
    found = space(headroom=written)
    assert "headroom" not in [knob.key for knob in found.knobs]
    assert found.candidate({"idle_down_sec": 60}).settings["headroom"] == written


def test_points_are_spread_over_all_values_of_each_knob() -> None:
    knobs = [Knob("a", tuple(range(4))), Knob("b", tuple(range(6))), Knob("c", tuple(range(3)))]
    points = list(islice(spread(knobs, 1), 24))
    for place, knob in enumerate(knobs):
        counts = [[point[place] for point in points].count(step) for step in knob.steps]
        assert set(counts) == {24 // len(knob.steps)}


def test_the_same_seed_tries_the_same_and_each_once_with_today_first() -> None:
    first = search(space(), PLAN, play_of)
    assert first == search(space(), PLAN, play_of)
    assert len({one.point for one in first}) == len(first) == 12
    assert first[0].point == space().today()
    assert [one.point for one in first] != [
        one.point for one in search(space(), Plan(12, 2, PLAN.objectives), play_of)
    ]
    assert len(search(space(), Plan(1, 1, ("cost",)), play_of)) == 1


def test_a_search_of_all_there_is_ends_and_refused_settings_are_not_counted() -> None:
    few = space()
    few.knobs = few.knobs[:1]
    all_there_are = search(few, PLAN, lambda points: [run(str(one)) for one in points])
    assert [one.point for one in all_there_are] == [("classic",), ("balanced",), ("eager",)]

    def refuses(points: Sequence[Point]) -> list[Run | None]:
        return [None if point[1] == 15 else one for point, one in zip(points, play_of(points), strict=True)]

    found = search(space(), PLAN, refuses)
    assert len(found) == 12
    assert all(one.point[1] != 15 for one in found)


def test_the_front_leaves_out_what_is_beaten_and_what_violated_a_rule() -> None:
    cheap, middle, fast = tried(10, 900), tried(11, 300), tried(20, 100)
    all_tried = [fast, tried(12, 300), middle, tried(9, 50, violations=("a node too many",)), cheap]
    assert front_of([*all_tried, tried(11, 300)], PLAN) == [cheap, middle, fast]


def always(_: object) -> bool:
    return True


def test_the_knee_is_where_a_further_per_cent_is_not_worth_one() -> None:
    today = tried(10, 1000)
    front = [tried(9, 950), tried(10.2, 400), tried(10.4, 398), tried(30, 1)]
    assert knee_of(front, today, PLAN, 0.05, always) == front[1]
    assert knee_of(front, today, PLAN, 10, always) == front[3]
    assert knee_of(front, today, PLAN, 0, always) == front[0]
    assert knee_of([front[3]], today, PLAN, 0.05, always) == today


def test_a_knee_that_does_not_hold_is_left_for_the_next_best_and_at_last_for_today() -> None:
    today = tried(10, 1000)
    front = [tried(9, 950), tried(10.2, 400), tried(10.4, 398)]
    assert knee_of(front, today, PLAN, 0.05, lambda one: one != front[1]) == front[2]
    assert knee_of(front, today, PLAN, 0.05, lambda one: one == front[0]) == front[0]
    assert knee_of(front, today, PLAN, 0.05, lambda _: False) == today


@pytest.mark.parametrize(
    ("cost", "waiting", "proposed"),
    [(10.05, 33, False), (9.87, 35, False), (9.6, 34, False), (9.4, 34, True), (10.0, 32, True)],
)
def test_what_is_hardly_better_is_not_proposed(cost: float, waiting: int, proposed: bool) -> None:
    """A day of taxi rides with 34 s of waiting in all: 0.5 % more cost for 1 s less. The half day after it
    waited 2 min 33 s more."""
    today, other = tried(10, 34), tried(cost, waiting)
    assert knee_of([other], today, PLAN, 0.03, always) == (other if proposed else today)


@pytest.mark.parametrize(("little", "proposed"), [(104, 0), (10, 1), (0, 1)])
def test_a_few_seconds_of_waiting_are_less_than_some_per_cent_of_the_cost(
    little: float, proposed: int
) -> None:
    """A day of 12 pods of a web site, of which 47 s waited in all: 3 s more are 6 % of that."""
    today, front = tried(100, 47), [tried(92.3, 50), tried(102.1, 42)]
    assert knee_of(front, today, PLAN, 0.03, always, little) == front[proposed]


def test_what_is_little_waiting_is_a_share_of_all_that_pods_run() -> None:
    base = recording(until=86_400.0)
    demand = {"default/web": Series([0.0, 43_200.0], [8, 16]), "default/api": Series([0.0], [1])}
    assert little_waiting(Recording(base.ebb, base.story, demand, base.recorded)) == pytest.approx(13 * 8.64)


def test_changes_that_are_worth_nothing_are_dropped() -> None:
    lines = {"profile": "eager", "idle_down_sec": 60, "settled_sec": 900}

    def play(fewer: dict[str, Any]) -> Run | None:
        if "profile" not in fewer:
            return None
        return run(pending_pod_seconds=500 if "idle_down_sec" in fewer else 700)

    kept, came = without_idle(lines, run(pending_pod_seconds=500), PLAN, play, always)
    assert kept == {"profile": "eager", "idle_down_sec": 60}
    assert came.pending_pod_seconds == 500
    # What holds only with all of them keeps all of them.
    assert without_idle(lines, run(pending_pod_seconds=500), PLAN, play, lambda _: False)[0] == lines


def holds(hours: float, *costs: float) -> bool:
    """With 10.00 as the cost of today's settings in each quarter."""

    class Known(Sweep):
        def play(self, works: Sequence[Work]) -> list[Run]:
            today = [one.candidate.name == "today" for one in works]
            assert today == [True] * 4 + [False] * 4
            return [*[run(cost="10.00")] * 4, *(run(cost=str(cost)) for cost in costs)]

    whole = three_hours(until=hours * HOUR)
    parts = parts_of(whole, story_of(whole, "month.ebb").config, "month.ebb")
    asked = Asked(Plan(5, 1, PLAN.objectives), cost_limit=0.03)
    with Known(Results(None), Machines()) as sweep:
        return Tuning(parts, "month.ebb", asked, sweep, lambda *_: None).holds({"idle_down_sec": 60})


def test_what_costs_too_much_in_one_quarter_by_itself_is_not_proposed() -> None:
    """On the whole, and in each half, a quiet time that costs more is made up by a busy one. On a
    day of a load balancer the quarters cost 5.6 % more and then 2.8, 2.5 and 2.3 % less; in the quieter half
    day that followed it was 5.2 % more."""
    assert holds(36, 10.3, 8, 8, 8)
    assert not holds(36, 10.56, 9.72, 9.75, 9.77)
    assert not holds(36, 8, 8, 8, 10.31)


def test_with_less_than_a_day_to_learn_on_what_follows_may_be_as_different_again() -> None:
    """Eight hours were learned on, and load fell: 4.6 % less cost, then 0.6 % less, then 9 % more."""
    assert not holds(12, 9.5, 9.58, 9.92, 9.96)
    assert holds(36, 9.5, 9.58, 9.92, 9.96)
    assert holds(12, 9.7, 9.7, 9.92, 9.96)


def test_the_quarters_are_what_was_learned_on_one_after_the_other() -> None:
    whole = three_hours(start="2026-03-01T00:00:00Z")
    quarters = parts_of(whole, story_of(three_hours(), "month.ebb").config, "month.ebb").quarters
    assert [one.story["until"] for one in quarters] == [1800.0] * 4
    assert [one.story["start"][11:16] for one in quarters] == ["00:00", "00:30", "01:00", "01:30"]
    assert [one.demand["default/web"] for one in quarters] == [Series([0.0, 900.0], [24, 4])] * 4
    assert quarters[0].story["nodes"] == whole.story["nodes"]
    assert all(one.story["nodes"] != whole.story["nodes"] for one in quarters[1:])


def test_a_whole_search_reports_the_held_out_third_and_resumes(tmp_path: Path) -> None:
    kept = tmp_path / "month.ebb.runs"
    asked = Asked(Plan(5, 1, PLAN.objectives), 1.0)
    told: list[tuple[str, int, int]] = []

    def once() -> Tuned:
        with Sweep(Results(kept), Machines()) as sweep:
            return tune(three_hours(), "month.ebb", asked, sweep, lambda *one: told.append(one))

    first = once()
    lines = len(kept.read_bytes().splitlines())
    assert once() == first
    assert len(kept.read_bytes().splitlines()) == lines  # nothing was played again
    assert (first.tried, first.held_out_seconds) == (5, 3600)
    assert first.changes  # the settings of the documents are slow in such a cluster
    assert first.violations == ()
    assert told[-1][0] == "playing what was held out"
    shown = tuning_json(first)
    assert shown["proposal"]["settings"] == {one.key: one.proposed for one in first.changes}
    text = "\n".join(map(str, tuning_lines(first, "month.ebb")))
    assert (shown["tried"], shown["learned_on_seconds"]) == (5, 7200)
    assert "less than a day" in text
    assert "Nothing was changed." in text


def test_the_progress_bar_moves_with_each_finished_run() -> None:
    """It stood at 0 % until the first batch, 30 % of the search, was finished."""
    seen: list[float] = []

    class Watched(Results):
        def keep(self, work: Work, run: Run) -> None:
            seen.append(bar.tasks[0].completed)
            super().keep(work, run)

    with progress_bar("learning", 3) as bar:
        sweep = Sweep(Watched(None), Machines(), advancing(bar))
        tuned_with(three_hours(), "month.ebb", Asked(Plan(3, 1, PLAN.objectives), 1.0), sweep, bar)
    assert seen[:3] == [0, 1, 2]


def test_each_change_is_shown_with_what_comes_without_it_and_a_bad_proposal_is_said() -> None:
    today, proposal, without = rows_of(
        [run(), run("p", cost="11.00", pending_pod_seconds=900), run("w", pending_pod_seconds=7500)]
    )
    change = Change("idle_down_sec", 600, 60, without)
    told = Tuned(200_000, 100_000, 80, today, proposal, (change,), (({"idle_down_sec": 60}, proposal),))
    text = [str(line) for line in tuning_lines(told, "month.ebb")]
    assert (
        "The proposal against today: cost +1.00 EUR (+10.0%), waiting +5 min (+50.0%), evictions +0." in text
    )
    assert any("It does not hold" in line for line in text)
    assert "-idle_down_sec: 600" in text
    assert (
        "+idle_down_sec: 60  # without it: cost -1.00 EUR (-9.1%), waiting +1 h 50 min (+733.3%), "
        "evictions +0"
    ) in text
    assert "  ebbtide backtest month.ebb --set 'idle_down_sec=60'" in text
    assert difference(today, today) == "no difference"
    assert tuning_json(told)["proposal"]["changes"][0]["without"]["cost"] == "-1.00"
    same = Tuned(200_000, 100_000, 80, today, today, (), ())
    assert "keep the ones of today" in str(tuning_lines(same, "month.ebb")[-1])


def test_without_the_extra_the_command_to_install_it_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(Usage, match=r"needs optuna; nothing ran\. .*install .*foresight"):
        search(space(), PLAN, play_of)


def test_the_command_prints_json_and_changes_no_other_file(tmp_path: Path) -> None:
    shell = Shell(tmp_path)
    write_recording(shell.folder / "month.ebb", three_hours())
    told = json.loads(shell.run("tune", "month.ebb", "--evals", "1", "--json").out)
    assert told["tried"] == 1
    assert told["proposal"]["settings"] == {}
    assert shell.files() == ["month.ebb", "month.ebb.runs"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--evals", "0"), "'--evals'"),
        (("--objective", "speed"), "Allowed: cost, waiting, p95, evictions, launches"),
        (("--backend", "spark"), "Allowed: loky, dask, ray"),
        (("--address", "tcp://nowhere:1"), "Add --backend dask or --backend ray"),
        ((), "too short"),
    ],
)
def test_wrong_input_is_refused_before_anything_runs(
    tmp_path: Path, arguments: tuple[str, ...], says: str
) -> None:
    shell = Shell(tmp_path)
    write_recording(shell.folder / "month.ebb", recording())
    assert says in " ".join(shell.run("tune", "month.ebb", *arguments, code=2).err.split())
    assert shell.files() == ["month.ebb"]
