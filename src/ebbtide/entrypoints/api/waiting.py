"""Many callers wait for one wake: one thread waits for all of them, and each is answered at once.

A thread for each caller would let a few slow wakes use up the threads that answer everything else. Each
caller has a deadline of its own; the thread waits until the latest of them.
"""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

from anyio import CapacityLimiter, to_thread

from ebbtide.engine.scale_to_zero.scaling import Scaling, Woken

MOST_WAKES = 500
"""Different wakes that can be waited for at a time; further ones wait for their turn."""


@dataclass(slots=True)
class _Shared:
    """One thread that waits, and until when somebody wants it to."""

    task: asyncio.Task[Woken]
    until: float


class Waiting:
    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._shared: dict[tuple[str, str], _Shared] = {}
        self._limiter: CapacityLimiter | None = None

    async def ready(self, policy_id: str, wake_id: str, until: float) -> Woken | None:
        """How it ended, or none where it has not by `until`, which others do not change."""
        key = (policy_id, wake_id)
        shared = self._shared.get(key)
        if shared is None:
            task = asyncio.create_task(self._wait(key))
            shared = self._shared[key] = _Shared(task, until)
            task.add_done_callback(retrieve)
        shared.until = max(shared.until, until)
        left = max(0.0, until - self._scaling.ports.clock.now())
        done, _ = await asyncio.wait({shared.task}, timeout=left)
        return shared.task.result() if done else None

    async def _wait(self, key: tuple[str, str]) -> Woken:
        self._limiter = self._limiter or CapacityLimiter(MOST_WAKES)
        try:
            while True:
                until = self._shared[key].until
                ended = await to_thread.run_sync(self._scaling.wait_ready, *key, until, limiter=self._limiter)
                if ended.ready or until >= self._shared[key].until:
                    return ended
        finally:
            # In the same step as the end: a later caller must not share an answer to an earlier request.
            del self._shared[key]


def retrieve(task: asyncio.Task[Any]) -> None:
    """An error that nobody waits for any more is not worth a warning."""
    if not task.cancelled():
        task.exception()
