"""What the end of an operation does to the record: cooldown after success, back-off after failure."""

from __future__ import annotations

from dataclasses import dataclass

from ebbtide.model.record import Record
from ebbtide.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Closed:
    record: Record
    says: str
    succeeded: bool


def backoff_until(failures: int, settings: Settings, now: int) -> int:
    """Until when to wait after so many failures in a row: each doubles it, up to a limit."""
    return now + min(settings.backoff_max_seconds, settings.backoff_seconds << min(failures - 1, 20))
