"""Before any route: the name it was asked for under, the length of the body, how often, and the token.

Every route says its scope in its `Needs`; a test walks over all routes and fails where one says none.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse, Response
from fastapi.security import HTTPBearer
from limits import RateLimitItemPerMinute
from limits.storage import MemoryStorage
from limits.strategies import MovingWindowRateLimiter

from ebbtide.entrypoints.api.problems import Problem, answer
from ebbtide.entrypoints.api.scopes import Scope, Token, expired, find_token
from ebbtide.entrypoints.api.site import Site

bearer = HTTPBearer(auto_error=False, description="A token with the scope that the route names.")
SECURE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""For answers that are no page; pages bring a policy of their own."""

Next = Callable[[Request], Awaitable[Response]]


class Needs:
    """A dependency: the caller's token has at least this scope. Its scope is read by the docs and tests."""

    def __init__(self, scope: Scope) -> None:
        self.scope = scope

    def __call__(self, request: Request) -> Token | None:
        site: Site = request.app.state.site
        presented = _presented(request)
        if not presented:
            if self.scope is Scope.READ and site.open_reading:
                return None
            how = "Send it as `Authorization: Bearer ...`"
            detail = f"this needs a token of scope {self.scope.spoken}; nothing was changed. {how}"
            raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
        token = find_token(presented, site.tokens, site.clock.now())
        if token is None or expired(token, site.clock.now()):
            what = "the token has expired" if token else "the token is not known"
            headers = {"WWW-Authenticate": 'Bearer error="invalid_token"'}
            detail = f"{what}; nothing was changed. Ask for a new one (`ebbtide token new`)"
            raise Problem(401, detail, headers=headers)
        if token.scope < self.scope:
            detail = (
                f"token {token.name!r} has scope {token.scope.spoken}, this needs {self.scope.spoken}; "
                "nothing was changed"
            )
            raise Problem(403, detail)
        request.state.token = token
        return token


def _presented(request: Request) -> str:
    kind, _, value = request.headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


class Limiter:
    """So many requests a minute for each caller: by token where there is one, else by address."""

    def __init__(self) -> None:
        self._limiter = MovingWindowRateLimiter(MemoryStorage())

    def allows(self, what: str, who: str, per_minute: int) -> bool:
        return self._limiter.hit(RateLimitItemPerMinute(per_minute), what, who)


def who_asks(request: Request) -> str:
    """Hashed by the limiter's key alone: a wrong token is a caller too."""
    address = request.client.host if request.client else ""
    return _presented(request)[:64] or address


def limit_wakes(request: Request) -> None:
    site: Site = request.app.state.site
    limiter: Limiter = request.app.state.limiter
    if not limiter.allows("wake", who_asks(request), site.wakes_per_minute):
        detail = f"more than {site.wakes_per_minute} wakes a minute; nothing was changed. Try again later"
        raise Problem(429, detail, headers={"Retry-After": "10"})


def check_request(request: Request) -> Problem | None:
    site: Site = request.app.state.site
    limiter: Limiter = request.app.state.limiter
    host = host_name(request.headers.get("host", ""))
    if "*" not in site.hosts and host not in site.hosts:
        return Problem(421, f"asked for as {host!r}, which is none of this server's names (api.hosts)")
    if not limiter.allows("all", who_asks(request), site.rate_per_minute):
        detail = f"more than {site.rate_per_minute} requests a minute; try again later"
        return Problem(429, detail, headers={"Retry-After": "10"})
    return None


def host_name(header: str) -> str:
    """Without the port; an IPv6 address without its brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if header.count(":") == 1 else header


class BodyLimit:
    """Refuses a body that is too long, also one that did not say its length, before a route sees it."""

    def __init__(self, app: Any, most: int) -> None:
        self._app = app
        self._most = most

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._most:
            await self._refuse(scope, receive, send)
            return
        chunks: list[Any] = []
        length = 0
        while True:
            message = await receive()
            chunks.append(message)
            length += len(message.get("body", b""))
            if length > self._most:
                await self._refuse(scope, receive, send)
                return
            if message["type"] != "http.request" or not message.get("more_body", False):
                break
        held = iter(chunks)

        async def replayed() -> Any:
            return next(held, None) or await receive()

        await self._app(scope, replayed, send)

    async def _refuse(self, scope: Any, receive: Any, send: Any) -> None:
        problem = Problem(413, f"the body is longer than {self._most} bytes; nothing was changed")
        response: JSONResponse = answer(problem, scope["path"])
        await response(scope, receive, send)


def scopes_of(dependencies: Sequence[Any]) -> list[Scope]:
    """The scopes that a route asks for; for the docs and for the test that none is without."""
    return [each.dependency.scope for each in dependencies if isinstance(each.dependency, Needs)]
