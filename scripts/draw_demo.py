"""Draw docs/demo.svg: one moment of the demo, from a real run. `make pictures` does it."""

from __future__ import annotations

import re
import sys
from io import StringIO
from pathlib import Path

from rich.console import Console

from ebbtide.entrypoints.cli.demo import news
from ebbtide.entrypoints.views.simulations import DemoTold, Size, screen
from ebbtide.simulator.run import scenarios
from ebbtide.simulator.run.frames import Frame
from ebbtide.simulator.run.simulate import Simulation

WIDTH, HEIGHT = 120, 34
SEED = 1
MANY_NODES = 6
FROM_OUTSIDE = re.compile(r"@font-face \{.*?\}\s*|<!--.*?-->\s*", re.DOTALL)
"""Fonts fetched from elsewhere: the picture must not load anything; any monospace font will do."""


def busiest(frames: list[Frame]) -> int:
    """The moment to show: something is being removed while much has happened before."""
    moments = [
        n for n, frame in enumerate(frames) if "removing" in frame.operation and len(frame.nodes) > MANY_NODES
    ]
    return moments[len(moments) // 2] if moments else len(frames) - 1


def main(target: Path) -> None:
    frames: list[Frame] = []
    Simulation(scenarios.tell(SEED), (), frames.append).run()
    shown = busiest(frames)
    told: list[DemoTold] = [line for frame in frames[: shown + 1] for line in news(frame)]
    zones = sorted({node.zone for frame in frames for node in frame.nodes})
    console = Console(record=True, width=WIDTH, height=HEIGHT, file=StringIO(), force_terminal=True)
    console.print(screen(frames[shown], "a day", told, zones, Size(WIDTH, HEIGHT)))
    drawn = console.export_svg(title="ebbtide demo")
    target.write_text(FROM_OUTSIDE.sub("", drawn), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "docs/demo.svg"))
