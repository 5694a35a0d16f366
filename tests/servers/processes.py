"""Real servers as child processes: started, waited for, ended; what they said is shown when they fail."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

START_SECONDS = 240
"""More than a busy machine needs: one that ends by itself is not waited for."""
STOP_SECONDS = 3


@contextmanager
def running(
    command: Sequence[str], log: Path, ready: Callable[[], bool], seconds: float = START_SECONDS
) -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as out:
        process = subprocess.Popen(command, cwd=log.parent, stdin=subprocess.DEVNULL, stdout=out, stderr=out)
    try:
        await_ready(process, log, ready, seconds)
        yield process
    finally:
        process.terminate()
        try:
            process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def await_ready(
    process: subprocess.Popen[bytes], log: Path, ready: Callable[[], bool], seconds: float
) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end and process.poll() is None:
        if ready():
            return
        time.sleep(0.05)
    raise RuntimeError(f"{log.name} did not start: {log.read_text(errors='replace')[-3000:]}")


def eventually(reached: Callable[[], bool], seconds: float = 30, what: str = "it") -> None:
    end = time.monotonic() + seconds
    while not reached():
        if time.monotonic() > end:
            raise AssertionError(f"{what} was not reached within {seconds} s")
        time.sleep(0.05)
