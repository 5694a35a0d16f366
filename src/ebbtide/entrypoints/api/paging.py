"""Pages of a list, each with an opaque token for the next one."""

from __future__ import annotations

import base64
import binascii
import json

from ebbtide.entrypoints.api.problems import Problem


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
    if not isinstance(found, list) or len(found) != 2 or found[0] != kind or not isinstance(found[1], str):  # noqa: PLR2004
        raise _unknown()
    return found[1]


def _unknown() -> Problem:
    says = "is not a page token of this list: take `next_page_token` of the page before"
    return Problem(422, f"page_token {says}", [{"field": "page_token", "says": says}])
