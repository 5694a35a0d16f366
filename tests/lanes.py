"""All tests, in pieces that two lanes take in turn, since most of them use one core. `make test` runs this.

The unit tests come first, in two halves at the same time, each with coverage: the first answer is there
soon. `make unit` runs them alone.

What cannot be run here is said first, with how to get it. A piece is shown when it has ended, whole; all run
to their end, whatever happens to the others. The tests on a real control plane are the last piece: it may
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
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.conftest import ON_A_CONTROL_PLANE
from tests.servers.having import ALL, control_plane_being_built, missing

PURE = "src/ebbtide/core/*,src/ebbtide/model/*"
PYTHON = sys.executable
LANES = 2
TESTS = Path(__file__).parent
LONG = ("simulation", "integration", "contract", "e2e")
"""These first, the longest before the others, so the lanes end at about the same time."""
HALVES = ("unit", "unit, second half")
MEASURED = (".coverage.first", ".coverage.second")
UNIT_ALONE = "--unit"
CONTROL_PLANE = "control plane"
SECOND_ATTEMPT = ("integration", "e2e", CONTROL_PLANE)
FEW = 4
SLOWEST = ("--durations=12", "--durations-min=10")
"""Each piece ends with where its time went."""


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
    """One for each folder with tests in it, so a new folder is not forgotten; the unit tests in halves."""
    folders = {path.relative_to(TESTS).parts[0] for path in TESTS.rglob("test_*.py")} - {"unit"}
    order = sorted(folders, key=lambda name: (LONG.index(name) if name in LONG else len(LONG), name))
    found = [Piece(name, [pytest([f"tests/{name}", *ignored(name)], arguments)]) for name in order]
    return [
        *halves(arguments),
        coverage(),
        *found,
        Piece(CONTROL_PLANE, [pytest(ON_A_CONTROL_PLANE, arguments)]),
    ]


def pytest(paths: Sequence[str], arguments: list[str]) -> list[str]:
    return [PYTHON, "-m", "pytest", *SLOWEST, *paths, *arguments]


def halves(arguments: list[str]) -> list[Piece]:
    """Every second file, by size: so each half has as much to do as the other, as far as can be known."""
    files = sorted((TESTS / "unit").rglob("test_*.py"), key=lambda path: (path.stat().st_size, path))
    paths = [str(path.relative_to(TESTS.parent)) for path in files]
    return [
        Piece(name, [[PYTHON, "-m", "coverage", "run", f"--data-file={data}", *pytest(half, arguments)[1:]]])
        for name, data, half in zip(HALVES, MEASURED, (paths[::2], paths[1::2]), strict=True)
    ]


def coverage() -> Piece:
    tool = [PYTHON, "-m", "coverage"]
    return Piece(
        "coverage",
        [[*tool, "combine", *MEASURED], [*tool, "report", f"--include={PURE}", "--fail-under=100"]],
    )


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


def summary(found: list[Piece], began: float, notes: list[str]) -> int:
    print("\n== all ==")
    for piece in found:
        print(f"{piece.seconds:6.0f} s  {piece.name}")
    print(f"{time.monotonic() - began:6.0f} s  in {LANES} lanes")
    failed = [command for piece in found for command in piece.failed]
    for line in [*notes, *(f"failed: {command}" for command in failed)]:
        print(line)
    return 1 if failed else 0


def main_unit(arguments: list[str]) -> int:
    began, found = time.monotonic(), [*halves(arguments), coverage()]
    run_all(found[:-1])
    run_all(found[-1:])
    return summary(found, began, [])


def main() -> int:
    arguments = [each for each in sys.argv[1:] if each != UNIT_ALONE]
    if UNIT_ALONE in sys.argv[1:]:
        return main_unit(arguments)
    lacking = missing()
    for each in lacking:
        print(f"Not run here: {each}.", flush=True)
    if lacking and os.environ.get(ALL):
        print("Nothing may be left out of this run: get what is missing, and start again.")
        return 1
    began, found = time.monotonic(), pieces(arguments)
    with control_plane_being_built() as says:
        if says:
            print(says, flush=True)
        run_all(found[: len(HALVES)])  # both, before their coverage is looked at
        run_all(found[len(HALVES) :])
    late = [test for piece in found for test in again(piece)]
    notes = [f"not run: {each}" for each in lacking]
    notes += [f"passed only at the second attempt, look at it: {test}" for test in late]
    return summary(found, began, notes)


if __name__ == "__main__":
    sys.exit(main())
