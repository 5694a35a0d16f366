"""The keys of the HTTP API. Tokens are named by the digest of them: no secret is among these keys."""

from __future__ import annotations

import base64
from ipaddress import ip_address
from pathlib import Path
from typing import Literal

from pydantic import Field

from ebbtide.config.section import Section
from ebbtide.errors import ConfigError
from ebbtide.redact import keep

PORT = r"(6553[0-5]|655[0-2]\d|65[0-4]\d{2}|6[0-4]\d{3}|[1-5]\d{4}|\d{1,4})"
ADDRESS = rf"^(off|(\[[0-9A-Fa-f:.]+\]|[^\s:\[\]]+):{PORT})$"
LOOPBACK_NAMES = ("localhost", "127.0.0.1", "::1")


class TokenKeys(Section):
    name: str = Field(min_length=1, max_length=63, description="Who uses it; shown when it is refused.")
    scope: Literal["read", "wake", "admin"] = Field(
        description="What it may do; each scope includes the ones before it."
    )
    sha256: str = Field(
        pattern=r"^[0-9a-fA-F]{64}$",
        description="Digest of the token, as `ebbtide token new` prints it.",
        json_schema_extra={"allowed": "64 hexadecimal digits"},
    )
    expires: str = Field(
        "",
        pattern=r"^(\d{4}-\d{2}-\d{2})?$",
        description="First day (UTC) on which it is no longer valid.",
        json_schema_extra={"allowed": "a day such as 2027-01-31"},
    )


class ApiKeys(Section):
    listen: str = Field(
        "off",
        pattern=ADDRESS,
        description="Address of the API and the pages of `ebbtide run` and `ebbtide serve`.",
        json_schema_extra={"allowed": "HOST:PORT, such as 127.0.0.1:8808, or off"},
    )
    hosts: tuple[str, ...] = Field(
        LOOPBACK_NAMES, description="Host names that requests may use; `*` is any."
    )
    tokens: tuple[TokenKeys, ...] = Field(
        (),
        description="Who may use it; required to listen on more than loopback.",
        json_schema_extra={"allowed": "a list, each with name, scope and sha256"},
    )
    open_reading: bool = Field(
        True, description="Whether reading on loopback needs no token, as long as `tokens` is empty."
    )
    webhook_secrets_file: str = Field(
        "",
        description="File with the secrets of signed webhooks, one per line, newest first.",
        json_schema_extra={"allowed": "the path of a file"},
    )
    notify_url: str = Field(
        "",
        pattern=r"^(https?://[^\s/]+.*)?$",
        description="Where signed notifications of sleep and wake are sent.",
        json_schema_extra={"allowed": "a URL"},
    )
    notify_hosts: tuple[str, ...] = Field(
        (),
        description="Hosts that notifications may go to, as `name` or `*.domain`; without any, all but "
        "metadata services.",
    )
    rate_per_minute: int = Field(600, ge=1, le=1_000_000, description="Requests per minute and caller.")
    wakes_per_minute: int = Field(120, ge=1, le=1_000_000, description="Wakes per minute and caller.")
    max_holds: int = Field(
        500,
        ge=1,
        le=100_000,
        description="Gateway requests held at once; at most a quarter of the open-file limit.",
    )


def host_and_port(address: str) -> tuple[str, int]:
    host, _, port = address.rpartition(":")
    return host.strip("[]"), int(port)


def beyond_loopback(address: str) -> bool:
    host, _ = host_and_port(address)
    if host == "localhost":
        return False
    try:
        return not ip_address(host).is_loopback
    except ValueError:
        return True


def webhook_secrets(path: str) -> tuple[str, ...]:
    """Of the file, newest first; none where none is named."""
    if not path:
        return ()
    try:
        lines = Path(path).read_text().splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"api.webhook_secrets_file {path!r} cannot be read ({error}); nothing was "
            "touched. Make it, with one secret a line."
        ) from error
    found = tuple(keep(line.strip()) for line in lines)
    for number, secret in enumerate(found, 1):
        # Checked here and not at the first message: then every webhook would fail. A comment would be a
        # secret that everybody can guess.
        if secret and not _is_secret(secret):
            raise ConfigError(
                f"line {number} of api.webhook_secrets_file {path!r} is not a secret; nothing was touched. "
                "Write each as whsec_ and base64, one a line, and no comments."
            )
    return tuple(secret for secret in found if secret)


def _is_secret(text: str) -> bool:
    encoded = text.removeprefix("whsec_").rstrip("=")
    try:
        return bool(base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True))
    except ValueError:
        return False
