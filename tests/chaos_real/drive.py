"""Start the runners, disturb them and the network at random, let them come to rest, and judge."""

from __future__ import annotations

import random
import signal
import threading
import time
from collections import Counter
from pathlib import Path

from tests.chaos.verify import verify_writes
from tests.chaos_real.nursery import Child, Nursery
from tests.chaos_real.patience import BUSY, patiently, repeatedly
from tests.chaos_real.runner import Order
from tests.chaos_real.setting import INTERVAL_SECONDS, PLAIN
from tests.chaos_real.stand import Stand
from tests.chaos_real.totals import RunTotals

MORTAL = 7
"""Runners that are killed, of which some are of the other version; one more is only frozen."""
OTHERS = 2
STRIKE_SECONDS = (0.6, 1.5)
FREEZE_SECONDS = (0.5, 8.0)
FREEZE_SHARE = 0.15
SPARED_SHARE = 0.07
"""Of all strikes, those that freeze the one that is never killed."""
KEEPS_LEASE = 0.3
SETTLE_LOOKS, LOOK_SECONDS = 600, 0.4
"""How long it may take to come to rest, in looks: they take longer on a busy machine, as all else does."""
HUNT_LOOKS = 150
"""For a bug that was planted: what it does lasts, and only what it does counts."""
QUIET_SECONDS = 5.0
FIRST_LOOK_SECONDS = 180.0
UNEXPECTED = ("tick failed unexpectedly", "not opened, unexpectedly")


