from __future__ import annotations

from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ebbtide.core.prices import CostPoint
from ebbtide.entrypoints.api.money import since
from ebbtide.entrypoints.api.site import Sight
from ebbtide.model.events import Alarm, AlarmKind, OperationClosed, OperationKind
from ebbtide.model.operation import SlotState
from ebbtide.model.pool import HeadroomSeen
from ebbtide.narrate import entry_of
from ebbtide.simulator.run.live import Live
from tests.builders import make_slot, make_spot
from tests.integration.api.conftest import client_of, make_site


def test_status_tells_what_is_in_progress_and_what_holds_it_back(client: TestClient) -> None:
    status = client.get("/api/v1/status").json()
    assert status["cluster"] == "demo"
    assert status["workers"] >= 3
    assert status["currency"] == "EUR"
    assert float(status["cost_per_hour"]) > 0
    assert {brake["name"] for brake in status["brakes"]} >= {"pause", "cooldown up", "cooldown down"}


def test_status_has_what_the_last_tick_said_also_while_an_operation_continues(
    live: Live, client: TestClient
) -> None:
    live.strike("burst")
    while live.ports.store.load().operation is None:
        live.step()
    for _ in range(4):
        live.step()
    record = live.ports.store.load()
    status = client.get("/api/v1/status").json()
    assert status["says"] == record.last_said
    assert status["says"] != status["last_decision"]["says"]


def test_nodes_have_states_prices_and_use(client: TestClient) -> None:
    nodes = client.get("/api/v1/nodes").json()["nodes"]
    workers = [node for node in nodes if node["worker"]]
    assert {node["zone"] for node in workers} == {"a", "b", "c"}
    assert all(node["price_per_hour"] for node in workers)
    assert all(0 <= node["cpu_requested"] <= 1 for node in workers)
    assert all(node["cpu_milli"] > 0 and node["memory_mib"] > 0 for node in workers)


def test_a_node_tells_what_it_really_uses_with_the_last_values_while_metrics_are_gone(
    live: Live, client: TestClient
) -> None:
    used = {node["name"]: node for node in client.get("/api/v1/nodes").json()["nodes"] if node["worker"]}
    assert all(0 < node["cpu_used"] <= 1 and 0 < node["memory_used"] <= 1 for node in used.values())
    assert all(node["cpu_used"] != node["cpu_requested"] for node in used.values())
    before = int(live.stage.clock.now())
    assert {node["used_at"] for node in used.values()} == {before}
    live.strike("metrics-gone")
    live.step()
    nodes = {node["name"]: node for node in client.get("/api/v1/nodes").json()["nodes"]}
    stayed = [nodes[name] for name in used if name in nodes]
    assert stayed
    assert [node["cpu_used"] for node in stayed] == [used[node["name"]]["cpu_used"] for node in stayed]
    assert {node["used_at"] for node in stayed} == {before}, "as old as their last sample"


def test_a_node_that_was_never_measured_has_no_use_and_not_one_of_zero(live: Live) -> None:
    site = make_site(live, sight=Sight(live.look, live.stage.clock, seconds=0.0))
    with client_of(site) as client:
        nodes = client.get("/api/v1/nodes").json()["nodes"]
    assert nodes
    assert all(node["cpu_used"] is node["memory_used"] is node["used_at"] is None for node in nodes)


def test_a_chart_of_costs_begins_with_what_held_at_its_beginning() -> None:
    """The line began where the cost had changed last, and before that the chart was empty."""
    points = [CostPoint(at, {"USD": Decimal(per_hour)}) for at, per_hour in ((100, 1), (200, 2), (900, 3))]
    shown = since(points, 500)
    assert [(point.at, point.per_hour["USD"]) for point in shown] == [(500, Decimal(2)), (900, Decimal(3))]
    assert since(points, 50) == points


def test_a_notice_in_progress_names_the_node_and_a_recommendation_takes_nothing_back(
    live: Live, client: TestClient
) -> None:
    live.strike("stuck-drain")
    while not live.ports.store.load().spots:
        live.step()
    (spot,) = live.ports.store.load().spots
    (shown,) = client.get("/api/v1/status").json()["spots"]
    node = live.look().node_of[spot.instance_id].name
    assert shown["node"] == node
    assert shown["reason"] == f"the cloud recommends replacing {node}: it may reclaim it soon"
    states = {each["name"]: each["state"] for each in client.get("/api/v1/nodes").json()["nodes"]}
    assert states[node] == "at risk", "nothing was taken back"


def test_a_new_node_is_joining_from_its_first_moment_and_not_a_node_that_is_not_ready(
    live: Live, client: TestClient
) -> None:
    """Until a tick had seen it, the page showed it in red."""
    live.strike("burst")
    states: set[str] = set()
    while live.situation is not None and not live.situation.over:
        live.step()
        states |= {node["state"] for node in client.get("/api/v1/nodes").json()["nodes"]}
    assert "joining" in states
    assert "not ready" not in states


