"""What the gate itself says to a client of HTTP/1: over a limit, at the deadline, to a request that wakes
nobody. Other protocols have their own words, or are reset."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from http import HTTPStatus

METHODS = (b"GET ", b"HEAD ", b"POST ", b"PUT ", b"PATCH ", b"DELETE ", b"OPTIONS ", b"TRACE ", b"CONNECT ")
HTTP_START = re.compile(rb"(?:%s)[^\r\n]*" % b"|".join(METHODS))
LONGEST_METHOD = max(map(len, METHODS))


def looks_like_http(head: bytes) -> bool:
    """Whether these first bytes are the start of an HTTP/1 request. The preface of HTTP/2 is not: its client
    could not read an answer of HTTP/1."""
    return HTTP_START.match(head) is not None


def unavailable(policy: str, detail: str, retry_after: int) -> bytes:
    """503 with problem details, and when to come again."""
    return problem(503, policy, detail, retry_after)


def problem(status: int, policy: str, detail: str, retry_after: int | None = None) -> bytes:
    """Problem details (RFC 9457)."""
    body: dict[str, object] = {
        "type": "about:blank",
        "title": HTTPStatus(status).phrase,
        "status": status,
        "detail": detail,
        "policy": policy,
    }
    if retry_after is not None:
        body["retry_after_seconds"] = retry_after
    return answer(status, "application/problem+json", json.dumps(body), retry_after)


def answer(
    status: int,
    content_type: str,
    body: str,
    retry_after: int | None = None,
    headers: Sequence[str] = (),
) -> bytes:
    text = body.encode()
    lines = [
        f"HTTP/1.1 {status} {HTTPStatus(status).phrase}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        "Connection: close",
        *headers,
    ]
    if retry_after is not None:
        lines.append(f"Retry-After: {max(1, retry_after)}")
    return "\r\n".join([*lines, "", ""]).encode() + text
