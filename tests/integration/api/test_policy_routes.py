from __future__ import annotations

import csv
import io
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ebbtide.simulator.run.live import Live

PATH = "/api/v1/scaling/policies"
SHOP: dict[str, Any] = {
    "name": "shop",
    "target": {"workloads": [{"kind": "Deployment", "namespace": "default", "name": "web"}]},
    "scale_to_zero": True,
    "hourly_cost": "0.10",
    "signals": [{"kind": "reported"}],
}


def workload(name: str) -> dict[str, Any]:
    return {"workloads": [{"kind": "Deployment", "namespace": "default", "name": name}]}


def create(client: TestClient, **changes: Any) -> Any:
    return client.post(PATH, json={**SHOP, **changes})


def test_a_policy_is_created_read_changed_and_deleted(client: TestClient) -> None:
    created = create(client)
    assert created.status_code == 201
    body = created.json()
    assert created.headers["location"] == f"{PATH}/{body['id']}"
    assert body["policy"]["min_replicas"] == 1
    assert body["policy"]["max_replicas"] == 10
    assert body["policy"]["cooldown_seconds"] == 300
    assert body["state"]["phase"] == "active"
    read = client.get(f"{PATH}/{body['id']}")
    assert read.headers["etag"] == '"1"'
    changed = client.put(
        f"{PATH}/{body['id']}", json={**SHOP, "max_replicas": 4}, headers={"If-Match": read.headers["etag"]}
    )
    assert changed.json()["policy"]["max_replicas"] == 4
    assert changed.headers["etag"] == '"2"'
    assert client.delete(f"{PATH}/{body['id']}", headers={"If-Match": '"1"'}).status_code == 412
    assert client.delete(f"{PATH}/{body['id']}", headers={"If-Match": '"2"'}).status_code == 204
    assert client.get(f"{PATH}/{body['id']}").status_code == 404


def test_who_has_not_seen_a_version_changes_nothing(client: TestClient) -> None:
    path = f"{PATH}/{create(client).json()['id']}"
    assert client.put(path, json=SHOP).status_code == 428
    stale = client.put(path, json={**SHOP, "max_replicas": 2}, headers={"If-Match": '"7"'})
    assert stale.status_code == 412
    assert client.get(path).json()["policy"]["max_replicas"] == 10


def test_policies_are_listed_by_name_page_by_page(client: TestClient) -> None:
    for number in range(5):
        assert create(client, name=f"a-{number}", target=workload(f"a-{number}")).status_code == 201
    names: list[str] = []
    token = ""
    while True:
        page = client.get(PATH, params={"limit": 2, "page_token": token}).json()
        names += [policy["name"] for policy in page["policies"]]
        token = page["next_page_token"]
        if not token:
            break
    assert names == sorted(names)
    assert len(names) == 8


BAD: list[tuple[dict[str, Any], int, str]] = [
    ({"name": "Shop!"}, 422, "name"),
    ({"name": 7}, 422, "name"),
    ({"target": {}}, 422, "target"),
    ({"target": {"pool": "spot", "workloads": SHOP["target"]["workloads"]}}, 422, "target"),
    ({"min_replicas": 5, "max_replicas": 2}, 422, "max_replicas"),
    ({"min_replicas": "3"}, 422, "min_replicas"),
    ({"scale_to_zero": "yes"}, 422, "scale_to_zero"),
    ({"zone": "Mars/Olympus"}, 422, "zone"),
    ({"schedules": [{"cron": "99 * * * *"}]}, 422, "schedules[0].cron"),
    ({"schedules": [{"cron": "0 8 * * *", "zone": "Nowhere"}]}, 422, "schedules[0].zone"),
    ({"rules": [{"metric": "up", "operator": "above", "threshold": 1}]}, 422, "rules[0].operator"),
    ({"rules": [{"metric": "up", "operator": "gt", "threshold": "NaN"}]}, 422, "rules[0].threshold"),
    ({"hourly_cost": -1}, 422, "hourly_cost"),
    ({"unknown": 1}, 422, "unknown"),
    ({"name": "wiki"}, 409, "name"),
    ({"target": {"pool": "gone"}}, 422, "target.pool"),
    ({"schedules": [{"cron": "@daily", "replicas": 2, "wake": True}]}, 422, "schedules[0]"),
    (
        {"target": {"workloads": [{"name": "a"}, {"name": "b"}]}, "schedules": [{"cron": "@daily"}]},
        422,
        "schedules[0].replicas",
    ),
    ({"target": workload("wiki")}, 409, "target.workloads[0]"),
]


@pytest.mark.parametrize(("changes", "status", "field"), BAD)
def test_bad_input_names_the_field_and_changes_nothing(
    client: TestClient, changes: dict[str, Any], status: int, field: str
) -> None:
    before = client.get(PATH).json()["policies"]
    answer = create(client, **changes)
    assert answer.status_code == status
    assert answer.headers["content-type"] == "application/problem+json"
    assert [error["field"] for error in answer.json()["errors"]] == [field]
    after = client.get(PATH).json()["policies"]
    assert [policy["id"] for policy in after] == [policy["id"] for policy in before]


