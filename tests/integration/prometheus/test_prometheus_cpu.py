"""CPU from a real Prometheus: right where it is known, and unknown with a reason where it is not."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence

import pytest

from ebbtide.adapters.prometheus import FirstKnown, PrometheusMetrics, PrometheusSource
from ebbtide.core.nodes.decide import decide
from ebbtide.engine.ports import fresh
from ebbtide.model.decision import Action
from ebbtide.model.snapshot import Node, NodeUse, Reading
from tests.builders import make_nodes, make_record, make_settings, make_snapshot
from tests.servers.control_plane import Unavailable, ensure_debian
from tests.servers.having import leave_out
from tests.servers.processes import eventually
from tests.servers.prometheus import Exporters, exporters, http_server, prometheus_server

NODES = ["a1", "a2", "b1", "lost", "nan", "old", "empty"]
OK = NODES[:3]
Both = tuple[Exporters, str]


@pytest.fixture(scope="module")
def prometheus() -> Iterator[Both]:
    try:
        ensure_debian("prometheus", "prometheus")
    except Unavailable as why:
        leave_out(str(why))
    with exporters() as scraped:
        for node, cpu, cpus in (("a1", 0.1, 2), ("a2", 0.2, 2), ("b1", 0.5, 4), ("lost", 0.1, 2)):
            scraped.use(node, cpu, cpus)
        scraped.pages["nan"] = lambda: (200, scraped.text("nan", float("nan")))
        scraped.pages["old"] = lambda: (200, scraped.text("old", 0.9, 2, f" {_minutes_ago(4)}"))
        scraped.pages["empty"] = lambda: (200, 'node_uname_info{nodename="empty"} 1\n')
        with prometheus_server(scraped, NODES) as url:
            eventually(lambda: read(url, [*OK, "lost"]).value is not None, 60, "a first reading")
            yield scraped, url


def _minutes_ago(minutes: int) -> int:
    return int((time.time() - 60 * minutes) * 1000)


def read(url: str, nodes: list[str], seconds: float = 10.0) -> Reading:
    metrics = PrometheusMetrics(PrometheusSource(url, timeout_seconds=seconds))
    try:
        return metrics.read_cpu(nodes)
    finally:
        metrics.close()


def assert_no_removal(reading: Reading, reason: str) -> None:
    settings = make_settings(min_workers=1, idle_down_seconds=0, cooldown_down_seconds=0)
    now = int(time.time())
    cpu = fresh(reading, settings, now)
    assert reason in cpu.problem
    snapshot = make_snapshot(make_nodes("a1", "a2", "b1"), cpu=cpu, at=now)
    record = make_record(idle_since=1, ticked_at=now - 1, worker_count=3, pod_count=3)
    decision = decide(snapshot, record, settings, now, "d-1")
    assert decision.action is Action.NOTHING
    said = [v.failed.says for v in decision.verdicts if v.action is Action.SCALE_DOWN and v.failed]
    assert any(reason in says for says in said), said


def test_the_average_is_over_the_cpus_of_the_workers_asked_for_alone(prometheus: Both) -> None:
    _, url = prometheus
    eventually(lambda: abs((read(url, OK).value or 0) - 0.325) < 0.02, 30, "(2*0.1 + 2*0.2 + 4*0.5) / 8")
    assert read(url, ["a1"]).value == pytest.approx(0.1, abs=0.02)
    assert abs(read(url, OK).at - time.time()) < 10


@pytest.mark.parametrize("bad", ["empty", "nan", "old", "z1"])
def test_row_27_one_node_of_four_without_a_fresh_sample_leaves_the_average_of_the_others(
    prometheus: Both, bad: str
) -> None:
    """It has no such series, says what is not a number, stopped minutes ago, or is unknown to Prometheus."""
    _, url = prometheus
    eventually(
        lambda: abs((read(url, [*OK, bad]).value or 0) - 0.325) < 0.02, 30, "the average of the others"
    )


def test_row_27_more_than_a_third_without_a_fresh_sample_is_unknown_and_says_which(
    prometheus: Both,
) -> None:
    scraped, url = prometheus
    del scraped.pages["lost"]
    eventually(lambda: read(url, ["lost"]).value is None, 30, "the lost node")
    says = "2 of 4 Ready workers have no sample of the last 3 min, and more than a third is too many: "
    assert_no_removal(read(url, ["a1", "lost", "b1", "old"]), f"{says}lost, old")
    assert_no_removal(read(url, ["a1", "nan", "b1", "empty"]), f"{says}nan, empty")
    assert_no_removal(read(url, ["z1", "z2"]), "2 of 2 Ready workers have no sample")


def test_a_query_of_the_users_own_may_give_one_number_or_one_for_each_node(prometheus: Both) -> None:
    _, url = prometheus
    for query, expected in (
        ("vector(0.25)", 0.25),
        ("scalar(vector(0.5))", 0.5),
        ('label_replace(vector(0.75), "node", "a1", "", "")', 0.75),
    ):
        reading = PrometheusMetrics(PrometheusSource(url, query)).read_cpu(["a1"])
        assert reading.value == pytest.approx(expected)
    for query, says in (
        ("no_such_metric", "1 of 1 Ready workers have no sample"),
        ("vector(7)", "7 is not a share of a CPU"),
        ("rate(", "parse error"),
        ("up[1m]", "matrix"),
    ):
        reading = PrometheusMetrics(PrometheusSource(url, query)).read_cpu(["a1"])
        assert reading.value is None
        assert says in reading.problem


def slowly(_: str) -> tuple[int, str]:
    time.sleep(2)
    return 200, ""


def test_a_prometheus_that_is_stopped_slow_or_wrong_is_unknown_with_the_reason() -> None:
    with http_server(lambda _: (200, "<html>a login page</html>")) as port:
        url = f"http://127.0.0.1:{port}"
        assert_no_removal(read(url, OK), "is not one of Prometheus")
    assert_no_removal(read(url, OK, 1), "cannot be reached")
    with http_server(slowly) as port:
        assert_no_removal(read(f"http://127.0.0.1:{port}", OK, 0.3), "did not answer within 0.3 s")
    error = '{"status":"error","errorType":"internal","error":"out of memory"}'
    with http_server(lambda _: (503, error)) as port:
        assert_no_removal(read(f"http://127.0.0.1:{port}", OK), "503 out of memory")
    part = '{"status":"success","data":{"resultType":"vector","result":[]},"warnings":["store gone"]}'
    with http_server(lambda _: (200, part)) as port:
        assert_no_removal(read(f"http://127.0.0.1:{port}", OK), "only in part (store gone)")


class Known:
    def __init__(self, reading: Reading, **uses: NodeUse) -> None:
        self.reading = reading
        self.uses = uses
        self.asked: list[str] = []

    def read_cpu(self, node_names: object) -> Reading:
        return self.reading

    def read_use(self, nodes: Sequence[Node]) -> Mapping[str, NodeUse]:
        self.asked = [node.name for node in nodes]
        return {name: use for name, use in self.uses.items() if name in self.asked}


def test_the_first_source_that_knows_is_believed_and_all_reasons_are_said_where_none_does() -> None:
    lost, also_lost, known = Reading(problem="one"), Reading(problem="two"), Reading(0.5, 7)
    assert FirstKnown(Known(lost), Known(known)).read_cpu(OK) == known
    assert FirstKnown(Known(lost), Known(also_lost)).read_cpu(OK).problem == "one; two"


def test_a_second_source_is_asked_for_the_use_of_those_nodes_that_the_first_does_not_know() -> None:
    nodes = make_nodes("a1", "a2", "b1")
    first = Known(Reading(), a1=NodeUse(0.1, None, 7))
    second = Known(Reading(), a1=NodeUse(0.9, 0.9, 8), a2=NodeUse(0.2, 0.4, 8))
    used = FirstKnown(first, second).read_use(nodes)
    assert used == {"a1": NodeUse(0.1, None, 7), "a2": NodeUse(0.2, 0.4, 8)}, "b1 is unknown, and not 0"
    assert second.asked == ["a2", "b1"]


def test_each_node_tells_its_own_use_and_one_without_a_fresh_sample_is_missing(prometheus: Both) -> None:
    scraped, url = prometheus
    scraped.pages["a2"] = lambda: (200, scraped.text("a2", 0.8) + memory(total=4000, available=1000))
    metrics = PrometheusMetrics(PrometheusSource(url, "vector(0.25)"))
    wanted = make_nodes(*OK, "nan", "old", "empty", "z1")

    def told() -> bool:
        return metrics.read_use(wanted).get("a2", NodeUse(0.0)).memory is not None

    eventually(told, 60, "the memory of a2")
    used = metrics.read_use(wanted)
    metrics.close()
    assert sorted(used) == OK
    assert {name: use.cpu for name, use in used.items()} == pytest.approx(
        {"a1": 0.1, "a2": 0.2, "b1": 0.5}, abs=0.02
    )
    assert (used["a1"].memory, used["a2"].memory) == (None, 0.75)


def memory(total: int, available: int) -> str:
    return f"node_memory_MemTotal_bytes {total}\nnode_memory_MemAvailable_bytes {available}\n"


def test_a_prometheus_that_does_not_answer_knows_the_use_of_no_node() -> None:
    with http_server(lambda _: (503, "")) as port:
        metrics = PrometheusMetrics(PrometheusSource(f"http://127.0.0.1:{port}"))
        assert metrics.read_use(make_nodes("a1")) == {}
        metrics.close()
