"""Waiting for a simulated workload while another thread moves the clock.

A request that the demo holds takes as long as it would, at the demo's speed, and does not make time jump for
everybody else.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from ebbtide.model.workload import Workload, WorkloadRef
from ebbtide.ports import Clock

LOOK_SECONDS = 0.05


class Unhurried:
    """Simulated workloads, called from many threads."""

    def __init__(self, workloads: Any, clock: Clock, runs: Callable[[], bool]) -> None:
        """`runs` says whether somebody moves the clock; while nobody does, waiting moves it."""
        self._workloads = workloads
        self._clock = clock
        self._runs = runs

    def __getattr__(self, name: str) -> Any:
        return getattr(self._workloads, name)

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        while self._runs() and self._clock.now() < until:
            seen: Workload = self._workloads.read(ref)
            if seen.ready:
                return seen
            time.sleep(LOOK_SECONDS)
        ended: Workload = self._workloads.wait_ready(ref, until)
        return ended
