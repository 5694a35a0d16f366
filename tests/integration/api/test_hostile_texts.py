"""Texts that no store takes or that no terminal should see: each is refused as the caller's mistake."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from fastapi.testclient import TestClient

from ebbtide.adapters.stores.sql.migrate import upgrade
from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.entrypoints.views.inputs import shown, why_not_plain
from ebbtide.model.snapshot import ClusterView, Snapshot
from tests.builders import make_settings
from tests.integration.api.conftest import SECRET, client_of, site_of
from tests.integration.api.test_policy_routes import PATH, SHOP
from tests.integration.api.test_wake_routes import HOOK, signed
from tests.policy_harness import PolicyHarness
from tests.servers.postgres import postgres_server

ESCAPE, BREAK, NUL, HALF = "\x1b[2J", "all well\r\n2030-01-01 resumed", "a\0b", "a\ud800"
"""A terminal cleared, a line added to a log, and what no database takes."""
HOSTILE = {"escape": ESCAPE, "line break": BREAK, "NUL": NUL, "half a pair": HALF, "turned": "\u202eoff"}


@pytest.fixture(scope="module", params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path_factory.mktemp('texts')}/ebbtide.db"
        return
    with postgres_server() as server:
        server.run("CREATE DATABASE texts")
        yield server.url("texts")


@pytest.fixture
def client(url: str) -> Iterator[TestClient]:
    upgrade(url)
    harness = PolicyHarness(policies=())
    store = SqlStore.open(url, harness.clock, "texts")
    scaling = harness.runner(store=store, policies=store.policies())
    site = site_of(store, harness.clock, scaling, Snapshot(0, ClusterView()), make_settings())
    with client_of(replace(site, hosts=("testserver",), webhook_secrets=(SECRET,))) as client:
        yield client
    store.close()


def typed(body: object) -> dict[str, Any]:
    """As JSON that says every letter by its number: a client of Python would refuse half a pair itself."""
    return {"content": json.dumps(body), "headers": {"Content-Type": "application/json"}}


def token(*parts: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(parts).encode()).decode().rstrip("=")


LISTS = {"log": "log", "operations": "operations", "decisions": "decisions", "scaling/policies": "policies"}


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
@pytest.mark.parametrize(("path", "name"), LISTS.items(), ids=LISTS)
def test_a_page_token_with_such_a_text_is_none_of_ours(
    client: TestClient, path: str, name: str, text: str
) -> None:
    answer = client.get(f"/api/v1/{path}", params={"page_token": token(name, text)})
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "page_token"


@pytest.mark.parametrize(
    "path",
    ["log?subject=a%00b", "operations?subject=%00", "decisions/a%00b", "scaling/policies/a%00b", "log%00"],
)
def test_a_nul_in_an_address_is_the_callers_mistake(client: TestClient, path: str) -> None:
    assert client.get(f"/api/v1/{path}").status_code == 400


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_a_reason_to_pause_is_one_plain_line_or_refused(client: TestClient, text: str) -> None:
    answer = client.put("/api/v1/pause", **typed({"reason": text}))
    assert answer.status_code == 422
    assert answer.json()["errors"][0]["field"] == "reason"
    assert client.get("/api/v1/log").json()["entries"] == []


@pytest.mark.parametrize("text", [NUL, HALF], ids=["NUL", "half a pair"])
def test_a_policy_of_such_a_name_is_not_there(client: TestClient, text: str) -> None:
    assert client.post(HOOK, **signed({"policy_id": text})).status_code == 404
    named = client.post("/api/v1/scaling/wake", **typed({"policy_ids": [text]}))
    assert named.status_code == 422


@pytest.mark.parametrize("text", HOSTILE.values(), ids=HOSTILE)
def test_no_text_of_a_policy_is_an_error_of_ours(client: TestClient, text: str) -> None:
    signal = {"kind": "promql_rate", "query": text}
    for changes in ({"signals": [signal]}, {"name": text}, {"currency": text}, {"hourly_cost": text}):
        answer = client.post(PATH, **typed({**SHOP, "name": "hostile", **changes}))
        assert answer.status_code in (201, 422), answer.text
        if answer.status_code == 201:
            location, etag = answer.headers["location"], answer.headers["etag"]
            assert client.delete(location, headers={"If-Match": etag}).status_code == 204


def test_a_terminal_is_shown_letters_only() -> None:
    assert shown(f"kept: {ESCAPE}\ttab\n") == "kept: \ufffd[2J\ttab\n"
    assert not why_not_plain("Grüße, 日本 👩‍👩‍👧")