def test_a_change_that_does_not_fit_next_to_the_others_changes_nothing(client: TestClient) -> None:
    path = f"{PATH}/{create(client).json()['id']}"
    for changes, status, field in BAD[-3:]:
        answer = client.put(path, json={**SHOP, **changes}, headers={"If-Match": '"1"'})
        assert answer.status_code == status
        assert answer.headers["content-type"] == "application/problem+json"
        assert [error["field"] for error in answer.json()["errors"]] == [field]
        assert "nothing was changed" in answer.json()["detail"]
    assert client.get(path).headers["etag"] == '"1"'
    switched_off = client.put(
        path, json={**SHOP, "target": workload("wiki"), "enabled": False}, headers={"If-Match": '"1"'}
    )
    assert switched_off.status_code == 200
    on_again = client.put(path, json={**SHOP, "target": workload("wiki")}, headers={"If-Match": '"2"'})
    assert on_again.status_code == 409


def test_schedules_alone_need_no_other_switch_and_are_read_as_they_were_written(client: TestClient) -> None:
    schedules = [{"cron": "0 20 * * *", "replicas": 0}, {"cron": "0 8 * * *", "wake": True}]
    created = create(client, scale_to_zero=False, signals=[], schedules=schedules)
    assert created.status_code == 201
    policy = created.json()["policy"]
    assert [(each["replicas"], each["wake"]) for each in policy["schedules"]] == [(0, False), (None, True)]
    assert policy["signals"] == []
    path = f"{PATH}/{created.json()['id']}"
    assert client.put(path, json=policy, headers={"If-Match": "*"}).status_code == 200


def test_of_two_requests_for_one_target_at_the_same_moment_one_gets_409(
    live: Live, client: TestClient
) -> None:
    names = [f"twin-{number}" for number in range(8)]
    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(lambda name: create(client, name=name), names))
    assert sorted(answer.status_code for answer in answers) == [201, *(7 * [409])]
    fields = {error["field"] for answer in answers for error in answer.json().get("errors", ())}
    assert fields <= {"target", "target.workloads[0]"}


def test_another_target_for_what_sleeps_is_refused_and_says_to_wake_it_first(
    live: Live, client: TestClient
) -> None:
    policy = sleeping(live, client)
    path, keys = f"{PATH}/{policy['id']}", {**policy["policy"], "target": workload("other")}
    refused = client.put(path, json=keys, headers={"If-Match": "*"})
    assert refused.status_code == 409
    assert [error["field"] for error in refused.json()["errors"]] == ["target"]
    assert "wake it first" in refused.json()["detail"]
    same = client.put(path, json={**policy["policy"], "max_replicas": 9}, headers={"If-Match": "*"})
    assert same.status_code == 200
    woken = client.post(f"{path}/wake", json={"wait_for_ready": True})
    assert woken.json()["ready"] is True
    assert client.put(path, json=keys, headers={"If-Match": "*"}).status_code == 200


def test_idle_hours_include_the_time_at_zero(live: Live, client: TestClient) -> None:
    policy = sleeping(live, client)
    for _ in range(100):
        live.step()
    found = client.get(f"{PATH}/{policy['id']}/savings").json()
    assert found["total_idle_hours"] > found["total_scaled_to_zero_hours"] > 0
    for day in found["daily_breakdown"]:
        assert day["idle_hours"] >= day["scaled_to_zero_hours"]


def sleeping(live: Live, client: TestClient) -> Any:
    """The demo's wiki, once it sleeps."""
    for _ in range(400):
        live.step()
        found = next(p for p in client.get(PATH).json()["policies"] if p["name"] == "wiki")
        if found["state"]["phase"] == "zero":
            return found
    raise AssertionError("it never slept")


def test_activity_keep_up_and_pause(live: Live, client: TestClient) -> None:
    policy = create(client, name="api-policy").json()
    path = f"{PATH}/{policy['id']}"
    now = int(live.stage.clock.now())
    assert client.post(f"{path}/activity", json={}).json()["last_activity_at"] >= now
    future = client.post(f"{path}/activity", json={"at": now + 3600})
    assert future.status_code == 422
    assert "future" in future.json()["detail"]
    kept = client.post(f"{path}/keep-up", json={"seconds": 3600}).json()
    assert kept["keep_up_until"] >= now + 3600
    assert client.post(f"{path}/keep-up", json={"seconds": -1}).status_code == 422
    assert client.put(f"{path}/paused", json={"paused": True}).json()["paused"] is True
    assert client.get(path).json()["state"]["why_awake"] == "the policy is paused"


def test_the_savings_of_a_sleeping_policy_add_up_in_json_and_csv(live: Live, client: TestClient) -> None:
    policy = sleeping(live, client)
    for _ in range(100):
        live.step()
    path = f"{PATH}/{policy['id']}/savings"
    found = client.get(path).json()
    assert found["period"] == "last_30_days"
    assert found["total_scaled_to_zero_hours"] > 0
    assert found["total_scaled_to_zero_hours"] == pytest.approx(
        sum(day["scaled_to_zero_hours"] for day in found["daily_breakdown"])
    )
    assert found["currency"] == "EUR"
    assert found["estimated_savings_euros"] == pytest.approx(
        sum(day["savings_euros"] for day in found["daily_breakdown"])
    )
    rows = list(csv.DictReader(io.StringIO(client.get(path, params={"format": "csv"}).text)))
    assert [row["date"] for row in rows] == [day["date"] for day in reversed(found["daily_breakdown"])]
    summary = client.get("/api/v1/scaling/savings/summary").json()
    assert policy["id"] in {each["policy_id"] for each in summary["policies"]}
    assert client.get(f"{PATH}/none/savings").status_code == 404
