"""Ticks while the API is under attack, against ticks of the same process while it is left alone.

The process has 1,024 descriptors, a SQLite file as its store, and a simulated cluster; it ticks all the time,
and every tick opens its store. From a second process, over loopback: 200 listeners of the event stream with a
valid token, 2,000 half-open connections that are opened again when they are closed, and 500 requests a second
with made-up tokens, each on a connection of its own. Quiet and loaded stretches take turns, so whatever else
the machine does meets both. No tick may fail, nor take more than twice its time.

The time of a tick is the CPU time that its whole process uses from its beginning to its end: its own work,
and that of the API, for which it waits because one interpreter runs both. On a machine with a free core that
is what a clock on the wall shows. On a busy machine that clock shows the neighbours too: it is printed, and
not judged.
`python -m bench.bench_api_load [--rounds N] [--seconds N]`
"""

from __future__ import annotations

import argparse
import asyncio
import json
import resource
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from itertools import count
from pathlib import Path

from ebbtide.adapters.stores.sql.store import SqlStore
from ebbtide.engine.loop import guarded_tick
from ebbtide.entrypoints.api.app import make_app
from ebbtide.entrypoints.api.serving import served
from ebbtide.entrypoints.api.site import Scope, Sight, Site, Token, digest_of
from ebbtide.model.snapshot import Snapshot
from ebbtide.simulator.run.runner import ports_of, stage_of
from ebbtide.simulator.run.scenes import settings_of_demo, world_of_demo

DESCRIPTORS = 1024
HALF_OPEN, RUBBISH_PER_SECOND, LISTENERS = 2000, 500, 200
AIM_RATIO = 2.0
TICK_SECONDS, PAUSE_SECONDS = 30.0, 0.02
START = 1_900_000_000
READER = "ebb_reader"
SLICE_SECONDS = 0.02
LET_IN_SECONDS = 30.0
AFTER_SECONDS = 1.0
"""After an attack, until its last connections are gone: neither quiet nor loaded."""


@dataclass(frozen=True)
class Times:
    wall: float
    process: float
    thread: float

    @classmethod
    def now(cls) -> Times:
        return cls(time.monotonic(), time.process_time(), time.thread_time())

    def since(self, before: Times) -> Times:
        return Times(self.wall - before.wall, self.process - before.process, self.thread - before.thread)


