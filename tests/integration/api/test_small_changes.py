"""What small changes of the API's guards would get wrong, as `python -m tests.mutation` found."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from starlette.requests import Request
from starlette.responses import PlainTextResponse

from ebbtide.config.api import TokenKeys
from ebbtide.entrypoints.api.guard import BodyLimit, host_name
from ebbtide.entrypoints.api.serving import MOST_CONNECTIONS, places
from ebbtide.entrypoints.api.site import Scope, digest_of, find_token, new_token, token_of
from ebbtide.errors import ConfigError
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import TOKENS, client_of, make_site

KEYS = TokenKeys(name="grafana", scope="wake", sha256=digest_of("ebb_x"))


def test_a_token_of_the_configuration_has_its_name_scope_and_last_day() -> None:
    token = token_of(KEYS)
    assert (token.name, token.scope, token.digest, token.expires_at) == (
        "grafana",
        Scope.WAKE,
        digest_of("ebb_x"),
        None,
    )
    until = token_of(KEYS.model_copy(update={"expires": "2027-01-31"}))
    assert until.expires_at == 1_801_353_600
    with pytest.raises(ConfigError, match="not a day; nothing was touched"):
        token_of(KEYS.model_copy(update={"expires": "31.1.2027"}))


def test_a_new_token_is_long_and_never_the_same() -> None:
    made = {new_token() for _ in range(20)}
    assert len(made) == 20
    assert all(text.startswith("ebb_") and len(text) >= 40 for text in made)
    assert find_token(made.pop(), (token_of(KEYS),)) is None


def test_a_refused_caller_is_told_how_to_ask(live: Live) -> None:
    client = client_of(make_site(live), None)
    assert client.get("/api/v1/status").headers["www-authenticate"] == "Bearer"
    unknown = client.get("/api/v1/status", headers={"Authorization": "Bearer ebb_unknown"})
    assert unknown.headers["www-authenticate"] == 'Bearer error="invalid_token"'


def test_there_are_places_for_half_of_the_descriptors() -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    expected = MOST_CONNECTIONS if soft == resource.RLIM_INFINITY else min(MOST_CONNECTIONS, soft // 2)
    assert places() == expected > 1


@pytest.mark.parametrize(
    ("header", "name"),
    [
        ("ebbtide", "ebbtide"),
        ("ebbtide:8080", "ebbtide"),
        ("[::1]:8080", "::1"),
        ("[::1]", "::1"),
        ("::1", "::1"),
        ("", ""),
    ],
)
def test_a_host_is_known_without_its_port(header: str, name: str) -> None:
    assert host_name(header) == name


async def length(scope: Any, receive: Any, send: Any) -> None:
    body = await Request(scope, receive).body()
    await PlainTextResponse(f"{len(body)}")(scope, receive, send)


@pytest.mark.parametrize(("sizes", "answer"), [((10,), "10"), ((11,), ""), ((5, 5), "10"), ((5, 6), "")])
def test_a_body_may_be_as_long_as_the_limit_and_no_longer(
    live: Live, sizes: tuple[int, ...], answer: str
) -> None:
    def chunks() -> Iterator[bytes]:
        yield from (b"x" * size for size in sizes)

    client = TestClient(BodyLimit(length, 10, make_site(live)))
    content = chunks() if len(sizes) > 1 else next(chunks())  # chunks do not say their length
    found = client.post("/", content=content)
    assert found.status_code == (200 if answer else 413)
    assert not answer or found.text == answer


def test_who_asks_too_often_is_told_when_to_try_again(live: Live) -> None:
    client = client_of(make_site(live, rate_per_minute=2, wakes_per_minute=0))
    refused = client.post("/api/v1/scaling/wake")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
    assert "more than 0 wakes a minute; nothing was changed" in refused.json()["detail"]
    client.get("/api/v1/status")
    refused = client.get("/api/v1/status")
    assert (refused.status_code, refused.headers["retry-after"]) == (429, "10")
    assert "more than 2 requests a minute" in refused.json()["detail"]


def test_every_answer_has_every_header_that_keeps_a_browser_safe(live: Live) -> None:
    client = client_of(make_site(live), None)
    for path in ("/healthz", "/api/v1/status", "/nowhere"):
        headers = client.get(path).headers
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "no-referrer"
        assert headers["x-frame-options"] == "DENY"
        assert headers["cross-origin-resource-policy"] == "same-origin"
        assert headers["content-security-policy"] == "default-src 'none'; frame-ancestors 'none'"


def test_a_gateway_is_counted_by_its_wakes_and_other_callers_by_their_requests(live: Live) -> None:
    client = client_of(make_site(live, rate_per_minute=2), None)
    path, token = "/api/v1/hold/nobody", {"Authorization": f"Bearer {TOKENS[Scope.WAKE]}"}
    assert [client.get(path, headers=token).status_code for _ in range(5)] == [404] * 5
    assert [client.get(path).status_code for _ in range(3)] == [401, 401, 429]
    assert client.get("/api/v1/status", headers=token).status_code == 200


def test_a_token_that_has_expired_is_counted_by_the_address_it_came_from(live: Live) -> None:
    expired = token_of(KEYS.model_copy(update={"expires": "2001-01-01"}))
    client = client_of(make_site(live, rate_per_minute=2, tokens=(expired,)), None)
    headers = {"Authorization": "Bearer ebb_x"}
    assert [client.get("/api/v1/status", headers=headers).status_code for _ in range(2)] == [401, 401]
    assert client.get("/api/v1/status").status_code == 429


@pytest.mark.parametrize("path", ["/api/v1/status%00", "/api/v1/log?subject=%00"])
def test_a_nul_is_refused_before_any_route(live: Live, path: str) -> None:
    client = client_of(make_site(live), None)
    assert client.get(path).status_code == 400
