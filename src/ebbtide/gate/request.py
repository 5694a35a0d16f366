"""The head of an HTTP/1 request, read by httptools. Nothing of the body is looked at."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass, field

from httptools import (
    HttpParserError,
    HttpParserInvalidURLError,
    HttpParserUpgrade,
    HttpRequestParser,
    parse_url,
)

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
