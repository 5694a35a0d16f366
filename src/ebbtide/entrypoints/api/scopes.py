"""Who may do what. A token has one scope; `admin` may all that `wake` may, and `wake` all that `read` may.

Tokens are kept as SHA-256 digests and compared in constant time, all of them every time. Several may be
valid at once, so one can be replaced without a gap.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum


class Scope(IntEnum):
    READ = 1
    WAKE = 2
    ADMIN = 3

    @property
    def spoken(self) -> str:
        return self.name.lower()


@dataclass(frozen=True, slots=True)
class Token:
    name: str
    scope: Scope
    digest: str
    """SHA-256 of the token, in hex."""
    expires_at: int | None = None


def new_token() -> str:
    """Long enough that guessing and salting are next to the point."""
    return f"ebb_{secrets.token_urlsafe(32)}"


def digest_of(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()


def find_token(presented: str, tokens: Sequence[Token]) -> Token | None:
    """The token that was presented; also one that has expired, which the caller must look at."""
    digest = digest_of(presented)
    found = [token for token in tokens if hmac.compare_digest(digest, token.digest.lower())]
    # Of two entries with one digest the one that is valid longer counts.
    return max(found, key=_valid_until, default=None)


def _valid_until(token: Token) -> float:
    return float("inf") if token.expires_at is None else token.expires_at


def expired(token: Token, now: float) -> bool:
    return token.expires_at is not None and token.expires_at <= now
