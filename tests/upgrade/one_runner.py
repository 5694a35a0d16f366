"""One runner of whichever version of Ebbtide is on the path, told by its input when to tick.

    PYTHONPATH=.../src python -P one_runner.py OWNER WORLD STORE_URL SETTINGS

Each line of its input is a time; it ticks once at that time, on the world in its file and the record in its
store, and answers with a line of JSON: the version of its code, what it said, and what is still open.
"""

from __future__ import annotations

import json
import sys
from itertools import count
from pathlib import Path

import msgspec

import ebbtide
from ebbtide.adapters.stores.sql import SqlStore
from ebbtide.engine.loop import guarded_tick
from ebbtide.engine.outside import Outside
from ebbtide.model.settings import Settings
from ebbtide.simulator.clock import VirtualClock
from ebbtide.simulator.persistent import FileCloud, FileCluster, FileInbox, FileMetrics, WorldFile
from ebbtide.simulator.ports import SimNotifier


def main(owner: str, world: str, store_url: str, settings: str) -> None:
    clock = VirtualClock(0)
    file = WorldFile(Path(world), clock)
    ids = count(1)
    outside = Outside(
        store=SqlStore.open(store_url, clock, "cluster"),
        cluster=FileCluster(file),
        cloud=FileCloud(file),
        metrics=FileMetrics(file),
        inbox=FileInbox(file),
        notifier=SimNotifier(),
        clock=clock,
        new_id=lambda: f"{int(clock.now())}-{owner}-{next(ids):06d}",
    )
    rules = msgspec.json.decode(Path(settings).read_bytes(), type=Settings)
    for line in sys.stdin:
        clock.sleep(float(line) - clock.now())
        says = guarded_tick(outside, rules, owner, 30).says
        record = outside.store.load()
        works = [work.id for work in (record.operation, *record.spots) if work is not None]
        answer = {"code": ebbtide.__file__, "says": says, "open": works}
        print(json.dumps(answer), flush=True)
    outside.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
