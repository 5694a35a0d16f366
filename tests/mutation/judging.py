"""A fork for each mutant, from a process that has collected all tests and imported all they need.

No verdict depends on how busy the machine is. The time of a test is limited in seconds of CPU; only one that
waits for something that never comes is ended by the clock, after a long time. The first time that a test
notices something, it is run on the original code as well: if it fails there too, it is not asked again.
"""

from __future__ import annotations

import gc
import importlib
import math
import mmap
import os
import resource
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field

import pytest

from tests.mutation.asking import Asking
from tests.mutation.clauses import Clause
from tests.mutation.mutants import Mutant
from tests.mutation.planting import CannotBePlanted, Functions
from tests.mutation.reach import PYTEST
from tests.mutation.servers import Databases
from tests.mutation.verdicts import CAUGHT, Found, Verdict, file_of

CPU_SECONDS = 5.0
WAITING_SECONDS = 20.0
TIMES = 8
"""A test may use so much, and so many times what it took when it was recorded."""
POLL_SECONDS = 0.005

Judged = Mutant | Clause


@dataclass(slots=True)
class Trial:
    """A mutant and the tests that are run on it. With `found`: the original, to confirm what was found."""

    mutant: Judged
    tests: list[str]
    found: Found | None = None


@dataclass(slots=True)
class Running:
    trial: Trial
    place: str
    databases: Databases
    at: mmap.mmap
    """The index of the test that is running, written by the fork."""
    seen: int = 0
    since: float = field(default_factory=time.monotonic)


class Judge:
    """A plugin of pytest: instead of running the tests, it judges mutants with them."""

    def __init__(
        self, mutants: Iterable[Judged], asking: Asking, workers: int, tell: Callable[[Judged, Found], None]
    ) -> None:
        self._waiting = list(reversed(list(mutants)))
        self._retried: list[Trial] = []
        self._asking = asking
        self._free = [Databases() for _ in range(workers)]
        """Those of each worker that is not busy."""
        self._tell = tell
        self._running: dict[int, Running] = {}

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        for module in self._asking.reach.modules:
            if module.partition(".")[0] not in ("tests", "__main__"):
                with suppress(Exception):  # one that is made while tests run
                    importlib.import_module(module)
        self._items = {item.nodeid: item for item in session.items}
        self._functions = Functions()
        gc.freeze()
        try:
            while self._waiting or self._retried or self._running:
                while (self._waiting or self._retried) and self._free:
                    self._begin()
                self._end()
        finally:
            for databases in self._free:
                databases.close()
        return True

    def _begin(self) -> None:
        if self._retried:
            trial = self._retried.pop()
        else:
            mutant = self._waiting.pop()
            trial = Trial(mutant, [name for name in self._asking.tests_for(mutant) if name in self._items])
        if not trial.tests:
            self._tell(trial.mutant, Found(Verdict.UNREACHED))  # none, or none that can be relied on
            return
        place, databases = tempfile.mkdtemp(prefix="ebm-"), self._free.pop()
        items = [self._items[name] for name in trial.tests]
        databases.prepare(items)
        at = mmap.mmap(-1, mmap.PAGESIZE)
        sys.stdout.flush()
        child = os.fork()
        if child == 0:
            databases.lend(items)
            self._judge(trial, items, place, at)
        self._running[child] = Running(trial, place, databases, at)

    def _end(self) -> None:
        time.sleep(POLL_SECONDS)
        for child, running in list(self._running.items()):
            ended, status, usage = os.wait4(child, os.WNOHANG)
            late = not ended and self._waits_too_long(running)
            if not ended and not late:
                continue
            with suppress(ProcessLookupError):
                os.killpg(child, signal.SIGKILL)  # with the servers that its tests had started
            if late:
                _, _, usage = os.wait4(child, 0)
            verdict = _verdict(status) if ended else Verdict.TIMED_OUT
            del self._running[child]
            self._free.append(running.databases)
            shutil.rmtree(running.place, ignore_errors=True)
            self._conclude(running, verdict, usage.ru_utime + usage.ru_stime)
            running.at.close()

    def _waits_too_long(self, running: Running) -> bool:
        now, index = time.monotonic(), _read(running.at)
        if index != running.seen:
            running.seen, running.since = index, now
        recorded = self._asking.reach.tests[running.trial.tests[index]].seconds
        return now - running.since > WAITING_SECONDS + TIMES * recorded

    def _conclude(self, running: Running, verdict: Verdict, cpu: float) -> None:
        trial, at = running.trial, _read(running.at)
        if trial.found is not None:
            self._confirm(trial, verdict)
            return
        by = trial.tests[at] if verdict in CAUGHT else ""
        asked = trial.tests[:at] if by else trial.tests
        found = self._asking.found(trial.mutant, verdict, asked, by, cpu)
        if by and not self._asking.is_trusted(by):
            self._retried.append(Trial(trial.mutant, [by], found))
        else:
            self._done(trial.mutant, found)

    def _confirm(self, trial: Trial, verdict: Verdict) -> None:
        assert trial.found is not None
        holds = verdict is Verdict.SURVIVED
        self._asking.trust(trial.found.by, holds)
        if holds:
            self._done(trial.mutant, trial.found)
        else:
            self._waiting.append(trial.mutant)

    def _done(self, mutant: Judged, found: Found) -> None:
        self._asking.conclude(mutant, found)
        self._tell(mutant, found)

    def _judge(self, trial: Trial, items: list[pytest.Item], place: str, at: mmap.mmap) -> None:
        """In the fork: it ends here."""
        os.setsid()
        nowhere = os.open(os.devnull, os.O_RDWR)
        for stream in (0, 1, 2):
            os.dup2(nowhere, stream)
        tempfile.tempdir = os.environ["TMPDIR"] = os.environ["PYTEST_DEBUG_TEMPROOT"] = place
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        verdict = Verdict.KILLED
        try:
            if trial.found is None:
                self._functions.plant(trial.mutant)
            items[0].config.pluginmanager.register(_EndsAtOnce())
            for index, item in enumerate(items):
                at[:8] = index.to_bytes(8, "little")
                _limit_cpu(self._asking.reach.tests[item.nodeid].seconds)
                following = items[index + 1] if index + 1 < len(items) else None
                item.ihook.pytest_runtest_protocol(item=item, nextitem=following)
            verdict = Verdict.SURVIVED
        except CannotBePlanted:
            verdict = Verdict.LEFT_OUT
        finally:
            os._exit(verdict.value)


