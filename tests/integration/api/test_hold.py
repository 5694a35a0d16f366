"""Requests that gateways have held until a policy is awake."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from typing import Any

import pytest
from fastapi import FastAPI

from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.entrypoints.api import hold as routes
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.hold import Caller, Holding, HoldResult
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import Scope
from ebbtide.entrypoints.api.wakes import Waiting
from ebbtide.errors import NotFound, Retryable
from ebbtide.model.idle import Phase
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.policy import ServiceRef, Target, WakeOnRequest
from ebbtide.model.snapshot import ClusterView, Snapshot
from tests.builders import make_settings
from tests.integration.api.conftest import TOKENS, site_of
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_policy, make_ref, make_workload
from tests.servers.processes import eventually

WEB = make_ref()
PATH = "/api/v1/hold/web"
BEARER = {"Authorization": f"Bearer {TOKENS[Scope.WAKE]}"}
LONG = 30.0
"""Far more than anything here takes."""


class Patient(MemoryWorkloads):
    """Waits by the real clock: that of the harness stands still, and would be over at once."""

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        return super().wait_ready(ref, time.time() + LONG)


def asleep(**policy: Any) -> PolicyHarness:
    """At zero; once woken, its pods are ready when the test says so."""
    harness = PolicyHarness((make_policy(**policy),), Patient(make_workload()))
    harness.sleep()
    harness.memory_workloads.calls.clear()
    harness.memory_workloads.slow = True
    return harness


def app_of(harness: PolicyHarness, **changes: Any) -> FastAPI:
    site = site_of(harness.store, harness.clock, harness.scaling, Snapshot(0, ClusterView()), make_settings())
    return make_app(replace(site, **changes))


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def problem(self) -> Any:
        assert self.headers["content-type"] == "application/problem+json"
        return json.loads(self.body)


@dataclass
class Gateway:
    """Asks as a gateway does, each time in a thread of its own."""

    port: int
    harness: PolicyHarness
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(64))

    def ask(self, query: str = "", method: str = "GET", path: str = PATH, **headers: str) -> Answer:
        with closing(http.client.HTTPConnection("127.0.0.1", self.port, timeout=LONG)) as connection:
            connection.request(method, f"{path}{query}", headers={**BEARER, **headers})
            found = connection.getresponse()
            told = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, told, found.read())

    def wakes(self) -> None:
        """Until the workload was scaled up."""
        eventually(lambda: bool(self.harness.memory_workloads.calls), what="the wake")

    def ready(self) -> None:
        self.harness.memory_workloads.put(WEB, ready_replicas=2)


@contextmanager
def gateway(harness: PolicyHarness | None = None, **changes: Any) -> Iterator[Gateway]:
    harness = harness or asleep()
    with served(app_of(harness, **changes), "127.0.0.1", 0) as port:
        asks = Gateway(port, harness)
        try:
            yield asks
        finally:
            asks.ready()  # who still waits must not keep a thread
            asks.pool.shutdown()


def test_a_request_wakes_and_is_answered_when_the_target_is_ready() -> None:
    with gateway() as asks:
        answers = [asks.pool.submit(asks.ask) for _ in range(40)]
        asks.wakes()
        assert not any(each.done() for each in answers)
        asks.ready()
        assert {each.result().status for each in answers} == {200}
        assert asks.harness.memory_workloads.calls == [(WEB, 2)]
        assert asks.harness.phase() is Phase.ACTIVE


def test_what_is_awake_is_answered_at_once_whatever_the_method_and_however_often() -> None:
    """A gateway asks for each of its requests: they are not counted as requests of a caller."""
    with gateway(PolicyHarness(), rate_per_minute=1, wakes_per_minute=1) as asks:
        for method in ("GET", "GET", *routes.METHODS):
            found = asks.ask(method=method)
            assert (found.status, found.body, found.headers["cache-control"]) == (200, b"", "no-store")


def test_who_may_not_wait_at_all_still_hears_whether_it_is_awake() -> None:
    with gateway(PolicyHarness()) as asks:
        assert asks.ask("?wait=0").status == 200
        assert asks.ask("?wait=0", path="/api/v1/hold/none").status == 404


def test_at_the_limit_the_answer_is_503_with_the_estimate() -> None:
    with gateway() as asks:
        found = asks.ask("?wait=0.2")
        assert (found.status, found.headers["retry-after"]) == (503, "30")
        assert found.headers["cache-control"] == "no-store"
        assert found.problem["detail"] == "web was asked to wake, and it is not awake yet"
        assert (found.problem["policy"], found.problem["retry_after_seconds"]) == ("web", 30)
        asks.wakes()  # and the wake continues
        asks.ready()
        assert asks.ask().status == 200


@pytest.mark.parametrize("status", [401, 403, 429])
def test_each_gateway_can_have_the_status_that_it_can_show(status: int) -> None:
    with gateway() as asks:
        found = asks.ask(f"?wait=0.1&late={status}")
        assert (found.status, found.headers["retry-after"]) == (status, "30")


def test_a_browser_gets_a_page_that_loads_itself_again() -> None:
    with gateway(asleep(name="<web>", target=Target((WEB,)))) as asks:
        path = f"/api/v1/hold/{asks.harness.policies[0].id}"
        found = asks.ask("?wait=0.1", path=path, Accept="text/html,*/*")
        assert found.headers["content-type"] == "text/html; charset=utf-8"
        assert b'<meta http-equiv="refresh"' in found.body
        assert b"&lt;web&gt; is waking up" in found.body
        assert b"Ready in about 30 seconds." in found.body
        assert asks.ask("?wait=0.1&show=problem", path=path, Accept="text/html").problem["status"] == 503
        assert b"<html" in asks.ask("?wait=0.1&show=page", path=path).body


@pytest.mark.parametrize(
    ("uri", "status", "location"),
    [
        ("/cart?id=1", 307, "/cart?id=1"),
        ("", 503, None),
        ("//evil.example/", 503, None),
        ("/\\evil.example/", 503, None),
        ("https://evil.example/", 503, None),
    ],
)
def test_a_redirect_leads_to_the_same_address_and_to_no_other_host(
    uri: str, status: int, location: str | None
) -> None:
    with gateway() as asks:
        found = asks.ask("?wait=0.1&late=307", **{"X-Forwarded-Uri": uri})
        assert (found.status, found.headers.get("location")) == (status, location)


def test_of_a_parameter_that_is_given_twice_the_first_counts() -> None:
    """Envoy appends the path and query of its client."""
    with gateway() as asks:
        found = asks.ask("?wait=0.1&late=403&path=/cart?a=1&late=503&wait=3000")
        assert found.status == 403


@pytest.mark.parametrize("query", ["?wait=-1", "?wait=x", "?late=200", "?show=all", "?wait=1e9"])
def test_parameters_that_make_no_sense_are_refused(query: str) -> None:
    with gateway() as asks:
        found = asks.ask(query)
        assert found.status == 422
        assert found.problem["errors"][0]["field"] in ("wait", "late", "show")
        assert asks.harness.phase() is Phase.ZERO


def test_a_policy_that_is_not_there_is_not_found() -> None:
    with gateway() as asks:
        assert asks.ask(path="/api/v1/hold/none").status == 404
        assert asks.ask(path="/api/v1/hold/%01").status == 404


def test_the_token_may_be_the_password_of_basic_authentication_here_and_nowhere_else() -> None:
    def basic(token: str) -> dict[str, str]:
        return {"Authorization": "Basic " + base64.b64encode(f"ebbtide:{token}".encode()).decode()}

    with gateway(PolicyHarness()) as asks:
        assert asks.ask(**basic(TOKENS[Scope.WAKE])).status == 200
        assert asks.ask(**basic(TOKENS[Scope.READ])).status == 403
        assert asks.ask(**basic("wrong")).status == 401
        assert asks.ask(Authorization="Basic ?").status == 401
        assert asks.ask(path="/api/v1/scaling/policies", **basic(TOKENS[Scope.WAKE])).status == 401


def test_a_gateway_that_wakes_too_often_is_told_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("ebbtide.entrypoints.api.hold.AWAKE_SECONDS", 0.0)
    with gateway(wakes_per_minute=1) as asks:
        first = asks.pool.submit(asks.ask)
        asks.wakes()
        asks.ready()
        assert first.result().status == 200
        asks.harness.sleep()
        asks.harness.memory_workloads.calls.clear()
        found = asks.ask()
        assert (found.status, found.problem["detail"]) == (
            503,
            "web was asked to wake, and there were more than 1 wakes a minute",
        )
        assert asks.harness.memory_workloads.calls == []


def test_who_leaves_makes_room_for_the_next() -> None:
    harness = asleep()
    with gateway(harness, max_holds=1) as asks:
        caller = socket.create_connection(("127.0.0.1", asks.port))
        head = f"GET {PATH} HTTP/1.1\r\nHost: localhost\r\nAuthorization: {BEARER['Authorization']}"
        caller.sendall(f"{head}\r\n\r\n".encode())
        asks.wakes()
        found = asks.ask()
        assert (found.status, "too many requests are held" in found.problem["detail"]) == (503, True)
        caller.close()
        eventually(lambda: "too many" not in asks.ask("?wait=0.05").problem["detail"], what="the free place")


class Broken:
    """The policies of a store that does not answer."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.broken = threading.Event()
        self.asked = False

    def __getattr__(self, name: str) -> Any:
        if self.broken.is_set():
            self.asked = True
            raise Retryable("the store does not answer")
        return getattr(self._inner, name)


