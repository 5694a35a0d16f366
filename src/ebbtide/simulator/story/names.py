"""What events and expectations call things: nodes, workloads and pods by the names of the story."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence

from ebbtide.simulator.story.schemas import WorkloadKeys

NEW = re.compile(r"new-[1-9]\d*")
"""Nodes that are launched in the course of a story are new-1, new-2, ... in the order of their launch."""


def new_node(number: int) -> str:
    return f"new-{number}"


class Workloads:
    """Workloads by name; by namespace/name where two namespaces have one of the same name."""

    def __init__(self, workloads: Sequence[WorkloadKeys]) -> None:
        self._by_key = {one.key: one for one in workloads}
        times = Counter(one.name for one in workloads)
        self._key_of = {one.key if times[one.name] > 1 else one.name: one.key for one in workloads}
        self._name_of = {key: name for name, key in self._key_of.items()}
        self._twice = {name for name, count in times.items() if count > 1}

    @property
    def names(self) -> list[str]:
        return list(self._key_of)

    def why_not(self, name: str) -> str:
        """Why this names no workload; empty where it does."""
        if name in self._twice:
            return "is in several namespaces: say namespace/name"
        return "" if self._find(name) else "is no workload of the story"

    def key_of(self, name: str) -> str:
        return self._find(name) or name

    def name_of(self, key: str) -> str:
        return self._name_of.get(key, key)

    def counts_from_zero(self, name: str) -> bool:
        return self._by_key[self.key_of(name)].kind == "StatefulSet"

    def of_pod(self, pod: str) -> str:
        """The key of the workload that could have a pod of this name (or namespace/name); else nothing."""
        namespace, _, name = pod.rpartition("/")
        for key, one in self._by_key.items():
            number = name.removeprefix(f"{one.name}-")
            fits = number != name and (number.isdecimal() or one.kind == "DaemonSet")
            if fits and namespace in ("", one.namespace):
                return key
        return ""

    def _find(self, name: str) -> str:
        if name in self._key_of:
            return self._key_of[name]
        return name if name in self._by_key else ""
