"""Before any route: the name it was asked for under, how often, who asks, and the length of the body.

A caller is the token that was verified, else the address: an unverified token can be a new one with every
request. Each has so many requests a minute, in memory that does not grow with the number of callers.
Every route says its scope in its `NeedsScope`; a test has the literal table of all of them.
"""

from __future__ import annotations

import base64
import ipaddress
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from fastapi import Request
from fastapi.responses import JSONResponse
from starlette.datastructures import Headers, MutableHeaders

from ebbtide.entrypoints.api.routing import Problem, answer
from ebbtide.entrypoints.api.site import Scope, Site, Token, expired, find_token

SECURE = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "X-Frame-Options": "DENY",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'",
}
"""For answers that are no page; pages bring a policy of their own."""
SIGNED_PATH = "/api/v1/scaling/webhooks/wake"
"""Counted by its route, once the signature is known: a stranger must not use up what signed messages may."""
HOLD_PATH = "/api/v1/hold/"
TOKEN = "token "
LATER = {"Retry-After": "10"}
ENDS = {"Connection": "close"}
"""The rest of the body is not waited for."""
MINUTE = 60.0
MOST_CALLERS = 10_000
"""Counted one by one. Callers beyond this number are counted together."""
CROWD = "all others"
MOST_HELD = 16 * 1024 * 1024
"""Bytes of bodies of all callers without a token, at any moment."""
MOST_HELD_EACH = 2 * 1024 * 1024
"""Of one address: nobody takes all of it alone."""


class NeedsScope:
    """A dependency: the caller's token has at least this scope. Its scope is read by the docs and tests."""

    def __init__(self, scope: Scope, basic: bool = False) -> None:
        """`basic`: also as the password of Basic authentication, for gateways that can send no other. Not
        for routes that a browser might be led to."""
        self.scope = scope
        self.basic = basic

    async def __call__(self, request: Request) -> Token | None:
        """Async, so a stranger is refused without a thread of those that answer others."""
        site: Site = request.app.state.site
        presented = _presented(request.headers) or (_password(request.headers) if self.basic else "")
        if not presented:
            if self.scope is Scope.READ and site.open_reading:
                return None
            how = "Send it as `Authorization: Bearer ...`"
            detail = f"this needs a token of scope {self.scope.spoken}; nothing was changed. {how}"
            raise Problem(401, detail, headers={"WWW-Authenticate": "Bearer"})
        token = find_token(presented, site.tokens)
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
        return token


def _presented(headers: Headers) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    return value.strip() if kind.lower() == "bearer" else ""


def _password(headers: Headers) -> str:
    kind, _, value = headers.get("authorization", "").partition(" ")
    if kind.lower() != "basic":
        return ""
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2]
    except ValueError:
        return ""


def who_asks(site: Site, headers: Headers, address: str) -> str:
    """The token, where it is one of ours and valid; else the address, or every made-up token would be a
    caller of its own."""
    presented = _presented(headers) or _password(headers)
    if presented:
        token = find_token(presented, site.tokens)
        if token is not None and not expired(token, site.clock.now()):
            return f"{TOKEN}{token.digest.lower()}"
    return address_key(address)


def address_of(request: Request) -> str:
    return request.client.host if request.client else ""


async def limit_wakes(request: Request) -> None:
    """After `NeedsScope`."""
    site: Site = request.app.state.site
    count_wake(request, who_asks(site, request.headers, address_of(request)))


def count_wake(request: Request, who: str) -> None:
    site: Site = request.app.state.site
    limiter: Limiter = request.app.state.limiter
    if not limiter.allows("wake", who, site.wakes_per_minute):
        detail = f"more than {site.wakes_per_minute} wakes a minute; nothing was changed. Try again later"
        raise Problem(429, detail, headers=LATER)


def may_start_wake(request: Request, who: str) -> Callable[[], str]:
    """As `count_wake`, for a caller that may turn out to start none: to be called when it does. May be called
    in another thread."""
    site: Site = request.app.state.site
    limiter: Limiter = request.app.state.limiter

    def why_not() -> str:
        allowed = limiter.allows("wake", who, site.wakes_per_minute)
        return "" if allowed else f"there were more than {site.wakes_per_minute} wakes a minute"

    return why_not


def count_stranger(request: Request) -> None:
    """A message whose signature is wrong counts against the address that sent it."""
    site: Site = request.app.state.site
    limiter: Limiter = request.app.state.limiter
    if not limiter.allows("all", address_key(address_of(request)), site.rate_per_minute):
        raise _too_many(site)


def _too_many(site: Site) -> Problem:
    return Problem(429, f"more than {site.rate_per_minute} requests a minute; try again later", headers=LATER)


class Guard:
    """The outermost layer, so what is refused costs as little as possible."""

    def __init__(self, app: Any, site: Site, limiter: Limiter) -> None:
        self._app = app
        self._site = site
        self._limiter = limiter

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def secured(message: Any) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURE.items():
                    headers.setdefault(name, value)
            await send(message)

        refused = self._refused(scope)
        app = answer(refused, scope["path"]) if refused else self._app
        await app(scope, receive, secured)

    def _refused(self, scope: Any) -> Problem | None:
        site, headers = self._site, Headers(scope=scope)
        host = host_name(headers.get("host", ""))
        if "*" not in site.hosts and host not in site.hosts:
            return Problem(421, f"the request names host {host!r}, which is not in api.hosts")
        signed = site.webhook_secrets and scope["path"] == SIGNED_PATH and scope["method"] == "POST"
        who = who_asks(site, headers, (scope.get("client") or ("", 0))[0])
        # A gateway asks for each of its requests; its wakes are counted.
        gateway = scope["path"].startswith(HOLD_PATH) and who.startswith(TOKEN)
        counted = not signed and not gateway
        if counted and not self._limiter.allows("all", who, site.rate_per_minute):
            return _too_many(site)
        # No database takes a NUL in a text, and PostgreSQL says so in a way that looks like an outage.
        if "\0" in scope["path"] or b"%00" in scope["query_string"]:
            return Problem(400, "the URL contains a NUL byte; nothing was changed")
        return None


