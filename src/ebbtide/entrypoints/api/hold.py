"""`/api/v1/hold/{policy}`: for gateways that ask before they forward a request (nginx `auth_request`,
Caddy `forward_auth`, Envoy `ext_authz`, Traefik `ForwardAuth`). The request is held until its policy is
awake.

    asked ──awake──> ready
      └──wakes──> held ──ready──> ready
                   ├──time is up──> late
                   └──client disconnects: its place is free at once

The answer is 200 as soon as the policy is awake. The answer after the deadline can be chosen, since each
gateway passes on different ones. If a parameter is given twice, the first counts: a gateway appends what
its client sent, and that must not override the gateway's own parameters.

All requests for one policy share one question and one waiting thread. If the store does not answer, they
are held until their deadlines while the wake is retried.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import IntEnum, StrEnum
from typing import Any

from anyio import CapacityLimiter, to_thread
from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field, ValidationError

from ebbtide.core.scale_to_zero.wake import cold_start_timeout
from ebbtide.engine.scale_to_zero.policies import Policies
from ebbtide.engine.scale_to_zero.scaling import Scaling, Woken
from ebbtide.entrypoints.api import routing
from ebbtide.entrypoints.api.guard import NeedsScope, address_of, may_start_wake, who_asks
from ebbtide.entrypoints.api.routing import Problem, RouteContext, answer, field_name
from ebbtide.entrypoints.api.serving import places
from ebbtide.entrypoints.api.site import Scope
from ebbtide.entrypoints.api.wakes import Waiting, retrieve
from ebbtide.entrypoints.views.inputs import why_not_plain
from ebbtide.entrypoints.views.policy_schemas import Strict
from ebbtide.errors import EbbtideError, NotFound
from ebbtide.gate.page import waiting_page
from ebbtide.model.idle import Phase
from ebbtide.model.policy import Policy

AWAKE_SECONDS = 1.0
"""For so long an answer "awake" counts for those that come next. What was used a second ago does not fall
asleep by idleness."""
BACKOFF_SECONDS = (0.25, 0.5, 1.0, 2.0)
ASKED_AT_ONCE = 16
QUESTION_SECONDS = 2.0
"""How long one question may take, however short the wait."""
RETRY_AFTER_SECONDS = 30
"""Where nothing is known of how long it takes."""
ASLEEP = (Phase.FALLING, Phase.ZERO)


@dataclass(frozen=True, slots=True)
class HoldResult:
    """How it ended."""

    ready: bool
    policy: str
    retry_after_seconds: int = RETRY_AFTER_SECONDS
    why: str = ""
    """Why it is not ready."""


@dataclass(frozen=True, slots=True)
class Caller:
    seconds: float | None
    """How long it may be held; None: as the policy says."""
    may_wake: Callable[[], str]
    """Why it may start no wake now; empty where it may. Asked only if one is to be started."""


@dataclass(frozen=True, slots=True)
class HoldAnswer:
    policy: Policy
    woken: Woken | None
    """None where it is awake."""
    refused: str = ""


@dataclass(slots=True)
class _Question:
    """The one in progress, and the one that comes after it. Who comes while a question is in progress shares
    the next: the answer to this one may be from before the policy fell asleep."""

    now: asyncio.Task[HoldAnswer] | None = None
    following: asyncio.Task[HoldAnswer] | None = None
    awake_at: float | None = None


@dataclass(slots=True)
class _KnownPolicy:
    """Of a policy, what the last answer said: for while the store does not answer."""

    name: str
    most: int
    hold_seconds: int
    eta_seconds: int = RETRY_AFTER_SECONDS


class _Gone(Exception):
    """There is no such policy, which is something else than that its target is gone."""

    def __init__(self, error: NotFound) -> None:
        super().__init__(str(error))
        self.error = error


@dataclass
class Holding:
    scaling: Scaling
    policies: Policies
    waiting: Waiting
    most: int
    _questions: dict[str, _Question] = field(default_factory=dict)
    _known: dict[str, _KnownPolicy] = field(default_factory=dict)
    _held: Counter[str] = field(default_factory=Counter)
    _limiter: CapacityLimiter | None = None

    @property
    def held(self) -> int:
        return self._held.total()

    async def hold(self, name: str, caller: Caller) -> HoldResult:
        """`NotFound` where there is no such policy, by name or id."""
        if self._was_awake(name):
            return HoldResult(True, name)
        known = self._known.get(name)
        if self.held >= self.most or self._held[name] >= (known.most if known else self.most):
            return self._late(name, "too many requests are held already")
        self._held[name] += 1
        try:
            return await self._hold(name, caller, asyncio.get_running_loop().time())
        finally:
            self._held[name] -= 1
            self._held += Counter()  # without the empty ones

    def _was_awake(self, name: str) -> bool:
        question = self._questions.get(name)
        at = question.awake_at if question is not None else None
        return at is not None and asyncio.get_running_loop().time() - at < AWAKE_SECONDS

    async def _hold(self, name: str, caller: Caller, since: float) -> HoldResult:
        loop, failures, why = asyncio.get_running_loop(), 0, "it is not awake yet"
        while True:
            try:
                # Also who may not be held at all gets an answer: whether it is awake.
                end = max(self._deadline(name, caller, since), since + QUESTION_SECONDS)
                async with asyncio.timeout_at(end):
                    answer = await self._ask(name, caller)
                if answer.refused:
                    return self._late(name, answer.refused)
                # The first answer says how long the policy lets it be held.
                async with asyncio.timeout_at(self._deadline(name, caller, since)):
                    if answer.woken is None or await self._ready(answer.policy, answer.woken):
                        self._questions[name].awake_at = loop.time()
                        return HoldResult(True, name)
                why = "it is not awake yet"
            except TimeoutError:
                return self._late(name, why)
            except _Gone as gone:
                raise gone.error from gone
            except EbbtideError as error:
                why = f"could not be woken yet: {error}"
            failures += 1
            left = self._deadline(name, caller, since) - loop.time()
            if left <= 0:
                return self._late(name, why)
            await asyncio.sleep(min(BACKOFF_SECONDS[min(failures, len(BACKOFF_SECONDS)) - 1], left))

    def _deadline(self, name: str, caller: Caller, since: float) -> float:
        known = self._known.get(name)
        own = known.hold_seconds if known else self.scaling.defaults.cold_start_timeout_seconds
        return since + (own if caller.seconds is None else caller.seconds)

    def _late(self, name: str, why: str) -> HoldResult:
        known = self._known.get(name)
        return (
            HoldResult(False, known.name, known.eta_seconds, why)
            if known
            else HoldResult(False, name, why=why)
        )

    async def _ready(self, policy: Policy, woken: Woken) -> bool:
        until = self.scaling.ports.clock.now() + cold_start_timeout(policy, self.scaling.defaults)
        ended = await self.waiting.ready(policy.id, woken.wake_id, until)
        return ended is not None and ended.ready

    async def _ask(self, name: str, caller: Caller) -> HoldAnswer:
        question = self._questions.setdefault(name, _Question())
        if question.now is None:
            question.now = asyncio.create_task(self._asked(name, question, caller))
            question.now.add_done_callback(retrieve)
            return await asyncio.shield(question.now)
        if question.following is None:
            question.following = asyncio.create_task(self._asked_after(name, question, caller))
            question.following.add_done_callback(retrieve)
        return await asyncio.shield(question.following)

    async def _asked_after(self, name: str, question: _Question, caller: Caller) -> HoldAnswer:
        if question.now is not None:
            await asyncio.wait({question.now})
        question.now, question.following = asyncio.current_task(), None
        return await self._asked(name, question, caller)

    async def _asked(self, name: str, question: _Question, caller: Caller) -> HoldAnswer:
        self._limiter = self._limiter or CapacityLimiter(ASKED_AT_ONCE)
        try:
            answer = await to_thread.run_sync(self._look, name, caller, limiter=self._limiter)
        except _Gone:
            self._questions.pop(name, None)
            self._known.pop(name, None)
            raise
        finally:
            question.now = None
        self._note(name, answer)
        return answer

    def _look(self, name: str, caller: Caller) -> HoldAnswer:
        """In a thread."""
        try:
            if why_not_plain(name):
                raise NotFound(f"there is no policy {name!r}; nothing was changed")
            policy = self.policies.find(name)
        except NotFound as error:
            raise _Gone(error) from error
        state = self.scaling.ports.policies.find_state(policy.id)
        if state is not None and state.phase in ASLEEP and (why := caller.may_wake()):
            return HoldAnswer(policy, None, why)
        return HoldAnswer(policy, self.scaling.arrival(policy.id))

    def _note(self, name: str, answer: HoldAnswer) -> None:
        policy, gate = answer.policy, answer.policy.gate
        limit = cold_start_timeout(policy, self.scaling.defaults)
        self._known[name] = _KnownPolicy(
            policy.name,
            self.most if gate is None else gate.max_held,
            limit if gate is None or gate.hold_seconds is None else gate.hold_seconds,
            answer.woken.estimated_ready_seconds if answer.woken is not None else RETRY_AFTER_SECONDS,
        )


METHODS = ("HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""Some gateways ask with the method of the request that they hold."""
PAGE_POLICY = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"


