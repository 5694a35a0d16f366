"""Start the world and the runners, disturb them at random, let them come to rest, and check."""

from __future__ import annotations

import multiprocessing
import os
import random
import secrets
import signal
import time
from dataclasses import dataclass, replace
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Protocol

from ebbtide.errors import EbbtideError
from tests.chaos import host, runner
from tests.chaos.setting import SETTINGS
from tests.chaos.stores import open_store
from tests.chaos.verify import verify_writes

RUNNERS = 3
KILL_EVERY_SECONDS = (0.2, 0.8)
RESTART_EVERY_SECONDS = (6.0, 10.0)
FREEZE_SECONDS = (0.5, 7.0)
FREEZE_SHARE = 0.25
SETTLE_SECONDS = 90.0
PRELOADED = ["tests.chaos.runner", "ebbtide.adapters.stores.dynamodb.store", "boto3", "sqlalchemy"]


class Database(Protocol):
    def restart(self) -> None: ...


@dataclass(frozen=True)
class RunTotals:
    seconds: float = 0.0
    kills: int = 0
    freezes: int = 0
    restarts: int = 0
    writes: int = 0
    lost_writes: int = 0
    acts: str = ""
    violations: tuple[str, ...] = ()

    def plus(self, other: RunTotals) -> RunTotals:
        return RunTotals(
            self.seconds + other.seconds,
            self.kills + other.kills,
            self.freezes + other.freezes,
            self.restarts + other.restarts,
            self.writes + other.writes,
            self.lost_writes + other.lost_writes,
            violations=self.violations + other.violations,
        )

    def told(self) -> str:
        acts = f" ({self.acts})" if self.acts else ""
        return (
            f"{self.kills} kills, {self.freezes} freezes, {self.restarts} database restarts in "
            f"{self.seconds:.0f} s; {self.writes} acknowledged writes, {self.lost_writes} lost; "
            f"{len(self.violations)} violations{acts}"
        )


def drive(url: str, database: Database, seconds: float, seed: int, folder: Path) -> RunTotals:
    chaos = Chaos(url, database, seed, folder)
    try:
        chaos.start()
        chaos.disturb(seconds)
        return replace(chaos.come_to_rest(), seconds=seconds)
    finally:
        chaos.end()


class Chaos:
    def __init__(self, url: str, database: Database, seed: int, folder: Path) -> None:
        self._url = url
        self._database = database
        self._folder = folder
        self._address = str(folder / "world.sock")
        self._authkey = secrets.token_bytes(16)
        self._random = random.Random(seed)
        self._seed = seed
        self._context = multiprocessing.get_context("forkserver")
        self._context.set_forkserver_preload(PRELOADED)
        self._world: BaseProcess | None = None
        self._runners: dict[str, BaseProcess] = {}
        self._frozen: dict[str, float] = {}
        self._born = 0
        self._kills = self._freezes = self._restarts = 0
        self._died: list[str] = []

    def start(self) -> None:
        arguments = (self._url, self._seed, self._address, self._authkey)
        self._world = self._context.Process(target=host.serve, args=arguments, daemon=True)
        self._world.start()
        while not os.path.exists(self._address):
            time.sleep(0.05)
        for _ in range(RUNNERS):
            self._bear()

    def _bear(self) -> None:
        self._born += 1
        owner = f"runner-{self._born}"
        arguments = (self._url, self._address, self._authkey, str(self._folder / f"{owner}.notes"), owner)
        process = self._context.Process(target=runner.run, args=arguments, daemon=True)
        process.start()
        self._runners[owner] = process

    def disturb(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        kill_at = time.monotonic() + 2.0
        restart_at = time.monotonic() + self._random.uniform(*RESTART_EVERY_SECONDS)
        while time.monotonic() < end:
            time.sleep(0.05)
            self._thaw()
            if time.monotonic() >= kill_at:
                self._strike()
                kill_at = time.monotonic() + self._random.uniform(*KILL_EVERY_SECONDS)
            if time.monotonic() >= restart_at:
                self._database.restart()
                self._restarts += 1
                restart_at = time.monotonic() + self._random.uniform(*RESTART_EVERY_SECONDS)

    def _strike(self) -> None:
        awake = [owner for owner in self._runners if owner not in self._frozen]
        if not awake:
            return
        owner = self._random.choice(awake)
        process = self._runners[owner]
        if not process.is_alive():
            self._died.append(f"{owner} ended by itself with {process.exitcode}")
            del self._runners[owner]
            self._bear()
            return
        if self._random.random() < FREEZE_SHARE:
            os.kill(process.pid or 0, signal.SIGSTOP)
            self._frozen[owner] = time.monotonic() + self._random.uniform(*FREEZE_SECONDS)
            self._freezes += 1
            return
        process.kill()
        process.join()
        del self._runners[owner]
        self._kills += 1
        self._bear()

    def _thaw(self, all_of_them: bool = False) -> None:
        for owner, until in list(self._frozen.items()):
            if all_of_them or time.monotonic() >= until:
                os.kill(self._runners[owner].pid or 0, signal.SIGCONT)
                del self._frozen[owner]

    def come_to_rest(self) -> RunTotals:
        """No more disturbance: everything in progress must end, then what is left is judged."""
        self._thaw(all_of_them=True)
        world = host.knock(self._address, self._authkey)
        world.settle()
        store = open_store(self._url)
        end = time.monotonic() + SETTLE_SECONDS
        quiet_since = 0.0
        while time.monotonic() < end and (not quiet_since or time.monotonic() < quiet_since + 6):
            time.sleep(0.25)
            try:
                record = store.load()
            except EbbtideError:
                continue
            busy = record.operation is not None or record.spots or record.orphans
            quiet_since = 0.0 if busy else quiet_since or time.monotonic()
        for process in self._runners.values():
            process.kill()
            process.join()
        record = store.load()
        violations, totals = world.finish(record)
        if record.operation is not None or record.spots:
            violations.append(
                f"still in progress after {SETTLE_SECONDS} s: {record.operation or record.spots}"
            )
        waiting = [pod.full_name for pod in world.read().pods if pod.waiting]
        if waiting:
            violations.append(f"{waiting[0]} still waits")
        ready = sum(1 for node in world.read().workers if node.ready)
        if not SETTINGS.min_workers <= ready <= SETTINGS.max_workers:
            violations.append(f"{ready} ready workers at the end")
        writes, lost, broken = verify_writes(self._folder, store)
        if not writes or not totals["launched"] or not totals["removed"]:
            broken.append("nothing was ever written, launched or removed, so nothing was shown")
        acts = ", ".join(f"{number} {name}" for name, number in totals.items())
        store.close()
        return RunTotals(
            0.0,
            self._kills,
            self._freezes,
            self._restarts,
            writes,
            lost,
            acts,
            tuple(violations + broken + self._died),
        )

    def end(self) -> None:
        self._thaw(all_of_them=True)
        for process in [*self._runners.values(), self._world]:
            if process is not None and process.is_alive():
                process.kill()
                process.join()
