"""Many callers, one call: callers that request the same thing at the same time share one answer.

A caller that asks while a call is in progress does not get its answer, since it may have begun earlier;
they share the next one. So an answer is always about something that happened after it was asked for.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class _Flight(Generic[T]):
    def __init__(self) -> None:
        self.done = threading.Event()
        self.answer: T | None = None
        self.error: BaseException | None = None


class _Key(Generic[T]):
    def __init__(self) -> None:
        self.turn = threading.Lock()
        self.gathering: _Flight[T] | None = None
        self.users = 0


class SingleFlight(Generic[T]):
    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: dict[str, _Key[T]] = {}

    def do(self, key: str, call: Callable[[], T]) -> T:
        with self._lock:
            place = self._keys.setdefault(key, _Key())
            place.users += 1
            flight, leads = place.gathering, False
            if flight is None:
                flight, leads = _Flight(), True
                place.gathering = flight
        try:
            if leads:
                self._lead(place, flight, call)
            else:
                flight.done.wait()
        finally:
            with self._lock:
                place.users -= 1
                if not place.users:
                    self._keys.pop(key, None)
        if flight.error is not None:
            raise flight.error
        return flight.answer  # type: ignore[return-value]  # set wherever there is no error

    def _lead(self, place: _Key[T], flight: _Flight[T], call: Callable[[], T]) -> None:
        with place.turn:
            with self._lock:
                place.gathering = None
            try:
                flight.answer = call()
            except BaseException as error:
                flight.error = error
            finally:
                flight.done.set()
