"""Simulations for people: the live picture of `ebbtide demo`, and the result of a story."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import groupby
from typing import Any

import msgspec
from rich.console import Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from ebbtide.core.words import count_of
from ebbtide.entrypoints.views.terminal import BAD, GOOD, QUIET, STRONG, rows, span
from ebbtide.simulator.run.frames import Frame, NodeFrame
from ebbtide.simulator.run.simulate import Result
from ebbtide.simulator.story.judge import StoryResult
from ebbtide.simulator.story.recorder import Done

_OPERATION_ID = re.compile(r"\b\d{10}-\d{14}-0*(\d+)")

COLOURS = {
    "ready": "green",
    "booting": "bright_black",
    "joining": "cyan",
    "draining": "yellow",
    "cordoned": "yellow",
    "interrupted": "bright_red",
    "leaving": "red",
    "not ready": "magenta",
}
SHORTEST_BAR, LONGEST_BAR = 6, 24
AROUND_BAR = 30
"""Name, count of pods and state of a node, with the border of its panel."""
LONG_NAME, SHORT_NAME = 9, 6
FIXED_LINES = 14
"""Headline, legend, borders, what is in progress and what this tick says."""
FEWEST_SENTENCES = 4


@dataclass(frozen=True, slots=True)
class DemoTold:
    at: float
    says: str
    fault: bool = False


@dataclass(frozen=True, slots=True)
class Size:
    width: int
    height: int


def clock_face(at: float) -> str:
    return f"{int(at) // 3600 % 24:02d}:{int(at) // 60 % 60:02d}"


def screen(
    frame: Frame, title: str, told: Sequence[DemoTold], zones: Sequence[str], size: Size
) -> RenderableType:
    """Never higher than the terminal: the picture would flicker and scroll away."""
    most = max((sum(node.zone == zone for node in frame.nodes) for zone in zones), default=0)
    nodes = max(3, min(most, size.height - FIXED_LINES - FEWEST_SENTENCES))
    left = max(FEWEST_SENTENCES, size.height - FIXED_LINES - nodes)
    return Group(
        headline(frame, title),
        zone_panels(frame, zones, nodes, size.width),
        legend(),
        under_way(frame, size.width),
        this_tick(frame),
        sentences(told[-left:], left),
    )


def headline(frame: Frame, title: str) -> Text:
    ready = sum(node.state == "ready" for node in frame.nodes)
    cpu = "unknown" if frame.cpu is None else f"{frame.cpu:.0%}"
    return Text.assemble(
        (" ebbtide ", "reverse bold"), f" {title}  ", (clock_face(frame.at), "bold cyan"),
        f"   {ready} nodes ready, CPU {cpu}, {frame.pods} pods, ",
        (f"{frame.waiting} pending", "bold yellow" if frame.waiting else ""),
        f"   {frame.cost:.2f} {frame.currency} spent", overflow="ellipsis", no_wrap=True,
    )  # fmt: skip


def zone_panels(frame: Frame, zones: Sequence[str], height: int, width: int) -> Table:
    each = width // max(1, len(zones))
    bar = max(SHORTEST_BAR, min(LONGEST_BAR, each - AROUND_BAR))
    name = LONG_NAME if each > AROUND_BAR + SHORTEST_BAR else SHORT_NAME
    grid = Table.grid(expand=True)
    panels = []
    for zone in zones:
        grid.add_column(ratio=1)
        here = [node for node in frame.nodes if node.zone == zone]
        lines = [node_line(node, bar, name) for node in here[:height]]
        if len(here) > height:
            lines[-1] = Text(f"and {len(here) - height + 1} more", QUIET)
        lines += [Text()] * (height - len(lines))
        panels.append(Panel(Group(*lines), title=f"zone {zone}", border_style=QUIET))
    grid.add_row(*panels)
    return grid


def node_line(node: NodeFrame, bar: int, name: int) -> Text:
    """The end of a name tells nodes apart."""
    colour = COLOURS.get(node.state, "white")
    full = round(min(1.0, node.requested) * bar)
    market = "spot" if node.market == "spot" else ""
    return Text.assemble(
        (f"{node.name[-name:]:<{name}} ", QUIET), ("█" * full + "░" * (bar - full), colour),
        (f" {node.pods:>2} ", ""), (node.state if node.state != "ready" else market, colour),
        overflow="ellipsis", no_wrap=True,
    )  # fmt: skip


def legend() -> Text:
    parts: list[str | tuple[str, str]] = [" "]
    for colour, names in groupby(COLOURS, COLOURS.__getitem__):
        parts += [("█", colour), (f" {', '.join(names)}  ", QUIET)]
    return Text.assemble(*parts, overflow="ellipsis", no_wrap=True)


def where_it_stands(frame: Frame) -> str:
    nodes = f"{len(frame.nodes)} nodes, {frame.pods} pods, {frame.waiting} pending"
    return f"{clock_face(frame.at)}, with {nodes}, {frame.cost:.2f} {frame.currency} spent"


def under_way(frame: Frame, width: int) -> Panel:
    says = Text(
        frame.operation or "nothing", "" if frame.operation else QUIET, overflow="ellipsis", no_wrap=True
    )
    says.truncate(width - 4, overflow="ellipsis")
    return Panel(says, title="in progress", border_style="yellow" if frame.operation else QUIET)


def this_tick(frame: Frame) -> Panel:
    faulty = not frame.says or frame.faulty
    says = Text(shortened(frame.says or "the runner is down"), BAD if faulty else "")
    says.no_wrap, says.overflow = True, "ellipsis"
    return Panel(says, title="this tick", border_style=QUIET)


def sentences(told: Sequence[DemoTold], height: int) -> Panel:
    lines = [told_line(one) for one in told]
    for line in lines:
        line.no_wrap, line.overflow = True, "ellipsis"
    lines += [Text()] * (height - len(lines))
    return Panel(Group(*lines), title="what was done, and why", border_style=QUIET)


def told_line(told: DemoTold) -> Text:
    return Text.assemble(
        (f"{clock_face(told.at)}  ", QUIET), (shortened(told.says), BAD if told.fault else "")
    )


def shortened(says: str) -> str:
    """With the long ids of simulated operations cut down to what tells them apart."""
    return _OPERATION_ID.sub(r"#\1", says)


def result_lines(result: Result, without: Result | None = None) -> list[Text]:
    """The result of a scenario, next to the result without consolidation if that was played too."""
    lines = [Text(f"{result.scenario}, seed {result.seed}", STRONG), *rows(_outcome(result))]
    if without is not None:
        lines += [Text("without consolidation", STRONG), *rows(_costs(without)), _saved(result, without)]
    violations = [*result.violations, *(without.violations if without else ())]
    lines += [Text(f"violated: {said}", BAD) for said in violations]
    return lines if violations else [*lines, Text("No safety rule was violated.", GOOD)]


def _outcome(result: Result) -> list[tuple[str, str]]:
    struck = ", ".join(f"{name} {count}" for name, count in result.strikes.items())
    trouble = (
        count_of(result.interruptions, "spot interruption"),
        count_of(result.crashes, "crash", "crashes"),
        count_of(result.failed_ticks, "failed tick"),
        count_of(result.alarms, "alarm"),
    )
    lines = [
        ("played", f"{result.ticks:,} ticks"),
        ("faults", ", ".join(result.faults) or "none"),
        ("calls that failed", struck or "none"),
        *_costs(result),
        ("trouble", ", ".join(trouble)),
    ]
    return lines + (_repacked(result) if result.consolidation.begun else [])


def _costs(result: Result) -> list[tuple[str, str]]:
    pending = span(result.pending_pod_seconds)
    return [
        ("nodes", f"{result.launched} launched, {result.removed} removed, {result.node_hours:g} node-hours"),
        ("cost", f"{result.cost} {result.currency}"),
        ("pods", f"{count_of(result.evictions, 'eviction')}; pending for {pending} in all"),
    ]


def _repacked(result: Result) -> list[tuple[str, str]]:
    done = result.consolidation
    what = (
        f"{done.begun} started",
        f"{count_of(done.pods_moved, 'pod')} moved",
        f"{count_of(done.nodes_removed, 'node')} removed",
        f"{done.nodes_launched} launched",
    )
    saved = f"{done.saved_per_hour} {result.currency} an hour saved"
    given_up = [("given up", f"{why} ({count} x)") for why, count in done.given_up.items()]
    return [("consolidation", f"{', '.join(what)}; {saved}"), *given_up]


def _saved(result: Result, without: Result) -> Text:
    saved = Decimal(without.cost) - Decimal(result.cost)
    share = saved / Decimal(without.cost) if Decimal(without.cost) else Decimal(0)
    return Text(f"Consolidation saved {saved} {result.currency} ({share:.1%}).", GOOD if saved >= 0 else BAD)


MOST_ACTS = 40


def story_lines(result: StoryResult) -> list[Text]:
    lines = [Text(result.name, STRONG), *rows(_totals(result))]
    lines += [_act(act) for act in result.acts[:MOST_ACTS]]
    if len(result.acts) > MOST_ACTS:
        lines.append(Text(f"... and more, {len(result.acts)} in all: --json lists every act", QUIET))
    lines += [
        Text(f"does not hold (line {one.line}): {_written(one.expect)}; seen: {one.seen}", BAD)
        for one in result.failed
    ]
    lines += [Text(f"violated {said}", BAD) for said in result.violations]
    return [*lines, Text("All expectations hold; no safety rule was violated.", GOOD)] if result.ok else lines


def _totals(result: StoryResult) -> list[tuple[str, str]]:
    counts = Counter(act.act for act in result.acts)
    done = ", ".join(f"{act.replace('_', ' ')} {count}" for act, count in counts.items())
    waits = result.waits
    waited = (
        f"{waits.pods}; p50 {waits.p50:g} s, p90 {waits.p90:g} s, p99 {waits.p99:g} s, max {waits.max:g} s"
        if waits.pods
        else "none"
    )
    return [
        (
            "played",
            f"{span(result.seconds)} as {result.runner}, seed {result.seed}, {_sentences(len(result.ticks))}",
        ),
        ("acts", done or "none"),
        ("cost", f"{result.cost} {result.currency} for {result.node_hours:g} node-hours"),
        ("pods that did not fit at once", waited),
    ]


def _act(act: Done) -> Text:
    what = " ".join(part for part in (act.pod or act.workload, act.node, act.type, act.zone) if part)
    return Text.assemble(
        (f"{act.at:>9g} s  ", QUIET), f"{act.act.replace('_', ' '):<11} {what}", (f"  {act.why}", QUIET)
    )


def _written(expect: Mapping[str, Any]) -> str:
    return msgspec.json.encode(expect).decode()


def _sentences(count: int) -> str:
    return f"{count} sentence{'' if count == 1 else 's'}"
