"""Errors as `application/problem+json` (RFC 9457): what happened, what was left untouched, what to do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from ebbtide.engine.scale_to_zero.policies import PolicyRefused
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

MEDIA_TYPE = "application/problem+json"
TITLES = {
    400: "The request is wrong",
    401: "A token is needed",
    403: "The token may not do this",
    404: "There is no such thing",
    405: "This cannot be done here",
    406: "Not available in this form",
    409: "Something else is there already",
    412: "It has changed meanwhile",
    413: "The body is too long",
    415: "The body is in the wrong form",
    421: "Asked for under another name",
    422: "The request is wrong",
    428: "Say which version you saw",
    429: "Too many requests",
    500: "This is a fault in Ebbtide",
    503: "Not now",
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
