"""One runner: ticks without end, and writes down every write that the database acknowledged."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from ebbtide.bootstrap import SystemClock, TimeOrderedIds
from ebbtide.engine.loop import guarded_tick
from ebbtide.engine.ports import Ports
from ebbtide.errors import EbbtideError
from ebbtide.ports import Store
from tests.chaos.host import knock
from tests.chaos.notes import Acknowledged, Silent
from tests.chaos.setting import SETTINGS, TICK_SECONDS
from tests.chaos.stores import open_store


def run(url: str, address: str, authkey: bytes, notes: str, owner: str) -> None:
    clock = SystemClock()
    store = Acknowledged(_opened(url), Path(notes))
    world: Any = knock(address, authkey)
    ports = Ports(store, world, world, world, world, Silent(), clock, TimeOrderedIds())
    while True:
        guarded_tick(ports, SETTINGS, owner, TICK_SECONDS)
        clock.sleep(TICK_SECONDS)


def _opened(url: str) -> Store:
    """The database may be restarting just now."""
    while True:
        try:
            return open_store(url)
        except EbbtideError:
            time.sleep(0.2)
