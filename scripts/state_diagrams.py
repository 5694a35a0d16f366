"""Write docs/state-machines.md: a diagram of each state machine, made from its table of transitions.

    python -m scripts.state_diagrams docs/state-machines.md

A test fails when the page does not match the tables.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

from ebbtide.core.operations import moves, removals, slots, spot
from ebbtide.core.scale_to_zero import machine

Table = Mapping[Any, frozenset[Any]]
"""Of the members of one enum."""


@dataclass(frozen=True)
class Machine:
    title: str
    module: str
    what: str
    start: StrEnum
    allowed: Table


def machines() -> tuple[Machine, ...]:
    return (
        Machine(
            "Removal",
            "core/operations/removals.py",
            "One node on its way out. After TERMINATING it only rolls forward.",
            next(iter(removals.ALLOWED)),
            dict(removals.ALLOWED),
        ),
        Machine(
            "Slot",
            "core/operations/slots.py",
            "One instance to launch. Its key is written before the first call.",
            next(iter(slots.ALLOWED)),
            dict(slots.ALLOWED),
        ),
        Machine(
            "Source",
            "core/operations/moves.py",
            "One node that a consolidation empties.",
            next(iter(moves.SOURCE_ALLOWED)),
            dict(moves.SOURCE_ALLOWED),
        ),
        Machine(
            "Move",
            "core/operations/moves.py",
            "One pod that a consolidation moves.",
            next(iter(moves.ALLOWED)),
            dict(moves.ALLOWED),
        ),
        Machine(
            "Spot answer",
            "core/operations/spot.py",
            "The kind of a notice. Its node and its replacement are a removal and a slot. A recommendation "
            "can become an interruption, never the other way round.",
            next(iter(spot.ALLOWED)),
            dict(spot.ALLOWED),
        ),
        Machine(
            "Policy",
            "core/scale_to_zero/machine.py",
            "The phase of a workload or pool that may be scaled to zero. A wake that is written is never "
            "skipped: WAKING leads only to ACTIVE.",
            next(iter(machine.ALLOWED)),
            dict(machine.ALLOWED),
        ),
    )


def page() -> str:
    lines = [
        "# State machines",
        "",
        "Made from the transition tables in the code by `make reference`; do not edit.",
        "[ARCHITECTURE.md](../ARCHITECTURE.md) describes how a tick advances them.",
    ]
    for each in machines():
        lines += ["", f"## {each.title}", "", f"{each.what} (`{each.module}`)", ""]
        lines += ["```mermaid", "stateDiagram-v2", *_edges(each), "```"]
    return "\n".join(lines) + "\n"


def _edges(machine: Machine) -> Iterator[str]:
    yield f"  [*] --> {_name(machine.start)}"
    for state, following in machine.allowed.items():
        for each in machine.allowed:
            if each in following:
                yield f"  {_name(state)} --> {_name(each)}"
        if not following:
            yield f"  {_name(state)} --> [*]"


def _name(state: StrEnum) -> str:
    return state.name


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(page(), "utf-8")
