"""Every route, for every scope and for none. The table is literal: a new route must be put into it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ebbtide.entrypoints.api.app import routers
from ebbtide.entrypoints.api.guard import scopes_of
from ebbtide.entrypoints.api.site import Scope, Token, digest_of, expired, find_token
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import START, TOKENS, client_of, make_site

PINNED = {
    "GET /": "none",
    "GET /api/v1/backtest": "read",
    "GET /api/v1/consolidation": "read",
    "GET /api/v1/costs": "read",
    "GET /api/v1/decisions": "read",
    "GET /api/v1/decisions/{decision_id}": "read",
    "GET /api/v1/decisions/{decision_id}/replay": "read",
    "GET /api/v1/demo": "read",
    "POST /api/v1/demo/faults/{fault_id}": "admin",
    "GET /api/v1/events": "read",
    "GET /api/v1/forecast": "read",
    "DELETE /api/v1/hold/{policy}": "wake",
    "GET /api/v1/hold/{policy}": "wake",
    "HEAD /api/v1/hold/{policy}": "wake",
    "OPTIONS /api/v1/hold/{policy}": "wake",
    "PATCH /api/v1/hold/{policy}": "wake",
    "POST /api/v1/hold/{policy}": "wake",
    "PUT /api/v1/hold/{policy}": "wake",
    "GET /api/v1/log": "read",
    "GET /api/v1/nodes": "read",
    "GET /api/v1/operations": "read",
    "GET /api/v1/pods/{namespace}/{name}": "read",
    "DELETE /api/v1/pause": "admin",
    "PUT /api/v1/pause": "admin",
    "GET /api/v1/prices": "read",
    "GET /api/v1/scaling/policies": "read",
    "POST /api/v1/scaling/policies": "admin",
    "DELETE /api/v1/scaling/policies/{policy_id}": "admin",
    "GET /api/v1/scaling/policies/{policy_id}": "read",
    "PUT /api/v1/scaling/policies/{policy_id}": "admin",
    "POST /api/v1/scaling/policies/{policy_id}/activity": "wake",
    "POST /api/v1/scaling/policies/{policy_id}/keep-up": "wake",
    "PUT /api/v1/scaling/policies/{policy_id}/paused": "admin",
    "GET /api/v1/scaling/policies/{policy_id}/savings": "read",
    "POST /api/v1/scaling/policies/{policy_id}/wake": "wake",
    "GET /api/v1/scaling/savings/summary": "read",
    "GET /api/v1/scaling/strips": "read",
    "POST /api/v1/scaling/wake": "wake",
    "POST /api/v1/scaling/webhooks/wake": "none",
    "GET /api/v1/spending": "read",
    "GET /api/v1/status": "read",
    "GET /favicon.ico": "none",
    "GET /healthz": "none",
    "GET /metrics": "read",
    "GET /readyz": "none",
    "GET /static/{name}": "none",
}
"""Written by hand, since a table made from the routes would follow every mistake in them. Open are pages
without data, probes, and what is signed instead."""
LIVE = Live(1, START)


def all_routes() -> list[APIRoute]:
    found = [route for router in routers(make_site(LIVE)) for route in router.routes]
    assert all(isinstance(route, APIRoute) for route in found)
    return [route for route in found if isinstance(route, APIRoute)]


ROUTES = all_routes()
CALLS = [tuple(call.split(" ")) for call, scope in PINNED.items() if scope != "none"]


def needed(method: str, path: str) -> Scope:
    return Scope[PINNED[f"{method} {path}"].upper()]


def test_every_route_has_the_scope_of_the_table_and_there_is_no_other_route() -> None:
    found = {
        f"{method} {route.path}": scopes_of(route.dependencies)
        for route in ROUTES
        for method in route.methods or ()
    }
    said = {call: scopes[0].spoken if scopes else "none" for call, scopes in found.items()}
    assert said == PINNED
    assert all(len(scopes) <= 1 for scopes in found.values())


def test_what_the_document_says_of_scopes_is_what_the_table_says() -> None:
    document = client_of(make_site(LIVE), None).get("/api/v1/openapi.json").json()
    said = {
        f"{method.upper()} {path}": operation["x-scope"]
        for path, operations in document["paths"].items()
        for method, operation in operations.items()
    }
    assert said == {call: scope for call, scope in PINNED.items() if call in said}
    assert len(said) >= 25


EXPIRED = tuple(Token("old", scope, digest_of(text), expires_at=1) for scope, text in TOKENS.items())
SITES: dict[str, dict[str, Any]] = {
    "tokens": {},
    "expired": {"tokens": EXPIRED},
    "none": {"tokens": ()},
    "open": {"tokens": (), "open_reading": True},
}


@cache
def client_with(kind: str, scope: Scope | None) -> TestClient:
    return client_of(make_site(LIVE, **SITES[kind]), scope)


def ask(method: str, path: str, scope: Scope | None, kind: str = "tokens") -> int:
    client = client_with(kind, scope)
    filled = (
        path.replace("{policy_id}", "none").replace("{decision_id}", "none").replace("{fault_id}", "none")
    )
    if filled == "/api/v1/events":
        return probe_events(client)
    return client.request(method, filled, json={} if method in ("POST", "PUT") else None).status_code


def probe_events(client: Any) -> int:
    """The stream never ends, so it is asked for by a listener who is one too many, or refused before that."""
    from ebbtide.entrypoints.api import events

    before = events.MOST_LISTENERS
    events.MOST_LISTENERS = 0
    try:
        return int(client.get("/api/v1/events").status_code)
    finally:
        events.MOST_LISTENERS = before


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_a_route_answers_its_scope_and_refuses_every_lower_one(method: str, path: str) -> None:
    assert ask(method, path, None) == 401
    for scope in Scope:
        status = ask(method, path, scope)
        if scope < needed(method, path):
            assert status == 403
        else:
            assert status not in (401, 403), f"{scope} got {status}"
            assert status < 500 or status == 503


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_an_unknown_or_expired_token_is_refused(method: str, path: str) -> None:
    assert ask(method, path, Scope.ADMIN, "expired") == 401
    assert ask(method, path, Scope.ADMIN, "none") == 401


@pytest.mark.parametrize(("method", "path"), CALLS)
def test_without_tokens_on_loopback_reading_is_open_and_nothing_else(method: str, path: str) -> None:
    status = ask(method, path, None, "open")
    assert (status == 401) == (needed(method, path) is not Scope.READ)


def test_a_token_is_told_by_its_whole_digest() -> None:
    digest = digest_of("one")
    for near in (digest[:-1] + ("0" if digest[-1] != "0" else "1"), digest[:32] + digest_of("x")[32:]):
        assert find_token("one", (Token("near", Scope.ADMIN, near),)) is None
    assert find_token("one", (Token("it", Scope.READ, digest.upper()),)) is not None


def test_of_two_entries_for_one_token_the_one_that_is_valid_longer_counts() -> None:
    digest = digest_of("one")
    ends = (Token("soon", Scope.READ, digest, 10), Token("later", Scope.WAKE, digest, 20))
    always = Token("always", Scope.ADMIN, digest)
    for order in (ends, ends[::-1]):
        assert find_token("one", order) == ends[1]
        assert find_token("one", (*order, always)) == always
        assert find_token("one", (always, *order)) == always
    assert expired(ends[0], 10)
    assert not expired(ends[0], 9)
    assert not expired(always, 10**10)


def test_of_two_tokens_both_are_valid_while_one_replaces_the_other(live: Live) -> None:
    tokens = (
        Token("old", Scope.ADMIN, digest_of("one")),
        Token("new", Scope.ADMIN, digest_of("two").upper()),
    )
    client = client_of(make_site(live, tokens=tokens), None)
    for text in ("one", "two"):
        headers = {"Authorization": f"Bearer {text}"}
        assert client.get("/api/v1/status", headers=headers).status_code == 200
    assert client.get("/api/v1/status", headers={"Authorization": "Bearer three"}).status_code == 401
