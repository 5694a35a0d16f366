"""A recording is one file, `.ebb`: gzip over one JSON object with a version.

    {"ebb": 1, "story": {...}, "recorded": {...},
     "demand": {"default/web": {"at": [0, 300], "replicas": [4, 7]}}}

`story` has the keys of a story. `demand` says for each workload when how many replicas were asked for; it is
kept apart since it is long. `recorded` is what happened while it was recorded, to compare a simulation with.
The same recording is the same bytes. Nothing is read from a file of a newer version.
"""

from __future__ import annotations

import gzip
import os
import zlib
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from ebbtide import typed
from ebbtide.errors import ConfigError

VERSION = 1
MAGIC = b"\x1f\x8b"
MOST_BYTES = 2 * 2**30


class Series(msgspec.Struct, frozen=True):
    """From `at[n]` seconds on, `replicas[n]` are asked for."""

    at: list[float]
    replicas: list[int]


class Recorded(msgspec.Struct, frozen=True):
    """What happened while it was recorded; None where the source does not say."""

    source: str = ""
    coverage: dict[str, float] = {}
    """Share of the time, from 0 to 1, that each part was known for."""
    node_hours: float | None = None
    cost: str | None = None
    currency: str = ""
    pending_pod_seconds: float | None = None
    evictions: int | None = None
    launched: int | None = None
    interruptions: int | None = None


class Recording(msgspec.Struct, frozen=True):
    ebb: int
    story: dict[str, Any]
    demand: dict[str, Series] = {}
    recorded: Recorded = Recorded()


class _Header(msgspec.Struct, frozen=True):
    ebb: int


def write_recording(path: Path, recording: Recording) -> int:
    """The size in bytes. It is there whole or not at all."""
    data = gzip.compress(msgspec.json.encode(recording), 6, mtime=0)
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        beside.write_bytes(data)
        os.replace(beside, path)
    except OSError as error:
        beside.unlink(missing_ok=True)
        raise ConfigError(
            f"the recording {path} cannot be written: {error.strerror}; nothing was left behind. Name a file "
            "in a folder that you may write to."
        ) from error
    return len(data)


def is_recording(path: Path) -> bool:
    if path.suffix == ".ebb":
        return True
    try:
        with path.open("rb") as opened:
            return opened.read(2) == MAGIC
    except OSError:
        return False


def read_recording(path: Path) -> Recording:
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ConfigError(
            f"the recording {path} cannot be read: {error.strerror}; nothing ran. Name a file that `ebbtide "
            "record` wrote."
        ) from error
    try:
        text = _decompressed(data)
        version = typed.decode(text, _Header).ebb
    except (OSError, EOFError, zlib.error, msgspec.DecodeError) as error:
        raise ConfigError(
            f"{path} is not a recording, or not the whole of one; nothing ran. Record it again with "
            "`ebbtide record`, or copy it again."
        ) from error
    if version > VERSION:
        raise ConfigError(
            f"the recording {path} has version {version}, this Ebbtide knows {VERSION}; nothing ran. Use the "
            "Ebbtide that recorded it, or a newer one."
        )
    try:
        recording = typed.decode(text, Recording)
    except msgspec.DecodeError as error:
        raise ConfigError(
            f"the recording {path} is damaged ({error}); nothing ran. Record it again."
        ) from error
    for name, series in recording.demand.items():
        if wrong := _why_wrong(series):
            raise ConfigError(
                f"the recording {path} is damaged: the demand of {name} {wrong}; nothing ran. Record it "
                "again."
            )
    return recording


def _decompressed(data: bytes) -> bytes:
    """Bounded, since a small file can hold any amount of zeros."""
    stream = zlib.decompressobj(zlib.MAX_WBITS | 16)
    text = stream.decompress(data, MOST_BYTES)
    if not stream.eof or stream.unconsumed_tail:
        raise EOFError("it ends too early, or is too long")
    return text


def _why_wrong(series: Series) -> str:
    if len(series.at) != len(series.replicas):
        return f"has {len(series.at)} times and {len(series.replicas)} values"
    if any(count < 0 for count in series.replicas):
        return "has a negative value"
    later = zip(series.at, series.at[1:], strict=False)
    if not all(map(isfinite, series.at)) or any(after < before for before, after in later):
        return "has times that go back"
    return ""
