"""Runners are born by forking a process that has imported everything: a kill then costs little.

    python -m tests.chaos_real.nursery      reads one order a line, answers with the process it made

Each runner is a process of its own that opens its own connections; the nursery itself opens none. Another
version of the code has another nursery, with its sources first in the path.
"""

from __future__ import annotations

import faulthandler
import gc
import importlib
import json
import os
import select
import signal
import subprocess
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import boto3

from tests.chaos_real.runner import Order, run
from tests.servers.dynamodb import CREDENTIALS

ROOT = Path(__file__).parents[2]
SERVICES = ("ec2", "sqs", "dynamodb")
LOADED = (
    "ebbtide.adapters.clouds.aws",
    "ebbtide.adapters.clouds.notices",
    "ebbtide.adapters.kube.cluster",
    "ebbtide.adapters.kube.usage",
    "ebbtide.adapters.kube.workloads",
    "ebbtide.adapters.prometheus",
    "ebbtide.adapters.stores.dynamodb.store",
    "ebbtide.adapters.stores.sql.store",
    "psycopg",
    "sqlalchemy.dialects.postgresql.psycopg",
)


@dataclass(frozen=True)
class Child:
    """Held by a file descriptor, so a signal never meets another process of the same number."""

    owner: str
    pid: int
    handle: int

    @property
    def alive(self) -> bool:
        return not select.select([self.handle], [], [], 0)[0]

    def signal(self, number: signal.Signals) -> None:
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.handle, number)

    def end(self) -> None:
        self.signal(signal.SIGKILL)
        select.select([self.handle], [], [], 10)
        os.close(self.handle)

    @property
    def resident_kib(self) -> int:
        text = Path(f"/proc/{self.pid}/status").read_text()
        return int(text.split("VmRSS:")[1].split()[0])


class Nursery:
    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process
        self.sources = self._answer()
        """Where its version of the code is."""

    def bear(self, order: Order) -> Child:
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(asdict(order)) + "\n")
        self._process.stdin.flush()
        pid = int(self._answer())
        return Child(order.owner, pid, os.pidfd_open(pid))

    def _answer(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if not line:
            raise RuntimeError(
                "the nursery of the runners has ended: its version cannot be run with this test"
            )
        return line


@contextmanager
def nursery(sources: Path, log: Path) -> Iterator[Nursery]:
    environ = {**os.environ, **CREDENTIALS, "PYTHONPATH": f"{sources}{os.pathsep}{ROOT}"}
    command = [sys.executable, "-m", "tests.chaos_real.nursery"]
    with log.open("wb") as out:
        process = subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=out,
            text=True,
        )
    try:
        yield Nursery(process)
    finally:
        process.kill()
        process.communicate()


def warm() -> None:
    """What each runner would otherwise load and parse again. The clients have not connected to anything."""
    for module in LOADED:
        with suppress(ModuleNotFoundError):  # an earlier version has it under another name
            importlib.import_module(module)
    for service in SERVICES:
        boto3.client(service, endpoint_url="http://127.0.0.1:1").close()


def main() -> None:
    import ebbtide

    warm()
    gc.freeze()  # what is shared is not touched, and so not copied, when a child collects its garbage
    print(Path(ebbtide.__file__).parent, flush=True)
    for line in iter(sys.stdin.readline, ""):
        order = Order(**json.loads(line))
        _reap()
        pid = os.fork()
        if not pid:
            _live(order)
        print(pid, flush=True)


def _reap() -> None:
    """Those who ended; only before the next is born, so no number is given away before the driver holds
    the process by its descriptor."""
    with suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0]:
            code = os.waitstatus_to_exitcode(ended[1])
            if code != -signal.SIGKILL:
                print(f"{ended[0]} ended by itself with {code}", file=sys.stderr, flush=True)


def _live(order: Order) -> None:
    log = os.open(f"{order.folder}/{order.owner}.log", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    nothing = os.open(os.devnull, os.O_RDWR)
    for taken, given in ((0, nothing), (1, log), (2, log)):
        os.dup2(given, taken)
    faulthandler.enable()
    try:
        run(order, dict(os.environ))
    except BaseException:
        traceback.print_exc()  # into its log: who ends by itself must say why
        raise
    finally:
        os._exit(1)


if __name__ == "__main__":
    main()
