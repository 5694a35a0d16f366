"""What the end of an operation does to the record: cooldown after success, back-off after failure."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ebbtide.model.record import Record
from ebbtide.model.settings import Settings


@dataclass(frozen=True, slots=True)
class Closed:
    record: Record
    says: str
    succeeded: bool


def succeed(record: Record, now: int) -> Record:
    """The cluster was changed: the cooldown starts, failures are forgotten."""
    return replace(record, last_scale_at=now, failures=0, backoff_until=0, unclean_runs=0)


def back_off(record: Record, settings: Settings, now: int) -> Record:
    """Nothing came of it: wait longer each time."""
    failures = record.failures + 1
    seconds = min(settings.backoff_max_seconds, settings.backoff_seconds * 2 ** min(failures - 1, 20))
    return replace(record, failures=failures, backoff_until=now + seconds, unclean_runs=0)
