"""Many callers wait for one wake: one thread waits for all of them, and each is answered at once.

A thread for each caller would let a few slow wakes use up the threads that answer everything else.
"""

from __future__ import annotations

import asyncio

from anyio import CapacityLimiter, to_thread

from ebbtide.engine.scaling import Scaling, Woken

MOST_WAKES = 500
"""Different wakes that can be waited for at a time; further ones wait for their turn."""


class Waiting:
    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._tasks: dict[tuple[str, str], asyncio.Task[Woken]] = {}
        self._limiter: CapacityLimiter | None = None

    async def ready(self, policy_id: str, wake_id: str, until: float) -> Woken:
        key = (policy_id, wake_id)
        task = self._tasks.get(key)
        if task is None:
            task = asyncio.create_task(self._wait(policy_id, wake_id, until))
            self._tasks[key] = task
            task.add_done_callback(lambda _: self._tasks.pop(key, None))
        return await asyncio.shield(task)

    async def _wait(self, policy_id: str, wake_id: str, until: float) -> Woken:
        self._limiter = self._limiter or CapacityLimiter(MOST_WAKES)
        return await to_thread.run_sync(
            self._scaling.wait_ready, policy_id, wake_id, until, limiter=self._limiter
        )