@dataclass
class Direct:
    """Holds without HTTP."""

    harness: PolicyHarness
    most: int = 10

    def __post_init__(self) -> None:
        self.store = Broken(self.harness.rows)
        self.scaling = self.harness.runner(policies=self.store)
        policies = Policies(self.store, self.harness.clock, lambda: "id")
        self.holding = Holding(self.scaling, policies, Waiting(self.scaling), self.most)

    async def hold(self, seconds: float | None = LONG) -> HoldResult:
        return await self.holding.hold("web", Caller(seconds, lambda: ""))


def test_while_the_store_does_not_answer_requests_are_held_to_their_deadline() -> None:
    direct = Direct(asleep())
    direct.store.broken.set()
    found = asyncio.run(direct.hold(0.3))
    assert not found.ready
    assert found.why == "could not be woken yet: the store does not answer"
    assert direct.holding.held == 0


def test_a_wake_that_could_not_be_written_is_written_when_the_store_is_back() -> None:
    direct = Direct(asleep())
    direct.harness.memory_workloads.slow = False
    direct.store.broken.set()

    async def both() -> HoldResult:
        held = asyncio.create_task(direct.hold())
        while not direct.store.asked:
            await asyncio.sleep(0.01)
        direct.store.broken.clear()
        return await held

    assert asyncio.run(both()).ready
    assert direct.harness.memory_workloads.calls == [(WEB, 2)]