class Drive:
    def __init__(
        self, stand: Stand, nurseries: list[Nursery], seed: int, folder: Path, hunts: str = ""
    ) -> None:
        """`hunts`: it is over as soon as a violation with this text was seen."""
        self._hunts = hunts
        self._stand = stand
        self._nurseries = nurseries
        self._chance = random.Random(f"{seed}-drive")
        self._folder = folder
        self._runners: list[Child | None] = [None] * (MORTAL + 1)
        self._thaws_at: dict[int, float] = {}
        self._born = 0
        self._stop = threading.Event()
        self._threads: list[threading.Thread] = []
        self._found = RunTotals()

    def run(self, seconds: float) -> RunTotals:
        stand, witness = self._stand, self._stand.witness
        for look, pause in (
            (stand.machines.look, 0.9),
            (witness.watch_record, 0.5),
            (witness.watch_nodes, 0.1),
            (witness.watch_sleeper, 0.5),
        ):
            self._threads.append(repeatedly(look, pause, self._stop))
        try:
            for place in range(len(self._runners)):
                self._bear(place)
            self._disturb(seconds)
            if not self._caught:
                self._rest()
        finally:
            self._end()
        self._judge(seconds)
        return self._found

    def _bear(self, place: int, rolled_out: bool = False) -> None:
        """The first is spared and gives the lease back after each tick, as some of the others do: else those
        who are killed would leave it behind most of the time. The last are of the other version, until that
        is `rolled_out`."""
        self._born += 1
        version = len(self._nurseries) - 1 if place > MORTAL - OTHERS and not rolled_out else 0
        order = Order(
            f"runner-{self._born}-{'other' if version else 'this'}",
            str(self._stand.config.with_name(PLAIN) if version else self._stand.config),
            str(self._folder),
            INTERVAL_SECONDS,
            keeps_lease=place > 0 and self._chance.random() < KEEPS_LEASE,
        )
        self._runners[place] = self._nurseries[version].bear(order)

    def _disturb(self, seconds: float) -> None:
        started = time.monotonic()
        look_at = started + min(FIRST_LOOK_SECONDS, seconds / 3)
        strike_at, first = started + 2.0, 0
        weather = repeatedly(
            lambda: self._stand.weather.turn(self._stand.witness), 0.8, stop := threading.Event()
        )
        while (now := time.monotonic()) < started + seconds and not self._caught:
            time.sleep(0.03)
            self._thaw(now)
            if now >= strike_at:
                self._strike()
                strike_at += self._chance.uniform(*STRIKE_SECONDS)
            if not first and now >= look_at and self._runners[0] is not None and self._runners[0].alive:
                first = self._runners[0].resident_kib
        if not weather.is_alive():
            self._found.violations.append("the thread that makes the weather ended by itself")
        stop.set()
        weather.join(30)
        spared = self._runners[0]
        if spared is None or not spared.alive:
            self._found.violations.append("the runner that is never killed ended by itself")
        else:
            self._found.memory.append((first, spared.resident_kib))

    @property
    def _caught(self) -> bool:
        return bool(self._hunts) and any(self._hunts in one for one in self._stand.witness.violations)

    def _strike(self) -> None:
        spared = self._chance.random() < SPARED_SHARE
        places = range(1) if spared else range(1, len(self._runners))
        awake = [place for place in places if place not in self._thaws_at]
        if not awake:
            return
        place = self._chance.choice(awake)
        child = self._runners[place]
        if child is None:
            return
        if not child.alive:
            self._ended_by_itself(child)
            self._bear(place)
            return
        if place == 0 or self._chance.random() < FREEZE_SHARE:
            child.signal(signal.SIGSTOP)
            self._thaws_at[place] = time.monotonic() + self._chance.uniform(*FREEZE_SECONDS)
            self._found.freezes += 1
            return
        child.end()
        self._found.kills += 1
        self._bear(place)

    def _ended_by_itself(self, child: Child) -> None:
        child.end()
        log = self._folder / f"{child.owner}.log"
        said = log.read_text(errors="replace").splitlines() if log.exists() else []
        told = self._found.held_against(child.owner)
        told.append(f"{child.owner} ended by itself: {said[-1][:300] if said else 'it said nothing'}")

    def _thaw(self, now: float) -> None:
        for place in [place for place, at in self._thaws_at.items() if now >= at]:
            child = self._runners[place]
            if child is not None:
                child.signal(signal.SIGCONT)
            del self._thaws_at[place]

    def _rest(self) -> None:
        """No more disturbance: everything in progress must end, then what is left is judged."""
        stand = self._stand
        self._thaw(float("inf"))
        stand.network.calm()
        self._complete_the_roll_out()
        self._doze()
        patiently(lambda: stand.weather.settle(stand.witness))
        patiently(stand.machines.recover)
        quiet_since, unsettled = 0.0, ["nothing was looked at"]
        looks = HUNT_LOOKS if self._hunts else SETTLE_LOOKS
        for _ in range(looks):
            time.sleep(LOOK_SECONDS)
            try:
                unsettled = stand.witness.unsettled(stand.store.load())
            except BUSY:
                continue
            quiet_since = 0.0 if unsettled else quiet_since or time.monotonic()
            if quiet_since and time.monotonic() >= quiet_since + QUIET_SECONDS:
                return
        late = f"{looks} looks after the last fault"
        self._found.violations += [f"{late}: {one}" for one in unsettled or ["only now at rest"]]

    def _complete_the_roll_out(self) -> None:
        """The other version has another configuration, without consolidation: each of the two gives back the
        nodes that the other begins to remove, for as long as there are both."""
        for place in range(MORTAL - OTHERS + 1, len(self._runners)):
            child = self._runners[place]
            if child is not None:
                child.end()
            self._bear(place, rolled_out=True)

    def _doze(self) -> None:
        """Until the sleeper sleeps and a node was removed: a run that was short, or on a busy machine, has
        otherwise nothing to wake when it is asked for again."""
        patiently(self._stand.weather.doze)
        witness = self._stand.witness
        for _ in range(SETTLE_LOOKS):
            if witness.asleep and witness.removals:
                return
            time.sleep(LOOK_SECONDS)

    def _judge(self, seconds: float) -> None:
        found, witness = self._found, self._stand.witness
        found.seconds = seconds
        found.faults = self._stand.network.counts()
        found.launches, found.removals = witness.launches, witness.removals
        found.losses, found.excused = witness.losses, witness.excused
        found.sleeps, found.silences = witness.sleeps, self._stand.machines.silences
        found.writes, found.lost_writes, broken = verify_writes(self._folder, self._stand.store)
        found.by_other = sum(
            len(notes.read_text().splitlines()) for notes in self._folder.glob("*-other.notes")
        )
        found.violations += [*witness.violations, *broken, *self._unexpected("this")]
        found.of_other = self._unexpected("other")
        found.judge_memory()
        if not self._hunts:
            found.judge_coverage(witness.changes, len(self._nurseries))

    def _unexpected(self, version: str) -> list[str]:
        """Errors that none of the product's own kinds stand for, as the runners of one version told them."""
        lines: Counter[str] = Counter()
        for log in self._folder.glob(f"*-{version}.log"):
            for line in log.read_text(errors="replace").splitlines():
                if any(mark in line for mark in UNEXPECTED):
                    lines[line.partition(" ")[2][:300]] += 1
        return [f"{count} x {line}" for line, count in lines.items()]

    def _end(self) -> None:
        if not all(thread.is_alive() for thread in self._threads):
            self._found.violations.append("a thread that watches ended by itself, so not all was judged")
        self._stop.set()
        for child in self._runners:
            if child is not None:
                child.end()
        for thread in self._threads:
            thread.join(30)
