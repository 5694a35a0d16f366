"""Repeats a call that may be repeated, a bounded number of times, with jitter between.

A call is repeated when its reply was lost, and when the store says that it is too busy. Once a reply was
lost, nothing less than a definite answer ends in anything but `Unanswered`.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import TypeVar

from ebbtide.errors import Retryable, StoreUnusable, Throttled, Unanswered
from ebbtide.ports import Clock

ATTEMPTS = 4
ATTEMPTS_WHEN_THROTTLED = 8
FIRST_PAUSE_SECONDS = 0.1
LONGEST_PAUSE_SECONDS = 3.0
T = TypeVar("T")


def repeat(clock: Clock, call: Callable[[bool], T], lost: Unanswered | None = None) -> T:
    """`call` is told whether an earlier reply was lost, so whether it may have been done already; `lost` is
    one that was lost before."""
    failures = throttles = 0
    while True:
        try:
            return call(lost is not None)
        except Unanswered as error:
            lost = error
            failures += 1
        except Throttled as error:
            throttles += 1
            if throttles >= ATTEMPTS_WHEN_THROTTLED:
                raise lost or error from error
        except (Retryable, StoreUnusable) as error:
            failures += 1
            # Crash table: write-reply-lost.
            if lost is None:
                raise
            if isinstance(error, StoreUnusable):
                raise lost from error
        if lost is not None and failures >= ATTEMPTS:
            raise lost
        clock.sleep(_pause_seconds(failures + throttles))


def _pause_seconds(number: int) -> float:
    longest = min(LONGEST_PAUSE_SECONDS, FIRST_PAUSE_SECONDS * 2.0 ** (number - 1))
    return random.uniform(longest / 2, longest)
