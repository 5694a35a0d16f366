"""`ebbtide pack`: the packer by itself, on two CSV files, for planning and for checking it."""

from __future__ import annotations

import csv
import math
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path

import msgspec
from rich.console import Console
from rich.table import Table

from ebbtide.core.packing import Item, NodeType, Plan
from ebbtide.core.packing.pack import installed_packer, pack_within
from ebbtide.core.packing.types import Budget
from ebbtide.errors import Usage

_POD_COLUMNS = ("name", "cpu_milli", "memory_mib")
_TYPE_COLUMNS = ("name", "cpu_milli", "memory_mib", "pods", "price")
_TOLD = 10
"""Wrong lines told at once: enough to see a pattern, few enough to read."""
_SHOWN = 40
"""Nodes in the table for people; the JSON has them all."""


def pack_command(pods: Path, types: Path, deadline: float, as_json: bool) -> int:
    """Print the cheapest nodes found within `deadline` seconds of the start; the exit code.

    0 with a plan, even if some pods fit no type; 2 for input that cannot be used.
    """
    start = time.perf_counter()
    error = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        if not 0 < deadline < math.inf:
            raise Usage(f"a deadline of {deadline} s leaves no time: give a number of seconds above 0")
        items, node_types = read_items(pods), read_types(types)
    except Usage as wrong:
        error.print(f"ebbtide: {wrong}", style="red", markup=False)
        return 2
    budget = Budget(time.perf_counter, start + deadline, packer=installed_packer())
    plan = pack_within(items, node_types, budget)
    seconds = time.perf_counter() - start
    for unplaced in plan.unplaced:
        told = ", ".join(unplaced.pods[:_TOLD]) + (", …" if len(unplaced.pods) > _TOLD else "")
        error.print(f"left out: {told}: {unplaced.reason}", style="yellow", markup=False)
    if as_json:
        print(plan_json(plan, seconds).decode())
    else:
        _show(plan, seconds, Console(highlight=False))
    return 0


def plan_json(plan: Plan, seconds: float) -> bytes:
    return msgspec.json.encode(
        {
            "cost": plan.cost,
            "bound": plan.bound,
            "gap": plan.gap,
            "seconds": seconds,
            "nodes": [{"type": node.type.name, "pods": node.pods} for node in plan.nodes],
            "unplaced": [{"pods": each.pods, "reason": each.reason} for each in plan.unplaced],
        }
    )


def read_items(path: Path) -> list[Item]:
    """The pods of a CSV file as classes of equal size."""
    sizes: dict[tuple[str, str], list[str]] = {}
    lines: dict[str, int] = {}
    for line, (name, cpu_text, memory_text) in _rows(path, _POD_COLUMNS):
        lines.setdefault(name, line)
        sizes.setdefault((cpu_text, memory_text), []).append(name)
    wrong: list[str] = []
    whole: dict[tuple[int, int], list[str]] = {}
    # Numbers are read once a size, not once a pod: large files repeat few sizes.
    for (cpu_text, memory_text), names in sizes.items():
        cpu_milli = _whole(cpu_text, "cpu_milli", 0, wrong, f"{path}:{lines[names[0]]}")
        memory_mib = _whole(memory_text, "memory_mib", 0, wrong, f"{path}:{lines[names[0]]}")
        whole.setdefault((cpu_milli, memory_mib), []).extend(names)
    _check_names(path, (name for names in sizes.values() for name in names), lines, wrong)
    _stop_on(wrong)
    return [Item(cpu_milli, memory_mib, tuple(names)) for (cpu_milli, memory_mib), names in whole.items()]


def read_types(path: Path) -> list[NodeType]:
    """The node types of a CSV file."""
    wrong: list[str] = []
    lines: dict[str, int] = {}
    types: list[NodeType] = []
    names: list[str] = []
    for line, (name, cpu_text, memory_text, pods_text, price_text) in _rows(path, _TYPE_COLUMNS):
        where, before = f"{path}:{line}", len(wrong)
        lines.setdefault(name, line)
        names.append(name)
        cpu_milli = _whole(cpu_text, "cpu_milli", 1, wrong, where)
        memory_mib = _whole(memory_text, "memory_mib", 1, wrong, where)
        pods = _whole(pods_text, "pods", 1, wrong, where)
        price = _price(price_text, wrong, where)
        if len(wrong) == before:
            types.append(NodeType(name, cpu_milli, memory_mib, pods, price))
    _check_names(path, names, lines, wrong)
    _stop_on(wrong)
    return types


