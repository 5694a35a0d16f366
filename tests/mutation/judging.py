"""A fork for each mutant, from a process that has collected all tests and imported all they need."""

from __future__ import annotations

import enum
import gc
import importlib
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass

import pytest

from tests.mutation.clauses import Clause
from tests.mutation.mutants import Mutant
from tests.mutation.planting import CannotBePlanted, Functions
from tests.mutation.reach import PYTEST, Reach
from tests.mutation.servers import Databases

BUDGET_SECONDS = 60.0
"""Of the tests that reach a mutant, the quickest that together take this long when recorded are run."""
GRACE_SECONDS = 20.0
TIMES = 8
"""How much longer than when they were recorded the tests of a mutant may take."""
POLL_SECONDS = 0.005


Judged = Mutant | Clause


class Verdict(enum.Enum):
    KILLED = 10
    SURVIVED = 11
    UNREACHED = 12
    """No test gets to the changed line."""
    TIMED_OUT = 13
    LEFT_OUT = 14
    """It could not be planted in a running process."""


@dataclass(frozen=True, slots=True)
class Running:
    mutant: Judged
    until: float
    place: str
    databases: Databases


class Judge:
    """A plugin of pytest: instead of running the tests, it judges mutants with them."""

    def __init__(
        self, mutants: Iterable[Judged], reach: Reach, workers: int, tell: Callable[[Judged, Verdict], None]
    ) -> None:
        self._waiting = list(reversed(list(mutants)))
        self._reach = reach
        self._free = [Databases() for _ in range(workers)]
        """Those of each worker that is not busy."""
        self._tell = tell
        self._running: dict[int, Running] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for module in self._reach.modules:
            if module.partition(".")[0] not in ("tests", "__main__"):
                with suppress(Exception):  # one that is made while tests run
                    importlib.import_module(module)
        self._items = {item.nodeid: item for item in session.items}
        self._functions = Functions()
        gc.freeze()
        try:
            while self._waiting or self._running:
                while self._waiting and self._free:
                    self._begin(self._waiting.pop())
                self._end()
        finally:
            for databases in self._free:
                databases.close()
        return True

    def _begin(self, mutant: Judged) -> None:
        items: list[pytest.Item] = []
        seconds = 0.0
        for name in self._reach.of(mutant.module, mutant.lines):
            if name in self._items and (not items or seconds < BUDGET_SECONDS):
                items.append(self._items[name])
                seconds += self._reach.tests[name].seconds
        if not items:
            self._tell(mutant, Verdict.UNREACHED)
            return
        place, databases = tempfile.mkdtemp(prefix="ebm-"), self._free.pop()
        databases.prepare(items)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            databases.lend(items)
            self._judge(mutant, items, place)
        until = time.monotonic() + GRACE_SECONDS + TIMES * seconds
        self._running[child] = Running(mutant, until, place, databases)

    def _end(self) -> None:
        time.sleep(POLL_SECONDS)
        for child, running in list(self._running.items()):
            ended, status = os.waitpid(child, os.WNOHANG)
            late = not ended and time.monotonic() > running.until
            if not ended and not late:
                continue
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # with the servers that its tests had started
            if late:
                os.waitpid(child, 0)
            code = os.waitstatus_to_exitcode(status) if ended else Verdict.TIMED_OUT.value
            known = [verdict for verdict in Verdict if verdict.value == code]
            self._tell(running.mutant, known[0] if known else Verdict.KILLED)
            del self._running[child]
            self._free.append(running.databases)
            shutil.rmtree(running.place, ignore_errors=True)

    def _judge(self, mutant: Judged, items: list[pytest.Item], place: str) -> None:
        """In the fork: it ends here."""
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        tempfile.tempdir = os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = place
        verdict = Verdict.KILLED
        try:
            self._functions.plant(mutant)
            items[0].config.pluginmanager.register(_EndsAtOnce())
            for item, following in zip(items, [*items[1:], None], strict=True):
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            verdict = Verdict.SURVIVED
        except CannotBePlanted:
            verdict = Verdict.LEFT_OUT
        finally:
            os._exit(verdict.value)


class _EndsAtOnce:
    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os._exit(Verdict.KILLED.value)


def judge(mutants: list[Judged], reach: Reach, workers: int, tell: Callable[[Judged, Verdict], None]) -> None:
    """Tells of each as soon as it is judged."""
    os.environ["CI"] = "1"  # the same examples for each
    needed = {name.partition("::")[0] for mutant in mutants for name in reach.of(mutant.module, mutant.lines)}
    if not needed:
        for mutant in mutants:
            tell(mutant, Verdict.UNREACHED)
        return
    ended = pytest.main([*PYTEST, *sorted(needed)], plugins=[Judge(mutants, reach, workers, tell)])
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"The tests could not be collected: pytest ended with {ended}.")
