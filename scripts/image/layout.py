"""A filesystem as an OCI image layout of one layer. The same filesystem gives the same bytes."""

from __future__ import annotations

import gzip
import hashlib
import io
import json
import platform
import tarfile
from pathlib import Path
from typing import Any

from scripts.image.rootfs import CERTIFICATES, USER

MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}
PORT = 9808


def write_layout(root: Path, out: Path, name: str, version: str) -> str:
    """Writes the layout into the folder `out` and gives the digest of its manifest."""
    blobs = out / "blobs" / "sha256"
    blobs.mkdir(parents=True)
    plain = _layer(root)
    layer = _blob(blobs, gzip.compress(plain, 6, mtime=0))
    diff = f"sha256:{hashlib.sha256(plain).hexdigest()}"
    config = _blob(blobs, _json(_config(version, diff)))
    manifest = {
        "schemaVersion": 2,
        "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": {"mediaType": "application/vnd.oci.image.config.v1+json", **config},
        "layers": [{"mediaType": "application/vnd.oci.image.layer.v1.tar+gzip", **layer}],
    }
    described = _blob(blobs, _json(manifest))
    entry = {
        "mediaType": manifest["mediaType"],
        **described,
        "annotations": {"org.opencontainers.image.ref.name": f"{name}:{version}"},
    }
    (out / "oci-layout").write_bytes(_json({"imageLayoutVersion": "1.0.0"}))
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [entry]}
    (out / "index.json").write_bytes(_json(index))
    return str(described["digest"])


def write_archive(out: Path, archive: Path) -> None:
    """The layout as one file, as `skopeo copy oci-archive:FILE` and `podman load` take it."""
    with tarfile.open(archive, "w", format=tarfile.PAX_FORMAT) as whole:
        for path in sorted(out.rglob("*")):
            whole.add(path, path.relative_to(out).as_posix(), recursive=False, filter=_plain)


def _layer(root: Path) -> bytes:
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=tarfile.PAX_FORMAT) as layer:
        for path in sorted(root.rglob("*")):
            layer.add(path, path.relative_to(root).as_posix(), recursive=False, filter=_plain)
    return body.getvalue()


def _plain(entry: tarfile.TarInfo) -> tarfile.TarInfo:
    entry.uid = entry.gid = entry.mtime = 0
    entry.uname = entry.gname = ""
    return entry


def _config(version: str, diff: str) -> dict[str, Any]:
    return {
        "architecture": MACHINES.get(platform.machine(), platform.machine()),
        "os": "linux",
        "config": {
            "User": f"{USER}:{USER}",
            "Entrypoint": ["/usr/bin/ebbtide"],
            "Cmd": ["run", "--config", "/etc/ebbtide/ebbtide.yaml"],
            "Env": ["PATH=/usr/bin", f"SSL_CERT_FILE=/{CERTIFICATES}", "HOME=/tmp", "PYTHONUNBUFFERED=1"],
            "WorkingDir": "/tmp",
            "ExposedPorts": {f"{PORT}/tcp": {}},
            "Healthcheck": {
                "Test": ["CMD", "/usr/bin/ebbtide-health"],
                "Interval": 30_000_000_000,
                "Timeout": 10_000_000_000,
                "Retries": 4,
            },
            "Labels": {
                "org.opencontainers.image.title": "ebbtide",
                "org.opencontainers.image.version": version,
                "org.opencontainers.image.licenses": "Apache-2.0",
            },
        },
        "rootfs": {"type": "layers", "diff_ids": [diff]},
        "history": [{"created_by": "make image"}],
    }


def _blob(folder: Path, content: bytes) -> dict[str, Any]:
    digest = hashlib.sha256(content).hexdigest()
    (folder / digest).write_bytes(content)
    return {"digest": f"sha256:{digest}", "size": len(content)}


def _json(value: Any) -> bytes:
    return json.dumps(value, indent=1, sort_keys=True).encode()
