"""Typed values from JSON and from plain data: the only place where msgspec learns a type.

msgspec keeps what it learns of a class on the class, and lets other threads see it before it is whole: two
threads that use a type for the first time at once end the process with a segmentation fault. So a type is
learned under a lock; what is known is read without one.
"""

from __future__ import annotations

from threading import Lock
from typing import Any, TypeVar, cast

import msgspec

T = TypeVar("T")
Decoder = msgspec.json.Decoder
_learning = Lock()
_decoders: dict[Any, Decoder[Any]] = {}


def decoder(kind: type[T]) -> Decoder[T]:
    """One for each type, for all threads: it keeps nothing between two calls."""
    found = _decoders.get(kind)
    if found is None:
        with _learning:
            found = _decoders.setdefault(kind, Decoder(kind))
    return cast("Decoder[T]", found)


def decode(body: bytes | str, kind: type[T]) -> T:
    return decoder(kind).decode(body)


def convert(data: Any, kind: type[T], strict: bool = True) -> T:
    decoder(kind)
    return msgspec.convert(data, kind, strict=strict)
