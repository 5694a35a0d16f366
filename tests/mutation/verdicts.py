"""The verdicts, kept on disk: an interrupted run continues, and a later one judges only what has changed.

A verdict holds while the module is the same. A killed mutant also needs the file of the test that killed it
to be the same. For a survivor, the tests that were asked are kept: another run asks the others, and those
that are new.
"""

from __future__ import annotations

import enum
import hashlib
import json
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

SHORT = 10
"""Characters of a digest: enough to tell a few thousand tests from each other."""


class Verdict(enum.Enum):
    KILLED = 10
    SURVIVED = 11
    UNREACHED = 12
    """No test gets to the changed line."""
    TIMED_OUT = 13
    LEFT_OUT = 14
    """It could not be planted in a running process."""


CAUGHT = (Verdict.KILLED, Verdict.TIMED_OUT)


class Named(Protocol):
    """A mutant, as far as its verdict is concerned."""

    @property
    def module(self) -> str: ...


@dataclass(frozen=True, slots=True)
class Found:
    verdict: Verdict
    by: str = ""
    """The test that noticed it."""
    asked: frozenset[str] = frozenset()
    """The tests that did not, each shortened."""
    cpu: float = 0.0
    """Seconds of all its forks."""


@dataclass(frozen=True, slots=True)
class _Kept:
    found: Found
    module: str
    files: Mapping[str, str]
    """The digests of the module, and of the files of the tests that could be asked."""


@dataclass
class Verdicts:
    place: Path
    modules: Mapping[str, str]
    files: Mapping[str, str]
    """The digests of modules and of files of tests, as they are now."""
    _kept: dict[str, _Kept] = field(default_factory=dict)

    def read(self) -> None:
        if not self.place.exists():
            return
        for line in self.place.read_text().splitlines():
            try:
                one = json.loads(line)
            except ValueError:  # the run was interrupted while it wrote this
                continue
            found = Found(Verdict[one["verdict"]], one["by"], frozenset(one["asked"]), one["cpu"])
            self._kept[one["mutant"]] = _Kept(found, one["module"], one["files"])

    def keep(self, name: str, mutant: Named, found: Found, reached_by: Iterable[str]) -> None:
        """`reached_by`: the tests that could be asked."""
        tests = [found.by] if found.by else reached_by
        files = {file: self._short(file) for file in {file_of(test) for test in tests}}
        self._kept[name] = _Kept(found, self.modules[mutant.module], files)
        line = {
            "mutant": name,
            "module": self.modules[mutant.module],
            "verdict": found.verdict.name,
            "by": found.by,
            "files": files,
            "asked": sorted(found.asked),
            "cpu": round(found.cpu, 3),
        }
        with self.place.open("a") as out:
            out.write(json.dumps(line) + "\n")

    def standing(self, name: str, mutant: Named) -> Found | None:
        """What still holds. A survivor may have tests left to ask: see `asked_before`."""
        kept = self._kept.get(name)
        if kept is None or kept.module != self.modules[mutant.module]:
            return None
        if kept.found.verdict in CAUGHT and not self._same(kept, kept.found.by):
            return None
        return kept.found

    def killer_before(self, name: str) -> str:
        """The test that noticed it when it was last judged, though module or test have changed since."""
        kept = self._kept.get(name)
        return kept.found.by if kept is not None else ""

    def asked_before(self, name: str, mutant: Named, tests: Iterable[str]) -> tuple[set[str], set[str]]:
        """Of these tests: those that did not notice it, and those that are new or have changed since."""
        found = self.standing(name, mutant)
        if found is None or found.verdict is not Verdict.SURVIVED:
            return set(), set()
        kept, asked, fresh = self._kept[name], set(), set()
        for test in tests:
            if not self._same(kept, test):
                fresh.add(test)
            elif short(test) in found.asked:
                asked.add(test)
        return asked, fresh

    def _same(self, kept: _Kept, test: str) -> bool:
        file = file_of(test)
        return file in kept.files and kept.files[file] == self._short(file)

    def _short(self, file: str) -> str:
        return self.files.get(file, "")[:SHORT]


def names_of(mutants: Iterable[Named]) -> list[str]:
    """The text of each. Where a function has the same statement twice, the second is numbered."""
    seen: Counter[str] = Counter()
    names = []
    for mutant in mutants:
        text = str(mutant)
        seen[text] += 1
        names.append(text if seen[text] == 1 else f"{text} #{seen[text]}")
    return names


def short(test: str) -> str:
    return hashlib.sha256(test.encode()).hexdigest()[:SHORT]


def file_of(test: str) -> str:
    return test.partition("::")[0]
