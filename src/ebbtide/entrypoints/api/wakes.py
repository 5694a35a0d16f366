"""Routes that wake: one policy, all sleeping ones, or by a signed webhook.

One thread waits for all callers of a wake, and each is answered at once when it is ready. With a thread
for each caller, a few slow wakes could use up the threads that answer everything else. Each caller has its
own deadline; the thread waits until the latest.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Annotated, Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Header, Request
from fastapi.responses import JSONResponse
from standardwebhooks.webhooks import Webhook, WebhookVerificationError
from starlette.concurrency import run_in_threadpool

from ebbtide.core.scale_to_zero.wake import cold_start_timeout
from ebbtide.engine.scale_to_zero.scaling import Scaling, Woken
from ebbtide.entrypoints.api.guard import NeedsScope, count_stranger, count_wake, limit_wakes
from ebbtide.entrypoints.api.routing import Problem, RouteContext
from ebbtide.entrypoints.api.site import Scope
from ebbtide.entrypoints.views.policy_schemas import (
    WakeAllBody,
    WakeAllShape,
    WakeBody,
    WokenPolicy,
    WokenShape,
)
from ebbtide.entrypoints.views.policy_shapes import woken_shape
from ebbtide.errors import EbbtideError, KeyUsed
from ebbtide.model.idle import Once, WakeReason
from ebbtide.model.policy import Policy

MOST_WAKES = 500
"""Different wakes that can be waited for at a time; further ones wait for their turn."""


@dataclass(slots=True)
class _Shared:
    """One thread that waits, and until when somebody wants it to."""

    task: asyncio.Task[Woken]
    until: float


class Waiting:
    def __init__(self, scaling: Scaling) -> None:
        self._scaling = scaling
        self._shared: dict[tuple[str, str], _Shared] = {}
        self._limiter: CapacityLimiter | None = None

    async def ready(self, policy_id: str, wake_id: str, until: float) -> Woken | None:
        """How it ended, or none where it has not by `until`, which others do not change."""
        key = (policy_id, wake_id)
        shared = self._shared.get(key)
        if shared is None:
            task = asyncio.create_task(self._wait(key))
            shared = self._shared[key] = _Shared(task, until)
            task.add_done_callback(retrieve)
        shared.until = max(shared.until, until)
        left = max(0.0, until - self._scaling.ports.clock.now())
        done, _ = await asyncio.wait({shared.task}, timeout=left)
        return shared.task.result() if done else None

    async def _wait(self, key: tuple[str, str]) -> Woken:
        self._limiter = self._limiter or CapacityLimiter(MOST_WAKES)
        try:
            while True:
                until = self._shared[key].until
                ended = await to_thread.run_sync(self._scaling.wait_ready, *key, until, limiter=self._limiter)
                if ended.ready or until >= self._shared[key].until:
                    return ended
        finally:
            # In the same step as the end: a later caller must not share an answer to an earlier request.
            del self._shared[key]


def retrieve(task: asyncio.Task[Any]) -> None:
    """An error that no caller waits for is not worth a warning."""
    if not task.cancelled():
        task.exception()


WAKE = [Depends(NeedsScope(Scope.WAKE)), Depends(limit_wakes)]
KEY_SECONDS = 86_400
"""How long the answer to an Idempotency-Key is kept."""
WAKING = "waking"
SIGNED = ("webhook-id", "webhook-timestamp", "webhook-signature")

Key = Annotated[
    str,
    Header(max_length=200, description="A repeat with the same key gets the same answer, and does nothing."),
]


def router(context: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1/scaling", tags=["wake"])

    waiting = Waiting(context.scaling)

    @routes.post("/policies/{policy_id}/wake", dependencies=WAKE)
    async def wake(policy_id: str, body: WakeBody | None = None, idempotency_key: Key = "") -> WokenShape:
        """Wake one policy. With `wait_for_ready` the answer comes the moment it is ready, or 504 with the id
        of the wake, which continues."""
        asked = body or WakeBody()
        started = await run_in_threadpool(begin, context, policy_id, asked, idempotency_key)
        answer, policy = started.answer, started.policy
        if started.repeated or not asked.wait_for_ready or answer.ready:
            return answered(started, policy)
        until = context.site.clock.now() + cold_start_timeout(policy, context.scaling.defaults)
        ready = await waiting.ready(policy_id, answer.wake_id, until)
        late = ready is None or not ready.ready
        if ready is not None and ready.ready:
            told = {"ready": True, "message": ready.message, "node_wait": ready.node_wait}
            answer = answer.model_copy(update=told)
        await run_in_threadpool(keep_end, context, idempotency_key, answer)
        return answered(StartedWake(policy, answer, late=late), policy)

    @routes.post("/wake", dependencies=WAKE)
    def wake_all(body: WakeAllBody | None = None) -> WakeAllShape:
        """Wake exactly those that are named, or all that sleep where none is."""
        asked = body or WakeAllBody()
        woken = context.scaling.wake_all(asked.policy_ids, asked.reason)
        waking = sum(1 for each in woken if each.status == WAKING)
        policies = [WokenPolicy(policy_id=each.policy_id, status=each.status) for each in woken]
        return WakeAllShape(woken=waking, already_running=len(woken) - waking, policies=policies)

    @routes.post("/webhooks/wake")
    async def webhook(request: Request) -> JSONResponse:
        """Wake the policy that a signed message (Standard Webhooks) names. Needs no token: the signature is
        the proof, and a message counts once."""
        body = await request.body()
        headers = {name: request.headers.get(name, "") for name in SIGNED}
        try:
            await run_in_threadpool(verify, context.site.webhook_secrets, body, headers)
        except Problem:
            count_stranger(request)
            raise
        count_wake(request, "webhooks")
        return await run_in_threadpool(_webhook, context, body, headers)

    return routes


@dataclass(frozen=True, slots=True)
class StartedWake:
    """A wake that was begun now, or by an earlier request with the same key."""

    policy: Policy
    answer: WokenShape
    repeated: bool = False
    late: bool = False
    """Callers that waited for it got the answer that it was not ready in time."""


def begin(context: RouteContext, policy_id: str, asked: WakeBody, key: str) -> StartedWake:
    policy, _ = context.find(policy_id)
    if known := remembered(context, key, policy_id, asked):
        # Asked again: the stored answer, at once. Waiting again would delay a caller that only lost a reply.
        ended = stored(context, f"end#{key}")
        return StartedWake(policy, ended or known, repeated=True, late=ended is not None and not ended.ready)
    return StartedWake(policy, keep(context, key, woken_shape(context.scaling.wake(policy_id, asked.reason))))


def answered(started: StartedWake, policy: Policy) -> WokenShape:
    if not started.late:
        return started.answer
    answer = started.answer
    detail = f"{policy.name} was not ready in time; the wake continues as {answer.wake_id}"
    raise Problem(504, detail, wake_id=answer.wake_id, policy_id=answer.policy_id)


def _webhook(context: RouteContext, body: bytes, headers: Mapping[str, str]) -> JSONResponse:
    try:
        message = json.loads(body)
        policy_id = message["policy_id"]
    except (ValueError, TypeError, KeyError, RecursionError):
        policy_id = None
    if not isinstance(policy_id, str):
        says = "the body must be a JSON object with the text policy_id"
        raise Problem(422, f"{says}; nothing was changed", [{"field": "policy_id", "says": says}])
    context.find(policy_id)
    key = f"webhook#{headers['webhook-id']}"
    once = Once(key, context.site.new_id(), context.now + KEY_SECONDS, context.now)
    try:
        woken = context.scaling.wake_once(policy_id, WakeReason.WEBHOOK, once)
    except KeyUsed:
        return JSONResponse({"policy_id": policy_id, "status": "seen before", "message": "Nothing was done"})
    return JSONResponse(woken_shape(woken).model_dump())


def verify(secrets: tuple[str, ...], body: bytes, headers: Mapping[str, str]) -> None:
    """Any of the secrets will do, so one can be replaced without a gap."""
    if not secrets:
        raise Problem(404, "webhooks are off: set api.webhook_secrets_file")
    for secret in secrets:
        try:
            Webhook(secret).verify(body, dict(headers))
        except (WebhookVerificationError, ValueError, TypeError, RecursionError):
            continue
        return
    raise Problem(401, "the signature is wrong, too old, or missing; nothing was changed")


def _question(policy_id: str, asked: WakeBody) -> str:
    return hashlib.sha256(f"{policy_id}|{asked.model_dump_json()}".encode()).hexdigest()


def remembered(context: RouteContext, key: str, policy_id: str, asked: WakeBody) -> WokenShape | None:
    """The answer that this key already had; a key for another question is refused."""
    if not key:
        return None
    mark = f"?{_question(policy_id, asked)}"
    first = context.policies.store.keep_once(f"key#{key}", mark, context.now + KEY_SECONDS, context.now)
    if first != mark:
        raise Problem(422, "this Idempotency-Key was used for another request; nothing was changed")
    return stored(context, f"answer#{key}")


def stored(context: RouteContext, name: str) -> WokenShape | None:
    # An empty value that has lapsed already asks without keeping anything.
    answer = context.policies.store.keep_once(name, "", context.now - 1, context.now)
    return WokenShape.model_validate_json(answer) if answer else None


def keep(context: RouteContext, key: str, answer: WokenShape) -> WokenShape:
    """The first answer holds; waking is idempotent, so a second caller in between did no harm."""
    if not key:
        return answer
    held = context.policies.store.keep_once(
        f"answer#{key}", answer.model_dump_json(), context.now + KEY_SECONDS, context.now
    )
    return WokenShape.model_validate_json(held)


def keep_end(context: RouteContext, key: str, answer: WokenShape) -> None:
    """The final answer to a caller who waited, for those who ask again. Where it cannot be kept they get
    the answer that the wake began with."""
    if key:
        with suppress(EbbtideError):
            until = context.now + KEY_SECONDS
            context.policies.store.keep_once(f"end#{key}", answer.model_dump_json(), until, context.now)
