"""Several observers as one. A fault of one that only watches must never become one of the tick."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from ebbtide.model.decision import Decision
from ebbtide.model.effect import Outcome
from ebbtide.model.operation import Operation, Spot
from ebbtide.model.record import Record
from ebbtide.model.snapshot import Snapshot
from ebbtide.ports import Observer

_log = logging.getLogger(__name__)


class Observers:
    def __init__(self, *observers: Observer) -> None:
        self._observers = observers

    def looked(self, snapshot: Snapshot, record: Record) -> None:
        self._tell(lambda each: each.looked(snapshot, record))

    def decided(self, decision: Decision) -> None:
        self._tell(lambda each: each.decided(decision))

    def began(self, work: Operation | Spot) -> None:
        self._tell(lambda each: each.began(work))

    def advanced(self, before: Operation | Spot, after: Operation | Spot) -> None:
        self._tell(lambda each: each.advanced(before, after))

    def performed(self, outcomes: Sequence[Outcome]) -> None:
        self._tell(lambda each: each.performed(outcomes))

    def closed(self, work: Operation | Spot, succeeded: bool) -> None:
        self._tell(lambda each: each.closed(work, succeeded))

    def ticked(self, seconds: float, held: bool, error: str) -> None:
        self._tell(lambda each: each.ticked(seconds, held, error))

    def _tell(self, tell: Callable[[Observer], None]) -> None:
        for each in self._observers:
            try:
                tell(each)
            except Exception as error:  # whatever it is: deciding does not depend on it
                _log.warning("%s failed: %s: %s", type(each).__name__, type(error).__name__, error)
