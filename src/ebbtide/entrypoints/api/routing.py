"""What routes share: the ports, finding a policy, versions as ETags, days as bounds, pages of a list, and
errors as `application/problem+json` (RFC 9457).
"""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from ebbtide.engine.scale_to_zero.policies import Policies, PolicyRefused
from ebbtide.engine.scale_to_zero.scaling import Scaling
from ebbtide.entrypoints.api.site import Site
from ebbtide.entrypoints.views import inputs
from ebbtide.entrypoints.views.inputs import why_not_plain
from ebbtide.entrypoints.views.policy_schemas import PolicyShape
from ebbtide.entrypoints.views.policy_shapes import policy_shape
from ebbtide.errors import (
    Conflict,
    EbbtideError,
    Final,
    NameTaken,
    NotFound,
    Retryable,
    StoreUnusable,
    TargetTaken,
    Unanswered,
    Usage,
)
from ebbtide.model.idle import IdleState
from ebbtide.model.policy import Policy

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "Bad request",
    401: "A token is required",
    403: "The token does not allow this",
    404: "Not found",
    405: "Method not allowed",
    406: "Not acceptable",
    409: "Conflict",
    412: "Changed since it was read",
    413: "The body is too large",
    415: "Unsupported media type",
    421: "Unknown host name",
    422: "Invalid request",
    428: "If-Match is required",
    429: "Too many requests",
    500: "Internal error",
    503: "Unavailable",
    504: "Not ready in time",
}


class FieldProblem(BaseModel):
    field: str
    says: str


class ProblemShape(BaseModel):
    """What every error looks like (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    errors: list[FieldProblem] | None = None


SHOWN: dict[str, Any] = {
    "content": {MEDIA_TYPE: {"schema": ProblemShape.model_json_schema()}},
    "description": "An error.",
}
DOCUMENTED: dict[int | str, dict[str, Any]] = {"4XX": SHOWN, "5XX": SHOWN, 422: SHOWN}
"""For the OpenAPI document of every route."""


class Problem(Exception):
    """An answer that is an error, raised from anywhere in a route."""

    def __init__(
        self,
        status: int,
        detail: str,
        errors: list[dict[str, str]] | None = None,
        headers: Mapping[str, str] | None = None,
        **more: Any,
    ) -> None:
        super().__init__(detail)
        self.status = status
        self.detail = detail
        self.errors = errors or []
        self.headers = dict(headers or {})
        self.more = more


def answer(problem: Problem, path: str) -> JSONResponse:
    body: dict[str, Any] = {
        "type": "about:blank",
        "title": TITLES.get(problem.status, "Error"),
        "status": problem.status,
        "detail": problem.detail,
        "instance": path,
        **problem.more,
    }
    if problem.errors:
        body["errors"] = problem.errors
    return JSONResponse(body, problem.status, problem.headers, MEDIA_TYPE)


def problem_of(error: EbbtideError) -> Problem:
    """What an error of ours means to a caller."""
    match error:
        case NotFound():
            return Problem(404, str(error))
        case NameTaken():
            return Problem(409, str(error), [{"field": "name", "says": str(error)}])
        case TargetTaken():
            return Problem(409, str(error), [{"field": "target", "says": str(error)}])
        case PolicyRefused():
            errors = [{"field": each.field, "says": each.says} for each in error.problems]
            return Problem(409 if error.taken else 422, str(error), errors)
        case StoreUnusable():
            return Problem(503, str(error))
        case Usage():
            return Problem(422, str(error))
        case Conflict():
            return Problem(412, f"{error}; nothing was changed: read it again")
        case Retryable() | Unanswered():
            return Problem(503, str(error), headers={"Retry-After": "5"})
        case Final():
            return Problem(409, str(error))
        case _:
            return Problem(500, str(error))


def field_name(location: tuple[int | str, ...]) -> str:
    """`rules[0].threshold`, without the part that says it was in the body."""
    name = ""
    for part in location[1:] if location and location[0] in ("body", "query", "path", "header") else location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else str(part)
    return name or str(location[0]) if location else ""


def _says(message: object) -> str:
    """Without the words that the library puts before sentences of our own."""
    return str(message).removeprefix("Value error, ")


def install(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def _problem(request: Request, problem: Problem) -> JSONResponse:
        return answer(problem, request.url.path)

    @app.exception_handler(EbbtideError)
    async def _ours(request: Request, error: EbbtideError) -> JSONResponse:
        return answer(problem_of(error), request.url.path)

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> JSONResponse:
        errors = [{"field": field_name(each["loc"]), "says": _says(each["msg"])} for each in error.errors()]
        first = errors[0] if errors else {"field": "", "says": "wrong"}
        detail = f"{first['field']}: {first['says']}; nothing was changed"
        return answer(Problem(422, detail, errors), request.url.path)

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> JSONResponse:
        return answer(Problem(error.status_code, str(error.detail), headers=error.headers), request.url.path)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, _error: Exception) -> JSONResponse:
        detail = "an unexpected error; it is in the log of the process, please report it"
        return answer(Problem(500, detail), request.url.path)


@dataclass(frozen=True, slots=True)
class RouteContext:
    site: Site
    scaling: Scaling
    policies: Policies

    @property
    def now(self) -> int:
        return int(self.site.clock.now())

    def find(self, policy_id: str) -> tuple[Policy, IdleState]:
        policy = None if why_not_plain(policy_id) else self.policies.store.find_policy(policy_id)
        state = self.policies.store.find_state(policy_id) if policy else None
        if policy is None or state is None:
            raise Problem(404, f"there is no policy {policy_id!r}; nothing was changed")
        return policy, state

    def shape(self, policy: Policy, state: IdleState) -> PolicyShape:
        return policy_shape(policy, state, self.scaling.defaults, self.now, self.scaling.eta_of(state))


def etag(policy: Policy) -> str:
    return f'"{policy.version}"'


def seen_version(request: Request, policy: Policy) -> int:
    """The version that the caller saw, from `If-Match`, to prevent lost updates."""
    given = request.headers.get("if-match", "")
    if not given:
        detail = "send If-Match with the version that you read (the ETag of the policy); nothing was changed"
        raise Problem(428, detail)
    wanted = [each.strip() for each in given.split(",")]
    if "*" in wanted or etag(policy) in wanted:
        return policy.version
    detail = f"it is at version {etag(policy)} and you saw {given}; nothing was changed: read it again"
    raise Problem(412, detail, headers={"ETag": etag(policy)})


def bounds(first: str, last: str, now: int) -> tuple[str, str, str, str]:
    """As `days.bounds`; a day that is none is a problem that names its field."""
    if wrong := inputs.wrong_day(first, last):
        field, says = wrong
        raise Problem(422, f"{field}: {says}", [{"field": field, "says": says}])
    return inputs.bounds(first, last, now)


def pack(kind: str, last: str) -> str:
    return base64.urlsafe_b64encode(json.dumps([kind, last]).encode()).decode().rstrip("=")


def unpack(kind: str, token: str) -> str:
    """Where the page begins; empty for the first."""
    if not token:
        return ""
    try:
        found = json.loads(base64.urlsafe_b64decode(token + "=" * (-len(token) % 4)))
    except (binascii.Error, ValueError, RecursionError) as error:
        raise _unknown() from error
    match found:
        # A store takes no NUL and no half of a surrogate pair, and no token of ours has either.
        case [name, str(last)] if name == kind and not why_not_plain(last):
            return last
    raise _unknown()


def _unknown() -> Problem:
    says = "is not a page token of this list: take `next_page_token` of the page before"
    return Problem(422, f"page_token {says}", [{"field": "page_token", "says": says}])
