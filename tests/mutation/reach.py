"""Which test reaches which lines, and how long it takes: written down once, read for every mutant.

Run as a program, it records the tests that it is given and writes them to the file that it is given first.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import coverage
import pytest

from tests.mutation.chosen import LEFT_OUT, ROOT, TESTS, files, name_of

KEPT = ROOT / "build" / "mutation" / "reach.json"
IMPORTED = "ignore::pytest.PytestAssertRewriteWarning"
"""What a changed module imports may bring a plugin along, such as anyio, before pytest looks."""
PYTEST = ["-q", "-s", "-p", "no:cacheprovider", "--no-header", "--no-summary", "-W", IMPORTED]


@dataclass(frozen=True, slots=True)
class Reached:
    seconds: float
    lines: dict[str, frozenset[int]]
    """By module."""


@dataclass(frozen=True)
class Reach:
    tests: dict[str, Reached]
    modules: tuple[str, ...]
    """All that the tests had imported in the end."""

    def of(self, module: str, lines: Iterable[int]) -> list[str]:
        """The tests that reach one of the lines, the quickest first."""
        found = {name for line in lines for name in self._by_line.get((module, line), ())}
        return sorted(found, key=lambda name: (self.tests[name].seconds, name))

    @cached_property
    def _by_line(self) -> dict[tuple[str, int], list[str]]:
        found: dict[tuple[str, int], list[str]] = {}
        for name, reached in self.tests.items():
            for module, lines in reached.lines.items():
                for line in lines:
                    found.setdefault((module, line), []).append(name)
        return found


class Recorder:
    """A plugin of pytest."""

    def __init__(self, place: Path) -> None:
        self._place = place
        self._seconds: dict[str, float] = {}
        self._failed: set[str] = set()
        self._coverage = coverage.Coverage(
            data_file=None, config_file=False, branch=False, include=[str(file) for file in files()]
        )

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtestloop(self) -> Iterator[None]:
        self._coverage.start()
        yield
        self._coverage.stop()
        self._place.write_text(json.dumps(self._found()))

    @pytest.hookimpl(hookwrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        self._coverage.switch_context(item.nodeid)
        began = time.perf_counter()
        yield
        self._seconds[item.nodeid] = round(time.perf_counter() - began, 4)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        if not report.passed:
            self._failed.add(report.nodeid)  # it says nothing about a mutant

    def _found(self) -> dict[str, Any]:
        lines: dict[str, dict[str, list[int]]] = {name: {} for name in self._seconds}
        data = self._coverage.get_data()
        for file in files():
            for line, tests in data.contexts_by_lineno(str(file)).items():
                for test in tests:
                    if test in lines:
                        lines[test].setdefault(name_of(file), []).append(line)
        passed = [name for name in self._seconds if name not in self._failed]
        reached = {name: [self._seconds[name], lines[name]] for name in passed}
        return {"tests": reached, "modules": sorted(sys.modules)}


def read_reach(again: bool = False, only: tuple[str, ...] = ("",)) -> Reach:
    """From the last recording; what has changed since is recorded first, and all of it with `again`. `only`
    tests whose paths begin so are asked."""
    tests = {one: digest for one, digest in digests_of_tests().items() if one.startswith(only)}
    modules = digests_of_modules()
    kept: dict[str, Any] = json.loads(KEPT.read_text()) if KEPT.exists() and not again else {}
    kept = {"files": {}, "tests": {}, "modules": []} | kept
    stale = stale_files(kept, tests, modules)
    if stale:
        found = _recorded(sorted(stale))
        others = {name: one for name, one in kept["tests"].items() if name.partition("::")[0] not in stale}
        kept["tests"] = others | found["tests"]
        kept["modules"] = sorted({*kept["modules"], *found["modules"]})
        kept["files"] |= {one: {"digest": tests[one], "modules": modules} for one in stale}
        KEPT.write_text(json.dumps(kept))
    reached = {
        name: Reached(seconds, {module: frozenset(found) for module, found in lines.items()})
        for name, (seconds, lines) in kept["tests"].items()
        if name.partition("::")[0] in tests
    }
    return Reach(reached, tuple(kept["modules"]))


def stale_files(kept: Mapping[str, Any], tests: Mapping[str, str], modules: Mapping[str, str]) -> set[str]:
    """Files of tests that are new or changed, or that reach one of the modules that changed.

    A change elsewhere can lead a test to other lines of these modules. It is then asked where it need not be,
    or left out where it might kill: no mutant is called killed by that.
    """
    reached: dict[str, set[str]] = {}
    for name, (_, lines) in kept["tests"].items():
        reached.setdefault(name.partition("::")[0], set()).update(lines)
    stale = set()
    for one, digest in tests.items():
        known = kept["files"].get(one, {"digest": "", "modules": {}})
        changed = {name for name, now in modules.items() if known["modules"].get(name) != now}
        unknown = modules.keys() - known["modules"].keys()
        if known["digest"] != digest or unknown or not changed.isdisjoint(reached.get(one, ())):
            stale.add(one)
    return stale


def _recorded(tests: list[str]) -> dict[str, Any]:
    print(f"Recording which lines are reached by the tests in {len(tests)} files", flush=True)
    KEPT.parent.mkdir(parents=True, exist_ok=True)
    place = KEPT.with_name(f"recording-{os.getpid()}.json")
    command = [sys.executable, "-m", "tests.mutation.reach", str(place), *tests]
    log = KEPT.with_name("recording.log")
    with log.open("w") as out:
        subprocess.run(command, cwd=ROOT, env={**os.environ, "CI": "1"}, stdout=out, stderr=out, check=False)
    if not place.exists():
        raise SystemExit(f"The tests could not be run to record what they reach: see {log}.")
    found: dict[str, Any] = json.loads(place.read_text())
    place.unlink()
    return found


def _tests() -> list[Path]:
    found = []
    for each in TESTS:
        place = ROOT / each
        found += sorted(place.rglob("test_*.py")) if place.is_dir() else [place]
    names = [file.relative_to(ROOT) for file in found]
    return [name for name in names if not str(name).startswith(LEFT_OUT)]


def digests_of_tests() -> dict[str, str]:
    return {str(one): _digest(ROOT / one) for one in _tests()}


def digests_of_modules() -> dict[str, str]:
    return {name_of(file): _digest(file) for file in files()}


def _digest(*paths: Path) -> str:
    digest = hashlib.sha256()
    for path in paths:
        digest.update(str(path.relative_to(ROOT)).encode() + path.read_bytes())
    return digest.hexdigest()


if __name__ == "__main__":
    sys.exit(pytest.main([*PYTEST, *sys.argv[2:]], plugins=[Recorder(Path(sys.argv[1]))]))
