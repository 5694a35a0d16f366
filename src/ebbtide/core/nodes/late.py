"""Instances that should have joined by now: pods do not wait for them, and others are launched with spares.

An instance that is late still counts against every maximum and is followed until it joins or is reclaimed.
But it no longer counts as room. While some are late, more are likely to be: the next launch gets spare nodes
in proportion to the share that is late. A spare that stays empty is removed like any empty node.
"""

from __future__ import annotations

from math import ceil

from ebbtide.model.operation import Slot, SlotState
from ebbtide.model.record import Record
from ebbtide.model.settings import Settings


def is_late(slot: Slot, settings: Settings, now: int) -> bool:
    """Running for longer than a join takes, without a Node object. Where no time is set, nothing is late
    before it is reclaimed."""
    limit = settings.late_join_seconds
    return bool(limit) and slot.state is SlotState.LAUNCHED and now - slot.since >= limit


def spares(record: Record, settings: Settings, now: int, count: int) -> int:
    """How many more to launch next to so many, by what became of the slots that are followed now."""
    slots = record.launching.slots if record.launching is not None else ()
    late = sum(1 for slot in slots if is_late(slot, settings, now))
    ready = sum(1 for slot in slots if slot.state is SlotState.READY)
    return ceil(count * late / (late + ready)) if late else 0
