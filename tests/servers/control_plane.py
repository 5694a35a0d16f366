"""The binaries of a real control plane, and Helm: from KUBEBUILDER_ASSETS, or built once into a cache.

    python -m tests.servers.control_plane        builds what is missing and prints the folders

A binary is moved into the cache only when it is whole, so an interrupted build leaves nothing behind.
`Unavailable` says what is missing where it cannot be had.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import tempfile
import time
from collections.abc import Mapping
from functools import cache
from pathlib import Path

VERSION = "1.37.1"
NEEDED = ("kube-apiserver", "kubectl", "kube-controller-manager", "kube-scheduler", "kube-proxy")
BUILD_SECONDS = 3600
BUILDER = "EBBTIDE_BUILDER"
HELM_VERSION = "3.22.0"
HELM_MODULE = "helm.sh/helm/v3"
STAMP = "-X k8s.io/component-base/version.gitVersion=v{v} -X k8s.io/client-go/pkg/version.gitVersion=v{v}"


class Unavailable(Exception):
    """Why this machine cannot run the server."""


def ensure_control_plane(build: bool = True) -> Path:
    """The folder that holds every binary of `NEEDED`."""
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and all((Path(given) / name).exists() for name in NEEDED[:2]):
        return Path(given)
    if not build:
        await_build()
    folder = cache_folder() / f"kubernetes-{VERSION}"
    missing = [name for name in NEEDED if not (folder / name).exists()]
    if not missing:
        return folder
    if not build:
        late = " (its build has failed; the log is next to the cache)" if os.environ.get(BUILDER) else ""
        raise Unavailable(f"{missing[0]} is not in the cache{late}: build it with make control-plane")
    if shutil.which("go") is None:
        raise Unavailable("neither KUBEBUILDER_ASSETS is set nor is there a Go toolchain to build from")
    folder.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="build-", dir=folder))
    try:
        _write_module(work)
        for name in missing:
            _build(name, work, folder)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return folder


def ensure_helm(build: bool = True) -> Path:
    """The path of Helm, of exactly this version: another may render another chart."""
    if not build:
        await_build()
    helm = cache_folder() / f"helm-{HELM_VERSION}" / "helm"
    if helm.exists():
        return helm
    if not build:
        raise Unavailable("helm is not in the cache: build it with make control-plane")
    if shutil.which("go") is None:
        raise Unavailable("there is no Go toolchain to build helm with")
    helm.parent.mkdir(parents=True, exist_ok=True)
    work = Path(tempfile.mkdtemp(prefix="build-", dir=helm.parent))
    try:
        install = [
            "go",
            "install",
            "-trimpath",
            "-ldflags",
            _helm_stamp(),
            f"{HELM_MODULE}/cmd/helm@v{HELM_VERSION}",
        ]
        _run(_nice(install), work, "helm could not be built", {"GOBIN": str(work)})
        (work / "helm").rename(helm)
    finally:
        shutil.rmtree(work, ignore_errors=True)
    return helm


def _helm_stamp() -> str:
    """What a released Helm says of itself, and of the Kubernetes that it renders for without a cluster."""
    major, minor = VERSION.split(".")[:2]
    stamps = [f"{HELM_MODULE}/internal/version.version=v{HELM_VERSION}"]
    for package in ("pkg/chartutil", "pkg/lint/rules"):
        stamps += [f"{HELM_MODULE}/{package}.k8sVersionMajor={major}"]
        stamps += [f"{HELM_MODULE}/{package}.k8sVersionMinor={minor}"]
    return "-s -w " + " ".join(f"-X {stamp}" for stamp in stamps)


@cache
def await_build() -> None:
    """Where the binaries are built next to the tests (`BUILDER` is the process that does it): until they are
    there, or that process has ended without them."""
    builder = int(os.environ.get(BUILDER) or 0)
    while builder and _lives(builder) and not all_built():
        time.sleep(1)


def all_built() -> bool:
    return complete() and (cache_folder() / f"helm-{HELM_VERSION}" / "helm").exists()


def complete() -> bool:
    given = os.environ.get("KUBEBUILDER_ASSETS")
    if given and all((Path(given) / name).exists() for name in NEEDED[:2]):
        return True
    folder = cache_folder() / f"kubernetes-{VERSION}"
    return all((folder / name).exists() for name in NEEDED)


def _lives(process: int) -> bool:
    """A child of somebody else that has ended may still be there as a zombie."""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def ensure_etcd() -> str:
    """The path of etcd, installed from Debian where that is possible."""
    return ensure_debian("etcd", "etcd-server")


def ensure_debian(command: str, package: str) -> str:
    given = Path(os.environ.get("KUBEBUILDER_ASSETS", "/nonexistent")) / command
    if given.exists():
        return str(given)
    found = shutil.which(command)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        quiet = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", package]
        calm = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
        for step in (["apt-get", "update", "-qq"], quiet):
            subprocess.run(step, env=calm, capture_output=True, check=False, timeout=300)
        found = shutil.which(command)
    if found is None:
        raise Unavailable(f"there is no {command}: install Debian's {package}")
    return found


def cache_folder() -> Path:
    return Path(os.environ.get("EBBTIDE_CACHE") or Path.home() / ".cache" / "ebbtide")


def _write_module(work: Path) -> None:
    """A module that requires Kubernetes and replaces its staging modules by those published with it."""
    asked = ["go", "mod", "download", "-json", f"k8s.io/kubernetes@v{VERSION}"]
    (work / "go.mod").write_text("module ebbtide.dev/control-plane\n")
    facts = json.loads(_run(asked, work, "Kubernetes could not be downloaded"))
    source = Path(facts["GoMod"]).read_text()
    staging = re.findall(r"^\s*(k8s\.io/\S+) v0\.0\.0(?:\s|$)", source, re.MULTILINE)
    go = re.search(r"^go (\S+)", source, re.MULTILINE)
    published = "v0." + VERSION.split(".", 1)[1]
    lines = ["module ebbtide.dev/control-plane", f"go {go[1] if go else '1.26'}"]
    lines += [f"require k8s.io/kubernetes v{VERSION}"]
    lines += [f"replace {name} => {name} {published}" for name in sorted(set(staging))]
    (work / "go.mod").write_text("\n".join(lines) + "\n")


def _build(name: str, work: Path, folder: Path) -> None:
    made = work / name
    flags = f"-s -w {STAMP.format(v=VERSION)}"
    package = f"k8s.io/kubernetes/cmd/{name}"
    command = ["go", "build", "-mod=mod", "-trimpath", "-ldflags", flags, "-o", str(made), package]
    _run(_nice(command), work, f"{name} could not be built")
    made.rename(folder / name)


def _nice(command: list[str]) -> list[str]:
    return ["nice", "-n", "15", *command] if shutil.which("nice") else command


def _run(command: list[str], work: Path, complaint: str, more: Mapping[str, str] | None = None) -> str:
    calm = {**os.environ, "CGO_ENABLED": "0", **(more or {})}
    try:
        done = subprocess.run(
            command, cwd=work, env=calm, capture_output=True, timeout=BUILD_SECONDS, check=False
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise Unavailable(f"{complaint} ({type(error).__name__})") from error
    if done.returncode:
        raise Unavailable(f"{complaint}: {(done.stderr or done.stdout).decode(errors='replace')[-500:]}")
    return done.stdout.decode()


if __name__ == "__main__":
    print(ensure_control_plane(), ensure_helm())
