"""What goes wrong while Prometheus is recorded is said, with what to do, and no recording is half written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.entrypoints.cli.app import app
from tests.servers.promql import promql_server, vector

CONFIG = "pools: [{name: general, types: [cpx32], zones: [a]}]\n"
UNTIL = ("--until", "2026-01-02T00:00:00Z")
START = 1_767_225_600


def matrix(*curves: tuple[dict[str, str], float]) -> tuple[int, str]:
    times = range(START, START + 86_401, 60)
    result = [{"metric": labels, "values": [[at, str(value)] for at in times]} for labels, value in curves]
    return 200, json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def answered(query: str) -> tuple[int, str]:
    if query == "vector(time())":
        return vector(({}, time.time(), repr(time.time())))
    if "kube_deployment_spec_replicas" in query:
        return matrix(({"namespace": "default", "deployment": "web"}, 4))
    if query.startswith("max by (namespace, owner_kind, owner_name, resource)"):
        whose = {"namespace": "default", "owner_kind": "ReplicaSet", "owner_name": "web-1"}
        return matrix(({**whose, "resource": "cpu"}, 0.5), ({**whose, "resource": "memory"}, 2**29))
    return matrix()


@pytest.fixture
def record(tmp_path: Path) -> Callable[..., Result]:
    (tmp_path / "ebbtide.yaml").write_text(CONFIG)

    def run(url: str, *more: str) -> Result:
        where = ("-c", str(tmp_path / "ebbtide.yaml"), "-o", str(tmp_path / "day.ebb"))
        return CliRunner().invoke(app, ["record", "--prometheus", url, "--days", "1", *where, *more])

    return run


def said(result: Result) -> str:
    return result.output + str(result.exception or "")


def test_prometheus_that_vanishes_half_way_leaves_no_recording_and_the_next_run_continues(
    record: Callable[..., Result], tmp_path: Path
) -> None:
    asked: list[str] = []
    gone = True

    def answer(query: str) -> tuple[int, str]:
        asked.append(query)
        return (503, "gone") if gone and len(asked) > 3 else answered(query)

    with promql_server(answer) as url:
        result = record(url, *UNTIL)
        assert result.exit_code != 0
        assert "Run the same command again" in said(result)
        assert sorted(path.name for path in tmp_path.iterdir()) == ["day.ebb.part", "ebbtide.yaml"]
        gone = False
        before = asked.copy()
        result = record(url, *UNTIL)
        assert result.exit_code == 0, said(result)
        assert "parts of an earlier run" in result.stderr
        assert not set(before[:3]) & set(asked[len(before) :])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["day.ebb", "ebbtide.yaml"]


def test_without_kube_state_metrics_it_says_so_and_nothing_remains(
    record: Callable[..., Result], tmp_path: Path
) -> None:
    with promql_server(lambda _: matrix()) as url:
        result = record(url, *UNTIL)
    assert result.exit_code != 0
    assert "no series of kube-state-metrics" in said(result)
    assert [path.name for path in tmp_path.iterdir()] == ["ebbtide.yaml"]


def test_a_clock_that_is_off_is_said_and_the_time_of_prometheus_is_used(
    record: Callable[..., Result],
) -> None:
    def answer(query: str) -> tuple[int, str]:
        return vector(({}, 1.0, str(START + 86_400))) if query == "vector(time())" else answered(query)

    with promql_server(answer) as url:
        result = record(url)
    assert result.exit_code == 0, said(result)
    assert "the clock of Prometheus is" in result.stderr
    assert "its own time is used" in result.stderr


def test_metadata_services_are_never_asked(record: Callable[..., Result], tmp_path: Path) -> None:
    result = record("http://169.254.169.254/latest")
    assert result.exit_code != 0
    assert "metadata service" in said(result)
    assert [path.name for path in tmp_path.iterdir()] == ["ebbtide.yaml"]


def test_one_source_is_asked_for(record: Callable[..., Result]) -> None:
    assert "name one source" in said(record("http://localhost", "--log"))
    assert "is not a time" in said(record("http://localhost", "--until", "yesterday"))