def test_a_policy_says_how_many_it_holds_and_for_how_long() -> None:
    gate = WakeOnRequest((ServiceRef("default", "web"),), hold_seconds=1, max_held=1)
    harness = asleep()
    harness.rows.put_policy(replace(harness.policies[0], gate=gate, version=1))
    direct = Direct(harness)

    async def three() -> tuple[HoldResult, HoldResult, HoldResult]:
        first = asyncio.create_task(direct.hold(None))
        while "web" not in direct.holding._known:
            await asyncio.sleep(0.01)
        second = await direct.hold(None)
        return await first, second, await direct.hold(0)

    try:
        first, second, third = asyncio.run(three())
    finally:
        direct.harness.memory_workloads.put(WEB, ready_replicas=2)
    assert (first.ready, first.why) == (False, "it is not awake yet")
    assert (second.ready, second.why) == (False, "too many requests are held already")
    assert (third.ready, third.why) == (False, "it is not awake yet")


def test_who_comes_while_a_question_is_asked_shares_the_next_one() -> None:
    """The answer to the first may be from before the policy fell asleep."""
    direct = Direct(PolicyHarness())
    asked, go_on = [], threading.Event()
    arrival = direct.scaling.arrival

    def slow(policy_id: str) -> Any:
        asked.append(policy_id)
        assert go_on.wait(LONG)
        return arrival(policy_id)

    direct.scaling.arrival = slow  # type: ignore[method-assign]

    async def five() -> list[HoldResult]:
        first = asyncio.create_task(direct.hold())
        while not asked:
            await asyncio.sleep(0.01)
        later = [asyncio.create_task(direct.hold()) for _ in range(4)]
        await asyncio.sleep(0)
        go_on.set()
        return [await first, *[await each for each in later]]

    assert all(each.ready for each in asyncio.run(five()))
    assert len(asked) == 2


def test_a_target_that_is_gone_is_said_at_the_deadline_and_a_deleted_policy_at_once() -> None:
    direct = Direct(asleep())
    del direct.harness.memory_workloads.there[WEB]
    direct.harness.memory_workloads.wait_ready = _gone  # type: ignore[method-assign]
    found = asyncio.run(direct.hold(0.2))
    assert (found.ready, found.why) == (False, "could not be woken yet: there is no Deployment default/web")
    direct.harness.rows.delete_policy(direct.harness.policies[0].id, 1)
    with pytest.raises(NotFound):
        asyncio.run(direct.hold(0.2))
    assert direct.holding._known == {}


def _gone(ref: WorkloadRef, until: float) -> Workload:
    raise NotFound(f"there is no {ref}")
