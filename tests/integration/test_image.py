"""The container image: what is in it, and that it runs without root, without a shell, on a read-only root."""

from __future__ import annotations

import hashlib
import http.server
import json
import os
import re
import shutil
import stat
import subprocess
import sys
import tarfile
import threading
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from ebbtide import __version__
from scripts.build_image import build
from scripts.image.layout import write_archive, write_layout
from scripts.image.rootfs import LOCK, USER
from tests.servers.having import leave_out

ROOT = Path(__file__).parents[2]
ENTER = """\
set -e
mount --bind "$1" "$1"
mount -o remount,ro,bind "$1"
mount -t tmpfs -o mode=1777 tmpfs "$1/tmp"
root=$1; shift
exec /usr/sbin/chroot --userspec="$USER_IDS" "$root" "$@"
"""
"""As a container runtime would: everything read-only but /tmp, and nobody in particular."""


@dataclass(frozen=True)
class Image:
    folder: Path
    root: Path

    def blob(self, digest: str) -> bytes:
        content = (self.folder / "image" / "blobs" / "sha256" / digest.partition(":")[2]).read_bytes()
        assert f"sha256:{hashlib.sha256(content).hexdigest()}" == digest
        return content

    @property
    def manifest(self) -> Any:
        (entry,) = json.loads((self.folder / "image" / "index.json").read_bytes())["manifests"]
        return json.loads(self.blob(entry["digest"]))

    @property
    def config(self) -> Any:
        return json.loads(self.blob(self.manifest["config"]["digest"]))

    def run(self, *command: str, code: int = 0, environ: Mapping[str, str] | None = None) -> str:
        own = dict(one.split("=", 1) for one in self.config["config"]["Env"])
        ids = self.config["config"]["User"]
        done = subprocess.run(
            ["unshare", "-m", "/bin/sh", "-c", ENTER, "enter", str(self.root), *command],
            env={**own, **(environ or {}), "USER_IDS": ids, "PATH": "/usr/bin:/usr/sbin:/bin:/sbin"},
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Image]:
    if os.geteuid() != 0 or shutil.which("unshare") is None:
        leave_out("entering the filesystem of an image needs root and unshare")
    folder = tmp_path_factory.mktemp("image")
    command = [sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder)]
    subprocess.run(command, cwd=ROOT, capture_output=True, check=True, timeout=60)
    (wheel,) = folder.glob("*.whl")
    build(wheel, Path(os.path.relpath(folder)))  # as `make image` names it
    made = Image(folder, folder / "root")
    made.root.mkdir()
    (layer,) = made.manifest["layers"]
    packed = folder / "layer.tar.gz"
    packed.write_bytes(made.blob(layer["digest"]))
    with tarfile.open(packed) as tar:
        tar.extractall(made.root, filter="fully_trusted")
    yield made
    shutil.rmtree(folder, ignore_errors=True)


@pytest.mark.timeout(900)
def test_it_runs_without_root_on_a_read_only_root(image: Image) -> None:
    entry = image.config["config"]["Entrypoint"]
    assert image.run(*entry, "--version") == f"ebbtide {__version__}\n"
    own = {"STORE_URL": "sqlite:////tmp/ebbtide.db", "CLUSTER_FILE": "/tmp/simulated.json"}
    assert "the first run makes it" in image.run(*entry, "doctor", environ=own)
    assert "nothing to do" in image.run(*entry, "once", environ=own)
    python = next(image.root.glob("opt/python/bin/python3*")).relative_to(image.root)
    loads = "import boto3, hcloud, highspy, numpy, psycopg, fastapi, uvloop, ssl, sqlite3"
    loads += "; print('all')"
    assert image.run(f"/{python}", "-c", loads) == "all\n"
    refused = "import pathlib; pathlib.Path('/etc/new').write_text('x')"
    image.run(f"/{python}", "-c", refused, code=1)


