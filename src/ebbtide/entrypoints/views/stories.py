"""What came of a story, for people."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

import msgspec
from rich.text import Text

from ebbtide.entrypoints.cli.writing import BAD, GOOD, QUIET, STRONG, rows, span
from ebbtide.simulator.story.output import StoryResult
from ebbtide.simulator.story.recorder import Done

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
