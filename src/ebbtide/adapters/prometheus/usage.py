"""Use as Prometheus sees it: CPU of the workers, signals of policies, and players of game servers.

CPU of the workers is `1 - avg(rate(node_cpu_seconds_total{mode="idle"}))`. One query returns, by node, how
many CPUs were idle, how many there are (the rate over all modes, so a node whose samples do not fill the
window yet does not look busy), and the time of the newest sample. The node comes from the labels or from
`node_uname_info`. Nodes whose samples are missing, old or not numbers are left out of the average; if they
are more than a third, the reading is a `problem`, never zero (`ebbtide.core.nodes.capacity`). What each
node uses is queried only for the pages, by `USE_QUERY`.

A signal is the sum over the series of its query. It is known only if the answer is complete: no series, a
sample that is not a number, or fewer series than in the last hours mean unknown, since the missing ones
may be those in use. The earlier number of series is read from Prometheus and remembered, so it survives a
restart and works in a Lambda. A query that aggregates has one series, so this check does not apply.

Players come as one sample per pod, by its labels `namespace` and `pod`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from typing import Protocol

from ebbtide.adapters.prometheus.asking import Prometheus, PrometheusSource, Sample, Unknown, number
from ebbtide.core.nodes.capacity import why_unknown
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Node, NodeUse, Reading
from ebbtide.ports import Metrics, NodeUses

PART = "ebbtide"
NAME_LABELS = ("node", "nodename", "kubernetes_node")
BY = ", ".join(("instance", *NAME_LABELS))
IDLE = 'node_cpu_seconds_total{mode="idle"}'
MEMORY_USED = "1 - node_memory_MemAvailable_bytes / node_memory_MemTotal_bytes"


def _labelled(part: str, expression: str) -> str:
    return f'label_replace({expression}, "{PART}", "{part}", "", "")'


CPU_QUERY = " or ".join(
    (
        _labelled("idle", f"sum by ({BY}) (rate({IDLE}[5m]))"),
        _labelled("all", f"sum by ({BY}) (rate(node_cpu_seconds_total[5m]))"),
        _labelled("at", f"max by ({BY}) (timestamp({IDLE}))"),
        _labelled("name", "node_uname_info"),
    )
)
USE_QUERY = f"{CPU_QUERY} or {_labelled('memory', f'max by ({BY}) ({MEMORY_USED})')}"
MAX_AGE_SECONDS = Settings().metric_max_age_seconds
Parts = dict[str, dict[str, float]]
SLACK = 0.05
"""How far beyond 0 and 1 a rate may be by rounding alone."""


class PrometheusMetrics:
    def __init__(
        self,
        source: PrometheusSource,
        now: Callable[[], float] = time.time,
        max_age_seconds: int = MAX_AGE_SECONDS,
    ) -> None:
        self._source = source
        self._now = now
        self._max_age_seconds = max_age_seconds
        self._server = Prometheus(source)

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        if not node_names:
            return Reading(problem=f"CPU is unknown: {why_unknown(node_names, (), self._max_age_seconds)}")
        try:
            samples = self._server.ask(self._source.query or CPU_QUERY)
            read = _read_own if self._source.query else _read_default
            return read(samples, node_names, int(self._now()), self._max_age_seconds)
        except Unknown as why:
            return Reading(problem=f"CPU is unknown: {why}")

    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        """Also where the average comes from a query of the user's own, which need not know single nodes."""
        names = [node.name for node in nodes]
        try:
            parts = _parts(self._server.ask(USE_QUERY), names)
        except Unknown:
            return {}
        now = int(self._now())
        return {
            name: NodeUse(
                min(max(1 - parts["idle"][name] / parts["all"][name], 0.0), 1.0),
                parts["memory"].get(name),
                min(int(parts["at"][name]), now),
            )
            for name in _sampled(parts, names, now, self._max_age_seconds)
            if parts["all"][name]
        }

    def why_not(self) -> str:
        """Why it cannot be asked anything at all; empty where it answers."""
        try:
            self._server.ask("vector(1)")
        except Unknown as why:
            return str(why)
        return ""

    def close(self) -> None:
        self._server.close()


class UseSource(Metrics, NodeUses, Protocol):
    """Knows the average and what single nodes use."""


class FirstKnown:
    """The first of several sources that knows; where none does, what the first said."""

    def __init__(self, *sources: UseSource) -> None:
        self._sources = sources

    def read_cpu(self, node_names: Sequence[str]) -> Reading:
        problems = []
        for source in self._sources:
            reading = source.read_cpu(node_names)
            if reading.value is not None:
                return reading
            problems.append(reading.problem)
        return Reading(problem="; ".join(problems))

    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        """Of each node from the first source that has a sample of it; the others are asked for the rest."""
        used: dict[str, NodeUse] = {}
        for source in self._sources:
            rest = [node for node in nodes if node.name not in used]
            used |= source.read_use(rest) if rest else {}
        return used

    def close(self) -> None:
        for source in self._sources:
            if isinstance(source, PrometheusMetrics):
                source.close()


