"""A thousand callers wake one policy over HTTP and wait for it: one scale call, and each is answered."""

from __future__ import annotations

import asyncio
import json
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import Scope
from ebbtide.model.idle import Phase
from ebbtide.model.pod import Workload, WorkloadRef
from ebbtide.model.snapshot import ClusterView, Snapshot
from tests.builders import make_settings
from tests.integration.api.conftest import TOKENS, site_of
from tests.policy_harness import MemoryWorkloads, PolicyHarness, make_ref, make_workload

CALLERS = 1000
FILES = 4 * CALLERS
"""Each caller has a socket at both ends, in this one process."""


class Patient(MemoryWorkloads):
    """Waits by the real clock: the time of the others stands still, and would be over at once."""

    def wait_ready(self, ref: WorkloadRef, until: float) -> Workload:
        return super().wait_ready(ref, time.time() + 60)


class Arrivals:
    """Calls back once so many requests are in progress at the same time."""

    def __init__(self, app: Any, many: int, all_here: Callable[[], object]) -> None:
        self._app = app
        self._many = many
        self._all_here = all_here
        self._here = 0

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        self._here += 1
        if self._here == self._many:
            self._all_here()
        await self._app(scope, receive, send)


@pytest.fixture
def at_once() -> Iterator[int]:
    """How many callers this machine lets us have at the same time; all of them, on most."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    files = FILES if hard == resource.RLIM_INFINITY else min(hard, FILES)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, files), hard))
    yield min(CALLERS, max(soft, files) // 4)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def call(port: int, path: str, gate: asyncio.Semaphore) -> tuple[int, dict[str, object]]:
    """Plain HTTP over a socket: a client's pool of a thousand connections takes longer than the wakes."""
    body = json.dumps({"reason": "api_request", "wait_for_ready": True})
    asked = (
        f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n"
        f"Authorization: Bearer {TOKENS[Scope.WAKE]}\r\nContent-Type: application/json\r\n"
        f"Content-Length: {len(body)}\r\n\r\n{body}"
    )
    async with gate:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(asked.encode())
        answer = await reader.read()
        writer.close()
        await writer.wait_closed()
    head, _, content = answer.partition(b"\r\n\r\n")
    return int(head.split(b" ", 2)[1]), json.loads(content)


async def wake(port: int, path: str, at_once: int) -> list[tuple[int, dict[str, object]]]:
    gate = asyncio.Semaphore(at_once)
    return await asyncio.gather(*(call(port, path, gate) for _ in range(CALLERS)))


def test_a_thousand_wakes_of_one_policy_are_one_scale_call(at_once: int) -> None:
    harness = PolicyHarness(memory_workloads=Patient(make_workload()))
    harness.sleep()
    harness.memory_workloads.calls.clear()
    harness.memory_workloads.slow = True
    (policy,) = harness.policies
    before = harness.state.wake_count
    app = make_app(
        site_of(harness.store, harness.clock, harness.scaling, Snapshot(0, ClusterView()), make_settings())
    )

    def ready() -> None:
        # Ready before anyone who waits looks again, or they would be told that it is not.
        if harness.memory_workloads.calls:
            harness.memory_workloads.put(make_ref(), ready_replicas=2)
        harness.memory_workloads.slow = False

    app.add_middleware(Arrivals, many=at_once, all_here=ready)
    with served(app, "127.0.0.1", 0) as port:
        found = asyncio.run(wake(port, f"/api/v1/scaling/policies/{policy.id}/wake", at_once))
    assert Counter(code for code, _ in found) == {200: CALLERS}
    assert all(body["ready"] is True for _, body in found)
    assert [replicas for _, replicas in harness.memory_workloads.calls] == [2]
    assert harness.phase() is Phase.ACTIVE
    assert harness.state.wakes[-1].at == harness.now
    assert harness.state.wake_count >= before + 1
