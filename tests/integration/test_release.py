"""`make release` in a repository of its own: what it builds, and what keeps it from tagging."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml

from ebbtide import __version__

ROOT = Path(__file__).parents[2]
TAG = f"v{__version__}"
KEPT = ("src", "scripts", "deploy", "pyproject.toml", "README.md", "LICENSE", "CHANGELOG.md", ".gitignore")


class Repository:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for name in KEPT:
            source = ROOT / name
            if source.is_dir():
                shutil.copytree(source, folder / name, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copyfile(source, folder / name)
        self.git("init", "--quiet")
        self.git("add", "--all")
        self.commit("first")

    def git(self, *arguments: str) -> str:
        who = ["-c", "user.name=test", "-c", "user.email=test@example.org", "-c", "commit.gpgsign=false"]
        done = subprocess.run(
            ["git", *who, *arguments], cwd=self.folder, capture_output=True, text=True, check=True
        )
        return done.stdout

    def commit(self, says: str) -> None:
        self.git("commit", "--quiet", "--all", "--message", says)

    def release(self, *arguments: str, code: int = 0) -> str:
        own = {
            **os.environ,
            "PYTHONPATH": f"{self.folder / 'src'}:{self.folder}",
            "GIT_CONFIG_GLOBAL": "/dev/null",
        }
        own |= {
            f"GIT_{role}_{what}": "test" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")
        }
        done = subprocess.run(
            [sys.executable, "-m", "scripts.release", "--without-image", *arguments],
            cwd=self.folder,
            env=own,
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return done.stdout + done.stderr

    def date(self, text: str) -> None:
        changelog = self.folder / "CHANGELOG.md"
        changelog.write_text(changelog.read_text().replace("not yet released", text, 1))


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    return Repository(tmp_path)


def test_a_dry_run_builds_all_of_it_twice_the_same_and_tags_nothing(repository: Repository) -> None:
    told = repository.release()
    assert f"Dry run: {TAG} was not tagged" in told
    out = repository.folder / "build" / "release"
    first = {path.name: path.read_bytes() for path in out.iterdir()}
    assert sorted(first) == [
        "NOTES.md",
        "SHA256SUMS",
        f"ebbtide-{__version__}-py3-none-any.whl",
        f"ebbtide-{__version__}.tar.gz",
        f"ebbtide-chart-{__version__}.tgz",
    ]
    for line in first["SHA256SUMS"].decode().splitlines():
        digest, name = line.split("  ")
        assert hashlib.sha256(first[name]).hexdigest() == digest
    assert f"# Ebbtide {__version__}" in first["NOTES.md"].decode()
    repository.release()
    assert {path.name: path.read_bytes() for path in out.iterdir()} == first
    assert repository.git("tag") == ""


def test_the_chart_of_a_release_holds_the_chart_and_not_its_examples(repository: Repository) -> None:
    repository.release()
    archive = repository.folder / "build" / "release" / f"ebbtide-chart-{__version__}.tgz"
    with tarfile.open(archive) as packed:
        names = packed.getnames()
        about = packed.extractfile("ebbtide/Chart.yaml")
        assert about is not None
        assert yaml.safe_load(about.read())["version"] == __version__
    assert {"ebbtide/values.schema.json", "ebbtide/templates/NOTES.txt", "ebbtide/README.md"} <= set(names)
    assert not any("/ci/" in name for name in names)


def test_a_release_is_tagged_once_with_its_notes(repository: Repository) -> None:
    repository.date("2026-11-16")
    repository.commit("date")
    assert f"Tagged {TAG}" in repository.release("--tag")
    assert f"# Ebbtide {__version__}" in repository.git("tag", "--list", "-n99", TAG)
    again = repository.release("--tag", code=1)
    assert f"the tag {TAG} is there already; nothing was changed" in again


def test_what_is_not_dated_or_not_committed_is_not_tagged(repository: Repository) -> None:
    assert "'not yet released'; nothing was tagged" in repository.release("--tag", code=1)
    repository.date("2026-11-16")
    assert "1 files are not committed, CHANGELOG.md first" in repository.release("--tag", code=1)
    (repository.folder / "CHANGELOG.md").write_text("# Changelog\n")
    assert f"CHANGELOG.md has no section for {__version__}" in repository.release(code=1)
    assert repository.git("tag") == ""
