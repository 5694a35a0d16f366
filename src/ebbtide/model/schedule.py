"""Times that come round by a cron line in a time zone, and how long they last."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class CronWindow:
    """Open from every time the cron line names in the zone, for the duration: `start <= now < end`."""

    cron: str
    zone: str
    duration_seconds: int
