"""This version and the one before run together, on one store and one world, and take turns at operations.

The earlier one is the newest tag or, while nothing is released, a commit with the same record format
(`EBBTIDE_EARLIER` names another). Its own code runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import pytest

from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.model.snapshot import LEAVING
from ebbtide.simulator.run.persistent import load, save
from ebbtide.simulator.world.clock import VirtualClock
from tests.simulation import repack_stories, stories
from tests.simulation.stories import START, TICK_SECONDS, Story

ROOT = Path(__file__).parents[2]
RUNNER = Path(__file__).with_name("one_runner.py")
BEFORE_THE_FIRST_RELEASE = "67d30d939ae4e3d366b29118802a393f7f7f54d2"
TOLD = ("scale-down", "scale-up", "interruption", "consolidation onto a cheaper node")
QUIET_TURNS = 12
"""Turns without open work after which nothing more is expected."""
STORIES = {story.name: story for story in (*stories.STORIES, *repack_stories.STORIES)}


def git(*arguments: str) -> subprocess.CompletedProcess[bytes]:
    return subprocess.run(["git", "-C", str(ROOT), *arguments], capture_output=True, check=False)


@pytest.fixture(scope="module")
def earlier(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The source of the version before this one."""
    try:
        tag = git("describe", "--tags", "--abbrev=0", "HEAD^").stdout.decode().strip()
        revision = os.environ.get("EBBTIDE_EARLIER") or tag or BEFORE_THE_FIRST_RELEASE
        packed = git("archive", revision, "src")
    except FileNotFoundError:
        pytest.skip("two versions at once were left out: git is not installed")
    if packed.returncode:
        pytest.skip(f"two versions at once were left out: no git history with {revision[:12]} here")
    folder = tmp_path_factory.mktemp("earlier")
    subprocess.run(["tar", "x", "-C", str(folder)], input=packed.stdout, check=True)
    return folder / "src"


@dataclass
class Ground:
    folder: Path
    story: Story

    @property
    def world(self) -> Path:
        return self.folder / "world.json"

    @property
    def url(self) -> str:
        return f"sqlite:///{self.folder / 'store.db'}"

    def prepare(self) -> None:
        save(self.story.build(), self.world)
        (self.folder / "settings.json").write_bytes(msgspec.json.encode(self.story.settings))
        SqlStore.open(self.url, VirtualClock(START), "cluster").close()

    @contextmanager
    def runner(self, owner: str, source: Path) -> Iterator[subprocess.Popen[str]]:
        settings = str(self.folder / "settings.json")
        command = [sys.executable, "-P", str(RUNNER), owner, str(self.world), self.url, settings]
        environ = {**os.environ, "PYTHONPATH": str(source)}
        pipe = subprocess.PIPE
        with subprocess.Popen(command, env=environ, stdin=pipe, stdout=pipe, text=True) as process:
            try:
                yield process
            finally:
                process.kill()


def tick(process: subprocess.Popen[str], now: float) -> dict[str, Any]:
    assert process.stdin is not None
    assert process.stdout is not None
    process.stdin.write(f"{now}\n")
    process.stdin.flush()
    found: dict[str, Any] = json.loads(process.stdout.readline())
    return found


@pytest.mark.parametrize("name", TOLD)
def test_an_operation_that_both_versions_take_turns_at_ends_well(
    name: str, earlier: Path, tmp_path: Path
) -> None:
    story = STORIES[name]
    ground = Ground(tmp_path, story)
    ground.prepare()
    worked: dict[str, set[str]] = {}
    answer: dict[str, Any] = {}
    quiet = 0
    with ground.runner("old", earlier) as old, ground.runner("new", ROOT / "src") as new:
        for turn in range(story.ticks):
            if worked and quiet >= QUIET_TURNS:
                break
            answer = tick((old, new)[turn % 2], START + turn * TICK_SECONDS)
            assert "failed" not in answer["says"], answer
            quiet = 0 if answer["open"] else quiet + 1
            for work in answer["open"]:
                worked.setdefault(work, set()).add(answer["code"])
    assert answer["open"] == []
    both = {str(earlier / "ebbtide" / "__init__.py"), str(ROOT / "src" / "ebbtide" / "__init__.py")}
    assert both in worked.values(), "both had a hand in one operation"
    world = load(ground.world)
    world.advance_to(START + story.ticks * TICK_SECONDS)
    workers = [node for node in world.inventory.nodes.values() if node.worker]
    assert sum(node.ready for node in workers) == story.nodes_at_the_end
    marked = [n.name for n in workers if n.unschedulable or n.owner is not None or LEAVING in n.taints]
    assert marked == []
    assert [pod.full_name for pod in world.inventory.pods.values() if pod.waiting] == []
