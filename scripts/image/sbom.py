"""What is in the image, as CycloneDX: the libraries by their metadata, the C libraries by Debian's package.

The same filesystem gives the same bytes: no time and no random number is in it.
"""

from __future__ import annotations

import hashlib
import json
import platform
import shutil
import subprocess
import sys
from collections.abc import Iterator
from importlib.metadata import distributions
from pathlib import Path
from typing import Any

PLACE = Path("usr/share/sbom/ebbtide.cdx.json")


def write_sbom(root: Path, packages: Path) -> None:
    listed = sorted([*_libraries(packages), _python(), *_c_libraries(root)], key=lambda one: one["bom-ref"])
    main = next(one for one in listed if one["name"] == "ebbtide")
    parts = [one for one in listed if one is not main]
    digest = hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()
    serial = f"{digest[:8]}-{digest[8:12]}-4{digest[13:16]}-8{digest[17:20]}-{digest[20:32]}"
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": {**main, "type": "application"}},
        "components": parts,
    }
    path = root / PLACE
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(document, indent=1, sort_keys=True) + "\n")


def _libraries(packages: Path) -> Iterator[dict[str, Any]]:
    for found in distributions(path=[str(packages)]):
        name, version = found.metadata["Name"], found.version
        purl = f"pkg:pypi/{name.lower().replace('_', '-')}@{version}"
        component: dict[str, Any] = {
            "type": "library",
            "name": name,
            "version": version,
            "purl": purl,
            "bom-ref": purl,
        }
        if "License-Expression" in found.metadata:
            component["licenses"] = [{"expression": found.metadata["License-Expression"]}]
        yield component


def _python() -> dict[str, Any]:
    version = platform.python_version()
    purl = f"pkg:generic/cpython@{version}"
    return {
        "type": "platform",
        "name": sys.implementation.name,
        "version": version,
        "purl": purl,
        "bom-ref": purl,
    }


def _c_libraries(root: Path) -> Iterator[dict[str, Any]]:
    """By file; with its package where this machine knows it."""
    for path in sorted(root.glob("lib*/**/*.so*")) + sorted(root.glob("usr/lib/**/*.so*")):
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
        package, version = _package_of(Path("/") / path.relative_to(root))
        component = {
            "type": "library",
            "name": package or path.name,
            "version": version or "unknown",
            "bom-ref": f"file:{path.relative_to(root)}",
            "hashes": [{"alg": "SHA-256", "content": digest}],
        }
        if package:
            component["purl"] = f"pkg:deb/debian/{package}@{version}"
        yield component


def _package_of(path: Path) -> tuple[str, str]:
    if shutil.which("dpkg-query") is None:
        return "", ""
    for name in (path, Path("/usr") / path.relative_to("/")):
        owner = subprocess.run(
            ["dpkg-query", "-S", str(name)], capture_output=True, text=True, check=False
        ).stdout
        package = owner.partition(":")[0]
        if package:
            asked = ["dpkg-query", "-W", "-f", "${Version}", package]
            return package, subprocess.run(asked, capture_output=True, text=True, check=False).stdout
    return "", ""
