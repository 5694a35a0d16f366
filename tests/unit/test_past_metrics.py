"""What Prometheus has kept is asked in parts, and taken up again where it was cut off."""

from __future__ import annotations

from pathlib import Path
from typing import Any, cast

import pytest

from ebbtide.adapters.prometheus.asking import (
    MOST_POINTS,
    Prometheus,
    QueriedHistory,
    QueriedSeries,
    QueriedSpan,
    RangeQuery,
    Unknown,
    read_curves,
)
from ebbtide.config import Config
from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.errors import Usage
from ebbtide.simulator.recording.from_metrics import PastMetrics, record_metrics
from ebbtide.simulator.recording.metric_queries import queries
from ebbtide.simulator.story.parse import story_of

START = 1_767_225_600
DAY = 86_400
MONTH = QueriedSpan("http://prometheus", START, START + 30 * DAY)
WEB = {"namespace": "default", "deployment": "web"}


class Server:
    """A Prometheus that has one series forever, and may vanish after some answers."""

    def __init__(self, answers: float = float("inf")) -> None:
        self.asked: list[tuple[int, int]] = []
        self.answers = answers

    def ask_range(self, query: str, start: int, end: int, step: int) -> list[QueriedSeries]:
        if len(self.asked) >= self.answers:
            raise Unknown("Prometheus cannot be reached", failed=True)
        self.asked.append((start, end))
        return [QueriedSeries(WEB, [(float(at), "3") for at in range(start, end + 1, step)])]


def history(server: Server, path: Path, span: QueriedSpan = MONTH) -> QueriedHistory:
    return QueriedHistory(cast(Prometheus, server), span, path)


def test_a_month_is_asked_in_parts_that_prometheus_answers_and_comes_out_whole(tmp_path: Path) -> None:
    server = Server()
    (curve,) = history(server, tmp_path / "part").read(RangeQuery("web", "q", 60))
    assert [at for at, _ in curve.values] == [float(at) for at in range(START, MONTH.end + 1, 60)]
    assert len(server.asked) == 5
    assert all((end - start) // 60 + 1 < MOST_POINTS for start, end in server.asked)


def test_many_series_are_asked_in_smaller_parts(tmp_path: Path) -> None:
    server = Server()
    history(server, tmp_path / "part").read(RangeQuery("web", "q", 60, series=400))
    assert all((end - start) // 60 < 1000 for start, end in server.asked)


def test_where_prometheus_vanished_half_way_only_the_rest_is_asked_for(tmp_path: Path) -> None:
    path = tmp_path / "month.ebb.part"
    with pytest.raises(Unknown, match="cannot be reached"):
        history(Server(answers=2), path).read(RangeQuery("web", "q", 60))
    with path.open("ab") as file:
        file.write(b'{"name": "web", "start": 12')  # the process died while it wrote
    server = Server()
    # Some hours later: the span of the first run continues.
    later = QueriedSpan(MONTH.url, MONTH.start + 7200, MONTH.end + 7200)
    again = history(server, path, later)
    assert (again.resumed, again.span) == (2, MONTH)
    (curve,) = again.read(RangeQuery("web", "q", 60))
    assert len(server.asked) == 3
    assert [at for at, _ in curve.values] == [float(at) for at in range(START, MONTH.end + 1, 60)]
    again.done()
    assert not path.exists()


@pytest.mark.parametrize(
    "other", [QueriedSpan("http://other", START, MONTH.end), QueriedSpan(MONTH.url, START, START + DAY)]
)
def test_parts_of_something_else_are_not_used(tmp_path: Path, other: QueriedSpan) -> None:
    history(Server(), tmp_path / "part").read(RangeQuery("web", "q", 60))
    again = history(Server(), tmp_path / "part", other)
    assert (again.resumed, again.span) == (0, other)


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"<html>", "check its address"),
        (b'{"status":"error","error":"exceeded maximum resolution"}', "exceeded maximum resolution"),
        (b'{"status":"success","data":{"resultType":"vector","result":[{"value":[1,"2"]}]}}', "matrix"),
        (b'{"status":"success","warnings":["away"],"data":{"resultType":"matrix","result":[]}}', "in part"),
    ],
)  # fmt: skip
def test_an_answer_that_is_none_is_not_taken_for_nothing(body: bytes, says: str) -> None:
    with pytest.raises(Unknown, match=says):
        read_curves(200, body)


def config() -> Config:
    text = "pools: [{name: general, types: [cpx32, cpx42], zones: [a, b]}]\nmax_workers: 9"
    return build_config(parse_document(text, "ebbtide.yaml"), {})


def flat(metric: dict[str, str], value: float, since: int = START, step: int = 60) -> QueriedSeries:
    return QueriedSeries(metric, [(float(at), str(value)) for at in range(since, START + DAY + 1, step)])


def requests(resource: str, value: float, **owner: str) -> QueriedSeries:
    whose = {"namespace": "default", "owner_kind": "ReplicaSet", "owner_name": "web-7c9"}
    return flat({**whose, "resource": resource, **owner}, value, step=3600)


def past(**curves: list[QueriedSeries]) -> PastMetrics:
    given: dict[str, list[QueriedSeries]] = {asked.name: [] for asked in queries(60)}
    given |= {
        "deployments": [flat(WEB, 3)],
        "requests": [requests("cpu", 0.5), requests("memory", 300 * 2**20)],
    }
    return PastMetrics(START, START + DAY, 60, given | curves)


def recorded(found: PastMetrics) -> Any:
    return record_metrics(found, {"pools": config_pools(), "max_workers": 9}, config())


