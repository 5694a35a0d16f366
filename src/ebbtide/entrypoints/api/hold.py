"""`/api/v1/hold/{policy}`: for gateways that ask before they pass a request on (nginx `auth_request`, Caddy
`forward_auth`, Envoy `ext_authz`, Traefik `forwardAuth`, HAProxy).

The answer is 200 as soon as the policy is awake. What is answered when time is up can be chosen, since each
gateway shows its clients something else of it. Of a parameter that is given twice the first counts: a gateway
that appends what its client sent cannot be made to say something else.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum, StrEnum
from typing import Any

from fastapi import APIRouter, Depends, Request, Response
from pydantic import Field, ValidationError

from ebbtide.entrypoints.api import problems
from ebbtide.entrypoints.api.connections import places
from ebbtide.entrypoints.api.context import RouteContext
from ebbtide.entrypoints.api.guard import Needs, address_of, may_start_wake, who_asks
from ebbtide.entrypoints.api.holding import Caller, Held, Holding
from ebbtide.entrypoints.api.problems import Problem, answer, field_name
from ebbtide.entrypoints.api.scopes import Scope
from ebbtide.entrypoints.api.waiting import Waiting
from ebbtide.entrypoints.views.policy_schemas import Strict
from ebbtide.gate.page import waiting_page

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
    "description": "Not awake when time was up, or an error.",
    "content": {**problems.SHOWN["content"], "text/html": {}},
}
ANSWERS: dict[int | str, dict[str, Any]] = {
    200: {"description": "It is awake."},
    307: {"description": "The same address again."},
    "4XX": _LATE,
    "5XX": _LATE,
}


class HoldKeys(Strict):
    wait: float | None = Field(
        None, ge=0, le=3600, description="Seconds to hold it at most; else as the policy says."
    )
    late: Late = Field(
        Late.UNAVAILABLE,
        description="Status when time is up; 307 leads to the same address again, by X-Forwarded-Uri.",
    )
    show: Shown = Field(
        Shown.AUTO, description="problem, page, or auto: a page where the client accepts HTML."
    )


def router(context: RouteContext) -> APIRouter:
    routes = APIRouter(prefix="/api/v1", tags=["wake"])
    most = max(1, min(context.site.max_holds, places() // 2))
    holding = Holding(context.scaling, context.policies, Waiting(context.scaling), most)
    needs = [Depends(Needs(Scope.WAKE, basic=True))]

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


async def until_gone(request: Request, holding: Holding, policy: str, caller: Caller) -> Held:
    """Ends with the caller: one that leaves must not keep its place."""
    held = asyncio.create_task(holding.hold(policy, caller))
    gone = asyncio.create_task(_gone(request))
    try:
        await asyncio.wait({held, gone}, return_when=asyncio.FIRST_COMPLETED)
        return held.result() if held.done() else Held(False, policy, why="the caller has left")
    finally:
        for task in (held, gone):
            task.cancel()
        await asyncio.gather(held, gone, return_exceptions=True)


def late(request: Request, keys: HoldKeys, held: Held) -> Response:
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
