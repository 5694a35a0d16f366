"""Demand of a recording as regular series: replicas of each workload, and how many nodes all of them need."""

from __future__ import annotations

import numpy as np

from ebbtide.core.forecast.members import Floats
from ebbtide.errors import Usage
from ebbtide.simulator.recording.file import FILL, Recording, Series, requests_of
from ebbtide.simulator.story.parse import story_of

STEP_SECONDS = 900
NODES = "nodes"


def regular(series: Series, until: float, step_seconds: int = STEP_SECONDS) -> Floats:
    """The mean of each whole step; nothing before the first value."""
    edges = np.arange(0, int(until // step_seconds) + 1) * float(step_seconds)
    at = np.concatenate([[0.0], np.maximum(series.at, 0.0), [max(until, edges[-1])]])
    held = np.concatenate([[0.0], np.asarray(series.replicas, dtype=np.float64)])
    total = np.concatenate([[0.0], np.cumsum(held * np.diff(at))])
    return np.asarray(np.diff(np.interp(edges, at, total)) / step_seconds)


def demand_of(recording: Recording, name: str) -> dict[str, Floats]:
    """By workload, and of nodes under the name `nodes`: enough of the first type of the first pool."""
    until = float(recording.story["until"])
    found = {key: regular(series, until) for key, series in recording.demand.items()}
    if not found:
        raise Usage(f"{name} holds no demand; nothing was forecast. Record it again with `ebbtide record`.")
    offered = story_of(recording, name).config.settings.pools[0].types[0].allocatable
    cpu = memory = np.zeros(len(next(iter(found.values()))))
    for workload in recording.story["workloads"]:
        wanted = found.get(f"{workload.get('namespace', 'default')}/{workload['name']}")
        if wanted is not None:
            asked = requests_of(workload)
            cpu, memory = cpu + wanted * asked[0], memory + wanted * asked[1]
    share = np.maximum(cpu / max(offered.cpu_milli, 1), memory / max(offered.memory_mib, 1))
    return {**found, NODES: np.asarray(np.ceil(share / FILL))}
