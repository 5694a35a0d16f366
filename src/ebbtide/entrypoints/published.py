"""A backtest for the pages: one entry in the log of the cluster it is about. The newest one is shown.

An entry is there whole or not at all, in every kind of store, and an older version reads its sentence.
"""

from __future__ import annotations

from ebbtide.model.events import BacktestPublished
from ebbtide.model.log import LogKind
from ebbtide.narrate import entry_of, fact_in
from ebbtide.ports import Store

SUBJECT = "backtest"


def publish(store: Store, entry_id: str, at: int, fact: BacktestPublished) -> None:
    store.append([entry_of(entry_id, at, fact, SUBJECT)])


def last_published(store: Store) -> tuple[int, BacktestPublished] | None:
    """When, and what. One that a newer version wrote in another shape is not shown."""
    for entry in store.read_log([LogKind.SWITCH], SUBJECT, limit=1):
        fact = fact_in(entry, BacktestPublished)
        return None if fact is None else (entry.at, fact)
    return None
