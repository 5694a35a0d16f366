"""What goes wrong while Prometheus is recorded is said, with what to do, and no recording is half written."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from ebbtide.entrypoints.cli.app import app
from ebbtide.simulator.recording.file import Recording, read_recording
from tests.servers.promql import promql_server, vector

CONFIG = "pools: [{name: general, types: [cpx32], zones: [a]}]\n"
UNTIL = ("--until", "2026-01-02T00:00:00Z")
START = 1_767_225_600
HOUR = 3600


DAY = range(START, START + 86_401, 60)


def matrix(*curves: tuple[dict[str, str], float], times: Iterable[int] = DAY) -> tuple[int, str]:
    result = [{"metric": labels, "values": [[at, str(value)] for at in times]} for labels, value in curves]
    return 200, json.dumps({"status": "success", "data": {"resultType": "matrix", "result": result}})


def answered(query: str, times: Iterable[int] = DAY) -> tuple[int, str]:
    """`times` are those at which the number of replicas is known."""
    if query == "vector(time())":
        return vector(({}, time.time(), repr(time.time())))
    if "kube_deployment_spec_replicas" in query:
        return matrix(({"namespace": "default", "deployment": "web"}, 4), times=times)
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


def recorded(folder: Path) -> Recording:
    return read_recording(folder / "day.ebb")


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


def test_prometheus_that_vanishes_before_the_first_part_leaves_nothing(
    record: Callable[..., Result], tmp_path: Path
) -> None:
    """It left a file in which nothing was, and asked to continue with it."""
    with promql_server(lambda _: (503, "gone")) as url:
        result = record(url, *UNTIL)
    assert result.exit_code != 0
    assert "nothing was written to" in said(result)
    assert [path.name for path in tmp_path.iterdir()] == ["ebbtide.yaml"]


def test_what_prometheus_did_not_keep_is_said_and_only_the_rest_is_recorded(
    record: Callable[..., Result], tmp_path: Path
) -> None:
    kept = range(START + 6 * HOUR, START + 24 * HOUR + 1, 60)
    with promql_server(lambda query: answered(query, kept)) as url:
        result = record(url, *UNTIL)
    assert result.exit_code == 0, said(result)
    assert "nothing before 2026-01-01 06:00 UTC: 0.8 of 1.0 days" in result.stderr
    assert "--storage.tsdb.retention.time" in result.stderr
    found = recorded(tmp_path)
    assert found.story["until"] == 18 * HOUR
    assert found.recorded.coverage["demand"] == 1.0


def test_a_time_after_the_last_sample_is_not_recorded_as_if_nothing_had_changed(
    record: Callable[..., Result], tmp_path: Path
) -> None:
    """With an `--until` in the future, the rest of the time was recorded with the last values."""
    with promql_server(lambda query: answered(query, range(START, START + 9 * HOUR + 1, 60))) as url:
        result = record(url, *UNTIL)
    assert result.exit_code == 0, said(result)
    assert "nothing after 2026-01-01 09:01 UTC: 0.4 of 1.0 days" in result.stderr
    assert "--until" in result.stderr
    found = recorded(tmp_path)
    assert found.story["until"] == 9 * HOUR + 60
    assert found.recorded.coverage["demand"] == 1.0


def test_a_gap_in_prometheus_is_told_with_its_place(record: Callable[..., Result], tmp_path: Path) -> None:
    times = [at for at in DAY if not 3 * HOUR < at - START < 9 * HOUR]
    with promql_server(lambda query: answered(query, times)) as url:
        result = record(url, *UNTIL)
    assert result.exit_code == 0, said(result)
    assert "from 2026-01-01 03:00 UTC to 2026-01-01 09:00 UTC" in result.stderr
    found = recorded(tmp_path)
    assert found.story["until"] == 24 * HOUR
    assert found.recorded.coverage["demand"] == pytest.approx(0.75, abs=0.001)


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


def test_a_dump_that_cannot_be_used_is_refused_before_prometheus_is_asked(
    record: Callable[..., Result], tmp_path: Path
) -> None:
    nobody = "http://127.0.0.1:9"
    (tmp_path / "half.json").write_text('{"kind": "List", "items": [{"kind": "No')
    assert "No such file" in said(record(nobody, "--dump", str(tmp_path / "none.json")))
    assert "cut off" in said(record(nobody, "--dump", str(tmp_path / "half.json")))
    alone = CliRunner().invoke(app, ["record", "--log", "--dump", "x.json", "-o", str(tmp_path / "day.ebb")])
    assert "--dump goes with --prometheus" in said(alone)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ebbtide.yaml", "half.json"]


def test_a_cluster_that_cannot_be_read_is_told_and_the_rest_is_recorded(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KUBECONFIG", str(tmp_path / "none"))
    config = """
cluster: {kind: kubernetes, name: shop}
cloud: {kind: hetzner}
hetzner: {image: debian-12}
pools: [{name: general, types: [cpx32], zones: [fsn1]}]
"""
    (tmp_path / "ebbtide.yaml").write_text(config)
    with promql_server(answered) as url:
        where = ("-c", str(tmp_path / "ebbtide.yaml"), "-o", str(tmp_path / "day.ebb"))
        result = CliRunner().invoke(app, ["record", "--prometheus", url, "--days", "1", *UNTIL, *where])
    assert result.exit_code == 0, said(result)
    assert "the cluster could not be read" in result.stderr
    assert recorded(tmp_path).recorded.coverage["placement"] == 0.0
