"""Whose an instance is, and which launch made it: the tags it carries and the keys derived from a slot.

Everything here is a pure function of cluster and slot, so a repeated launch says exactly the same.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence

from ebbtide.errors import Final
from ebbtide.model.effect import Launch
from ebbtide.model.pool import Pool

CLUSTER = "ebbtide.dev/cluster"
POOL = "ebbtide.dev/pool"
SLOT = "ebbtide.dev/slot"
OPERATION = "ebbtide.dev/operation"
INSTANCE_ID = "ebbtide.dev/instance-id"
INSTANCE_TYPE = "ebbtide.dev/instance-type"
MARKET = "ebbtide.dev/market"
LAUNCH_HASH = "ebbtide.dev/launch-hash"
"""Of the configuration that the machine was launched with: another one of its pool is drift."""

TOKEN_LENGTH = 64
"""What EC2 accepts as a ClientToken."""
LABEL_LENGTH = 63
_NAME_PART, _NAME_DIGEST = 20, 12


def tags_of(effect: Launch, cluster: str, pools: Sequence[Pool] = ()) -> dict[str, str]:
    hashes = {pool.name: pool.launch_hash for pool in pools if pool.launch_hash}
    name = effect.slot.pool
    return {
        CLUSTER: cluster,
        POOL: name,
        SLOT: effect.slot.key,
        OPERATION: effect.operation_id,
        **({LAUNCH_HASH: hashes[name]} if name in hashes else {}),
    }


def client_token(cluster: str, key: str) -> str:
    """The cluster is in it since one account may hold several."""
    token = f"{cluster}/{key}"
    if len(token) <= TOKEN_LENGTH and re.fullmatch(r"[!-~]+", token):
        return token
    return _digest(cluster, key)


def server_name(cluster: str, pool: str, key: str) -> str:
    """A host name that no other slot has; the front is for people."""
    front = "-".join(part for text in (cluster, pool) if (part := _host_part(text)))
    return f"{front or 'ebbtide'}-{_digest(cluster, key)[:_NAME_DIGEST]}"


def _host_part(text: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", text.lower())[:_NAME_PART].strip("-")


def _digest(cluster: str, key: str) -> str:
    return hashlib.sha256(f"{cluster}\0{key}".encode()).hexdigest()


def label_value(text: str) -> str:
    """The text as a label value of Hetzner or Kubernetes, from which it can be read back.

    Letters and digits stay, `-` and `.` too except at the ends; anything else becomes `_` and two hex digits.
    """
    last = len(text) - 1
    value = "".join(
        char if _is_plain(char) or (char in "-." and 0 < place < last) else _escaped(char)
        for place, char in enumerate(text)
    )
    # A value may not begin with the mark of an escape, so such a one gets a letter that is taken off again.
    value = f"x{value}" if re.match("x*_", value) else value
    if len(value) > LABEL_LENGTH:
        raise Final(f"{text!r} does not fit into a label of {LABEL_LENGTH} characters: use a shorter name")
    return value


def _is_plain(char: str) -> bool:
    return char.isascii() and char.isalnum()


def _escaped(char: str) -> str:
    return "".join(f"_{byte:02x}" for byte in char.encode())


def read_label_value(value: str) -> str:
    value = value[1:] if re.match("x+_", value) else value
    raw = re.sub(
        rb"_([0-9a-f]{2})", lambda found: bytes([int(found[1], 16)]), value.encode("ascii", "replace")
    )
    return raw.decode(errors="replace")
