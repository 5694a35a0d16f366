"""The other version of the code: sources of an earlier revision, next to those of today.

By default that of the newest tag; where there is none, or its records have another format, the oldest
revision that has the tables and the format of the record as they are now, and whose libraries are installed
here. An earlier one would never open its ports, and only look as if it took part.
"""

from __future__ import annotations

import io
import subprocess
import tarfile
import tomllib
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
NEWEST_MIGRATION = ":(glob)src/**/versions/0003_targets.py"
RECORD = "src/ebbtide/model/record.py"
FORMAT = "FORMAT_VERSION ="
PROJECT = "pyproject.toml"
EXTRAS = ("aws", "kube", "postgres")
"""What the runners need in addition to the base installation."""


@dataclass(frozen=True)
class Other:
    """`sources` is None where there is no other version; `says` tells which it is, or why there is none."""

    sources: Path | None
    says: str


def other_version(wanted: str, folder: Path) -> Other:
    if wanted == "none":
        return Other(None, "one version of the code only, as asked for")
    try:
        revision = _git("rev-parse", "--verify", f"{wanted or _default()}^{{commit}}").decode().strip()
        if _format(revision) != _format("HEAD"):
            return Other(
                None, f"one version of the code only: {revision[:10]} has another format of the record"
            )
        packed = _git("archive", revision, "src")
    except (OSError, subprocess.CalledProcessError) as error:
        why = getattr(error, "stderr", b"") or str(error).encode()
        return Other(None, f"one version of the code only: {why.decode(errors='replace').strip()}")
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    said = _git("log", "-1", "--format=%h of %cs, %s", revision).decode().strip()
    ahead = _git("rev-list", "--count", f"{revision}..HEAD").decode().strip()
    return Other(folder / "src", f"two versions of the code: this one, and {said} ({ahead} commits before)")


def _default() -> str:
    try:
        tagged = _git("describe", "--tags", "--abbrev=0").decode().strip()
    except subprocess.CalledProcessError:
        tagged = ""
    if tagged and _format(tagged) == _format("HEAD") and not missing_libraries(_project(tagged)):
        return tagged
    tables = _git("log", "--diff-filter=A", "--format=%H", "--", NEWEST_MIGRATION).decode().split()
    formats = _git("log", f"-S{_format('HEAD')}", "--format=%H", "--", RECORD).decode().split()
    both = [each[-1] for each in (tables, formats) if each]
    if not both:
        return "HEAD~1"
    # The later of the two has both.
    oldest = _git("rev-list", "--no-walk", *both).decode().split()[0]
    changes = _git("log", "--reverse", "--format=%H", f"{oldest}..HEAD", "--", PROJECT).decode().split()
    runnable = (each for each in (oldest, *changes) if not missing_libraries(_project(each)))
    return next(runnable, "HEAD~1")


def missing_libraries(project: str) -> list[str]:
    """Requirements of a `pyproject.toml` that this environment does not meet."""
    read = tomllib.loads(project)["project"]
    extras = read["optional-dependencies"]
    wanted = [*read["dependencies"], *(each for extra in EXTRAS for each in extras.get(extra, ()))]
    return [each for each in wanted if not _installed(Requirement(each))]


def _installed(wanted: Requirement) -> bool:
    if wanted.marker is not None and not wanted.marker.evaluate():
        return True
    try:
        return wanted.specifier.contains(version(wanted.name), prereleases=True)
    except PackageNotFoundError:
        return False


def _project(revision: str) -> str:
    return _git("show", f"{revision}:{PROJECT}").decode()


def _format(revision: str) -> str:
    lines = _git("show", f"{revision}:{RECORD}").decode().splitlines()
    return next((line for line in lines if line.startswith(FORMAT)), "")


def _git(*arguments: str) -> bytes:
    done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, check=True)
    return done.stdout
