"""Our own metrics: counted by what the engine did, gone with the lease, and well or not in two answers."""

from __future__ import annotations

import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace

import pytest
from prometheus_client.parser import text_string_to_metric_families

from ebbtide.adapters.metrics_export.metrics import ClusterMetrics, MetricsRegistry
from ebbtide.adapters.metrics_export.serving import MOST_CONNECTIONS, Health, MetricsEndpoint
from ebbtide.bootstrap.parts import metrics_served
from ebbtide.config.document import Read
from ebbtide.config.load import build_config
from ebbtide.engine.loop import guarded_tick
from ebbtide.engine.ports import Observers, Ports
from ebbtide.errors import ConfigError, Retryable
from ebbtide.model.decision import Decision
from ebbtide.model.record import CLUSTER_LEASE
from ebbtide.model.snapshot import ClusterView
from ebbtide.simulator.world.ports import SimCluster
from tests.unit.engine.builders import Small, quick_settings


class Watched:
    """A small world whose runner is watched."""

    def __init__(self, **settings: object) -> None:
        self.small = Small(settings=quick_settings(**settings))
        self.metrics = MetricsRegistry(self.small.clock.now)
        self.ports = replace(self.small.ports, observer=Observers(self.metrics.of(self.small.settings)))
        self.health = Health(self.metrics, 60)

    def tick(self, ports: Ports | None = None, owner: str = "runner") -> str:
        return guarded_tick(ports or self.ports, self.small.settings, owner, 60).says

    def value(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(name, {"cluster": "cluster", **labels})


def test_a_scale_down_is_counted_from_its_decision_to_its_end() -> None:
    watched = Watched()
    for _ in range(60):
        watched.tick()
        watched.small.wait(10)
        if watched.value("ebbtide_operations_closed_total", kind="scale_down", result="succeeded"):
            break
    assert watched.value("ebbtide_decisions_total", action="scale_down") == 1
    assert watched.value("ebbtide_operations_opened_total", kind="scale_down") == 1
    assert watched.value("ebbtide_operations_closed_total", kind="scale_down", result="succeeded") == 1
    assert watched.value("ebbtide_effects_total", effect="cordon", outcome="done") == 1
    assert watched.value("ebbtide_effects_total", effect="terminate", outcome="done") == 1
    watched.tick()
    assert watched.value("ebbtide_nodes", pool="workers", state="ready") == 2
    assert watched.value("ebbtide_actions_refused_total", action="scale_down", check="above minimum")


def test_states_are_those_of_the_last_look() -> None:
    watched = Watched(min_workers=3)
    watched.tick()
    assert watched.value("ebbtide_nodes", pool="workers", state="ready") == 3
    assert watched.value("ebbtide_cost_per_hour", currency="EUR") == pytest.approx(0.15)
    assert watched.value("ebbtide_nodes_unpriced") == 0
    assert watched.value("ebbtide_pods_waiting") == 0
    assert watched.value("ebbtide_snapshot_complete") == 1
    assert watched.value("ebbtide_lease_held") == 1


def test_unfit_nodes_are_counted_by_reason_until_they_are_replaced() -> None:
    pools = tuple(replace(pool, expire_seconds=7000) for pool in quick_settings().pools)
    watched = Watched(min_workers=3, max_workers=5, pools=pools)
    watched.tick()
    assert watched.value("ebbtide_unfit_nodes", reason="expired") == 3
    assert watched.value("ebbtide_unfit_nodes", reason="unhealthy") == 0
    for _ in range(60):
        watched.small.wait(10)
        watched.tick()
        if watched.value("ebbtide_nodes_replaced_total", reason="expired"):
            break
    assert watched.value("ebbtide_nodes_replaced_total", reason="expired") == 1
    assert watched.value("ebbtide_decisions_total", action="replace") == 1


def test_a_runner_that_stands_by_exports_no_old_values() -> None:
    watched = Watched(min_workers=3)
    watched.tick()
    watched.small.store.acquire(CLUSTER_LEASE, "other", 3000)
    watched.tick()
    assert watched.value("ebbtide_ticks_total", result="stood_by") == 1
    assert watched.value("ebbtide_lease_held") == 0
    assert watched.value("ebbtide_nodes", pool="workers", state="ready") is None
    assert watched.health.why_not_ready() == ""


class GoneCluster(SimCluster):
    def read(self) -> ClusterView:
        raise Retryable("no answer")


class BrokenCluster(SimCluster):
    def read(self) -> ClusterView:
        raise ZeroDivisionError("a bug")


def test_a_cluster_or_a_tick_that_fails_is_not_ready_and_counts() -> None:
    watched = Watched(min_workers=3)
    world, clock = watched.small.world, watched.small.clock
    assert watched.health.why_not_ready() == "cluster: no tick has ended yet"
    watched.tick(replace(watched.ports, cluster=GoneCluster(world, clock)))
    assert "the cluster could not be read" in watched.health.why_not_ready()
    assert watched.value("ebbtide_snapshot_complete") == 0
    watched.tick(replace(watched.ports, cluster=BrokenCluster(world, clock)))
    assert "the last tick failed (Unexpected)" in watched.health.why_not_ready()
    assert watched.value("ebbtide_errors_total", kind="Unexpected") == 1
    watched.tick()
    assert watched.health.why_not_ready() == ""


def test_a_loop_that_no_longer_ticks_is_dead() -> None:
    watched = Watched(min_workers=3)
    watched.tick()
    watched.small.wait(watched.health.limit_seconds)
    assert watched.health.why_dead() == ""
    watched.small.wait(1)
    assert watched.health.why_dead().startswith("cluster: no tick for ")


class Faulty(ClusterMetrics):
    def decided(self, decision: Decision) -> None:
        raise ZeroDivisionError("a bug in it")


def test_an_observer_that_fails_does_not_fail_the_tick_and_the_others_are_told() -> None:
    watched = Watched(min_workers=3)
    faulty = Faulty(MetricsRegistry(watched.small.clock.now), watched.small.settings)
    both = replace(watched.ports, observer=Observers(faulty, watched.ports.observer))
    assert watched.tick(both).startswith("nothing to do")
    assert watched.value("ebbtide_ticks_total", result="acted") == 1
    assert watched.value("ebbtide_decisions_total", action="nothing") == 1


@contextmanager
def served(watched: Watched) -> Iterator[str]:
    server = MetricsEndpoint(watched.health, "127.0.0.1", 0)
    try:
        yield f"http://127.0.0.1:{server.port}"
    finally:
        server.close()


def ask(url: str, method: str = "GET") -> tuple[int, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(url, method=method), timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_three_pages_are_served_and_nothing_can_be_changed_by_them() -> None:
    watched = Watched(min_workers=3)
    with served(watched) as url:
        assert ask(f"{url}/readyz") == (503, "cluster: no tick has ended yet\n")
        watched.tick()
        assert ask(f"{url}/readyz") == (200, "ok\n")
        assert ask(f"{url}/healthz") == (200, "ok\n")
        code, text = ask(f"{url}/metrics")
        names = {family.name for family in text_string_to_metric_families(text)}
        assert (code, {"ebbtide_ticks", "ebbtide_nodes", "ebbtide_tick_seconds"} <= names) == (200, True)
        assert ask(f"{url}/other")[0] == 404
        assert ask(f"{url}/metrics", "POST")[0] == 405


def test_half_open_connections_neither_keep_probes_out_nor_pile_up() -> None:
    with served(Watched(min_workers=3)) as url, ExitStack() as open_ones:
        host, port = url.removeprefix("http://").split(":")
        half = [
            open_ones.enter_context(socket.create_connection((host, int(port)), 30))
            for _ in range(3 * MOST_CONNECTIONS)
        ]
        assert ask(f"{url}/healthz") == (200, "ok\n")
        assert [each.recv(1) for each in half[: 2 * MOST_CONNECTIONS]] == [b""] * (2 * MOST_CONNECTIONS)


def test_an_address_that_is_taken_is_said_and_the_loop_runs_without() -> None:
    watched, said = Watched(min_workers=3), list[str]()
    with served(watched) as url:
        taken = url.removeprefix("http://")
        config = build_config(Read(), {"METRICS_ADDR": taken})
        with metrics_served([(config, watched.small.ports)], said.append) as opened:
            assert len(opened.opened) == 1
    assert said[0].startswith(f"No metrics are served: {taken} cannot be listened on")


@pytest.mark.parametrize("given", ["off", "127.0.0.1:0", "[::]:9808", "0.0.0.0:65535", "localhost:80"])
def test_an_address_is_a_host_and_a_port_or_off(given: str) -> None:
    assert build_config(Read(), {"METRICS_ADDR": given}).metrics_addr == given


@pytest.mark.parametrize("given", ["9808", "host", "host:65536", "a b:1", ":1", "::1:80"])
def test_any_other_address_is_refused(given: str) -> None:
    with pytest.raises(ConfigError, match=r"METRICS_ADDR.*HOST:PORT"):
        build_config(Read(), {"METRICS_ADDR": given})
