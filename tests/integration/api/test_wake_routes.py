from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any, cast

import pytest
from fastapi.testclient import TestClient
from standardwebhooks.webhooks import Webhook

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.errors import Throttled
from ebbtide.model.idle import IdleState, Phase
from ebbtide.ports import PolicyStore
from ebbtide.simulator.run.live import Live
from ebbtide.simulator.world.ports import SimWorkloads
from tests.integration.api.conftest import SECRET, client_of, make_site
from tests.integration.api.test_policy_routes import PATH, create, sleeping


def scale_calls(live: Live) -> int:
    found = live.scaling.ports.workloads
    assert isinstance(found.scaled, list)  # type: ignore[attr-defined]
    return len(found.scaled)  # type: ignore[attr-defined]


def test_a_wake_answers_with_the_fields_of_the_contract(live: Live, client: TestClient) -> None:
    policy = sleeping(live, client)
    assert policy["state"]["eta"]["node_first"] in ("none", "coming", "launch", "unknown")
    assert policy["state"]["eta"]["seconds"] == policy["state"]["estimated_ready_seconds"]
    before = scale_calls(live)
    answer = client.post(f"{PATH}/{policy['id']}/wake", json={"reason": "manual"})
    body = answer.json()
    assert answer.status_code == 200
    assert body["policy_id"] == policy["id"]
    assert body["previous_replicas"] == 0
    assert body["target_replicas"] == 3
    assert body["wake_reason"] == "manual"
    assert body["message"] == "Wake initiated"
    assert body["estimated_ready_seconds"] > 0
    again = client.post(f"{PATH}/{policy['id']}/wake").json()
    assert again["wake_id"] == body["wake_id"]
    assert scale_calls(live) == before + 1


def test_who_waits_is_answered_when_it_is_ready(live: Live, client: TestClient) -> None:
    policy = sleeping(live, client)
    answer = client.post(f"{PATH}/{policy['id']}/wake", json={"wait_for_ready": True})
    assert answer.status_code == 200
    assert answer.json()["ready"] is True
    state = client.get(f"{PATH}/{policy['id']}").json()["state"]
    assert (state["phase"], state["eta"]) == ("active", None)
    assert len(state["wakes"]) == 1


def test_who_waits_too_long_gets_the_id_of_the_wake_that_continues(live: Live, client: TestClient) -> None:
    policy = sleeping(live, client)
    path = f"{PATH}/{policy['id']}"
    keys = {**policy["policy"], "cold_start_timeout_seconds": 1}
    assert client.put(path, json=keys, headers={"If-Match": "*"}).status_code == 200
    answer = client.post(f"{path}/wake", json={"wait_for_ready": True})
    assert answer.status_code == 504
    assert answer.json()["wake_id"].startswith(f"wake-{policy['id']}-")
    assert client.get(path).json()["state"]["phase"] == "waking"


def test_a_repeat_with_the_same_key_gets_the_same_answer_and_does_nothing(
    live: Live, client: TestClient
) -> None:
    policy = sleeping(live, client)
    path, headers = f"{PATH}/{policy['id']}/wake", {"Idempotency-Key": "k1"}
    first = client.post(path, json={}, headers=headers).json()
    for _ in range(30):
        live.step()
    count = client.get(f"{PATH}/{policy['id']}").json()["state"]["wake_count"]
    assert client.post(path, json={}, headers=headers).json() == first
    assert client.get(f"{PATH}/{policy['id']}").json()["state"]["wake_count"] == count
    other = client.post(path, json={"reason": "webhook"}, headers=headers)
    assert other.status_code == 422


def test_a_repeat_of_a_request_that_waited_gets_what_it_was_told_in_the_end_at_once(
    live: Live, client: TestClient
) -> None:
    policy = sleeping(live, client)
    path, headers = f"{PATH}/{policy['id']}/wake", {"Idempotency-Key": "k2"}
    first = client.post(path, json={"wait_for_ready": True}, headers=headers)
    assert first.json()["ready"] is True
    before = live.stage.clock.now()
    again = client.post(path, json={"wait_for_ready": True}, headers=headers)
    assert (again.status_code, again.json()) == (200, first.json())
    assert live.stage.clock.now() - before < 1, "nothing was waited for"


def test_a_repeat_does_not_wait_again(live: Live, client: TestClient) -> None:
    policy = sleeping(live, client)
    path = f"{PATH}/{policy['id']}"
    keys = {**policy["policy"], "cold_start_timeout_seconds": 1}
    assert client.put(path, json=keys, headers={"If-Match": "*"}).status_code == 200
    headers = {"Idempotency-Key": "k3"}
    first = client.post(f"{path}/wake", json={"wait_for_ready": True}, headers=headers)
    before = live.stage.clock.now()
    again = client.post(f"{path}/wake", json={"wait_for_ready": True}, headers=headers)
    assert (first.status_code, again.status_code, again.json()) == (504, 504, first.json())
    assert live.stage.clock.now() - before < 1


def test_an_unknown_reason_and_an_unknown_policy_are_refused(client: TestClient) -> None:
    policy = create(client).json()
    answer = client.post(f"{PATH}/{policy['id']}/wake", json={"reason": "because"})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "reason"
    assert client.post(f"{PATH}/none/wake", json={}).status_code == 404


def test_wake_all_wakes_exactly_what_was_asked_for(live: Live, client: TestClient) -> None:
    policy = sleeping(live, client)
    running = create(client, name="running").json()
    ids = [policy["id"], running["id"]]
    answer = client.post("/api/v1/scaling/wake", json={"policy_ids": ids, "reason": "manual"}).json()
    assert answer == {
        "woken": 1,
        "already_running": 1,
        "policies": [
            {"policy_id": policy["id"], "status": "waking"},
            {"policy_id": running["id"], "status": "already_running"},
        ],
    }
    assert client.post("/api/v1/scaling/wake", json={"policy_ids": ["none"]}).status_code == 404


