"""Layer 7: what the first request of a connection gets. Later requests of it are not read: by then it leads
to a pod."""

from __future__ import annotations

from ebbtide.gate.answers import LONGEST_METHOD, METHODS, answer, looks_like_http, problem
from ebbtide.gate.judge import HOLD_UNREAD, MORE, Heard, Verdict
from ebbtide.gate.page import REFRESH_SECONDS, waiting_page
from ebbtide.gate.request import Request, head_is_whole, read_request
from ebbtide.gate.rules import is_a_browser, source_of, why_not_wake
from ebbtide.model.gate import Gate

PAGE_HEADERS = ("Content-Security-Policy: default-src 'none'; style-src 'unsafe-inline'",)
FAILING = "The wake could not be recorded yet; it is tried again."


def judge_http(gate: Gate, heard: Heard) -> Verdict | None:
    if not looks_like_http(heard.head):
        return MORE if _may_become_http(heard) else _unreadable(gate)
    if not head_is_whole(heard.head) and not heard.whole:
        return MORE
    request = read_request(heard.head)
    if request is None:
        return Verdict(
            wakes=False, holds=False, reply=problem(400, heard.policy, "this is not an HTTP/1 request")
        )
    source = source_of(gate.http, request, heard.source)
    if why := why_not_wake(gate, request, source):
        reply = problem(503, heard.policy, f"{heard.policy} is asleep, and {why}")
        return Verdict(wakes=False, holds=False, reply=_without_body(reply, request), why=why)
    if gate.http.waiting_page and is_a_browser(request):
        return Verdict(wakes=True, holds=False, reply=_page(heard), source=source)
    return Verdict(wakes=True, holds=True, unread=True, source=source)


def _may_become_http(heard: Heard) -> bool:
    """The first bytes may arrive one by one."""
    if heard.whole or len(heard.head) > LONGEST_METHOD:
        return False
    return any(method.startswith(heard.head) or heard.head.startswith(method) for method in METHODS)


def _unreadable(gate: Gate) -> Verdict:
    """TLS and HTTP/2 have no head that could be read here. They wake, unless a header is asked for."""
    if gate.http.wake_header is not None:
        return Verdict(wakes=False, holds=False, why="a header is asked for, and this is no HTTP/1")
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
