"""HTTP: the head of a request, which requests wake, the page that a browser sees meanwhile, and what the
gate itself answers. Only the first request of a connection is read: by the next one it leads to a pod.

The page that a browser sees while what it asked for wakes up. One page without scripts and without any other
request. It reloads by itself; the reload reaches the pods as soon as they are ready.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http import HTTPStatus

from httptools import (
    HttpParserError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
    parse_url,
)

from ebbtide.gate.admission import HOLD_UNREAD, MORE, AdmissionVerdict, Heard, is_in, may_wake
from ebbtide.gate.page import REFRESH_SECONDS, waiting_page
from ebbtide.model.policy import HttpRules, NeverWake, WakeOnRequest

END_OF_HEAD = b"\r\n\r\n"


@dataclass(frozen=True, slots=True)
class Request:
    method: str
    path: str
    """Without the query."""
    headers: dict[str, str] = field(default_factory=dict)
    """By name in small letters; a header that comes again is joined with commas."""

    @property
    def host(self) -> str:
        """In small letters, without the port."""
        name = self.headers.get("host", "").strip().lower()
        if name.startswith("["):
            return name.partition("]")[0] + "]"
        return name.partition(":")[0]


class _Collected:
    def __init__(self) -> None:
        self.url = b""
        self.headers: dict[str, str] = {}

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text


def head_is_whole(head: bytes) -> bool:
    return END_OF_HEAD in head


def read_request(head: bytes) -> Request | None:
    """Of a head that is whole, or of what was read of one that is too long; None where it is no HTTP/1."""
    end = head.find(END_OF_HEAD)
    found = _Collected()
    parser = HttpRequestParser(found)
    with suppress(HttpParserUpgrade):  # WebSocket and CONNECT: the head was read, the rest is for others
        try:
            # Without the body: of that nothing is parsed, so nothing of it can be wrong.
            parser.feed_data(head if end < 0 else head[: end + len(END_OF_HEAD)])
        except HttpParserError:
            return None
    try:
        path: bytes = parse_url(found.url).path or b"/"
    except HttpParserInvalidURLError:
        path = found.url  # of CONNECT it is an authority, and no URL
    return Request(parser.get_method().decode("latin-1"), path.decode("latin-1"), found.headers)


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


KNOWN_PATHS = (
    # Probes, and what browsers and crawlers fetch by themselves.
    "/healthz",
    "/livez",
    "/readyz",
    "/health",
    "/metrics",
    "/favicon.ico",
    "/robots.txt",
    "/sitemap.xml",
    "/apple-touch-icon*",
    # Scanners.
    "/.env*",
    "/.git/*",
    "/.aws/*",
    "/wp-login.php",
    "/wp-admin/*",
    "/xmlrpc.php",
    "/phpmyadmin*",
    "/cgi-bin/*",
)
KNOWN_AGENTS = (
    # Probes and monitors.
    "kube-probe",
    "googlehc",
    "elb-healthchecker",
    "prometheus/",
    "uptimerobot",
    "uptime-kuma",
    "pingdom",
    "statuscake",
    "blackbox-exporter",
    # Crawlers and scanners.
    "bot/",
    "bot;",
    "-bot",
    "googlebot",
    "bingpreview",
    "crawler",
    "spider",
    "slurp",
    "facebookexternalhit",
    "censys",
    "zgrab",
    "masscan",
    "nmap",
    "nuclei",
    "nikto",
    "expanse",
)


def why_not_wake(gate: WakeOnRequest, request: Request, source: str) -> str:
    """Why this request wakes nobody; nothing where it wakes."""
    return (
        _never(gate.http.never_wake, request)
        or _no_header(gate.http, request)
        or ("" if may_wake(gate, source) else "this address may not wake it")
    )


def source_of(rules: HttpRules, request: Request, peer: str) -> str:
    """Whom the request comes from: the last address of `X-Forwarded-For` that is no trusted proxy. What
    stands before it was written by the client itself."""
    if not is_in(rules.trusted_proxies, peer):
        return peer
    source = peer
    for address in reversed(request.headers.get("x-forwarded-for", "").split(",")):
        if not address.strip():
            break
        source = address.strip()
        if not is_in(rules.trusted_proxies, source):
            break
    return source


def is_a_browser(request: Request) -> bool:
    """Somebody who looks at a page, and not its scripts, images or sockets."""
    if request.method != "GET" or "upgrade" in request.headers:
        return False
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        return False
    return "text/html" in request.headers.get("accept", "").lower()


def _never(rules: NeverWake, request: Request) -> str:
    if any(_host_matches(host, request.host) for host in rules.hosts):
        return "requests for this host do not wake it"
    known = rules.known
    paths = (*rules.paths, *KNOWN_PATHS) if known else rules.paths
    if any(_path_matches(path, request.path) for path in paths):
        return "requests for this path do not wake it"
    if f"{request.method} {request.path}" in rules.requests:
        return "this kind of request does not wake it"
    agent = request.headers.get("user-agent", "").lower()
    agents = (*(each.lower() for each in rules.agents), *(KNOWN_AGENTS if known else ()))
    if any(each in agent for each in agents):
        return "requests of this user agent do not wake it"
    return ""


def _no_header(rules: HttpRules, request: Request) -> str:
    wanted = rules.wake_header
    if wanted is None:
        return ""
    found = request.headers.get(wanted.name.lower())
    if found is None or (wanted.value and found.strip() != wanted.value):
        return f"only requests with the right {wanted.name} header wake it"
    return ""


def _host_matches(rule: str, host: str) -> bool:
    return host.endswith(rule[1:].lower()) if rule.startswith("*.") else host == rule.lower()


def _path_matches(rule: str, path: str) -> bool:
    return path.startswith(rule[:-1]) if rule.endswith("*") else path == rule


PAGE_HEADERS = ("Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'",)
FAILING = "The wake could not be recorded yet; it is tried again."


def judge_http(gate: WakeOnRequest, heard: Heard) -> AdmissionVerdict | None:
    if not looks_like_http(heard.head):
        return MORE if _may_become_http(heard) else _unreadable(gate)
    if not head_is_whole(heard.head) and not heard.whole:
        return MORE
    request = read_request(heard.head)
    if request is None:
        return AdmissionVerdict(
            wakes=False, holds=False, reply=problem(400, heard.policy, "this is not an HTTP/1 request")
        )
    source = source_of(gate.http, request, heard.source)
    if why := why_not_wake(gate, request, source):
        reply = problem(503, heard.policy, f"{heard.policy} is asleep, and {why}")
        return AdmissionVerdict(wakes=False, holds=False, reply=_without_body(reply, request), why=why)
    if gate.http.waiting_page and is_a_browser(request):
        return AdmissionVerdict(wakes=True, holds=False, reply=_page(heard), source=source)
    return AdmissionVerdict(wakes=True, holds=True, unread=True, source=source)


def _may_become_http(heard: Heard) -> bool:
    """The first bytes may arrive one by one."""
    if heard.whole or len(heard.head) > LONGEST_METHOD:
        return False
    return any(method.startswith(heard.head) or heard.head.startswith(method) for method in METHODS)


def _unreadable(gate: WakeOnRequest) -> AdmissionVerdict:
    """TLS and HTTP/2 have no head that could be read here. They wake, unless a header is asked for."""
    if gate.http.wake_header is not None:
        return AdmissionVerdict(wakes=False, holds=False, why="a header is required, and this is not HTTP/1")
    return HOLD_UNREAD


def _page(heard: Heard) -> bytes:
    note = FAILING if heard.failing else ""
    page = waiting_page(heard.policy, heard.eta_seconds, heard.waited_seconds, heard.needs_node, note)
    retry = heard.eta_seconds or REFRESH_SECONDS
    return answer(503, "text/html; charset=utf-8", page, retry, PAGE_HEADERS)


def _without_body(reply: bytes, request: Request) -> bytes:
    """An answer to HEAD is its head alone."""
    if request.method != "HEAD":
        return reply
    head, end, _ = reply.partition(b"\r\n\r\n")
    return head + end
