"""Who is counted: a verified token by itself, everybody else by address; what is signed once it is known."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from ebbtide.entrypoints.api.guard import Limiter, address_key
from ebbtide.entrypoints.api.site import Scope
from ebbtide.simulator.run.live import Live
from tests.integration.api.conftest import TOKENS, client_of, make_site
from tests.integration.api.test_policy_routes import sleeping
from tests.integration.api.test_wake_routes import HOOK, signed


def bearing(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


def test_eight_hundred_made_up_tokens_are_one_caller(live: Live) -> None:
    client = client_of(make_site(live, rate_per_minute=20), None)
    answers = Counter(
        client.get("/api/v1/status", headers=bearing(f"ebb_{number}")).status_code for number in range(800)
    )
    assert answers == {401: 20, 429: 780}


def test_a_stranger_does_not_use_up_what_a_token_may(live: Live) -> None:
    client = client_of(make_site(live, rate_per_minute=3), None)
    for _ in range(10):
        client.get("/healthz")
    assert client.get("/healthz").status_code == 429
    assert client.get("/healthz", headers=bearing(TOKENS[Scope.READ])).status_code == 200


def test_messages_that_are_not_signed_do_not_use_up_the_wakes_of_those_that_are(live: Live) -> None:
    with client_of(make_site(live)) as client:
        policy = sleeping(live, client)
    outsider = client_of(make_site(live, wakes_per_minute=1, rate_per_minute=5), None)
    forged = [outsider.post(HOOK, content="{}", headers={}).status_code for _ in range(8)]
    assert forged == [401] * 5 + [429] * 3
    assert outsider.post(HOOK, **signed({"policy_id": policy["id"]})).status_code == 200
    again: dict[str, Any] = signed({"policy_id": policy["id"]})
    assert outsider.post(HOOK, **again).status_code == 429


def test_the_path_of_webhooks_is_no_way_round_the_limit(live: Live) -> None:
    client = client_of(make_site(live, rate_per_minute=2, webhook_secrets=()), None)
    assert [client.post(HOOK).status_code for _ in range(3)] == [404, 429, 429]
    client = client_of(make_site(live, rate_per_minute=2), None)
    assert [client.get(HOOK).status_code for _ in range(3)] == [405, 405, 429]


def test_what_is_refused_is_safe_in_a_browser_too(live: Live) -> None:
    client = client_of(make_site(live, rate_per_minute=1), None)
    client.get("/healthz")
    refused = client.get("/healthz")
    assert refused.status_code == 429
    assert refused.headers["x-content-type-options"] == "nosniff"
    assert refused.headers["content-type"] == "application/problem+json"


class Clock:
    def __init__(self) -> None:
        self.now = 600.0

    def __call__(self) -> float:
        return self.now


def test_a_minute_slides() -> None:
    clock = Clock()
    limiter = Limiter(clock)
    assert [limiter.allows("all", "a", 4) for _ in range(5)] == [True] * 4 + [False]
    clock.now += 90  # half of the minute before is still within sixty seconds
    assert [limiter.allows("all", "a", 4) for _ in range(3)] == [True, True, False]
    clock.now += 120
    assert limiter.allows("all", "a", 1)


def test_the_turn_of_a_minute_lets_nobody_through_early() -> None:
    """Two requests at 0:59.99 and one at 1:00.01 are three within a second."""
    clock = Clock()
    clock.now += 59.99
    limiter = Limiter(clock)
    assert [limiter.allows("all", "a", 2) for _ in range(2)] == [True, True]
    clock.now += 0.02
    assert not limiter.allows("all", "a", 2)


def test_callers_without_end_take_no_memory_without_end() -> None:
    clock = Clock()
    limiter = Limiter(clock, most=10)
    assert all(limiter.allows("all", f"{number}", 5) for number in range(10))
    assert [limiter.allows("all", f"new {number}", 5) for number in range(7)] == [True] * 5 + [False] * 2
    assert limiter.allows("all", "0", 5)
    assert len(limiter._counts) == 11
    clock.now += 180
    assert limiter.allows("all", "late", 5)
    assert len(limiter._counts) == 1


ADDRESSES: list[tuple[str, str, Callable[[object, object], bool]]] = [
    ("2001:db8:1:2::1", "2001:db8:1:2:ffff::9", lambda a, b: a == b),
    ("2001:db8:1:2::1", "2001:db8:1:3::1", lambda a, b: a != b),
    ("::ffff:10.0.0.1", "10.0.0.1", lambda a, b: a == b),
    ("10.0.0.1", "10.0.0.2", lambda a, b: a != b),
    ("fe80::1%eth0", "fe80::2%eth1", lambda a, b: a == b),
    ("testclient", "testclient", lambda a, b: a == b),
]


@pytest.mark.parametrize(("one", "other", "right"), ADDRESSES)
def test_an_address_of_ipv6_counts_as_its_network(
    one: str, other: str, right: Callable[[object, object], bool]
) -> None:
    assert right(address_key(one), address_key(other))