class _EndsAtOnce:
    """At the first failure, before pytest composes a report of it: that takes longer than most tests."""

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[None]) -> None:
        expected = item.get_closest_marker("xfail") is not None
        if (
            call.excinfo is not None
            and not expected
            and not call.excinfo.errisinstance(pytest.skip.Exception)
        ):
            os._exit(Verdict.KILLED.value)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if report.failed:
            os._exit(Verdict.KILLED.value)


def _limit_cpu(recorded: float) -> None:
    """Of the test that begins now. At the limit the kernel ends the process."""
    used = sum(resource.getrusage(resource.RUSAGE_SELF)[:2])
    limit = math.ceil(used + CPU_SECONDS + TIMES * recorded)
    resource.setrlimit(resource.RLIMIT_CPU, (limit, resource.RLIM_INFINITY))


def _verdict(status: int) -> Verdict:
    code = os.waitstatus_to_exitcode(status)
    if code == -signal.SIGXCPU:
        return Verdict.TIMED_OUT
    return next((verdict for verdict in Verdict if verdict.value == code), Verdict.KILLED)


def _read(at: mmap.mmap) -> int:
    return int.from_bytes(at[:8], "little")


def judge(mutants: list[Judged], asking: Asking, workers: int, tell: Callable[[Judged, Found], None]) -> None:
    """Tells of each as soon as it is judged."""
    os.environ["CI"] = "1"  # the same examples for each
    left = []
    for mutant in mutants:
        standing = asking.standing(mutant)
        if standing is None:
            left.append(mutant)
        else:
            tell(mutant, standing)
    needed = {file_of(test) for mutant in left for test in asking.reach.of(mutant.module, mutant.lines)}
    if not needed:
        return
    ended = pytest.main(
        [*PYTEST, "--assert=plain", *sorted(needed)], plugins=[Judge(left, asking, workers, tell)]
    )
    if ended not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
        raise SystemExit(f"The tests could not be collected: pytest ended with {ended}.")