def ticking(folder: Path) -> None:
    """The process that is attacked. Prints its port, then a line for every tick, until its input ends."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (DESCRIPTORS, hard))
    settings = settings_of_demo()
    stage = stage_of(world_of_demo(settings, 1, START), settings)
    store = SqlStore.open(f"sqlite:///{folder}/ebbtide.db", stage.clock, settings.cluster)
    ports = replace(ports_of(stage), store=store)
    ids = count(1)
    site = Site(
        store=store,
        settings=settings,
        sight=Sight(lambda: Snapshot(0), stage.clock),
        clock=stage.clock,
        new_id=lambda: f"api-{next(ids):08d}",
        tokens=(Token("reader", Scope.READ, digest_of(READER)),),
        rate_per_minute=100_000,
    )
    stop = threading.Event()

    def wait_for_the_end() -> None:
        sys.stdin.read()
        stop.set()

    threading.Thread(target=wait_for_the_end, daemon=True).start()
    with served(make_app(site), "127.0.0.1", 0) as port:
        print(port, flush=True)
        while not stop.wait(PAUSE_SECONDS):
            due, began = stage.clock.now() + TICK_SECONDS, Times.now()
            report = guarded_tick(ports, settings, "bench", TICK_SECONDS)
            failed = "" if report.held else report.says
            took = Times.now().since(began)
            print(json.dumps([began.wall, took.wall, took.process, took.thread, failed]), flush=True)
            stage.clock.move_to(max(due, stage.clock.now()))
            stage.world.advance_to(stage.clock.now())


@dataclass
class Attack:
    """All that comes over the network in one stretch."""

    port: int
    answers: Counter[str] = field(default_factory=Counter)
    reopened: int = 0
    listening: int = 0
    events: int = 0
    sent: int = 0
    since: float = 0.0
    until: float = 0.0
    _sent: set[asyncio.Task[None]] = field(default_factory=set)

    async def run(self, seconds: float) -> None:
        """For so long, counted from the moment when the listeners are there."""
        heard = [asyncio.Event() for _ in range(LISTENERS)]
        tasks = [asyncio.create_task(self._listen(each)) for each in heard]
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.gather(*(each.wait() for each in heard)), LET_IN_SECONDS)
        tasks += [asyncio.create_task(self._half_open()) for _ in range(HALF_OPEN)]
        tasks += [asyncio.create_task(self._rubbish(seconds))]
        self.since = time.monotonic()
        await asyncio.sleep(seconds)
        self.until = time.monotonic()
        tasks += self._sent
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _half_open(self) -> None:
        while True:
            with suppress(OSError):
                reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
                try:
                    writer.write(b"GET /api/v1/status HTTP/1.1\r\nHost: 127.0")
                    await reader.read()
                finally:
                    writer.transport.abort()
            self.reopened += 1
            await asyncio.sleep(1)

    async def _listen(self, heard: asyncio.Event) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(asked("/api/v1/events", READER, "keep-alive"))
                code = ((await reader.readline()).split() or [b"", b"closed"])[1].decode()
                answered = code == "200"
                self.listening += answered
                self.answers[f"listener: {code}"] += not answered
                heard.set()
                while answered and (line := await reader.readline()):
                    self.events += line.startswith(b"event:")
            finally:
                writer.transport.abort()
        except OSError as error:
            self.answers[f"listener: {type(error).__name__}"] += 1
        finally:
            heard.set()  # a caller that was not let in is not waited for

    async def _rubbish(self, seconds: float) -> None:
        began = time.monotonic()
        for number in range(int(seconds * RUBBISH_PER_SECOND)):
            if (early := began + number / RUBBISH_PER_SECOND - time.monotonic()) > SLICE_SECONDS:
                await asyncio.sleep(early)
            task = asyncio.create_task(self._ask(f"ebb_{number}"))
            self.sent += 1
            self._sent.add(task)
            task.add_done_callback(self._sent.discard)

    async def _ask(self, token: str) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                writer.write(asked("/api/v1/status", token, "close"))
                answer = await reader.read()
            finally:
                writer.transport.abort()
        except OSError as error:
            self.answers[type(error).__name__] += 1
            return
        self.answers[answer[9:12].decode() or "closed"] += 1


def asked(path: str, token: str, connection: str) -> bytes:
    return (
        f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {token}\r\n"
        f"Connection: {connection}\r\n\r\n"
    ).encode()


@dataclass
class Tick:
    at: float
    wall: float
    process: float
    """CPU time of the whole process while it continued."""
    thread: float
    """Of its own thread alone."""
    failed: str


@dataclass(frozen=True)
class Told:
    """Median and 99th percentile, in seconds of CPU time, and the median on the wall."""

    middle: float
    late: float
    wall: float


def told(name: str, ticks: Sequence[Tick]) -> Told:
    took = sorted(tick.process for tick in ticks)
    found = Told(
        statistics.median(took),
        took[int(len(took) * 0.99)],
        statistics.median(tick.wall for tick in ticks),
    )
    failed = [tick.failed for tick in ticks if tick.failed]
    own = statistics.median(tick.thread for tick in ticks)
    print(
        f"{name:<8} {len(took):5} ticks, {len(failed)} failed; CPU: median {found.middle * 1000:5.1f} ms "
        f"(its own thread {own * 1000:5.1f} ms), p99 {found.late * 1000:5.1f} ms, "
        f"longest {took[-1] * 1000:5.1f} ms; on the wall: median {found.wall * 1000:5.1f} ms"
    )
    for says in failed[:3]:
        print(f"  failed: {says}")
    return found


def measured(rounds: int, seconds: float) -> tuple[list[Tick], list[Tick], list[Attack]]:
    ticks: list[Tick] = []
    attacks: list[Attack] = []
    around: list[tuple[float, float]] = []
    with tempfile.TemporaryDirectory(prefix="ebb-load-") as folder:
        command = [sys.executable, "-m", "bench.bench_api_load", "--ticking", folder]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            out, port = child.stdout, int(child.stdout.readline())
            reading = threading.Thread(target=lambda: ticks.extend(Tick(*json.loads(line)) for line in out))
            reading.start()
            time.sleep(seconds / 2)  # the first ticks make the first nodes
            began = time.monotonic()
            for _ in range(rounds):
                time.sleep(seconds)
                attack, since = Attack(port), time.monotonic()
                asyncio.run(attack.run(seconds))
                around.append((since, time.monotonic() + AFTER_SECONDS))
                attacks.append(attack)
                time.sleep(AFTER_SECONDS)
            child.stdin.close()
            reading.join()
    during = [tick for tick in ticks if any(one.since <= tick.at < one.until for one in attacks)]
    quiet = [
        tick for tick in ticks if tick.at >= began and not any(low <= tick.at < high for low, high in around)
    ]
    return quiet, during, attacks


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--seconds", type=float, default=6.0, help="of each stretch")
    parser.add_argument("--ticking", type=Path, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.ticking:
        ticking(given.ticking)
        return 0
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(hard, 8192)), hard))
    quiet, during, attacks = measured(given.rounds, given.seconds)
    calm, busy = told("quiet", quiet), told("loaded", during)
    answers = sum((attack.answers for attack in attacks), Counter[str]())
    sent = sum(attack.sent for attack in attacks)
    print(f"made-up tokens: {sent / given.rounds / given.seconds:.0f} a second, answered {dict(answers)}")
    print(f"half-open: {HALF_OPEN} at a time, closed {sum(attack.reopened for attack in attacks)} times")
    heard = [f"{attack.listening} with {attack.events} events" for attack in attacks]
    print(f"listeners let in, and what they heard: {', '.join(heard)}")
    middle, late = busy.middle / calm.middle, busy.late / calm.late
    print(
        f"ratio of medians {middle:.2f}, of p99 {late:.2f} (aim: at most {AIM_RATIO}); "
        f"on the wall {busy.wall / calm.wall:.2f}"
    )
    failed = any(tick.failed for tick in (*quiet, *during))
    return 1 if failed or middle > AIM_RATIO or late > AIM_RATIO else 0


if __name__ == "__main__":
    sys.exit(main())
