"""`make release`: everything that a release consists of, in build/release, and with --tag the tag of it.

    python -m scripts.release                  a dry run: builds and checks, tags nothing
    python -m scripts.release --tag            the same, then tags this commit; nothing is pushed

The tag is the last step: where anything before it fails, there is none, and the command can be repeated.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from ebbtide import __version__
from scripts.build_image import build as build_image
from scripts.image.rootfs import NotBuilt

ROOT = Path(__file__).parents[1]
CHART = Path("deploy/helm/ebbtide")
UNRELEASED = "not yet released"
SECTION = re.compile(
    r"^## (?P<version>\S+), (?P<date>[^\n]+)\n(?P<body>.*?)(?=^## |\Z)", re.DOTALL | re.MULTILINE
)


class NotReleased(Exception):
    """Why there is no release, what was left untouched, and what to do."""


def notes(changelog: str) -> tuple[str, str]:
    """The section of this version: its date and its text."""
    found = {one["version"]: one for one in SECTION.finditer(changelog)}
    section = found.get(__version__)
    if section is None or not section["body"].strip():
        raise NotReleased(f"CHANGELOG.md has no section for {__version__}; nothing was tagged. Write one.")
    return section["date"], section["body"].strip() + "\n"


def check(root: Path, tagging: bool) -> str:
    """The text of the changelog, where nothing speaks against a release."""
    date, text = notes((root / "CHANGELOG.md").read_text())
    if not tagging:
        return text
    if date == UNRELEASED:
        raise NotReleased(
            f"CHANGELOG.md calls {__version__} {UNRELEASED!r}; nothing was tagged. "
            "Put the date in its place and commit."
        )
    if changed := _git(root, "status", "--porcelain"):
        raise NotReleased(
            f"{len(changed.splitlines())} files are not committed, {changed.split()[1]} first; nothing was "
            "tagged. Commit them, or put them away."
        )
    if _git(root, "tag", "--list", tag()):
        raise NotReleased(
            f"the tag {tag()} is there already; nothing was changed. Raise __version__ for a new release."
        )
    return text


def tag() -> str:
    return f"v{__version__}"


def build(root: Path, out: Path, with_image: bool) -> list[Path]:
    shutil.rmtree(out, ignore_errors=True)
    out.mkdir(parents=True)
    command = [sys.executable, "-m", "hatchling", "build", "-d", str(out)]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReleased(f"the wheel cannot be built; nothing was tagged: {done.stderr.strip()[-500:]}")
    (wheel,) = out.glob("*.whl")
    if with_image:
        build_image(wheel, out)
        shutil.rmtree(out / "image")
    pack_chart(root / CHART, out / f"ebbtide-chart-{__version__}.tgz")
    return sorted(out.iterdir())


def pack_chart(chart: Path, archive: Path) -> None:
    """As `helm package` does it, and the same bytes each time."""
    ignored = {"ci", ".helmignore"}
    body = io.BytesIO()
    with tarfile.open(fileobj=body, mode="w", format=tarfile.PAX_FORMAT) as whole:
        for path in sorted(chart.rglob("*")):
            inside = path.relative_to(chart)
            if path.is_file() and inside.parts[0] not in ignored:
                entry = tarfile.TarInfo(f"ebbtide/{inside.as_posix()}")
                entry.size, entry.mode = path.stat().st_size, 0o644
                whole.addfile(entry, io.BytesIO(path.read_bytes()))
    archive.write_bytes(gzip.compress(body.getvalue(), mtime=0))


def write_sums(files: list[Path], out: Path) -> None:
    lines = [f"{hashlib.sha256(file.read_bytes()).hexdigest()}  {file.name}\n" for file in files]
    (out / "SHA256SUMS").write_text("".join(lines))


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=False)
    if done.returncode:
        raise NotReleased(f"git {arguments[0]} failed; nothing was tagged: {done.stderr.strip()}")
    return done.stdout.strip()


def release(root: Path, out: Path, tagging: bool, with_image: bool) -> None:
    text = check(root, tagging)
    files = build(root, out, with_image)
    (out / "NOTES.md").write_text(f"# Ebbtide {__version__}\n\n{text}")
    write_sums([*files, out / "NOTES.md"], out)
    print((out / "SHA256SUMS").read_text(), end="")
    if not tagging:
        print(f"Dry run: {tag()} was not tagged. `python -m scripts.release --tag` tags this commit.")
        return
    _git(root, "tag", "--annotate", tag(), "--file", str(out / "NOTES.md"), "--cleanup=verbatim")
    print(f"Tagged {tag()}. Push it with: git push origin {tag()}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="make release", description="Build a release; tag it with --tag.")
    parser.add_argument("--tag", action="store_true", help="tag this commit when all is built")
    parser.add_argument("--without-image", action="store_true", help="leave the container image out")
    parser.add_argument("--out", type=Path, default=ROOT / "build" / "release")
    asked = parser.parse_args()
    try:
        release(ROOT, asked.out, asked.tag, not asked.without_image)
    except (NotReleased, NotBuilt) as why:
        print(f"release: {why}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
