"""All tests in two lanes side by side, since most of them use one core: what computes (unit tests with their
coverage, simulations) and what talks to real servers. `make test` runs this.

The lane with servers is shown as it goes; what the other one printed comes after it, whole, so that its
figures are the last lines. Both run to their end, whatever becomes of the other.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import threading
import time
from typing import IO

PURE = "src/ebbtide/core/*,src/ebbtide/model/*"
PYTHON = sys.executable


def computing() -> list[list[str]]:
    return [
        [PYTHON, "-m", "coverage", "run", "-m", "pytest", "tests/unit"],
        [PYTHON, "-m", "coverage", "report", f"--include={PURE}", "--fail-under=100"],
        [PYTHON, "-m", "pytest", "tests/simulation"],
    ]


def serving(arguments: list[str]) -> list[list[str]]:
    return [
        [
            PYTHON,
            "-m",
            "pytest",
            "tests",
            "--ignore",
            "tests/unit",
            "--ignore",
            "tests/simulation",
            *arguments,
        ]
    ]


def run(commands: list[list[str]], out: IO[bytes] | None, failed: list[str]) -> None:
    for command in commands:
        began = time.monotonic()
        done = subprocess.run(command, stdout=out, stderr=subprocess.STDOUT if out else None, check=False)
        if done.returncode:
            failed.append(" ".join(command[2:]))
        took = f"-- {' '.join(command[2:6])} ...: {time.monotonic() - began:.0f} s\n".encode()
        if out is not None:
            out.write(took)
            out.flush()
        else:
            sys.stdout.buffer.write(took)
            sys.stdout.flush()


def main() -> int:
    failed: list[str] = []
    with tempfile.TemporaryFile() as kept:
        beside = threading.Thread(target=run, args=(computing(), kept, failed))
        beside.start()
        run(serving(sys.argv[1:]), None, failed)
        beside.join()
        kept.seek(0)
        sys.stdout.flush()
        os.write(sys.stdout.fileno(), b"\n== unit tests and simulations, run beside the others ==\n")
        while block := kept.read(65536):
            sys.stdout.buffer.write(block)
        sys.stdout.flush()
    for command in failed:
        print(f"failed: {command}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