def _read_default(samples: Sequence[Sample], node_names: Sequence[str], now: int, max_age: int) -> Reading:
    parts = _parts(samples, node_names)
    sampled = _sampled(parts, node_names, now, max_age)
    _refuse_if_too_few(node_names, sampled, max_age)
    total = sum(parts["all"][name] for name in sampled)
    if not total:
        raise Unknown("the counters of all workers stand still")
    used = 1 - sum(parts["idle"][name] for name in sampled) / total
    return Reading(_share(used), min(int(min(parts["at"][name] for name in sampled)), now))


def _parts(samples: Sequence[Sample], node_names: Sequence[str]) -> Parts:
    """What was asked for, by part and by node; a node with anything that is not a number has nothing."""
    parts: Parts = {"idle": {}, "all": {}, "at": {}, "memory": {}}
    names_of = _names_by_instance(samples)
    wanted = {name.lower(): name for name in node_names}
    broken: set[str] = set()
    for sample in samples:
        found = parts.get(sample.metric.get(PART, ""))
        name = _node_of(sample.metric, names_of, wanted)
        if found is None or name is None:
            continue
        value = _number_or_none(sample)
        if value is None:
            broken.add(name)
            continue
        if found is parts["at"]:
            found[name] = min(found.get(name, value), value)
        elif found is parts["memory"]:
            found[name] = max(found.get(name, value), value)
        else:
            found[name] = found.get(name, 0.0) + value
    return {
        part: {name: value for name, value in found.items() if name not in broken}
        for part, found in parts.items()
    }


def _sampled(parts: Parts, node_names: Sequence[str], now: int, max_age: int) -> list[str]:
    """Those whose CPU is known and fresh."""
    cpu = (parts["idle"], parts["all"], parts["at"])
    return [
        name
        for name in node_names
        if all(name in part for part in cpu) and now - parts["at"][name] <= max_age
    ]


def _read_own(samples: Sequence[Sample], node_names: Sequence[str], now: int, max_age: int) -> Reading:
    """A query of the user's own tells no sample times: it is as old as its evaluation."""
    if len(samples) == 1 and not _names(samples[0].metric):
        stamp, text = samples[0].value
        return Reading(_share(number(text, "the query")), min(int(stamp), now))
    wanted = {name.lower(): name for name in node_names}
    found: dict[str, float] = {}
    at = now
    for sample in samples:
        name, value = _node_of(sample.metric, {}, wanted), _number_or_none(sample)
        if name is not None and value is not None:
            found[name] = value
            at = min(at, int(sample.value[0]))
    _refuse_if_too_few(node_names, list(found), max_age)
    return Reading(_share(sum(found.values()) / len(found)), at)


def _number_or_none(sample: Sample) -> float | None:
    """None for what is not a number: its node has no sample, and the others still have theirs."""
    try:
        return number(sample.value[1], "a node")
    except Unknown:
        return None


def _refuse_if_too_few(node_names: Sequence[str], sampled: Sequence[str], max_age: int) -> None:
    why = why_unknown(node_names, sampled, max_age)
    if why:
        raise Unknown(why)


def _names_by_instance(samples: Iterable[Sample]) -> Mapping[str, str]:
    return {
        s.metric["instance"]: s.metric["nodename"].lower()
        for s in samples
        if s.metric.get(PART) == "name" and "nodename" in s.metric and "instance" in s.metric
    }


def _node_of(metric: Mapping[str, str], names_of: Mapping[str, str], wanted: Mapping[str, str]) -> str | None:
    for name in (*_names(metric), names_of.get(metric.get("instance", ""), "")):
        if name in wanted:
            return wanted[name]
    return None


def _names(metric: Mapping[str, str]) -> list[str]:
    host = metric.get("instance", "").rpartition(":")[0] or metric.get("instance", "")
    return [name.lower() for name in (*(metric.get(label, "") for label in NAME_LABELS), host) if name]


def _share(value: float) -> float:
    if not -SLACK <= value <= 1 + SLACK:
        raise Unknown(f"{value:g} is not a share of a CPU")
    return min(max(value, 0.0), 1.0)


AT_ONCE = 8
MEMORY_SECONDS = 6 * 3600
"""How long a series that is gone is missed."""
SLOT_SECONDS = 600
MOST_FAILURES = 8
"""After so many queries in a row without an answer the rest of a round is not asked: it would take hours."""


class PrometheusSignals:
    def __init__(self, source: PrometheusSource, now: Callable[[], float] = time.time) -> None:
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
    def __init__(self, source: PrometheusSource) -> None:
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
