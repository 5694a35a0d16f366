"""Asking for wakes: one question at a time for each policy, again while connections are held, never lost;
and how long a wake still takes, as far as this gate knows.

A connection that arrives while a question is in progress gets a question of its own afterwards: the answer to
the first may be from before the policy fell asleep.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from math import ceil
from typing import Protocol

from ebbtide.errors import EbbtideError
from ebbtide.gate.admission import Heard, Route
from ebbtide.gate.held import HeldConnection


@dataclass(frozen=True, slots=True)
class Eta:
    seconds: int
    needs_node: bool | None = None
    """Whether a node must be launched first; None: not known."""


class Expects(Protocol):
    def __call__(self, policy_id: str, /) -> Eta | None:
        """From the policy's history; None where nothing is known. Must not block."""


def nothing_known(policy_id: str) -> Eta | None:  # noqa: ARG001 - as the protocol says
    return None


RETRY_AFTER_SECONDS = 30
"""Where nothing is known of how long it takes."""
OVERDUE_SECONDS = 5


class WakeOutlook:
    def __init__(self, knocker: Knocker, expects: Expects) -> None:
        self._knocker = knocker
        self._expects = expects

    def heard(self, held: HeldConnection, route: Route) -> Heard:
        """A connection as its judge sees it."""
        waking = self._knocker.waking(route.policy_id)
        expected = self._expects(route.policy_id)
        return Heard(
            head=held.head,
            whole=held.whole,
            source=held.source,
            policy=route.policy,
            eta_seconds=self.eta_seconds(route.policy_id),
            waking=waking is not None,
            waited_seconds=waking.waited_seconds if waking is not None else 0,
            needs_node=expected.needs_node if expected is not None else None,
            failing=self._knocker.failing(route.policy_id),
        )

    def eta_seconds(self, policy_id: str) -> int:
        """Of the wake in progress, or of one that would begin now; 0: not known, or longer than expected."""
        waking = self._knocker.waking(policy_id)
        if waking is not None:
            return waking.eta_seconds
        expected = self._expects(policy_id)
        return expected.seconds if expected is not None else 0

    def retry_after(self, policy_id: str) -> int:
        overdue = self._knocker.waking(policy_id) is not None
        return self.eta_seconds(policy_id) or (OVERDUE_SECONDS if overdue else RETRY_AFTER_SECONDS)

    def why_not_awake(self, route: Route) -> str:
        failing = self._knocker.failing(route.policy_id)
        why = "the wake could not be recorded" if failing else "it is not awake yet"
        return f"{route.policy} was asked to wake, and {why}"


Wake = Callable[[str], Awaitable[float]]
"""Wakes the policy of this id, or notes that it is in use; the seconds until it is ready, 0 where it is
awake. May raise `EbbtideError`."""
Needed = Callable[[str], bool]
Answered = Callable[[str, bool], None]

GAP_SECONDS = 1.0
"""Between two questions for one policy."""
BACKOFF_SECONDS = (0.25, 0.5, 1.0, 2.0, 5.0)
STALE_SECONDS = 120.0
"""A wake of which nothing was heard for so long is over, or was given up."""
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class WakeProgress:
    waited_seconds: int
    eta_seconds: int
    """0: it takes longer than expected."""


@dataclass(slots=True)
class _Knock:
    wanted: bool = False
    task: asyncio.Task[None] | None = None
    failures: int = 0
    since: float = 0.0
    """When the wake that is in progress was first answered, by the loop's clock; 0: none is."""
    answered_at: float = 0.0
    seconds: float = 0.0
    """What it took from then on."""

    def answered(self, seconds: float, now: float) -> None:
        """No time left: it is awake. What was not asked about for long has ended unseen."""
        if not seconds:
            self.since = 0.0
        elif not self.since or now - self.answered_at > STALE_SECONDS:
            self.since = now
        self.answered_at, self.seconds = now, seconds


class Knocker:
    def __init__(self, wake: Wake, needed: Needed, answered: Answered) -> None:
        """`needed` says whether connections of a policy are still held."""
        self._wake = wake
        self._needed = needed
        self._answered = answered
        self._knocks: dict[str, _Knock] = {}

    def knock(self, policy_id: str) -> None:
        found = self._knocks.setdefault(policy_id, _Knock())
        found.wanted = True
        if found.task is None:
            found.task = asyncio.get_running_loop().create_task(self._run(policy_id, found))

    def waking(self, policy_id: str) -> WakeProgress | None:
        """The wake in progress; None where none is known."""
        found, now = self._knocks.get(policy_id), asyncio.get_running_loop().time()
        if found is None or not found.since or now - found.answered_at > STALE_SECONDS:
            return None
        left = found.answered_at + found.seconds - now
        return WakeProgress(round(now - found.since), max(0, ceil(left)))

    def failing(self, policy_id: str) -> bool:
        """Whether the last question got no answer."""
        found = self._knocks.get(policy_id)
        return found is not None and found.failures > 0

    async def close(self) -> None:
        tasks = [one.task for one in self._knocks.values() if one.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _run(self, policy_id: str, knock: _Knock) -> None:
        try:
            while knock.wanted:
                knock.wanted = False
                await asyncio.sleep(await self._ask(policy_id, knock))
        finally:
            knock.task = None

    async def _ask(self, policy_id: str, knock: _Knock) -> float:
        """How long to pause before the next question."""
        try:
            seconds = await self._wake(policy_id)
        except EbbtideError as error:
            _log.warning("policy %s could not be woken, and is tried again: %s", policy_id, error)
        except Exception:  # a gate must outlive a bug in one wake
            _log.exception("policy %s could not be woken, and is tried again", policy_id)
        else:
            knock.failures = 0
            knock.answered(seconds, asyncio.get_running_loop().time())
            self._answered(policy_id, True)
            return GAP_SECONDS
        knock.failures += 1
        knock.wanted = knock.wanted or self._needed(policy_id)
        self._answered(policy_id, False)
        return BACKOFF_SECONDS[min(knock.failures, len(BACKOFF_SECONDS)) - 1]
