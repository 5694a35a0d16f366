"""What the gate itself says to a client: over a limit, at the deadline. Only HTTP/1 has words for it;
anything else is reset."""

from __future__ import annotations

import json
import re

HTTP_START = re.compile(rb"(?:GET|HEAD|POST|PUT|PATCH|DELETE|OPTIONS|TRACE|CONNECT) [^\r\n]*")
LONGEST_METHOD = len("OPTIONS ")


def looks_like_http(head: bytes) -> bool:
    """Whether these first bytes are the start of an HTTP/1 request. The preface of HTTP/2 is not: its client
    could not read an answer of HTTP/1."""
    return HTTP_START.match(head) is not None


def unavailable(policy: str, detail: str, retry_after: int) -> bytes:
    """503 with problem details (RFC 9457), and when to come again."""
    problem = {
        "type": "about:blank",
        "title": "Service Unavailable",
        "status": 503,
        "detail": detail,
        "policy": policy,
        "retry_after_seconds": retry_after,
    }
    return answer("503 Service Unavailable", "application/problem+json", json.dumps(problem), retry_after)


def answer(status: str, content_type: str, body: str, retry_after: int | None = None) -> bytes:
    text = body.encode()
    lines = [
        f"HTTP/1.1 {status}",
        f"Content-Type: {content_type}",
        f"Content-Length: {len(text)}",
        "Cache-Control: no-store",
        "Connection: close",
    ]
    if retry_after is not None:
        lines.append(f"Retry-After: {max(1, retry_after)}")
    return "\r\n".join([*lines, "", ""]).encode() + text
