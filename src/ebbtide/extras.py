"""How an extra is added to the Ebbtide that runs here: the command that fits the way it was installed.

`pip install 'ebbtide[kube]'` is wrong for most: the libraries of pipx and uv are in a venv of their own, and
a wheel that was built or copied is in no index.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import unquote, urlsplit

NAME = "ebbtide"
_OPTIONAL = re.compile(r"""^([\w.-]+).*;.*\bextra\s*==\s*['"]([\w-]+)['"]""")
PIPX, UV_TOOL = "pipx_metadata.json", "uv-receipt.toml"
"""Files by which the two know their venvs."""
_UVX = "archive-v"
"""Folder of uv's cache from which `uvx` runs what it does not install."""


@dataclass(frozen=True, slots=True)
class Installed:
    prefix: Path
    """The venv, or the Python it is installed for."""
    source: str = NAME
    """The wheel, sdist or folder it came from; its name where it came from an index."""
    editable: bool = False
    extras: frozenset[str] = frozenset()
    """Whose libraries are all there. A new installation must not lose them."""
    has_pip: bool = True


def how_to_add(extra: str, here: Installed | None = None) -> str:
    """The command, to be run as it is."""
    found = here or installed()
    return _command(found, _with_extras(found, {*found.extras, extra}))


def how_to_add_library(library: str, here: Installed | None = None) -> str:
    """The same for a library that no extra has."""
    found = here or installed()
    if (found.prefix / PIPX).exists():
        return f"pipx inject ebbtide {library}"
    kept = _with_extras(found, found.extras)
    if (found.prefix / UV_TOOL).exists():
        return f"uv tool install --force --with {library} {kept}"
    if _by_uvx(found):
        return f"uvx --with {library} --from {kept} ebbtide"
    return _command(found, library)


def _command(found: Installed, wanted: str) -> str:
    if (found.prefix / PIPX).exists():
        return f"pipx install --force {wanted}"
    if (found.prefix / UV_TOOL).exists():
        return f"uv tool install --force {wanted}"
    if _by_uvx(found):
        return f"uvx --from {wanted} ebbtide"
    python = found.prefix / "bin" / "python"
    return (
        f"{python} -m pip install {wanted}" if found.has_pip else f"uv pip install --python {python} {wanted}"
    )


def _with_extras(found: Installed, extras: Iterable[str]) -> str:
    listed = ",".join(sorted(extras))
    quoted = f"'{found.source}[{listed}]'" if listed else f"'{found.source}'"
    return f"-e {quoted}" if found.editable else quoted


def _by_uvx(found: Installed) -> bool:
    return found.prefix.parent.name.startswith(_UVX)


def installed() -> Installed:
    """What is known of this installation. Without its metadata, as in a zip, only its name."""
    prefix, has_pip = Path(sys.prefix), find_spec("pip") is not None
    try:
        found = metadata.distribution(NAME)
    except metadata.PackageNotFoundError:
        return Installed(prefix, has_pip=has_pip)
    source, editable = source_of(found.read_text("direct_url.json") or "{}")
    return Installed(prefix, source, editable, extras_there(found.requires or ()), has_pip)


def source_of(direct_url: str) -> tuple[str, bool]:
    """Where pip, pipx or uv say that it came from, and whether the folder itself is used."""
    told = json.loads(direct_url)
    parts = urlsplit(told.get("url", ""))
    path = unquote(parts.path) if parts.scheme == "file" else ""
    return path or told.get("url") or NAME, bool(told.get("dir_info", {}).get("editable"))


def extras_there(requires: Iterable[str]) -> frozenset[str]:
    """Of the optional requirements, the extras of which nothing is missing."""
    optional = [match.groups() for line in requires if (match := _OPTIONAL.match(line))]
    named = {extra for library, extra in optional if library != NAME}
    return frozenset(named - {extra for library, extra in optional if not _there(library)})


def _there(library: str) -> bool:
    try:
        metadata.distribution(library)
    except metadata.PackageNotFoundError:
        return False
    return True
