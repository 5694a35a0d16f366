"""One runner of whichever version of Ebbtide is on the path, told by its input when to tick.

    PYTHONPATH=.../src python -P one_runner.py OWNER WORLD STORE_URL SETTINGS

Each line of its input is a time; it ticks once at that time, on the world in its file and the record in its
store, and answers with a line of JSON: the version of its code, what it said, and what is still open.
"""

from __future__ import annotations

import json
import sys
from importlib import import_module
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

import ebbtide
from ebbtide.engine.loop import guarded_tick
from ebbtide.model.settings import Settings


def either(new: str, old: str) -> Any:
    """A module under today's name or, in an earlier version, under the one it had then."""
    try:
        return import_module(f"ebbtide.{new}")
    except ImportError:
        return import_module(f"ebbtide.{old}")


SqlStore = either("adapters.stores.sql.store", "adapters.stores.sql").SqlStore
VirtualClock = either("simulator.world.clock", "simulator.clock").VirtualClock
SimNotifier = either("simulator.world.ports", "simulator.ports").SimNotifier
persistent = either("simulator.run.persistent", "simulator.persistent")
today = either("engine.ports", "engine.outside")
Ports = vars(today).get("Ports") or vars(today)["Outside"]


def main(owner: str, world: str, store_url: str, settings: str) -> None:
    clock = VirtualClock(0)
    file = persistent.WorldFile(Path(world), clock)
    ids = count(1)
    ports = Ports(
        store=SqlStore.open(store_url, clock, "cluster"),
        cluster=persistent.FileCluster(file),
        cloud=persistent.FileCloud(file),
        metrics=persistent.FileMetrics(file),
        inbox=persistent.FileInbox(file),
        notifier=SimNotifier(),
        clock=clock,
        new_id=lambda: f"{int(clock.now())}-{owner}-{next(ids):06d}",
    )
    rules = msgspec.json.decode(Path(settings).read_bytes(), type=Settings)
    for line in sys.stdin:
        clock.sleep(float(line) - clock.now())
        says = guarded_tick(ports, rules, owner, 30).says
        record = ports.store.load()
        works = [work.id for work in (record.operation, *record.spots) if work is not None]
        answer = {"code": ebbtide.__file__, "says": says, "open": works}
        print(json.dumps(answer), flush=True)
    ports.store.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
