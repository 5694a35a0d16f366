"""A folder and the command in it, as processes of their own with a clean environment."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ebbtide.config.problems import leaf_fields, variable_of

COMMAND = Path(sys.executable).with_name("ebbtide")


def clean_environment(more: Mapping[str, str] | None = None) -> dict[str, str]:
    ours = {variable_of(path) for path, _ in leaf_fields()} | {"EBBTIDE_CONFIG", "FORCE_COLOR"}
    kept = {name: value for name, value in os.environ.items() if name not in ours}
    return {**kept, "NO_COLOR": "1", "TERM": "dumb", "COLUMNS": "100", **(more or {})}


@dataclass(frozen=True, slots=True)
class Outcome:
    code: int
    out: str
    err: str


@dataclass(frozen=True, slots=True)
class Shell:
    folder: Path

    def run(self, *arguments: str, code: int = 0, environ: Mapping[str, str] | None = None) -> Outcome:
        """Run `ebbtide` and insist on its exit code."""
        done = subprocess.run(
            [COMMAND, *arguments],
            cwd=self.folder,
            env=clean_environment(environ),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == code, (
            f"{arguments} ended with {done.returncode}:\n{done.stdout}\n{done.stderr}"
        )
        return Outcome(done.returncode, done.stdout, done.stderr)

    def write(self, name: str, text: str) -> Path:
        path = self.folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def files(self) -> list[str]:
        return sorted(path.name for path in self.folder.iterdir())

    def contents(self) -> dict[str, bytes]:
        return {path.name: path.read_bytes() for path in sorted(self.folder.iterdir())}
