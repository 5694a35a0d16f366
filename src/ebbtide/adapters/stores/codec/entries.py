"""Log entries as stores keep them: the data of an entry is one block of bytes.

Small data is plain JSON, so a person can read it in the table; larger data is compressed. The first
byte tells them apart: `{` for JSON, anything else for zlib. An entry whose kind this version does not
know (a newer one wrote it) is skipped when reading.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec

from ebbtide import typed
from ebbtide.errors import UNREADABLE, StoreUnusable
from ebbtide.model.log import LogEntry, LogKind

COMPRESS_ABOVE_BYTES = 1024
KNOWN_KINDS = frozenset(LogKind)
LARGE_KINDS = frozenset({LogKind.DECISION})
"""These have all with them that was seen; in brief they are read without."""
KEPT_FOR_GOOD = frozenset({LogKind.STRETCH})
"""The ledger is rebuilt from these: they neither expire nor are pruned."""

_encoder = msgspec.json.Encoder()
_decoder = typed.decoder(dict[str, object])


def pack(data: Mapping[str, object]) -> bytes:
    if not data:
        return b"{}"
    plain = _encoder.encode(data)
    return plain if len(plain) <= COMPRESS_ABOVE_BYTES else zlib.compress(plain, 1)


def unpack(block: bytes, entry_id: str) -> dict[str, object]:
    try:
        return _decoder.decode(block if block[:1] == b"{" else zlib.decompress(block))
    except (zlib.error, *UNREADABLE) as error:
        raise StoreUnusable(
            f"the data of log entry {entry_id!r} cannot be read ({error}): restore it from a backup"
        ) from error


def distinct(entries: Iterable[LogEntry]) -> list[LogEntry]:
    """Of entries that share an id the first one counts."""
    first: dict[str, LogEntry] = {}
    for entry in entries:
        first.setdefault(entry.id, entry)
    return list(first.values())


def log_rows(cluster: str, entries: Iterable[LogEntry]) -> list[dict[str, Any]]:
    """The rows of the SQL log."""
    return [
        {
            "cluster": cluster,
            "id": entry.id,
            "at": entry.at,
            "kind": str(entry.kind),
            "subject": entry.subject,
            "says": entry.says,
            "data": pack(entry.data),
        }
        for entry in distinct(entries)
    ]