def _rows(path: Path, columns: Sequence[str]) -> Iterator[tuple[int, list[str]]]:
    """Line number and the wanted columns of every line that is not blank."""
    try:
        with path.open(encoding="utf-8-sig", newline="") as file:
            reader = csv.reader(file)
            header = [name.strip() for name in next(reader, [])]
            places = _places(path, header, columns)
            last, empty = max(places), True
            for row in reader:
                if not row:
                    continue
                if len(row) <= last:
                    raise Usage(
                        f"{path}:{reader.line_num}: {len(row)} fields where the header has {len(header)}"
                    )
                empty = False
                yield reader.line_num, [row[place] for place in places]
    except OSError as cause:
        raise Usage(f"{path}: {cause.strerror}: give a CSV file that can be read") from cause
    except (UnicodeDecodeError, csv.Error) as cause:
        raise Usage(f"{path}: not a CSV file in UTF-8 ({cause}): save it as one") from cause
    if empty:
        raise Usage(f"{path}:1: nothing follows the header: add a line for each, as {','.join(columns)}")


def _places(path: Path, header: list[str], columns: Sequence[str]) -> list[int]:
    if not header:
        raise Usage(f"{path}: the file is empty: the first line must name the columns {','.join(columns)}")
    missing = [column for column in columns if column not in header]
    if missing:
        raise Usage(f"{path}:1: no column {', '.join(missing)}: the header must name {','.join(columns)}")
    return [header.index(column) for column in columns]


def _whole(text: str, column: str, least: int, wrong: list[str], where: str) -> int:
    try:
        number = int(text)
    except ValueError:
        wrong.append(f"{where}: {column} is {text.strip()!r}: write a whole number")
        return least
    if number < least:
        wrong.append(f"{where}: {column} is {number}: write {least} or more")
    return max(number, least)


def _price(text: str, wrong: list[str], where: str) -> float:
    if not text.strip():
        wrong.append(f"{where}: the price is missing: write one per hour, or take the line out")
        return 1.0
    try:
        price = float(text)
    except ValueError:
        price = math.nan
    if not 0 < price < math.inf:
        wrong.append(f"{where}: the price is {text.strip()!r}: write a number above 0")
    return price


def _check_names(
    path: Path, names: Iterator[str] | list[str], lines: dict[str, int], wrong: list[str]
) -> None:
    found = list(names)
    if "" in lines:
        wrong.append(f"{path}:{lines['']}: the name is missing: every line needs one of its own")
    if len(lines) < len(found):
        twice = [name for name, times in Counter(found).items() if times > 1 and name]
        wrong.extend(
            f"{path}:{lines[name]}: {name} is named again further down: rename one" for name in twice
        )


def _stop_on(wrong: list[str]) -> None:
    if wrong:
        more = [f"and {len(wrong) - _TOLD} more"] if len(wrong) > _TOLD else []
        raise Usage("\n".join(wrong[:_TOLD] + more))


def _show(plan: Plan, seconds: float, console: Console) -> None:
    table = Table(title="1 node" if len(plan.nodes) == 1 else f"{len(plan.nodes)} nodes")
    for name in ("type", "price", "pods"):
        table.add_column(name, justify="right" if name == "price" else "left", overflow="fold")
    for node in plan.nodes[:_SHOWN]:
        table.add_row(node.type.name, f"{node.type.price:.4f}", ", ".join(node.pods))
    console.print(table)
    if len(plan.nodes) > _SHOWN:
        console.print(f"and {len(plan.nodes) - _SHOWN} more: --json has them all")
    console.print(
        f"cost {plan.cost:.4f} an hour, at least {plan.bound:.4f} for any plan: "
        f"{plan.gap:.2%} over the bound, in {seconds:.2f} s",
        soft_wrap=True,
    )
