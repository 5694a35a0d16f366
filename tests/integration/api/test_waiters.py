"""Callers who wait for one wake: each has its own deadline."""

from __future__ import annotations

import asyncio
import threading
from dataclasses import replace

from ebbtide.engine.scale_to_zero.scaling import Scaling, Woken
from ebbtide.entrypoints.api.wakes import Waiting
from ebbtide.model.idle import WakeReason
from ebbtide.simulator.world.clock import VirtualClock
from tests.policy_harness import PolicyHarness

LONG = 60


class Slow:
    """A scaling whose target is ready only for a caller that waits until `ready_from`; each wait ends when
    told."""

    def __init__(self, ready_from: float, now: float = 0) -> None:
        harness = PolicyHarness()
        self.ports = replace(harness.scaling.ports, clock=VirtualClock(now))
        self._woken = harness.scaling.wake(harness.policies[0].id, WakeReason.MANUAL)
        self._ready_from = ready_from
        self.until: list[float] = []
        self.go_on = threading.Event()

    def wait_ready(self, policy_id: str, wake_id: str, until: float) -> Woken:
        self.until.append(until)
        assert self.go_on.wait(LONG)
        return replace(self._woken, ready=until >= self._ready_from)


def waiting_for(slow: Slow) -> Waiting:
    scaling: Scaling = slow  # type: ignore[assignment]  # the part of it that waiting uses
    return Waiting(scaling)


def test_who_comes_later_does_not_inherit_the_deadline_of_the_first() -> None:
    slow = Slow(ready_from=LONG)
    waiting = waiting_for(slow)

    async def both() -> tuple[Woken | None, Woken | None]:
        first = await waiting.ready("p", "w", 0)
        later = asyncio.create_task(waiting.ready("p", "w", LONG))
        await asyncio.sleep(0)
        slow.go_on.set()
        return first, await later

    first, later = asyncio.run(both())
    assert first is None, "its time was over at once"
    assert later is not None
    assert later.ready
    assert slow.until == [0, LONG], "one thread waits, as long as anybody wants it to"


def test_who_waits_longer_does_not_keep_the_others() -> None:
    slow = Slow(ready_from=LONG)
    waiting = waiting_for(slow)

    async def both() -> tuple[Woken | None, Woken | None]:
        long = asyncio.create_task(waiting.ready("p", "w", LONG))
        await asyncio.sleep(0)
        short = await waiting.ready("p", "w", 0)
        slow.go_on.set()
        return await long, short

    long, short = asyncio.run(both())
    assert (long is not None and long.ready, short) == (True, None)
    assert slow.until == [LONG]


def test_who_comes_after_the_end_waits_again() -> None:
    slow = Slow(ready_from=2 * LONG)
    slow.go_on.set()
    waiting = waiting_for(slow)

    async def one_after_the_other() -> tuple[Woken | None, Woken | None]:
        return await waiting.ready("p", "w", LONG), await waiting.ready("p", "w", 2 * LONG)

    first, second = asyncio.run(one_after_the_other())
    assert first is not None
    assert second is not None
    assert (first.ready, second.ready) == (False, True)


def test_a_deadline_is_a_time_and_not_a_duration() -> None:
    slow = Slow(ready_from=2 * LONG, now=10 * LONG)

    async def one() -> Woken | None:
        try:
            return await asyncio.wait_for(waiting_for(slow).ready("p", "w", 10 * LONG), LONG)
        finally:
            slow.go_on.set()

    assert asyncio.run(one()) is None