def test_wake_all_without_names_wakes_all_that_sleep(live: Live, client: TestClient) -> None:
    sleeping(live, client)
    asleep = {
        p["id"] for p in client.get(PATH).json()["policies"] if p["state"]["phase"] in ("zero", "falling")
    }
    answer = client.post("/api/v1/scaling/wake").json()
    assert {each["policy_id"] for each in answer["policies"]} == asleep
    assert answer["woken"] == len(asleep)


def signed(body: dict[str, Any], at: datetime | None = None, message_id: str = "m1") -> dict[str, Any]:
    moment = at or datetime.now(UTC)
    text = json.dumps(body)
    return {
        "content": text,
        "headers": {
            "webhook-id": message_id,
            "webhook-timestamp": str(int(moment.timestamp())),
            "webhook-signature": Webhook(SECRET).sign(message_id, moment, text),
        },
    }


HOOK = "/api/v1/scaling/webhooks/wake"


def test_a_signed_webhook_wakes_once_and_needs_no_token(live: Live) -> None:
    with client_of(make_site(live)) as client:
        policy = sleeping(live, client)
    outsider = client_of(make_site(live), None)
    message = signed({"policy_id": policy["id"]})
    answer = outsider.post(HOOK, **message)
    assert answer.status_code == 200
    assert answer.json()["wake_reason"] == "webhook"
    assert outsider.post(HOOK, **message).json()["status"] == "seen before"


class Busy:
    """The store of policies, which is too busy for the next writes of a state."""

    def __init__(self, inner: PolicyStore, times: int) -> None:
        self._inner = inner
        self._times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def write_state(self, *given: Any) -> IdleState:
        self._times -= 1
        if self._times >= 0:
            raise Throttled("the table is busy; nothing was done, try again later")
        return self._inner.write_state(*given)


@pytest.mark.parametrize("asleep", [True, False])
def test_a_webhook_whose_wake_could_not_be_written_works_when_it_is_sent_again(
    live: Live, asleep: bool
) -> None:
    with client_of(make_site(live)) as client:
        policy = sleeping(live, client) if asleep else create(client).json()
    busy = cast(PolicyStore, Busy(live.scaling.ports.policies, times=1))
    opened = replace(live.scaling.ports, policies=busy)
    site = make_site(live, scaling=Scaling(opened, live.scaling.defaults, live.settings))
    outsider, message = client_of(site, None), signed({"policy_id": policy["id"]})
    refused = outsider.post(HOOK, **message)
    assert (refused.status_code, refused.headers["retry-after"]) == (503, "5")
    again = outsider.post(HOOK, **message)
    assert (again.status_code, again.json().get("wake_reason")) == (200, "webhook")
    assert outsider.post(HOOK, **message).json()["status"] == "seen before"


def test_a_webhook_for_a_wake_that_is_in_progress_counts_once_too(live: Live) -> None:
    with client_of(make_site(live)) as client:
        policy = sleeping(live, client)
        client.post(f"{PATH}/{policy['id']}/wake", json={})
    outsider, message = client_of(make_site(live), None), signed({"policy_id": policy["id"]})
    assert outsider.post(HOOK, **message).json()["status"] == "waking"
    assert outsider.post(HOOK, **message).json()["status"] == "seen before"


FORGED: list[tuple[Callable[[], dict[str, Any]], int]] = [
    (lambda: {**signed({"policy_id": "x"}), "content": '{"policy_id": "y"}'}, 401),
    (lambda: signed({"policy_id": "x"}, datetime.now(UTC) - timedelta(hours=1)), 401),
    (lambda: {"content": "{}", "headers": {}}, 401),
    (lambda: signed({"policy": "x"}), 422),
    (lambda: signed({"policy_id": "none"}), 404),
]
"""Signed when it is sent: a signature is good for five minutes."""


@pytest.mark.parametrize(("message", "status"), FORGED)
def test_a_webhook_that_is_forged_old_or_wrong_is_refused(
    client: TestClient, message: Callable[[], dict[str, Any]], status: int
) -> None:
    assert client.post(HOOK, **message()).status_code == status


def test_where_no_secret_is_set_no_webhook_is_taken_signed_or_not(live: Live) -> None:
    with client_of(make_site(live)) as client:
        policy = sleeping(live, client)
    outsider = client_of(make_site(live, webhook_secrets=()), None)
    unsigned = {"content": json.dumps({"policy_id": policy["id"]}), "headers": {}}
    for message in (unsigned, signed({"policy_id": policy["id"]})):
        answer = outsider.post(HOOK, **message)
        assert (answer.status_code, "webhook_secrets_file" in answer.text) == (404, True)
    state = live.scaling.ports.policies.find_state(policy["id"])
    assert state is not None
    assert state.phase is Phase.ZERO


def test_wakes_are_limited_for_each_caller(live: Live) -> None:
    client = client_of(make_site(live, wakes_per_minute=2))
    policy = create(client).json()
    statuses = [client.post(f"{PATH}/{policy['id']}/wake", json={}).status_code for _ in range(4)]
    assert statuses == [200, 200, 429, 429]


def test_the_simulated_workloads_are_the_ones_that_are_scaled(live: Live) -> None:
    assert isinstance(live.scaling.ports.workloads._inner, SimWorkloads)  # type: ignore[attr-defined]
