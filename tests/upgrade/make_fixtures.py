"""Writes what a version of Ebbtide leaves behind, as that version writes it: run it in a checkout of it.

    git archive REV src tests pyproject.toml | tar x -C FOLDER
    cd FOLDER && PYTHONPATH=src:. python -P .../tests/upgrade/make_fixtures.py .../tests/upgrade/data/NAME

The short stories of the simulator are run on a SQLite store. Whenever an operation comes to a state that was
not met before, the row of its record and the world around it are kept as a scene. `store.sql.gz` is the dump
of the database, with a cluster for each scene and each story's log; `worlds.json.gz` has the worlds. Made
once for each schema, and never again: what a released version wrote does not change.

It is read by several versions of the code, so it asks for nothing that the oldest of them lacks.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import sys
import tempfile
from contextlib import suppress
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.model.log import LogEntry, LogKind
from ebbtide.simulator.checker.checker import WatchedStore
from ebbtide.simulator.faults.catalogue import CrashPlan
from ebbtide.simulator.run.persistent import encode
from ebbtide.simulator.world.clock import VirtualClock
from tests.simulation import stories

MOST_DECISIONS = 5
"""Of each story: they hold all that was seen, and are by far the largest."""
MOST_OTHERS = 25


def all_stories() -> list[Any]:
    found = list(stories.STORIES)
    with suppress(ImportError):
        from tests.simulation import repack_stories

        found += repack_stories.STORIES
    return found


def signature(record: Any) -> str:
    """What is open, and in which states."""
    data = msgspec.to_builtins([record.operation, record.spots])
    kinds = [type(work).__name__ for work in (record.operation, *record.spots)]
    states = sorted(set(re.findall(r"'state': '([A-Z_]+)'", repr(data))))
    return f"{kinds} {states}"


class Book:
    def __init__(self, file: Path) -> None:
        self.url, self.file = f"sqlite:///{file}", file
        self.seen: set[str] = set()
        self.worlds: dict[str, Any] = {}

    def tell(self, story: Any) -> None:
        slug = re.sub(r"[^a-z]+", "-", story.name)
        story_run = stories.StoryRun(story)
        inner = SqlStore.open(self.url, story_run.clock, slug)
        story_run.store = WatchedStore(inner, story_run.checker)
        runner = self.noting_costs(story_run, story)
        for _ in range(story.ticks):
            story.before_tick(story_run.world, story_run.store)
            story_run.tick(runner)
            record = story_run.record
            if (record.operation or record.spots) and signature(record) not in self.seen:
                self.seen.add(signature(record))
                self.keep(slug, story.name, story_run)
            story_run.wait(stories.TICK_SECONDS)
        inner.close()

    def noting_costs(self, story_run: Any, story: Any) -> Any:
        opened = story_run.ports(CrashPlan())
        with suppress(ImportError):
            from ebbtide.engine.notes import CostNotes

            return replace(opened, observer=CostNotes(story_run.store, story.settings, opened.new_id))
        return opened

    def keep(self, slug: str, story: str, story_run: Any) -> None:
        name = f"{slug}-{len(self.worlds)}"
        with sqlite3.connect(self.file) as database:
            columns = [row[1] for row in database.execute("PRAGMA table_info(ebbtide_state)")][1:]
            listed = ", ".join(columns)
            copy = f"SELECT ?, {listed} FROM ebbtide_state WHERE pk = ?"
            keys = (f"cluster#{name}", f"cluster#{slug}")
            database.execute(f"INSERT INTO ebbtide_state (pk, {listed}) {copy}", keys)
        database.close()
        world = json.loads(encode(story_run.world))
        self.worlds[name] = {"story": story, "now": story_run.clock.now(), "world": world}

    def policies(self) -> None:
        """A policy that slept and was woken, with its state, its ledger and its log."""
        from ebbtide.model.idle import WakeReason
        from tests.policy_harness import PolicyHarness

        harness: Any = PolicyHarness()
        store = SqlStore.open(self.url, harness.clock, "town")
        harness.store, harness.rows = store, store.policies()
        for policy in harness.policies:
            harness.rows.put_policy(policy)
        harness.scaling = harness.runner(store=store, policies=harness.rows)
        harness.sleep()
        harness.rounds(3600)
        harness.scaling.wake(harness.policies[0].id, WakeReason.API_REQUEST)
        harness.rounds(600)
        store.close()

    def rest_of_the_kinds(self) -> None:
        """What needs a bug or a person to come about."""
        from tests.simulation.stories import START

        store = SqlStore.open(self.url, VirtualClock(START), "kinds")
        ids = count(1)
        store.append(
            [
                LogEntry(f"kind-{next(ids):04d}", START, kind, f"an entry of {kind}", "s", {"why": "written"})
                for kind in LogKind
                if kind is not LogKind.DECISION
            ]
        )
        store.close()

    def trimmed(self) -> str:
        database = sqlite3.connect(self.file)
        for kinds, most in (("= 'decision'", MOST_DECISIONS), ("<> 'decision'", MOST_OTHERS)):
            first = (
                "SELECT id FROM ebbtide_log AS other WHERE other.cluster = ebbtide_log.cluster"
                f" AND kind {kinds} ORDER BY id LIMIT {most}"
            )
            database.execute(f"DELETE FROM ebbtide_log WHERE kind {kinds} AND id NOT IN ({first})")
        database.commit()
        text = "\n".join(database.iterdump())
        database.close()
        return text


def main(folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as place:
        book = Book(Path(place) / "ebbtide.db")
        for story in all_stories():
            book.tell(story)
        with suppress(ImportError):
            book.policies()
        book.rest_of_the_kinds()
        text = book.trimmed()
    for name, data in (("store.sql.gz", text), ("worlds.json.gz", json.dumps(book.worlds))):
        (folder / name).write_bytes(gzip.compress(data.encode(), mtime=0))
    print(f"{len(book.worlds)} scenes, {len(text)} characters of SQL")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
