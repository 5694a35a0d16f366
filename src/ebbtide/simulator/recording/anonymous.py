"""A recording without names: workloads, namespaces and nodes are numbered in the order in which they come.
What they ask for, and where they may run, stays."""

from __future__ import annotations

from typing import Any

import msgspec

from ebbtide.simulator.recording.file import Recording

DROPPED = ("labels", "annotations")
"""Of a workload: nothing in a simulation asks for them by their names, and they may say anything."""


def anonymised(recording: Recording) -> Recording:
    spaces, keys = _Numbers("ns"), _Numbers("workload")
    nodes = _Numbers("node")
    story = dict(recording.story)
    story["name"] = "a recording without names"
    story["workloads"] = [_workload(one, spaces, keys, nodes) for one in story.get("workloads", ())]
    story["nodes"] = [{**one, "name": nodes.of(one["name"])} for one in story.get("nodes", ())]
    demand = {}
    for key, series in recording.demand.items():
        namespace, _, _ = key.rpartition("/")
        demand[f"{spaces.of(namespace)}/{keys.of(key)}"] = series
    kind = recording.recorded.source.partition(" ")[0]
    recorded = msgspec.structs.replace(recording.recorded, source=kind)
    return Recording(recording.ebb, story, demand, recorded)


def _workload(written: dict[str, Any], spaces: _Numbers, keys: _Numbers, nodes: _Numbers) -> dict[str, Any]:
    namespace = written.get("namespace", "default")
    kept = {name: value for name, value in written.items() if name not in DROPPED}
    kept["name"] = keys.of(f"{namespace}/{written['name']}")
    kept["namespace"] = spaces.of(namespace)
    if "on" in kept:
        kept["on"] = [nodes.of(name) for name in kept["on"]]
    return kept


class _Numbers:
    """The same name gets the same number."""

    def __init__(self, kind: str) -> None:
        self._kind = kind
        self._known: dict[str, str] = {}

    def of(self, name: str) -> str:
        return self._known.setdefault(name, f"{self._kind}-{len(self._known) + 1}")