class Late(IntEnum):
    UNAVAILABLE = 503
    UNAUTHORIZED = 401
    FORBIDDEN = 403
    TOO_MANY = 429
    REDIRECT = 307


class Shown(StrEnum):
    AUTO = "auto"
    """A page where the client accepts HTML, else problem details."""
    PROBLEM = "problem"
    PAGE = "page"


SHAPES: dict[str, Any] = {
    "late": {"type": "integer", "enum": list(map(int, Late)), "default": 503},
    "show": {"type": "string", "enum": list(map(str, Shown)), "default": "auto"},
}


_LATE = {
    "description": "Not awake in time, or an error.",
    "content": {**routing.SHOWN["content"], "text/html": {}},
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "It is awake."},
    307: {"description": "Redirect to the same URL."},
    "4XX": _LATE,
    "5XX": _LATE,
}


class HoldKeys(Strict):
    wait: float | None = Field(
        None, ge=0, le=3600, description="How many seconds to hold it at most. Default: as the policy says."
    )
    late: Late = Field(
        Late.UNAVAILABLE,
        description="Status when the time is up; 307 redirects to the same URL, taken from X-Forwarded-Uri.",
    )
    show: Shown = Field(Shown.AUTO, description="problem, page, or auto: a page if the client accepts HTML.")


