"""Pages of a list, each with an opaque token for the next one."""

from __future__ import annotations

import base64
import binascii
import json

from ebbtide.entrypoints.api.problems import Problem
from ebbtide.entrypoints.views.texts import why_not_plain


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
