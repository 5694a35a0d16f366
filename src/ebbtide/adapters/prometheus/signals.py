"""Whether workloads are used, by PromQL: many queries at once, each with a value or the reason for none; and
players of game servers, a sample for each pod, told by its labels `namespace` and `pod`.

A value is the sum over the series of a query. Known is only what is answered in full: no series at all, a
sample that is not a number, or fewer series than there were within the last hours are no value, since what
is missing may be what is used. How many there were is asked of Prometheus itself, once, and remembered;
so it outlives a restart, and a Lambda. A query that aggregates has one series, and vouches for itself.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil

from ebbtide.adapters.prometheus.asking import Prometheus, Sample, Source, Unknown, number
from ebbtide.model.snapshot import Reading

AT_ONCE = 8
MEMORY_SECONDS = 6 * 3600
"""How long a series that is gone is missed."""
SLOT_SECONDS = 600
MOST_FAILURES = 8
"""After so many queries in a row without an answer the rest of a round is not asked: it would take hours."""


class PrometheusSignals:
    def __init__(self, source: Source, now: Callable[[], float] = time.time) -> None:
        self._server = Prometheus(source, AT_ONCE)
        self._now = now
        self._lock = threading.Lock()
        self._counts: dict[str, dict[int, int]] = {}
        """By query and slot of time: the most series that were seen."""

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        if not queries:
            return ()
        failures = _Failures()
        with ThreadPoolExecutor(min(AT_ONCE, len(queries))) as pool:
            return list(pool.map(lambda query: self._read(query, failures), queries))

    def close(self) -> None:
        self._server.close()

    def _read(self, query: str, failures: _Failures) -> Reading:
        if failures.too_many:
            return Reading(problem="not asked: Prometheus did not answer the queries before", failed=True)
        try:
            samples = self._server.ask(query)
            values = [number(sample.value[1], "the query") for sample in samples]
            if not values:
                raise Unknown("the query gives no series")
            self._refuse_if_fewer(query, samples)
        except Unknown as why:
            failures.note(why.failed)
            return Reading(problem=str(why), failed=why.failed)
        failures.note(False)
        at = min(int(sample.value[0]) for sample in samples)
        return Reading(sum(values), min(at, int(self._now())))

    def _refuse_if_fewer(self, query: str, samples: Sequence[Sample]) -> None:
        if len(samples) == 1 and not samples[0].metric:
            return  # one value without a label: an aggregate or a scalar
        slot = int(self._now()) // SLOT_SECONDS
        with self._lock:
            known = self._counts.get(query)
        if known is None:
            known = {slot: self._most_before(query)}
        oldest = slot - MEMORY_SECONDS // SLOT_SECONDS
        kept = {number: count for number, count in known.items() if number > oldest}
        kept[slot] = max(kept.get(slot, 0), len(samples))
        with self._lock:
            self._counts[query] = kept
        most = max(kept.values())
        if len(samples) < most:
            raise Unknown(f"only {len(samples)} of {most} series are there")

    def _most_before(self, query: str) -> int:
        hours = MEMORY_SECONDS // 3600
        samples = self._server.ask(f"max_over_time((count(\n{query}\n))[{hours}h:5m])")
        return int(number(samples[0].value[1], "the count of series")) if samples else 0


class NoSignals:
    """Where there is no Prometheus: nothing is known, so nothing that asks for a query goes to zero."""

    def read_values(self, queries: Sequence[str]) -> Sequence[Reading]:
        return [Reading(problem="there is no Prometheus to ask: set metrics.prometheus_url") for _ in queries]


class _Failures:
    """How many queries in a row got no answer, over all threads of a round."""

    def __init__(self) -> None:
        self._in_a_row = 0

    def note(self, failed: bool) -> None:
        self._in_a_row = self._in_a_row + 1 if failed else 0

    @property
    def too_many(self) -> bool:
        return self._in_a_row >= MOST_FAILURES


class PrometheusPlayers:
    def __init__(self, source: Source) -> None:
        self._server = Prometheus(source)

    def read_players(self, query: str) -> Mapping[str, int] | None:
        """Samples of one pod are added. One that names no pod, or is not a number, may be anybody's."""
        found: dict[str, int] = {}
        try:
            for sample in self._server.ask(query):
                namespace, pod = sample.metric.get("namespace", ""), sample.metric.get("pod", "")
                count = number(sample.value[1], f"{namespace}/{pod}")
                if not namespace or not pod or count < 0:
                    return None
                found[f"{namespace}/{pod}"] = found.get(f"{namespace}/{pod}", 0) + ceil(count)
        except Unknown:
            return None
        return found

    def close(self) -> None:
        self._server.close()
