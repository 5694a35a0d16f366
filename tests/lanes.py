"""All tests, in pieces that two lanes take in turn, since most of them use one core. `make test` runs this.

What cannot be run here is said first, with how to get it. A piece is shown when it has ended, whole; all run
to their end, whatever becomes of the others. The tests on a real control plane are the last piece: it may
still be being built.

Tests with browsers, command lines and control planes share the machine with everything else. Where a few of
these fail, they run once more at the end, by themselves, and the last lines name each that passed only then.
Nothing else gets a second attempt: a race or a rule that fails once is wrong.
"""

from __future__ import annotations

import json
import os
import queue
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import ON_A_CONTROL_PLANE
from tests.servers.having import ALL, control_plane_being_built, missing

PURE = "src/ebbtide/core/*,src/ebbtide/model/*"
PYTHON = sys.executable
LANES = 2
TESTS = Path(__file__).parent
LONG = ("simulation", "integration", "unit", "contract", "e2e")
"""These first, the longest before the others, so the lanes end at about the same time."""


CONTROL_PLANE = "control plane"
SECOND_ATTEMPT = ("integration", "e2e", CONTROL_PLANE)
FEW = 4


@dataclass
class Piece:
    name: str
    commands: list[list[str]]
    failed: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def cache(self) -> Path:
        """Of its own: pieces run at the same time, and each must know what failed in it."""
        return TESTS.parent / ".pytest_cache" / self.name.replace(" ", "_")

    def failed_tests(self) -> list[str]:
        found = self.cache / "v" / "cache" / "lastfailed"
        return sorted(json.loads(found.read_text())) if found.exists() else []


def pieces(arguments: list[str]) -> list[Piece]:
    """One for each folder with tests in it, so a new folder is not forgotten."""
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")}
    order = sorted(folders, key=lambda name: (LONG.index(name) if name in LONG else len(LONG), name))
    found = [Piece(name, commands_of(name, arguments)) for name in order]
    last = [PYTHON, "-m", "pytest", *ON_A_CONTROL_PLANE, *arguments]
    return [*found, Piece(CONTROL_PLANE, [last])]


def commands_of(name: str, arguments: list[str]) -> list[list[str]]:
    run = ["pytest", f"tests/{name}", *ignored(name), *arguments]
    if name != "unit":
        return [[PYTHON, "-m", *run]]
    return [
        [PYTHON, "-m", "coverage", "run", "-m", *run],
        [PYTHON, "-m", "coverage", "report", f"--include={PURE}", "--fail-under=100"],
    ]


def ignored(name: str) -> list[str]:
    mine = [path for path in ON_A_CONTROL_PLANE if path.startswith(f"tests/{name}/")]
    return [f"--ignore={path.rstrip('/')}" for path in mine]


def run(piece: Piece) -> bytes:
    began = time.monotonic()
    with tempfile.TemporaryFile() as kept:
        for command in piece.commands:
            own = ["-o", f"cache_dir={piece.cache}", "--cache-clear"] if "pytest" in command else []
            done = subprocess.run([*command, *own], stdout=kept, stderr=subprocess.STDOUT, check=False)
            if done.returncode:
                piece.failed.append(" ".join(command[2:]))
        piece.seconds = time.monotonic() - began
        kept.seek(0)
        return kept.read()


def lane(waiting: queue.SimpleQueue[Piece], shown: threading.Lock) -> None:
    while True:
        try:
            piece = waiting.get_nowait()
        except queue.Empty:
            return
        said = run(piece)
        with shown:
            head = f"\n== {piece.name}: {piece.seconds:.0f} s{', FAILED' if piece.failed else ''} ==\n"
            sys.stdout.buffer.write(head.encode() + said)
            sys.stdout.flush()


def run_all(found: list[Piece]) -> None:
    waiting: queue.SimpleQueue[Piece] = queue.SimpleQueue()
    for piece in found:
        waiting.put(piece)
    shown = threading.Lock()
    lanes = [threading.Thread(target=lane, args=(waiting, shown)) for _ in range(LANES)]
    for each in lanes:
        each.start()
    for each in lanes:
        each.join()


def again(piece: Piece) -> list[str]:
    """The tests that failed and passed by themselves."""
    tests = piece.failed_tests()
    if piece.name not in SECOND_ATTEMPT or not piece.failed or not 0 < len(tests) <= FEW:
        return []
    print(f"\n== {piece.name}: once more, by themselves: {', '.join(tests)} ==", flush=True)
    own = ["-o", f"cache_dir={piece.cache}"]
    if subprocess.run([PYTHON, "-m", "pytest", *tests, *own], check=False).returncode:
        return []
    piece.failed.clear()
    return tests


def main() -> int:
    lacking = missing()
    for each in lacking:
        print(f"Not run here: {each}.", flush=True)
    if lacking and os.environ.get(ALL):
        print("Nothing may be left out of this run: get what is missing, and start again.")
        return 1
    began, found = time.monotonic(), pieces(sys.argv[1:])
    with control_plane_being_built() as says:
        if says:
            print(says, flush=True)
        run_all(found)
    late = [test for piece in found for test in again(piece)]
    print("\n== all ==")
    for piece in found:
        print(f"{piece.seconds:6.0f} s  {piece.name}")
    print(f"{time.monotonic() - began:6.0f} s  in {LANES} lanes")
    for each in lacking:
        print(f"not run: {each}")
    for test in late:
        print(f"passed only at the second attempt, look at it: {test}")
    failed = [command for piece in found for command in piece.failed]
    for command in failed:
        print(f"failed: {command}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
