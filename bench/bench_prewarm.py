"""What nodes ahead of demand are worth on real series, next to a constant headroom that costs the same and to
an oracle that knows the demand of the next half hour. All are played by the real engine in the simulator.

    python -m bench.bench_prewarm --data FOLDER [--days 1] [--pods 60] [--only NAME] [--series 1] [--quick]

FOLDER holds CSV files, seconds in the first column. Of each, `--days` after three quarters of it are played;
up to 21 days before are the notes of the daemon. `gate` is the share of the time in which the daemon would do
so by itself. Where it stays off, the row still shows what a forecast would have done.

With `--quick` nothing is played: the replay that the daemon judges by is run over two weeks after each other.
The gate is its verdict of the first week, the rest is what happened in the second. The last lines say
whether a quarter of the gap is closed on two series or more, and whether the gate was off wherever it lost.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from bench.bench_forecast import series_in
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.core.forecast.ahead import HALF, JUDGE_DAYS, LEAST_DAYS, Peak, judge
from ebbtide.core.forecast.members import Floats
from ebbtide.engine.foresight import Foresight, Outlook
from ebbtide.engine.ports import Observers, Ports
from ebbtide.model.events import CostNoted
from ebbtide.model.pool import Pool
from ebbtide.model.settings import STEP_SECONDS, STEPS_A_DAY, ForecastSettings, Settings
from ebbtide.narrate import entry_of
from ebbtide.simulator.backtest.runs import Candidate, Work, story_for
from ebbtide.simulator.recording.file import VERSION, Recorded, Recording, Series, with_first_nodes
from ebbtide.simulator.run.runner import store_of
from ebbtide.simulator.story.judge import totals_of
from ebbtide.simulator.story.play import Player

START = 1_767_571_200
"""2026-01-05 00:00 UTC."""
HISTORY_DAYS = 21
CONSTANTS = (0, 4, 12, 36)
QUARTER, LEAST_CLOSED = 0.25, 2
"""Of the gap to close, and on how many series."""
POOL = "general"
SETTINGS = """
max_workers: 400
pending_up_sec: 0
cooldown_up_sec: 0
batch_up_fraction: 1.0
scale_down_by: node
pools: [{name: general, types: [cpx32], zones: [a, b]}]
"""
CPU_MILLI, MEMORY_MIB = 500, 512


@dataclass(frozen=True, slots=True)
class Trace:
    name: str
    recording: Recording
    past: Floats
    """Pods by quarter of an hour before the recording begins."""
    future: Floats
    """The same from there on."""


@dataclass(frozen=True, slots=True)
class Played:
    cost: float
    waited: float
    """Hours that pods were pending, added up."""


class Oracle(Foresight):
    """Knows what comes within half an hour."""

    future: Floats = np.zeros(1)

    def _outlook(self, _pool: Pool, settings: Settings, step: int) -> Outlook:
        first = step - START // STEP_SECONDS
        peak = float(self.future[first : first + settings.forecast.steps].max(initial=0.0))
        return Outlook("", Peak(peak, peak, 1), (step + 1) * STEP_SECONDS)


class Forced(Foresight):
    """Prepares whether that pays or not, and counts how often it would have."""

    asked = won = 0

    def _outlook(self, pool: Pool, settings: Settings, step: int) -> Outlook:
        found = super()._outlook(pool, settings, step)
        Forced.asked += 1
        if found.verdict is None or found.verdict.wins:
            Forced.won += found.verdict is not None
            return found
        self._verdicts[pool.name] = (self._verdicts[pool.name][0], replace(found.verdict, pending=-1.0))
        return super()._outlook(pool, settings, step)


def traces(folder: Path, asked: argparse.Namespace) -> Iterator[Trace]:
    for path in sorted(folder.glob("*.csv*")):
        per_day, columns = series_in(path)
        named = {f"{path.name.partition('.')[0]} {name}": values for name, values in columns.items()}
        wanted = [name for name in named if not asked.only or any(one in name for one in asked.only)]
        for name in wanted[: asked.series]:
            yield _trace(name, named[name], per_day, asked)


def _trace(name: str, values: Floats, per_day: int, asked: argparse.Namespace) -> Trace:
    step = 86_400 // per_day
    pods = np.ceil(values * asked.pods / values.mean())
    first = len(pods) * 3 // 4
    pods = pods[: first + round(asked.days * per_day)]
    each = STEP_SECONDS / step
    quarters = np.array(
        [
            pods[int(q * each) : max(int((q + 1) * each), int(q * each) + 1)].max()
            for q in range(int(len(pods) / each))
        ]
    )
    cut = int(first / each)
    played = pods[first:]
    at = [float(number * step) for number in range(len(played))]
    story = {
        "name": name,
        "start": "2026-01-05T00:00:00Z",
        "until": len(played) * step,
        "settings": parse_document(SETTINGS, "bench", "", "").values,
        "workloads": [{"name": "web", "cpu": f"{CPU_MILLI}m", "memory": f"{MEMORY_MIB}Mi"}],
    }
    demand = {"default/web": Series(at, [int(one) for one in played])}
    recording = Recording(VERSION, story, demand, Recorded())
    config = build_config(parse_document(SETTINGS, "bench", "", ""), {})
    past = quarters[max(cut - HISTORY_DAYS * STEPS_A_DAY, 0) : cut]
    return Trace(name, with_first_nodes(recording, config), past, quarters[cut:])


def play(trace: Trace, foresight: type[Foresight] | None = None, headroom: int = 0) -> Played:
    settings: dict[str, Any] = {
        **trace.recording.story["settings"],
        "forecast": {"enabled": foresight is not None},
    }
    if headroom:
        size = {"cpu": f"{CPU_MILLI}m", "memory": f"{MEMORY_MIB}Mi", "count": headroom, "pool": POOL}
        settings["headroom"] = [size]
    player = Player(story_for(Work(trace.recording, trace.name, Candidate(trace.name, settings), 1)))
    if foresight is not None:
        _note(player, trace.past)

        def look_ahead(settings: Settings, ports: Ports) -> Ports:
            ahead = foresight(ports.store, settings, ports.new_id)
            return replace(ports, observer=Observers(ports.observer, ahead), expecting=ahead.expecting)

        player.stage.look_ahead = look_ahead
    result = player.run()
    assert not result.violations, result.violations
    return Played(float(result.cost), totals_of(player.stage.world).waited_seconds / 3600)


def _note(player: Player, past: Floats) -> None:
    player.stage.database.keep_entries = 0
    store = store_of(player.stage)
    begun = START - len(past) * STEP_SECONDS
    for number, pods in enumerate(past):
        at, count = begun + number * STEP_SECONDS, int(pods)
        demand = {POOL: (count, count * CPU_MILLI, count * MEMORY_MIB)}
        noted = CostNoted({}, 0, demand=demand, demandSince=at)
        store.append([entry_of(f"{at * 1000:014d}-past", at, noted, "demand")])


def show_quick(trace: Trace) -> Shown:
    """Pods pending, added up over the steps of the second week. An oracle leaves none."""
    asked = ForecastSettings()
    values = np.concatenate([trace.past, trace.future])
    first = max(len(values) - JUDGE_DAYS * STEPS_A_DAY, LEAST_DAYS * STEPS_A_DAY)
    gate = judge(values[:first], asked.steps, asked.quantile)
    then = judge(values, asked.steps, asked.quantile)
    shown = Shown(gate.wins, then.closes if then.pending_constant else None)
    print(
        f"| {trace.name} | {'on' if gate.wins else 'off'} | {then.pending_constant:.0f} "
        f"| {then.pending:.0f} | {shown.share} | {shown.verdict} |",
        flush=True,
    )
    return shown


@dataclass(frozen=True, slots=True)
class Shown:
    """A row: whether the gate was on, and the share of the gap that was closed, if there was one."""

    on: bool
    closes: float | None

    @property
    def share(self) -> str:
        return "no gap" if self.closes is None else f"{self.closes:.0%}"

    @property
    def verdict(self) -> str:
        if self.closes is None:
            return "nothing to win"
        if self.closes < 0:
            return "on and lost" if self.on else "off, would have lost"
        quarter = self.closes >= QUARTER
        if self.on:
            return "closes a quarter" if quarter else "closes less"
        return "off, missed a win" if quarter else "off, little to win"


def sums_up(rows: list[Shown]) -> bool:
    """Whether both aims are met."""
    closed = sum(row.on and row.closes is not None and row.closes >= QUARTER for row in rows)
    lost = [row for row in rows if row.closes is not None and row.closes < 0]
    off = sum(not row.on for row in lost)
    enough, right = closed >= LEAST_CLOSED, off == len(lost)
    print(f"\n{'met' if enough else 'MISSED'}: on, with a quarter or more closed, on {closed} series")
    print(f"{'met' if right else 'MISSED'}: off on {off} of the {len(lost)} series on which it lost")
    return enough and right


def equal_cost(constants: list[Played], cost: float) -> float:
    """Hours pending with the constant headroom that costs so much, between the two next to it."""
    ordered = sorted(constants, key=lambda one: one.cost)
    return float(np.interp(cost, [one.cost for one in ordered], [one.waited for one in ordered]))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--days", type=float, default=1)
    parser.add_argument("--pods", type=int, default=60)
    parser.add_argument("--series", type=int, default=1, help="of each file")
    parser.add_argument("--only", nargs="*", help="only those whose file and column hold one of these")
    parser.add_argument("--quick", action="store_true", help="by the replay of the daemon alone")
    asked = parser.parse_args()
    if asked.data is None:
        print("no --data: nothing to play")
        return 0
    if asked.quick:
        asked.days = HISTORY_DAYS
        print("| series | gate | constant | forecast | gap closed | verdict |")
        print("| --- | --- | ---: | ---: | ---: | --- |", flush=True)
        return 0 if sums_up([show_quick(trace) for trace in traces(asked.data, asked)]) else 1
    print("| series | gate | cost | none | constant | forecast | oracle | gap closed | verdict |")
    print("| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | --- |", flush=True)
    rows = []
    for trace in traces(asked.data, asked):
        Forced.asked, Forced.won, Oracle.future = 0, 0, trace.future
        constants = [play(trace, headroom=count) for count in CONSTANTS]
        ahead, oracle = play(trace, Forced), play(trace, Oracle)
        constant = equal_cost(constants, ahead.cost)
        gap = constant - oracle.waited
        won = Forced.won / Forced.asked
        # On for most of the time is on: the rest is what the daemon would have left out.
        rows.append(Shown(won > HALF, (constant - ahead.waited) / gap if gap > 0 else None))
        print(
            f"| {trace.name} | {'on' if rows[-1].on else 'off'}, {won:.0%} of the time "
            f"| {ahead.cost / constants[0].cost - 1:+.1%} "
            f"| {constants[0].waited:.1f} h | {constant:.1f} h | {ahead.waited:.1f} h "
            f"| {oracle.waited:.1f} h | {rows[-1].share} | {rows[-1].verdict} |",
            flush=True,
        )
    return 0 if sums_up(rows) else 1


if __name__ == "__main__":
    raise SystemExit(main())
