"""What small changes of the API's guards would get wrong, as `python -m tests.mutation` found."""

from __future__ import annotations

import resource

import pytest

from ebbtide.config.api import TokenKeys
from ebbtide.entrypoints.api.connections import MOST_CONNECTIONS, places
from ebbtide.entrypoints.api.opening import token_of
from ebbtide.entrypoints.api.scopes import Scope, digest_of, find_token, new_token
from ebbtide.errors import ConfigError
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import client_of, make_site

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
    with pytest.raises(ConfigError, match="no day; nothing was touched"):
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
