"""The kept inputs of each target (`corpus/TARGET/`): good ones to begin from, and former findings."""

from __future__ import annotations

from pathlib import Path

CORPUS = Path(__file__).parent / "corpus"
DEEP = 2_000
"""More levels than any parser may follow by recursion."""


def kept(target: str) -> list[bytes]:
    """The files, and what is too large to keep as one: nesting without end, in JSON and in YAML."""
    files = sorted((CORPUS / target).iterdir()) if (CORPUS / target).is_dir() else []
    return [file.read_bytes() for file in files] + nested()


def nested() -> list[bytes]:
    return [
        b"[" * DEEP,
        b"[" * DEEP + b"]" * DEEP,
        b'{"a":' * DEEP + b"1" + b"}" * DEEP,
        b'{"items":' + b"[" * DEEP + b"]" * DEEP + b"}",
        b'{"status":"success","data":{"resultType":"vector","result":' + b"[" * DEEP + b"]" * DEEP + b"}}",
        b"\x00" + b"[" * DEEP + b"]" * DEEP,
        b"a: " + b"[" * DEEP + b"]" * DEEP,
        b"\n".join(b" " * level + b"a:" for level in range(300)),
    ]
