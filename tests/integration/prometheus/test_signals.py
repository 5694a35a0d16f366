"""Signals over HTTP, and the faults of metrics: whatever goes wrong with them, nothing goes to zero."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from ebbtide.adapters.prometheus import PrometheusSignals, PrometheusSource
from ebbtide.model.idle import Phase
from ebbtide.model.policy import Signal, SignalKind
from tests.builders import NOW
from tests.policy_harness import PolicyHarness, make_policy
from tests.servers.promql import Answer, promql_server, vector

QUERIES = {
    SignalKind.PROMQL_RATE: 'rate(http_requests_total{app="web"}[5m])',
    SignalKind.PROMQL_VALUE: 'queue_length{app="web"}',
    SignalKind.CONNECTIONS: 'open_connections{app="web"}',
    SignalKind.CPU: 'rate(container_cpu_usage_seconds_total{app="web"}[5m])',
}
PODS = tuple({"pod": f"web-{number}"} for number in range(4))


class Scripted:
    """Four quiet series, until a fault begins."""

    def __init__(self, now: Callable[[], float]) -> None:
        self._now = now
        self.fault: Answer | None = None
        self.asked: list[str] = []
        self.let_go = threading.Event()

    def __call__(self, query: str) -> tuple[int, str]:
        self.asked.append(query)
        if query.startswith("max_over_time"):
            return vector(({}, self._now(), "4"))
        return self.fault(query) if self.fault else self.quiet()

    def quiet(self, count: int = 4, value: str = "0", age: float = 0.0) -> tuple[int, str]:
        return vector(*((pod, self._now() - age, value) for pod in PODS[:count]))


def faults(script: Scripted) -> dict[str, Answer]:
    def slow(_: str) -> tuple[int, str]:
        script.let_go.wait(5)
        return script.quiet()

    def one_nan(_: str) -> tuple[int, str]:
        code, text = script.quiet()
        return code, text.replace('"0"', '"NaN"', 1)

    return {
        "slow": slow,
        "500": lambda _: (500, "internal server error"),
        "refused": lambda _: (422, '{"status":"error","errorType":"execution","error":"too many samples"}'),
        "empty": lambda _: vector(),
        "nan": one_nan,
        "stale": lambda _: script.quiet(age=600),
        "malformed": lambda _: (200, '{"status":"success","data":{"resultType":"vec'),
        "no number": lambda _: script.quiet(value="nothing"),
        "a matrix": lambda _: (200, '{"status":"success","data":{"resultType":"matrix","result":[{}]}}'),
        "in part": lambda _: (200, script.quiet()[1].replace("{", '{"warnings":["one shard is away"],', 1)),
        "half the series": lambda _: script.quiet(count=2),
    }


FAULTS = ("gone", *faults(Scripted(lambda: 0.0)))


@contextmanager
def scene(*signals: Signal) -> Iterator[tuple[PolicyHarness, Scripted]]:
    """A harness whose target has been idle for a while, with signals from a server that still answers."""
    harness = PolicyHarness(policies=(make_policy(signals=signals),))
    script = Scripted(harness.clock.now)
    with promql_server(script) as url:
        read = PrometheusSignals(PrometheusSource(url, timeout_seconds=0.3), harness.clock.now)
        harness.scaling = harness.runner(signals=read)
        try:
            harness.rounds(1200, every=240)
            assert harness.phase() is Phase.IDLE
            yield harness, script
        finally:
            script.let_go.set()
            read.close()


@pytest.mark.parametrize("kind", QUERIES)
@pytest.mark.parametrize("fault", FAULTS)
def test_whatever_is_wrong_with_a_metric_nothing_goes_to_zero(fault: str, kind: SignalKind) -> None:
    with scene(Signal(kind, QUERIES[kind])) as (harness, script):
        if fault == "gone":
            harness.scaling = harness.runner(
                signals=PrometheusSignals(
                    PrometheusSource("http://127.0.0.1:1", timeout_seconds=0.3), harness.clock.now
                )
            )
        else:
            script.fault = faults(script)[fault]
        harness.rounds(1440 if fault == "slow" else 4800, every=240)
        assert harness.phase() is Phase.ACTIVE
        assert harness.state.idle_since is None
        assert harness.memory_workloads.calls == []
        assert str(kind) in harness.state.left_alone


@pytest.mark.parametrize("kind", QUERIES)
def test_the_same_without_a_fault_goes_to_zero(kind: SignalKind) -> None:
    with scene(Signal(kind, QUERIES[kind])) as (harness, _):
        harness.rounds(4800, every=240)
        assert harness.phase() is Phase.ZERO


@pytest.mark.parametrize("fault", ["500", "empty", "half the series"])
def test_a_second_signal_that_is_sound_does_not_make_up_for_it(fault: str) -> None:
    bad = Signal(SignalKind.CPU, QUERIES[SignalKind.CPU])
    with scene(Signal(SignalKind.REPORTED), bad) as (harness, script):
        script.fault = faults(script)[fault]
        harness.rounds(4800, every=240)
        assert harness.phase() is Phase.ACTIVE


def test_it_goes_to_zero_only_a_whole_idle_time_after_the_fault_is_over() -> None:
    with scene(Signal(SignalKind.CPU, QUERIES[SignalKind.CPU])) as (harness, script):
        script.fault = faults(script)["500"]
        harness.rounds(240, every=240)
        script.fault = None
        harness.rounds(1920, every=240)
        assert harness.phase() is Phase.IDLE
        harness.rounds(480, every=240)
        assert harness.phase() is Phase.ZERO


def test_many_queries_are_asked_at_once_and_answered_in_order() -> None:
    def value_of(query: str) -> tuple[int, str]:
        return vector(({}, float(NOW), query))

    with promql_server(value_of) as url:
        signals = PrometheusSignals(PrometheusSource(url), lambda: NOW)
        readings = signals.read_values([str(number) for number in range(200)])
        signals.close()
    assert [reading.value for reading in readings] == [float(number) for number in range(200)]
    assert signals.read_values([]) == ()


def test_the_sum_over_the_series_counts() -> None:
    script = Scripted(lambda: NOW)
    script.fault = lambda _: script.quiet(value="1.5")
    with promql_server(script) as url:
        signals = PrometheusSignals(PrometheusSource(url), lambda: NOW)
        assert signals.read_values(["q"])[0].value == 6.0
        signals.read_values(["q"])
        signals.close()
    assert len([query for query in script.asked if query.startswith("max_over_time")]) == 1


def test_failed_and_unknown_are_told_apart() -> None:
    script = Scripted(lambda: NOW)
    with promql_server(script) as url:
        signals = PrometheusSignals(PrometheusSource(url), lambda: NOW)
        script.fault = faults(script)["500"]
        assert signals.read_values(["q"])[0].failed
        script.fault = faults(script)["empty"]
        (unknown,) = signals.read_values(["q"])
        assert (unknown.failed, unknown.problem) == (False, "the query gives no series")
        signals.close()


def test_a_server_that_is_gone_is_not_asked_ten_thousand_times() -> None:
    asked = []

    def broken(query: str) -> tuple[int, str]:
        asked.append(query)
        return 500, "internal server error"

    with promql_server(broken) as url:
        signals = PrometheusSignals(PrometheusSource(url), lambda: NOW)
        readings = signals.read_values([str(number) for number in range(2000)])
        signals.close()
    assert len(asked) < 100
    assert {reading.value for reading in readings} == {None}
    assert readings[-1].problem.startswith("not asked")


def test_series_that_are_gone_are_missed_for_hours_and_then_forgotten() -> None:
    now = [float(NOW)]
    script = Scripted(lambda: now[0])
    script.fault = lambda _: script.quiet(count=3)
    with promql_server(script) as url:
        signals = PrometheusSignals(PrometheusSource(url), lambda: now[0])
        assert signals.read_values(["q"])[0].problem == "only 3 of 4 series are there"
        now[0] += 5 * 3600
        assert signals.read_values(["q"])[0].value is None
        now[0] += 2 * 3600
        assert signals.read_values(["q"])[0].value == 0.0
        signals.close()
