"""The two pure steps of a tick: bring the record up to date, and decide.

`ports.thinking` carries them out. `ALWAYS` computes every time. A simulation may use `engine.steady`, which
does not compute again what provably comes out the same.
"""

from __future__ import annotations

from typing import Protocol

from ebbtide.core.consolidation.emptied_nodes import track_leaving
from ebbtide.core.nodes import decide
from ebbtide.core.nodes.orphans import track_orphans
from ebbtide.core.nodes.timers import track
from ebbtide.core.nodes.unwell import track_unfit
from ebbtide.model.decision import Decision
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings
from ebbtide.model.snapshot import Snapshot

Tracked = tuple[Record, tuple[str, ...]]
"""The record with its timers brought up to now, and warnings to say aloud."""


class Thinking(Protocol):
    def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked: ...

    def decide(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str
    ) -> Decision: ...


class Always:
    """Computes every time."""

    def track(self, snapshot: Snapshot, record: Record, settings: Settings, now: int) -> Tracked:
        record, warnings = track(snapshot, record, settings, now)
        record = track_leaving(snapshot, record, now)
        record = track_orphans(snapshot, record, settings, now)
        return track_unfit(snapshot, record, settings, now), warnings

    def decide(
        self, snapshot: Snapshot, record: Record, settings: Settings, now: int, decision_id: str
    ) -> Decision:
        return decide.decide(snapshot, record, settings, now, decision_id)


ALWAYS = Always()
