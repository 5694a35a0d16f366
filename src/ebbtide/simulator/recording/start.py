"""The nodes that a recording begins with where its source tells of none: enough for the first pods."""

from __future__ import annotations

from collections.abc import Mapping
from math import ceil
from typing import Any

from ebbtide.config import Config
from ebbtide.config.section import read_cpu_milli, read_memory_mib
from ebbtide.simulator.recording.file import Recording

FILL = 0.85
"""How full the first nodes are."""
AGE_SECONDS = 86_400


def requests_of(workload: Mapping[str, Any]) -> tuple[int, int]:
    """CPU in thousandths and memory in MiB that a pod requests; 0 where it requests none."""
    cpu, memory = workload.get("cpu"), workload.get("memory")
    return read_cpu_milli(cpu) if cpu else 0, read_memory_mib(memory) if memory else 0


def with_first_nodes(recording: Recording, config: Config) -> Recording:
    """Nodes of the first type of the first pool, over its zones. Without them the first minutes would be
    about starting a cluster."""
    pool = config.settings.pools[0]
    offered = pool.types[0].allocatable
    cpu = memory = 0
    for workload in recording.story["workloads"]:
        series = recording.demand.get(f"{workload.get('namespace', 'default')}/{workload['name']}")
        first = series.replicas[0] if series is not None and series.at[0] <= 0 else 0
        asked = requests_of(workload)
        cpu, memory = cpu + first * asked[0], memory + first * asked[1]
    needed = max(cpu / max(offered.cpu_milli, 1), memory / max(offered.memory_mib, 1)) / FILL
    count = min(max(ceil(needed), config.settings.min_workers), config.settings.max_workers)
    nodes: list[dict[str, Any]] = []
    for number, zone in enumerate(pool.zones):
        share = len(range(number, count, len(pool.zones)))
        if share:
            there = {"name": f"start-{number}", "zone": zone, "count": share, "age_sec": AGE_SECONDS}
            nodes.append({**there, "pool": pool.name})
    return Recording(recording.ebb, {**recording.story, "nodes": nodes}, recording.demand, recording.recorded)