def host_name(header: str) -> str:
    """Without the port; an IPv6 address without its brackets."""
    if header.startswith("["):
        return header[1:].partition("]")[0]
    return header.rpartition(":")[0] if header.count(":") == 1 else header


class HeldBodies:
    """Bytes of bodies that are kept for callers without a token. Only the thread of the event loop comes
    here."""

    def __init__(self, together: int = MOST_HELD, each: int = MOST_HELD_EACH) -> None:
        self._together = together
        self._each = each
        self._of: dict[str, int] = {}
        self.all = 0

    def takes(self, who: str, length: int) -> bool:
        """Whether so many more are kept for this address."""
        if self.all + length > self._together or self._of.get(who, 0) + length > self._each:
            return False
        self._of[who] = self._of.get(who, 0) + length
        self.all += length
        return True

    def gives(self, who: str, length: int) -> None:
        self.all -= length
        self._of[who] -= length
        if not self._of[who]:
            del self._of[who]


class BodyLimit:
    """Refuses a body that is too long, also one that did not say its length, before a route sees it.

    A body is kept until it is whole, and who signed a webhook is known only then. So those of callers without
    a token have a limit together too: a body in each place would be more memory than the process may have."""

    def __init__(self, app: Any, most: int, site: Site, held: HeldBodies | None = None) -> None:
        self._app = app
        self._most = most
        self._site = site
        self._held = held or HeldBodies()

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        told = dict(scope["headers"]).get(b"content-length", b"0")
        if told.isdigit() and int(told) > self._most:
            await self._refuse(scope, receive, send, self._too_long())
            return
        who = who_asks(self._site, Headers(scope=scope), (scope.get("client") or ("", 0))[0])
        body = bytearray()
        kept = 0
        try:
            while True:
                message = await receive()
                body += message.get("body", b"")
                length = len(body)
                if length > self._most:
                    await self._refuse(scope, receive, send, self._too_long())
                    return
                if length > kept and not who.startswith(TOKEN):
                    if not self._held.takes(who, length - kept):
                        await self._refuse(scope, receive, send, _too_many_bodies())
                        return
                    kept = length
                if message["type"] == "http.disconnect":  # gone before its request was whole: there is none
                    return
                if not message.get("more_body", False):
                    break
            await self._app(scope, _replayed(bytes(body), receive), send)
        finally:
            if kept:
                self._held.gives(who, kept)

    def _too_long(self) -> Problem:
        return Problem(413, f"the body is longer than {self._most} bytes; nothing was changed", headers=ENDS)

    async def _refuse(self, scope: Any, receive: Any, send: Any, problem: Problem) -> None:
        response: JSONResponse = answer(problem, scope["path"])
        await response(scope, receive, send)


def _replayed(body: bytes, receive: Any) -> Callable[[], Any]:
    """The body as one message: one for each byte that a caller sends takes a hundred times its size."""
    held = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Any:
        return next(held, None) or await receive()

    return replayed


def _too_many_bodies() -> Problem:
    detail = "too many requests without a token are being received; nothing was changed. Try again later"
    return Problem(503, detail, headers={**LATER, **ENDS})


def scopes_of(dependencies: Sequence[Any]) -> list[Scope]:
    """The scopes that a route asks for; for the docs and for the test that none is without."""
    return [each.dependency.scope for each in dependencies if isinstance(each.dependency, NeedsScope)]


@dataclass(slots=True)
class Count:
    minute: int
    now: int = 0
    before: int = 0

    def moved_to(self, minute: int) -> None:
        if minute != self.minute:
            self.before = self.now if minute == self.minute + 1 else 0
            self.minute, self.now = minute, 0


class Limiter:
    """A sliding minute: what was counted in the minute before weighs as much as of it still lies in the
    last sixty seconds. What is refused is not counted."""

    def __init__(self, clock: Callable[[], float] = time.monotonic, most: int = MOST_CALLERS) -> None:
        self._clock = clock
        self._most = most
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], Count] = {}

    def allows(self, what: str, who: str, per_minute: int) -> bool:
        with self._lock:
            minute, passed = divmod(self._clock(), MINUTE)
            count = self._count(what, who, int(minute))
            if round(count.before * (1 - passed / MINUTE)) + count.now >= per_minute:
                return False
            count.now += 1
            return True

    def _count(self, what: str, who: str, minute: int) -> Count:
        key = (what, who)
        if key not in self._counts and len(self._counts) >= self._most:
            self._counts = {each: count for each, count in self._counts.items() if count.minute >= minute - 1}
            if len(self._counts) >= self._most:
                key = (what, CROWD)
        count = self._counts.setdefault(key, Count(minute))
        count.moved_to(minute)
        return count


def address_key(address: str) -> str:
    """For IPv6, the network of a site: a caller with one address there has all of them."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if found.version == 4:  # noqa: PLR2004 # the number of the protocol
        return str(found)
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found, 64), strict=False))