def config_pools() -> list[dict[str, Any]]:
    return [{"name": "general", "types": ["cpx32", "cpx42"], "zones": ["a", "b"]}]


def test_replicas_requests_and_fallbacks_are_recorded_and_play() -> None:
    given = past()
    found = recorded(given)
    (web,) = found.story["workloads"]
    assert (web["name"], web["cpu"], web["memory"], web["cpu_use"]) == ("web", "500m", "300Mi", 0.5)
    assert found.demand["default/web"].replicas == [3]
    assert found.recorded.coverage["demand"] == 1.0
    assert found.recorded.coverage["CPU used"] == 0.0
    assert any("half of what they request" in note for note in given.notes)
    assert any("no node could be matched" in note for note in given.notes)
    story_of(found, "day.ebb")


def test_a_time_in_which_nobody_looked_keeps_the_last_value_and_is_said() -> None:
    values = [(float(START), "3"), (float(START + DAY // 2), "5")]
    found = recorded(past(deployments=[QueriedSeries(WEB, values)]))
    assert (found.demand["default/web"].at, found.demand["default/web"].replicas) == ([0.0, 43_200.0], [3, 5])
    assert found.recorded.coverage["demand"] < 0.01


def test_a_workload_that_alone_is_missing_was_not_there() -> None:
    api = flat({"namespace": "default", "deployment": "api"}, 2, since=START + 3600)
    found = recorded(past(deployments=[flat(WEB, 3), api], requests=[
        requests("memory", 2**30), requests("memory", 2**30, owner_name="api-55")
    ]))  # fmt: skip
    assert found.demand["default/api"].replicas == [0, 2]


def test_nodes_are_matched_to_pools_by_label_or_by_type_and_cost_what_their_type_does() -> None:
    labels = [
        flat(
            {"node": "a1", "label_ebbtide_dev_pool": "general", "label_topology_kubernetes_io_zone": "b"}, 1
        ),
        flat({"node": "b1", "label_node_kubernetes_io_instance_type": "cpx42"}, 1),
        flat({"node": "stranger", "label_node_kubernetes_io_instance_type": "m5.large"}, 1),
    ]
    names = ("a1", "b1", "stranger")
    late = flat({"node": "b1"}, START + 43_000, since=START + 43_200)
    nodes = [flat({"node": names[0]}, START - 900), late, flat({"node": names[2]}, START - 900)]
    found = recorded(past(nodes=nodes, labels=labels))
    (first,) = found.story["nodes"]
    assert (first["name"], first["zone"], first["age_sec"]) == ("a1", "b", 900.0)
    assert found.recorded.launched == 1
    assert found.recorded.node_hours == pytest.approx(36.0, rel=0.01)
    prices = {one.name: one.price.per_hour for one in config().settings.pools[0].types if one.price}
    cost = float(24 * prices["cpx32"] + 12 * prices["cpx42"])
    assert float(found.recorded.cost) == pytest.approx(cost, rel=0.01)
    assert found.recorded.coverage["nodes"] == pytest.approx(0.6, abs=0.01)


def test_cpu_budgets_and_pending_time_are_taken_where_they_are_exported() -> None:
    whose = {"namespace": "default", "owner_kind": "ReplicaSet", "owner_name": "web-7c9"}
    budget = {"namespace": "default", "poddisruptionbudget": "web-pdb"}
    given = past(
        used=[flat(whose, 0.3)],
        asked=[flat(whose, 1.5)],
        expected_pods=[flat(budget, 3)],
        desired_healthy=[flat(budget, 2)],
        waits=[QueriedSeries({}, [(START + 3600.0, "90"), (START + 7200.0, "30.5")])],
        replicasets=[flat({"namespace": "default", "replicaset": "web-7c9", "owner_name": "web"}, 1)],
    )
    found = recorded(given)
    (web,) = found.story["workloads"]
    assert (web["cpu_use"], web["pdb"]) == (0.2, {"max_unavailable": 1})
    assert found.recorded.pending_pod_seconds == 120.5
    assert found.recorded.coverage["budgets"] == 1.0


def test_where_no_times_are_exported_pending_pods_are_counted() -> None:
    given = past(waiting=[flat({}, 2)])
    assert recorded(given).recorded.pending_pod_seconds == 2 * (DAY + 60)
    assert any("counted by looks" in note for note in given.notes)


@pytest.mark.parametrize(
    ("missing", "says"),
    [
        ({"deployments": []}, "Install kube-state-metrics"),
        ({"requests": []}, "without memory requests nothing can be planned; nothing was written"),
        ({"requests": [requests("cpu", 1)]}, "what memory pods request"),
    ],
)
def test_what_a_recording_cannot_do_without_is_refused(missing: dict[str, Any], says: str) -> None:
    with pytest.raises(Usage, match=says):
        recorded(past(**missing))


def test_what_prometheus_no_longer_has_is_said() -> None:
    given = past(deployments=[flat(WEB, 3, since=START + 43_200)])
    found = recorded(given)
    assert found.story["until"] == 43_200
    assert given.notes[0].startswith("Prometheus knows nothing before 2026-01-01 12:00 UTC: 0.5 of 1.0 days")


def test_workloads_whose_pods_nobody_saw_are_left_out_and_said() -> None:
    lost = flat({"namespace": "default", "deployment": "lost"}, 1)
    given = past(deployments=[flat(WEB, 3), lost])
    found = recorded(given)
    assert set(found.demand) == {"default/web"}
    assert found.recorded.coverage["requests"] == 0.5
    assert any("default/lost request: left out" in note for note in given.notes)
