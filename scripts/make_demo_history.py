"""Play the month that the demo has behind it, with the real engine, and keep its log in the package.

    python -m scripts.make_demo_history        writes src/ebbtide/simulator/run/history.json.gz

It takes about twenty minutes. The same seed gives the same month. Time goes in larger steps than in the demo:
nobody watches.
"""

from __future__ import annotations

import sys
from pathlib import Path

from ebbtide.model.log import LogEntry
from ebbtide.simulator.run import history
from ebbtide.simulator.run.live import RUSH_BUSY_SECONDS, RUSH_SECONDS, Live
from ebbtide.simulator.run.scenes import shop_scene

SEED = 7
END = 1_794_319_200
"""Two in the afternoon of a Tuesday in November, in UTC."""
DAYS = 31
DAY_SECONDS = 86_400
MOST_A_DAY = 20_000


def play(days: int) -> bytes:
    start = END - days * DAY_SECONDS
    live = Live(SEED, start, shop_scene())
    kept: list[LogEntry] = []
    for day in range(days):
        until = start + (day + 1) * DAY_SECONDS
        while live.stage.clock.now() < until:
            live.step(RUSH_SECONDS, RUSH_BUSY_SECONDS)
        last = kept[-1].id if kept else ""
        newest = live.ports.store.read_log(history.KEPT, limit=MOST_A_DAY)
        kept += [entry for entry in reversed(newest) if entry.id > last and entry.at < END]
        workers = len(live.stage.world.view().workers)
        print(f"day {day + 1}: {workers} workers, {len(kept)} entries", flush=True)
    return history.written(kept, END)


def main() -> None:
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(history.__file__).with_name(history.FILE)
    data = play(DAYS)
    path.write_bytes(data)
    print(f"{len(data)} bytes in {path}")


if __name__ == "__main__":
    main()
