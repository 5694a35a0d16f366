"""Wheel and sdist: the same bytes wherever they are built, and a wheel that works without the source."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
import tomllib
import venv
import zipfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from ebbtide import __version__
from tests.e2e.shell import clean_environment
from tests.servers.having import leave_out

ROOT = Path(__file__).parents[2]
SOURCES = ("src", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore")
WHEEL = f"ebbtide-{__version__}-py3-none-any.whl"
SDIST = f"ebbtide-{__version__}.tar.gz"
UV, PIPX = "uv==0.13.7", "pipx==1.18.4"
MOST_BYTES = 130_000_000


def build(source: Path, folder: Path) -> dict[str, bytes]:
    """With the library of the lock: nothing is fetched."""
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(folder)]
    done = subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    return {path.name: path.read_bytes() for path in sorted(folder.iterdir())}


def copy_of_the_source(folder: Path) -> Path:
    """As another person has it: other times, other modes, and what a run leaves behind."""
    for name in SOURCES:
        if (ROOT / name).is_dir():
            shutil.copytree(ROOT / name, folder / name)
        else:
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(ROOT / name, folder / name)
    for path in sorted(folder.rglob("*.py"))[::3]:
        os.utime(path, (86_400, 86_400))
        path.chmod(0o600)
    (folder / "src" / "ebbtide" / "__pycache__").mkdir(exist_ok=True)
    (folder / "src" / "ebbtide" / "__pycache__" / "left.cpython-311.pyc").write_bytes(b"left behind")
    (folder / "ebbtide.db").write_bytes(b"a record of somebody")
    return folder


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    build(ROOT, folder)
    return folder


def test_the_same_source_gives_the_same_bytes_wherever_and_whenever_it_is_built(
    dist: Path, tmp_path: Path
) -> None:
    built = {path.name: path.read_bytes() for path in sorted(dist.iterdir())}
    assert sorted(built) == [WHEEL, SDIST]
    assert build(copy_of_the_source(tmp_path / "elsewhere"), tmp_path / "again") == built


def test_wheel_and_sdist_hold_what_is_needed_and_nothing_that_a_run_leaves_behind(dist: Path) -> None:
    source = {
        path.relative_to(ROOT / "src").as_posix()
        for path in (ROOT / "src" / "ebbtide").rglob("*")
        if path.is_file() and path.suffix != ".pyc"
    }
    with zipfile.ZipFile(dist / WHEEL) as wheel:
        names = set(wheel.namelist())
    assert source == {name for name in names if name.startswith("ebbtide/")}
    with tarfile.open(dist / SDIST) as sdist:
        kept = {name.partition("/")[2] for name in sdist.getnames()}
    assert {f"src/{name}" for name in source} <= kept
    assert {"LICENSE", "README.md", "CHANGELOG.md", "pyproject.toml"} <= kept


@dataclass(frozen=True)
class Machine:
    """A folder with its own programs and a home; the source of Ebbtide is not on it."""

    folder: Path

    def run(self, *command: str, code: int = 0, seconds: int = 240, error: bool = False) -> str:
        own = {
            "HOME": str(self.folder),
            "PATH": f"{self.folder}/bin:{self.folder}/.local/bin:/usr/bin:/bin",
            "UV_TOOL_DIR": str(self.folder / "tools"),
            "UV_TOOL_BIN_DIR": str(self.folder / ".local" / "bin"),
            "UV_PYTHON": sys.executable,
            "UV_NO_PROGRESS": "1",
            "PIPX_DEFAULT_PYTHON": sys.executable,
        }
        given = {name: value for name, value in clean_environment(own).items() if name != "PYTHONPATH"}
        done = subprocess.run(
            command, cwd=self.folder, env=given, capture_output=True, text=True, timeout=seconds, check=False
        )
        assert done.returncode == code, f"{command}:\n{done.stdout}\n{done.stderr}"
        return done.stderr if error else done.stdout

    @property
    def python(self) -> str:
        return str(self.folder / "bin" / "python")


@pytest.fixture(scope="module")
def machine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    found = Machine(tmp_path_factory.mktemp("machine"))
    venv.create(found.folder, with_pip=True)
    pip = [found.python, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet"]
    done = subprocess.run([*pip, UV, PIPX], capture_output=True, text=True, timeout=240, check=False)
    if done.returncode:
        leave_out(f"no package index can be reached ({done.stderr.strip()[-200:]})")
    yield found
    shutil.rmtree(found.folder, ignore_errors=True)


def test_installed_from_the_wheel_alone_the_command_works(dist: Path, machine: Machine) -> None:
    machine.run("uv", "tool", "install", "--quiet", str(dist / WHEEL))
    works_as_installed(machine)
    size = sum(path.lstat().st_size for path in (machine.folder / "tools").rglob("*") if path.is_file())
    assert size < MOST_BYTES, f"{size / 1e6:.0f} MB"
    machine.run("uv", "tool", "uninstall", "--quiet", "ebbtide")
    assert not (machine.folder / ".local" / "bin" / "ebbtide").exists()


def test_pipx_installs_the_wheel_and_takes_it_away_again(dist: Path, machine: Machine) -> None:
    machine.run("pipx", "install", "--quiet", str(dist / WHEEL))
    assert machine.run("ebbtide", "--version") == f"ebbtide {__version__}\n"
    machine.run("pipx", "uninstall", "ebbtide")
    assert not (machine.folder / ".local" / "bin" / "ebbtide").exists()


def test_the_command_that_is_named_adds_the_extra_to_this_installation(dist: Path, machine: Machine) -> None:
    machine.run("uv", "tool", "install", "--quiet", "--force", f"{dist / WHEEL}[kube]")
    told = machine.run("ebbtide", "serve", code=2, error=True)
    assert "fastapi is not installed; nothing was touched" in told
    command = shlex.split(told.partition("Run: ")[2])
    assert command == ["uv", "tool", "install", "--force", f"{dist / WHEEL}[api,kube]"]
    machine.run(*command)
    (tool,) = (machine.folder / "tools").glob("*/bin/python")
    machine.run(str(tool), "-c", "import fastapi, prometheus_client, uvicorn")
    machine.run("uv", "tool", "uninstall", "--quiet", "ebbtide")


def test_uvx_runs_the_wheel_without_installing_it(dist: Path, machine: Machine) -> None:
    told = machine.run("uvx", "--quiet", "--from", str(dist / WHEEL), "ebbtide", "--version")
    assert told == f"ebbtide {__version__}\n"


def test_pip_installs_from_the_sdist_too(dist: Path, machine: Machine) -> None:
    venv.create(machine.folder / "plain")
    python = str(machine.folder / "plain" / "bin" / "python")
    machine.run("uv", "pip", "install", "--quiet", "--python", python, str(dist / SDIST))
    told = machine.run(str(machine.folder / "plain" / "bin" / "ebbtide"), "--version")
    assert told == f"ebbtide {__version__}\n"


def works_as_installed(machine: Machine) -> None:
    assert machine.run("ebbtide", "--version") == f"ebbtide {__version__}\n"
    assert "--terminal" in machine.run("ebbtide", "demo", "--help")
    told = json.loads(machine.run("ebbtide", "simulate", "--scenario", "day", "--json"))
    assert told["violations"] == []
    assert told["launched"] > 0
    where = "import ebbtide, sys; print(ebbtide.__file__)"
    (tool,) = (machine.folder / "tools").glob("*/bin/python")
    assert machine.run(str(tool), "-c", where).startswith(str(machine.folder))


def test_the_version_is_written_once_and_what_is_deployed_agrees_with_it() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert "version" in project["dynamic"]
    chart = yaml.safe_load((ROOT / "deploy/helm/ebbtide/Chart.yaml").read_text())
    assert (chart["version"], chart["appVersion"]) == (__version__, __version__)
    manifests = list(yaml.safe_load_all((ROOT / "deploy/manifests/ebbtide.yaml").read_text()))
    (deployment,) = (one for one in manifests if one["kind"] == "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["image"].rpartition(":")[2] == __version__
    newest = re.search(r"^## (\S+?),", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert newest is not None
    assert newest[1] == __version__
