"""Every route, for every scope and for none. The list is made from the routes, so that a new one is in it."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest
from fastapi.routing import APIRoute
from fastapi.testclient import TestClient

from ebbtide.entrypoints.api.guard import scopes_of
from ebbtide.entrypoints.api.routers import routers
from ebbtide.entrypoints.api.scopes import Scope, Token, digest_of
from ebbtide.simulator.live import Live
from tests.integration.api.conftest import START, TOKENS, client_of, make_site

OPEN = {"/", "/favicon.ico", "/healthz", "/readyz", "/api/v1/scaling/webhooks/wake"}
"""Pages without data, probes, and what is signed instead."""


LIVE = Live(1, START)


def all_routes() -> list[APIRoute]:
    found = [route for router in routers(make_site(LIVE)) for route in router.routes]
    return [route for route in found if isinstance(route, APIRoute) and not route.path.startswith("/static")]


ROUTES = all_routes()
CALLS = [(method, route.path) for route in ROUTES for method in sorted(route.methods or ())]
NEEDS = {
    (method, route.path): scopes_of(route.dependencies) for route in ROUTES for method in route.methods or ()
}


def test_every_route_says_its_scope_or_is_known_to_be_open() -> None:
    without = {path for (_, path), scopes in NEEDS.items() if not scopes}
    assert without == OPEN
    assert len(CALLS) >= 25


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


@pytest.mark.parametrize(("method", "path"), [call for call in CALLS if call[1] not in OPEN])
def test_a_route_answers_its_scope_and_refuses_every_lower_one(method: str, path: str) -> None:
    needed = NEEDS[method, path][0]
    assert ask(method, path, None) == 401
    for scope in Scope:
        status = ask(method, path, scope)
        if scope < needed:
            assert status == 403
        else:
            assert status not in (401, 403), f"{scope} got {status}"
            assert status < 500 or status == 503


@pytest.mark.parametrize(("method", "path"), [call for call in CALLS if call[1] not in OPEN])
def test_an_unknown_or_expired_token_is_refused(method: str, path: str) -> None:
    assert ask(method, path, Scope.ADMIN, "expired") == 401
    assert ask(method, path, Scope.ADMIN, "none") == 401


@pytest.mark.parametrize(("method", "path"), [call for call in CALLS if call[1] not in OPEN])
def test_without_tokens_on_loopback_reading_is_open_and_nothing_else(method: str, path: str) -> None:
    status = ask(method, path, None, "open")
    assert (status == 401) == (NEEDS[method, path][0] is not Scope.READ)


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