def router(context: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["wake"])
    most = max(1, min(context.site.max_holds, places() // 2))
    holding = Holding(context.scaling, context.policies, Waiting(context.scaling), most)
    needs = [Depends(NeedsScope(Scope.WAKE, basic=True))]

    async def hold(policy: str, request: Request) -> Response:
        """Wake a policy and answer when it is awake: for gateways, before they pass a request on. What is
        held beyond `wait` is answered with `late`, with Retry-After."""
        keys = read_keys(request)
        caller = Caller(keys.wait, may_start_wake(request, _who(request)))
        held = await until_gone(request, holding, policy, caller)
        return Response(headers={"Cache-Control": "no-store"}) if held.ready else late(request, keys, held)

    documented: dict[str, Any] = {"parameters": _parameters()}
    routes.get(
        "/hold/{policy}",
        dependencies=needs,
        openapi_extra=documented,
        response_class=Response,
        responses=ANSWERS,
    )(hold)
    routes.api_route("/hold/{policy}", methods=list(METHODS), dependencies=needs, include_in_schema=False)(
        hold
    )
    return routes


def read_keys(request: Request) -> HoldKeys:
    given = {
        name: request.query_params.getlist(name)[0]
        for name in HoldKeys.model_fields.keys() & request.query_params.keys()
    }
    try:
        return HoldKeys.model_validate_strings(given)
    except ValidationError as error:
        errors = [{"field": field_name(each["loc"]), "says": each["msg"]} for each in error.errors()]
        first = errors[0]
        raise Problem(422, f"{first['field']}: {first['says']}; nothing was changed", errors) from error


async def until_gone(request: Request, holding: Holding, policy: str, caller: Caller) -> HoldResult:
    """Ends with the caller: one that leaves must not keep its place."""
    held = asyncio.create_task(holding.hold(policy, caller))
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({held, gone}, return_when=asyncio.FIRST_COMPLETED)
        return held.result() if held.done() else HoldResult(False, policy, why="the client has disconnected")
    finally:
        for task in (held, gone):
            task.cancel()
        await asyncio.gather(held, gone, return_exceptions=True)


def late(request: Request, keys: HoldKeys, held: HoldResult) -> Response:
    after = held.retry_after_seconds
    headers = {"Cache-Control": "no-store", "Retry-After": str(after)}
    again = request.headers.get("x-forwarded-uri", "")
    if keys.late is Late.REDIRECT and again.startswith("/") and not again.startswith(("//", "/\\")):
        return Response(status_code=Late.REDIRECT, headers={**headers, "Location": again})
    status = Late.UNAVAILABLE if keys.late is Late.REDIRECT else keys.late
    accepts = "text/html" in request.headers.get("accept", "")
    if keys.show is Shown.PAGE or (keys.show is Shown.AUTO and accepts):
        headers["Content-Security-Policy"] = PAGE_POLICY
        page = waiting_page(held.policy, after)  # loads itself again, and is held again
        return Response(page, status, headers, "text/html; charset=utf-8")
    detail = f"{held.policy} was asked to wake, and {held.why}"
    problem = Problem(status, detail, headers=headers, policy=held.policy, retry_after_seconds=after)
    return answer(problem, request.url.path)


async def _gone(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _who(request: Request) -> str:
    return who_asks(request.app.state.site, request.headers, address_of(request))


def _parameters() -> list[dict[str, Any]]:
    """For the OpenAPI document: they are read by hand, since the first of each counts."""
    schema = HoldKeys.model_json_schema()
    found = []
    for name, each in schema["properties"].items():
        text = each.pop("description")
        shape = SHAPES.get(name, each)
        found.append({"name": name, "in": "query", "required": False, "description": text, "schema": shape})
    return found