def test_a_node_that_got_a_pod_since_the_last_tick_is_not_empty(live: Live, client: TestClient) -> None:
    """The page showed a full tile with "empty 15 s"."""
    live.strike("burst")
    noted = 0
    while live.situation is not None and not live.situation.over:
        live.step()
        cluster = live.look().cluster
        empty = set(cluster.empty_workers)
        nodes = client.get("/api/v1/nodes").json()["nodes"]
        assert {node["uid"] for node in nodes if node["idle_since"]} <= empty
        noted += bool({emptied.node_uid for emptied in live.ports.store.load().emptied} - empty)
    assert noted, "the record never lagged behind"


def test_every_worker_says_why_it_is_kept(live: Live, client: TestClient) -> None:
    """By name where it was looked at, else by the precondition that stopped the decision before that."""
    while live.ports.store.load().operation is not None:
        live.step()
    live.step()
    nodes = client.get("/api/v1/nodes").json()["nodes"]
    newest = client.get("/api/v1/decisions", params={"limit": 1}).json()["entries"][0]["id"]
    decision = client.get(f"/api/v1/decisions/{newest}").json()["decision"]
    (asked,) = (verdict for verdict in decision["verdicts"] if verdict["action"] == "scale_down")
    stopped = [check["says"] for check in asked["checks"] if not check["passed"]]
    each = {
        refusal["node_name"]: refusal["reason"]
        for verdict in decision["verdicts"]
        for refusal in verdict["refusals"]
    }
    workers = [node for node in nodes if node["worker"] and node["state"] == "ready"]
    assert workers
    assert {node["name"]: node["kept_because"] for node in workers} == {
        node["name"]: each.get(node["name"], stopped[0]) for node in workers
    }
    assert all(node["kept_because"] == "" for node in nodes if not node["worker"])
    at = client.get(f"/api/v1/decisions/{newest}").json()["at"]
    assert {node["kept_at"] for node in workers} == {at}, "the same decision is not logged again"
    assert {node["kept_at"] for node in nodes if not node["worker"]} == {None}


def test_decisions_can_be_read_page_by_page_unfolded_and_replayed(live: Live, client: TestClient) -> None:
    live.strike("burst")
    for _ in range(40):
        live.step()
    seen: list[str] = []
    token = ""
    while True:
        page = client.get("/api/v1/decisions", params={"limit": 2, "page_token": token}).json()
        seen += [entry["id"] for entry in page["entries"]]
        token = page["next_page_token"]
        if not token:
            break
    assert len(seen) == len(set(seen)) >= 3
    assert seen == sorted(seen, reverse=True)
    for decision_id in seen[:3]:
        decision = client.get(f"/api/v1/decisions/{decision_id}").json()
        assert decision["decision"]["verdicts"][0]["checks"][0]["says"]
        assert client.get(f"/api/v1/decisions/{decision_id}/replay").json()["equal"] is True


def test_the_life_of_a_node_is_in_the_log_under_its_name(live: Live, client: TestClient) -> None:
    live.strike("burst")
    for _ in range(60):
        live.step()
    entries = client.get("/api/v1/operations", params={"limit": 500}).json()["entries"]
    ready = next(entry for entry in entries if "-> READY" in entry["says"])
    life = client.get("/api/v1/log", params={"subject": ready["subject"]}).json()["entries"]
    assert ready["id"] in {entry["id"] for entry in life}


def test_a_pause_is_a_switch_that_the_next_decision_obeys(live: Live, client: TestClient) -> None:
    answer = client.put("/api/v1/pause", json={"reason": "upgrade"})
    assert answer.json() == {"paused": True, "reason": "upgrade", "says": "Removals are paused."}
    assert live.ports.store.load().paused
    assert client.delete("/api/v1/pause").json()["says"] == "Removals are allowed again."
    assert not live.ports.store.load().paused


def test_money_has_a_source_and_consolidation_a_bound(live: Live, client: TestClient) -> None:
    costs = client.get("/api/v1/costs").json()
    assert costs["currency"] == "EUR"
    assert costs["points"]
    prices = client.get("/api/v1/prices").json()["prices"]
    assert all(price["source"] for price in prices if price["per_hour"])
    report = client.get("/api/v1/consolidation").json()
    assert report["checks"]


def test_probes_need_no_token_and_say_what_is_wrong(live: Live) -> None:
    sick = client_of(
        make_site(live, healthy=lambda: "no tick for 300 s", ready=lambda: "the store is gone"), None
    )
    assert sick.get("/healthz").status_code == 503
    assert sick.get("/readyz").json()["detail"] == "the store is gone"
    assert client_of(make_site(live), None).get("/healthz").text == "ok\n"


BAD = [
    ("GET", "/api/v1/decisions?page_token=x", 422, "page_token"),
    ("GET", "/api/v1/decisions?limit=0", 422, "limit"),
    ("GET", "/api/v1/decisions/none", 404, ""),
    ("GET", "/api/v1/log?kind=nonsense", 422, "kind[0]"),
    ("GET", "/api/v1/nothing", 404, ""),
    ("POST", "/api/v1/status", 405, ""),
    ("PUT", "/api/v1/pause", 422, "body"),
    ("POST", "/api/v1/demo/faults/none", 404, ""),
    ("GET", "/api/v1/scaling/savings/summary?from=yesterday", 422, "from"),
    ("GET", "/api/v1/scaling/savings/summary?from=2026-02-02&to=2026-01-01", 422, "from"),
    ("GET", "/api/v1/scaling/savings/summary?format=xml", 422, "format"),
]


