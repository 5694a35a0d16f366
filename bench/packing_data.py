"""Pods and catalogues for the packing benchmark: from a data folder, or made in the same shape.

The folder holds `openb/` (pods of the Alibaba trace), `ec2/` (prices and sizes of EC2) and `kwok/` (the
types of Karpenter's simulated provider), each as published.
"""

from __future__ import annotations

import csv
import json
import random
from pathlib import Path

Size = tuple[int, int]
Row = tuple[str, int, int, int, float]

_SEED = 20260
_MODERN = ("c7i", "m7i", "r7i", "c8i-flex", "m8i-flex", "r8i-flex")


def sizes(folder: Path | None) -> list[Size]:
    """The sizes to draw pods from, each as often as it occurs."""
    if folder is None:
        return _made_sizes()
    with (folder / "openb" / "openb_pod_list_default.csv").open(encoding="utf-8") as file:
        return [(int(row["cpu_milli"]), int(row["memory_mib"])) for row in csv.DictReader(file)]


def resampled(folder: Path | None, count: int, distinct: bool) -> list[Size]:
    """So many pods; if distinct, each size changed a little, as a vertical autoscaler would."""
    chance = random.Random(_SEED + count)
    drawn = chance.choices(sizes(folder), k=count)
    if not distinct:
        return drawn
    return [
        (max(1, round(cpu * chance.uniform(0.7, 1.1))), max(1, round(memory * chance.uniform(0.7, 1.1))))
        for cpu, memory in drawn
    ]


def catalogues(folder: Path | None) -> dict[str, list[Row]]:
    if folder is None:
        return {
            "made, clouds' like": _made_types(8),
            "made, small": _made_types(2),
            "made, linear": _linear(),
        }
    every = _ec2(folder)
    modern = [row for row in every if row[0].split(".")[0] in _MODERN]
    return {f"ec2 {len(every)}": every, f"ec2 {len(modern)}": modern, "kwok": _kwok(folder)}


def _ec2(folder: Path) -> list[Row]:
    """General types as Karpenter would take them: amd64, c, m and r, third generation on, not metal."""
    with (folder / "ec2" / "ec2_us_east_1_ondemand.csv").open(encoding="utf-8") as file:
        return [
            (
                row["name"],
                int(row["alloc_cpu_milli"]),
                int(row["alloc_mem_mib"]),
                int(row["alloc_pods"]),
                float(row["price_usd_hour"]),
            )
            for row in csv.DictReader(file)
            if row["arch"] == "amd64" and row["category"] in ("c", "m", "r")
            if int(row["generation"]) > 2 and "metal" not in row["size"]
        ]


def _kwok(folder: Path) -> list[Row]:
    raw = json.loads((folder / "kwok" / "instance_types.json").read_text(encoding="utf-8"))
    rows: list[Row] = []
    for type_ in raw:
        if type_["architecture"] != "amd64" or type_["operatingSystems"] != ["linux"]:
            continue
        offers = [
            offer["Price"]
            for offer in type_["offerings"]
            if any(requirement["values"] == ["on-demand"] for requirement in offer["Requirements"])
        ]
        room = type_["resources"]
        memory_mib = _mib(room["memory"])
        rows.append((type_["name"], int(room["cpu"]) * 1000, memory_mib, int(room["pods"]), min(offers)))
    return rows


def _mib(text: str) -> int:
    return round(float(text[:-2]) * {"Mi": 1, "Gi": 1024, "Ti": 1024**2}[text[-2:]])


def _made_sizes() -> list[Size]:
    """About a hundred sizes, most of them large, a few very common."""
    chance = random.Random(_SEED)
    found: list[Size] = []
    for rank in range(1, 101):
        cpu = round(
            chance.choice((1000, 2000, 4000, 8000, 12000, 12000, 16000, 32000)) * chance.uniform(0.8, 1.1)
        )
        memory = round(
            cpu / 1000 * chance.choice((1024, 2048, 4096, 4096, 5120, 8192)) * chance.uniform(0.8, 1.1)
        )
        found.extend([(cpu, memory)] * (2000 // rank))
    return found


def _made_types(generations: int) -> list[Row]:
    """Three families a generation, nine sizes each, prices that fall and rise as clouds' do."""
    chance = random.Random(_SEED + generations)
    rows: list[Row] = []
    for generation in range(generations):
        for family, memory_gib in (("c", 2), ("m", 4), ("r", 8)):
            pricier = chance.uniform(0.9, 1.2)
            for cpus in (2, 4, 8, 16, 32, 48, 64, 96, 192):
                price = cpus * (0.032 + 0.0028 * memory_gib) * pricier
                memory_mib = round(cpus * memory_gib * 1024 * 0.93 - 500)
                pods = 29 if cpus < 4 else 58 if cpus < 32 else 234 if cpus < 96 else 737
                rows.append(
                    (f"{family}{generation}-{cpus}", cpus * 1000 - 90, memory_mib, pods, round(price, 4))
                )
    return rows


def _linear() -> list[Row]:
    rows: list[Row] = []
    for family, memory_gib in (("c", 2), ("s", 4), ("m", 8)):
        for cpus in (1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 192, 256):
            price = cpus * (0.025 + memory_gib * 0.001)
            pods = min(1024, cpus * 16)
            rows.append((f"{family}-{cpus}x", cpus * 1000, cpus * memory_gib * 1024, pods, price))
    return rows
