"""How far above its proven bound the packer ends, and how fast; next to two common ways to pack.

    python -m bench.bench_packing --data FOLDER

Every plan is made by the command that users run, in a process of its own, so its seconds include
loading the solver and reading the files. Each is checked before it is counted.
"""

from __future__ import annotations

import argparse
import csv
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.packing_baselines import first_fit_decreasing, least_waste
from bench.packing_data import Row, Size, catalogues, resampled
from ebbtide.core.packing import Item, NodeType
from ebbtide.entrypoints.pack import read_items, read_types

_RUN = (
    "from pathlib import Path; from ebbtide.entrypoints.pack import pack_command;"
    "sys.exit(pack_command(Path(sys.argv[1]), Path(sys.argv[2]), float(sys.argv[3]), True))"
)
_BASELINE_PODS = 10_000
"""Beyond this the models of other packers take minutes, and say nothing new."""


@dataclass(frozen=True, slots=True)
class Case:
    pods: int
    distinct: bool
    deadline: float
    aim: float
    """Per cent over the bound."""


CASES = (
    Case(1_000, False, 1.0, 0.5),
    Case(10_000, False, 1.0, 0.5),
    Case(100_000, False, 1.5, 1.0),
    Case(10_000, True, 3.0, 1.5),
)


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description="Cost over the proven bound, and seconds.")
    parser.add_argument("--data", type=Path, help="folder with openb, ec2 and kwok; made up if not given")
    parser.add_argument("--repeat", type=int, default=3, help="runs of each case; the median is shown")
    parser.add_argument("--no-baselines", action="store_true", help="leave out the slow comparisons")
    parser.add_argument(
        "--cpu", action="store_true", help="count CPU seconds, for a machine that has other work to do"
    )
    options = parser.parse_args(arguments)
    folder = options.data if options.data and options.data.is_dir() else None
    if folder is None:
        print("No data folder: pods and types of the same shape are made up here, and so are the figures.")
    table = Table("catalogue", "pods", "over bound %", "aim %", "seconds", "deadline", "nodes")
    table.add_column("first-fit decreasing")
    table.add_column("least waste")
    with tempfile.TemporaryDirectory() as scratch:
        for case in CASES:
            for name, rows in catalogues(folder).items():
                files = _written(Path(scratch), resampled(folder, case.pods, case.distinct), rows)
                table.add_row(name, *_measured(case, files, options))
                print(f"{name}, {case.pods} pods: done", file=sys.stderr)
    Console(width=140).print(table)
    return 0


def _written(folder: Path, pods: list[Size], rows: list[Row]) -> tuple[Path, Path]:
    paths = folder / "pods.csv", folder / "types.csv"
    with paths[0].open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("name", "cpu_milli", "memory_mib"))
        writer.writerows((f"pod-{number}", *size) for number, size in enumerate(pods))
    with paths[1].open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(("name", "cpu_milli", "memory_mib", "pods", "price"))
        writer.writerows(rows)
    return paths


def _measured(case: Case, files: tuple[Path, Path], options: argparse.Namespace) -> list[str]:
    items, types = read_items(files[0]), read_types(files[1])
    runs = sorted(
        (_run(case, files, options.cpu) for _ in range(options.repeat)), key=lambda run: float(run["gap"])
    )
    for run in runs:
        _check(run, items, types)
    middle = runs[len(runs) // 2]
    seconds = sorted(float(run["seconds"]) for run in runs)[len(runs) // 2]
    bound = float(middle["bound"])
    others = ["", ""]
    if not options.no_baselines and case.pods <= _BASELINE_PODS:
        others = [_compared(way, items, types, bound) for way in (first_fit_decreasing, least_waste)]
    return [
        f"{case.pods}, all different" if case.distinct else str(case.pods),
        f"{100 * middle['gap']:.2f}",
        f"{case.aim:.1f}",
        f"{seconds:.2f}",
        f"{case.deadline:.1f}",
        str(len(middle["nodes"])),
        *others,
    ]


def _run(case: Case, files: tuple[Path, Path], cpu: bool) -> dict[str, Any]:
    clock = "time.perf_counter = time.process_time;" if cpu else ""
    command = [
        sys.executable,
        "-c",
        f"import sys, time; {clock}{_RUN}",
        *map(str, files),
        str(case.deadline),
    ]
    done = subprocess.run(command, capture_output=True, check=True)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def _check(run: dict[str, Any], items: Sequence[Item], types: Sequence[NodeType]) -> None:
    """Stop the benchmark at a plan that does not hold."""
    size = {name: (item.cpu_milli, item.memory_mib) for item in items for name in item.names}
    room = {type_.name: type_ for type_ in types}
    placed = [name for node in run["nodes"] for name in node["pods"]]
    aside = [name for each in run["unplaced"] for name in each["pods"]]
    assert sorted(placed + aside) == sorted(size), "a pod is missing or placed twice"
    for node in run["nodes"]:
        type_ = room[node["type"]]
        assert len(node["pods"]) <= type_.pods, "too many pods"
        assert sum(size[name][0] for name in node["pods"]) <= type_.cpu_milli, "too much CPU"
        assert sum(size[name][1] for name in node["pods"]) <= type_.memory_mib, "too much memory"


def _compared(
    way: Callable[[Sequence[Item], Sequence[NodeType]], float],
    items: Sequence[Item],
    types: Sequence[NodeType],
    bound: float,
) -> str:
    start = time.perf_counter()
    cost = way(items, types)
    return f"+{100 * (cost / bound - 1):.1f} %, {time.perf_counter() - start:.0f} s"


if __name__ == "__main__":
    sys.exit(main())