@pytest.mark.parametrize(("method", "path", "status", "field"), BAD)
def test_bad_input_is_a_problem_that_names_the_field(
    client: TestClient, method: str, path: str, status: int, field: str
) -> None:
    answer = client.request(method, path)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    body: dict[str, Any] = answer.json()
    assert body["status"] == status
    assert body["detail"]
    if field:
        assert field in {error["field"] for error in body["errors"]}


@pytest.mark.parametrize(
    "host",
    [
        "evil.example:8808",
        "evil-testserver",
        "evil.testserver",
        "testserver.evil.example",
        "testserver:80:80",
        "",
    ],
)
def test_a_host_that_is_none_of_ours_is_refused(live: Live, host: str) -> None:
    client = client_of(make_site(live, hosts=("testserver", "::1")))
    assert client.get("/api/v1/status", headers={"Host": host}).status_code == 421


@pytest.mark.parametrize("host", ["testserver", "testserver:8808", "[::1]", "[::1]:8808"])
def test_a_host_is_one_of_ours_with_or_without_its_port(live: Live, host: str) -> None:
    client = client_of(make_site(live, hosts=("testserver", "::1")))
    assert client.get("/api/v1/status", headers={"Host": host}).status_code == 200


def test_too_many_requests_are_refused_for_that_caller_alone(live: Live) -> None:
    client = client_of(make_site(live, rate_per_minute=3))
    statuses = [client.get("/healthz").status_code for _ in range(5)]
    assert statuses == [200, 200, 200, 429, 429]
    assert client.get("/healthz", headers={"Authorization": "Bearer ebb_read"}).status_code == 200


def test_a_body_that_is_too_long_is_refused_also_without_a_length(live: Live) -> None:
    client = client_of(make_site(live, max_body_bytes=1000))
    assert client.put("/api/v1/pause", json={"reason": "x" * 2000}).status_code == 413

    def endless() -> Any:
        for _ in range(10):
            yield b"x" * 400

    assert client.put("/api/v1/pause", content=endless()).status_code == 413
    assert not live.ports.store.load().paused


def test_answers_carry_headers_that_keep_browsers_safe(client: TestClient) -> None:
    headers = client.get("/api/v1/status").headers
    assert headers["x-content-type-options"] == "nosniff"
    assert "default-src 'none'" in headers["content-security-policy"]
    page = client.get("/").headers["content-security-policy"]
    assert "script-src 'self'" in page
    assert "unsafe" not in page


def test_a_replacement_for_a_spot_node_says_when_it_is_usually_ready(live: Live, client: TestClient) -> None:
    """Only launches for pending pods did."""
    store, now = live.ports.store, int(live.stage.clock.now())
    took = OperationClosed("op", OperationKind.SCALE_UP, True, now - 180, ready=("a1",))
    store.append([entry_of("1", now - 100, took)])
    slot = make_slot(state=SlotState.LAUNCHED, since=now - 20)
    store.write(replace(store.load(), spots=(make_spot("a1", slot=slot),)), None)
    (spot,) = client.get("/api/v1/status").json()["spots"]
    assert [step["until"] for step in spot["steps"] if step["kind"] == "launch"] == [now + 60]


@pytest.mark.parametrize("kind", [AlarmKind.RUNNER_DIED, AlarmKind.TICK_FAILED])
def test_an_alarm_that_a_later_tick_has_corrected_is_not_shown_as_current(
    live: Live, client: TestClient, kind: AlarmKind
) -> None:
    """Twenty minutes after a crash it was still said that the other runner waits for the lease."""
    store, now = live.ports.store, int(live.stage.clock.now())
    older = Alarm(AlarmKind.OBSERVATION, "node a1 has no instance")
    store.append([entry_of("1", now - 70, older), entry_of("2", now - 60, Alarm(kind, "because"))])

    def said_after(ticked_at: int) -> str:
        store.write(replace(store.load(), ticked_at=ticked_at), None)
        found: str = client.get("/api/v1/status").json()["last_alarm"]["id"]
        return found

    assert [said_after(now - 90), said_after(now - 30)] == ["2", "1"]


def test_status_tells_what_headroom_is_wanted_there_and_missing(live: Live, client: TestClient) -> None:
    assert client.get("/api/v1/status").json()["headroom"] == []
    seen = HeadroomSeen("3 pods of 500m CPU and 512 MiB", 3, 1)
    store = live.ports.store
    store.write(replace(store.load(), headroom=(seen,)), None)
    assert client.get("/api/v1/status").json()["headroom"] == [
        {"says": seen.says, "wanted": 3, "there": 1, "missing": 2}
    ]