@pytest.mark.timeout(900)
def test_there_is_no_shell_no_program_but_ours_and_nothing_that_raises_rights(image: Image) -> None:
    runnable, writable = [], []
    for path in image.root.rglob("*"):
        mode = path.lstat().st_mode
        assert not mode & (stat.S_ISUID | stat.S_ISGID), path
        if path.is_file() and mode & 0o111:
            runnable.append(path.relative_to(image.root).as_posix())
        if mode & 0o222:
            writable.append(path.relative_to(image.root).as_posix())
    loaders = [name for name in runnable if "ld-linux" in name]
    python = f"opt/python/bin/python{sys.version_info.major}.{sys.version_info.minor}"
    assert sorted(set(runnable) - set(loaders)) == [python, "usr/bin/ebbtide", "usr/bin/ebbtide-health"]
    assert writable == ["tmp"]


@pytest.mark.timeout(900)
def test_no_library_that_a_wheel_brought_is_there_a_second_time(image: Image) -> None:
    brought = {path.name for path in (image.root / "opt").rglob("*.so*")}
    beside_libc = {path.name for path in next(image.root.rglob("libc.so.6")).parent.iterdir()}
    assert "libc.so.6" in beside_libc
    assert brought & beside_libc == set()


@pytest.mark.timeout(900)
def test_the_healthcheck_asks_the_process_and_needs_no_shell(image: Image) -> None:
    kind, *command = image.config["config"]["Healthcheck"]["Test"]
    assert kind == "CMD"

    class Healthy(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200 if self.path == "/healthz" else 404)
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Healthy) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        image.run(*command, environ={"METRICS_ADDR": f"0.0.0.0:{server.server_address[1]}"})
        server.shutdown()
        thread.join()
        gone = f"127.0.0.1:{server.server_address[1]}"
    image.run(*command, code=1, environ={"METRICS_ADDR": gone})


@pytest.mark.timeout(900)
def test_the_bill_of_materials_lists_every_locked_library_and_the_c_libraries(image: Image) -> None:
    listed = json.loads((image.root / "usr/share/sbom/ebbtide.cdx.json").read_text())
    assert listed["bomFormat"] == "CycloneDX"
    main = listed["metadata"]["component"]
    assert (main["name"], main["version"]) == ("ebbtide", __version__)
    found = {(one["name"].lower().replace("_", "-"), one["version"]) for one in listed["components"]}
    wanted = re.findall(r"^([a-z0-9.-]+)==(\S+)( ;.*)?", LOCK.read_text(), re.MULTILINE)
    everywhere = {(name, version) for name, version, marker in wanted if not marker.strip()}
    assert everywhere <= found
    assert any(name.startswith("libc6") or name == "libc.so.6" for name, _ in found)


@pytest.mark.timeout(900)
def test_image_chart_manifests_and_containerfile_agree(image: Image) -> None:
    config = image.config["config"]
    assert config["Labels"]["org.opencontainers.image.version"] == __version__
    user = f"{USER}:{USER}"
    text = (ROOT / "Containerfile").read_text()
    assert (config["User"], f"USER {user}" in text) == (user, True)
    assert f"CMD {json.dumps(config['Cmd'])}" in text
    for name in ("requirements-image.lock",):
        assert name in text
        assert (ROOT / name).exists()
    helpers = (ROOT / "deploy/helm/ebbtide/templates/_helpers.tpl").read_text()
    assert f"runAsUser: {USER}" in helpers
    documents = yaml.safe_load_all((ROOT / "deploy/manifests/ebbtide.yaml").read_text())
    (deployment,) = (one for one in documents if one["kind"] == "Deployment")
    pod = deployment["spec"]["template"]["spec"]
    assert pod["securityContext"]["runAsUser"] == USER
    assert pod["containers"][0]["args"] == config["Cmd"]


def test_the_same_filesystem_gives_the_same_image(tmp_path: Path) -> None:
    root = tmp_path / "root"
    (root / "usr").mkdir(parents=True)
    (root / "usr" / "one").write_text("1")
    digests = []
    for name, at in (("a", 1), ("b", 2)):
        os.utime(root / "usr" / "one", (at, at))
        digests.append(write_layout(root, tmp_path / name, "ebbtide", "1"))
        write_archive(tmp_path / name, tmp_path / f"{name}.tar")
    assert digests[0] == digests[1]
    assert (tmp_path / "a.tar").read_bytes() == (tmp_path / "b.tar").read_bytes()
