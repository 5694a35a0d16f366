"""The whole API over the simulated cluster of the demo, with the real engine behind it; no thread runs it, so
a test says when time continues."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest
from fastapi.testclient import TestClient

from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.guard import Limiter
from ebbtide.entrypoints.api.site import Scope, Sight, Site, Token, digest_of
from ebbtide.entrypoints.api.views import DEMO
from ebbtide.entrypoints.cli.demo_page import Breaking
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot
from ebbtide.ports import Clock, Store
from ebbtide.simulator.run.live import Live

START = 1_900_000_000 - 1_900_000_000 % 86_400 + 7 * 3600
TOKENS = {Scope.READ: "ebb_read", Scope.WAKE: "ebb_wake", Scope.ADMIN: "ebb_admin"}
SECRET = "whsec_" + "MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"


def make_site(live: Live, **changes: object) -> Site:
    values: dict[str, object] = {
        "store": live.ports.store,
        "settings": live.settings,
        "sight": Sight(live.look, live.stage.clock, seconds=0.0, read_use=live.read_use),
        "clock": live.stage.clock,
        "new_id": live.stage.new_id,
        "scaling": live.scaling,
        "tokens": tuple(Token(scope.spoken, scope, digest_of(text)) for scope, text in TOKENS.items()),
        "hosts": ("testserver",),
        "webhook_secrets": (SECRET,),
        "rate_per_minute": 1_000_000,
        "wakes_per_minute": 1_000_000,
        "kind": DEMO,
        "demo": Breaking(live, 1.0),
        "metrics": lambda: (b"ebbtide_up 1\n", "text/plain"),
    }
    return Site(**{**values, **changes})  # type: ignore[arg-type]


def site_of(store: Store, clock: Clock, scaling: Scaling, seen: Snapshot, settings: Settings) -> Site:
    """Over any scaling, for a server that listens on this machine."""
    ids = count(1)
    return Site(
        store=store,
        settings=settings,
        sight=Sight(lambda: seen, clock),
        clock=clock,
        new_id=lambda: f"api-{next(ids):08d}",
        scaling=scaling,
        tokens=tuple(Token(scope.spoken, scope, digest_of(text)) for scope, text in TOKENS.items()),
        rate_per_minute=1_000_000,
        wakes_per_minute=1_000_000,
    )


@pytest.fixture
def live() -> Live:
    live = Live(1, START)
    for _ in range(5):
        live.step()
    return live


def client_of(site: Site, scope: Scope | None = Scope.ADMIN) -> TestClient:
    """The minute of its rate limit stands still: a test that counts requests must not see a minute end."""
    headers = {"Authorization": f"Bearer {TOKENS[scope]}"} if scope else {}
    app = make_app(site, Limiter(lambda: 600.0))
    return TestClient(app, headers=headers, raise_server_exceptions=False)


@pytest.fixture
def client(live: Live) -> Iterator[TestClient]:
    with client_of(make_site(live)) as client:
        yield client
